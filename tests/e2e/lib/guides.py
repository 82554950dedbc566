# SPDX-License-Identifier: Apache-2.0
"""Extracts the command blocks of a page of docs/guides. usage: guides.py PAGE SCRIPT

Writes the blocks that are run to SCRIPT, in order, for one shell, and prints every other block with the reason why it is not run. The shell
has a user's options: no pipefail, and no errexit, which would hide what a function returns. SCRIPT ends at the first command that fails. A
fence is ```sh (run), ```sh last: REASON (run after those, in order), ```sh not run: REASON, or one of LANGUAGES; anything else, and code that
is only indented, is an error."""

import pathlib
import re
import sys

LANGUAGES = {"yaml": "the content of a file", "bird": "BIRD's configuration: tests/net/coexistence/bird.sh runs it"}


def blocks(page):
    """Yields line, fence and text of each block."""
    begun, fence, text = 0, None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if fence is None:
                begun, fence, text = number, line[3:].strip(), []
            else:
                yield begun, fence, "\n".join(text)
                fence = None
        elif fence is not None:
            text.append(line)
        elif re.match(r"    \S", line):
            sys.exit(f"{page.name}:{number}: indented code, which no test can distinguish from text: put it between ```")
    if fence is not None:
        sys.exit(f"{page.name}:{begun}: an unterminated block")


def is_last(fence):
    """Whether the block is run after the page's others: where two ways to do the same thing would be in each other's way."""
    return bool(re.fullmatch(r"sh last: \S.*", fence))


def why_not(page, line, fence):
    """The reason why a block is not run; empty if it is run."""
    if fence == "sh" or is_last(fence):
        return ""
    if found := re.fullmatch(r"sh not run: (\S.*)", fence):
        return found.group(1)
    if fence in LANGUAGES:
        return LANGUAGES[fence]
    sys.exit(f"{page.name}:{line}: a block of '{fence}': add it to LANGUAGES, or use sh")


def main():
    page, script = map(pathlib.Path, sys.argv[1:])
    run, last, left = [], [], []
    for line, fence, text in blocks(page):
        if reason := why_not(page, line, fence):
            left.append(f"  not run: {page.name}:{line}: {reason}")
        else:
            (last if is_last(fence) else run).append(f"echo '── {page.name}:{line}'\n{text}\n")
    run += last
    # Not inherited by functions: what these return counts.
    script.write_text("trap 'exit $?' ERR\n" + "\n".join(run))
    print(f"{page.name}: {len(run)} blocks are run, {len(left)} are not")
    print("\n".join(left), end="\n" if left else "")


main()
