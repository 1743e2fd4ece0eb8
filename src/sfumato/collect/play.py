"""The idea as one page: a made-up crowd, blurred by the form's own program in the reader's browser.

It needs no server, no network and no build step: the page carries its style and its scripts, and
its content policy allows nothing else. The same version gives the same bytes everywhere.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.collect.assets import STATIC
from sfumato.collect.one_file import bundle, sealed

HERE = Path(__file__).resolve().parent / "play_page"
MODULES = (STATIC / "steps.js", STATIC / "program.js", HERE / "estimate.js", HERE / "play.js")


def play_page() -> str:
    """The page, as one HTML file."""
    style = (HERE / "play.css").read_text(encoding="utf-8")
    page = (HERE / "play.html").read_text(encoding="utf-8")
    return sealed(page, style, bundle(MODULES))
