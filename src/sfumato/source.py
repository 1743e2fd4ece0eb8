"""Source: what can be asked for counts and supports, each with its standard error; the only thing
the tasks see, whether records are true, perturbed, or drawn by a model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Channel
from sfumato.counting import Counter
from sfumato.domain import Cells, Domain, Numeric
from sfumato.errors import EstimationError, ParameterError, Unanswerable, listing
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, evidence_of, is_nested, undoing
from sfumato.estimation.moments import PowerSums, moments_of
from sfumato.estimation.supports.supports import Supports
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.memory import Recent
from sfumato.observation import CellTally, Observation, Tally, counts_of
from sfumato.one_thread import one_thread
from sfumato.privacy.probability import check_places
from sfumato.renderers.html import MOST_LINES
from sfumato.renderers.picture import draw, estimates
from sfumato.result import Shown
from sfumato.view import Chart, View

# Records over at most this many cells are mined from one table, others set by set or from bitmaps.
MINED_TABLE = 1 << 16
DRAWN_COLUMNS = 24  # in one picture, a panel each
REMEMBERED = 1 << 20  # entries of tallies that a source keeps in memory
UNDONE, UNDONE_CELLS = 64, 1 << 12  # questions whose estimates it keeps, and their cells at most


@checked
class Source(ABC, Shown):
    """Records that can be asked for marginals and for supports, each with its standard error."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The domain of the true records."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many true records there are."""

    @abstractmethod
    def supports(self) -> Supports:
        """Estimated counts of itemsets, one length after the other."""

    @one_thread()
    def marginal(self, columns: Sequence[str | Cells]) -> Estimate:
        """The reconstructed counts over these columns: attributes, items, or partitions of them.

        A number is cut at its default cuts unless a partition of it is given.

        >>> from sfumato.release import Exact
        >>> from sfumato.table import read
        >>> table = Exact(read({"smoker": ["no", "yes", "no"], "sex": ["f", "m", "f"]}))
        >>> counts = table.marginal(["smoker", "sex"])
        >>> counts.value.tolist()
        [[2.0, 0.0], [0.0, 1.0]]
        >>> counts.where(smoker="no")
        Answer(value=2, stderr=0)
        """
        return self._estimates([self._question(columns)])[0]

    @one_thread()
    def marginals(self, questions: Sequence[Sequence[str | Cells]]) -> list[Estimate]:
        """The reconstructed counts of several marginals, from one scan of the reports where the
        engine can.
        """
        return self._estimates([self._question(columns) for columns in questions])

    def _question(self, columns: Sequence[str | Cells]) -> tuple[Cells, ...]:
        if isinstance(columns, str):
            raise ParameterError(f"columns must be a list; use ['{columns}']")
        if not isinstance(columns, Iterable):
            raise ParameterError(
                f"columns must be a list of names, not a {type(columns).__name__}",
                hint=f"as in [{self.domain.names[0]!r}]",
            )
        cells = tuple(
            column if isinstance(column, Cells) else self.cells(column) for column in columns
        )
        names = [part.name for part in cells]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"a marginal is over one or more different columns; found {names}")
        return cells

    @abstractmethod
    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        """The reconstructed counts of several sets of cells."""

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        """The reconstructed sums of the powers of the number that cells[axis] partitions, cell by
        cell.
        """
        raise EstimationError("sums of a column cannot be asked of this source")

    def sums(self, name: str) -> bool:
        """Whether the sum of a whole number is estimated from its reports as they are, so that
        counting its values would suppose more than it needs.
        """
        return False

    def condensed(self, columns: Sequence[str | Cells]) -> Condensed:
        """These columns counted once and for all: later questions about them, or coarser cells of
        them, cost no scan.
        """
        return Condensed(self.marginal(columns), self.domain)

    def cells(self, name: str) -> Cells:
        """The default partition of a column: every value, or the default bins of a number."""
        return default_cells(self.domain, name)

    def view(self) -> View:
        """What is known of the source."""
        names = listing(self.domain.names, most=MOST_LINES)
        return View("Records", facts=[("people", self.rows), ("columns", names)])

    def plot(self, columns: Sequence[str] | None = None, truth: Source | None = None) -> list[Any]:
        """Every column's counts (or those of some columns) as a panel with 95 % intervals, beside
        the truth where it is given; the axes, a panel each.
        """
        names = [axis.name for axis in self.domain.axes] if columns is None else list(columns)
        if len(names) > DRAWN_COLUMNS:
            raise ParameterError(
                f"{len(names)} columns are too many for one picture; at most {DRAWN_COLUMNS}",
                hint="name some of them",
            )
        found = self.marginals([[name] for name in names])
        true = found if truth is None else truth.marginals([[name] for name in names])
        for each, other in zip(found, true, strict=True):
            if each.cells[0].labels != other.cells[0].labels:
                raise ParameterError(
                    f"the truth cuts '{each.names[0]}' otherwise than the release",
                    hint="read the true records by the release's own domain or schema",
                )
        panels = [
            estimates(
                each.names[0],
                each.cells[0].labels,
                each.value,
                each.stderr,
                None if truth is None else other.value,
                quantity="people",
            )
            for each, other in zip(found, true, strict=True)
        ]
        return list(draw(Chart(panels, columns=3)))


def default_cells(domain: Domain, name: str) -> Cells:
    """The default partition of a column of these records: every value, or a number's default
    bins.
    """
    attribute = domain.axis_named(name).attribute
    if isinstance(attribute, Numeric) and attribute.cuts:
        return attribute.cells_by_cuts(attribute.cuts)
    return domain.cells_of(name)


@checked
@dataclass(frozen=True, eq=False)
class Condensed(Source):
    """A table of reconstructed counts that answers as the source did from which it was counted."""

    whole: Estimate
    records: Domain

    @property
    def domain(self) -> Domain:
        return self.records

    @property
    def rows(self) -> int:
        return self.whole.rows

    def supports(self) -> Supports:
        return TabulatedSupports(self.whole.cells, self.rows, self.marginal, exact=False)

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        return [self.whole.coarsen(cells) for cells in questions]

    def cells(self, name: str) -> Cells:
        return self.whole.cells[self.whole.names.index(name)]


@checked
class CountedSource(Source):
    """A source whose rows are counted and undone through a channel, wherever the rows are."""

    counter: Counter

    @property
    def copies(self) -> int:
        """How many rows each record has."""
        return 1

    @abstractmethod
    def observe(self, cells: Sequence[Cells]) -> Observation:
        """What to count of the rows for these cells of the records, and the channel of that
        tally.
        """

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        keys = [tuple(part.key for part in cells) for cells in questions]
        known = {key: kept for key in keys if (kept := self._evidence.find(key)) is not None}
        asked = {key: each for key, each in zip(keys, questions, strict=True) if key not in known}
        seen = [self.observe(cells) for cells in asked.values()]
        tables = self.tallied([each.tally for each in seen])
        for (key, cells), each, table in zip(asked.items(), seen, tables, strict=True):
            known[key] = evidence_of(each, table, cells)
            if is_nested(known[key]) and math.prod(part.size for part in cells) <= UNDONE_CELLS:
                self._evidence.keep(key, known[key])
        pairs = zip(keys, questions, strict=True)
        return [Estimate(cells, self.rows, known[key], self.copies) for key, cells in pairs]

    @cached_property
    def _evidence(self) -> Recent[Evidence]:
        """What answered earlier questions about few cells, with all that was worked out from it."""
        return Recent(UNDONE)

    def tallied(self, tallies: Sequence[Tally]) -> list[NDArray[Any]]:
        """The tallies, small ones from memory where they were counted before: many questions may
        have one.
        """
        keys = [tally.key for tally in tallies]
        found = {key: kept for key in keys if (kept := self._counted.find(key)) is not None}
        missing = {tally.key: tally for tally in tallies if tally.key not in found}
        for key, table in counts_of(missing, self.counter).items():
            found[key] = self._counted.keep(key, table) if table.size <= REMEMBERED // 16 else table
        return [found[key] for key in keys]

    @cached_property
    def _counted(self) -> Recent[NDArray[Any]]:
        return Recent(REMEMBERED, np.size)

    def sums(self, name: str) -> bool:
        attribute = self.domain.axis_named(name).attribute
        if not isinstance(attribute, Numeric):
            return False
        try:
            return self.observe((attribute.cells_by_cuts(()),)).channel.sums_back is not None
        except Unanswerable:
            return False

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        check_places("axis", [axis], len(cells))
        seen = self.observe(cells)
        if seen.channel.sums_back is not None:
            (counts,), sums = self.tallied([seen.tally]), undoing(seen.channel.sums_back)
            return sums.of(counts, seen.channel, cells, axis, self.copies)
        channel, fine = self._own_channel(cells), self._fine_channel(cells[axis].name)
        return moments_of(self.counter, tuple(cells), axis, channel, fine, self.rows, self.copies)

    @abstractmethod
    def _fine_channel(self, name: str) -> Channel:
        """The channel over every value of one column that is reported as itself."""

    def _own_channel(self, cells: Sequence[Cells]) -> Channel:
        """The channel of these cells where the rows are counted by the very same cells."""
        seen = self.observe(cells)
        if not isinstance(seen.tally, CellTally) or seen.tally.cells != tuple(cells):
            names = ", ".join(f"'{part.name}'" for part in cells)
            raise Unanswerable(
                f"these reports hold no numbers of {names}, so there is no sum or average of them",
                hint="ask for counts of cells, or fit a model",
            )
        return seen.channel

    def _tabulated(self, exact: bool, longest: int | None = None) -> TabulatedSupports:
        """Supports from one table for each set of columns, or from one table of all."""
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        source: Source = self
        if small and longest is None:
            try:
                source = self.condensed(columns)
                _ = source.marginal(columns[:1]).value
            except Unanswerable:
                source = self
        return TabulatedSupports(columns, self.rows, source.marginal, exact, longest)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What stood here until 0.2.0."""
        if name not in ("Exact", "Release", "open", "perturb", "source_of"):
            raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
        now = "sfumato.release"
        warn(f"{__name__}.{name} is now {now}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(now), name)
