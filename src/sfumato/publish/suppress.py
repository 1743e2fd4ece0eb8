"""Release records with single cells of the keys blanked, so that k people or more share every
combination that is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.domain import Codes, Distinct
from sfumato.errors import DataError, ParameterError
from sfumato.privacy.probability import check_seconds
from sfumato.progress import Progress, silent
from sfumato.publish.former import taking_microdata
from sfumato.publish.identify import Risk, risk_of, risk_table, status_of
from sfumato.publish.intruder import believed
from sfumato.publish.local_suppression import blanked
from sfumato.publish.owned import (
    Keyed,
    ReleasedRecords,
    attribute_of,
    columns_of,
    patterns,
    replaced,
)
from sfumato.publish.verdict import Guesses, aim, guesses_of
from sfumato.randomness import Keystream, drawing
from sfumato.renderers.frames import json_value
from sfumato.renderers.picture import bars
from sfumato.result import Record
from sfumato.table import Table
from sfumato.view import ColumnView, TableView, View


@dataclass(frozen=True, repr=False)
class SuppressReport(Record):
    """How many cells were blanked, by column, and what nobody can undercut.

    `smallest_before` and `smallest_after` are the smallest groups sharing a combination of keys, a
    blank counting as a value. `still_told` is the number of records, by confidential column, whose
    whole group has one value: k people who share their keys may share their secret too.
    """

    records: int
    keys: tuple[str, ...]
    k: int
    cells: int
    bound: int
    proved: bool
    blanked_records: int
    by_column: dict[str, int]
    small_before: int
    smallest_before: int
    smallest_after: int
    still_told: dict[str, int]
    seconds: float

    def view(self) -> View:
        """How small the groups are now, how many cells that took, and of which keys."""
        smallest = (
            f"{self.smallest_after} (before: {self.smallest_before}; {self.small_before:,} records "
            f"were in groups of fewer than {self.k})"
        )
        still = [
            (f"{name} still disclosed", f"{records:,} records whose whole group has one value")
            for name, records in self.still_told.items()
        ]
        return View(
            "Local suppression",
            (f"{self.cells:,} cells of {self.blanked_records:,} records were blanked.",),
            [("smallest group", smallest), *still],
            sections=(self._cost(),),
        )

    def _cost(self) -> View:
        fewest = (
            "proved to be the fewest" if self.proved else f"none needs fewer than {self.bound:,}"
        )
        names, blanked = [*self.by_column], [*self.by_column.values()]
        records = [self.records] * len(names)
        columns = (
            ColumnView("key", names, field="key", kind="string"),
            ColumnView("cells blanked", blanked, field="blanked", kind="int64"),
            ColumnView("", records, field="records", kind="int64"),
        )
        chart = bars(
            "cells shown",
            names,
            records,
            [self.records - cells for cells in blanked],
            caption="Cells of each key that were there, and that are left",
        )
        return View(
            "What it cost",
            facts=[
                ("cells blanked", f"{self.cells:,} ({fewest})"),
                ("records with a blank", f"{self.blanked_records:,} of {self.records:,}"),
                ("time", f"{self.seconds:.2f} s"),
            ],
            charts=(chart,),
            tables=(TableView(columns),),
        )


@dataclass(frozen=True, eq=False, repr=False)
class SuppressRelease(ReleasedRecords):
    """The records to hand out and the report; `blank` says which cells were blanked and is for the
    owner alone.
    """

    report: SuppressReport
    risks: dict[str, tuple[Risk, Risk]]  # by confidential column: before, after
    blank: NDArray[np.bool_]  # (records, keys)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of the report, with the risks by confidential column."""
        risks = {
            name: {"before": before, "after": after} for name, (before, after) in self.risks.items()
        }
        found = {"by_confidential": risks} if risks else {}
        return self.report.to_dict() | json_value(found | {"verdict": self.verdict})

    def view(self) -> View:
        """That of the report, with the risk of each confidential column as a detail."""
        view = self.report.view()
        tables = [
            risk_table({"before": before, "after": after}, name)
            for name, (before, after) in self.risks.items()
        ]
        detail = View("Risk before and after", tables=tables, detail=True)
        sections = (*([detail] if tables else ()), *view.sections)
        return replace(view, verdict=self.verdict.lead, sections=sections)

    @property
    def remains(self) -> tuple[str, ...]:
        """What can still be learned, in sentences."""
        smallest = self.report.smallest_after
        return (
            f"Whoever knows the keys of a person finds {smallest} records or more that fit them: "
            "who it is stays open, what they share does not.",
            *(
                f"{records:,} records are in groups that all have one value of {name}: it is "
                "disclosed."
                for name, records in self.report.still_told.items()
                if records
            ),
        )

    def revealed(self) -> dict[str, list[list[Any]]]:
        """Which cells were blanked, as row (from 1) and column: for the owner alone."""
        names = self.report.keys
        return {"blanked": [[int(row) + 1, names[place]] for row, place in np.argwhere(self.blank)]}


