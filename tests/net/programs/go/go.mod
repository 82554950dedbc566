// Go's programs of tests/net/packets/real_programs.sh. Built by scripts/lib/real-programs.
module sluice.invalid/tests/net/programs/go

go 1.26.0

require (
	github.com/quic-go/quic-go v0.59.1
	google.golang.org/grpc v1.81.1
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/net v0.51.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
	golang.org/x/text v0.34.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260226221140-a57be14db171 // indirect
)
