# SPDX-License-Identifier: Apache-2.0
"""The files of the tree, for scripts that check it: in a clone those that git tracks or would add; in a source archive all that
.gitignore does not name. scripts/lib/common.sh has the same for shell (tree_files)."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# What .gitignore names, for a tree without git.
IGNORED = ("build", ".cache", "__pycache__", ".git")


def is_ignored(name: str, at_top: bool) -> bool:
    return name in IGNORED[1:] or name.endswith(".pyc") or (at_top and name.startswith(IGNORED[0]))


def walk(tree: str | Path) -> Iterator[str]:
    for folder, folders, names in os.walk(tree):
        at_top = Path(folder) == Path(tree)
        folders[:] = [name for name in folders if not is_ignored(name, at_top)]
        for name in names:
            if not name.endswith(".pyc"):
                yield os.path.relpath(os.path.join(folder, name), tree)


def files_of(tree: str | Path) -> list[str]:
    """Relative paths, sorted; files that git tracks but that were removed are left out."""
    asked = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(tree), "ls-files", "--cached", "--others",
                            "--exclude-standard", "--deduplicate"], capture_output=True, text=True, check=False)
    paths = asked.stdout.splitlines() if asked.returncode == 0 else walk(tree)
    return sorted(path for path in paths if (Path(tree) / path).is_file())
