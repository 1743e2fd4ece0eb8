"""Keystreams that do not draw: one that goes through every outcome, one that writes down which
integers were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.randomness import Keystream


@dataclass(eq=False)
class Exhaustive(Keystream):
    """Gives 0, 1, …, bound-1 where as many draws as that are asked for, so that relative
    frequencies are probabilities.
    """

    key: bytes = bytes(32)
    secure: bool = False

    def below(self, bound: int, count: int) -> Any:
        assert count == bound, "ask for each outcome once"
        return np.arange(
            bound, dtype=np.uint32 if bound <= 1 << 32 else np.uint64
        )  # as `below` does


@dataclass(eq=False)
class Witness(Keystream):
    """Draws as any keystream does and keeps the bounds and thresholds that were asked for."""

    key: bytes = bytes(32)
    secure: bool = False
    bounds: list[int] = field(default_factory=list)
    thresholds: list[tuple[int, int]] = field(default_factory=list)

    def below(self, bound: int, count: int) -> Any:
        self.bounds.append(bound)
        return super().below(bound, count)

    def chance(self, threshold: int, bits: int, count: int) -> Any:
        self.thresholds.append((threshold, bits))
        return super().chance(threshold, bits, count)
