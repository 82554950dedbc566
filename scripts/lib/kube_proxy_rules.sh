# SPDX-License-Identifier: Apache-2.0
# Rules in the form of kube-proxy's nftables mode for the services of k8s/examples, on the node of netlab.sh's lab. Sourced
# after it. The maps and chains have kube-proxy's names, so that programs that read its rules (`sluice drain`) read these.
# shellcheck shell=bash
#
#   kube_proxy_comes [NFT]     adds the rules, in one transaction, by this nft
#   kube_proxy_goes [NFT]      removes them likewise; an older nft than the one that added them may crash

# kube_proxy_service FAMILY PODS NAME ADDRESS PORT TARGET ENDPOINT...: the chains of a service port and of its endpoints;
# NAME is kube-proxy's namespace/name/protocol/port.
kube_proxy_service() {
	local family=$1 pods=$2 name=$3 cluster=$4 port=$5 target=$6 protocol i=0 ends='' address chain
	shift 6
	protocol=$(cut -d/ -f3 <<<"$name")
	for address in "$@"; do
		chain=endpoint-0123ABCD-${name}__${address//:/.}/$target
		ends+="${ends:+, }$i : goto $chain"
		[[ $address != *:* ]] || address="[$address]"
		printf 'chain %s { %s saddr %s jump mark-for-masquerade; meta l4proto %s dnat to %s:%s; }\n' "$chain" "$family" \
			"$(tr -d '[]' <<<"$address")" "$protocol" "$address" "$target"
		i=$((i + 1))
	done
	cat <<-END
		chain service-0123ABCD-$name {
		  $family daddr $cluster $protocol dport $port $family saddr != $pods jump mark-for-masquerade
		  numgen random mod $# vmap { $ends }
		}
		chain external-0123ABCD-$name { jump mark-for-masquerade; goto service-0123ABCD-$name; }
	END
}

# kube_proxy_table FAMILY TYPE PODS WEB NODE BALANCER DNS ENDPOINT...: kube-proxy's table for the services of k8s/examples.
kube_proxy_table() {
	local family=$1 type=$2 pods=$3 web=$4 node=$5 balancer=$6 dns=$7
	shift 7
	printf 'table %s kube-proxy {\n' "$family"
	printf 'chain mark-for-masquerade { meta mark set 0x4000; }\n'
	kube_proxy_service "$family" "$pods" default/web/tcp/http "$web" 80 8080 "$@"
	kube_proxy_service "$family" "$pods" kube-system/dns/udp/dns "$dns" 53 5353 "$@"
	cat <<-END
		set nodeport-ips { type $type; elements = { $node }; }
		map service-ips {
		  type $type . inet_proto . inet_service : verdict
		  elements = { $web . tcp . 80 : goto service-0123ABCD-default/web/tcp/http,
		               $balancer . tcp . 80 : goto external-0123ABCD-default/web/tcp/http,
		               $dns . udp . 53 : goto service-0123ABCD-kube-system/dns/udp/dns }
		}
		map service-nodeports {
		  type inet_proto . inet_service : verdict
		  elements = { tcp . 30080 : goto external-0123ABCD-default/web/tcp/http }
		}
		chain services {
		  $family daddr . meta l4proto . th dport vmap @service-ips
		  $family daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
		}
		chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
		chain nat-output { type nat hook output priority -100; jump services; }
		chain nat-postrouting { type nat hook postrouting priority 100; meta mark 0x4000 masquerade; }
		}
	END
}

kube_proxy_comes() {
	{
		kube_proxy_table ip ipv4_addr 10.244.0.0/16 10.96.0.80 10.0.0.10 203.0.113.80 10.96.0.10 10.244.{1,2,3,4}.10
		kube_proxy_table ip6 ipv6_addr fd00:10:244::/48 fd00:10:96::80 fd00:10::10 2001:db8:113::80 fd00:10:96::10 \
			fd00:10:244:{1,2,3,4}::10
	} >"$LAB_DIR/rules"
	lab_in node "${1:-nft}" -f "$LAB_DIR/rules"
}

kube_proxy_goes() { lab_in node "${1:-nft}" 'delete table ip kube-proxy; delete table ip6 kube-proxy'; }
