# SPDX-License-Identifier: Apache-2.0
"""The shell scenarios of a level: where they are, and how they say how to run them."""

import os
from collections.abc import Iterator
from pathlib import Path

from runner.settings import ROOT

# Directories below a level are topics, except those of libraries.
LIBRARIES = ("lib", "programs", "partners")
GUEST = "# guest: "


def files(level: str, tree: Path = ROOT) -> list[Path]:
    """All of the level, by name."""
    return sorted(_walk(tree / "tests" / level), key=lambda path: (path.name, path))


def _walk(level: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(level):
        folders[:] = [name for name in folders if name not in LIBRARIES]
        yield from (Path(folder, name) for name in names if name.endswith(".sh"))


def find(level: str, name: str, tree: Path = ROOT) -> Path | None:
    return next((path for path in files(level, tree) if path.stem == name), None)


def guest_settings(name: str, tree: Path = ROOT) -> list[str]:
    """The settings for scripts/lib/vm in the line "# guest: NAME=VALUE..." of a scenario of level kernels; none if it
    shares the other scenarios' guest."""
    path = find("kernels", name, tree)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    return next((line.removeprefix(GUEST).split() for line in lines if line.startswith(GUEST)), [])
