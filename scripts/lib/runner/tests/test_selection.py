# SPDX-License-Identifier: Apache-2.0
"""What arguments select: items and their tracks, shards, what failed, and what is prepared."""

import unittest

from runner import needs
from runner.results import Result
from runner.selection import LANES, LEVELS, LONG_ONLY, Item, Options, Track, Unknown, check, plan
from runner.tests import directory


def selections(*arguments: str, lanes: bool = False) -> list[str]:
    return [item.selection for item in plan(Options.of(arguments), lanes)]


class Arguments(unittest.TestCase):
    def test_known(self) -> None:
        for each in (
            *LEVELS,
            "without",
            "net/growing",
            "without/growing",
            "e2e/load",
            "kernels/vlan",
            "kernels/net/growing",
            "kernels/net:REL-19*",
            "kernels/prog:x",
            "fuzz/packet",
            "unit:a b",
            "net:SEM-1*",
            "static/pipes",
            "static/clang-tidy",
            "package/compiles_arm64",
        ):
            check(each)

    def test_unknown(self) -> None:
        for each, words in (
            ("nett", "does not know"),
            ("--foo", "does not know"),
            ("net/nothing", "finds no scenario"),
            ("kernels/net/nothing", "finds no scenario"),
            ("fuzz/x", "finds no fuzz target"),
            ("net:", "cannot select"),
            ("unit/x", "cannot select"),
            ("debian13/x", "cannot select"),
            ("static/x", "finds no check"),
            ("e2e:x", "cannot select"),
        ):
            with self.subTest(each), self.assertRaisesRegex(Unknown, words):
                check(each)

    def test_shards(self) -> None:
        self.assertEqual(Options.of(["--shard", "2/3", "net"]).shard, (2, 3))
        for each in ("0/3", "4/3", "3", "a/b", "-1/2", ""):
            with self.subTest(each), self.assertRaises(Unknown):
                Options.of(["--shard", each])

    def test_no_selection_is_all(self) -> None:
        self.assertEqual(Options.of([]).asked, list(LEVELS[:-1]))
        self.assertEqual(Options.of(["--long"]).asked, list(LEVELS))


class Plan(unittest.TestCase):
    def test_the_short_form_leaves_tests_out(self) -> None:
        short, long = selections(), selections("--long")
        self.assertFalse(set(LONG_ONLY) & set(short))
        self.assertTrue(set(LONG_ONLY) <= set(long))
        self.assertIn("kernels/virtio", long)
        self.assertNotIn("kernels/virtio", short)
        self.assertEqual(len(short), len(set(short)))
        self.assertIn("package/compiles_arm64", short)
        self.assertNotIn("package/compiles_arm64", long)

    def test_net_has_a_second_run(self) -> None:
        self.assertTrue(set(selections("without")) < set(selections("net")))
        self.assertEqual(selections("net"), selections("net", "without"))

    def test_named_items_are_last_and_run_again(self) -> None:
        items = plan(Options.of(["net/growing", "unit", "net:SEM-1*"]))
        self.assertEqual([item.selection for item in items], ["unit", "net/growing", "net:SEM-1*"])
        self.assertEqual([item.track for item in items], [Track.SCENARIOS, Track.NAMED, Track.NAMED])
        self.assertEqual([item.named for item in items], [False, True, True])
        self.assertEqual(
            plan(Options.of(["kernels/net/growing"])), [Item("kernels", "net/growing", "", Track.GUESTS, True)]
        )

    def test_lanes(self) -> None:
        track = {item.selection: item.track for item in plan(Options.of(["--long"]), lanes=True)}
        self.assertEqual([track[name] for name in LANES[0]], [Track.LANE_0] * 2)
        self.assertEqual([track[name] for name in LANES[1]], [Track.LANE_1] * 3)
        self.assertNotIn(Track.LANE_0, {item.track for item in plan(Options.of(["--long"]))})

    def test_shards_are_a_partition(self) -> None:
        for arguments in ([], ["--long"], ["net", "net/growing"], ["fuzz/packet"]):
            every = selections(*arguments)
            for total in (1, 2, 3, 7, len(every) + 1):
                parts = [selections(*arguments, "--shard", f"{number}/{total}") for number in range(1, total + 1)]
                self.assertEqual(sorted(sum(parts, [])), sorted(every))
                self.assertLessEqual(max(map(len, parts)) - min(map(len, parts)), 1)


class Failed(unittest.TestCase):
    def test_what_failed_is_selected(self) -> None:
        with directory() as logs:
            results = [
                Result("a", "net", "net/growing", failed=1),
                Result("b", "unit", "unit", passed=3),
                Result("c", "net", "net:one\\, two", failed=2),
                Result("d", "kernels", "kernels/vlan", failed=1),
                Result("d again", "kernels", "kernels/vlan", failed=1),
                Result("g++", "build", "", failed=1),
            ]
            (logs / "results.jsonl").write_text("".join(result.line() for result in results) + '{"cut off')
            self.assertEqual(
                Options.of(["--failed"], logs=logs).asked, ["net/growing", "net:one\\, two", "kernels/vlan"]
            )
            with self.assertRaises(Unknown):
                Options.of(["--failed", "net"], logs=logs)

    def test_nothing_failed_is_nothing_to_run(self) -> None:
        with directory() as logs:
            self.assertEqual(plan(Options.of(["--failed"], logs=logs)), [])


class Needs(unittest.TestCase):
    def needed(self, *arguments: str) -> list[str]:
        return [need.command for need in needs.needed(plan(Options.of(arguments)))]

    def test_rows(self) -> None:
        self.assertEqual(self.needed("unit", "prog", "net/growing", "net:SEM-1*"), [])
        self.assertEqual(self.needed("net"), ["lib/bird", "lib/netfilter-tools"])
        self.assertEqual(self.needed("kernels/vlan"), ["lib/kernels"])
        self.assertEqual(
            self.needed("e2e/load"),
            ["lib/partners", "lib/kube-proxy-fields", "lib/monitoring", "lib/helm", "lib/netfilter-tools"],
        )
        self.assertIn("lib/partners --nodes", self.needed("cluster", "e2e"))
        self.assertNotIn("lib/partners", self.needed("cluster", "e2e"))
        self.assertIn(
            "build --arch arm64 sluice tests/test_unit tests/test_golden tests/test_prog", self.needed("package/arm64")
        )
        self.assertIn("lib/older-agents", self.needed("--long", "net"))
