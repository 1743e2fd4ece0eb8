"""Release records with values replaced at random so that every expected count stays: a file that
can be analysed as it is, under a promised γ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Codes, Distinct
from sfumato.errors import ParameterError
from sfumato.printable import percent, upwards
from sfumato.privacy.guarantee import Gamma, Guarantee, rounded_up
from sfumato.privacy.probability import check_number
from sfumato.progress import Progress, silent
from sfumato.publish.cost import two_way_changes
from sfumato.publish.former import taking_microdata
from sfumato.publish.intruder import ShownValue
from sfumato.publish.invariant import InvariantMatrix
from sfumato.publish.limits import (
    LARGEST_GAMMA,
    MOST_BEST_VALUES,
    MOST_ENTRIES,
    MOST_STRATA,
    MOST_VALUES,
)
from sfumato.publish.owned import (
    Keyed,
    ReleasedRecords,
    check_names,
    columns_named,
    columns_of,
    joined,
    numbers_of,
    patterns,
)
from sfumato.publish.verdict import Guesses, aim
from sfumato.randomness import Keystream, drawing
from sfumato.renderers.frames import json_value
from sfumato.renderers.picture import bars
from sfumato.result import Record
from sfumato.view import Chart, ColumnView, TableView, View


@dataclass(frozen=True)
class ValueCount:
    """How many records have a value, how many show it, and how far that may be off by chance."""

    value: Any
    true: int
    shown: int
    stderr: float


@dataclass(frozen=True, repr=False)
class PramReport(Record):
    """What random replacement did to one column (or several as one).

    `kept` is the expected share that shows its true value, `changed` the number that does not.
    `baseline` and `informed` are how often a guess of anyone's value is right without the release
    and from what is shown, by one who knows the matrix; `worst` is the shown value that tells most.
    `moved` bounds the rounding of the expected counts, in records. `fixed` records were alone with
    one value in their stratum and stay as they are.
    """

    column: str
    within: tuple[str, ...]
    strata: int
    records: int
    gamma: float
    kept: float
    changed: int
    moved: float
    fixed: int
    counts: tuple[ValueCount, ...]
    two_way: dict[str, float]
    baseline: float
    informed: float
    worst: ShownValue
    notes: tuple[str, ...] = ()

    also = ("epsilon",)  # in JSON, beside the fields

    @property
    def epsilon(self) -> float:
        """ln(γ)."""
        return float(np.log(self.gamma))

    def view(self) -> View:
        """What can be guessed, how much is kept, and how many records have and show each value."""
        where = f" within {', '.join(self.within)}" if self.within else ""
        guessed = (
            f"{percent(self.informed)} knowing the matrix, {percent(self.baseline)} without the "
            "release"
        )
        worst = self.worst
        surest = f"'{worst.shown}': truly '{worst.likeliest}' with {percent(worst.posterior)}"
        return View(
            f"Risk: {self.column}{where}",
            facts=[
                ("gamma", f"{upwards(self.gamma, 6):.6g}"),
                ("an intruder is right about", guessed),
                ("surest shown value", surest),
            ],
            charts=(self._chart(),),
            notes=self.notes,
            sections=(self._cost(),),
        )

    def _chart(self) -> Chart:
        return bars(
            "records",
            [str(one.value) for one in self.counts],
            [one.true for one in self.counts],
            [one.shown for one in self.counts],
            caption="Records that have each value, and that show it",
            called=("true", "shown"),
        )

    def _cost(self) -> View:
        errors = [one.stderr for one in self.counts]
        shown = [one.shown for one in self.counts]
        counts = (
            ColumnView("value", [str(one.value) for one in self.counts], field="value"),
            ColumnView("true", [one.true for one in self.counts], field="true", kind="int64"),
            ColumnView(
                "shown", shown, errors, level=0.95, counts=True, field="shown", kind="int64"
            ),
            ColumnView("", errors, field="stderr", kind="double"),
        )
        changed = TableView.of(
            ("with", "two-way table changed by"),
            [*self.two_way.items()],
            "Two-way table with each other column, total variation distance",
        )
        return View(
            f"What it cost: {self.column}",
            facts=[
                ("records changed", f"{self.changed:,} of {self.records:,}"),
                ("expected to show the truth", percent(self.kept)),
                ("expected counts differ by", f"{self.moved:.2g} records at most (rounding)"),
            ],
            tables=(TableView(counts),),
            sections=(View(tables=(changed,), detail=True),),
        )


@dataclass(frozen=True, eq=False, repr=False)
class PramRelease(ReleasedRecords):
    """The records to hand out, the guarantee of all replaced columns together, and the reports."""

    guarantee: Guarantee
    reports: tuple[PramReport, ...]
    secure: bool
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the guarantee of all, and a report for each column."""
        return {
            "records": self.records.rows,
            "changed": int(self.changed.sum()),
            "gamma": rounded_up(self.guarantee.gamma),
            "epsilon": self.guarantee.epsilon,
            "secure": self.secure,
            "columns": json_value(self.reports),
            "verdict": json_value(self.verdict),
            "seconds": self.seconds,
        }

    def view(self) -> View:
        """What was replaced and what it promises; the counts of each column as details."""
        names = ", ".join(report.column for report in self.reports)
        chart = bars(
            "guessed right (%)",
            [report.column for report in self.reports],
            [100 * report.baseline for report in self.reports],
            [100 * report.informed for report in self.reports],
            caption="How often a value is guessed right, by one who knows the matrix",
            called=("without the release", "with it"),
        )
        heads = ("column", "gamma", "kept", "changed", "guessed without", "guessed with")
        lines = [
            (
                *(report.column, report.gamma, percent(report.kept), report.changed),
                *(percent(report.baseline), percent(report.informed)),
            )
            for report in self.reports
        ]
        return View(
            f"Random replacement of {names}",
            (
                f"{int(self.changed.sum()):,} of {self.records.rows:,} records show another "
                f"{names}.",
                f"All replaced columns together: {self.guarantee}",
            ),
            verdict=self.verdict.lead,
            charts=(chart,),
            tables=(TableView.of(heads, lines),),
            sections=[replace(report.view(), detail=True) for report in self.reports],
        )

    @property
    def remains(self) -> tuple[str, ...]:
        """What can still be learned, in sentences."""
        found = [
            f"All replaced columns together: gamma {self.guarantee.gamma_words}. The "
            "matrices are made from the counts of the table and are described by them."
        ]
        for report in self.reports:
            kept = f" and with {', '.join(report.within)}" if report.within else ""
            found += report.notes
            found.append(
                f"Expected counts of {report.column}{kept} are those of the truth; with any other "
                "column its relation is weaker than it truly is."
            )
        return tuple(found)


