# SPDX-License-Identifier: Apache-2.0
"""Catch2's XML: counts, cases, and how to select cases."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from runner.results import Case

COUNTS = re.compile(r"<OverallResultsCases ([^>]*)>")
MESSAGES = ("Expression", "Failure", "Exception", "FatalErrorCondition", "Skip")


def counts(xml: str) -> dict[str, int] | None:
    """Its final count of test cases: successes, failures, expectedFailures, skips. None if it ended before."""
    found = COUNTS.findall(xml)
    if not found:
        return None
    read = {name: int(value) for name, value in re.findall(r'(\w+)="(\d+)"', found[-1])}
    return {name: read.get(name, 0) for name in ("successes", "failures", "expectedFailures", "skips")}


def message(element: ET.Element) -> str:
    """What a case says about its failures, or why it was skipped."""
    lines = []
    for each in element.iter():
        if each.tag in MESSAGES:
            text = " → ".join(" ".join(part.split()) for part in each.itertext() if part.strip())
            lines.append(f"{each.get('filename', '')}:{each.get('line', '')}: {text}")
    return "\n".join(lines)


def cases(path: Path) -> list[Case]:
    """Those before its end, also if that was early."""
    found = []
    try:
        for _, element in ET.iterparse(path):
            if element.tag == "TestCase":
                result = element.find("OverallResult")
                values = result.attrib if result is not None else {"success": "false"}
                outcome = (
                    "failed"
                    if values["success"] != "true"
                    else "skipped"
                    if int(values.get("skips", "0"))
                    else "passed"
                )
                found.append(
                    Case(
                        element.get("name", ""), outcome, message(element), float(values.get("durationInSeconds", "0"))
                    )
                )
                element.clear()
    except (ET.ParseError, FileNotFoundError):
        pass
    return found


def exactly(names: Sequence[str]) -> str:
    """An expression that selects the cases with these names."""
    return ",".join(re.sub(r'([\\,\["])', r"\\\1", name) for name in names)
