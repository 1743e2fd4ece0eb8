"""`sfumato query`: SQL aggregates over a perturbed table, each with its standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    Engine,
    Fit,
    Force,
    Items,
    Json,
    NoCache,
    Schema,
    check_drawing_target,
    share,
)
from sfumato.cli.pages import origin_of, points_told, save_page
from sfumato.cli.printing import (
    has_room,
    print_json,
    print_notes,
    print_table,
    print_words,
    telling,
)
from sfumato.cli.reading import read_source
from sfumato.errors import ParameterError
from sfumato.mine.cube import CubeResult, shown
from sfumato.mine.cube import query as ask
from sfumato.mine.cube.result import Row
from sfumato.report import Block, Listing, Note, Picture, save_figure

SIDE_BY_SIDE = 2  # estimates for which a screen is wide enough


def query(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A perturbed file, or true records; - is standard input."
        ),
    ],
    sql: Annotated[
        str,
        typer.Argument(
            metavar='"SELECT …"', help="Aggregates over the table t (any name will do)."
        ),
    ],
    method: Annotated[
        str, typer.Option(help="invert: unbiased; em: the most likely counts, none below 0.")
    ] = "invert",
    engine: Engine = None,
    fit: Fit = False,
    no_cache: NoCache = False,
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.95,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="P%", help="Say how many rows bring every answer within this share of itself."
        ),
    ] = None,
    schema: Schema = None,
    items: Items = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the groups: .html, .png or .svg.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer SQL aggregates as if the truth were there, each with its standard error and interval.

    Example: sfumato query census.parquet "SELECT sex, COUNT(*), AVG(age) FROM t
    WHERE hours BETWEEN 30 AND 60 GROUP BY sex"
    """
    if not 0 < level < 1:
        raise ParameterError(f"--level {level:g} must lie strictly between 0 and 1")
    wanted = None if within is None else share("--within", within)
    check_drawing_target(plot, force)
    how: dict[str, Any] = {"in_place": True, "cache": not no_cache, "fit": fit}
    with telling() as tell:
        source = read_source(file, schema, items, engine, **how, tell=tell)
        result = ask(source, sql, method=method)
    needed = None if wanted is None else rows_needed(result, wanted, level)
    if plot is not None:
        draw(result, level, sql, origin_of(file, source), plot)
    if json:
        print_json(result.to_dict(level) | ({} if needed is None else {"within": needed}))
        return
    print_answers(result, level)
    if needed is not None:
        print_words(needed["words"])
    print_notes(result.notes)


def rows_needed(result: CubeResult, within: float, level: float) -> dict[str, Any]:
    """The rows that the normal law asks for, and the bound of OLAP theorem 1 for the columns'
    keeps.
    """
    normal = result.rows_needed(within, level)
    words = f"within {100 * within:.3g} % of each answer, at {100 * level:g} %: "
    if normal is None:
        return {
            "share": within,
            "rows": None,
            "words": words
            + "no number of rows can be said, as an answer is not above 0 or has no error",
        }
    words += f"{normal:,} rows are needed (normal law)" + (
        ", which you have" if normal <= result.population else ""
    )
    guaranteed = result.rows_guaranteed(within, level)
    if guaranteed is not None:
        words += f"; {guaranteed:,} by OLAP theorem 1, whatever the data"
    return {"share": within, "rows": normal, "theorem_1": guaranteed, "words": words}


def answer_table(result: CubeResult, level: float) -> tuple[list[str], list[list[str]]]:
    """Headings and lines, one a group: labels as they are, estimates with their errors and
    intervals.
    """
    headings = _labels(result)
    for name in result.estimates:
        headings += [f"{name} ± stderr", _interval(level)]
    lines = []
    for row in result.rows:
        parts = (_told(result, row, name, level) for name in result.estimates)
        lines.append([*_group(result, row), *(text for part in parts for text in part)])
    return headings, lines


def answer_list(result: CubeResult, level: float) -> tuple[list[str], list[list[str]]]:
    """The same with a line for each estimate of a group: a screen is not wide enough for many."""
    headings = [*_labels(result), "answer", "value ± stderr", _interval(level)]
    lines = [
        [*_group(result, row), name, *_told(result, row, name, level)]
        for row in result.rows
        for name in result.estimates
    ]
    return headings, lines


def _labels(result: CubeResult) -> list[str]:
    return [name for name in result.columns if name not in result.estimates]


def _group(result: CubeResult, row: Row) -> list[str]:
    return ["all" if row[name] is None else str(row[name]) for name in _labels(result)]


def _interval(level: float) -> str:
    return f"{100 * level:g} % interval"


def _told(result: CubeResult, row: Row, name: str, level: float) -> tuple[str, str]:
    return shown(row[name], level, counts=name in result.counts)


def print_answers(result: CubeResult, level: float) -> None:
    """The rows as a table; more estimates than have room side by side, one below the other."""
    if not result.rows:
        print("no group is left")
        return
    left, many = len(_labels(result)), len(result.estimates) > SIDE_BY_SIDE
    headings, lines = answer_table(result, level)
    if many or (len(result.estimates) > 1 and not has_room(headings, lines, left=left)):
        headings, lines = answer_list(result, level)
        left += 1
    print_table(headings, lines, left=left)


def draw(
    result: CubeResult, level: float, sql: str, origin: list[tuple[str, str]], path: Path
) -> None:
    """One panel an estimate: the groups across, with error bars; on a page, the table too."""
    axes = result.plot()
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    groups = [", ".join(result.labels_of(row)) or "all" for row in result.rows]
    alt = " ".join(
        points_told(
            name,
            groups,
            [row[name].value for row in result.rows],
            [row[name].stderr for row in result.rows],
        )
        + "."
        for name in result.estimates
    )
    known = all(row[name].stderr == 0 for row in result.rows for name in result.estimates)
    caption = "Exact: no noise is in these" if known else "Estimates with 95 % intervals"
    blocks: list[Block] = [
        Picture.of(axes, caption, alt=alt),
        Listing(*answer_table(result, level)),
        *(Note(note) for note in result.notes),
    ]
    save_page(sql, blocks, origin, path)
