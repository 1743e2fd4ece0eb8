"""A matrix of random replacement that leaves every expected count as it is (invariant PRAM).

Post-randomisation (Gouweleeuw, Kooiman, Willenborg and de Wolf 1998) shows y in place of x with
probability R[y, x]. Counts n become R·n in expectation; R is invariant if R·n = n for the table's
own counts, so that the file can be analysed as it is. For a promised γ no row may hold entries with
a ratio above γ; of all invariant matrices with that promise the one that leaves most records alone
solves the linear programme

    maximise Σ_x n_x R[x, x]   subject to   Σ_y R[y, x] = 1,  R·n = n,  l_y ≤ R[y, x] ≤ γ·l_y.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError, ParameterError
from sfumato.mechanisms.weights import integer_weights
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.publish.limits import MOST_BEST_VALUES
from sfumato.randomness import Keystream


@dataclass(frozen=True, eq=False)
class InvariantMatrix:
    """Probabilities R[y, x] to show y for x, as multiples of 2^-32, and the counts they are made
    for.

    >>> matrix = InvariantMatrix.promising(np.array([600, 300, 100]), 19)
    >>> np.allclose(matrix.chances @ [600, 300, 100], [600, 300, 100]), matrix.guarantee.gamma <= 19
    (True, True)
    """

    weights: NDArray[np.uint64]  # (shown, true), each column of sum 2^32
    counts: NDArray[np.int64]

    @classmethod
    def promising(cls, counts: NDArray[np.int64], gamma: Gamma) -> InvariantMatrix:
        """The invariant matrix with this γ or less that leaves most records alone; of more than
        `MOST_BEST_VALUES` values the one that keeps each with the same probability.
        """
        if not gamma > 1:
            raise ParameterError(f"gamma={float(gamma):g} leaves no information; use gamma > 1")
        shares = counts / counts.sum()
        if len(counts) == 1:
            return cls(np.array([[ONE]], dtype=np.uint64), counts)
        # Entries are rounded to multiples of 2^-32: asked for a little less, the promise holds.
        for margin in (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
            allowed = 1 + (float(gamma) - 1) * (1 - margin)
            found = cls(integer_weights(_most_kept(shares, allowed)), counts)
            if found.guarantee.gamma <= gamma:
                return found
        raise EstimationError(
            f"gamma={float(gamma):g} cannot be kept for a value that "
            f"{int(counts.min())} of {int(counts.sum()):,} records have",
            hint="merge rare values",
        )

    @classmethod
    def keeping(cls, counts: NDArray[np.int64], keep: float) -> InvariantMatrix:
        """Each record kept with this probability, else replaced by a draw from the table's own
        counts.
        """
        if not 0 < keep < 1:
            raise ParameterError(f"keep={keep:g} lies outside (0, 1)", hint="use for instance 0.8")
        return cls(integer_weights(_own_distribution(counts / counts.sum(), keep)), counts)

    @property
    def chances(self) -> NDArray[np.float64]:  # (shown, true)
        """The probabilities."""
        return self.weights / float(ONE)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The largest ratio within a row, exact."""
        least, most = self.weights.min(axis=1).tolist(), self.weights.max(axis=1).tolist()
        if min(least) == 0:
            return Guarantee(float("inf"))
        return Guarantee(max(Fraction(m, n) for m, n in zip(most, least, strict=True)))

    @property
    def kept(self) -> float:
        """The expected share of the records that show their true value."""
        return float(np.diag(self.chances) @ self.counts / self.counts.sum())

    @property
    def moved(self) -> float:
        """By how many records an expected count differs from the count at most: the rounding."""
        return float(np.abs(self.chances @ self.counts - self.counts).max())

    def variance(self) -> NDArray[np.float64]:  # (values,)
        """Of each shown count: Σ_x n_x R[y, x] (1 − R[y, x])."""
        chances = self.chances
        found: NDArray[np.float64] = (chances * (1 - chances)) @ self.counts
        return found

    def joint(self) -> NDArray[np.float64]:  # (shown, true)
        """How many records are expected to show each value and truly have each."""
        return self.chances * self.counts

    def draw(self, codes: NDArray[np.integer], rng: Keystream) -> NDArray[np.int32]:
        """A shown code for every true one: one 32-bit integer decides each."""
        starts = np.arange(len(self.counts), dtype=np.uint64) * np.uint64(ONE)
        ends = (np.cumsum(self.weights, axis=0, dtype=np.uint64) + starts).T.reshape(-1)
        true = codes.astype(np.uint64)
        places = true * np.uint64(ONE) + rng.uint32(len(codes))
        drawn = np.searchsorted(ends, places, side="right") - codes.astype(np.int64) * len(
            self.counts
        )
        return drawn.astype(np.int32)


def _own_distribution(
    shares: NDArray[np.float64], keep: float
) -> NDArray[np.float64]:  # (shown, true)
    """keep·I + (1 − keep)·π·1ᵀ, invariant whatever the counts."""
    return keep * np.eye(len(shares)) + (1 - keep) * shares[:, None]


def _most_kept(shares: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:  # (shown, true)
    """The linear programme; for very many values the own distribution with the same promise."""
    values = len(shares)
    if values > MOST_BEST_VALUES:
        odds = (gamma - 1) * float(shares.min())  # γ = 1 + keep / ((1 − keep)·least share)
        return _own_distribution(shares, odds / (1 + odds))
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    one = np.ones((1, values))
    eye = eye_array(values)
    # Columns: R[y, x], x changing fastest, then l_y.
    spread = kron(eye, one.T)
    equal = hstack(
        [vstack([kron(one, eye), kron(eye, shares[None, :])]), csr_array((2 * values, values))]
    )
    least = hstack([-eye_array(values**2), spread])
    most = hstack([eye_array(values**2), -gamma * spread])
    result = linprog(
        -np.append(np.diag(shares).ravel(), np.zeros(values)),
        A_ub=vstack([least, most]).tocsr(),
        b_ub=np.zeros(2 * values**2),
        A_eq=equal.tocsr(),
        b_eq=np.append(np.ones(values), shares),
        bounds=(0, 1),
        method="highs-ipm",
    )
    if result.x is None:
        raise EstimationError(f"no invariant matrix was found: {result.message}")
    return np.maximum(result.x[: values**2].reshape(values, values), 0.0)
