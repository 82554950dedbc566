#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Helm chart: renders the same objects as k8s/deploy and the overlays, depending on values; the schema rejects wrong
# values; Helm installs, changes and removes it at a real API server. The agent's account may change Nodes with a start-up
# taint alone (REL-55).
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib/scenario.sh"
# shellcheck source=tests/package/lib/twice.sh
source "$SLUICE_ROOT/tests/package/lib/twice.sh"

OBJECTS=$SLUICE_ROOT/tests/package/lib/objects.py
K8S=$SLUICE_ROOT/k8s
# The name that kubeadm 1.37 recognises as a strategic patch of its target kubeproxydaemonset (parseFilename() in
# cmd/kubeadm/app/util/patches).
KUBEADM_PATCH=$K8S/overlays/kubeadm/kubeproxydaemonset+strategic.yaml

helm() { env HOME="$LAB_DIR" "$HELM/helm" "$@"; }
# rendered VALUE...: the output of `helm template`, hooks included.
rendered() { helm template sluice "$CHART" --namespace kube-system "${@/#/--set=}"; }
kustomized() { "$HELM/kustomize" build --load-restrictor LoadRestrictionsNone "$1"; }

# kubeadm_patched: kubeadm's DaemonSet with the patch of k8s/overlays/kubeadm, merged as kubectl patch does.
kubeadm_patched() {
	mkdir -p "$LAB_DIR/kubeadm"
	[[ -r $KUBEADM_PATCH ]] || die "no $KUBEADM_PATCH"
	cp "$SLUICE_ROOT/tests/package/lib/kubeadm.yaml" "$LAB_DIR/kubeadm/"
	(printf 'apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: kube-proxy, namespace: kube-system}\n' &&
		cat "$KUBEADM_PATCH") >"$LAB_DIR/kubeadm/patch.yaml"
	printf 'resources: [kubeadm.yaml]\npatches: [{path: patch.yaml}]\n' >"$LAB_DIR/kubeadm/kustomization.yaml"
	kustomized "$LAB_DIR/kubeadm"
}

# expected MODE: the tree's manifests for the mode.
expected() {
	case $1 in
	instead) kustomized "$K8S/deploy" ;;
	beside) kustomized "$K8S/overlays/beside" ;;
	kubeadm) kubeadm_patched ;;
	stand-alone) cat "$K8S/overlays/stand-alone/sluice.yaml" ;;
	esac
	case $1 in instead | beside) printf -- '---\n' && kustomized "$K8S/deploy/uninstall" ;; esac
}

# same_with VALUES DIRECTORY...: checks that these values render the objects of the directories' kustomizations.
same_with() {
	local -a values
	read -ra values <<<"$1"
	shift
	diff <(
		for directory; do kustomized "$directory" && printf -- '---\n'; done | python3 "$OBJECTS"
	) <(rendered "${values[@]}" | python3 "$OBJECTS") || die "${values[*]}: other objects than $*"
	printf '%s: the same as %s\n' "${values[*]}" "${*#"$SLUICE_ROOT/"}"
}

# kubeadm_undone: checks mode kubeadm with its clean-up, and the notes' steps for changing back.
kubeadm_undone() {
	diff <((kubeadm_patched && printf -- '---\n' && kustomized "$K8S/overlays/kubeadm/uninstall") | python3 "$OBJECTS") \
		<(rendered mode=kubeadm kubeadm.uninstall=true | python3 "$OBJECTS") || die "kubeadm.uninstall: other objects than the overlay's"
	[[ $(rendered mode=kubeadm kubeadm.uninstall=true | grep -n 'args: \[' | cut -d: -f2- | paste -sd ' ' | tr -s ' ') == \
		*'[drain, --deadline=30] args: [cleanup] args: [cleanup, --wait]' ]] || die "kubeadm.uninstall: not drain, then cleanup"
	printf 'mode kubeadm with kubeadm.uninstall: drain, then cleanup, as k8s/overlays/kubeadm/uninstall\n'
}

