"""Papers: the reproductions that need data sets, run once and kept as pages of the documentation.

`python -m docs_build.papers [--data DIR] [--seeds N] [NAME…]` runs what is named (see `sfumato
reproduce`) and puts each table, with its verdict and its figure, into `docs/figures/PAPER.md`, in
the place of what was there. The machine that builds the site needs no data set then.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import Any

from docs_build.running import DOCS
from papers.base import MEANING_OF_MARK, Reproduction, Settings
from papers.registry import PAPERS, parts_of, reproduce
from sfumato import __version__
from sfumato.renderers.picture import draw, figure_of, in_words
from sfumato.view import shown

FIGURES = DOCS / "figures"
SHORTER = (
    (re.compile(r"<!--.*?-->|<metadata>.*?</metadata>", re.S), ""),
    (re.compile(r"\n\s*"), " "),
    (re.compile(r"font-family: [^;\"]*sans-serif"), "font-family: sans-serif"),
)
TAG = re.compile(r"<[^>]*>")
TENTHS = re.compile(r"(\d\.\d)\d+")
SECTION = re.compile(r"^## .*?\{#([\w-]+)\}$", re.M)
VERDICT = re.compile(r"Verdict: \*\*(.*?)\*\*")
HEADING = f"""# {{title}}: the figures

Written by `python -m docs_build.papers`, which runs `sfumato reproduce` on the public data sets and
keeps what it says. After ± is the standard deviation over the seeds; bars in the figures are 95 %
intervals of the mean.

{MEANING_OF_MARK}.

"""


def main(arguments: list[str] | None = None) -> None:
    """Run what is named, and put it into its page as soon as it is done."""
    parser = argparse.ArgumentParser(prog="python -m docs_build.papers", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--data", type=Path, help="the folder of the public data sets")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args(arguments)
    for paper, parts in parts_of(given.names).items():
        for found in reproduce(parts, Settings(given.data, given.seeds)):
            keep(found, paper, given.seeds, FIGURES)


def keep(found: Reproduction, paper: str, seeds: int, folder: Path) -> None:
    """Put a table into the page of its paper, and its figure beside the page."""
    page = folder / f"{paper.replace('-', '_')}.md"
    sections = sections_of(page.read_text(encoding="utf-8")) if page.exists() else {}
    drawing = found.drawing()
    if drawing is not None:
        (folder / f"{found.name}.svg").write_text(
            small_svg(figure_of(draw(drawing))), encoding="utf-8"
        )
    sections[found.name] = section(found, seeds, "" if drawing is None else in_words(drawing))
    ordered = [sections[part] for part in PAPERS[paper].parts if part in sections]
    heading = HEADING.format(title=PAPERS[paper].title)
    page.write_text(heading + "\n".join(ordered), encoding="utf-8")


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by their names.

    >>> sections_of("# Title\\n\\n## One {#a}\\n1\\n\\n## Two {#b}\\n2\\n")
    {'a': '## One {#a}\\n1\\n', 'b': '## Two {#b}\\n2\\n'}
    """
    starts = [*SECTION.finditer(page)]
    ends = [*(found.start() for found in starts[1:]), len(page)][: len(starts)]
    return {
        found[1]: page[found.start() : end].rstrip() + "\n"
        for found, end in zip(starts, ends, strict=True)
    }


def verdicts() -> str:
    """Every table that is kept, with its verdict, as a Markdown table that links to it."""
    lines = ["| table or figure | verdict |", "|---|---|"]
    for paper, known in PAPERS.items():
        page = FIGURES / f"{paper.replace('-', '_')}.md"
        kept = sections_of(page.read_text(encoding="utf-8")) if page.exists() else {}
        for name in known.parts:
            if name in kept and (said := VERDICT.search(kept[name])):
                lines.append(f"| [{name}](figures/{page.name}#{name}) | {cell(said[1])} |")
    return "\n".join(lines)


def section(found: Reproduction, seeds: int, seen: str = "") -> str:
    """One table as Markdown: what was run, the verdict, the figure and what is seen in it, the
    numbers, the notes.
    """
    heads, rows = found.grid()
    lines = [heads, ["---"] * len(heads), *([shown(entry) for entry in row] for row in rows)]
    table = [f"| {' | '.join(map(cell, line))} |" for line in lines]
    run = f"`sfumato reproduce {found.name} --seeds {seeds}`, Sfumato {__version__}"
    parts = [
        f"## {found.title} {{#{found.name}}}",
        f"{run}. Verdict: **{found.verdict}**.",
        *([f"![{found.title}. {seen}]({found.name}.svg)"] if seen else []),
        "\n".join(table),
        "\n".join(f"* {note}" for note in found.notes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def cell(text: str) -> str:
    """A text as it may stand in a table of Markdown.

    >>> cell("|F|: paper")
    '&#124;F&#124;: paper'
    """
    return text.replace("|", "&#124;")


def small_svg(figure: Any) -> str:
    """A figure as an SVG of a few kilobytes: letters stay letters."""
    from matplotlib import rc_context

    written = io.StringIO()
    with rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none"}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    return shortened_svg(written.getvalue())


def shortened_svg(text: str) -> str:
    """An SVG with its places rounded to a tenth of a point, which is not seen; the numbers that are
    written in it stay as they are, and so do scales: letters drawn as paths are small by them.

    >>> shortened_svg('<g transform="translate(1.234 5.678)"/><use transform="scale(0.015625)"/>')
    '<g transform="translate(1.2 5.6)"/><use transform="scale(0.015625)"/>\\n'
    """
    for wordy, short in SHORTER:
        text = wordy.sub(short, text)
    text = TAG.sub(lambda tag: tag[0] if "scale(" in tag[0] else TENTHS.sub(r"\1", tag[0]), text)
    return f"{text.strip()}\n"


if __name__ == "__main__":
    main()
