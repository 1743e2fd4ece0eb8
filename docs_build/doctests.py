"""Doctests: the examples in docstrings become code blocks on the page of the Python reference."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=^\s*$|\Z)", re.M | re.S)


class FencedDoctests(Extension):
    """Puts a fence around every example of every docstring."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Go through all objects of a package once it is loaded."""
        _fence(pkg)


def _fence(given: Any) -> None:
    if given.is_alias:
        return
    if given.docstring is not None:
        given.docstring.value = fenced(given.docstring.value)
    for member in given.members.values():
        _fence(member)


def fenced(docstring: str) -> str:
    """The docstring with a fence around each run of example lines.

    >>> print(fenced("Words.\\n\\n>>> 1 + 1\\n2"))
    Words.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return EXAMPLE.sub(
        lambda found: f"{found['indent']}```pycon\n{found[0].rstrip()}\n{found['indent']}```\n",
        docstring,
    ).rstrip()
