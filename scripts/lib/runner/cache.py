# SPDX-License-Identifier: Apache-2.0
"""Remembers tests that passed, by the content of what they depend on, so that they do not run again until something
changes: for developers, who run a level after each small change. Not used in CI (CI=true), with --again or --long, or
for tests named one by one."""

import hashlib
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runner.settings import BUILD, CACHE, ROOT

KEPT_SECONDS = 30 * 86400

# The files that a level tests or uses, besides its own program. {build} is the build directory.
PURE = ("tests/corpus", "tests/golden", "docs/kube-proxy-config.md", "k8s/examples")
TESTED = {
    "unit": PURE,
    "golden": PURE,
    "fuzz": PURE,
    "prog": ("tests/prog", "{build}/bpf/lb.o", "{build}/tests/prog/fixtures"),
    "net": (
        "tests/net",
        "tests/e2e/lib",
        "tests/corpus/kube_proxy_rules",
        "k8s/examples",
        "docs/guides",
        "scripts/lib",
        "{build}/sluice",
    ),
}
OTHERS = (
    "tests/e2e",
    "tests/net",
    "tests/package",
    "tests/cluster",
    "k8s",
    "docs/guides",
    "scripts",
    "CMakeLists.txt",
    "{build}/sluice",
)
# What a result may depend on besides files.
VARIABLES = ("SLUICE_WITHOUT", "SLUICE_SEED", "PARTNERS", "KERNELS")


def files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (file for name in names if not name.endswith(".pyc") and (file := Path(folder, name)).is_file())


class Cache:
    """A directory with a file for each test that passed: its name is the key, its content the number of cases."""

    def __init__(self, directory: Path = CACHE / "passed", tree: Path = ROOT, build: Path = BUILD) -> None:
        self.directory = directory
        self.tree = tree
        self.build = build
        # Contents of files that were read before: read again when the file changes.
        self._digests: dict[tuple[str, int, int, int], str] = {}

    def digest(self, path: Path) -> str:
        status = path.stat()
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._digests:
            with path.open("rb") as file:
                self._digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digests[key]

    def key(self, level: str, title: str, environment: Mapping[str, str], programs: Sequence[Path] = ()) -> str:
        """Changes whenever anything changes on which the test may depend."""
        packages = str(self.build).removesuffix("/debian13/build")
        parts = [level, title, platform.release(), *(environment.get(name, "") for name in VARIABLES)]
        parts += [path.read_text() for path in sorted(Path(packages).glob("netfilter-tools/*/packages"))]
        tested = [self.tree / path.format(build=self.build) for path in TESTED.get(level, OTHERS)]
        files = {file for path in (*tested, *programs) for file in files_below(path)}
        parts += [f"{file} {self.digest(file)}" for file in sorted(files)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]

    def passed(self, key: str) -> int | None:
        """How many cases passed, if they did."""
        try:
            return int((self.directory / key).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def remember(self, key: str, count: int) -> None:
        """Stores the result; removes results older than a month."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / key).write_text(f"{count}\n")
        for path in self.directory.iterdir():
            if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                path.unlink(missing_ok=True)
