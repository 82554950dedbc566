#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-68: an agent that is called kube-proxy and started as kubeadm's DaemonSet starts it, with a ConfigMap volume: the
# file's content is in force, changes are followed, invalid content is not, and no connection is affected.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

NODE=10.0.0.10 NODE_PORT=30080

# volume TEXT: writes a ConfigMap volume as the kubelet does: a new directory, and one link that is renamed.
volume() {
	local directory
	directory=$(mktemp -d "$VOLUME/..data_XXXXXX")
	printf '%s\n' "$1" >"$directory/config.conf"
	ln -s "$(basename "$directory")" "$VOLUME/..data_tmp"
	mv -T "$VOLUME/..data_tmp" "$VOLUME/..data"
	[[ -e $VOLUME/config.conf ]] || ln -s ..data/config.conf "$VOLUME/config.conf"
}

# config SCRIPT...: kubeadm's file, with fields changed by sed.
config() {
	local script
	local -a scripts=()
	for script; do scripts+=(-e "$script"); done
	sed "${scripts[@]}" "$SLUICE_ROOT/tests/corpus/kube_proxy/kubeadm-1.37.yaml"
}

page() { lab_in node curl -fsS -m 5 "http://127.0.0.1:10249$1"; }
in_force() { page /configz | jq -r ".[\"kubeproxy.config.k8s.io\"] | $1"; }
# config_is FILTER VALUE: whether the configuration in force has this value.
config_is() { [[ $(in_force "$1") == "$2" ]]; }
metric_is() { [[ $(page /metrics | sed -n 's/^sluice_config_last_reload_successful //p') == "$1" ]]; }
without() { lab_sluice status -o json | jq -r .without; }
log_count() { grep -c -- "$1" "$LAB_DIR/agent.log" || true; }
complains_of() { [[ $(without) == *"$1"* ]]; }
complains_of_nothing() {
	local text
	text=$(without) && [[ $text != *configuration* ]]
}
ready() { lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz; }

# same_process: whether the agent is still the same process.
same_process() { [[ $(lab_sluice status -o json | jq .agent.pid) == "$LAB_AGENT" ]]; }

lab_up kubeconf
lab_backends
VOLUME=$LAB_DIR/kube-proxy
mkdir "$VOLUME"
volume "$(config 's/^mode: .*/mode: nftables/' 's/^nodePortAddresses: .*/nodePortAddresses: ["10.0.0.0\/8"]/')"
mkdir "$LAB_DIR/bin"
ln -s "$SLUICE" "$LAB_DIR/bin/kube-proxy"

# The options of kubeadm's DaemonSet, and those that this lab needs. The devices are those of the default routes.
lab_start node agent.log "$LAB_DIR/bin/kube-proxy" --config="$VOLUME/config.conf" --hostname-override=Node \
	--manifests "$LAB_MANIFESTS" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --xdp off
LAB_AGENT=$LAB_STARTED
lab_wait 30 ready || { cat "$LAB_DIR/agent.log" && die "the agent called kube-proxy did not become ready"; }
config_is '.hostnameOverride' node || die "the node is $(in_force .hostnameOverride)"
config_is '.clusterCIDR' "10.244.0.0/16,fd00:10:244::/48" || die "the pods' range is $(in_force .clusterCIDR)"
config_is '.nodePortAddresses | join(",")' 10.0.0.0/8 || die "node ports are on $(in_force .nodePortAddresses)"
metric_is 1 || die "the metric does not say that the file is good"
[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 "* ]] ||
	die "eth0, the device of the default route, is not served: $(lab_sluice status -o json | jq -c .packets)"
printf 'in force as kubeadm writes it: %s\n' "$(in_force '"\(.hostnameOverride) \(.clusterCIDR) \(.nodePortAddresses)"')"

lab_traffic client "$NODE" "$NODE_PORT"
lab_keep

# Invalid content: logged once, and nothing changes.
volume "$(config 's/^mode: .*/mode: userspace/')"
lab_wait 10 metric_is 0 || die "the metric does not say that the file is bad: $(page /metrics | grep config)"
lab_wait 10 complains_of "mode is 'userspace'; write iptables, ipvs or nftables" || die "status does not say what is wrong: $(without)"
complains_of configuration || die "status does not say that it is the configuration: $(without)"
lab_wait 10 eval '[[ $(log_count "the last good one stays in force") != 0 ]]' || die "the log does not say that the file is bad"
[[ $(log_count "the last good one stays in force") == 1 ]] || die "the log does not say once that the file is bad"
volume "this: is: no YAML"
lab_wait 10 complains_of "is not valid YAML" || die "status does not say that the file is not valid YAML: $(without)"
config_is '.nodePortAddresses | join(",")' 10.0.0.0/8 || die "a bad file changed what is in force"
same_process || die "a bad file ended the agent"
printf 'nonsense is not followed: %s\n' "$(without)"

# A valid file that requires a restart, but with which no agent starts: the previous one stays in force.
volume "$(config 's/^mode: .*/mode: iptables/' \
	's/^healthzBindAddress: .*/healthzBindAddress: 192.0.2.1:10256/' \
	's/^bindAddressHardFail: .*/bindAddressHardFail: true/')"
lab_wait 20 complains_of "no agent starts with it" || die "status does not say that no agent starts: $(without)"
lab_wait 10 ready || die "the agent before is not ready again"
config_is '.nodePortAddresses | join(",")' 10.0.0.0/8 || die "the options before are not in force again"
metric_is 0 || die "the metric does not say that no agent starts"
printf 'an agent that does not start gives back to the one before\n'

# A good file again: one change needs a new agent, another applies at once.
volume "$(config 's/^mode: .*/mode: iptables/' 's/^healthzBindAddress: .*/healthzBindAddress: 127.0.0.1/')"
lab_wait 20 config_is '.healthzBindAddress' 127.0.0.1:10256 || die "a good file is not followed: $(in_force .healthzBindAddress)"
lab_wait 10 ready || die "the agent did not become ready with the new file"
config_is '.nodePortAddresses' null || die "node ports are on $(in_force .nodePortAddresses)"
metric_is 1 || die "the metric does not say that the file is good again"
lab_wait 5 complains_of_nothing || die "status still complains: $(without)"
same_process || die "a good file ended the process"
volume "$(config 's/^mode: .*/mode: iptables/' \
	's/^healthzBindAddress: .*/healthzBindAddress: 127.0.0.1/' \
	's/verbosity: 0/verbosity: 4/' \
	's/udpTimeout: 0s/udpTimeout: 40s/')"
lab_wait 10 config_is '.conntrack.udpTimeout' 40s || die "conntrack's settings do not follow: $(in_force .conntrack)"
[[ $(log_count "restarting in place") == 2 ]] || die "a new agent began for what changes at once: $(log_count "restarting in place")"
same_process || die "what changes at once ended the process"
# A file without a ConfigMap volume's links, as an editor writes it.
rm "$VOLUME/config.conf"
config 's/^mode: .*/mode: nftables/' >"$VOLUME/config.new"
mv "$VOLUME/config.new" "$VOLUME/config.conf"
lab_wait 20 config_is '.nodePortAddresses | join(",")' primary || die "a renamed file is not followed: $(in_force .nodePortAddresses)"

lab_keep_ends
lab_traffic_ends
