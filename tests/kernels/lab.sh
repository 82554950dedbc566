# What the scenarios of level `kernels` share: the lab of netlab.sh with other devices in it, and what is asked of each. They need
# modules that the build machine's kernel may lack, and therefore run in the guests alone (scripts/test kernels/NAME). Sourced first.
# shellcheck shell=bash

# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"

# Here nothing is switched off: each kernel is served as it is.
unset SLUICE_WITHOUT

WEB=10.96.0.80 WEB6=fd00:10:96::80 WEB_OUTSIDE=203.0.113.80 WEB_OUTSIDE6=2001:db8:113::80
NODE=10.0.0.10 NODE6=fd00:10::10 NODE_PORT=30080
DNS=10.96.0.10 DNS6=fd00:10:96::10
BULK=10.96.0.70 BULK6=fd00:10:96::70 BULK_PORT=30070
BULK_SERVERS=()
# How tc programs are attached on this kernel, as status says it.
HOOKS=tcx
[[ $(uname -r) != 6.1.* ]] || HOOKS=clsact

# modules NAME...: dies where this kernel has none.
modules() { modprobe -a "$@" || die "this kernel lacks one of: $*. Run scripts/test kernels/$(basename "$0" .sh)."; }

# link_of WHO DEVICE FIELD: of `ip -j link`, because /sys shows the devices of another namespace.
link_of() { ip -n "$LAB-$1" -j link show "$2" | jq -r ".[0].$3"; }

# answered WHO PROTOCOL ADDRESS PORT...: backends of this node and of others answer at each, and no request fails (ask_all.py).
answered() {
	lab_in "$1" python3 "$SLUICE_ROOT/tests/kernels/ask_all.py" "${@:2}" ||
		die "$1 is not answered, see above; the agent: $(tail -n 5 "$LAB_DIR/agent.log")"
}

# served WHEN: from outside, from a pod's sockets, from a pod's packets (guest) and from the node's own processes, in both families.
served() {
	answered client tcp "$NODE" "$NODE_PORT" tcp "$NODE6" "$NODE_PORT" tcp "$WEB_OUTSIDE" 80 tcp "$WEB_OUTSIDE6" 80
	answered pod tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53
	answered guest tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53 udp "$DNS6" 53
	answered node tcp "$WEB" 80 udp "$DNS6" 53
	printf '%s: served\n' "$1"
}

# outcome NAME: how often the agent's programs have counted it.
outcome() { lab_sluice status -o json | jq ".outcomes.$1 // 0"; }

# counted NAME...: each has happened, so that what was asked went by our programs.
counted() {
	local name
	for name; do (($(outcome "$name") > 0)) || die "$name never happened: $(lab_sluice status -o json | jq -c .outcomes)"; done
}

# bulk_service PROTOCOL...: a service of the four pods, whose servers (bulk.py, which names the protocols) send back what they are sent.
# Each listens on its pod's addresses alone: the namespace of a worker has those of the worker, too. Called again: other servers.
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

# bulk_is_known: or there is no agent yet.
bulk_is_known() { [[ -z $LAB_AGENT ]] || lab_sluice services -o json | jq -e 'any(.[]; .service | startswith("default/bulk"))'; }

# bulk WHO PROTOCOL ADDRESS PORT [BYTES [CONNECTIONS]]: random bytes there and back, none of them another; each connection ends well.
bulk() {
	lab_in "$1" python3 "$SLUICE_ROOT/tests/kernels/bulk.py" ask "${@:2}" || die "bulk $*: see above; the agent: $(tail -n 5 "$LAB_DIR/agent.log")"
}

# up NAME MODE [OPTION...]: the lab with backends, the guest and the agent, as most scenarios begin. MODE is the agent's --xdp.
up() {
	BULK_SERVERS=()
	lab_up "$1"
	lab_guest
	lab_backends
	[[ $2 == off ]] || lab_offload off
	lab_agent --pod-devices pod --xdp "${@:2}"
}

# by_native_xdp: the agent goes on with native XDP.
by_native_xdp() {
	lab_stop "$LAB_AGENT"
	lab_offload off
	lab_agent --pod-devices pod --xdp native
}

# bulk_both WHO PROTOCOL [BYTES [CONNECTIONS]]: in both families; of the client by the node port, of others by the ClusterIP.
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