@taking_microdata
@checked
def pram(
    data: Any,
    columns: str | Sequence[str],
    *,
    gamma: Gamma | None = None,
    keep: float | None = None,
    jointly: bool = False,
    within: str | Sequence[str] = (),
    bins: Mapping[str, str] | None = None,
    max_gain: float | None = None,
    rng: Keystream | None = None,
    progress: Progress = silent,
) -> PramRelease:
    """A copy of the records in which the columns' values are replaced at random by a matrix that
    leaves every expected count as it is.

    Under `gamma` no shown value is more than γ times as likely for one true value as for another,
    and of all such matrices the one that keeps most records is taken (up to 60 values; beyond, a
    note says that it was not looked for); `keep` instead keeps each record with that probability
    and draws the others from the column's own counts. Several columns are replaced on their own
    (their γ multiply, and only their own counts stay), or `jointly` as one. `within` other columns
    the counts of each combination with these stay as well. The matrix is made from the counts, so γ
    speaks of one person to whom the counts are known. The verdict says whether an intruder gains
    more than `max_gain` percentage points over no release (unless stated what `gamma` allows, with
    `keep` 10).

    >>> people = {"ill": ["no"] * 900 + ["yes"] * 100}
    >>> release = pram(people, "ill", gamma=19)
    >>> release.reports[0].gamma <= 19, round(release.reports[0].kept, 2)
    (True, 0.94)
    """
    started = time.perf_counter()
    aim(max_gain)  # refused before any work is done
    if (gamma is None) == (keep is None):
        raise ParameterError("say how much is replaced, one way", hint="give gamma or keep")
    check_number("gamma", gamma) if gamma is not None else check_number("keep", keep)
    if gamma is not None and not gamma <= LARGEST_GAMMA:
        raise ParameterError(f"gamma={float(gamma):g} promises nothing", hint="19 is usual")
    chosen, inside = _named(columns, within)
    keyed = Keyed.of(data, chosen, bins=bins, keys_needed=False)
    check_names(keyed.table, inside)
    strata = tuple(name for name in keyed.keys if name in inside)
    draw = drawing(rng)
    views = keyed.views(jointly)
    targets = [joined(keyed.table, view) for view in views]
    for attribute, _, _ in targets:
        _check_values(attribute)
    reports, shown, guarantee = list[PramReport](), dict[str, Codes](), Guarantee(1)

    def matrix(counts: NDArray[np.int64]) -> InvariantMatrix:
        if gamma is not None:
            return InvariantMatrix.promising(counts, gamma)
        return InvariantMatrix.keeping(counts, float(keep or 0.0))

    for place, (view, (attribute, codes, parts)) in enumerate(zip(views, targets, strict=True)):
        progress(f"replacing {attribute.name}", place / len(targets))
        replacement = _Replacement.of(keyed, (attribute, codes), strata, matrix)
        drawn = replacement.draw(draw)
        two_way = two_way_changes(keyed, codes, drawn)
        reports.append(replacement.report(drawn, two_way, best=gamma is not None))
        released = (part[drawn].astype(np.int32) for part in parts)
        shown |= dict(zip(view, released, strict=True))
        guarantee = guarantee.compose(replacement.guarantee)
    return PramRelease(
        *keyed.released(shown),
        guarantee,
        tuple(reports),
        draw.secure,
        time.perf_counter() - started,
        **_judged(reports, gamma, max_gain),
    )


