# What the environment may choose, with its defaults; bench/run --help says what each is. Sourced by bench/run, which writes all of
# them into the results, and by bench/lib/parts.
# shellcheck shell=bash disable=SC2034  # for whoever sources this

SETTINGS=(ROUNDS SLOW_ROUNDS ENDPOINTS REQUESTS WORKLOADS IPTABLES IPTABLES_ENDPOINTS SIZES SIZES_IPTABLES CHANGES SLICES ROLLING
	ROLLING_ELSEWHERE RATE STEADY STEADY_IPTABLES COST_CHANGES NODES NODES_ENDPOINTS FLOWS SPAN ROUTES MOST GROWTH_SIZES PEER_PATIENCE)

# Rounds of everything, and of what takes long: kube-proxy's iptables mode, and sizes of many objects.
ROUNDS=${ROUNDS:-3} SLOW_ROUNDS=${SLOW_ROUNDS:-2}
# Seconds until a peer has to be ready.
PEER_PATIENCE=${PEER_PATIENCE:-180}
# Endpoints of connections and cost.
ENDPOINTS=${ENDPOINTS:-100000}
# Of the published workload: requests, endpoints, the iptables that kube-proxy runs, and endpoints where that does not get ready.
REQUESTS=${REQUESTS:-50000} WORKLOADS=${WORKLOADS:-100000 120000} IPTABLES=${IPTABLES:-legacy} IPTABLES_ENDPOINTS=${IPTABLES_ENDPOINTS:-10000}
# Of updates; CHANGES and SLICES are how many of each a round.
SIZES=${SIZES-1x100000 5000x20 50000x2 1x1000000} SIZES_IPTABLES=${SIZES_IPTABLES-1x100000}
CHANGES=${CHANGES:-3} SLICES=${SLICES:-2} ROLLING=${ROLLING:-10000} ROLLING_ELSEWHERE=${ROLLING_ELSEWHERE:-1000} RATE=${RATE:-100}
# Requests a second to the service's address during changes; few where each costs milliseconds of a processor.
STEADY=${STEADY:-200} STEADY_IPTABLES=${STEADY_IPTABLES:-20}
# Of cost: changes, and what one agent's cost is scaled to.
COST_CHANGES=${COST_CHANGES:-300} NODES=${NODES:-15000} NODES_ENDPOINTS=${NODES_ENDPOINTS:-1000000}
# Of packets, connections and growth: flows where there are many, seconds of one run, and the sizes of growth, none above MOST.
FLOWS=${FLOWS:-100000} SPAN=${SPAN:-2} MOST=${MOST:-1000000} GROWTH_SIZES=${GROWTH_SIZES-10 1000 10000 100000 1000000}
ROUTES=${ROUTES:-plain nftables sluice sluice-stack sluice-xdp}
