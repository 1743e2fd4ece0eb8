"""Supports of itemsets by a fitted law: within [0, 1], and never above those of their subsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.base import Measured
from sfumato.estimation.supports.tabulated import TabulatedSupports


@dataclass(frozen=True, eq=False)
class ModelSupports(TabulatedSupports):
    """Supports from the law of each set of columns.

    Where laws are fitted set by set, one may put more people into an itemset than another into its
    subset; the smaller figure is kept, so supports fall with length as true ones do, and the larger
    error: a figure is no surer than where it comes from.
    """

    shrunk: ClassVar[bool] = True

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        found = super().measure(itemsets, subsets, shorter)
        least = subsets[np.arange(len(subsets)), shorter.count[subsets].argmin(axis=1)]
        count = np.minimum(found.count, shorter.count[least])
        known = np.maximum(found.stderr, shorter.stderr[least])
        stderr = np.where(count < found.count, known, found.stderr)
        return replace(found, observed=count, count=count, stderr=stderr)
