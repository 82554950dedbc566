# SPDX-License-Identifier: Apache-2.0
# The settings that the environment may change, with their defaults; bench/run --help describes them. Sourced by bench/run,
# which records all of them in the results, and by bench/lib/parts.
# shellcheck shell=bash disable=SC2034  # used by the scripts that source this

SETTINGS=(RELEASE AGENTS ROUNDS SLOW_ROUNDS ENDPOINTS REQUESTS WORKLOADS IPTABLES IPTABLES_ENDPOINTS SIZES SIZES_IPTABLES CHANGES SLICES ROLLING
	ROLLING_ELSEWHERE RATE STEADY STEADY_IPTABLES COST_CHANGES NODES NODES_ENDPOINTS FLOWS SPAN ROUTES MOST GROWTH_SIZES PEER_PATIENCE)

# The Kubernetes release of the control plane and of kube-proxy: 1.37, or 1.36. The path or agent nftables-1.36 adds the older
# kube-proxy to the comparison.
RELEASE=${RELEASE:-1.37}
# The agents that take turns in the part updates.
AGENTS=${AGENTS:-nftables sluice}
# Rounds of all measurements, and of slow ones: kube-proxy's iptables mode, and sizes with many objects.
ROUNDS=${ROUNDS:-3} SLOW_ROUNDS=${SLOW_ROUNDS:-2}
# Seconds within which a peer must become ready.
PEER_PATIENCE=${PEER_PATIENCE:-180}
# Endpoints in the parts connections and cost.
ENDPOINTS=${ENDPOINTS:-100000}
# The published workload: requests, endpoints, the iptables variant that kube-proxy runs, and the number of endpoints if
# kube-proxy does not become ready with more.
REQUESTS=${REQUESTS:-50000} WORKLOADS=${WORKLOADS:-100000 120000} IPTABLES=${IPTABLES:-legacy} IPTABLES_ENDPOINTS=${IPTABLES_ENDPOINTS:-10000}
# The part updates; CHANGES and SLICES are the numbers of each per round.
SIZES=${SIZES-1x100000 5000x20 50000x2 1x1000000} SIZES_IPTABLES=${SIZES_IPTABLES-1x100000}
CHANGES=${CHANGES:-3} SLICES=${SLICES:-2} ROLLING=${ROLLING:-10000} ROLLING_ELSEWHERE=${ROLLING_ELSEWHERE:-1000} RATE=${RATE:-100}
# Requests per second to the service's address during changes; fewer if each takes milliseconds of CPU time.
STEADY=${STEADY:-200} STEADY_IPTABLES=${STEADY_IPTABLES:-20}
# The part cost: changes, and the cluster size to which one agent's cost is scaled.
COST_CHANGES=${COST_CHANGES:-300} NODES=${NODES:-15000} NODES_ENDPOINTS=${NODES_ENDPOINTS:-1000000}
# The parts packets, connections and growth: the larger number of flows, seconds per run, and the sizes of growth, none above
# MOST.
FLOWS=${FLOWS:-100000} SPAN=${SPAN:-2} MOST=${MOST:-1000000} GROWTH_SIZES=${GROWTH_SIZES-10 1000 10000 100000 1000000}
ROUTES=${ROUTES:-plain nftables sluice sluice-stack sluice-xdp}
