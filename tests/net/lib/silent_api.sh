# SPDX-License-Identifier: Apache-2.0
# An API server that accepts connections and never replies, and a kubeconfig for it. Sourced after scenario.sh.

# silent_server: starts the server at 127.0.0.1:6443 of the lab's node; $LAB_DIR/server.log says "accepted" for each
# connection.
silent_server() {
	lab_start node server.log python3 -c '
import socket
listening = socket.create_server(("127.0.0.1", 6443))
print("listens", flush=True)
held = []
while True:
    held.append(listening.accept())
    print("accepted", flush=True)
'
	lab_wait 60 grep -q listens "$LAB_DIR/server.log" || die "the silent server does not start"
}

# silent_kubeconfig: writes $LAB_DIR/agent.conf.
silent_kubeconfig() {
	cat >"$LAB_DIR/agent.conf" <<-'YAML'
		apiVersion: v1
		kind: Config
		clusters: [{name: silent, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
		users: [{name: silent, user: {token: none}}]
		contexts: [{name: silent, context: {cluster: silent, user: silent}}]
		current-context: silent
	YAML
}
