"""Lines: on which line of a TOML text each key stands, so that an error can point there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_KEY = re.compile(rf"\s*((?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*)\s*=")
# What may stand inside a value: strings of four kinds, comments, brackets.
_MARKS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""'
    r"|'''.*?'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)


@dataclass(frozen=True)
class TomlLines:
    """The lines of the keys of one valid TOML text; entries of arrays of tables are numbered
    from 0.

    >>> lines = TomlLines.of('a = 1\\n[[b]]\\nc = [\\n 1,\\n]\\nd = 2\\n[e]\\n"f g" = 3\\n')
    >>> lines.find(("b", 0, "d")), lines.find(("e", "f g")), lines.find(("b", 0, "none"))
    (6, 8, 2)
    """

    starts: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> TomlLines:
        """The lines of a text that tomllib accepts."""
        lines = cls()
        entries: dict[Path, int] = {}
        table: Path = ()
        for number, line in _statements(text):
            header = _HEADER.match(line)
            if header and not _KEY.match(line):
                table = _opened(_names(header[2]), header[1] == "[[", entries)
                lines.starts.setdefault(table, number)
            elif key := _KEY.match(line):
                lines.starts.setdefault((*table, *_names(key[1])), number)
        return lines

    def find(self, path: Path) -> int | None:
        """The line of a key, or of the innermost table around it that has one."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.starts:
                return self.starts[path[:length]]
        return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The first line of every statement, with its number; a value may go on over several lines."""
    lines = text.split("\n")
    depth, number = 0, 1
    start = 1
    for mark in _MARKS.finditer(text + "\n"):
        found = mark.group()
        if found == "\n" and depth == 0:
            if start <= len(lines):
                yield start, lines[start - 1]
            number += 1
            start = number
        elif found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        else:
            number += found.count("\n")


def _opened(names: Path, several: bool, entries: dict[Path, int]) -> Path:
    """The table that a header opens, inside the latest entry of any array of tables around it."""
    path: Path = ()
    for place, name in enumerate(names):
        path = (*path, name)
        last = place == len(names) - 1
        if last and several:
            entries[path] = entries.get(path, -1) + 1
        if path in entries:
            path = (*path, entries[path])
    return path


def _names(dotted: str) -> Path:
    return tuple(
        str(tomllib.loads(f"k = {part}")["k"]) if part[0] in "\"'" else part
        for part in _PART.findall(dotted)
    )
