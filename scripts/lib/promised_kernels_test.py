# SPDX-License-Identifier: Apache-2.0
"""Tests promised_kernels.py on tables of distributions with deliberate mistakes. usage: promised_kernels_test.py"""

import sys

import promised_kernels

TABLE = """## Distributions

| distribution | kernel | status | source |
|---|---|---|---|
| Debian 12 | 6.1 | tested | here |
| Debian 12, backports | 6.12 | tested | here |
| Debian 13 | 6.12 | expected; Debian 12's build is tested | there |
| Bottlerocket | 6.18, 5.15 | 6.18 expected, others not served | there |
| Debian 14 | 7.2 | loads | here |
| Talos | 6.6 | untested | there |

## Next
"""
# The original text, its replacement, and a part of the expected complaint.
PLANTED = (
    ("| 6.12 | expected; Debian 12's build is tested |", "| 6.12 | tested |", "'Debian 13' (6.12) is called 'tested', and the level"),
    ("| Talos | 6.6 | untested |", "| Talos | 6.6 | tested |", "'Talos' (6.6) is called 'tested', and the level"),
    ("| Talos | 6.6 | untested |", "| Talos | 6.6 | expected |", "none of these is tested anywhere"),
    ("| Talos | 6.6 | untested |", "| Talos | 6.6 | not served |", "6.1 is the oldest that is served"),
    ("| Talos | 6.6 | untested |", "| Talos | 6.6 | works |", "which is none of"),
    ("| Talos | 6.6 | untested |", "| Talos | 6.6 | loads |", "boots what is newest of Debian 14 alone"),
    ("| Debian 12 | 6.1 | tested |", "| Debian 12 | 6.1 | expected |", "calls no distribution of 6.1 tested"),
    ("| Debian 12 | 6.1 | tested |", "| Debian 12 | 6.6 | tested |", "'Debian 12' (6.6) is called 'tested', and the level"),
)


def wrong(table):
    return list(promised_kernels.wrong_distributions(table, ["6.1", "6.12"], {"Debian 12"}, {"Debian 14"}))


def main():
    assert not wrong(TABLE), wrong(TABLE)
    for old, new, words in PLANTED:
        assert old in TABLE, old
        found = wrong(TABLE.replace(old, new))
        assert any(words in each for each in found), (new, found)
    assert promised_kernels.distributions() == {"Debian 12"}
    assert promised_kernels.newest() == {"Debian 13", "Debian 14"}
    return 0


if __name__ == "__main__":
    sys.exit(main())
