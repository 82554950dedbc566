# SPDX-License-Identifier: Apache-2.0
"""Tests of the runner: check `runner` of level static."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.cache import Cache
from runner.execute import Context
from runner.report import Report
from runner.settings import Settings


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="runner-test.") as name:
        yield Path(name)


def context(work: Path, settings: Settings | None = None) -> Context:
    """A run of its own in a directory, with a cache of its own."""
    settings = settings or Settings()
    settings.work, settings.logs = work, work / "logs"
    cache = Cache(work / "cache", tree=work / "tree", build=work / "build")
    return Context(settings, Report(settings, work / "results.jsonl"), cache, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def printed(function: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        function()
    return output.getvalue()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)
    return path