same_objects() {
	diff <(expected "$1" | python3 "$OBJECTS") <(rendered "mode=$1" | python3 "$OBJECTS") || die "mode $1 has other objects than the tree"
	printf 'mode %s: %d objects, the same as in the tree\n' "$1" "$(rendered "mode=$1" | grep -c '^kind:')"
}

# changes: checks that values change what they name, and nothing else.
changes() {
	local digest
	digest=sha256:$(printf x | sha256sum | cut -d' ' -f1)
	diff <(rendered | python3 "$OBJECTS" | sed -e 's|"sluice:0.1.0"|"example.org/lb@'"$digest"'"|' -e 's|"devices": "auto"|"devices": "eth0,!eth1"|' \
		-e 's|"--log-format=json"|&,\n      "--forwarding=stack"|' | tr -d ' \n') \
		<(rendered image.repository=example.org/lb "image.digest=$digest" 'agent.devices=eth0\,!eth1' 'agent.extraArgs={--forwarding=stack}' |
			python3 "$OBJECTS" | tr -d ' \n') || die "values change other things than they say"
	[[ $(rendered uninstall.enabled=false) != *sluice-uninstall* ]] || die "the clean-up cannot be switched off"
	! helm template sluice "$CHART" --namespace default --set mode=kubeadm >/dev/null 2>&1 || die "kubeadm's DaemonSet outside of kube-system"
	printf 'values: image by digest, devices, options of the agent\n'
}

# kubeadm_values: checks that mode kubeadm passes the agent's values on, too, and changes nothing else by them.
kubeadm_values() {
	local with container=.spec.template.spec.containers[0]
	with=$(rendered mode=kubeadm 'agent.devices=eth0\,!eth1' agent.podDevices=cali agent.logFormat=json \
		'agent.apiServers={https://127.0.0.1:6444}' 'agent.extraArgs={--forwarding=stack}' kubeadm.resources.requests.memory=1Gi)
	[[ $(python3 "$OBJECTS" <<<"$with" | jq -c "$container.command[3:], $container.resources" | paste -sd ' ') == \
		'["--devices=eth0,!eth1","--pod-devices=cali","--log-format=json","--api-server=https://127.0.0.1:6444","--forwarding=stack"] {"requests":{"memory":"1Gi"}}' ]] ||
		die "mode kubeadm does not pass values on: $with"
	diff <(rendered mode=kubeadm | python3 "$OBJECTS" | jq "del($container.command[3:])") \
		<(python3 "$OBJECTS" <<<"$with" | jq "del($container.command[3:], $container.resources)") || die "mode kubeadm: values change other things than they say"
	printf 'mode kubeadm: the values of the agent\n'
}

# pod_devices: checks that the agent gets the value, also the default `auto` where its own default is none. A process called
# kube-proxy finds them by itself: an option in the DaemonSet would end kube-proxy when it gets its image back.
pod_devices() {
	local mode
	[[ $(rendered mode=stand-alone | grep -- --pod-devices) == *--pod-devices=auto ]] || die "mode stand-alone: agent.podDevices is no default"
	for mode in stand-alone kubeadm; do
		[[ $(rendered "mode=$mode" agent.podDevices=none | grep -- --pod-devices) == *--pod-devices=none ]] || die "mode $mode drops agent.podDevices"
	done
	lacks --pod-devices rendered mode=kubeadm || die "mode kubeadm has an option that kube-proxy does not know"
	printf 'the devices of pods, found or named\n'
}

# startup_taint MODE ACCOUNT: checks that the value sets the option, and gives that account the right to patch nodes; without
# the value neither.
startup_taint() {
	local with
	with=$(rendered "mode=$1" agent.startupTaint=sluice.lb/starting)
	grep -q -- '--startup-taint=sluice.lb/starting$' <<<"$with" || die "mode $1 does not give the agent the taint's key"
	python3 -c 'import sys, yaml
objects = [each for each in yaml.safe_load_all(sys.stdin) if each]
roles = {each["metadata"]["name"] for each in objects if each["kind"] == "ClusterRole"
         for rule in each["rules"] if "nodes" in rule["resources"] and "patch" in rule["verbs"]}
accounts = [subject["name"] for each in objects if each["kind"] == "ClusterRoleBinding" and each["roleRef"]["name"] in roles for subject in each["subjects"]]
sys.exit(accounts != sys.argv[1:])' "$2" <<<"$with" || die "mode $1 does not let $2 patch nodes"
	lacks 'startup-taint\|\[patch\]' rendered "mode=$1" || die "mode $1 lets $2 patch nodes without a start-up taint"
	printf 'mode %s: SEM-63: start-up taint, by the account %s\n' "$1" "$2"
}

