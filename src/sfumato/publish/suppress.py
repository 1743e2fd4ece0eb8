"""Release records with single cells of the keys blanked, so that k people or more share every
combination that is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import plots
from sfumato.arguments import checked, shown
from sfumato.domain import Codes, Distinct
from sfumato.errors import DataError, ParameterError
from sfumato.notebook import Framed, arrow_table, html_table
from sfumato.privacy.probability import check_seconds
from sfumato.publish.blanking import blanked
from sfumato.publish.former import taking_microdata
from sfumato.publish.identify import Risk, risk_of
from sfumato.publish.records import (
    Nulls,
    ReleasedRecords,
    attribute_of,
    columns_of,
    parted,
    patterns,
    records_of,
    replaced,
)
from sfumato.randomness import Keystream, drawing
from sfumato.table import Table
from sfumato.telling import Telling, silent

__all__ = ["SuppressRelease", "SuppressReport", "suppress"]


@dataclass(frozen=True, repr=False)
class SuppressReport(Framed):
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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**self.__dict__, "keys": list(self.keys)}

    def to_arrow(self) -> Any:
        """A table with one row a key: how many of its cells were blanked, and of how many."""
        rows = ((name, blanked, self.records) for name, blanked in self.by_column.items())
        return arrow_table(rows, key="string", blanked="int64", records="int64")

    def plot(self, *, axes: Any = None) -> Any:
        """The cells of each key that were there and that are left; the axes they were drawn on."""
        return plots.risk(
            list(self.by_column),
            [self.records] * len(self.by_column),
            [self.records - blanked for blanked in self.by_column.values()],
            quantity="cells shown",
            axes=axes,
        )

    def _repr_html_(self) -> str:
        """What was blanked and what it reached, as notebooks show it."""
        lines = ((name, f"{blanked:,}") for name, blanked in self.by_column.items())
        fewest = "the fewest" if self.proved else f"at least {self.bound:,} are needed"
        notes = (
            f"{self.cells:,} cells of {self.blanked_records:,} of {self.records:,} records "
            f"({fewest})",
            f"keys were shared by {self.smallest_before:,} or more, now by "
            f"{self.smallest_after:,} or more",
        )
        return html_table(("key", "cells blanked"), lines, title="Records to hand out", notes=notes)


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
            name: {"before": before.to_dict(), "after": after.to_dict()}
            for name, (before, after) in self.risks.items()
        }
        return {**self.report.to_dict(), **({"by_confidential": risks} if risks else {})}

    def plot(self, *, axes: Any = None) -> Any:
        """The cells of each key that were there and that are left; the axes they were drawn on."""
        return self.report.plot(axes=axes)

    def _repr_html_(self) -> str:
        """What was blanked and what it reached, as notebooks show it."""
        return self.report._repr_html_()

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
    nulls: Nulls = "value",
    seconds: float = 10.0,
    rng: Keystream | None = None,
    progress: Telling = silent,
) -> SuppressRelease:
    """A copy of the records with as few key cells blanked as can be found, so that every
    combination of keys that is left, blanks included, is shared by k records or more.

    `keys` names what an intruder may know; else every column that is not `confidential`. A blank is
    a value of its own (a null that was there counts as one already), so whoever knows a person's
    keys finds k records that fit them. Columns cut by `bins` are released in their bins. The
    report says how few cells any answer needs, and whether this one is proved to have the fewest.

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
    records, secret = records_of(data), () if confidential is None else confidential
    table, known, secret = parted(
        records, secret, keys=keys, bins=bins, nulls=nulls, values_needed=0
    )
    _check_k(k, table.rows)
    codes = np.stack([_coded_blanks(table, name) for name in known], axis=1)
    progress("counting groups", None)
    found = blanked(codes, k, rng=drawing(rng), seconds=seconds, progress=progress)
    blanks = zip(known, found.blank.T, strict=True)
    shown = replaced(table, {name: _with_blanks(table, name, blank) for name, blank in blanks})
    before, after = (patterns(columns_of(each, known)) for each in (table, shown))
    risks = {
        name: (risk_of(before, codes), risk_of(after, codes))
        for name, codes in zip(secret, columns_of(table, secret), strict=True)
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
    return SuppressRelease(shown, changed, report, risks, found.blank)


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
