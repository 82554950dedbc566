#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-68: what kubeadm 1.36 and 1.37, k3s, RKE2 and kubespray give kube-proxy, as it is: an agent that is called kube-proxy starts with each and
# serves; where the kubeconfig that it names is not on the machine, it says so and names it.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

CORPUS=$SLUICE_ROOT/tests/corpus/kube_proxy

# given NAME: the arguments. kubeadm's DaemonSet names the file and the node, and kubeadm writes the kubeconfig's path where kubespray leaves it open.
given() {
	case $1 in
	*.flags) cat "$CORPUS/$1" ;;
	*)
		sed 's|^  kubeconfig: *$|  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf|' "$CORPUS/$1" >"$LAB_DIR/$1"
		printf '%s\n' "--config=$LAB_DIR/$1" --hostname-override=worker-1
		;;
	esac
}

# kubeconfig_of NAME: where it is named.
kubeconfig_of() {
	case $1 in
	k3s.flags) echo /var/lib/rancher/k3s/agent/kubeproxy.kubeconfig ;;
	rke2.flags) echo /var/lib/rancher/rke2/agent/kubeproxy.kubeconfig ;;
	*) echo /var/lib/kube-proxy/kubeconfig.conf ;;
	esac
}

# started NAME LOG: with an own /var/lib, where the kubeconfig is.
started() {
	local -a arguments
	mapfile -t arguments < <(given "$1")
	# shellcheck disable=SC2016  # expanded inside
	lab_start node "$2" unshare --mount bash -c 'mount -t tmpfs lib /var/lib && mkdir -p "$(dirname "$1")" && cp "$2" "$1" && exec "${@:3}"' \
		bash "$(kubeconfig_of "$1")" "$CLUSTER/agent.conf" \
		"$LAB_DIR/bin/kube-proxy" "${arguments[@]}" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --xdp off
	LAB_AGENT=$LAB_STARTED
}

ready() { lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz; }

# serves NAME: as it is; the devices are those of the default routes.
serves() {
	started "$1" "$1.log"
	lab_wait 60 ready || die "$1: does not become ready: $(tail -n 5 "$LAB_DIR/$1.log")"
	becomes "$1: a pod reaches the ClusterIP" 'web-a web-b web-pod' answers pod 10.96.0.80 80
	becomes "$1: the outside the node port" 'web-a web-b web-pod' answers client 10.0.0.10 30080
	lab_stop "$LAB_AGENT" || die "$1: the agent ended badly: $(tail -n 5 "$LAB_DIR/$1.log")"
	lab_sluice cleanup >/dev/null
}

# names_what_lacks NAME: on a machine without that kubeconfig.
names_what_lacks() {
	local code=0 said
	local -a arguments
	mapfile -t arguments < <(given "$1")
	said=$(lab_in node timeout 20 "$LAB_DIR/bin/kube-proxy" "${arguments[@]}" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --xdp off 2>&1) || code=$?
	((code == 1)) || die "$1: exit code $code: $said"
	[[ $(tail -n 1 <<<"$said") == *"$(kubeconfig_of "$1")"* ]] || die "$1: does not say what lacks: $said"
	printf '%s: %s\n' "$1" "$(tail -n 1 <<<"$said")"
}

cluster_up corpus
mkdir "$LAB_DIR/bin"
ln -s "$SLUICE" "$LAB_DIR/bin/kube-proxy"
# The node has the name that these files give it.
kube delete Node/node
cluster_node worker-1 zone-a 10 1 | kube apply
cluster_node_status worker-1 zone-a 10 1
lab_backends
kube pod web-pod worker-1 10.244.1.10 fd00:10:244:1::10 app=web
for each in web-a web-b; do cluster_pod "$each"; done
kube apply <<-YAML
	apiVersion: v1
	kind: Service
	metadata: {name: web, namespace: default}
	spec:
	  type: NodePort
	  selector: {app: web}
	  clusterIP: 10.96.0.80
	  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
YAML
for each in kubeadm-1.36.yaml kubeadm-1.37.yaml kubespray.yaml k3s.flags rke2.flags; do
	serves "$each"
	names_what_lacks "$each"
done
