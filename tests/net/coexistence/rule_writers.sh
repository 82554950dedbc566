#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-165: kube-proxy's rules as the iptables of each Debian release writes them, the newest of sid included (nft and legacy), and its
# nftables rules as each nft does, are understood: `sluice check --against kube-proxy` finds no difference; a rule that
# nobody understands is named, and is none. `drain` refuses because of it only if what it serves lacks a rule that is understood.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# shellcheck source=scripts/lib/kube_proxy_rules.sh
source "$SLUICE_ROOT/scripts/lib/kube_proxy_rules.sh"

CORPUS=$SLUICE_ROOT/tests/corpus/kube_proxy_rules
[[ -n ${NETFILTER_TOOLS:-} ]] || NETFILTER_TOOLS=$("$SLUICE_ROOT/scripts/lib/netfilter-tools")

# against DIRECTORY [OPTION...]: compares the rules in the node's namespace with the services that they were made for.
against() { lab_in node "$SLUICE" check --against kube-proxy --manifests "$CORPUS/manifests" --node node --devices none "$@"; }

# is_same WHO WANTED: no difference in either family.
is_same() {
	local said
	said=$(against) || die "$1: $said"
	[[ $said == *"The same: 51 frontends, of kube-proxy ($2)"* ]] || die "$1: $said"
	printf '%s: %s\n' "$1" "$(tail -n 1 <<<"$said")"
}

# by_iptables DIRECTORY KIND MODE
by_iptables() {
	local tools=$1/$2 version
	version=$("$tools/iptables" --version)
	lab_in node "$tools/iptables-restore" <"$CORPUS/iptables-ip.rules"
	lab_in node "$tools/ip6tables-restore" <"$CORPUS/iptables-ip6.rules"
	is_same "$version" "$3"
	is_named "$tools" "$version"
	printf '*nat\nCOMMIT\n*filter\nCOMMIT\n' >"$LAB_DIR/nothing"
	lab_in node "$tools/iptables-restore" <"$LAB_DIR/nothing"
	lab_in node "$tools/ip6tables-restore" <"$LAB_DIR/nothing"
	[[ $2 == legacy ]] || lab_in node nft flush ruleset
}

# is_named DIRECTORY VERSION: a rule in kube-proxy's chain with a match that Sluice does not know.
is_named() {
	local said code=0
	lab_in node "$1/iptables" -t nat -I KUBE-SERVICES -d 10.96.9.9/32 -p tcp --dport 80 -m length --length 40:60 -j KUBE-SVC-U52L2T3WU4FVZGQN
	said=$(against) || code=$?
	((code == 2)) || die "$2: a rule that is not understood: exit code $code: $said"
	[[ $said == *"a rule that is not understood: nat KUBE-SERVICES: match length"*"of 0 differences in 51 frontends"* ]] || die "$2: $said"
}

# by_nft DIRECTORY: the table of nftables mode for the services of k8s/examples; then with a rule that asks for something else.
by_nft() {
	local nft=$1/nft/nft said code=0 chain=service-0123ABCD-default/web/tcp/http
	kube_proxy_comes "$nft"
	said=$(against_examples) || die "$("$nft" --version): $said"
	[[ $said == *"The same: 8 frontends, of kube-proxy (nftables)"* ]] || die "$("$nft" --version): $said"
	printf '%s: %s\n' "$("$nft" --version)" "$(tail -n 1 <<<"$said")"
	lab_in node "$nft" insert rule ip kube-proxy "$chain" meta length 40-60 goto endpoint-0123ABCD-default/web/tcp/http__10.244.1.10/8080
	said=$(against_examples) || code=$?
	((code == 2)) || die "$("$nft" --version): a rule that is not understood: exit code $code: $said"
	[[ $said == *"a rule that is not understood: kube-proxy $chain: "* ]] || die "$("$nft" --version): $said"
	kube_proxy_goes "$nft"
}

against_examples() { lab_in node "$SLUICE" check --against kube-proxy --manifests "$SLUICE_ROOT/k8s/examples" --node node --devices none; }

# refuses_to_guess DIRECTORY: a drain to rules that it understands in part: if those suffice it begins, and otherwise says that it
# cannot tell.
refuses_to_guess() {
	local tools=$1/nft said
	rm "$LAB_MANIFESTS"/*
	cp "$CORPUS/manifests/services.yaml" "$LAB_MANIFESTS"
	lab_agent --xdp off --external-ips all
	lab_in node "$tools/iptables-restore" <"$CORPUS/iptables-ip.rules"
	lab_in node "$tools/ip6tables-restore" <"$CORPUS/iptables-ip6.rules"
	is_named "$tools" "beside an agent"
	lab_sluice drain --deadline 2 >"$LAB_DIR/drain" || die "does not drain though all is served: $(cat "$LAB_DIR/drain")"
	lab_sluice drain --cancel
	sed 's/^-A KUBE-SERVICES -d 10.96.0.80.32 /&-m length --length 40:60 /' "$CORPUS/iptables-ip.rules" >"$LAB_DIR/strange"
	lab_in node "$tools/iptables-restore" <"$LAB_DIR/strange"
	! said=$(lab_sluice drain 2>&1) || die "drains to rules that it does not understand: $said"
	[[ $said == *"cannot tell whether kube-proxy (iptables) serves default/web:port (TCP 10.96.0.80:80), because 1 of its rules are not understood"* ]] ||
		die "the refusal: $said"
	lacks '^Draining' lab_sluice status || die "a drain that was refused drains"
	printf 'drain: %s\n' "$said"
}

lab_up rule-writers
while read -r suite directory; do
	if [[ -z $directory ]]; then
		printf '%s: there are no tools of this release here\n' "$suite"
		continue
	fi
	by_iptables "$directory" nft iptables
	by_iptables "$directory" legacy iptables-legacy
	by_nft "$directory"
	newest=$directory
done <<<"$NETFILTER_TOOLS"
[[ -n ${newest:-} ]] || die "there are no iptables of any release here."
refuses_to_guess "$newest"
