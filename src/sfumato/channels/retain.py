"""Retain: keep the cell or draw it (gamma-diagonal, k-ary response, retention, a flipped bit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel, Counts, Distribution, Replacement, to_tally, to_truths
from sfumato.domain import Cells
from sfumato.errors import ParameterError

FEW = 5.0  # reports, fewer of which are expected of a cell by drawing alone


@dataclass(frozen=True, eq=False)
class Retain(Channel):
    """A = keep·I + (1-keep)·b·1ᵀ, with b the product of one distribution per axis.

    `keep` does not change when cells are merged or axes summed out; b is summed. So every marginal,
    range predicate and group-by is again a Retain, solved in one pass: A⁻¹y = (y - (1-keep)·N·b) /
    keep. A bit kept with p when 1 and with q when 0 is Retain with keep = p + q - 1 (which may be
    negative) and b = (1-p, 1-q) / (2-p-q).

    >>> Retain.uniform(0.5, (2,)).to_dense()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    keep: float
    drawn: tuple[Distribution, ...]  # b, axis by axis

    def __post_init__(self) -> None:
        if self.keep == 0:
            raise ParameterError(
                "keep=0 replaces every record, so nothing can be reconstructed; use 0 < keep <= 1"
            )
        if self.keep > 1:
            raise ParameterError(f"keep={self.keep} is not a probability; use 0 < keep <= 1")
        if self.keep < 0 and not any(part.own for part in self.drawn):
            least = self.keep + (1 - self.keep) * self.replacement.min()
            if least < -1e-12:
                raise ParameterError(f"keep={self.keep} gives negative probabilities")

    @classmethod
    def uniform(cls, keep: float, shape: Sequence[int]) -> Retain:
        """Keep all axes or draw all uniformly (gamma-diagonal, FRAPP eq. 12)."""
        return cls(keep, tuple(Distribution(size) for size in shape))

    @classmethod
    def identity(cls, shape: Sequence[int]) -> Retain:
        """The channel of columns that are sent as they are."""
        return cls.uniform(1.0, shape)

    @classmethod
    def flip(cls, keep_ones: float, keep_zeros: float) -> Retain:
        """The 2×2 channel of one bit (MASK, EMASK, FP/NFP): cells absent, present."""
        keep = keep_ones + keep_zeros - 1
        if keep == 1:
            return cls.identity((2,))
        masses = np.array([1 - keep_ones, 1 - keep_zeros]) / (1 - keep)
        return cls(keep, (Distribution(2, masses),))

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.drawn)

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.inputs

    def replaced(self, axis: int) -> Replacement:
        return Replacement(self.keep, self.drawn[axis], self.keep == 1 or len(self.drawn) == 1)

    def chances(
        self, reports: Sequence[NDArray[Any]], truths: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        pairs = [report == truth for report, truth in zip(reports, truths, strict=True)]
        same = np.logical_and.reduce(pairs)
        masses = np.ones(())
        for part, report in zip(self.drawn, reports, strict=True):
            masses = masses * (1 / part.size if part.uniform else part.vector()[report])
        return self.keep * same + (1 - self.keep) * masses

    def mixed(
        self,
        reports: Sequence[NDArray[Any]],
        within: Sequence[NDArray[Any]],
        margins: Sequence[NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        """keep·∏ d_j(v_j) + (1-keep)·∏ b_j(v_j): no joint table is needed."""
        kept = np.ones((1, 1))
        masses = np.ones(())
        for place, (part, report) in enumerate(zip(self.drawn, reports, strict=True)):
            kept = kept * within[place][:, report].T
            own = part.vector() if margins is None or not part.own else margins[place]
            masses = masses * own[report]
        return self.keep * kept + (1 - self.keep) * masses[:, None]

    @cached_property
    def replacement(self) -> NDArray[np.float64]:
        """b, in the shape of the table."""
        result = np.ones(())
        for part in self.drawn:
            result = np.multiply.outer(result, part.vector())
        return result

    @property
    def _noise(self) -> NDArray[np.float64]:  # inputs + (1,)
        return (1 - self.keep) * self.replacement[..., None]

    def _total(self, table: Counts) -> Counts:
        return table.sum(axis=tuple(range(len(self.drawn))))

    @to_tally
    def apply(self, table: Counts) -> Counts:
        return self.keep * table + self._noise * self._total(table)

    @to_truths
    def solve(self, table: Counts) -> Counts:
        return (table - self._noise * self._total(table)) / self.keep

    def variance_counts(self, counts: Counts) -> tuple[Counts, None]:
        return self._weighed(counts), None

    @to_tally
    def _weighed(self, table: Counts) -> Counts:
        """Where hardly any report is drawn, none may be there by chance, which is no certainty: at
        the least those count that are drawn whatever the truth is.
        """
        drawn = np.maximum(self._noise + min(self.keep, 0.0), 0.0) * self._total(table)
        return np.where(drawn < FEW, np.maximum(table, drawn), table)

    @to_truths
    def adjoint(self, table: Counts) -> Counts:
        return self.keep * table + self._total(self._noise * table)

    @to_tally
    def solve_adjoint(self, table: Counts) -> Counts:
        return (table - self._total(self._noise * table)) / self.keep

    @to_truths
    def inverse_squared(self, table: Counts) -> Counts:
        noise = self._noise
        return (table * (1 - 2 * noise) + noise**2 * self._total(table)) / self.keep**2

    def marginal(self, axes: Sequence[int]) -> Retain:
        return replace(self, drawn=tuple(self.drawn[axis] for axis in axes))

    def coarsen(self, cells: Sequence[Cells]) -> Retain:
        pairs = zip(self.drawn, cells, strict=True)
        return replace(self, drawn=tuple(part.coarsen(own) for part, own in pairs))

    def settle(self, counts: Counts) -> Retain:
        total, drawn = float(np.sum(counts)), list(self.drawn)
        for axis, part in enumerate(self.drawn):
            if part.own:
                others = tuple(other for other in range(len(drawn)) if other != axis)
                margin = np.asarray(counts).sum(axis=others)
                drawn[axis] = Distribution(part.size, margin / total if total else None)
        return replace(self, drawn=tuple(drawn))
