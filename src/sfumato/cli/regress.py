"""`sfumato regress`: a regression from reports, with errors that know of the blur."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import Asked, Level, RowsFixed, argument, check_level, option
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar
from sfumato.cli.sources import Reading
from sfumato.errors import ParameterError
from sfumato.mine.regression import FAMILIES
from sfumato.mine.regression import regress as ask


def regress(
    file: Asked,
    formula: Annotated[str, argument("What is explained, ~, and by which columns.", '"y ~ a + b"')],
    family: Annotated[
        str | None,
        option(
            "logit, linear or poisson; unless stated logit for a yes/no, linear for a number.",
            known=FAMILIES,
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        option(
            "The value that a column's others are compared with; else the first.", metavar="A=V"
        ),
    ] = None,
    rows_fixed: RowsFixed = False,
    level: Level = 0.95,
    reading: Reading = Reading(),
    given: Given = Given(),
) -> None:
    """Logistic, linear and Poisson regression from reports: coefficients, odds ratios and tests.

    C(x) takes a number by contrasts of its bins, score(x) a category by ascending numbers, a:b is
    an interaction, a*b that and both columns. The errors are those of the blur and of sampling.

    Example: sfumato regress census.parquet "income ~ age + C(education) + sex" --reference sex=Male
    """
    check_level(level)
    given.check()
    with progress_bar() as tell:
        source = reading.source(file, tell, in_place=True)
        found = ask(
            source,
            formula,
            family=family,
            reference=references(reference or ()),
            rows_fixed=rows_fixed,
            tell=tell,
        )
    view = found.view(level)
    given.draw(view, file, source)
    given.give(view, lambda: found.to_dict(level), most=None)


def references(stated: list[str] | tuple[str, ...]) -> dict[str, str]:
    """The references as they were typed, by column."""
    found = {}
    for each in stated:
        name, sign, value = each.partition("=")
        if not sign or not name or not value:
            raise ParameterError(
                f"--reference {each} names no column and value", hint="as in --reference sex=Male"
            )
        found[name] = value
    return found