# refused VALUE WORDS: checks that the schema rejects VALUE with WORDS.
refused() {
	local said
	! said=$(rendered "$1" 2>&1) || die "takes $1"
	[[ $said == *"don't meet the specifications of the schema"* && $said == *"$2"* ]] || die "$1: not by the schema, or for another reason: $said"
	printf 'refused: %s: %s\n' "$1" "$(grep -m 1 '^- ' <<<"$said")"
}

bad_values() {
	refused mode=aside "mode"
	refused modes=beside "modes"
	refused agent.logFormat=xml "logFormat"
	refused mode=kubeadm,kubeadm.resources.limits.memory=1Gi "memory"
	refused agent.device=eth0 "device"
	refused 'agent.extraArgs={forwarding}' "extraArgs/0"
	refused image.digest=sha256:beef "digest"
	refused image.pullPolicy=Sometimes "pullPolicy"
	refused beside.healthPort=65536 "healthPort"
	refused beside.healthPort=10256 "healthPort"
	refused resources.limits.memory=1Gi "memory"
	refused updateStrategy.maxUnavailable=0 "maxUnavailable"
	refused uninstall.enabled=perhaps "enabled"
	refused kubeadm.uninstall=later "uninstall"
	refused monitoring.enabled=some "enabled"
	refused monitoring.enabled=true,mode=beside "mode"
}

accepted() {
	local mode
	for mode in instead beside kubeadm stand-alone; do
		rendered "mode=$mode" | kube check
		printf 'accepted by a dry run: %s\n' "$mode"
	done
}

at_server() { lab_in control env HOME="$LAB_DIR" KUBECONFIG="$LAB_DIR/admin.yaml" "$HELM/helm" --namespace kube-system "$@" >>"$LAB_DIR/helm.log" 2>&1 || die "helm $*: $(tail -n 5 "$LAB_DIR/helm.log")"; }
there() { kube get "$1" >/dev/null 2>&1; }
not_there() { ! there "$1"; }
image_of() { kube get "DaemonSet/kube-system/$1" | jq -r '.spec.template.spec.containers[0].image'; }
arguments_of() { kube get "DaemonSet/kube-system/$1" | jq -r '.spec.template.spec.containers[0].args | join(" ")'; }

# patches_node: whether the account of the installed chart may change its Node.
patches_node() {
	mkdir -p "$LAB_DIR/account"
	cp "$CLUSTER/ca.crt" "$CLUSTER/server" "$LAB_DIR/account"
	kube token kube-system/sluice >"$LAB_DIR/account/token"
	lab_in control env E2E_KUBE="$LAB_DIR/account" python3 "$E2E/kube.py" patch Node/node '{"metadata": {"labels": {"a": "b"}}}' \
		>"$LAB_DIR/patch" 2>&1
}
may_not_patch() { ! patches_node && grep -q ' 403: ' "$LAB_DIR/patch"; }

# node_rights: what the API server says to the account, with the start-up taint and without.
node_rights() {
	at_server install sluice "$CHART"
	lab_wait 10 may_not_patch || die "REL-55: without a start-up taint: $(<"$LAB_DIR/patch")"
	at_server upgrade sluice "$CHART" --set agent.startupTaint=sluice.lb/starting
	lab_wait 10 patches_node || die "REL-55: with a start-up taint: $(<"$LAB_DIR/patch")"
	at_server upgrade sluice "$CHART" --set agent.startupTaint=
	lab_wait 10 may_not_patch || die "REL-55: without it again: $(<"$LAB_DIR/patch")"
	at_server uninstall sluice
	kube delete DaemonSet/kube-system/sluice-uninstall
	printf 'REL-55: the account changes Nodes with a start-up taint alone\n'
}

