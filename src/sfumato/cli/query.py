"""`sfumato query`: SQL aggregates over a perturbed table, each with its standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import plots
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
from sfumato.cli.printing import print_json, print_notes, print_table
from sfumato.cli.reading import read_source
from sfumato.errors import ParameterError
from sfumato.mine.cube import CubeResult, shown
from sfumato.mine.cube import query as ask
from sfumato.report import save_figure


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
            metavar="P%", help="Say how many rows would bring every answer within this error."
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

    Example: sfumato query census.parquet "SELECT sex, COUNT(*), AVG(age) FROM t WHERE hours BETWEEN
    30 AND 60 GROUP BY sex"
    """
    if not 0 < level < 1:
        raise ParameterError(f"--level {level:g} must lie strictly between 0 and 1")
    wanted = None if within is None else share("--within", within)
    check_drawing_target(plot, force)
    source = read_source(file, schema, items, engine, in_place=True, cache=not no_cache, fit=fit)
    result = ask(source, sql, method=method)
    needed = None if wanted is None else rows_needed(result, wanted, level)
    if plot is not None:
        draw(result, level, sql, plot)
    if json:
        print_json(result.to_dict(level) | ({} if needed is None else {"within": needed}))
        return
    print_answers(result, level)
    if needed is not None:
        print(needed["words"])
    print_notes(result.notes)


def rows_needed(result: CubeResult, within: float, level: float) -> dict[str, Any]:
    """The rows that the normal law asks for, and the bound of OLAP theorem 1 for the columns'
    keeps.
    """
    normal = result.rows_needed(within, level)
    words = f"within {within:.3g} at {level:.0%}: "
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


def print_answers(result: CubeResult, level: float) -> None:
    """The rows as a table: labels as they are, estimates with their errors and intervals."""
    if not result.rows:
        print("no group is left")
        return
    estimates = result.estimates
    labels = [name for name in result.columns if name not in estimates]
    columns = (
        2 if len(estimates) <= 2 else 1
    )  # with more estimates than two there is no room for their intervals
    headings = [
        *labels,
        *(
            text
            for name in estimates
            for text in (f"{name} ± stderr", f"{level:.0%} interval")[:columns]
        ),
    ]
    lines = [
        [*("all" if row[name] is None else str(row[name]) for name in labels)]
        + [text for name in estimates for text in shown(row[name], level)[:columns]]
        for row in result.rows
    ]
    print_table(headings, lines, left=len(labels))


def draw(result: CubeResult, level: float, sql: str, path: Path) -> None:
    """One panel an estimate: the groups across, with error bars."""
    estimates = result.estimates
    if not estimates:
        raise ParameterError("there is no estimate to draw in this answer")
    labels = [
        ", ".join(
            "all" if value is None else str(value)
            for name, value in row.items()
            if name not in estimates
        )
        or "all"
        for row in result.rows
    ]
    panels = [
        plots.Marginal(
            name,
            labels,
            [row[name].value for row in result.rows],
            [row[name].stderr for row in result.rows],
        )
        for name in estimates
    ]
    save_figure(plots.marginals(panels, quantity="")[0], path, title=sql)
