"""PooledRounds: what groups of people, asked one after the other for symbols of their baskets, say
of all itemsets together, and what the next group should be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.hypothesis import (
    MODELLED,
    Explained,
    Hypothesis,
    Undone,
    disagreement,
    mixed,
    together,
)
from sfumato.estimation.latent_classes import Itemset, LatentClasses, padded
from sfumato.estimation.lift_prior import NOTHING, LiftPrior, NoisyObservation, Posterior
from sfumato.estimation.round_tally import RoundTally, Survival, held_of
from sfumato.mechanisms.in_rounds import Asking
from sfumato.mechanisms.item_set import SEEDS, best_buckets, how_many
from sfumato.mechanisms.sizes import TIERS, UNEVEN, USUAL, usual

Floats = NDArray[np.float64]

# How fat the tail of the sizes of baskets may be, below 0 where sizes are more even than chance
# makes them, and how probably beforehand: chosen by the errors seen on retail, T10I4D100K,
# BMS-WebView-1 and mushroom, so that coverage on these four is no test of it.
TAILS = (-0.7, 0.0, 0.2, 0.5, 1.0)
USUAL_TAILS = (0.2, 0.3, 0.25, 0.15, 0.1)
WRONG = 0.6  # how far what a cap takes is open when it is chosen, as a part of that
LOOSELY = 8.0  # classes bend to noise, so that how well they fit counts so many times less
NEGLIGIBLE = 1e-4  # weight in a hypothesis that nothing hangs on
UNLIKELY = 0.03  # weight in a hypothesis that the choice of a cap leaves out
MOST_ITEMSETS = 6000  # that are thought of
LONGEST = 12


@dataclass(frozen=True, eq=False)
class PooledRounds:
    """All that the groups said, put together.

    Classes of baskets predict every itemset and tell what a cap takes away; how uneven the sizes of
    baskets are is supposed, each hypothesis believed as far as the groups agree under it. What was
    found is weighed against the prediction by how well predictions turned out.
    """

    tallies: tuple[RoundTally, ...]
    items: int

    @cached_property
    def _direct(self) -> list[RoundTally]:
        return [each for each in self.tallies if not each.whole]

    @cached_property
    def named(self) -> NDArray[np.bool_]:  # (items,)
        """Which items some group was asked about by name, alone or with others."""
        found = np.zeros(self.items, dtype=bool)
        found[[item for each in self._direct for x in each.itemsets for item in x]] = True
        return found

    @cached_property
    def singles(self) -> Posterior:
        """The support of every item, as far as its reports and those of all others tell."""
        found = self._together(self._alone)
        return LiftPrior.of_items(found).known(np.ones(self.items), found)

    @cached_property
    def _alone(self) -> tuple[Itemset, ...]:
        return tuple((item,) for item in range(self.items))

    @cached_property
    def _first_guess(self) -> Floats:
        """The items as they were kept, a cap not undone but where large baskets stand apart."""
        caps = [Undone.of(each, Survival.beforehand(each), 0.0) for each in self.tallies]
        found = together(caps, self._alone)
        return LiftPrior.of_items(found).known(np.ones(self.items), found).mean

    @cached_property
    def _hypotheses(self) -> list[Hypothesis]:
        supposed = UNEVEN if self._direct and not self.tallies[0].two_classes else (USUAL,)
        guess = self._first_guess
        explained = Explained.of(self.tallies, guess) if self._direct else None
        return [Hypothesis(self.tallies, guess, each, explained) for each in supposed]

    @cached_property
    def _caps(self) -> list[list[Undone]]:
        """What caps took, by every hypothesis and every tail."""
        return [each.caps(tail) for each in self._hypotheses for tail, _ in self._tails]

    @cached_property
    def _tails(self) -> tuple[tuple[float, float], ...]:
        """How fat a tail may be, and how probably: where large baskets tell how much they hold,
        there is nothing to suppose.
        """
        told = all(each.tells_sizes for each in self._direct)
        return ((0.0, 1.0),) if told else tuple(zip(TAILS, USUAL_TAILS, strict=True))

    @cached_property
    def _weights(self) -> Floats:  # (hypotheses, tails)
        """How probable each hypothesis and each tail is: beforehand near the usual, then by how
        well what all groups found goes together.
        """
        spread = np.array([each.log_sd for each in self._hypotheses])
        losses = np.array([each.loss for each in self._hypotheses]) / self._looseness
        apart = np.array([disagreement(caps) for caps in self._caps]).reshape(len(spread), -1)
        logs = (usual(spread) - losses)[:, None] - apart
        logs += np.log([probable for _, probable in self._tails])
        weight = np.exp(logs - logs.max())
        return np.asarray(weight / weight.sum())

    @property
    def _looseness(self) -> float:
        """How many times less than a likelihood the loss of a fit counts: more where even the best
        of the classes explain less than noise would leave.
        """
        explained = self._hypotheses[0].explained
        if explained is None:
            return LOOSELY
        least = min(each.loss for each in self._hypotheses)
        return LOOSELY * max(1.0, 2 * least / len(explained.found))

    @cached_property
    def _weight(self) -> Floats:  # (hypotheses,)
        return np.asarray(self._weights.sum(axis=1))

    def _together(self, itemsets: Sequence[Itemset]) -> NoisyObservation:
        """What all rounds found of these itemsets, what caps took being open."""
        each = zip(self._weights.ravel().tolist(), self._caps, strict=True)
        kept = [(weight, caps) for weight, caps in each if weight > NEGLIGIBLE]
        whole = sum(weight for weight, _ in kept)
        return mixed([(weight / whole, together(caps, itemsets)) for weight, caps in kept])

    @property
    def weighted(self) -> list[tuple[float, Hypothesis]]:
        """Every hypothesis that is not out of the question, and its weight: before anybody was
        asked by name, as far as each is usual.
        """
        hypotheses, weight = self._hypotheses, self._weight
        if not self._direct and not self.tallies[0].two_classes:
            guess = self._first_guess
            hypotheses = [Hypothesis(self.tallies, guess, each, None) for each in UNEVEN]
            weight = np.exp(usual(np.array(UNEVEN)))
            weight = weight / weight.sum()
        each = zip(weight.tolist(), hypotheses, strict=True)
        return [(weight, one) for weight, one in each if weight > UNLIKELY]

    @cached_property
    def classes(self) -> LatentClasses:
        """Classes of baskets, over all items: those of sizes as uneven as is probable."""
        spread = np.array([each.log_sd for each in self._hypotheses])
        return self._hypotheses[int(np.argmin(np.abs(spread - self._weight @ spread)))].classes

    # Itemsets of two items and more.

    @cached_property
    def asked(self) -> tuple[Itemset, ...]:
        """The itemsets of two items and more that some group was asked about."""
        return tuple(sorted({x for each in self._direct for x in each.itemsets if len(x) > 1}))

    @cached_property
    def _found_asked(self) -> NoisyObservation:
        return self._together(self.asked)

    @cached_property
    def lift(self) -> LiftPrior:
        """How itemsets stand to what the classes predict of them."""
        return LiftPrior.of_itemsets(self.classes.supports(self.asked), self._found_asked)

    def _unsure(self, itemsets: Sequence[Itemset]) -> Floats:
        """How far the items of each itemset are open, as a part: what is predicted of an itemset
        that nobody was asked about hangs on its items.
        """
        parts = np.append(self.singles.stderr / np.maximum(self.singles.mean, 1e-12), 0.0)
        return np.minimum(np.sqrt((parts[padded(itemsets, self.items)] ** 2).sum(axis=1)), 1.0)

    def supports(self, itemsets: Sequence[Itemset]) -> Posterior:
        """What is known of these itemsets, of two items and more."""
        if not len(itemsets):
            return self.lift.known(np.zeros(0), NoisyObservation.normal(*np.zeros((2, 0))))
        predicted = self.classes.supports(itemsets)
        nothing = np.zeros(len(itemsets)), np.full(len(itemsets), 2 * NOTHING)
        told = NoisyObservation.normal(*nothing, predicted * self._unsure(itemsets))
        if self.asked:
            own = {each: place for place, each in enumerate(self.asked)}
            places = np.array([own.get(each, -1) for each in itemsets], dtype=np.intp)
            told = told.where(places >= 0, self._found_asked.take(places[places >= 0]))
        return self.lift.known(predicted, told)


def next_asking(
    rounds: PooledRounds, wanted: int, gamma: float, people: float, most: int
) -> Asking:
    """The itemsets most probably among those of largest support, and the cap and form with the
    least error.
    """
    itemsets, probable, least = _probable(rounds, wanted)
    number = how_many(wanted, gamma)
    chosen = tuple(itemsets[place] for place in np.argsort(-probable, kind="stable")[:number])
    return best_asking(chosen, rounds.weighted, gamma, people, least, most)


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
    posterior = rounds.supports(longer) if longer else None
    means = singles.mean if posterior is None else np.append(singles.mean, posterior.mean)
    least = max(float(np.sort(means)[::-1][min(wanted, len(means)) - 1]), 1e-9)
    above = singles.above(least)
    if posterior is not None:
        above = np.append(above, posterior.above(least))
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
    candidates: Sequence[Itemset],
    weighted: Sequence[tuple[float, Hypothesis]],
    gamma: float,
    people: float,
    support: float,
    most: int,
) -> Asking:
    """The cap and the form with the least mean square error of a support: the noise over the square
    of the part that survives, and what is open about that part, on the mean of what is believed of
    the sizes of baskets.
    """
    caps = np.arange(min(2, len(candidates)), min(most, len(candidates)) + 1)
    buckets = np.array([best_buckets(cap, gamma) for cap in caps.tolist()])
    symbols = len(candidates) + TIERS
    noise = noise_of_forms(caps, buckets, symbols, gamma, support) / people
    square = np.zeros(noise.shape)
    for weight, each in weighted:
        held = held_of(candidates, each.classes)
        kept = _kept_of(held.sum(axis=0), caps)
        pool = (held.mean(axis=1) ** 2).sum() / (buckets * SEEDS)
        own = (noise + np.stack([np.zeros(len(caps)), pool])) / kept**2
        off = own + (WRONG * (1 - kept) * support) ** 2
        # Shrunk, no support is off by more than itself: so one doubtful hypothesis cannot decide.
        square += weight * off * support**2 / (off + support**2)
    form, place = np.unravel_index(int(np.argmin(square)), square.shape)
    return Asking(tuple(candidates), int(caps[place]), int(form * buckets[place]))


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
