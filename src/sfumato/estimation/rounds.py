"""Rounds: what groups of people, asked one after the other for symbols of their baskets, say of
all itemsets together, and what the next group should be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.heard import Heard, Survival, held_of
from sfumato.estimation.kinds import BasketKinds, Itemset, padded
from sfumato.estimation.ratios import Posterior, Ratios, Witness
from sfumato.estimation.supposition import (
    MODELLED,
    Explained,
    Found,
    Supposition,
    Undone,
    believed,
    disagreement,
    together,
)
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
LOOSELY = 8.0  # kinds bend to noise, so that how well they fit counts so many times less
NEGLIGIBLE = 1e-4  # belief in a supposition that nothing hangs on
UNLIKELY = 0.03  # belief in a supposition that the choice of a cap leaves out
MOST_ITEMSETS = 6000  # that are thought of
LONGEST = 12


@dataclass(frozen=True, eq=False)
class Rounds:
    """All that the groups said, put together.

    Kinds of baskets predict every itemset and tell what a cap takes away; how uneven the sizes of
    baskets are is supposed, each supposition believed as far as the groups agree under it. What was
    found is weighed against the prediction by how well predictions turned out.
    """

    heard: tuple[Heard, ...]
    items: int

    @cached_property
    def _direct(self) -> list[Heard]:
        return [each for each in self.heard if not each.whole]

    @cached_property
    def named(self) -> NDArray[np.bool_]:  # (items,)
        """Which items some group was asked about by name, alone or with others."""
        found = np.zeros(self.items, dtype=bool)
        found[[item for each in self._direct for x in each.itemsets for item in x]] = True
        return found

    @cached_property
    def singles(self) -> Posterior:
        """The support of every item, as far as its reports and those of all others tell."""
        found = self._found_items
        known = self._law_of_items.known(np.ones(self.items), found.told)
        return replace(known, open_to=found.open_to)

    @cached_property
    def _law_of_items(self) -> Ratios:
        return Ratios.of_items(self._found_items.told)

    @cached_property
    def _found_items(self) -> Found:
        return self._together(self._alone)

    @cached_property
    def _alone(self) -> tuple[Itemset, ...]:
        return tuple((item,) for item in range(self.items))

    @cached_property
    def _first_guess(self) -> Floats:
        """The items as they were kept, a cap not undone but where large baskets stand apart."""
        caps = [Undone.of(each, Survival.beforehand(each), 0.0) for each in self.heard]
        found = together(caps, self._alone)
        return Ratios.of_items(found.told).known(np.ones(self.items), found.told).mean

    @cached_property
    def _suppositions(self) -> list[Supposition]:
        supposed = UNEVEN if self._direct and not self.heard[0].apart else (USUAL,)
        guess = self._first_guess
        explained = Explained.of(self.heard, guess) if self._direct else None
        return [Supposition(self.heard, guess, each, explained) for each in supposed]

    @cached_property
    def _caps(self) -> list[list[Undone]]:
        """What caps took, by every supposition and every tail."""
        return [each.caps(tail) for each in self._suppositions for tail, _ in self._tails]

    @cached_property
    def _tails(self) -> tuple[tuple[float, float], ...]:
        """How fat a tail may be, and how probably: where large baskets tell how much they hold,
        there is nothing to suppose.
        """
        told = all(each.sized for each in self._direct)
        return ((0.0, 1.0),) if told else tuple(zip(TAILS, USUAL_TAILS, strict=True))

    @cached_property
    def _beliefs(self) -> Floats:  # (suppositions, tails)
        """How probable each supposition and each tail is: beforehand near the usual, then by how
        well what all groups found goes together.
        """
        spread = np.array([each.unevenness for each in self._suppositions])
        losses = np.array([each.loss for each in self._suppositions]) / self._looseness
        apart = np.array([disagreement(caps) for caps in self._caps]).reshape(len(spread), -1)
        logs = (usual(spread) - losses)[:, None] - apart
        logs += np.log([probable for _, probable in self._tails])
        belief = np.exp(logs - logs.max())
        return np.asarray(belief / belief.sum())

    @property
    def _looseness(self) -> float:
        """How many times less than a likelihood the loss of a fit counts: more where even the best
        of the kinds explain less than noise would leave.
        """
        explained = self._suppositions[0].explained
        if explained is None:
            return LOOSELY
        least = min(each.loss for each in self._suppositions)
        return LOOSELY * max(1.0, 2 * least / len(explained.found))

    @cached_property
    def _belief(self) -> Floats:  # (suppositions,)
        return np.asarray(self._beliefs.sum(axis=1))

    def _together(self, itemsets: Sequence[Itemset]) -> Found:
        """What all rounds found of these itemsets, what caps took being open."""
        each = zip(self._beliefs.ravel().tolist(), self._caps, strict=True)
        kept = [(belief, caps) for belief, caps in each if belief > NEGLIGIBLE]
        whole = sum(belief for belief, _ in kept)
        return believed([(belief / whole, together(caps, itemsets)) for belief, caps in kept])

    @property
    def believed(self) -> list[tuple[float, Supposition]]:
        """Every supposition that is not out of the question, and its belief: before anybody was
        asked by name, as far as each is usual.
        """
        suppositions, belief = self._suppositions, self._belief
        if not self._direct and not self.heard[0].apart:
            guess = self._first_guess
            suppositions = [Supposition(self.heard, guess, each, None) for each in UNEVEN]
            belief = np.exp(usual(np.array(UNEVEN)))
            belief = belief / belief.sum()
        each = zip(belief.tolist(), suppositions, strict=True)
        return [(belief, one) for belief, one in each if belief > UNLIKELY]

    @cached_property
    def kinds(self) -> BasketKinds:
        """Kinds of baskets, over all items: those of sizes as uneven as is probable."""
        spread = np.array([each.unevenness for each in self._suppositions])
        return self._suppositions[int(np.argmin(np.abs(spread - self._belief @ spread)))].kinds

    # Itemsets of two items and more.

    @cached_property
    def asked(self) -> tuple[Itemset, ...]:
        """The itemsets of two items and more that some group was asked about."""
        return tuple(sorted({x for each in self._direct for x in each.itemsets if len(x) > 1}))

    @cached_property
    def _asked_places(self) -> dict[Itemset, int]:
        return {each: place for place, each in enumerate(self.asked)}

    @cached_property
    def _found_asked(self) -> Found:
        return self._together(self.asked)

    @cached_property
    def ratios(self) -> Ratios:
        """How itemsets stand to what the kinds predict of them."""
        found = self._found_asked
        return Ratios.of_itemsets(self.kinds.supports(self.asked), found.told)

    def _unsure(self, itemsets: Sequence[Itemset]) -> Floats:
        """How far the items of each itemset are open, as a part: what is predicted of an itemset
        that nobody was asked about hangs on its items.
        """
        parts = np.append(self.singles.stderr / np.maximum(self.singles.mean, 1e-12), 0.0)
        return np.minimum(np.sqrt((parts[padded(itemsets, self.items)] ** 2).sum(axis=1)), 1.0)

    def supports(self, itemsets: Sequence[Itemset]) -> Posterior:
        """What is known of these itemsets, of two items and more."""
        if not len(itemsets):
            return self.ratios.known(np.zeros(0), Witness.nothing(0))
        predicted = self.kinds.supports(itemsets)
        places = np.array([self._asked_places.get(each, -1) for each in itemsets], dtype=np.intp)
        told, open_to = Witness.nothing(len(itemsets)), predicted * self._unsure(itemsets)
        if self.asked:
            seen = places >= 0
            told = told.where(seen, self._found_asked.told.take(places[seen]))
            open_to[seen] = self._found_asked.open_to[places[seen]]
        return replace(self.ratios.known(predicted, told), open_to=open_to)


def next_asking(rounds: Rounds, wanted: int, gamma: float, people: float, most: int) -> Asking:
    """The itemsets most probably among those of largest support, and the cap and form with the
    least error.
    """
    itemsets, probable, least = _probable(rounds, wanted)
    number = how_many(wanted, gamma)
    chosen = tuple(itemsets[place] for place in np.argsort(-probable, kind="stable")[:number])
    return best_asking(chosen, rounds.believed, gamma, people, least, most)


def least_of(rounds: Rounds, wanted: int) -> float:
    """The support of the last of so many itemsets of largest support."""
    return _probable(rounds, wanted)[2]


def _probable(rounds: Rounds, wanted: int) -> tuple[list[Itemset], Floats, float]:
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


def thought_of(rounds: Rounds, least: float) -> list[Itemset]:
    """Itemsets of two items and more that the kinds predict to reach a support, level by level."""
    items = np.argsort(-rounds.singles.mean)[:MODELLED]
    items = np.sort(items[rounds.singles.mean[items] >= least])
    level, found = items[:, None], list[Itemset]()
    while len(level) and level.shape[1] < LONGEST and len(found) < MOST_ITEMSETS:
        first, second = np.nonzero(level[:, -1:] < items)
        longer = np.column_stack([level[first], items[second]])
        predicted = rounds.kinds.supports(longer)
        order = np.argsort(-predicted)[: MOST_ITEMSETS // 2]
        level = longer[np.sort(order[predicted[order] >= least])]
        found += [tuple(each) for each in level.tolist()]
    return found


def best_asking(
    candidates: Sequence[Itemset],
    believed: Sequence[tuple[float, Supposition]],
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
    for belief, each in believed:
        held = held_of(candidates, each.kinds)
        kept = _kept_of(held.sum(axis=0), caps)
        pool = (held.mean(axis=1) ** 2).sum() / (buckets * SEEDS)
        own = (noise + np.stack([np.zeros(len(caps)), pool])) / kept**2
        off = own + (WRONG * (1 - kept) * support) ** 2
        # Shrunk, no support is off by more than itself: so one doubtful supposition cannot decide.
        square += belief * off * support**2 / (off + support**2)
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
