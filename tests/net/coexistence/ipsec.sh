#!/bin/bash
# IPsec policies under a running agent: the maps and status follow them, and what was redirected towards them ends (REL-88).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

NODE=10.0.0.10 NODE_PORT=30080

without() { lab_sluice status -o json | jq -r .without; }
ranges() { lab_sluice status -o json | jq .maps.lb_ranges.used; }
says() { [[ $(without) == *"ipsec: $1 policies; new flows to backends behind them are refused"* ]]; }
silent() { [[ $(without) != *ipsec* ]]; }
policy() { lab_in node ip xfrm policy "$@"; }
# Flows of the client to pods of other nodes.
redirected() { lab_sluice flows --limit 0 -o json | jq '[.flows[] | select(.client | startswith("10.0.0.100:")) | select(.backend | startswith("10.244.1.") | not)] | length'; }
ended() { (($(redirected) == 0)); }

lab_up ipsec
policy list >/dev/null 2>&1 || { printf 'this kernel has no IPsec\n' && exit 77; }
lab_backends
lab_agent --xdp off
silent || die "a node without policies says: $(without)"
before=$(ranges)
for _ in {1..30}; do lab_in client curl -fsS -m 5 "http://$NODE:$NODE_PORT" >/dev/null; done
(($(redirected) > 0)) || die "no flow of the client is known"

for network in 2 3 4; do
	policy add src 0.0.0.0/0 dst "10.244.$network.0/24" dir out tmpl src 10.0.0.10 dst 10.0.0.21 proto esp mode tunnel
done
lab_wait 15 says 3 || die "status does not say it: $(without)"
(($(ranges) == before + 3)) || die "lb_ranges has $(ranges) entries, and $before before"
lab_wait 15 ended || die "$(redirected) flows to pods elsewhere go on"
grep -q "ended redirected flows to backends behind IPsec policies" "$LAB_DIR/agent.log" || die "the log does not say it"
lab_stop "$LAB_AGENT" TERM
lab_agent --xdp off
says 3 || die "the next agent does not say it: $(without)"
(($(ranges) == before + 3)) || die "the next agent's lb_ranges has $(ranges) entries"
policy flush
lab_wait 15 silent || die "status still says: $(without)"
(($(ranges) == before)) || die "lb_ranges has $(ranges) entries, and $before before"
printf 'status and the maps follow policies\n'
