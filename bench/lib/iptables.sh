# The iptables that kube-proxy's iptables mode runs: the legacy variant, as at the time of the published figures.
# iptables-nft searches a list for each chain that it restores, so that 100,000 endpoints, with a chain each, take it
# minutes. Sourced by bench/lib/peers.sh.
# shellcheck shell=bash

# iptables_tools: makes $IPTABLES_BIN with the variant under the plain names, and its empty tables on the node: the kernel
# keeps them until the namespace's end, so all peers are measured with them.
iptables_tools() {
	local name
	if [[ $IPTABLES == legacy ]] && ! lab_in node iptables-legacy -t nat -S >/dev/null 2>&1; then
		say "no legacy iptables here; kube-proxy's iptables mode runs the nft variant"
		IPTABLES=nft
	fi
	IPTABLES_BIN=$LAB_DIR/iptables
	mkdir "$IPTABLES_BIN"
	for name in ip{,6}tables{,-save,-restore}; do ln -s "$(command -v "xtables-$IPTABLES-multi")" "$IPTABLES_BIN/$name"; done
	[[ $IPTABLES != legacy ]] || iptables_empty
}

iptables_empty() {
	local name
	for name in iptables ip6tables; do
		printf '*%s\nCOMMIT\n' mangle nat filter | lab_in node "$IPTABLES_BIN/$name-restore"
	done
}
