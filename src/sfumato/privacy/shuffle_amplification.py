"""Shuffling: how much better hidden a report is for those who see all reports without their order.

Whoever reads an export or a dashboard, and not the operator who saw the reports come, must find one
among many. The part of a report that no record enters, its privacy blanket (Balle, Bell, Gascón and
Nissim 2019), hides it: of each of n people's reports a share B is drawn from the mean of all that
records can give, and such a draw speaks for one of two records with chance s, for the other with
chance s. So δ(ε) ≤ E[(Σ L)₊]/(Bn), a sum over Bin(n, B) draws of B(γ − e^ε), B(1 − γe^ε) and
B(1 − e^ε), which are summed here with every rounding upwards.

For k-ary response to questions dealt with shares π_q, each of g_q answers, s·B is the sum of
π_q/(γ + g_q − 1) and B that of π_q·g_q/(γ + g_q − 1). Any other mechanism hides at least as well as
binary response does (Feldman, McMillan and Talwar 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee

DELTA = 1e-6
BUCKETS = (256, 64)  # of numbers of draws; each counts as its smallest, so the bound only grows
REACH = 9.0  # standard deviations of a number of draws; what lies beyond counts in full
ACCURACY = 1e-4  # of the epsilon that is searched for, which is rounded up
FAR = 700.0  # an epsilon whose gamma no float holds, and which nothing hides
ROUNDING = 1e-12  # relative, of chances of a binomial law

BINARY = ((1.0, 2),)  # one question of two answers: the least that any mechanism hides


def shuffled_epsilon(
    guarantee: Guarantee,
    reports: int,
    delta: float = DELTA,
    questions: Sequence[tuple[float, int]] = BINARY,
) -> float:
    """An epsilon that holds, but for a chance of delta, against those who see all reports in random
    order; never above the guarantee's own, and rounded up. `questions` of a mechanism that gives
    k-ary answers are their shares and numbers of answers.

    >>> round(shuffled_epsilon(Guarantee(19), 10_000), 2)
    0.22
    >>> round(shuffled_epsilon(Guarantee(19), 10_000, questions=[(1.0, 20)]), 2)
    0.16
    """
    if reports < 1:
        raise ParameterError(f"{reports} reports hide nobody; there must be at least one")
    if not 0 < delta < 1:
        raise ParameterError(f"delta={delta} must lie strictly between 0 and 1")
    local = guarantee.epsilon
    if reports == 1 or local > FAR:
        return local
    return _searched(local, _rounded_down(reports), delta, tuple(questions))


def _rounded_down(reports: int) -> int:
    """The number with three digits, then zeros: fewer reports hide less, and few numbers are asked
    about more than once.
    """
    unit = 10 ** max(0, len(str(reports)) - 3)
    return reports // unit * unit


@lru_cache(maxsize=256)
def _searched(
    local: float, reports: int, delta: float, questions: tuple[tuple[float, int], ...]
) -> float:
    blanket = Blanket.of(math.exp(local), reports, questions)
    low, high = 0.0, local
    while high - low > ACCURACY * max(high, ACCURACY):
        middle = (low + high) / 2
        low, high = (low, middle) if blanket.delta(middle) <= delta else (middle, high)
    return min(local, math.ceil(high * 1e4) / 1e4)


@dataclass(frozen=True, eq=False)
class Blanket:
    """How many draws speak for the other record, and how many for neither, with their chances; of
    those left a draw speaks for the one record with chance `own`.
    """

    gamma: float
    reports: int
    against: NDArray[np.int64]  # (n, 1)
    neither: NDArray[np.int64]  # (n, m)
    chances: NDArray[np.float64]  # (n, m)
    beyond: float  # the chance of what is not listed
    own: float

    @classmethod
    def of(cls, gamma: float, reports: int, questions: Sequence[tuple[float, int]]) -> Blanket:
        """That of k-ary answers to questions with these shares and numbers of answers."""
        each = sum(share / (gamma + answers - 1) for share, answers in questions)
        every = sum(share * answers / (gamma + answers - 1) for share, answers in questions)
        rest = max(every - 2 * each, 0.0)
        against, first, missed = _buckets(np.array([reports]), each, BUCKETS[0])
        left = reports - against.ravel()
        neither, second, more = _buckets(left, rest / (1 - each), BUCKETS[1])
        chances = first.reshape(-1, 1) * second
        own = min(each / (1 - each - rest), 1.0)
        return cls(gamma, reports, against.reshape(-1, 1), neither, chances, missed + more, own)

    def delta(self, epsilon: float) -> float:
        """The chance that must be conceded for epsilon."""
        bound = math.exp(epsilon)
        if self.gamma <= bound:
            return 0.0
        most = self.reports - self.against - self.neither
        cost = self.against * (self.gamma * bound - 1) + self.neither * (bound - 1)
        beyond = _excess(cost / (self.gamma - bound), most, self.own)
        found = float((self.chances * beyond).sum()) * (self.gamma - bound) / self.reports
        return found + self.beyond * self.gamma


def _buckets(
    numbers: NDArray[np.int64], chance: float, most: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:  # (n, most) each
    """The smallest number of each bucket of Bin(n, chance), its chance, and that of the rest."""
    from scipy.stats import binom

    mean, spread = numbers * chance, np.sqrt(numbers * chance * (1 - chance))
    least = np.maximum(np.floor(mean - REACH * spread) - 1, 0)
    end = np.minimum(np.ceil(mean + REACH * spread) + 1, numbers) + 1
    edges = np.floor(np.linspace(least, end, most + 1, axis=-1)).astype(np.int64)
    number = numbers[:, None]
    below = binom.cdf(edges - 1, number, chance)
    rest = below[:, 0] + binom.sf(edges[:, -1] - 1, numbers, chance)
    return edges[:, :-1], np.diff(below, axis=-1), float(rest.max())


def _excess(
    least: NDArray[np.float64], number: NDArray[np.int64], chance: float
) -> NDArray[np.float64]:
    """E[(X − least)₊] of X ~ Bin(number, chance), rounded up: in closed form, as X·P(X) is a
    multiple of the chance that a draw fewer gives one fewer.
    """
    from scipy.stats import binom

    mean = number * chance
    first = np.floor(least)
    above = mean * binom.sf(first - 1, np.maximum(number - 1, 0), chance)
    below = least * binom.sf(first, number, chance)
    return np.maximum(above - below + ROUNDING * mean, 0.0)
