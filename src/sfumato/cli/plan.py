"""`sfumato plan`: which mechanism to use, with which parameters, and how many people it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli.options import Guaranteed, Items, Options, argument, option, share
from sfumato.cli.pages import Given, with_origin
from sfumato.cli.printing import print_notes, show_brief
from sfumato.cli.sources import READ_OFF, Described
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import ParameterError
from sfumato.mechanisms.question_choice import columns_of, parts_of
from sfumato.plan import PURPOSES, Plan, plan_release, privacy_curve
from sfumato.result import save_view
from sfumato.table import reader_of
from sfumato.table.readers import people_in
from sfumato.view import View

MORE = "--details: other columns and people, all errors, parameters, assumptions"
DRAWN_EPSILON = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
accuracy = partial(option, panel="Wanted accuracy")


@dataclass(frozen=True)
class Wish(Options):
    """What the release is to be asked, and how sure the answers should be."""

    wanted_error: Annotated[
        str | None, accuracy("The relative standard error wanted: 5% or 0.05.", metavar="E")
    ] = None
    at_support: Annotated[
        str, accuracy("The support of the itemsets it is wanted for.", metavar="S")
    ] = "2%"
    purpose: Annotated[
        str,
        option(
            "itemsets, pairs, counts (of ranges that end at the schema's cuts), ranges (that "
            "end anywhere), means, quantiles or classes: what decides the order.",
            "--for",
            metavar="WHAT",
            known=PURPOSES,
        ),
    ] = "itemsets"
    length: Annotated[
        int | None, option("The length of the itemsets; 2 unless stated.", metavar="K")
    ] = None
    target: Annotated[
        str | None,
        option("The column to be predicted, for classes; the last unless stated.", metavar="A"),
    ] = None
    pairs: Annotated[
        str | None, option("The pairs of columns that matter, for pairs.", metavar="A+B,…")
    ] = None

    def check(self) -> None:
        """Refuse what belongs to another purpose."""
        purpose = self.purpose
        if self.length is not None and purpose != "itemsets":
            raise ParameterError(
                f"--length is of itemsets, and --for {purpose} asks for none", hint="leave it out"
            )
        if self.target is not None and purpose != "classes":
            raise ParameterError(
                f"--target is for classes, and --for {purpose} predicts none",
                hint="use --for classes",
            )
        if self.pairs is not None and purpose != "pairs":
            raise ParameterError(
                f"--pairs is for pairs of columns, and --for {purpose} asks for none",
                hint="use --for pairs",
            )

    def workload(self) -> dict[str, Any]:
        """What is wished as `plan_release` takes it, the pairs once the columns are known."""
        at_support = share("--at-support", self.at_support)
        same = {name: getattr(self, name) for name in ("purpose", "length", "target")}
        return {"at_support": at_support, **same}


def plan(
    schema: Annotated[
        str, argument("A schema (.toml), or data whose schema is proposed; baskets too.", "SCHEMA")
    ],
    rows: Annotated[
        int | None,
        option(
            "How many people will report; as many as the data hold unless stated.",
            "--rows",
            "--people",
            metavar="N",
        ),
    ] = None,
    guaranteed: Guaranteed = Guaranteed(),
    wish: Wish = Wish(),
    items: Items = None,
    details: Annotated[
        bool,
        option("Show the rest: other columns and people, all errors, parameters, what to type."),
    ] = False,
    given: Given = Given(),
) -> None:
    """Compare the mechanisms under a guarantee, for a wanted accuracy, or both: errors to expect,
    people needed.

    Example: sfumato plan census.toml --rows 48842 --rho1 0.05 --rho2 0.50 --for itemsets
    """
    guarantee = guaranteed.guarantee()
    wish.check()
    given.check()
    asked = wish.workload()
    wanted = None if wish.wanted_error is None else share("--wanted-error", wish.wanted_error)
    domain, people = planned_for(schema, items, rows)
    asked["pairs"] = named_pairs(wish.pairs, domain.names)
    rho1 = 0.05 if guaranteed.rho1 is None else guaranteed.rho1
    found = plan_release(
        domain, people, guarantee=guarantee, wanted_error=wanted, rho1=rho1, **asked
    )
    found = replace(found, file=schema, items=items, called=None)
    if given.plot is not None:
        save_view(drawn(found, domain, asked), given.plot)
    if details or given.json:
        given.give(found.view(), found.to_dict, most=None)
    else:
        show_brief(found.brief(), MORE)
    read_off = not schema.endswith(".toml") and items is None
    if not given.json:
        notes = further_notes(found, domain, wish.purpose)
        print_notes([*notes, *([READ_OFF] * read_off)])


def further_notes(found: Plan, domain: Domain, purpose: str) -> list[str]:
    """What the order of a plan does not say: what else there is for what was asked."""
    return [*_range_notes(domain, purpose), *_group_notes(found, domain, purpose)]


def _group_notes(found: Plan, domain: Domain, purpose: str) -> list[str]:
    """What tells a number by the groups of another column, which the best for it alone may not."""
    words = any(isinstance(each, Category) for each in domain.private)
    if (
        purpose not in ("means", "quantiles")
        or not words
        or not any(option.name == "ranges" for option in found.options)
    ):
        return []
    return [f"{purpose} by groups (GROUP BY): --mechanism ranges, then query --fit"]


def _range_notes(domain: Domain, purpose: str) -> list[str]:
    """What else there is for ranges of several numbers: rounds, which a plan does not compare."""
    numbers = [a for a in domain.private if isinstance(a, Numeric)]
    if purpose != "ranges" or len(numbers) < 2 or all(a.cuts for a in numbers):
        return []
    return [
        "these are ranges of one number; for several at once give every number cuts = […] in the "
        "schema, or ask in rounds, which no plan compares: sfumato perturb … --round 1 --mechanism "
        "ranges"
    ]


def named_pairs(text: str | None, names: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """The pairs of columns that a text names, of those there are where names have commas or
    pluses.

    >>> named_pairs("age+sex,sex+smoker")
    (('age', 'sex'), ('sex', 'smoker'))
    >>> named_pairs("a+b+sex,sex+x,y", ("sex", "a+b", "x,y"))
    (('a+b', 'sex'), ('sex', 'x,y'))
    """
    found = []
    for part in [] if text is None else parts_of(text, lambda part: _is_pair(part, names)):
        if _is_pair(part, names):
            first, second = columns_of(part.strip(), names)
            found.append((first, second))
            continue
        first, plus, second = part.strip().partition("+")
        if not (first and plus and second):
            raise ParameterError(
                f"'{part.strip()}' is no pair of columns", hint="write --pairs age+sex,sex+smoker"
            )
        found.append((first, second))
    return tuple(found)


def _is_pair(part: str, names: Sequence[str]) -> bool:
    """Whether a part of a text names two columns that there are."""
    found = columns_of(part.strip(), names)
    return len(found) == 2 and set(found) <= {*names}


def planned_for(
    path: str, items: Path | None = None, rows: int | None = None
) -> tuple[Domain, int]:
    """The domain of a schema file, or the one proposed for a data file, or that of the items where
    they are given; and how many people report, which data tell where nobody said it.
    """
    if not path.endswith(".toml"):
        reader = reader_of(path)
        domain = Described(items=items).domain(reader)
        return domain, people_in(reader, domain) if rows is None else rows
    if items is not None:
        raise ParameterError(
            f"--items and '{path}' both say what baskets may hold",
            hint="give the baskets with --items, or the schema alone",
        )
    if rows is None:
        raise ParameterError(
            "a schema does not say how many people report", hint="give --rows, as in --rows 50000"
        )
    return Domain.load(path), rows


def drawn(found: Plan, domain: Domain, wish: dict[str, Any]) -> View:
    """The plan with its errors against privacy, of all mechanisms; no records were looked at, only
    their schema and number.
    """
    best = found.best
    near = tuple(value for value in DRAWN_EPSILON if abs(value - best.guarantee.epsilon) > 0.2)
    chosen = float(f"{best.guarantee.epsilon:.3g}")
    curve = privacy_curve(domain, found.rows, epsilon=sorted((*near, chosen)), **wish)
    origin = [
        ("file", found.file),
        ("rows", f"{found.rows:,} planned"),
        ("mechanism", f"{best.name}, the best of {len(found.options)}"),
        ("guarantee", str(best.guarantee)),
    ]
    return with_origin(replace(found.view(), charts=(curve.chart(best, found.rows),)), origin)
