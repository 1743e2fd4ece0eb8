"""Splits of a node: how much each would tell, how much of that is chance, and what the branches
look like.

For a node with class counts N (n in all) and branches g with counts n_g, the deviation from
independence is D_g = C(n_g - s_g·N) with s_g = |n_g|/n and C = I - p·1ᵀ, p = N/n. The Gini gain is
(1/n)·Σ_g |D_g|²/|n_g| exactly, and for two classes the gain of entropy is proportional to it to
second order. D is linear in the counts, so from their covariance (noise of the perturbation and of
sampling) follow mean and variance of Q = Σ_g |D_g|²/|n_g| where classes do not differ; a scaled χ²
with that mean and variance (Satterthwaite 1946) gives the probability that chance alone reaches the
gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.errors import ParameterError, near_miss
from sfumato.estimation.likelihood import project_simplex
from sfumato.mine.tree_questions import NodeCounts

Floats = NDArray[Any]
CRITERIA = ("gini", "entropy", "gain-ratio")
SURE = 2.0  # standard errors by which a branch must be away from empty
# a split is chosen because its branches differ, noise included, so the variance of their shares
# counts double
CHOSEN = 2.0


@dataclass(frozen=True, eq=False)
class Split:
    """One way to split a node: the branch of each cell of a feature, and what it is worth."""

    feature: int
    branch: NDArray[np.intp]  # (cells of the feature,), -1 where a cell does not belong to the node
    counts: Floats  # (branches, classes)
    covariance: Floats  # (branches, classes, branches, classes)
    gain: float  # in impurity a row, as estimated
    score: float  # the gain less what chance adds, by which splits are compared
    # the probability that chance alone gains as much, all splits tried at the node considered
    chance: float
    shrunk: bool = False  # whether a model gave the counts

    def noise(self, place: int, rows: int) -> Floats:  # (classes, classes)
        """The covariance of the counts of one branch with the true rows held fixed: without what
        sampling adds, but for a model's, which is one of shares.
        """
        covariance, counts = self.covariance[place, :, place, :], self.counts[place]
        sampled = 0.0 if self.shrunk else np.diag(counts) - np.outer(counts, counts) / rows
        return covariance - sampled


@dataclass(frozen=True)
class Rule:
    """When a split may be taken and which is the best."""

    criterion: str = "gini"
    min_rows: float = 20
    significance: float | None = 0.05

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise ParameterError(
                f"criterion={shown(self.criterion)} is not known ({', '.join(CRITERIA)})",
                hint=near_miss(self.criterion, CRITERIA),
            )
        if self.min_rows < 1:
            raise ParameterError(f"min_rows={self.min_rows}; a branch holds at least 1 row")
        if self.significance is not None and not 0 < self.significance <= 1:
            raise ParameterError(
                f"significance={self.significance} is not a probability above 0; None takes every "
                "gain"
            )

    def best(self, tables: list[tuple[NodeCounts, bool]]) -> Split | None:
        """The best split that chance does not explain, from the counts of a node by each feature
        (is it ordered?).
        """
        tried = sum(len(table.cells) - 1 if ordered else 1 for table, ordered in tables)
        if any(table.shrunk for table, _ in tables):
            tried = 1  # shrinkage has paid for the choice among many
        splits = []
        for table, ordered in tables:
            members = self._cut(table, tried) if ordered else self._values(table)
            split = None if members is None else self._judged(table, members, tried)
            if split is not None and split.score > 0 and self._passes(split.chance):
                splits.append(split)
        if self.criterion == "gain-ratio" and splits:
            least = (
                np.mean([split.gain for split in splits]) - 1e-12
            )  # Quinlan's guard against uneven splits
            splits = [split for split in splits if split.gain >= least]
        return max(splits, key=lambda split: split.score, default=None)

    def _passes(self, chance: Any) -> Any:
        return chance <= (np.inf if self.significance is None else self.significance)

    def _cut(self, table: NodeCounts, tried: int) -> Floats | None:  # (branches, cells)
        """The best cut of an ordered feature in two."""
        below = np.tri(len(table.cells) - 1, len(table.cells))
        sides = np.stack([below, 1 - below], axis=1)  # (cuts, sides, cells)
        counts = sides @ table.value
        enough = self._enough(counts.sum(axis=2), sides, table).all(axis=1)
        if not enough.any():
            return None
        quantity, mean, variance = cut_deviations(below[enough], table)
        _, score = self._worth(counts[enough], quantity, mean)
        score = np.where(self._passes(tried * chance_of(quantity, mean, variance)), score, -1.0)
        return np.asarray(sides[enough][int(score.argmax())])

    def _values(self, table: NodeCounts) -> Floats:  # (branches, cells)
        """One branch a value; values too rare for a branch of their own share one."""
        alone = np.eye(len(table.cells))
        rare = ~self._enough(table.value.sum(axis=1), alone, table)
        return np.vstack([alone[~rare], rare[None, :].astype(float)]) if rare.any() else alone

    def _enough(self, rows: Floats, members: Floats, table: NodeCounts) -> NDArray[np.bool_]:
        """Whether each branch has enough rows, and surely any."""
        variance = (members @ table.covariance.sum(axis=(1, 3)) * members).sum(axis=-1)
        return rows >= np.maximum(self.min_rows, SURE * np.sqrt(np.maximum(variance, 0)))

    def _judged(
        self, table: NodeCounts, members: Floats, tried: int
    ) -> Split | None:  # members: (branches, cells)
        counts = members @ table.value
        enough = self._enough(counts.sum(axis=1), members, table)
        if enough.sum() < 2:
            return None
        covariance = np.tensordot(
            members, np.tensordot(members, table.covariance, (1, 0)), (1, 2)
        ).transpose(1, 2, 0, 3)
        quantity, mean, variance = deviation(counts, covariance, enough)
        gain, score = self._worth(counts[enough], quantity, mean)
        chance = min(1.0, tried * float(chance_of(quantity, mean, variance)))
        branch = np.full(int(table.cells.max()) + 1, -1)
        branch[table.cells] = members.argmax(axis=0)
        return Split(
            table.feature,
            branch,
            counts,
            covariance,
            float(gain),
            float(score),
            chance,
            table.shrunk,
        )

    def _worth(
        self, counts: Floats, quantity: Any, mean: Any
    ) -> tuple[Any, Any]:  # counts: (…, branches, classes)
        """The gain in impurity a row, and the score: the part of it that chance does
        not explain.
        """
        counts = np.maximum(counts, 0)
        impurity = gini if self.criterion == "gini" else entropy
        rows = counts.sum(axis=-1)
        within = (rows * impurity(counts)).sum(axis=-1) / rows.sum(axis=-1)
        gain = impurity(counts.sum(axis=-2)) - within
        real = np.maximum(0.0, 1 - mean / np.maximum(quantity, 1e-300))
        return gain, gain * real / (entropy(rows) if self.criterion == "gain-ratio" else 1.0)


def deviation(
    counts: Floats, covariance: Floats, enough: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Q = Σ_g |D_g|²/|n_g| over the branches with enough rows, and its mean and variance were there
    nothing to tell.
    """
    total = np.maximum(counts.sum(axis=0), 0)
    rows = counts.sum(axis=1)
    centre = np.eye(len(total)) - np.outer(total / total.sum(), np.ones(len(total)))
    apart = np.eye(len(rows)) - np.outer(rows / rows.sum(), np.ones(len(rows)))
    apart = apart[enough] / np.sqrt(rows[enough])[:, None]
    scaled = apart @ counts @ centre.T
    both = np.kron(apart, centre)  # what takes the counts to the scaled deviations
    noise = both @ covariance.reshape(counts.size, counts.size) @ both.T
    return float((scaled**2).sum()), float(np.trace(noise)), float(2 * (noise**2).sum())


