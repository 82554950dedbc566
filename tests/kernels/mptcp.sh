#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MPTCP through services: connections to a ClusterIP, whose peer is the service, to a node port, and connections that open
# further subflows through the service. With several backends a subflow may reach another backend: it is refused there, and the
# connection continues with its first subflow. With a single backend the subflow joins, in both families.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# mptcp_connections WHO: prints how many of WHO's connections used MPTCP at both ends.
mptcp_connections() { lab_in "$1" nstat -asz MPTcpExtMPCapableSYNACKRX | awk '/MPCapable/ { print $2 }'; }

# mptcp_counter COUNTER WHO...: prints the sum of that MPTCP counter in these namespaces.
mptcp_counter() {
	local who
	for who in "${@:2}"; do lab_in "$who" nstat -asz "MPTcpExt$1"; done | awk '/^MPTcpExt/ { sum += $2 } END { print sum + 0 }'
}

# single_service: creates a service of worker-a's pod only, at node port 30071.
single_service() {
	sed -e "s/bulk/single/; s/$BULK_PORT/30071/; s/96\.0\.70/96.0.71/g; s/96::70/96::71/; s/9a03$/9a04/" \
		-e '/nodeName: \(node\|worker-b\|worker-c\)}/d' "$SLUICE_ROOT/tests/kernels/bulk.yaml" >"$LAB_MANIFESTS/single.yaml"
	lab_wait 10 single_is_known || die "the agent does not know the service with one backend"
}

single_is_known() { lab_sluice services -o json | jq -e 'any(.[]; .service | startswith("default/single"))'; }

# joins ADDRESS: makes connections to the single service until a further subflow has joined at the backend. The client opens
# it only after the first subflow is established, so a connection may end before.
joins() {
	local before at=$1
	before=$(mptcp_counter MPJoinAckRx worker-a)
	lab_wait 60 one_more_joined || die "no further subflow to $at has joined: $(lab_in worker-a nstat -asz 'MPTcpExtMPJoin*')"
	printf 'to %s: further subflows that joined at the only backend: %d\n' "$at" $(($(mptcp_counter MPJoinAckRx worker-a) - before))
}

one_more_joined() {
	lab_in client python3 "$SLUICE_ROOT/tests/kernels/bulk.py" ask MPTCP "$at" 30071 300000 4 || return 1
	(($(mptcp_counter MPJoinAckRx worker-a) > before))
}

up mptcp off
bulk_service MPTCP
for who in client pod guest node; do
	before=$(mptcp_connections "$who")
	bulk_both "$who" MPTCP 100000 4
	(($(mptcp_connections "$who") >= before + 8)) || die "$who: not all connections used MPTCP"
done
counted new_remote new_from_pod flow_redirect socket_translated
ip -n "$LAB-client" address add 10.0.0.101/24 dev eth0
# Deprecated, so that first subflows use the other address and this one is left for second subflows.
ip -n "$LAB-client" address add fd00:10::101/64 dev eth0 nodad preferred_lft 0
ip -n "$LAB-client" mptcp limits set subflow 2 add_addr_accepted 2
ip -n "$LAB-client" mptcp endpoint add 10.0.0.101 dev eth0 subflow
ip -n "$LAB-client" mptcp endpoint add fd00:10::101 dev eth0 subflow
bulk_both client MPTCP 300000 8
further=$(mptcp_counter MPJoinSynRx pod "${LAB_WORKERS[@]}")
((further > 0)) || die "no further subflow reached a backend"
printf 'further subflows that reached backends: %d, of these another backend than their connection: %d\n' "$further" \
	"$(mptcp_counter MPJoinNoTokenFound pod "${LAB_WORKERS[@]}")"
ip -n "$LAB-worker-a" mptcp limits set subflow 2
single_service
joins "$NODE"
joins "$NODE6"
