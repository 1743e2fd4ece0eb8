"""What the next round asks, chosen from the reports of the rounds before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.baskets.caps import held_of
from sfumato.estimation.baskets.classes import Floats, Itemset, LatentClasses
from sfumato.estimation.baskets.pooled import MODELLED, PooledRounds
from sfumato.mechanisms.in_rounds import Asking
from sfumato.mechanisms.item_set import SEEDS, best_buckets, how_many
from sfumato.mechanisms.sizes import TIERS

OPEN = 0.6  # the relative error of what a cap takes, as supposed when the cap is chosen
MOST_ITEMSETS, LONGEST = 6000, 12  # that are considered, and the items of the longest


def next_asking(
    rounds: PooledRounds, wanted: int, gamma: float, people: float, most: int
) -> Asking:
    """The itemsets most probably among those of largest support, and the cap and form with the
    least error.
    """
    itemsets, probable, least = _probable(rounds, wanted)
    ranked = [itemsets[place] for place in np.argsort(-probable, kind="stable")]
    return best_asking(ranked, rounds.classes, gamma, people, least, wanted, most)


def least_of(rounds: PooledRounds, wanted: int) -> float:
    """The support of the last of so many itemsets of largest support."""
    return _probable(rounds, wanted)[2]


def _probable(rounds: PooledRounds, wanted: int) -> tuple[list[Itemset], Floats, float]:
    """Itemsets of any length, how probably each is among those wanted, and the least support of
    these.
    """
    singles = rounds.singles
    ranked = np.sort(singles.mean)[::-1]
    least = float(ranked[min(wanted, len(ranked)) - 1])
    longer = sorted({*thought_of(rounds, least / 4), *rounds.asked})
    posterior = rounds.supports(longer)
    means = np.append(singles.mean, posterior.mean)
    least = max(float(np.sort(means)[::-1][min(wanted, len(means)) - 1]), 1e-9)
    above = np.append(singles.above(least), posterior.above(least))
    return [(item,) for item in range(rounds.items)] + longer, above, least


def thought_of(rounds: PooledRounds, least: float) -> list[Itemset]:
    """Itemsets of two items and more that the classes predict to reach a support, by level."""
    items = np.argsort(-rounds.singles.mean)[:MODELLED]
    items = np.sort(items[rounds.singles.mean[items] >= least])
    level, found = items[:, None], list[Itemset]()
    while len(level) and level.shape[1] < LONGEST and len(found) < MOST_ITEMSETS:
        first, second = np.nonzero(level[:, -1:] < items)
        longer = np.column_stack([level[first], items[second]])
        predicted = rounds.classes.supports(longer)
        order = np.argsort(-predicted)[: MOST_ITEMSETS // 2]
        level = longer[np.sort(order[predicted[order] >= least])]
        found += [tuple(each) for each in level.tolist()]
    return found


def best_asking(
    ranked: Sequence[Itemset],
    classes: LatentClasses,
    gamma: float,
    people: float,
    support: float,
    wanted: int,
    most: int,
) -> Asking:
    """The cap and the form with the least mean squared error of a support: the noise over the
    square of the part that the cap leaves, and the error of the part that it takes. Where each
    person is asked about one candidate, nothing is capped, and twice as many candidates are asked
    about as are wanted.
    """
    candidates = tuple(ranked[: how_many(wanted, gamma)])
    caps = np.arange(min(2, len(candidates)), min(most, len(candidates)) + 1)
    buckets = np.array([best_buckets(cap, gamma) for cap in caps.tolist()])
    noise = noise_of_forms(caps, buckets, len(candidates) + TIERS, gamma, support) / people
    held = held_of(candidates, classes)
    sizes = held.sum(axis=0)
    kept = _kept_of(sizes, caps)
    noise[1] += (held.mean(axis=1) ** 2).sum() / (buckets * SEEDS)  # of a pool of hashes
    square = noise / kept**2 + (OPEN * (1 - kept) * support) ** 2
    few = candidates[: 2 * wanted]
    dealt = (support * (1 - support) + gamma / (gamma - 1) ** 2) * len(few) / people
    typical = int(np.clip(np.median(sizes), caps[0], caps[-1]) - caps[0])
    if dealt < min(square.min(), noise[:, typical].min()):  # the second: where baskets are dense
        return Asking(few, 1, dealt=True)
    form, place = np.unravel_index(int(np.argmin(square)), square.shape)
    return Asking(candidates, int(caps[place]), int(form * buckets[place]))


def _kept_of(sizes: NDArray[np.integer], caps: NDArray[np.integer]) -> Floats:
    """What each cap leaves of all the candidates that baskets hold: of large ones, which tell their
    tier, one less than the cap. All of it where nobody holds any.
    """
    if not sizes.any():
        return np.ones(len(caps))
    kept = np.where(sizes <= caps[:, None], sizes, caps[:, None] - 1)
    return np.asarray(kept.sum(axis=1) / sizes.sum())


def noise_of_forms(
    caps: NDArray[np.integer],
    buckets: NDArray[np.integer],
    candidates: int,
    gamma: float,
    support: float,
) -> Floats:  # (2, caps)
    """What one person adds to the variance of a support, asked directly and by hash, by the chances
    that a symbol is reported where it is own and where it is not.
    """
    direct, hashed = caps * gamma + candidates, caps * gamma + buckets - caps
    other = np.stack([1 / direct, 1 / buckets])
    apart = np.stack([gamma / direct, gamma / hashed]) - other
    shown = other + apart * support
    return np.asarray(shown * (1 - shown) / apart**2)