def _judged(
    reports: Sequence[PramReport], gamma: Gamma | None, max_gain: float | None
) -> dict[str, Any]:
    """Guesses of everyone's value, and the aim: unless stated, what gamma allows; else 10."""
    guesses = tuple(
        Guesses(f"{one.column} of all {one.records:,} records", one.baseline, one.informed)
        for one in reports
    )
    if gamma is None:
        return {"guesses": guesses, "max_gain": aim(max_gain)}
    promised = Guarantee(gamma)
    allowed = 100 * max(promised.worst_posterior(g.without) - g.without for g in guesses)
    return {"guesses": guesses, "max_gain": aim(max_gain, allowed)}


@dataclass(frozen=True, eq=False)
class _Stratum:
    """The records of one stratum, the values that occur in it, and the matrix over them."""

    rows: NDArray[np.intp]
    values: NDArray[np.intp]
    matrix: InvariantMatrix


@dataclass(frozen=True, eq=False)
class _Replacement:
    """A column, or several as one, and the matrix of every stratum, made from its own counts."""

    attribute: Distinct
    codes: Codes
    within: tuple[str, ...]
    strata: tuple[_Stratum, ...]

    @classmethod
    def of(
        cls,
        keyed: Keyed,
        target: tuple[Distinct, Codes],
        within: tuple[str, ...],
        matrix: Callable[[NDArray[np.int64]], InvariantMatrix],
    ) -> _Replacement:
        """The matrices, unless they would be too large or too many to make."""
        attribute, codes = target
        columns = columns_of(keyed.table, within)
        number = patterns(columns) if columns else np.zeros(len(codes), dtype=np.int64)
        order = np.argsort(number, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
        if len(parts) > MOST_STRATA:
            raise ParameterError(
                f"{len(parts):,} strata are too many to keep the counts of (at most "
                f"{MOST_STRATA:,})",
                hint="name fewer or coarser columns to stay within",
            )
        counted = [np.unique(codes[rows], return_counts=True) for rows in parts]
        entries = sum(len(values) ** 2 for values, _ in counted)
        if entries > MOST_ENTRIES:
            raise ParameterError(
                f"the matrices of {len(parts):,} strata of '{attribute.name}' have {entries:,} "
                f"entries, and {MOST_ENTRIES:,} at most are made",
                hint="name fewer or coarser columns to stay within, or cut numbers into ranges "
                "(--bin)",
            )
        strata = [
            _Stratum(rows, values.astype(np.intp), matrix(counts))
            for rows, (values, counts) in zip(parts, counted, strict=True)
        ]
        return cls(attribute, codes, within, tuple(strata))

    @property
    def guarantee(self) -> Guarantee:
        """That of the stratum which promises least."""
        return max(stratum.matrix.guarantee for stratum in self.strata)

    def draw(self, rng: Keystream) -> Codes:
        """A shown code for every record."""
        drawn = self.codes.copy()
        for stratum in self.strata:
            local = np.searchsorted(stratum.values, self.codes[stratum.rows])
            drawn[stratum.rows] = stratum.values[stratum.matrix.draw(local, rng)]
        return drawn

    def report(self, drawn: Codes, two_way: dict[str, float], *, best: bool) -> PramReport:
        """What was done; `best` says that the matrix which leaves most records alone was wanted."""
        attribute, rows = self.attribute, len(self.codes)
        joint = np.zeros((attribute.size, attribute.size))  # (shown, true), expected
        variance = np.zeros(attribute.size)
        informed, worst = 0.0, list[ShownValue]()
        for stratum in self.strata:
            expected = stratum.matrix.joint()
            joint[np.ix_(stratum.values, stratum.values)] += expected
            variance[stratum.values] += stratum.matrix.variance()
            informed += float(expected.max(axis=1).sum())
            worst.append(_worst(expected, [attribute.values[code] for code in stratum.values]))
        true, shown = (np.bincount(each, minlength=attribute.size) for each in (self.codes, drawn))
        errors = np.sqrt(variance).tolist()
        counts = zip(attribute.values, true.tolist(), shown.tolist(), errors, strict=True)
        return PramReport(
            column=attribute.name,
            within=self.within,
            strata=len(self.strata),
            records=rows,
            gamma=rounded_up(self.guarantee.gamma),
            kept=float(np.trace(joint) / rows),
            changed=int((drawn != self.codes).sum()),
            moved=float(np.abs(joint.sum(axis=1) - true).max()),
            fixed=sum(len(stratum.rows) for stratum in self.strata if len(stratum.values) == 1),
            counts=tuple(ValueCount(*each) for each in counts),
            two_way=two_way,
            baseline=float(true.max() / rows),
            informed=informed / rows,
            worst=max(worst, key=lambda one: one.posterior),
            notes=tuple(self._notes(best=best)),
        )

    def _notes(self, *, best: bool) -> Iterator[str]:
        alone = [stratum for stratum in self.strata if len(stratum.values) == 1]
        if alone and self.within:
            records = sum(len(stratum.rows) for stratum in alone)
            yield (
                f"{records:,} records are in {len(alone):,} strata of {' × '.join(self.within)} "
                "that hold one value only: nothing is replaced there, and the value is disclosed"
            )
        most = max(len(stratum.values) for stratum in self.strata)
        if best and most > MOST_BEST_VALUES:
            yield (
                f"of more than {MOST_BEST_VALUES} values (here {most:,}) the matrix that leaves "
                "most records alone is not looked for: with rare values merged, or numbers in "
                "ranges, far more would show the truth"
            )


def _worst(joint: NDArray[np.float64], values: Sequence[Any]) -> ShownValue:
    """The shown value that tells most about the true one, by how many records are expected to show
    each value and truly have each.
    """
    share = joint / joint.sum(axis=1, keepdims=True)
    place = int(share.max(axis=1).argmax())
    likeliest = int(share[place].argmax())
    return ShownValue(
        values[place],
        round(joint[place].sum()),
        values[likeliest],
        float(share[place, likeliest]),
        float(share[place, place]),
    )


def _named(
    columns: str | Sequence[str], within: str | Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the columns to replace, and of those within which they are."""
    chosen, inside = columns_named("columns", columns), columns_named("columns", within)
    if not chosen:
        raise ParameterError("no column to replace was named", hint="name one or more")
    both = [name for name in inside if name in chosen]
    if both:
        raise ParameterError(f"'{both[0]}' cannot be replaced within itself")
    return chosen, inside


def _check_values(column: Distinct) -> None:
    """Refuse a column whose matrix would be too large to make."""
    if column.size <= MOST_VALUES:
        return
    name = column.name
    raise ParameterError(
        f"'{name}' has {column.size:,} values, and {MOST_VALUES:,} at most can be replaced by one "
        "another",
        hint=f"cut it into ranges: --bin {name}=frequency:20, in Python "
        f'bins={{"{name}": "frequency:20"}}'
        if numbers_of(column) is not None
        else "merge rare values, or replace columns on their own, not jointly",
    )
