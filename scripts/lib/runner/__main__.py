# SPDX-License-Identifier: Apache-2.0
"""The runner's entry points: `inside` a sandbox, in a `guest` with another kernel, in a `debian13` root, or
scripts/test itself."""

import importlib
import sys
from pathlib import Path

# Imports of the package need the directory that contains it, and nothing else from there.
sys.path[0] = str(Path(__file__).resolve().parents[1])
ENTRIES = {"inside": "runner.levels", "guest": "runner.in_guest", "debian13": "runner.debian13"}
name = sys.argv[1] if len(sys.argv) > 1 else ""
entry = importlib.import_module(ENTRIES.get(name, "runner.command"))
sys.exit(entry.main(sys.argv[2:] if name in ENTRIES else sys.argv[1:]))
