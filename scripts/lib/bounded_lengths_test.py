# SPDX-License-Identifier: Apache-2.0
"""Tests bounded_lengths.py on programs with deliberate mistakes. usage: bounded_lengths_test.py"""

import sys

import bounded_lengths

DECLARATIONS = """
 * long bpf_skb_load_bytes(const void *skb, u32 offset, void *to, u32 len)
 * s64 bpf_csum_diff(__be32 *from, u32 from_size, __be32 *to, u32 to_size, __wsum seed)
 * long bpf_skb_change_tail(struct sk_buff *skb, u32 len, u64 flags)
 * long bpf_fib_lookup(void *ctx, struct bpf_fib_lookup *params, int plen, u32 flags)
 FN(skb_load_bytes, 26, ##ctx)
 FN(csum_diff, 28, ##ctx)
 FN(skb_change_tail, 38, ##ctx)
 FN(fib_lookup, 69, ##ctx)
"""
LOAD = "call 0x1a"
BOUND = ("if r9 >= 0xe goto +0x1", "r9 = 0xe", "if r9 <= 0x600 goto +0x1", "r9 = 0x600")
# What is in order, and what is not with a part of the expected complaint: a function's instructions up to the call.
RIGHT = (
    ("w4 = 0x6", LOAD),
    ("w6 = 0x1c", "if w1 == 0x4 goto +0x1", "w6 = 0x30", "call 0x26", "w4 = w6", LOAD),
    ("r9 = *(u64 *)(r10 - 0x58)", *BOUND, "r1 = r8", "r4 = r9", LOAD),
    ("w2 = w9", "call 0x26"),
)
WRONG = (
    (("r4 = *(u32 *)(r10 - 0x58)", LOAD), "it comes from instruction 0, 'r4 = *(u32 *)(r10 - 0x58)'"),
    ((*BOUND, "*(u64 *)(r10 - 0x58) = r9", "r4 = *(u64 *)(r10 - 0x58)", LOAD), "it comes from instruction 5"),
    ((*BOUND, "w4 = w9", LOAD), "it is copied in 32 bits"),
    ((*BOUND, "r9 += -0xe", "r4 = r9", LOAD), "it comes from instruction 4"),
    (("r9 = r1", "if w8 == 0x0 goto +0x4", *BOUND, "r4 = r9", LOAD), "it is an argument of this function"),
    (("w4 = 0x6", "call 0x1", LOAD), "it comes from instruction 1, 'call 0x1'"),
    (("r2 = r7", "w4 = 0x6", "call 0x1c"), "the length of bpf_csum_diff (argument 2)"),
    (("call 0xff",), "which of its arguments are lengths is not known here"),
)


def disassembly(texts):
    lines = ["0000000000000000 <lb_function>:"]
    for slot, text in enumerate((*texts, "exit")):
        lines.append(f"{slot:8}:\t{'85 00' if text.startswith('call') else 'b7 00'} 00 00 00 00 00 00\t{text}")
    return "\n".join(lines)


def main():
    known = bounded_lengths.helpers(DECLARATIONS)
    known[1] = ("bpf_map_lookup_elem", ())
    assert known[38] == ("bpf_skb_change_tail", ()) and known[69] == ("bpf_fib_lookup", (3,)), known
    for texts in RIGHT:
        found = list(bounded_lengths.wrong(disassembly(texts), known))
        assert not found, (texts, found)
    for texts, words in WRONG:
        found = list(bounded_lengths.wrong(disassembly(texts), known))
        assert any(words in each for each in found), (texts, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