@taking_microdata
@checked
def suppress(
    data: Any,
    k: int = 3,
    *,
    keys: Sequence[str] | None = None,
    confidential: str | Sequence[str] | None = None,
    bins: Mapping[str, str] | None = None,
    seconds: float = 10.0,
    max_gain: float | None = None,
    rng: Keystream | None = None,
    progress: Progress = silent,
) -> SuppressRelease:
    """A copy of the records with as few key cells blanked as can be found, so that every
    combination of keys that is left, blanks included, is shared by k records or more.

    `keys` names what an intruder may know; else every column that is not `confidential`. A blank is
    a value of its own (a null that was there counts as one already), so whoever knows a person's
    keys finds k records that fit them. Columns cut by `bins` are released in their bins. The
    report says how few cells any answer needs, and whether this one is proved to have the fewest;
    the verdict, whether an intruder gains more than `max_gain` percentage points over no release
    (10 unless stated; where no column is confidential, what k allows).

    >>> people = {"age": [31, 31, 52, 52], "town": ["Lyon", "Lyon", "Turin", "Lyon"]}
    >>> release = suppress(people, k=2, keys=["age", "town"])
    >>> release.report.cells, release.report.proved, release.table["town"].to_pylist()
    (2, True, ['Lyon', 'Lyon', None, None])
    """
    started = time.perf_counter()
    check_seconds(seconds)
    if keys is None and confidential is None:
        raise ParameterError(
            "which columns an intruder may know was not said", hint="name keys, or confidential"
        )
    keyed = Keyed.of(data, confidential, keys=keys, bins=bins, values_needed=0)
    table, known = keyed.table, keyed.keys
    _check_k(k, table.rows)
    wanted = aim(max_gain) if keyed.secret else aim(max_gain, 100 / k)
    codes = np.stack([_coded_blanks(table, name) for name in known], axis=1)
    progress("counting groups", None)
    found = blanked(codes, k, rng=drawing(rng), seconds=seconds, progress=progress)
    blanks = zip(known, found.blank.T, strict=True)
    shown = replaced(table, {name: _with_blanks(table, name, blank) for name, blank in blanks})
    before, after = keyed.pattern, patterns(columns_of(shown, known))
    secrets = dict(zip(keyed.secret, columns_of(table, keyed.secret), strict=True))
    risks = {
        name: (risk_of(before, codes), risk_of(after, codes)) for name, codes in secrets.items()
    }
    sizes = np.bincount(before)
    report = SuppressReport(
        records=table.rows,
        keys=known,
        k=k,
        cells=found.cells,
        bound=found.bound,
        proved=found.proved,
        blanked_records=int(found.blank.any(axis=1).sum()),
        by_column=dict(zip(known, found.blank.sum(axis=0).tolist(), strict=True)),
        small_before=int(sizes[sizes < k].sum()),
        smallest_before=int(sizes.min()),
        smallest_after=int(np.bincount(after).min()),
        still_told={name: risk.collective for name, (_, risk) in risks.items()},
        seconds=time.perf_counter() - started,
    )
    changed = np.asarray(found.blank.any(axis=1))
    told = tuple(_guesses(before, after, secrets))
    given = shown, changed, report, risks, found.blank
    return SuppressRelease(*given, guesses=told, max_gain=wanted)


def _guesses(
    before: NDArray[np.int64], after: NDArray[np.int64], secrets: Mapping[str, Codes]
) -> Iterator[Guesses]:
    """Of each confidential column the commonest value of a group; without one, of what k is asked:
    which record is whose.
    """
    for name, codes in secrets.items():
        right = believed(status_of(after, codes), codes, codes)
        yield from guesses_of(name, codes, status_of(before, codes).told, right)
    if not secrets:
        yield Guesses("which record is whose", 0.0, 1 / int(np.bincount(after).min()))


def _check_k(k: Any, rows: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise ParameterError(
            f"k={shown(k)} asks for nothing", hint="use a whole number of 2 or more"
        )
    if rows < k:
        raise DataError(f"{rows} records cannot form a group of {k}", hint="use a smaller k")


def _coded_blanks(table: Table, name: str) -> Codes:
    """The codes of a column, -1 for a null, which comes last."""
    values, (codes,) = attribute_of(table, name).values, columns_of(table, [name])
    return np.where(codes == len(values) - 1, -1, codes) if values[-1] is None else codes


def _with_blanks(table: Table, name: str, blank: NDArray[np.bool_]) -> tuple[Distinct, Codes]:
    """A column with these cells null."""
    attribute, (codes,) = attribute_of(table, name), columns_of(table, [name])
    if attribute.values[-1] is not None:
        attribute = replace(attribute, values=(*attribute.values, None))
    return attribute, np.where(blank, attribute.size - 1, codes).astype(np.int32)
