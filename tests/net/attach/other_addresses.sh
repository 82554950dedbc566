#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Node ports on addresses beside the uplinks': those that the node has by a local route alone are served; of a device that is
# not found (VRRP's macvlan with a MAC of its own) status and the log name the option, with which it is served. SEM-142.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LOCAL=203.0.113.200 LOCAL6=2001:db8:113::200 # by local routes
VRRP=10.0.0.200 VRRP6=fd00:10::200           # on the macvlan

on_node() { ip -n "$LAB-node" "$@"; }
without() { lab_sluice status -o json | jq -r .without; }
says() { [[ $(without) == *"$1"* ]]; }
answers() { lab_ask client tcp "$1" 30080 --count 4 --timeout 1; }

lab_up other-addresses
lab_backends
nsenter --net="/run/netns/$LAB-node" bash -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'
on_node route add local "$LOCAL" dev eth0 proto 66
LAB_DEVICES=auto lab_agent --xdp off
lab_wait 10 answers "$LOCAL" || die "no answer on $LOCAL, which was local before the agent started"
on_node -6 route add local "$LOCAL6" dev lo proto 66
lab_wait 10 answers "$LOCAL6" || die "no answer on $LOCAL6, which is local now"
[[ $(without) != *"no node ports"* ]] || die "status says: $(without)"
on_node route del local "$LOCAL" dev eth0 proto 66
gone() { ! answers "$LOCAL"; }
lab_wait 10 gone || die "$LOCAL is local no more, and answers"
printf 'addresses by local routes are served\n'

on_node link add vrrp0 link eth0 type macvlan mode bridge
on_node address add "$VRRP/32" dev vrrp0
on_node address add "$VRRP6/128" dev vrrp0 nodad
on_node link set vrrp0 up
lab_wait 10 says "no node ports on vrrp0 ($VRRP): --devices auto,vrrp0 would serve it" || die "status says: $(without)"
prints "no node ports on vrrp0 ($VRRP): --devices auto,vrrp0 would serve it" cat "$LAB_DIR/agent.log" || die "the log does not say so"
answers "$VRRP" >/dev/null 2>&1 && die "vrrp0 is served, and status says that it is not"
lab_stop "$LAB_AGENT"
LAB_DEVICES=auto,vrrp0 lab_agent --xdp off
for address in "$VRRP" "$VRRP6"; do
	lab_wait 10 answers "$address" || die "vrrp0 is named, and $address does not answer: $(lab_sluice status)"
done
[[ $(without) != *"no node ports"* ]] || die "vrrp0 is named, and status says: $(without)"
printf 'a device that is named is served\n'
