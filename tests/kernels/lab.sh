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
BULK=10.96.0.70 BULK_PORT=30070

# modules NAME...: dies where this kernel has none.
modules() { modprobe -a "$@" || die "this kernel lacks one of: $*. Run scripts/test kernels/$(basename "$0" .sh)."; }

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

# bulk_service [PROTOCOL]: a service of the four pods, whose servers (bulk.py, which names the protocols) send back what they are sent.
bulk_service() {
	local spoken=${1:-TCP} transport=TCP who
	[[ $spoken != SCTP* ]] || transport=SCTP
	sed "s/PROTOCOL/$transport/" "$SLUICE_ROOT/tests/kernels/bulk.yaml" >"$LAB_MANIFESTS/bulk.yaml"
	for who in pod "${LAB_WORKERS[@]}"; do
		lab_start "$who" "bulk-$who.log" python3 "$SLUICE_ROOT/tests/kernels/bulk.py" serve "$spoken" 7000
		lab_wait 20 grep -q ready "$LAB_DIR/bulk-$who.log" || die "no server in $who: $(<"$LAB_DIR/bulk-$who.log")"
	done
}

# bulk WHO PROTOCOL ADDRESS PORT [BYTES [CONNECTIONS]]: random bytes there and back, none of them another; each connection ends well.
bulk() {
	lab_in "$1" python3 "$SLUICE_ROOT/tests/kernels/bulk.py" ask "${@:2}" || die "bulk $*: see above; the agent: $(tail -n 5 "$LAB_DIR/agent.log")"
}

# up NAME MODE [OPTION...]: the lab with backends, the guest and the agent, as most scenarios begin. MODE is the agent's --xdp.
up() {
	lab_up "$1"
	lab_guest
	lab_backends
	[[ $2 == off ]] || lab_offload off
	lab_agent --pod-devices pod --xdp "${@:2}"
}
