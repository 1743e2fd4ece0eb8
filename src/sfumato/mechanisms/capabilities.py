"""Capabilities: what some mechanisms can say beyond what each must, as classes to inherit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sfumato.domain import Cells


class PartialScope(ABC):
    """A mechanism whose single reports speak of a few private columns, not of all."""

    @property
    @abstractmethod
    def together(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns that single reports speak of."""

    @property
    def at_once(self) -> int | None:
        """The most private columns of which any can be asked about together; None where nothing
        but what was asked sets a limit.
        """
        return None

    @property
    def joins_by_model(self) -> bool:
        """Whether what it says of columns together is told by a fitted model alone."""
        return False

    def tells(self, names: Sequence[str], people: float) -> bool:
        """Whether reports of so many people should tell these private columns together by
        themselves, where otherwise a model would have to.
        """
        return len(names) == 1 or not self.joins_by_model


class PredictsErrors(ABC):
    """A mechanism whose errors a closed form says before anything is observed."""

    @abstractmethod
    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """What one person adds to the variance of Σ weights·shares over these private cells; None
        where these have no closed form.
        """

    @property
    def unforeseen(self) -> tuple[str, ...]:
        """What that leaves out, in plain words."""
        return ()
