"""Whole records, each a value of its own: what mechanisms about a single marginal share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Channel
from sfumato.domain import Cells, Columns, Domain, Items
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, Within, every_cell, safe_log
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.limits import FINENESS, LARGEST, MOST_CELLS
from sfumato.mechanisms.weights import simple_below
from sfumato.observation import CellTally, Observation, Tally, item_tally
from sfumato.privacy.guarantee import Guarantee

MOST_GAMMA = LARGEST // (2 * MOST_CELLS)  # weights of so many records are summed exactly


def joint_gamma(guarantee: Guarantee) -> Fraction:
    """The largest simple gamma, not above the one asked for, that exact weights realise."""
    stated = Fraction(guarantee.gamma) if guarantee.gamma < math.inf else Fraction(0)
    bounded = min(stated, Fraction(MOST_GAMMA))
    return simple_below(bounded, max(1, min(FINENESS, MOST_GAMMA // max(1, math.ceil(bounded)))))


def check_joint(name: str, domain: Domain) -> None:
    """Refuse baskets, and more different records than can each be a value."""
    check_cells(name, domain)
    cells = domain.private.cells
    if not 1 < cells <= MOST_CELLS:
        raise ParameterError(
            f"{name} reports one value of all private columns together; found {cells:,} different "
            f"records, where 2 to {MOST_CELLS:,} can be told apart",
            hint="use the questionnaire, or fewer columns and coarser cells",
        )


@checked
class JointMechanism(Mechanism):
    """A mechanism that reports on whole private records, each a value of its own: its reports stand
    in one column, and its one channel is from records to what is counted of them.
    """

    @property
    @abstractmethod
    def joint_channel(self) -> Channel:
        """From whole records to the tally."""

    @property
    def _tally(self) -> Tally:
        """What is counted: symbols, or in how many sets each record is."""
        column = self.private_reports.attributes[0]
        return item_tally(column) if isinstance(column, Items) else CellTally((column.cells(),))

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        private = self.domain.private
        every = tuple(private.cells_of(axis.name) for axis in private.axes)
        return Observation(every, self._tally, self.joint_channel)

    @abstractmethod
    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """P(report | group), up to a factor of each report, where `shares` (groups, records) are
        the distributions of whole records.
        """

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """Columns are independent in each group, and all else is evenly spread."""
        private, groups = self.domain.private, every_cell(cells) if within is None else within
        codes = np.unravel_index(np.arange(private.cells), private.shape)
        shares = np.full((len(groups[0]), private.cells), 1 / private.cells)
        for part, column in zip(cells, groups, strict=True):
            own = part.assign(codes[private.index(part.attribute.name)]).astype(np.intp)
            shares *= (column / part.counts() * part.attribute.size)[:, own]
        return safe_log(self._likelihoods(reports, shares))


def record_items(name: str, private: Domain) -> Domain:
    """Reports of sets of records: an item for each, named by the columns too, so that such reports
    of other columns can stand beside them.
    """
    columns = " and ".join(private.names)
    labels = tuple(f"record {number} of {columns}" for number in range(private.cells))
    return Domain((Items(name, labels),))
