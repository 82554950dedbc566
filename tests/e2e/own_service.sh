#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# REL-79, SEM-56: the agent reaches the API by the ClusterIP that its own maps translate. Every address of the control plane
# changes while no agent runs, so that the pinned maps lead nowhere; there is no other proxy. The next start connects by the
# other server that it has learned of, and then the ClusterIP leads to the new address.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

BY_SERVICE=https://10.96.0.1:443

# move FROM TO: changes the control plane's address.
move() {
	lab_stop "$CLUSTER_API" KILL || true
	ip -n "$LAB-control" address delete "$1/24" dev eth0
	ip -n "$LAB-control" address add "$2/24" dev eth0
	API_ADDRESS=$2 cluster_api
}
servers() { family4 default/kubernetes:; }
# by_service: the API's reply to a process of the node that uses the ClusterIP.
by_service() { lab_in node curl -s -m 2 --cacert "$CLUSTER/ca.crt" "$BY_SERVICE/healthz" || true; }

NAMES_OF_SERVER=IP:10.0.0.3 cluster_up own-service
cluster_agent --api-server "$BY_SERVICE" --api-server https://10.0.0.2:6443
WITHIN=20 becomes "REL-79: servers behind the ClusterIP" 10.0.0.2:6443 servers
lab_stop "$LAB_AGENT" KILL || true

cluster_agent --api-server "$BY_SERVICE"
printf 'an agent with nothing but its own ClusterIP is ready\n'
lab_stop "$LAB_AGENT" TERM || true

move 10.0.0.2 10.0.0.3
[[ -z $(by_service) ]] || die "the pinned maps still lead to a server"
cluster_agent --api-server "$BY_SERVICE" --api-server https://10.0.0.3:6443
printf 'REL-79: ready after all addresses changed\n'
WITHIN=40 becomes "REL-79: servers behind the ClusterIP" 10.0.0.3:6443 servers
WITHIN=10 becomes "the API by the ClusterIP" ok by_service
