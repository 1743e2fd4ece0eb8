"""`sfumato query`: SQL aggregates over a perturbed table, each with its standard error."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from sfumato.cli.options import Asked, Level, argument, check_level, option, share
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar
from sfumato.cli.sources import Reading
from sfumato.mine.cube import CubeResult
from sfumato.mine.cube import query as ask
from sfumato.view import View


def query(
    file: Asked,
    sql: Annotated[str, argument("Aggregates over the table t (any name will do).", '"SELECT …"')],
    method: Annotated[
        str, option("invert: unbiased; em: the most likely counts, none below 0.")
    ] = "invert",
    level: Level = 0.95,
    within: Annotated[
        str | None,
        option("Say how many rows bring every answer within this share of itself.", metavar="P%"),
    ] = None,
    reading: Reading = Reading(),
    given: Given = Given(),
) -> None:
    """Answer SQL aggregates as if the truth were there, each with its standard error and interval.

    The standard error is that of the blurring, with the people held fixed.

    Example: sfumato query census.parquet "SELECT sex, COUNT(*), AVG(age) FROM t
    WHERE hours BETWEEN 30 AND 60 GROUP BY sex"
    """
    check_level(level)
    wanted = None if within is None else share("--within", within)
    given.check()
    with progress_bar() as tell:
        source = reading.source(file, tell, in_place=True)
        result = ask(source, sql, method=method)
    more = {} if wanted is None else {"within": rows_needed(result, wanted, level)}
    view = result.view(level)
    given.draw(replace(view, title=sql), file, source)
    sections = tuple(View(words=(needed["words"],)) for needed in more.values())
    given.give(replace(view, sections=sections), lambda: result.to_dict(level) | more, most=None)


def rows_needed(result: CubeResult, within: float, level: float) -> dict[str, Any]:
    """The rows that the normal approximation asks for, and the bound of OLAP theorem 1 for the
    columns' keeps.
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
    words += f"{normal:,} rows are needed (normal approximation)" + (
        ", which you have" if normal <= result.population else ""
    )
    guaranteed = result.rows_guaranteed(within, level)
    if guaranteed is not None:
        words += f"; {guaranteed:,} by OLAP theorem 1, whatever the data"
    return {"share": within, "rows": normal, "theorem_1": guaranteed, "words": words}
