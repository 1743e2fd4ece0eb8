"""Keystreams that do not draw: one that goes through every outcome, one that writes down which
integers were asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.randomness import Keystream


class Exhaustive(Keystream):
    """Gives 0, 1, …, bound-1 where as many draws as that are asked for, so that relative
    frequencies are probabilities.
    """

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def below(self, bound: int, count: int) -> Any:
        assert count == bound, "ask for each outcome once"
        return np.arange(
            bound, dtype=np.uint32 if bound <= 1 << 32 else np.uint64
        )  # as `below` does


class Witness(Keystream):
    """Draws as any keystream does and keeps the bounds and thresholds that were asked for."""

    def __init__(self, key: bytes = bytes(32)) -> None:
        super().__init__(key)
        self.bounds: list[int] = []
        self.thresholds: list[tuple[int, int]] = []

    def below(self, bound: int, count: int) -> Any:
        self.bounds.append(bound)
        return super().below(bound, count)

    def chance(self, threshold: int, bits: int, count: int) -> Any:
        self.thresholds.append((threshold, bits))
        return super().chance(threshold, bits, count)
