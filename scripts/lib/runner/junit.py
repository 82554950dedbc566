# SPDX-License-Identifier: Apache-2.0
"""Writes results as JUnit XML: a suite for each result, with a case for each of its cases, or one for itself."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from runner.results import Case, Result

# What XML 1.0 does not allow, even escaped.
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def cases_of(result: Result) -> list[Case]:
    if result.cases:
        return result.cases
    outcome = "failed" if result.failed else "skipped" if result.skipped else "passed"
    message = f"unchanged since its {result.passed} cases passed" if result.cached else "\n".join(result.failures)
    return [Case(result.title, outcome, message, result.seconds)]


def suite_of(result: Result) -> ET.Element:
    cases = cases_of(result)
    outcomes = [case.outcome for case in cases]
    suite = ET.Element(
        "testsuite",
        {
            "name": result.title,
            "tests": str(len(cases)),
            "time": f"{result.seconds:.3f}",
            "failures": str(outcomes.count("failed")),
            "skipped": str(outcomes.count("skipped")),
        },
    )
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=result.level, name=FORBIDDEN.sub("?", case.name), time=f"{case.seconds:.3f}"
        )
        message = FORBIDDEN.sub("?", case.message)
        if case.outcome == "passed":
            if message:
                ET.SubElement(element, "system-out").text = message
        else:
            kind = "failure" if case.outcome == "failed" else "skipped"
            ET.SubElement(element, kind, message=message.partition("\n")[0]).text = message
    return suite


def write(path: Path, results: Iterable[Result]) -> None:
    root = ET.Element("testsuites")
    root.extend(suite_of(result) for result in results if result.passed or result.failed or result.skipped)
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
