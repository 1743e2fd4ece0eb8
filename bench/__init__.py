"""Benchmarks: each a module with a `main` of its own, and what several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_section(path: Path, heading: str, name: str, lines: Sequence[str]) -> None:
    """Put the lines of one name into a file of figures, in the place of those that were there."""
    text = path.read_text(encoding="utf-8") if path.exists() else heading
    _, *sections = text.split("\n## ")
    kept = [section for section in sections if section.split("\n")[0] != name]
    body = "\n".join([name, "", "```", *lines, "```", ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n## ".join([heading, *kept, body]), encoding="utf-8")
