# SPDX-License-Identifier: Apache-2.0
"""The cache finds a test that passed, and not if anything has changed on which it may depend."""

import os
import time
import unittest
from pathlib import Path

from runner.cache import KEPT_SECONDS, Cache
from runner.settings import Settings
from runner.tests import directory


class Keys(unittest.TestCase):
    def setUp(self) -> None:
        entered = directory()
        self.work = entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)
        for name in ("tree/tests/net/a.sh", "tree/tests/corpus/fuzz/one", "build/sluice", "program"):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(name)
        self.cache = self.new()

    def new(self) -> Cache:
        return Cache(self.work / "cache", self.work / "tree", self.work / "build")

    def key(
        self, level: str = "net", title: str = "net/a.sh", programs: tuple[Path, ...] = (), **environment: str
    ) -> str:
        return self.cache.key(level, title, environment, programs)

    def test_hit(self) -> None:
        key = self.key()
        self.assertIsNone(self.cache.passed(key))
        self.cache.remember(key, 3)
        self.cache = self.new()
        self.assertEqual(self.cache.passed(self.key()), 3)

    def test_content_counts_and_not_time(self) -> None:
        key = self.key()
        os.utime(self.work / "tree/tests/net/a.sh", (1, 1))
        self.assertEqual(self.key(), key)

    def test_miss(self) -> None:
        keys = [
            self.key(),
            self.key(title="net/b.sh"),
            self.key(level="e2e"),
            self.key(SLUICE_WITHOUT="tcx"),
            self.key(SLUICE_SEED="1"),
            self.key(PARTNERS="/p"),
            self.key(KERNELS="6.1 /k"),
            self.key(programs=(self.work / "program",)),
        ]
        for name, text in (
            ("tree/tests/net/a.sh", "changed"),
            ("tree/tests/net/deep/new.py", ""),
            ("build/sluice", "built again"),
            ("build/netfilter-tools/sid/packages", "nft 2"),
        ):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(text)
            keys.append(self.key())
        self.assertEqual(len(set(keys)), len(keys))

    def test_other_files_do_not_count(self) -> None:
        key = self.key()
        (self.work / "tree/tests/net/a.pyc").write_text("compiled")
        (self.work / "tree/tests/corpus/fuzz/one").write_text("changed")
        self.assertEqual(self.key(), key)
        self.assertNotEqual(self.key("fuzz"), self.key("unit"))

    def test_old_results_are_removed(self) -> None:
        self.cache.remember("old", 1)
        os.utime(self.work / "cache/old", (0, time.time() - KEPT_SECONDS - 10))
        self.cache.remember("new", 1)
        self.assertEqual((self.cache.passed("old"), self.cache.passed("new")), (None, 1))

    def test_when_it_is_used(self) -> None:
        self.assertTrue(Settings().uses_cache)
        for settings in (Settings(ci="true"), Settings(again=True), Settings(long=True)):
            self.assertFalse(settings.uses_cache)
