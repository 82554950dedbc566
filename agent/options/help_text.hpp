// SPDX-License-Identifier: Apache-2.0
// The texts of --help below the options.
#pragma once

namespace lb::agent {

inline constexpr const char* main_footer = R"(Examples:
  sluice agent --devices auto      in a pod: serve what the API says on the uplinks and to this node's sockets
  sluice agent --kubeconfig FILE --devices eth0        the same, from outside of a pod
  sluice agent --manifests /etc/sluice --devices eth0  serve what manifests say, without any API
  sluice check --devices eth0      would an agent start here, and what would it go without
  sluice status                    what is attached where, how full the tables are, what packets met
  sluice services                  every service port with its frontends
  sluice backends default/web      backends of a service, and for which clients each is eligible
  sluice flows --limit 20          live connections through this node
  sluice alive                     for a probe: exit code 0 while an agent runs here and does its work
  sluice cleanup                   remove all that Sluice left on this node, once no agent runs
  sluice drain                     give the services back to kube-proxy, and lose no connection
  sluice COMMAND --help            the options of one command

The commands for people read the pinned maps, so they also work while no agent runs.)";

inline constexpr const char* agent_footer =
    R"(Where services come from: without --manifests and --kubeconfig the agent is in a pod and uses its service
account. With several --api-server the next one is asked when one fails. In place of kube-proxy the service's own
address (KUBERNETES_SERVICE_HOST) needs a proxy that already works, so before it comes the server of kube-proxy's
kubeconfig (--api-server-from) and after it the servers as the API last reported them (--state); or name them.

Examples:
  sluice agent --devices eth0 --api-server https://10.0.0.10:6443 --api-server https://10.0.0.11:6443
  sluice agent --kubeconfig /etc/sluice/kubeconfig --devices eth0    an account with the rights of system:node-proxier
  sluice agent --manifests /etc/sluice --devices eth0,eth1
  sluice agent --manifests DIR --devices eth0 --xdp native    insist on XDP in the driver
  sluice agent --manifests DIR --devices none                 serve sockets only, touch no packet
  sluice agent --manifests DIR --devices eth0 --without tcx   use clsact, as kernels before 6.6 do

Signals: SIGTERM and SIGINT end the agent; what it attached and pinned stays and serves, and the next
agent takes it over. SIGHUP makes it look whether the tables are as it wrote them, as it does every hour, and
repair what is not. Only one agent can use a pin directory at a time.)";

inline constexpr const char* check_footer =
    R"(Give it the options that the agent is to have. It looks at all that a start looks at, and at more: each program
is loaded and dropped again, each optional feature tried. VERDICT is ok, warning (the agent starts, and something is
lost or should be known) or missing (it does not). The exit code is 0 only if nothing is missing.

Nothing is changed: no pins, nothing attached, no setting. The kernel may load its own modules when it is asked for
sock_diag (before Linux 6.5) or clsact (before 6.6), as it does when an agent starts. An agent that runs on the same
pins is taken for the one to be replaced: its ports are not tried.

With --against kube-proxy it looks at the rules of the kube-proxy that runs on this node (iptables, nftables or IPVS,
read from the kernel) and at what an agent with these options would serve, and says what differs: frontends, endpoints,
session affinity, what a client gets where there are no endpoints (reject or drop), and whether source ranges limit
clients. A difference counts only if it lasts four seconds. Exit code 0: the same; 1: something differs; 2: it cannot
be compared, or the command line or the file of --config cannot be used.

Examples:
  sluice check --manifests /etc/sluice --devices eth0
  sluice check --kubeconfig FILE --devices none --against kube-proxy
  sluice check --kubeconfig FILE --devices eth0 --without tcx -o json)";

inline constexpr const char* status_footer = R"(Examples:
  sluice status                    for people
  sluice status -o json            for a program to read)";

inline constexpr const char* alive_footer =
    R"(Exit code 0: an agent runs, and its last heartbeat is at most 60 s old (or it has just started). 1: not.
With --textfile the exit code is 0 if FILE was written, whatever the answer.

Examples:
  sluice alive
  sluice alive --textfile /var/lib/node_exporter/textfile_collector/sluice.prom --interval 15)";

inline constexpr const char* flows_footer = R"(Examples:
  sluice flows                     the first 100 flows
  sluice flows --limit 0 -o json   all of them, for a program to read)";

inline constexpr const char* services_footer = R"(Examples:
  sluice services                    every service port
  sluice services default/web        all ports of default/web
  sluice services kube-system/       everything in a namespace)";

inline constexpr const char* cleanup_footer =
    R"(Removes the pinned links, which detaches the programs from sockets and devices, our clsact filters and the qdiscs
that were made for them, the pinned maps, and the directories of every map layout below --pins. Needs no API server, and
may be repeated. It refuses while an agent runs, which would put everything back: end that first.

--kube-proxy removes what kube-proxy left in any of its modes, once another service proxy serves: the tables of its
nftables mode, its chains in iptables' tables (nft and legacy) and the jumps to them. The kubelet's chains and all
other rules stay; so does a chain of kube-proxy's that a chain of another owner jumps to. Of its IPVS mode it removes
virtual services, IP sets and the device kube-ipvs0, too, after it has handed their connections over to conntrack. It refuses
if connections would end, and if no Sluice with these --pins serves (no agent, no first plan written, no hook, or drained),
because the node would have no services. --force removes nevertheless.

Exit code 0: nothing is left. 1: something is, and is named; or refused.

Examples:
  sluice cleanup --dry-run           what would go
  sluice cleanup                     remove it
  sluice cleanup --kube-proxy        remove kube-proxy's rules, while Sluice serves)";

inline constexpr const char* drain_footer =
    R"(For the way back to kube-proxy: start it, then drain. It begins once kube-proxy's rules have endpoints for every frontend
that is served here with endpoints; if it does not within half a minute, drain names what is missing and changes nothing. --force
drains nevertheless: without kube-proxy's rules nothing is handed over, and connections end. From then on no flow is opened
here: new connections are left to kube-proxy's rules, and sockets that connect are not translated. Established flows of packets are handed over to the kernel's conntrack, which goes on
translating them; what cannot be handed over (SCTP, handshakes under way) stays until it ends, or until --deadline.
Connections translated at the socket need nothing of ours. docs/switch-over.md has the details.

At the end, without an agent, the hooks and all pins are removed, as by `sluice cleanup`. While an agent runs they stay, and
handle only what is left: stop it, then `sluice cleanup`. A drained node stays drained when the agent starts again, until --cancel.

Exit code 0: all flows are handed over or ended. 1: refused, or flows were left at the deadline.

Examples:
  sluice drain                       hand over, wait at most five minutes, and go
  sluice drain --deadline 30         wait half a minute at most
  sluice drain --cancel              serve on)";

inline constexpr const char* backends_footer = R"(Examples:
  sluice backends default/web        all ports of default/web
  sluice backends default/web:http   one port
  sluice backends kube-system/       everything in a namespace)";

}  // namespace lb::agent
