"""The verdict on a release: what the best of its intruders gains over no release at all, for whom
most, and whether that is within the owner's aim.

The gain is the attribute advantage of Yeom, Giacomelli, Fredrikson and Jha (2018), the difference
of two rates of right guesses, in percentage points.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.errors import ParameterError
from sfumato.printable import percent
from sfumato.privacy.probability import check_number
from sfumato.publish.limits import MAX_GAIN
from sfumato.result import Result


@dataclass(frozen=True)
class Guesses:
    """How often the best guess about some people is right, without any release and from the one
    that is judged; from the untouched file it always is.
    """

    whom: str  # what is guessed of whom
    without: float
    released: float

    @property
    def gain(self) -> float:
        """In percentage points."""
        return 100 * (self.released - self.without)


@dataclass(frozen=True)
class Verdict:
    """One sentence, whether the aim is met, and the gain in percentage points."""

    text: str
    met: bool
    gain: float

    @property
    def lead(self) -> tuple[str, bool]:
        """What a view begins with."""
        return self.text, self.met

    @classmethod
    def of(cls, guesses: Sequence[Guesses], max_gain: float = MAX_GAIN) -> Verdict:
        """The guess that gains most, missing the aim where it gains more, or as much as the
        untouched file lets anyone gain.

        >>> Verdict.of([Guesses("income of 40 records", 0.76, 0.8)]).text
        'An intruder gains 4.0 points over no release, most about income of 40 records (80.0 %
        right, 76.0 % without): the aim of at most 10 is met'
        """
        worst = max(guesses, key=lambda each: each.gain, default=None)
        if worst is None or worst.gain <= 0:
            return cls("An intruder gains nothing over no release: the aim is met", True, 0.0)
        untouched = 100 * max(1 - each.without for each in guesses)
        laid_bare = worst.gain >= untouched - 1e-9  # but for rounding
        met = worst.gain <= max_gain + 1e-9 and not laid_bare
        return cls(
            f"An intruder gains {worst.gain:.1f} points over no release"
            f"{', as much as from the untouched file' if laid_bare else ''}, most about "
            f"{worst.whom} ({percent(worst.released)} right, {percent(worst.without)} without): "
            f"the aim of at most {max_gain:.3g} is {'met' if met else 'missed'}",
            met,
            worst.gain,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Judged(Result):
    """What an owner hands out, or looks at, with the verdict on it and what remains after it."""

    guesses: tuple[Guesses, ...] = field(default=(), kw_only=True)
    max_gain: float = field(default=MAX_GAIN, kw_only=True)

    @property
    @abstractmethod
    def remains(self) -> Sequence[str]:
        """What can still be learned, in sentences."""

    @property
    def verdict(self) -> Verdict:
        """What an intruder gains, and whether that is within the aim."""
        return Verdict.of(self.guesses, self.max_gain)


def aim(max_gain: float | None, unstated: float = MAX_GAIN) -> float:
    """The most that an intruder may gain, in percentage points."""
    if max_gain is None:
        return unstated
    check_number("max_gain", max_gain)
    if not 0 <= max_gain <= 100:
        raise ParameterError(
            f"max_gain={max_gain:g} is no number of percentage points", hint="use 0 to 100"
        )
    return max_gain


def guesses_of(
    name: str,
    truth: Codes,
    groups: Sequence[tuple[str, NDArray[np.bool_]]],
    right: NDArray[np.float64],  # (records,) the chance that each is guessed right
) -> Iterator[Guesses]:
    """The guesses of a column for each of these groups of people; without a release the commonest
    value of all is guessed.
    """
    commonest = truth == np.bincount(truth).argmax()
    for whom, rows in groups:
        if rows.any():
            whom = f"{name} of the {int(rows.sum()):,} {whom}"
            yield Guesses(whom, float(commonest[rows].mean()), float(right[rows].mean()))
