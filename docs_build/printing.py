"""Printing: a page with the real output under every block, and generated lists in their places."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from docs_build.blocks import FENCE, Block, blocks
from docs_build.running import WIDTH, Outcome, outcomes

PLACE = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)
COLUMNS = re.compile(r"\S {2,}\S|^\s*[\"{}\[\]#@|]")  # a line of a table, or of JSON and the like
WHOLE = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n.*?^(?P=indent)```$", re.M | re.S)
SPREAD = re.compile(r"^\|.*\|$", re.M)  # a line of a table in Markdown
TABLE = re.compile(r"^\|.*\|\n\|(?:-+\|| --- \|)+\n(?:\|.*\|(?:\n|\Z))+", re.M)
FIGURE = r"[-−]?[\d,.]*\d(?:e[+-]?\d+)?(?: ?%)?"
NUMBER = re.compile(rf"–|∞|(?:± )?{FIGURE}(?: ± {FIGURE})?(?: ≠)?")
DATA = re.compile(r"^\{$", re.M)  # an object of JSON, set out in lines
TOGETHER = re.compile(r" (?=[±≠%])|(?<=±) ")  # 5.0 ± 0.1 ≠
# Outside of quotes: before an option, or an argument that is quoted itself.
BREAK = re.compile(r' (?=(?:--[a-z]|-o |"[^"\n]*")(?:[^"\n]*"[^"\n]*")*[^"\n]*$)')
PRINTED = re.compile(r"(<pre.*?</pre>)", re.S)
SHORT = re.compile(r"<code>(?=[^<\n]{1,24}</code>)")
UNPARTED = re.compile(r"(?<=\d) (?=%)|(?<=±) (?=\d)|(?<=[γε]) (?==)|(?<=[γε] =) (?=\d)")
NARROW = 6.5  # inches up to which the letters of a picture can be read on a telephone
ROOM = 5  # letters at the end of a command, for the button that copies it
Place = Callable[[str, bytes], str]  # puts a picture beside the page and gives its address


def printed(page: Path, place: Place, lists: dict[str, Callable[[], str]]) -> str:
    """The Markdown of a page as it is built."""
    text = page.read_text(encoding="utf-8")
    shown = iter(
        [rendered(*pair, place) for pair in zip(blocks(text), outcomes(page), strict=True)]
    )
    text = FENCE.sub(lambda _: next(shown), text)
    text = PLACE.sub(lambda found: lists[found[1]](), text)
    text = WHOLE.sub(lambda found: found[0] if found["kind"] else folded(found[0]), text)
    text = SPREAD.sub(lambda line: TOGETHER.sub("\N{NO-BREAK SPACE}", line[0]), text)
    return TABLE.sub(lambda found: aligned(found[0]), text)


def rendered(block: Block, outcome: Outcome, place: Place) -> str:
    """A block as readers see it: what was run, what it printed, the picture that it drew."""
    if "hide" in block.flags:
        return ""
    text = block.text.strip("\n")
    parts = [fenced(block.kind, continued(text) if block.kind == "sh" else text)]
    if outcome.output and "quiet" not in block.flags:
        shown = shortened(outcome.output, block.settings.get("lines"))
        parts.append(fenced("text", folded(shown)))
    if outcome.picture is not None:
        wanted, drawn = block.settings["picture"], base64.b64decode(outcome.picture)
        parts.append(embedded(wanted, place(wanted, drawn), block.seen, wide=is_wide(drawn)))
    return "\n\n".join(re.sub(r"^(?=.)", block.indent, part, flags=re.M) for part in parts)


def whole(html: str) -> str:
    """HTML in which no line ends within a short piece of code, before a per cent sign or within
    γ = 19; what was printed stays as it is.

    >>> whole("<code>--seed</code> <pre><code>--seed 1</code></pre>")
    '<code class="short">--seed</code> <pre><code>--seed 1</code></pre>'
    """
    parts = PRINTED.split(html)
    words = (UNPARTED.sub("\N{NO-BREAK SPACE}", part) for part in parts[::2])
    parts[::2] = (SHORT.sub('<code class="short">', part) for part in words)
    return "".join(parts)


def fenced(kind: str, text: str) -> str:
    """A code block; output is set apart by its class, and JSON's long words go on below."""
    if kind == "text":
        look = ".output .data" if DATA.search(text) else ".output"
        return f"``` {{ .text {look} }}\n{text}\n```"
    return f"```{kind}\n{text}\n```"


def embedded(name: str, address: str, seen: str, *, wide: bool = False) -> str:
    """A picture in the page, which opens alone and larger where it is touched, or a link to a page
    of its own.
    """
    if name.endswith((".svg", ".png")):
        look = "{ .wide }" if wide else ""
        return f"[![{seen}]({address}){look}]({address})"
    return f"[{seen or name}]({address})"


def is_wide(picture: bytes) -> bool:
    """Whether the letters of an SVG could not be read on a telephone that shows all of it."""
    width = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', picture)
    return width is not None and float(width[1]) > 72 * NARROW


def aligned(table: str) -> str:
    """A table of Markdown whose columns of numbers stand to the right.

    >>> print(aligned("| a | b |\\n|---|---|\\n| x | 5 ± 1 |\\n"), end="")
    | a | b |
    |---|---:|
    | x | 5 ± 1 |
    """
    head, rule, *lines = table.rstrip("\n").split("\n")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    columns = len(rule.strip("|").split("|"))
    if any(len(line) != columns for line in cells):  # a bar within a cell: left as it is
        return table
    numeric = [all(_is_number(line[place]) for line in cells) for place in range(columns)]
    marks = "|".join("---:" if right else "---" for right in numeric)
    return "\n".join([head, f"|{marks}|", *lines]) + table[len(table.rstrip("\n")) :]


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell.replace("\N{NO-BREAK SPACE}", " ")) is not None


def shortened(output: str, most: str | None) -> str:
    """The first lines, and how many were left out."""
    lines = output.split("\n")
    if most is None or len(lines) <= int(most):
        return output
    left = len(lines) - int(most)
    return "\n".join([*lines[: int(most)], f"… and {left} more {'line' if left == 1 else 'lines'}"])


def folded(output: str) -> str:
    """Output with its sentences folded at the width of a page, as a terminal would; tables and data
    stay as they are. Only what was printed is folded (by a block, or by a benchmark and kept behind
    a fence that names no language): code would no longer be what was run.
    """
    return "\n".join(part for line in output.split("\n") for part in _fold(line))


def _fold(line: str) -> list[str]:
    if len(line) <= int(WIDTH) or COLUMNS.search(line):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    if line.strip().startswith("sfumato "):  # what is recommended can be typed in
        return [indent + part for part in _continue(line.strip()).split("\n")]
    parts = textwrap.wrap(
        line.strip().replace(" %", "\0%"),
        int(WIDTH),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in parts]


def continued(text: str) -> str:
    """Commands of ours that are longer than a line, continued before an option or a quoted argument
    on the next, as one would type them.
    """
    return "\n".join(_continue(line) for line in text.split("\n"))


def _continue(line: str) -> str:
    if len(line) <= int(WIDTH) - ROOM or not line.startswith("sfumato "):
        return line
    first, *parts = BREAK.split(line)
    lines = [first]
    for part in parts:
        if len(lines[-1]) + len(part) < int(WIDTH) - ROOM:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return " \\\n".join(lines)
