"""Checks the documents: links lead somewhere (files, and headings in them), paths in backquotes exist, options of `sluice` commands exist, and
words are spelled. usage: documents.py"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "bpf", "bench", "docs", "k8s", "maps", "scripts", "tests", ".ci")
# The past, and what quotes it: files moved since then.
HISTORY = ("CHANGELOG.md", "docs/decisions")


def pages():
    names = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                           capture_output=True, text=True, check=False).stdout.split()
    return [ROOT / name for name in names or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md")] if (ROOT / name).exists()]


def anchors(text):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ +(.*)", text, re.M)}


def prose(text):
    """Without blocks of code, whose lines are kept empty so that numbers stay."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)


def bad_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = page.parent / name if name else page
        if not path.exists():
            yield f"links to {target}, which does not exist"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            yield f"links to {target}, which has no such heading"


def exists(name, page):
    """Is there such a file or folder, from the root or from the page; patterns and files made by a build count by their folder."""
    name = name.rstrip("/")
    if any(sign in name for sign in "<>{}$|…") or "NAME" in name:
        return True
    for base in (ROOT, page.parent):
        if list(base.glob(name)) or list(base.glob(name + ".*")):
            return True
    return False


def bad_paths(page, text):
    pattern = r"`((?:" + "|".join(map(re.escape, FOLDERS)) + r")/[\w./*-]+)[` :#]"
    for name in sorted(set(re.findall(pattern, text))):
        if not exists(name, page):
            yield f"names `{name}`, which does not exist"


def known_options():
    return set(re.findall(r"`?(--[a-z][\w-]+)", (ROOT / "docs/options.md").read_text()))


def bad_options(text, known):
    for call in re.findall(r"\bsluice (?:agent|check|status|services|backends|flows|cleanup|drain)\b[^`\n#]*", text):
        for option in re.findall(r"(--[a-z][\w-]+)", call):
            if option not in known | {"--help"}:
                yield f"calls `{call.strip()}`, and there is no {option}"


def misspelled(names):
    if not shutil.which("codespell"):
        return ["codespell is not installed; scripts/setup installs it"]
    done = subprocess.run(["codespell", "--ignore-words-list", ",".join(("te", "ans", "fo", "nd", "sie", "als", "unter", "wit", "aks")), *names],
                          capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.splitlines()


def main():
    wrong, known = [], known_options()
    for page in pages():
        text, name = page.read_text(), str(page.relative_to(ROOT))
        wrong += [f"{name}: {what}" for what in bad_links(page, prose(text))]
        if not name.startswith(HISTORY):
            wrong += [f"{name}: {what}" for what in bad_paths(page, prose(text))]
            wrong += [f"{name}: {what}" for what in bad_options(text, known)]
    wrong += misspelled([str(page.relative_to(ROOT)) for page in pages()])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
