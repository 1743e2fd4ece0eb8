"""Printing: a page with the real output under every block, and generated lists in their places."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

from press.blocks import FENCE, Block, blocks
from press.running import Outcome, outcomes

PLACE = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)
Place = Callable[[str, bytes], str]  # puts a picture beside the page and gives its address


def printed(page: Path, place: Place, lists: dict[str, Callable[[], str]]) -> str:
    """The Markdown of a page as it is built."""
    text = page.read_text(encoding="utf-8")
    shown = iter(
        [rendered(*pair, place) for pair in zip(blocks(text), outcomes(page), strict=True)]
    )
    text = FENCE.sub(lambda _: next(shown), text)
    return PLACE.sub(lambda found: lists[found[1]](), text)


def rendered(block: Block, outcome: Outcome, place: Place) -> str:
    """A block as readers see it: what was run, what it printed, the picture that it drew."""
    if "hide" in block.flags:
        return ""
    parts = [fenced(block.kind, block.text.strip("\n"))]
    if outcome.output and "quiet" not in block.flags:
        parts.append(fenced("text", shortened(outcome.output, block.settings.get("lines"))))
    if outcome.picture is not None:
        wanted = block.settings["picture"]
        address = place(wanted, base64.b64decode(outcome.picture))
        parts.append(embedded(wanted, address, block.seen))
    return "\n\n".join(re.sub(r"^(?=.)", block.indent, part, flags=re.M) for part in parts)


def fenced(kind: str, text: str) -> str:
    """A code block; output is set apart by its class."""
    if kind == "text":
        return f"``` {{ .text .output }}\n{text}\n```"
    return f"```{kind}\n{text}\n```"


def embedded(name: str, address: str, seen: str) -> str:
    """A picture in the page, which opens alone and larger where it is touched, or a link to a page
    of its own.
    """
    if name.endswith((".svg", ".png")):
        return f"[![{seen}]({address})]({address})"
    return f"[{seen or name}]({address})"


def shortened(output: str, most: str | None) -> str:
    """The first lines, and how many were left out."""
    lines = output.split("\n")
    if most is None or len(lines) <= int(most):
        return output
    left = len(lines) - int(most)
    return "\n".join([*lines[: int(most)], f"… and {left} more {'line' if left == 1 else 'lines'}"])
