# SPDX-License-Identifier: Apache-2.0
"""Reads from ninja which headers each object was compiled from."""

import pathlib
import subprocess


def headers_by_object(build):
    """{object's name: [path of a header or source, ...]} for everything in `build` that is built and up to date."""
    if not pathlib.Path(build, "build.ninja").exists():
        return {}
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    result, current = {}, None
    for line in text.splitlines():
        if line.startswith("    ") and current:
            result[current].append(pathlib.Path(build, line.strip()).resolve())
        elif ": #deps" in line:
            current = None if "(STALE)" in line else line.split(":", 1)[0]
            if current:
                result[current] = []
    return result
