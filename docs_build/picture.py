"""Picture: the README's, as the gallery draws it.

`python -m docs_build.picture` writes `docs/ten-columns.svg` from the outcome of the gallery's block
of that name; a test holds the file against it.
"""

from __future__ import annotations

import base64
import re

from matplotlib import __version__

from docs_build.blocks import blocks
from docs_build.running import DOCS, outcomes

NAME = "ten-columns.svg"
PAGE = DOCS / "gallery.md"
KEPT = DOCS / NAME
DATED = re.compile(r"<metadata>.*?</metadata>\s*", re.S)
IDENTITY = re.compile(r'(?<=id=")[^"]+(?=")')


def drawn() -> str:
    """The picture as the gallery draws it, without what differs from run to run."""
    found = zip(blocks(PAGE.read_text(encoding="utf-8")), outcomes(PAGE), strict=True)
    picture = next(made.picture for block, made in found if block.settings.get("picture") == NAME)
    assert picture is not None  # a block that draws none is refused
    return _settled(base64.b64decode(picture).decode())


def _settled(text: str) -> str:
    """The picture without its date, its elements named by their order."""
    text = DATED.sub("", text)
    for number, name in enumerate(dict.fromkeys(IDENTITY.findall(text))):
        text = re.sub(rf'(?<=["#]){re.escape(name)}(?=[")])', f"e{number}", text)
    return f"{text.strip()}\n<!-- Matplotlib {__version__} -->\n"


if __name__ == "__main__":
    KEPT.write_text(drawn(), encoding="utf-8")
