# SPDX-License-Identifier: Apache-2.0
"""Places of files, the environment's settings, and time limits."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "scripts"
LIBRARY = SCRIPTS / "lib"
BUILD = Path(os.environ.get("SLUICE_BUILD_ROOT") or ROOT / "build")
SANITIZED = BUILD / "sanitized"
LOGS = BUILD / "logs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
RUNNER = (sys.executable, str(LIBRARY / "runner"))

# In CI a run has 90 minutes in all, whatever else its machine does. What has not begun by then is left out, and named.
CI_ENDS = 72 * 60
# In CI a guest that is not through by then is ended, and what it had not tried is named.
CI_GUESTS_END = 75 * 60


@dataclass
class Settings:
    """One run. Its time begins when this is made."""

    ci: str = ""
    long: bool = False
    again: bool = False
    lanes: bool = False
    seed: str = ""
    work: Path = Path("/tmp")
    logs: Path = LOGS
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Settings":
        return cls(
            environment.get("CI", ""),
            bool(environment.get("SLUICE_LONG")),
            bool(environment.get("SLUICE_AGAIN")),
            bool(environment.get("SLUICE_LANES")),
            environment.get("SLUICE_SEED", ""),
            Path(environment.get("TMPDIR", "/tmp")),
        )

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def limited(self) -> bool:
        """Whether the run as a whole has a time limit."""
        return bool(self.ci) and not self.long

    @property
    def too_late(self) -> bool:
        return self.limited and self.elapsed >= CI_ENDS

    @property
    def seconds_of_a_test(self) -> float:
        return 7200 if self.long else 2700

    @property
    def seconds_of_a_guest(self) -> float:
        """Real time, for a guest that begins now: emulation is slow, and a busy machine makes it slower."""
        if self.limited:
            return CI_GUESTS_END - self.elapsed
        return 36000 if self.long else 5400

    @property
    def uses_cache(self) -> bool:
        """The long form draws other random numbers each time."""
        return self.ci != "true" and not self.again and not self.long
