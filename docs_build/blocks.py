"""Blocks: the fenced examples of a page, and what each asks of the build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>sh|python)(?P<words>(?: [^\n`]+)?)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
FLAGS = ("hide", "quiet", "serve")
SETTINGS = ("exit", "lines", "picture")


@dataclass(frozen=True)
class Block:
    """One example: what is run, the line it stands on, and how its outcome is shown.

    `quiet` shows no output, `hide` shows neither block nor output, `serve` leaves a server running
    for the blocks that follow and shows what it said first, `exit=2` wants that status,
    `lines=8` shows so many lines at most, `picture=a.svg alt=What is seen` shows the picture that
    was written.
    """

    kind: str
    text: str
    line: int
    indent: str = ""
    flags: frozenset[str] = field(default_factory=frozenset)
    settings: dict[str, str] = field(default_factory=dict)
    seen: str = ""

    @property
    def status(self) -> int:
        """The exit status that the block must end with."""
        return int(self.settings.get("exit", 0))

    def key(self) -> list[Any]:
        """What the outcome depends on, for the cache."""
        serves = "serve" in self.flags
        return [self.kind, self.text, self.settings.get("picture"), self.status, serves]


def blocks(page: str) -> list[Block]:
    """Every shell and Python block of a page, in order.

    >>> [found.text for found in blocks("a\\n```sh quiet\\nls\\n```\\n```toml\\nx=1\\n```\\n")]
    ['ls\\n']
    """
    return [_block(page, found) for found in FENCE.finditer(page)]


def _block(page: str, found: re.Match[str]) -> Block:
    line = page.count("\n", 0, found.start()) + 1
    told, _, seen = found["words"].partition(" alt=")
    words = told.split()
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    flags = frozenset(word for word in words if "=" not in word)
    if unknown := (flags - {*FLAGS}) | (settings.keys() - {*SETTINGS}):
        raise ValueError(f"line {line}: a block cannot be told {', '.join(sorted(unknown))}")
    indent = found["indent"]
    text = re.sub(f"^{indent}", "", found["text"], flags=re.M)
    return Block(found["kind"], text, line, indent, flags, settings, seen.strip())
