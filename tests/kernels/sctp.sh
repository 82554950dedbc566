#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's SCTP through services: one-to-one and one-to-many sockets, by node port, from pods' sockets (no hook sees their
# SCTP), by a pod's device and from the node's own processes. An association with several addresses that uses no service is
# not affected: it keeps both paths, and uses the second path when the first is cut.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

SIZE=20000

# transfers PROTOCOL: checks transfers from all clients.
transfers() {
	local who
	for who in client guest pod node; do bulk_both "$who" "$1" "$SIZE"; done
}

# paths: prints the peer's addresses from which the guest's association has received heartbeat acknowledgements.
paths() { lab_in guest awk 'NR > 1 && $NF == 2 { print $1 }' /proc/net/sctp/remaddr | sort -u; }
both_paths() { [[ $(paths | wc -l) == 2 ]]; }

# several_addresses: checks an echo between the guest and a server on the worker's and its pod's address, while the first path
# is cut.
several_addresses() {
	lab_start worker-a several.log python3 "$SLUICE_ROOT/tests/kernels/several.py" serve 7001 10.244.2.10 10.0.0.21
	lab_wait 20 grep -q ready "$LAB_DIR/several.log" || die "no server: $(<"$LAB_DIR/several.log")"
	lab_start guest several-client.log python3 "$SLUICE_ROOT/tests/kernels/several.py" ask 10.244.2.10 7001 "$LAB_DIR/several-stop"
	local client=$LAB_STARTED before
	lab_wait 60 both_paths || die "the association has the paths $(paths): $(<"$LAB_DIR/several-client.log")"
	lab_in node ip route replace blackhole 10.244.2.10/32
	before=$(wc -l <"$LAB_DIR/several-client.log")
	lab_wait 60 eval "((\$(wc -l <'$LAB_DIR/several-client.log') > $before + 20))" || die "no answers arrived by the second path"
	lab_in node ip route delete blackhole 10.244.2.10/32
	touch "$LAB_DIR/several-stop"
	wait "$client" || die "the association ended: $(tail -n 2 "$LAB_DIR/several-client.log")"
	printf 'several addresses: %d answers, by two paths\n' "$(wc -l <"$LAB_DIR/several-client.log")"
}

modules sctp
up sctp off
bulk_service SCTP
transfers SCTP
transfers SCTP-MANY
counted new_remote new_from_pod flow_redirect
bulk_service SCTP-MANY
transfers SCTP
transfers SCTP-MANY
several_addresses
