#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Routes lead to backends, or their replies to clients, by a device that --devices does not name: external clients get no replies from these backends, and
# the log, status and a metric say so as long as this lasts. REL-99.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

without() { lab_sluice status -o json | jq -r .without; }
metric() { lab_in node curl -fsS http://127.0.0.1:10249/metrics | sed -n 's/^sluice_unserved_backends//p'; }
says() { [[ $(without) == *"unserved devices: $1"* && $(metric) == "{device=\"${1%% *}\"} ${2}" ]]; }
is_content() { [[ $(without) != *unserved* && -z $(metric) ]]; }
# logged COUNT MESSAGE: the log contains MESSAGE that many times.
logged() { (($(grep -c "$2" "$LAB_DIR/agent.log") == $1)); }
on_node() { ip -n "$LAB-node" "$@"; }

# wait_for WHAT COMMAND...: waits until COMMAND succeeds.
wait_for() {
	local -r what=$1
	shift
	lab_wait 30 "$@" || die "$what: status says '$(without)', the metric '$(metric)'; the log: $(grep -i 'device eth1' "$LAB_DIR/agent.log" || true)"
	printf '%s\n' "$what"
}

lab_up unserved
lab_backends
lab_port node eth1 to-node1
lab_agent --xdp off
wait_for "all backends are reached by eth0" is_content

# A pod of another node sees the client's address, and its replies bypass this node.
on_node route replace 10.244.2.0/24 via 10.0.0.21 dev eth1 onlink
wait_for "one is reached by eth1" says "eth1 (1 backend)" 1
wait_for "the log names it" logged 1 'device eth1 is not served, and routes lead to 1 backend by it, such as default/.* (10.244.2.10)'
lab_ask client tcp 10.0.0.10 30080 --count 12 --timeout 1 >"$LAB_DIR/asked" 2>&1 && die "all is answered, and there was nothing to report"

on_node route replace 10.244.3.0/24 via 10.0.0.22 dev eth1 onlink
wait_for "two" says "eth1 (2 backends)" 2
logged 1 'device eth1 is not served' || die "the log says it again for a second backend"

# A policy rule changes the device as a route does, although no route of the main table has changed.
on_node route replace 10.244.2.0/24 via 10.0.0.21 dev eth0
on_node route replace 10.244.3.0/24 via 10.0.0.22 dev eth0
wait_for "none, by routes" is_content
wait_for "the log says that, too" logged 1 'device eth1 is served, or routes lead to no backends by it any more'
on_node route add 10.244.4.0/24 via 10.0.0.23 dev eth1 onlink table 77
on_node rule add to 10.244.4.0/24 lookup 77
wait_for "one, by a rule" says "eth1 (1 backend)" 1
on_node rule del to 10.244.4.0/24 lookup 77
wait_for "none, without the rule" is_content

# Replies of this node's pod leave by a rule about their source, as those of pods on another network interface.
on_node route add default via 10.0.0.1 dev eth1 onlink table 78
on_node rule add from 10.244.1.10 lookup 78
wait_for "replies of this node's pod" says "eth1 (1 backend)" 1
on_node rule del from 10.244.1.10 lookup 78
on_node rule add to 10.244.4.0/24 lookup 77
lab_stop "$LAB_AGENT"

LAB_DEVICES=eth0,eth1 lab_agent --xdp off
lab_wait 30 is_content || die "eth1 is served, and status says: $(without)"
lab_ask client tcp 10.0.0.10 30080 --count 12 >/dev/null || die "eth1 is served, and requests fail"
printf 'eth1 is served\n'
