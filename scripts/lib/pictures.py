# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/NAME.svg from docs/pictures/NAME.txt. Fails if a picture is not what its text says, and says what to do;
--write draws all of them. usage: pictures.py [--write] [TREE]

A line of a text is one thing; lengths are pixels, "…" is one line of words:
  size WIDTH HEIGHT, title …, about …      about: what a reader who cannot see the picture needs to know
  box NAME X Y WIDTH HEIGHT KIND ……        kinds: band, plain, hook, map, faint. Words after * are bold, in ` code
  words X Y start|middle|end …             beside boxes
  arrow KIND POINT POINT…                  kinds: request, reply, plain, faint. A point is X,Y, or the middle of a box's side:
                                           NAME.t, .b, .l, .r, with +N or -N along the side; |POINT has the X of the point
                                           before it, -POINT the Y
Words that do not fit into their box, boxes outside of the picture, and arrows that are not straight are mistakes."""

import html
import pathlib
import re
import shlex
import sys

LINE = 19
SIZE = 14
CODE_SIZE = 13
SHEET = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2328; }
  .bold { font-weight: 600; }
  .code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .band { fill: #f6f8fa; stroke: none; }
  .plain { fill: #ffffff; stroke: #59636e; }
  .hook { fill: #ddf4ff; stroke: #0969da; }
  .map { fill: #dafbe1; stroke: #1a7f37; }
  .faint { fill: none; stroke: #818b98; stroke-dasharray: 4 3; }
  .line { fill: none; stroke-width: 2; }
  .line.request { stroke: #0969da; } .head.request { fill: #0969da; }
  .line.reply { stroke: #bc4c00; stroke-dasharray: 7 4; } .head.reply { fill: #bc4c00; }
  .line.plain { stroke: #59636e; } .head.plain { fill: #59636e; stroke: none; }
  .line.faint { stroke: #818b98; stroke-width: 1.5; } .head.faint { fill: #818b98; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .band { fill: #151b23; }
    .plain { fill: #0d1117; stroke: #9198a1; }
    .hook { fill: #0c2d4d; stroke: #4493f8; }
    .map { fill: #12351d; stroke: #3fb950; }
    .line.request { stroke: #4493f8; } .head.request { fill: #4493f8; }
    .line.reply { stroke: #f0883e; } .head.reply { fill: #f0883e; }
    .line.plain { stroke: #9198a1; fill: none; } .head.plain { fill: #9198a1; }
    .line.faint { fill: none; }
  }
"""
BOXES = ("band", "plain", "hook", "map", "faint")
ARROWS = ("request", "reply", "plain", "faint")


class Mistake(Exception):
    pass


def width_of(words, size=SIZE):
    """The width of words in the widest of the fonts, about DejaVu Sans."""
    narrow = sum(char in "iljtfrI.,:;'|!()[]/ " for char in words)
    wide = sum(char in "mwMW@—→" for char in words)
    capital = sum(char.isupper() and char not in "IMW" for char in words)
    return size * (0.38 * narrow + 0.93 * wide + 0.69 * capital + 0.62 * (len(words) - narrow - wide - capital))


def styled(words):
    """(class, words, width) of a line."""
    if words.startswith("`"):
        return "code", words.strip("`"), CODE_SIZE * 0.603 * len(words.strip("`"))
    if words.startswith("*"):
        return "bold", words[1:], 1.08 * width_of(words[1:])
    return "", words, width_of(words)


def number(text):
    if not re.fullmatch(r"\d+", text):
        raise Mistake(f"{text} is no number")
    return int(text)


