# SPDX-License-Identifier: Apache-2.0
# Shared by the scenarios of level `kernels`: the lab of netlab.sh with other devices in it, and the common checks. They need
# modules that the build machine's kernel may lack, and therefore run only in virtual machines (scripts/test kernels/NAME).
# Sourced first.
# shellcheck shell=bash

# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"

# No feature is switched off here: the agent uses what each kernel has.
unset SLUICE_WITHOUT

WEB=10.96.0.80 WEB6=fd00:10:96::80 WEB_OUTSIDE=203.0.113.80 WEB_OUTSIDE6=2001:db8:113::80
NODE=10.0.0.10 NODE6=fd00:10::10 NODE_PORT=30080
DNS=10.96.0.10 DNS6=fd00:10:96::10
BULK=10.96.0.70 BULK6=fd00:10:96::70 BULK_PORT=30070
BULK_SERVERS=()
# How tc programs are attached on this kernel, in status' terms.
HOOKS=tcx
[[ $(uname -r) != 6.1.* ]] || HOOKS=clsact

# modules NAME...: loads modules; fails if this kernel lacks one.
modules() { modprobe -a "$@" || die "this kernel lacks one of: $*. Run scripts/test kernels/$(basename "$0" .sh)."; }

# link_of WHO DEVICE FIELD: prints a field of `ip -j link`, because /sys shows the devices of another namespace.
link_of() { ip -n "$LAB-$1" -j link show "$2" | jq -r ".[0].$3"; }

# answered WHO PROTOCOL ADDRESS PORT...: checks that local and remote backends reply at each address, and that no request
# fails (ask_all.py).
answered() {
	lab_in "$1" python3 "$SLUICE_ROOT/tests/kernels/ask_all.py" "${@:2}" ||
		die "requests of $1 fail, see above; the agent: $(tail -n 5 "$LAB_DIR/agent.log")"
}

# served WHEN: checks requests from outside, from a pod's sockets, from a pod's packets (guest) and from the node's own
# processes, in both families.
served() {
	answered client tcp "$NODE" "$NODE_PORT" tcp "$NODE6" "$NODE_PORT" tcp "$WEB_OUTSIDE" 80 tcp "$WEB_OUTSIDE6" 80
	answered pod tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53
	answered guest tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53 udp "$DNS6" 53
	answered node tcp "$WEB" 80 udp "$DNS6" 53
	printf '%s: served\n' "$1"
}

# outcome NAME: prints the outcome's count.
outcome() { lab_sluice status -o json | jq ".outcomes.$1 // 0"; }

# counted NAME...: checks that each outcome has been counted, so that the requests passed our programs.
counted() {
	local name
	for name; do (($(outcome "$name") > 0)) || die "the outcome $name was not counted: $(lab_sluice status -o json | jq -c .outcomes)"; done
}

# bulk_service PROTOCOL...: creates a service of the four pods, and starts their servers, which echo data (bulk.py, which lists
# the protocols). Each listens only on its pod's addresses: a worker's namespace also has those of the worker. Another call
# replaces the servers.
bulk_service() {
	local protocol who network pid
	for pid in "${BULK_SERVERS[@]}"; do lab_stop "$pid" KILL || true; done
	BULK_SERVERS=()
	cp "$SLUICE_ROOT/tests/kernels/bulk.yaml" "$LAB_MANIFESTS"
	for protocol; do
		for who in pod "${LAB_WORKERS[@]}"; do
			network=$(lab_pod_network "$who")
			lab_start "$who" "bulk-$protocol-$who.log" python3 "$SLUICE_ROOT/tests/kernels/bulk.py" serve "$protocol" 7000 \
				"10.244.$network.10" "fd00:10:244:$network::10"
			BULK_SERVERS+=("$LAB_STARTED")
		done
	done
	for protocol; do
		for who in pod "${LAB_WORKERS[@]}"; do
			lab_wait 20 grep -q ready "$LAB_DIR/bulk-$protocol-$who.log" || die "no server in $who: $(<"$LAB_DIR/bulk-$protocol-$who.log")"
		done
	done
	lab_wait 10 bulk_is_known || die "the agent does not know the service"
}

# bulk_is_known: whether the agent knows the service, or there is no agent yet.
bulk_is_known() { [[ -z $LAB_AGENT ]] || lab_sluice services -o json | jq -e 'any(.[]; .service | startswith("default/bulk"))'; }

# bulk WHO PROTOCOL ADDRESS PORT [BYTES [CONNECTIONS]]: sends random bytes and checks that they are echoed unchanged on each
# connection.
bulk() {
	lab_in "$1" python3 "$SLUICE_ROOT/tests/kernels/bulk.py" ask "${@:2}" || die "bulk $*: see above; the agent: $(tail -n 5 "$LAB_DIR/agent.log")"
}

# up NAME MODE [OPTION...]: starts the lab with backends, the guest and the agent, as most scenarios need. MODE is the
# agent's --xdp.
up() {
	BULK_SERVERS=()
	lab_up "$1"
	lab_guest
	lab_backends
	[[ $2 == off ]] || lab_offload off
	lab_agent --pod-devices pod --xdp "${@:2}"
}

# use_native_xdp: restarts the agent with native XDP.
use_native_xdp() {
	lab_stop "$LAB_AGENT"
	lab_offload off
	lab_agent --pod-devices pod --xdp native
}

# bulk_both WHO PROTOCOL [BYTES [CONNECTIONS]]: runs bulk in both families; for the client by the node port, for others by
# the ClusterIP.
bulk_both() {
	local who=$1 protocol=$2
	shift 2
	if [[ $who == client ]]; then
		bulk client "$protocol" "$NODE" "$BULK_PORT" "$@"
		bulk client "$protocol" "$NODE6" "$BULK_PORT" "$@"
	else
		bulk "$who" "$protocol" "$BULK" 7000 "$@"
		bulk "$who" "$protocol" "$BULK6" 7000 "$@"
	fi
}
