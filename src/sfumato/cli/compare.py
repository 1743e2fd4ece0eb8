"""`sfumato compare`: groups side by side, and whether they differ."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import Asked, Level, RowsFixed, check_level, option, share
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar
from sfumato.cli.sources import Reading
from sfumato.errors import ParameterError
from sfumato.mine.comparison import compare as ask


def compare(
    file: Asked,
    by: Annotated[str, option("The column whose values are the groups.", metavar="A")],
    of: Annotated[
        str, option("What is compared: shares of its values, or means of a number.", metavar="B")
    ],
    power: Annotated[
        str | None,
        option(
            "A difference: in how many campaigns like this would it have been seen? 3% is three "
            "points of a share; of means a number.",
            metavar="D",
        ),
    ] = None,
    rows_fixed: RowsFixed = False,
    level: Level = 0.95,
    reading: Reading = Reading(),
    given: Given = Given(),
) -> None:
    """Compare groups from reports: independence, differences, ratios, trends and their tests.

    Many differences are corrected for looking at all of them (Holm). The errors are those of the
    blur and of sampling.

    Example: sfumato compare census.parquet --by sex --of income --power 3%
    """
    check_level(level)
    wanted = None if power is None else difference(power)
    given.check()
    with progress_bar() as tell:
        source = reading.source(file, tell, in_place=True)
        found = ask(source, by, of, power=wanted, level=level, rows_fixed=rows_fixed, tell=tell)
    view = found.view()
    given.draw(view, file, source)
    given.give(view, found.to_dict, most=None)


def difference(stated: str) -> float:
    """A difference as it was typed: 3% of a share, or a number."""
    if stated.endswith("%"):
        return share("--power", stated)
    try:
        found = float(stated)
    except ValueError:
        found = float("nan")
    if not 0 < abs(found) < float("inf"):
        raise ParameterError(
            f"--power {stated} is no difference", hint="3% is three points; of means a number"
        )
    return found
