"""`sfumato query`: SQL aggregates over a perturbed table, each with its standard error."""

from __future__ import annotations

from dataclasses import replace
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
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, show, telling
from sfumato.cli.sources import read_source
from sfumato.errors import ParameterError
from sfumato.mine.cube import CubeResult
from sfumato.mine.cube import query as ask
from sfumato.result import save_view
from sfumato.view import View


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

    The standard error is that of the blurring, with the people held fixed.

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
    view = result.view(level)
    if plot is not None:
        save_view(with_origin(replace(view, title=sql), origin_of(file, source)), plot)
    if json:
        print_json(result.to_dict(level) | ({} if needed is None else {"within": needed}))
        return
    if needed is not None:
        view = replace(view, sections=(View(words=(needed["words"],)),))
    show(view, most=None)


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
