# SPDX-License-Identifier: Apache-2.0
# Ports on which the agent and kube-proxy both listen. Sourced after scripts/lib/netlab.sh; CHECKED is the health-check node port.
# shellcheck shell=bash

CHECKED=32100

# take_port PORT: another process listens there on all addresses, as kube-proxy does; its pid is in $LAB_STARTED.
take_port() {
	lab_start node "taker-$1.log" python3 "$SLUICE_ROOT/scripts/lib/backend.py" taker "$1" "$1"
	lab_wait 10 lab_in node curl -sS -o /dev/null -m 2 "http://127.0.0.1:$1/" || die "no process took port $1: $(cat "$LAB_DIR/taker-$1.log")"
}

# checked_service: a Service with a health-check node port.
checked_service() {
	cat >"$LAB_MANIFESTS/checked.yaml" <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: checked, namespace: default}
		spec:
		  type: LoadBalancer
		  clusterIP: 10.96.0.91
		  clusterIPs: [10.96.0.91]
		  ipFamilies: [IPv4]
		  externalTrafficPolicy: Local
		  healthCheckNodePort: $CHECKED
		  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
	YAML
}