def cut_deviations(
    below: Floats, table: NodeCounts
) -> tuple[Floats, Floats, Floats]:  # (cuts, cells) -> (cuts,) each
    """The same for many cuts in two, for which D_above = -D_below."""
    total = np.maximum(table.value.sum(axis=0), 0)
    rows = below @ table.value.sum(axis=1)
    share = rows / table.value.sum()
    apart = below - share[:, None]
    centre = np.eye(len(total)) - np.outer(total / total.sum(), np.ones(len(total)))
    scale = 1 / rows + 1 / (table.value.sum() - rows)
    half = np.tensordot(apart, table.covariance, axes=(1, 0))  # (cuts, classes, cells, classes)
    noise = centre @ np.einsum("tkbl,tb->tkl", half, apart) @ centre.T
    quantity = ((apart @ table.value @ centre.T) ** 2).sum(axis=1)
    return (
        quantity * scale,
        np.trace(noise, axis1=1, axis2=2) * scale,
        2 * (noise**2).sum(axis=(1, 2)) * scale**2,
    )


def chance_of(quantity: Any, mean: Any, variance: Any) -> Any:
    """The probability that a scaled χ² with this mean and variance reaches the quantity."""
    from scipy.special import gammaincc

    known = (np.asarray(mean) > 0) & (np.asarray(variance) > 0)
    variance = np.where(known, variance, 1.0)
    return np.where(
        known,
        gammaincc(np.where(known, mean, 1.0) ** 2 / variance, quantity * mean / variance),
        quantity <= 0,
    )


def shrunken(split: Split, node: Floats) -> Floats:  # (classes,) -> (branches, classes)
    """The class shares of each branch, drawn towards the node's as far as their errors ask for it
    (James and Stein 1961).

    weight = signal/(signal + noise_g): noise_g is (twice) the variance of the shares of branch g,
    signal the variance between branches beyond that noise. A branch without enough rows has the
    shares of its node. What a model says is shrunken as it is.
    """
    rows = split.counts.sum(axis=1)
    if split.shrunk:
        return np.array(
            [
                project_simplex(counts / number, 1.0) if number > 0 else node
                for counts, number in zip(split.counts, rows, strict=True)
            ]
        )
    sure = rows > SURE * np.sqrt(np.maximum(np.einsum("gkgl->g", split.covariance), 0))
    result = np.repeat(node[None, :], len(rows), axis=0)
    if not sure.any():
        return result
    shares = split.counts[sure] / rows[sure][:, None]
    noise = np.zeros(len(shares))  # summed over classes, by the delta method
    for each, place in enumerate(np.flatnonzero(sure)):
        slope = (np.eye(len(node)) - np.outer(shares[each], np.ones(len(node)))) / rows[place]
        variance = np.trace(slope @ split.covariance[place, :, place, :] @ slope.T)
        noise[each] = CHOSEN * max(0.0, float(variance))
    centre = rows[sure] @ shares / rows[sure].sum()
    signal = max(
        0.0, float(rows[sure] @ (((shares - centre) ** 2).sum(axis=1) - noise) / rows[sure].sum())
    )
    weight = (signal / (signal + noise) if signal > 0 else np.zeros(len(noise)))[:, None]
    result[sure] = [project_simplex(share, 1.0) for share in weight * shares + (1 - weight) * node]
    return result


def gini(counts: Floats) -> Any:
    """1 - Σp² over the last axis."""
    return 1 - (_shares(counts) ** 2).sum(axis=-1)


def entropy(counts: Floats) -> Any:
    """-Σ p·log₂p over the last axis."""
    shares = _shares(counts)
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return counts / np.where(total > 0, total, 1)