installed_and_removed() {
	at_server install sluice "$CHART" --set image.tag=first
	[[ $(image_of sluice) == sluice:first ]] || die "installed with the image $(image_of sluice)"
	at_server upgrade sluice "$CHART" --set mode=beside
	[[ $(arguments_of sluice) == *--service-proxy-name=sluice* ]] || die "an upgrade to mode beside gives $(arguments_of sluice)"
	not_there DaemonSet/kube-system/sluice-uninstall || die "the clean-up runs beside the agent"
	at_server uninstall sluice
	lab_wait 10 not_there DaemonSet/kube-system/sluice || die "helm uninstall leaves the DaemonSet"
	not_there ClusterRole/sluice || die "helm uninstall leaves rights"
	[[ $(image_of sluice-uninstall) == sluice:0.1.0 ]] || die "helm uninstall does not clean the nodes"
	# Install and uninstall once more: the objects left by the first uninstall must not be in the way.
	at_server install sluice "$CHART"
	at_server uninstall sluice
	kube delete DaemonSet/kube-system/sluice-uninstall
	printf 'helm: installed, upgraded to another mode, uninstalled twice\n'
}

kubeadm_taken_over() {
	kube apply <"$SLUICE_ROOT/tests/package/lib/kubeadm.yaml"
	at_server install sluice "$CHART" --set mode=kubeadm --take-ownership
	[[ $(image_of kube-proxy) == sluice:0.1.0 ]] || die "kubeadm's DaemonSet has the image $(image_of kube-proxy)"
	diff <(kube get DaemonSet/kube-system/kube-proxy | jq -S '[.spec.template.spec.volumes[].name] | sort') \
		<(kubeadm_patched | python3 -c 'import json, sys, yaml; print(json.dumps([each["name"] for each in yaml.safe_load(sys.stdin)["spec"]["template"]["spec"]["volumes"]]))' |
			jq -S sort) || die "kubeadm's DaemonSet has other volumes than with the patch"
	not_there DaemonSet/kube-system/sluice-uninstall || die "the clean-up runs without kubeadm.uninstall"
	at_server upgrade sluice "$CHART" --reuse-values --set kubeadm.uninstall=true
	kube patch DaemonSet/kube-system/kube-proxy '{"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux", "undone": "yes"}}}}}'
	at_server uninstall sluice
	there DaemonSet/kube-system/kube-proxy || die "helm uninstall takes the service proxy away"
	[[ $(kube get DaemonSet/kube-system/kube-proxy | jq -r .spec.template.spec.nodeSelector.undone) == yes ]] ||
		die "helm uninstall changes kubeadm's DaemonSet, which kubectl rollout undo had brought back"
	[[ $(kube get DaemonSet/kube-system/sluice-uninstall | jq -c '[.spec.template.spec.initContainers[].args[0]]') == '["drain","cleanup"]' ]] ||
		die "helm uninstall does not drain and clean the nodes"
	kube delete DaemonSet/kube-system/sluice-uninstall
	printf 'helm: kubeadm'"'"'s DaemonSet taken over, and left when the release goes\n'
}

cluster_up chart
HELM=${HELM:-$("$SLUICE_ROOT/scripts/lib/helm")}
twice chart
CHART=$(echo "$LAB_DIR"/once/*.tgz)
helm lint --strict "$CHART" >"$LAB_DIR/lint.log" || die "helm lint: $(cat "$LAB_DIR/lint.log")"
for mode in instead beside kubeadm stand-alone; do same_objects "$mode"; done
same_with monitoring.enabled=true "$K8S/overlays/monitoring" "$K8S/deploy/uninstall"
kubeadm_undone
changes
kubeadm_values
pod_devices
startup_taint instead sluice
startup_taint beside sluice
startup_taint kubeadm kube-proxy
bad_values
kubeconfig "$LAB_DIR/admin.yaml" https://127.0.0.1:6443 "certificate admin"
accepted
node_rights
installed_and_removed
kubeadm_taken_over
