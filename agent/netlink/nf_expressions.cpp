#include "agent/netlink/nf_expressions.hpp"

#include <linux/netfilter/nf_tables.h>

namespace lb::agent {

using netlink::Bytes;
using netlink::Request;

void add_expression(Request& expressions, std::string_view name, const std::function<void(Request&)>& data) {
  expressions.nest(NFTA_LIST_ELEM,
                   [&](Request& element) { element.add(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, data); });
}

void add_verdict(Request& expressions, std::uint32_t code) {
  add_expression(expressions, "immediate", [code](Request& data) {
    data.add_network_order(NFTA_IMMEDIATE_DREG, std::uint32_t{NFT_REG_VERDICT});
    data.nest(NFTA_IMMEDIATE_DATA, [code](Request& value) {
      value.nest(NFTA_DATA_VERDICT,
                 [code](Request& verdict) { verdict.add_network_order(NFTA_VERDICT_CODE, code); });
    });
  });
}

void add_value(Request& request, std::uint16_t type, Bytes value) {
  request.nest(type, [&](Request& data) { data.add_bytes(NFTA_DATA_VALUE, value); });
}

}  // namespace lb::agent
