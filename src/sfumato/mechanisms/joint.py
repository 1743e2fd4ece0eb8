"""Whole records as one number: what mechanisms about a single marginal share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells, Domain, Items
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.steps.step import LARGEST
from sfumato.mechanisms.weights import simple_below
from sfumato.privacy.guarantee import Guarantee

MOST_RECORDS = 1024  # different records that are each a value of their own
FINENESS = 4096  # the denominator of a gamma that is no simple fraction
MOST_GAMMA = LARGEST // (2 * MOST_RECORDS)  # weights of so many records are summed exactly


def joint_gamma(guarantee: Guarantee) -> Fraction:
    """The largest simple gamma, not above the one asked for, that exact weights realise."""
    stated = Fraction(guarantee.gamma) if guarantee.gamma < math.inf else Fraction(0)
    bounded = min(stated, Fraction(MOST_GAMMA))
    return simple_below(bounded, max(1, min(FINENESS, MOST_GAMMA // max(1, math.ceil(bounded)))))


def check_joint(name: str, domain: Domain) -> None:
    """Refuse baskets, and more different records than can each be a value."""
    check_cells(name, domain)
    cells = domain.private.cells
    if not 1 < cells <= MOST_RECORDS:
        raise ParameterError(
            f"{name} reports one value of all private columns together; found {cells:,} different "
            f"records, where 2 to {MOST_RECORDS:,} can be told apart",
            hint="use the questionnaire, or fewer columns and coarser cells",
        )


def record_items(name: str, private: Domain) -> Domain:
    """Reports of sets of records: an item for each, named by the columns too, so that such reports
    of other columns can stand beside them.
    """
    columns = " and ".join(private.names)
    labels = tuple(f"record {number} of {columns}" for number in range(private.cells))
    return Domain((Items(name, labels),))


def joint_cells(private: Domain) -> tuple[Cells, ...]:
    """Every value of every column."""
    return tuple(private.cells_of(axis.name) for axis in private.axes)


def joint_shares(
    private: Domain, cells: Sequence[Cells], groups: Sequence[NDArray[Any]]
) -> NDArray[Any]:  # (groups, records)
    """The distribution of whole records in each group, whose columns are independent and have
    these distributions; all else is evenly spread.
    """
    codes = np.unravel_index(np.arange(private.cells), private.shape)
    share = np.full((len(groups[0]), private.cells), 1 / private.cells)
    for part, column in zip(cells, groups, strict=True):
        own = part.assign(codes[private.index(part.attribute.name)]).astype(np.intp)
        share *= (column / part.counts() * part.attribute.size)[:, own]
    return share
