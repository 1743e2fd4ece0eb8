"""Evidence about one item from symbols for whole baskets, decoded from all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.decoded import Decoded
from sfumato.estimation.evidence import Evidence


@dataclass(frozen=True, eq=False)
class DecodedEvidence(Evidence):
    """How many hold an item and how many do not, group by group: together everyone."""

    counts: NDArray[Any]  # outputs of the channel
    channel: Decoded

    @property
    def assumes(self) -> str | None:
        return self.channel.assumes

    @cached_property
    def _groups(self) -> list[tuple[float, float, float]]:
        """Everyone, those who hold it, and the variance, of each group."""
        tables = np.asarray(self.counts).reshape(-1, *self.channel.shape)
        return [(float(table.sum()), *self.channel.decode(table)) for table in tables]

    @cached_property
    def total(self) -> NDArray[Any]:
        found = [(everyone - held, held) for everyone, held, _ in self._groups]
        return np.array(found).reshape(self.channel.inputs)

    @cached_property
    def squares(self) -> NDArray[Any]:
        found = [(variance, variance) for _, _, variance in self._groups]
        return np.array(found).reshape(self.channel.inputs)

    def covariances(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        number = first.shape[-1]
        left, right = (np.diff(w.reshape(-1, 2, number), axis=1)[:, 0] for w in (first, second))
        return np.array([group[2] for group in self._groups]) @ (left * right)
