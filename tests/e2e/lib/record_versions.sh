#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Records what kube-proxy of several Kubernetes releases writes for tests/corpus/kube_proxy_versions/objects.yaml, each in the folder of
# its minor version there, for tests/unit/kube_proxy/versions.cpp. A file that is the same as the previous version's is a link to it.
#
#   tests/e2e/lib/record_versions.sh nftables 1.33.13 1.34.4 1.35.4 1.36.3 1.37.2
#   tests/e2e/lib/record_versions.sh ipvs 1.33.13 1.34.4 1.35.4 1.36.3 1.37.2     in a guest with Debian's kernel 6.12
#
# Run it again with a new release, or with all of them when objects.yaml changes. It needs Go and the Go module proxy, as scripts/lib/partners
# does; kube-proxy runs in a network namespace of its own, and reads the objects from fixed_api.py.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/common.sh"

E2E=$SLUICE_ROOT/tests/e2e/lib
CORPUS=$SLUICE_ROOT/tests/corpus/kube_proxy_versions
KERNEL=6.12

# kube_proxy VERSION: prints the path of that release's kube-proxy, built from Go modules. What Kubernetes keeps in its own tree is published as
# modules of its minor version.
kube_proxy() {
	local directory=$BUILD_ROOT/kube-proxy/$1 pinned
	if [[ ! -x $directory/kube-proxy ]]; then
		mkdir -p "$directory"
		pinned=$(cd "$directory" && GOTOOLCHAIN=auto go mod download -json "k8s.io/kubernetes@v$1" | jq -r .GoMod)
		{
			printf 'module sluice.invalid/kube-proxy\n'
			sed -n '/^go /p' "$pinned"
			printf 'require k8s.io/kubernetes v%s\n' "$1"
			go mod edit -json "$pinned" | jq -r --arg version "v0.${1#1.}" '.Replace[].Old.Path | "replace \(.) => \(.) \($version)"'
		} >"$directory/go.mod"
		(cd "$directory" && GOTOOLCHAIN=auto GOFLAGS=-mod=mod CGO_ENABLED=0 GOWORK=off quietly "building kube-proxy $1 (once)" \
			nice -n 10 go build -trimpath -buildvcs=false -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$1" \
			-o kube-proxy k8s.io/kubernetes/cmd/kube-proxy) >&2
	fi
	printf '%s\n' "$directory/kube-proxy"
}

# configuration MODE DIRECTORY: writes kubeconfig and configuration.
configuration() {
	cat >"$2/kubeconfig" <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: fixed, cluster: {server: "http://127.0.0.1:8001"}}]
		contexts: [{name: fixed, context: {cluster: fixed}}]
		current-context: fixed
	YAML
	cat >"$2/config" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		clientConnection: {kubeconfig: $2/kubeconfig, contentType: application/json, acceptContentTypes: application/json}
		mode: $1
		hostnameOverride: node
		clusterCIDR: 10.244.0.0/16,fd00:10:244::/48
		detectLocalMode: ClusterCIDR
		nodePortAddresses: [10.0.0.0/24, "fd00:10::/64"]
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	YAML
}

# node: this namespace's devices and addresses.
node() {
	ip link set lo up
	ip link add eth0 type veth peer name other
	ip link set other up
	ip link set eth0 up
	ip address add 10.0.0.10/24 dev eth0
	ip address add fd00:10::10/64 dev eth0 nodad
}

recorded() { python3 "$E2E/record_rules.py" "$@"; }

# record MODE DIRECTORY: all that kube-proxy has written until now; fails while it has nothing of a family.
record() {
	local family
	for family in ip ip6; do
		case $1 in
		nftables) recorded nf "$family" kube-proxy "$2/nftables-$family" && [[ -s $2/nftables-$family ]] || return 1 ;;
		ipvs) recorded chains "$family" nat filter "$2/ipvs-$family" && [[ -s $2/ipvs-$family ]] || return 1 ;;
		esac
	done
	[[ $1 == ipvs ]] || return 0
	recorded ipvs "$2/ipvs" && recorded ipset "$2/ipvs-sets" &&
		ip -j address show dev kube-ipvs0 | jq -r '.[].addr_info[].local' | LC_ALL=C sort >"$2/ipvs-addresses" && [[ -s $2/ipvs-addresses ]]
}

# inside MODE PROGRAM DIRECTORY: in a namespace of its own: starts kube-proxy, and records what it writes until it writes nothing more.
inside() {
	local work api proxy try
	work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-record.XXXXXX")
	mkdir "$work/before" "$work/now"
	[[ $1 != ipvs ]] || modprobe -a dummy veth ip_vs ip_vs_rr nf_conntrack
	node
	configuration "$1" "$work"
	python3 "$E2E/fixed_api.py" 8001 "$CORPUS/objects.yaml" >"$work/api.log" 2>&1 &
	api=$!
	"$2" --config "$work/config" >"$work/log" 2>&1 &
	proxy=$!
	for ((try = 0; try < 60; try++)); do
		sleep 3
		if record "$1" "$work/now" 2>"$work/why" && diff -r "$work/before" "$work/now" >/dev/null; then break; fi
		cp "$work/now"/* "$work/before" 2>/dev/null || true
	done
	kill "$proxy" "$api" || true
	wait || true
	if ((try == 60)); then
		tail -n 30 "$work/log" "$work/api.log" "$work/why"
		die "kube-proxy does not settle, see above."
	fi
	cp "$work/now"/* "$3"
	rm -rf "$work"
}

# kernel: the directory of the kernel for the guest, as scripts/lib/kernels has it.
kernel() {
	local directory
	directory=$("$SLUICE_ROOT/scripts/lib/kernels" | awk -v wanted="$KERNEL" '$1 == wanted { print $2 }')
	[[ -n $directory ]] || die "there is no kernel $KERNEL here."
	printf '%s\n' "$directory"
}

# link_same DIRECTORY PREVIOUS: replaces each file that the previous version has, too, by a link.
link_same() {
	local file name
	for file in "$1"/*; do
		name=${file##*/}
		cmp -s "$file" "$2/$name" || continue
		ln -sfn "../$(basename "$(dirname "$(readlink -f "$2/$name")")")/$name" "$file"
	done
}

main() {
	local mode=$1 version program results directory previous=''
	shift
	for version in $(printf '%s\n' "$@" | sort -V); do
		program=$(kube_proxy "$version")
		directory=$CORPUS/${version%.*}
		results=$(mktemp -d "${TMPDIR:-/tmp}/sluice-recorded.XXXXXX")
		case $mode in
		nftables) unshare --net "${BASH_SOURCE[0]}" --inside nftables "$program" "$results" ;;
		ipvs) "$SLUICE_ROOT/scripts/lib/vm" "$(kernel)" "$results" "${BASH_SOURCE[0]}" --inside ipvs "$program" /run/results ;;
		*) die "knows nftables and ipvs, not '$mode'." ;;
		esac
		mkdir -p "$directory"
		rm -f "$directory/$mode"*
		cp "$results/$mode"* "$directory"
		rm -rf "$results"
		[[ -z $previous ]] || link_same "$directory" "$previous"
		previous=$directory
		printf '%s: recorded\n' "$version"
	done
}

need_root
if [[ ${1:-} == --inside ]]; then
	inside "${@:2}"
else
	(($# >= 2)) || die "usage: record_versions.sh nftables|ipvs VERSION..."
	main "$@"
fi
