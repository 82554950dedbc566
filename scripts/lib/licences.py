# SPDX-License-Identifier: Apache-2.0
"""Checks the licences: every source file says its own in its first lines, the same as .reuse/dep5 says for it, and `reuse lint` finds nothing.
usage: licences.py"""

import fnmatch
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tree import files_of

ROOT = Path(__file__).resolve().parents[2]
# Files of these kinds have a line of their own; so have those that begin with #!.
SOURCES = (".c", ".cpp", ".h", ".hpp", ".py", ".sh", ".cmake", ".go", ".rs", ".java", ".js", ".rb")
NAMED = ("CMakeLists.txt", "Dockerfile", "Vagrantfile")
LINE = re.compile(r"SPDX-License-Identifier: (.+?)(?: \*/)?$", re.M)


def head(path):
    """The first three lines; empty for data that is no text."""
    with open(path, "rb") as file:
        return b"".join(file.readline(400) for _ in range(3)).decode(errors="replace")


def paragraphs():
    """Patterns and licence of each paragraph of .reuse/dep5, in its order."""
    for paragraph in (ROOT / ".reuse/dep5").read_text().split("\n\n"):
        fields = {key: " ".join(value.split()) for key, value in re.findall(r"^(\w+): *((?:.*)(?:\n .*)*)", paragraph, re.M)}
        if "Files" in fields:
            yield fields["Files"].split(), fields["License"]


def main():
    wrong, known = [], list(paragraphs())
    files = files_of(ROOT)
    for name in files:
        path, text = ROOT / name, head(ROOT / name)
        said = LINE.search(text)
        source = path.suffix in SOURCES or path.name in NAMED or text.startswith("#!")
        if source and not said and "corpus" not in path.parts:
            wrong.append(f"{name}: its first lines name no licence (SPDX-License-Identifier)")
        listed = [licence for patterns, licence in known if any(fnmatch.fnmatchcase(name, each) for each in patterns)]
        if said and (not listed or said[1] != listed[-1]):
            wrong.append(f"{name}: says {said[1]}, and .reuse/dep5 says {listed[-1] if listed else 'nothing'}")
    for patterns, _ in known:
        wrong += [f".reuse/dep5: no file is named {each}" for each in patterns if not fnmatch.filter(files, each)]
    if not shutil.which("reuse"):
        wrong.append("reuse is not installed; scripts/setup installs it")
    else:
        # In a copy of the tree's files, because a source archive has no git that tells it what to leave out.
        with tempfile.TemporaryDirectory() as copy:
            for name in files:
                (Path(copy) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, Path(copy) / name)
            done = subprocess.run(["reuse", "--root", copy, "lint"], capture_output=True, text=True, check=False)
        if done.returncode:
            wrong.append(done.stdout + done.stderr)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