class Picture:
    def __init__(self, text):
        self.size = None
        self.title = self.about = ""
        self.boxes = {}
        self.parts = []
        for at, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    self.add(line)
                except (Mistake, ValueError) as mistake:
                    raise Mistake(f"line {at}: {mistake}") from mistake
        if not (self.size and self.title and self.about):
            raise Mistake("needs size, title and about")

    def add(self, line):
        kind, _, rest = line.partition(" ")
        if kind in ("title", "about"):
            setattr(self, kind, rest.strip())
        elif kind == "size":
            self.size = [number(each) for each in rest.split()]
        elif kind in ("box", "words", "arrow"):
            getattr(self, "add_" + kind)(shlex.split(rest))
        else:
            raise Mistake(f"{kind} is none of size, title, about, box, words, arrow")

    def add_words_at(self, x, y, anchor, words):
        style, words, _ = styled(words)
        kind = f' class="{style}"' if style else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{place}{kind}>{html.escape(words, quote=False)}</text>')

    def add_box(self, words):
        name, (x, y, width, height), kind, lines = words[0], map(number, words[1:5]), words[5], words[6:]
        if name in self.boxes or kind not in BOXES:
            raise Mistake(f"{name} is there twice, or {kind} is none of {', '.join(BOXES)}")
        if x + width > self.size[0] or y + height > self.size[1]:
            raise Mistake(f"{name} is outside of the picture")
        self.boxes[name] = (x, y, width, height)
        radius = 8 if kind == "band" else 5
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" class="{kind}"/>')
        for line in lines:
            if styled(line)[2] > width - 6 and kind != "band":
                raise Mistake(f'"{line}" is {styled(line)[2]:.0f} wide, and {name} has room for {width - 6}')
        if len(lines) * LINE > height:
            raise Mistake(f"{name} has {len(lines)} lines, and room for {height // LINE}")
        for at, line in enumerate(lines):
            if kind == "band":
                self.add_words_at(x + 10, y + 21 + at * LINE, "start", line)
            else:
                self.add_words_at(x + width / 2, y + height / 2 + 5 + (at - (len(lines) - 1) / 2) * LINE, "middle", line)

    def add_words(self, words):
        if words[2] not in ("start", "middle", "end"):
            raise Mistake(f"{words[2]} is none of start, middle, end")
        for at, line in enumerate(words[3:]):
            left = number(words[0]) - styled(line)[2] * {"start": 0, "middle": 0.5, "end": 1}[words[2]]
            if left < 0 or left + styled(line)[2] > self.size[0]:
                raise Mistake(f'"{line}" is {styled(line)[2]:.0f} wide, and leaves the picture')
            self.add_words_at(number(words[0]), number(words[1]) + at * LINE, words[2], line)

    def point(self, text, before):
        if text[0] in "|-" and before:
            x, y = self.point(text[1:], before)
            return (before[0], y) if text[0] == "|" else (x, before[1])
        side = re.fullmatch(r"(\w+)\.([tblr])([+-]\d+)?", text)
        if not side:
            x, _, y = text.partition(",")
            return number(x), number(y)
        if side[1] not in self.boxes:
            raise Mistake(f"there is no box {side[1]}")
        x, y, width, height = self.boxes[side[1]]
        along = int(side[3] or 0)
        return {"t": (x + width / 2 + along, y), "b": (x + width / 2 + along, y + height),
                "l": (x, y + height / 2 + along), "r": (x + width, y + height / 2 + along)}[side[2]]

    def add_arrow(self, words):
        kind, points = words[0], []
        if kind not in ARROWS:
            raise Mistake(f"{kind} is none of {', '.join(ARROWS)}")
        for text in words[1:]:
            points.append(self.point(text, points[-1] if points else None))
        for (x, y), (to_x, to_y) in zip(points, points[1:]):
            if x != to_x and y != to_y:
                raise Mistake(f"the arrow to {words[-1]} is not straight from {x:g},{y:g} to {to_x:g},{to_y:g}")
        (x, y), (to_x, to_y) = points[-2:]
        step_x, step_y = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        head = [(to_x, to_y), (to_x - 9 * step_x - 5 * step_y, to_y - 9 * step_y + 5 * step_x),
                (to_x - 9 * step_x + 5 * step_y, to_y - 9 * step_y - 5 * step_x)]
        points[-1] = (to_x - 7 * step_x, to_y - 7 * step_y)
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="{path}" class="line {kind}"/>')
        self.parts.append(f'<path d="M{" L".join(f"{x:g} {y:g}" for x, y in head)} Z" class="head {kind}"/>')

    def svg(self, name):
        width, height = self.size
        head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
                "<!--\nSPDX-License-Identifier: Apache-2.0\n-->",
                f"<!-- Made by scripts/lib/pictures.py from {name}.txt. Change that instead. -->",
                f"<title>{html.escape(self.title, quote=False)}</title>", f"<desc>{html.escape(self.about, quote=False)}</desc>",
                f"<style>{SHEET}</style>", f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" class="card"/>']
        return "\n".join(head + self.parts + ["</svg>", ""])


def check(tree, write):
    """Yields a line for each mistake."""
    folder = tree / "docs/pictures"
    for text in sorted(folder.glob("*.txt")):
        try:
            made = Picture(text.read_text(encoding="utf-8")).svg(text.stem)
        except Mistake as mistake:
            yield f"{text.relative_to(tree)}: {mistake}"
            continue
        drawn = text.with_suffix(".svg")
        if write:
            drawn.write_text(made, encoding="utf-8")
        elif not drawn.exists() or drawn.read_text(encoding="utf-8") != made:
            yield f"{drawn.relative_to(tree)} is not what its text says: run scripts/lib/pictures.py --write"
    for drawn in sorted(folder.glob("*.svg")):
        if not drawn.with_suffix(".txt").exists():
            yield f"{drawn.relative_to(tree)} has no text: remove it"


def main(arguments):
    named = [each for each in arguments if each != "--write"]
    tree = pathlib.Path(named[0]) if named else pathlib.Path(__file__).resolve().parents[2]
    wrong = list(check(tree, "--write" in arguments))
    print("\n".join(wrong) if wrong else f"{len(list((tree / 'docs/pictures').glob('*.txt')))} pictures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
