"""UnevenAnswer: an estimate whose interval is not even about it, such as a quantile of a skewed
column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.answer import ANYTHING, Answer, Ends, ordered, reach, within

LEVELS = (0.9, 0.95, 0.99)  # for which ends are computed; those of others lie between them
DRAWS = 4000  # of a computation that is no line
REACHES = tuple(map(reach, LEVELS))


@dataclass(frozen=True)
class UnevenAnswer(Answer):
    """An answer with its own interval: the ends at a few levels.

    The standard error is the longer arm of the 95 % interval over 1.96, so that whoever takes it
    for that of any other answer covers at least as much.

    >>> UnevenAnswer.between(5.0, [(4, 7), (3, 9), (2, 12)]).interval(0.95)
    (3, 9)
    """

    ends: tuple[Ends, ...] = ()  # one pair for each of LEVELS

    @classmethod
    def between(
        cls,
        value: float,
        ends: list[Ends],
        possible: Ends = ANYTHING,
    ) -> UnevenAnswer:
        """The answer with these ends, moved into the possible range."""
        kept = tuple(within(possible, each) for each in ends)
        low, high = kept[LEVELS.index(0.95)]
        stderr = max(high - value, value - low) / REACHES[LEVELS.index(0.95)]
        return cls(value, stderr, ends=kept, possible=possible)

    def interval(self, level: float = 0.95) -> Ends:
        """The interval that covers the truth at this level: as computed, or on the line between
        the two computed ones around it.
        """
        if level in LEVELS:
            return self.ends[LEVELS.index(level)]
        far = reach(level)
        return within(self.possible, (self._end(far, 0), self._end(far, 1)))

    def _end(self, reach: float, side: int) -> float:
        known = [(0.0, self.value)]
        known += [(at, ends[side]) for at, ends in zip(REACHES, self.ends, strict=True)]
        above = next((place for place, (at, _) in enumerate(known) if at > reach), None)
        if above is None:  # beyond the widest: as far again as the widest says
            at, end = known[-1]
            return self.value + (end - self.value) * reach / at
        (first, low), (second, high) = known[above - 1], known[above]
        return low + (high - low) * (reach - first) / (second - first)

    def scaled(self, factor: float) -> Self:
        """The answer times a known number."""
        return replace(
            super().scaled(factor), ends=tuple(ordered(factor, each) for each in self.ends)
        )

    def __repr__(self) -> str:
        return super().__repr__()


def root(radicand: Answer) -> UnevenAnswer:
    """The square root of what was estimated, such as the standard deviation of a variance: never
    refused, since its interval is the root of the radicand's, which is known not to lie below 0.

    >>> root(Answer(-4.0, 10.0)).value, root(Answer(9.0, 0.0)).value
    (0.0, 3.0)
    """
    value = max(radicand.value, 0.0)
    arms = [reach * radicand.stderr for reach in REACHES]
    roots = [(math.sqrt(max(radicand.value - arm, 0.0)), math.sqrt(value + arm)) for arm in arms]
    return UnevenAnswer.between(math.sqrt(value), roots, (0.0, math.inf))


def from_draws(value: float, draws: NDArray[Any], possible: Ends = ANYTHING) -> UnevenAnswer:
    """The answer whose interval is where this share of the draws lies; draws without a value may be
    anything, so that they count at both ends.
    """
    least, most = possible
    known = np.sort(draws[np.isfinite(draws)])
    lost = len(draws) - len(known)
    row = np.concatenate([np.full(lost // 2, -np.inf), known, np.full(lost - lost // 2, np.inf)])
    found = []
    for level in LEVELS:
        reach = (1 - level) / 2 * (len(row) - 1)
        found.append((float(row[math.floor(reach)]), float(row[math.ceil(len(row) - 1 - reach)])))
    if not math.isfinite(value):
        value = float(np.median(known)) if len(known) else math.nan
    return UnevenAnswer.between(min(max(value, least), most), found, possible)


def normal_draws(mean: NDArray[Any], covariance: NDArray[Any]) -> NDArray[Any]:  # (DRAWS, n)
    """Values spread evenly over a normal law: a lattice, the same in every run (Roberts' sequence,
    taken through the inverse of the normal distribution).
    """
    from scipy.special import ndtri

    number = len(mean)
    golden = 1.5
    for _ in range(64):  # the root of x^(n+1) = x + 1
        golden = (1 + golden) ** (1 / (number + 1))
    steps = (1 / golden) ** np.arange(1, number + 1)
    points = ndtri((0.5 + np.outer(np.arange(1, DRAWS + 1), steps)) % 1)
    values, vectors = np.linalg.eigh(covariance)
    return mean + points @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
