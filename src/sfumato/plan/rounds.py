"""Baskets in rounds, as a plan sees them: what their supports' errors will be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.engines.rounds import WANTED
from sfumato.estimation.rounds import how_many
from sfumato.mechanisms.item_set import CAP, ItemSet
from sfumato.table.turns import SHARES

NAME = "item-set in rounds"


@dataclass(frozen=True, repr=False)
class InRounds(ItemSet):
    """Item-set asked in rounds: the first group for any item, the others for candidates.

    A rare candidate's share has the variance (d + mγ)/(n(γ−1)²) in each of the later rounds; what
    many hold has more, each of them reporting it by chance. A single item is told by the first
    round beside.
    """

    def foretold(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """The variance of the share that holds an itemset, were no basket capped and nothing
        predicted of it.
        """
        if any(part.item is None or self._is_public(part) for part in cells):
            return None
        gamma, held = float(self.gamma), float(shares.ravel()[-1])
        total = how_many(WANTED, gamma) + CAP * gamma
        own, other = gamma / total, 1 / total
        noise = held * own * (1 - own) + (1 - held) * other * (1 - other)
        told = sum(SHARES[1:]) * (own - other) ** 2 / noise
        if len(cells) == 1:
            alone = super().foretold(cells, weights, shares)
            told += SHARES[0] / alone if alone else 0.0
        return float((weights.ravel()[-1] - weights.ravel()[0]) ** 2 / told)


def commands(data: str, read: str, promise: str) -> str:
    """What to type for all rounds, in the shell's words."""
    start = f"sfumato perturb {data}{read} --round"
    return (
        f"{start} 1 {promise} -o round1.parquet && "
        f"{start} 2 --after round1.parquet -o round2.parquet && "
        f"{start} 3 --after round1.parquet --after round2.parquet -o round3.parquet"
    )


def calls(data: str, promise: str) -> tuple[str, ...]:
    """The same in Python."""
    return (
        f"one = sf.perturb({data}, round=1, {promise})",
        f"two = sf.perturb({data}, round=2, after=one)",
        f"three = sf.perturb({data}, round=3, after=[one, two])",
    )
