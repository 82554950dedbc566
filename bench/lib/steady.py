# SPDX-License-Identifier: Apache-2.0
"""Sends requests at a constant rate from the measured node to the first service's address during a change: runs bench_connect steady in the
node's network namespace and cgroup, like its other clients. Environment: BENCH_CONNECT, STEADY (requests per second)."""

import json
import os
import subprocess

import objects

JOIN = 'echo $$ >"$1/cgroup.procs" && shift && exec nsenter --net="$@"'


class Steady:
    def __init__(self, netns, cgroup):
        self.command = ["bash", "-c", JOIN, "steady", str(cgroup), netns, os.environ["BENCH_CONNECT"], "steady", str(objects.FIRST_SERVICE), "80",
                        os.environ["STEADY"], "0"]
        self.process, self.found = None, {}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)  # pylint: disable=consider-using-with
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """The results: counts, answers by endpoint, and when the last request that each endpoint answered began."""
        if self.process is not None:
            self.process.terminate()
            text, _ = self.process.communicate(timeout=30)
            self.found, self.process = json.loads(text), None
        return self.found
