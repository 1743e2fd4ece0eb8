"""Counting: whoever can say how many reports fall into each cell of a question, in one scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from sfumato.domain import Cells, Domain
from sfumato.observation import Counting


class Counter(Counting, Protocol):
    """What every counting engine offers; arrays in memory are the first, SQL engines follow."""

    @property
    def domain(self) -> Domain:
        """The domain of the rows that are counted."""

    @property
    def rows(self) -> int:
        """How many reports there are."""

    def power_sums(
        self, cells: Sequence[Cells], axis: int, middle: float, half: float
    ) -> NDArray[Any]:  # (*cells, 5)
        """Σ z^p, p = 0..4, over the rows of each cell, z = (number - middle) / half, the number
        being that of cells[axis].
        """

    def spreads(self, cells: Sequence[Cells], axis: int) -> NDArray[Any]:  # (*cells, 4)
        """The rows of each cell, the sum of the number of cells[axis] over them, a centre of it,
        and the sum of the squares about that centre.
        """
