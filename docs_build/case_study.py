"""Case study: a page of the documentation that needs a public data set, run once and kept.

`SFUMATO_DATA=DIR python -m docs_build.case_study` runs every block of `docs_build/case_study.md`
and writes `docs/tutorials/case-study.md`: the same words and blocks, with what was printed under
each. Shell and Python blocks are called `bash` and `py` there, so that the build does not run them
again and the machine that builds the site needs no data set.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs_build.blocks import FENCE, blocks
from docs_build.papers import shortened_svg
from docs_build.printing import printed, rendered
from docs_build.running import DOCS, Outcome

SOURCE = Path(__file__).with_suffix(".md")
PAGE = DOCS / "tutorials" / "case-study.md"
KEPT_AS = {"sh": "bash", "python": "py"}
OUTPUT = re.compile(r"\n\n``` \{ \.text \.output[^}]*\}\n(.*?)\n```$", re.M | re.S)
PICTURE = re.compile(r"\n\n\[!\[[^\]]*\]\([^)]*\)(?:\{[^}]*\})?\]\([^)]*\)")


def written() -> str:
    """The page with what its blocks print now; their pictures are put beside it."""
    return renamed(printed(SOURCE, _beside, {}))


def _beside(name: str, drawn: bytes) -> str:
    picture = PAGE.with_name(f"{PAGE.stem}-{name}")
    picture.write_text(shortened_svg(drawn.decode()), encoding="utf-8")
    return picture.name


def unprinted() -> str:
    """The page without anything that was printed or drawn."""
    text = SOURCE.read_text(encoding="utf-8")
    shown = (rendered(block, Outcome(""), _beside) for block in blocks(text))
    return renamed(FENCE.sub(lambda _: next(shown), text))


def bare(page: str) -> str:
    """A page that was written, without what was printed and drawn.

    >>> bare("```bash\\nls\\n```\\n\\n``` { .text .output }\\na b\\n```\\nThat was all.")
    '```bash\\nls\\n```\\nThat was all.'
    """
    return PICTURE.sub("", OUTPUT.sub("", page))


def printouts(page: str) -> list[str]:
    """What was printed, in order."""
    return OUTPUT.findall(page)


def renamed(text: str) -> str:
    """Blocks under the names by which they are shown and not run.

    >>> renamed("```sh\\nls\\n```")
    '```bash\\nls\\n```'
    """
    return FENCE.sub(
        lambda found: found[0].replace(f"```{found['kind']}", f"```{KEPT_AS[found['kind']]}", 1),
        text,
    )


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
