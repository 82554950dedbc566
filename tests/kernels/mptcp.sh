#!/bin/bash
# MPTCP through services: a connection by a ClusterIP, whose peer is the service, one by a node port, and one that asks for further subflows,
# which another backend may get: refused there, the connection goes on by its first.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# both_speak WHO: how many of WHO's connections were MPTCP at both ends.
both_speak() { lab_in "$1" nstat -asz MPTcpExtMPCapableSYNACKRX | awk '/MPCapable/ { print $2 }'; }

up mptcp off
bulk_service MPTCP
for who in client pod guest node; do
	before=$(both_speak "$who")
	bulk_both "$who" MPTCP 100000 4
	(($(both_speak "$who") >= before + 8)) || die "$who: not all connections were MPTCP's"
done
counted new_remote new_from_pod flow_redirect socket_translated
ip -n "$LAB-client" address add 10.0.0.101/24 dev eth0
ip -n "$LAB-client" mptcp limits set subflow 2 add_addr_accepted 2
ip -n "$LAB-client" mptcp endpoint add 10.0.0.101 dev eth0 subflow
bulk client MPTCP "$NODE" "$BULK_PORT" 300000 8
asked=$(lab_in client nstat -asz MPTcpExtMPJoinSynTx | awk '/MPJoin/ { print $2 }')
[[ -z $asked ]] || ((asked > 0)) || die "no further subflow was asked for"
printf 'further subflows asked for: %s\n' "${asked:-not counted by this kernel}"
