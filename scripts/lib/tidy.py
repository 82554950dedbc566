# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on our .cpp files whose text, own header, flags or checks have changed since they were last found clean; with CI=true in
the environment also on those of which any other header has changed. SLUICE_TIDY_SECONDS limits the time: on a machine that has found no file
clean yet, all of them take an hour; files that recent commits changed come first, and what is left is counted.
usage: tidy.py BUILD_DIR OTHER_BUILD_DIR CACHE_DIR JOBS

Several trees may share CACHE_DIR: results do not depend on a tree's location.

The compile commands are those of BUILD_DIR, which is clang's; for what it did not build, those of OTHER_BUILD_DIR. The headers that a file
includes are known from either; if from neither, all headers of the tree count."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from deps import headers_by_object

TIDY = "clang-tidy-19"
OPTIONS = ["--quiet", "--warnings-as-errors=*"]
OUR_HEADERS = "/(agent|bench|k8s|maps|tests)/.*[.]hpp$"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Results not used for this time are removed.
KEPT_SECONDS = 30 * 86400


class Digests:
    """Hashes of file contents, each read once."""

    def __init__(self):
        self.known = {}

    def of(self, path):
        if path not in self.known:
            self.known[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "gone"
        return self.known[path]


def without_precompiled(command):
    """A compile command that reads each header where it is included: other targets' precompiled ones are not built, and a
    missing #include has to be found by somebody."""
    return re.sub(r"-Winvalid-pch|-Xclang (?:-include-pch|-include|-emit-pch|-fno-pch-timestamp)(?: -Xclang \S+)?", "", command)


def object_of(entry):
    """The object file that a compile command creates, as named by ninja."""
    return re.search(r" -o (\S+)", entry["command"]).group(1)


def key_of(entry, headers, digests, common):
    """A hash of everything that clang-tidy's result for one file depends on, except the location of the tree."""
    parts = [common, entry["command"].replace(str(ROOT), "ROOT"), digests.of(pathlib.Path(entry["file"]))]
    parts += [f"{path} {digests.of(path)}".replace(str(ROOT), "ROOT") for path in sorted(headers)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def own_headers(entry):
    """The header that belongs to a source file. Findings in other headers are reported for their own sources."""
    return [path for path in [pathlib.Path(entry["file"]).with_suffix(".hpp")] if path.exists()]


def recently_changed():
    """The files of the last hundred commits; none without git."""
    log = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "log", "-n", "100", "--format=", "--name-only"],
                         capture_output=True, text=True, check=False)
    return {str(ROOT / line) for line in log.stdout.splitlines() if line}


def run(database, source, deadline):
    """The exit code and the text; (None, "") if there is no time left to begin."""
    if time.monotonic() > deadline:
        return None, ""
    command = [TIDY, "-p", database, *OPTIONS, f"--header-filter=^{re.escape(str(ROOT))}{OUR_HEADERS}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    noise = [line for line in done.stderr.splitlines() if "error" in line.lower()] if done.returncode else []
    return done.returncode, done.stdout + "\n".join(noise)


def forget(cache, used):
    """Updates the timestamps of the results that were used, and removes old ones."""
    for key in used:
        if (cache / key).exists():
            (cache / key).touch()
    for answer in cache.iterdir():
        if answer.stat().st_mtime < time.time() - KEPT_SECONDS:
            answer.unlink(missing_ok=True)


def main():
    build, other, cache = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    cache.mkdir(parents=True, exist_ok=True)
    entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].endswith(".cpp")}
    for entry in entries.values():
        entry["command"] = without_precompiled(entry["command"])
    headers, digests = headers_by_object(other) | headers_by_object(build), Digests()
    every_header = [path for folder in ("agent", "bench", "bpf", "k8s", "maps", "tests")
                    for path in (ROOT / folder).rglob("*.h*")]
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    settings = [ROOT / ".clang-tidy", ROOT / "tests" / ".clang-tidy"]
    common = version + "".join(path.read_text() for path in settings) + " ".join(OPTIONS) + OUR_HEADERS
    keys = {source: key_of(entry, headers.get(object_of(entry), every_header), digests, common)
            for source, entry in entries.items()}
    short_keys = {source: "own-" + key_of(entry, own_headers(entry), digests, common) for source, entry in entries.items()}
    stale = [source for source in entries if not (cache / keys[source]).exists()]
    due = [source for source in stale if os.environ.get("CI") == "true" or not (cache / short_keys[source]).exists()]
    # Then the longest files first, so that the last ones to finish are short.
    recent = recently_changed()
    due.sort(key=lambda source: (source not in recent, -len(headers.get(object_of(entries[source]), every_header))))
    deadline = time.monotonic() + float(os.environ.get("SLUICE_TIDY_SECONDS", "inf"))
    failed = left = 0
    with tempfile.TemporaryDirectory() as database, concurrent.futures.ThreadPoolExecutor(int(sys.argv[4])) as pool:
        (pathlib.Path(database) / "compile_commands.json").write_text(json.dumps(list(entries.values())))
        for source, (code, text) in zip(due, pool.map(lambda source: run(database, source, deadline), due)):
            if code == 0:
                (cache / keys[source]).touch()
                (cache / short_keys[source]).touch()
            elif code is None:
                left += 1
            else:
                failed += 1
                print(text)
    forget(cache, [*keys.values(), *short_keys.values()])
    print(f"{len(entries)} files, {len(due) - left} looked at, {len(stale) - len(due)} left to CI=true, "
          f"{left} left for lack of time, {failed} with findings")
    return 1 if failed else 0


sys.exit(main())
