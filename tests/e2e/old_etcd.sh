#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# Debian's etcd with the API server. REL-32: etcd before 3.5 makes the server refuse streaming lists; the agent falls back,
# writes the same maps, and follows changes.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

ALL='10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080 10.244.4.10:8080'
PORT=7443

state() { family4 default/web:; }

[[ -n $PARTNERS ]] || PARTNERS=$("$SLUICE_ROOT/scripts/lib/partners")
version=$("$PARTNERS/debian-etcd" --version | sed -n 's/^etcd Version: //p')
ETCD=debian-etcd cluster_up etcd
cluster_web
cluster_pods
cluster_proxy "$PORT"
agent_account
AGENT_KUBECONFIG=$CLUSTER/proxied.conf
kubeconfig "$AGENT_KUBECONFIG" "https://10.0.0.2:$PORT" "token $CLUSTER/token"
for encoding in protobuf json; do
	cluster_agent --api-encoding=$encoding
	becomes "etcd $version, $encoding" "$ALL" state
	cluster_pod web-c --not-ready
	becomes "a change" "${ALL% *}" state
	cluster_pod web-c
	becomes "another" "$ALL" state
	lab_maps >"$LAB_DIR/maps.$encoding"
	lab_stop "$LAB_AGENT" TERM
	rm -rf "$LAB_PINS"
done
diff "$LAB_DIR/maps.protobuf" "$LAB_DIR/maps.json" || die "protobuf and JSON gave different maps"
if dpkg --compare-versions "$version" lt 3.5; then
	(($(requests_matching 'GET /api/v1/services.*limit=[0-9][0-9]') >= 2)) || die "REL-32: the agent did not request a plain list"
fi
