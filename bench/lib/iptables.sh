# SPDX-License-Identifier: Apache-2.0
# Provides the iptables variant for kube-proxy's iptables mode: legacy, as at the time of the published figures. iptables-nft
# searches a list for each chain that it restores, so that it takes minutes for 100,000 endpoints with a chain each. Sourced
# by bench/lib/peers.sh.
# shellcheck shell=bash

# iptables_tools: makes $IPTABLES_BIN, which has the variant under the names without a suffix, and creates its empty tables on
# the node: the kernel keeps them until the end of the namespace, so all peers are measured with them.
iptables_tools() {
	local name
	if [[ $IPTABLES == legacy ]] && ! lab_in node iptables-legacy -t nat -S >/dev/null 2>&1; then
		say "legacy iptables does not work here; kube-proxy's iptables mode runs the nft variant"
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
