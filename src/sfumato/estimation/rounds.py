"""Rounds: what groups of people, asked one after the other for symbols of their baskets, say of
all itemsets together, and what the next group should be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.kinds import BasketKinds, Itemset, KindsFit, padded
from sfumato.estimation.ratios import NOTHING, Posterior, Ratios

Floats = NDArray[np.float64]

MODELLED = 160  # items that kinds of baskets tell apart; the others are independent
DRAWN = 8000  # baskets that stand for all where it is asked how many candidates one holds
DOUBT = 0.4  # of what the cap takes away, how far that is open
UNLIKE = 0.03  # how far the part that survives a cap differs from item to item
CALIBRATED = 24  # items by which two rounds are compared
MOST_ITEMSETS = 6000  # that are thought of
LONGEST = 12
TURNS = 2  # of fitting kinds and finding what the cap takes


@dataclass(frozen=True, eq=False)
class Heard:
    """What the reports of one group say: of each itemset the share of people who hold it and whose
    basket kept it, with its variance.
    """

    itemsets: tuple[Itemset, ...]
    kept: Floats  # (itemsets,)
    variance: Floats
    cap: int
    people: int
    whole: bool  # whether any item of the universe could be told, by its hash


@dataclass(frozen=True, eq=False)
class Rounds:
    """All that the groups said, put together.

    Kinds of baskets predict every itemset and tell what a cap takes away; what was found is
    weighed against the prediction by how well predictions turned out.
    """

    heard: tuple[Heard, ...]
    items: int

    @cached_property
    def _direct(self) -> list[Heard]:
        return [each for each in self.heard if not each.whole]

    @cached_property
    def singles(self) -> Posterior:
        """The support of every item; of those asked about by name, no error is below that of
        their reports, for nobody asked after them for being like the others. Those whom later
        rounds passed over are as the others are.
        """
        found, variance = self._found_items
        known = self._law_of_items.known(np.ones(self.items), found, variance)
        named = np.array([x[0] for e in self._direct for x in e.itemsets if len(x) == 1], np.intp)
        if not self._direct:
            return known
        least, told = np.zeros(self.items), np.full(self.items, np.nan)
        least[named], told[named] = np.sqrt(variance[named]), known.told[named]
        return replace(known, least=least, told=told)

    @cached_property
    def _law_of_items(self) -> Ratios:
        return Ratios.of_items(*self._found_items)

    @cached_property
    def _found_items(self) -> tuple[Floats, Floats]:
        return self._together([(item,) for item in range(self.items)], self._survivals)

    @cached_property
    def _first_guess(self) -> Floats:
        """The items as they were kept, a cap not undone."""
        none = [np.ones(len(each.itemsets)) for each in self.heard]
        found, variance = self._together([(item,) for item in range(self.items)], none)
        return Ratios.of_items(found, variance).known(np.ones(self.items), found, variance).mean

    def _together(
        self, itemsets: Sequence[Itemset], survivals: Sequence[Floats]
    ) -> tuple[Floats, Floats]:
        """What all rounds found of these itemsets and its variance, each round weighed by how much
        it tells; a variance beyond all others where none told anything.
        """
        place = {each: number for number, each in enumerate(itemsets)}
        weight, total = np.zeros(len(itemsets)), np.zeros(len(itemsets))
        for each, survival in zip(self.heard, survivals, strict=True):
            known = np.array([place.get(itemset, -1) for itemset in each.itemsets])
            here = known >= 0
            found = each.kept / survival
            open_to = UNLIKE if each.whole and self._direct else DOUBT * (1 - survival)
            doubt = (open_to * np.maximum(found, 0)) ** 2
            told = 1 / (each.variance / survival**2 + doubt)
            weight[known[here]] += told[here]
            total[known[here]] += (told * found)[here]
        asked = weight > 0
        share = np.where(asked, total / np.where(asked, weight, 1), 0.0)
        return share, np.where(asked, 1 / np.where(asked, weight, 1), 2 * NOTHING)

    @cached_property
    def _fitted(self) -> tuple[BasketKinds, list[Floats]]:
        """Kinds of baskets, and what part of each itemset's people kept it in each round."""
        kinds = BasketKinds.uneven(self._first_guess)
        survivals = [self._survival(each, kinds) for each in self.heard]
        for _ in range(TURNS if self._direct else 0):
            survivals = self._calibrated(survivals)
            kinds = self._refitted(survivals)
            survivals = [self._survival(each, kinds) for each in self.heard]
        return kinds, self._calibrated(survivals)

    @property
    def kinds(self) -> BasketKinds:
        """Kinds of baskets, over all items."""
        return self._fitted[0]

    @property
    def _survivals(self) -> list[Floats]:
        return self._fitted[1]

    def _survival(self, heard: Heard, kinds: BasketKinds) -> Floats:
        return np.ones(len(heard.itemsets)) if heard.whole else survival(heard, kinds)

    def _calibrated(self, survivals: list[Floats]) -> list[Floats]:
        """What the first round's cap left, by comparing it with those who were asked directly."""
        if not self._direct:
            return survivals
        direct = Rounds(tuple(self._direct), self.items)
        own = [s for each, s in zip(self.heard, survivals, strict=True) if not each.whole]
        asked = sorted({x for each in self._direct for x in each.itemsets if len(x) == 1})
        if not asked:
            return survivals
        found, variance = direct._together(asked, own)
        sure = np.argsort(-found / np.sqrt(variance))[:CALIBRATED]
        places = [asked[place][0] for place in sure]
        result = []
        for each, before in zip(self.heard, survivals, strict=True):
            part = before
            if each.whole:
                ratio = each.kept[places].sum() / max(found[sure].sum(), 1e-9)
                part = np.full(len(each.itemsets), float(np.clip(ratio, 0.02, 1.0)))
            result.append(part)
        return result

    def _refitted(self, survivals: list[Floats]) -> BasketKinds:
        """Kinds that explain what every round found, over the items that matter."""
        singles = self._first_guess
        named = {item for each in self._direct for itemset in each.itemsets for item in itemset}
        order = sorted(named, key=lambda item: -singles[item])[:MODELLED]
        own = {item: place for place, item in enumerate(order)}
        rows: list[Itemset] = []
        parts: list[tuple[float, float, float]] = []
        for each, kept in zip(self.heard, survivals, strict=True):
            for place, itemset in enumerate(each.itemsets):
                if all(item in own for item in itemset):
                    rows.append(tuple(own[item] for item in itemset))
                    parts.append((each.kept[place], each.variance[place], kept[place]))
        found, variance, left = np.array(parts).T
        held = singles[order]
        fit = KindsFit(padded(rows, len(order)), found, variance, left, held).kinds()
        chances = np.repeat(singles[None], len(fit.shares), axis=0)
        chances[:, order] = fit.chances
        return BasketKinds(fit.shares, np.clip(chances, 1e-9, 1 - 1e-9))

    # Itemsets of two items and more.

    @cached_property
    def asked(self) -> tuple[Itemset, ...]:
        """The itemsets of two items and more that some group was asked about."""
        return tuple(sorted({x for each in self._direct for x in each.itemsets if len(x) > 1}))

    @cached_property
    def _asked_places(self) -> dict[Itemset, int]:
        return {each: place for place, each in enumerate(self.asked)}

    @cached_property
    def _found_asked(self) -> tuple[Floats, Floats]:
        return self._together(self.asked, self._survivals)

    @cached_property
    def ratios(self) -> Ratios:
        """How itemsets stand to what the kinds predict of them."""
        return Ratios.of_itemsets(self.kinds.supports(self.asked), *self._found_asked)

    def supports(self, itemsets: Sequence[Itemset]) -> Posterior:
        """What is known of these itemsets, of two items and more."""
        predicted = self.kinds.supports(itemsets)
        places = np.array([self._asked_places.get(each, -1) for each in itemsets], dtype=np.intp)
        found, variance = np.zeros(len(itemsets)), np.full(len(itemsets), 2 * NOTHING)
        if self.asked:
            seen = places >= 0
            found[seen] = self._found_asked[0][places[seen]]
            variance[seen] = self._found_asked[1][places[seen]]
        return self.ratios.known(predicted, found, variance)


def survival(heard: Heard, kinds: BasketKinds) -> Floats:  # (itemsets,)
    """How often each candidate is among those that a basket which holds it keeps: E[min(1, m/c) |
    held], c the candidates that the basket holds.
    """
    held = _held(heard.itemsets, kinds)
    sizes = held.sum(axis=1)
    kept = np.minimum(1.0, heard.cap / np.maximum(sizes, 1))
    everyone = float(kept @ sizes / max(sizes.sum(), 1))
    weight = held.T @ np.ones(len(held))
    # Of a rare candidate few drawn baskets tell: all others then count as a few more.
    return np.asarray((held.T @ kept + 20 * everyone) / (weight + 20))


def _held(itemsets: Sequence[Itemset], kinds: BasketKinds) -> Floats:  # (DRAWN, itemsets)
    """Which candidates baskets of these kinds hold."""
    items = np.array(sorted({item for each in itemsets for item in each}))
    place = {item: number for number, item in enumerate(items.tolist())}
    baskets = kinds.drawn(DRAWN, items)
    held = np.ones((DRAWN, len(itemsets)), dtype=bool)
    for number, each in enumerate(itemsets):
        for item in each:
            held[:, number] &= baskets[:, place[item]]
    return held.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Asking:
    """What the next group is asked: candidates, and how many of them a basket may keep."""

    candidates: tuple[Itemset, ...]
    cap: int


def next_asking(rounds: Rounds, wanted: int, gamma: float, people: float, most: int) -> Asking:
    """The itemsets most probably among those of largest support, and the cap with the least
    error.
    """
    itemsets, probable, least = _probable(rounds, wanted)
    number = how_many(wanted, gamma)
    chosen = tuple(itemsets[place] for place in np.argsort(-probable, kind="stable")[:number])
    return Asking(chosen, best_cap(chosen, rounds.kinds, gamma, people, least, most))


def how_many(wanted: int, gamma: float) -> int:
    """More candidates are asked about where each costs little beside what is paid anyway."""
    return round(2 * wanted + 3 * gamma)


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


def best_cap(
    candidates: Sequence[Itemset],
    kinds: BasketKinds,
    gamma: float,
    people: float,
    support: float,
    most: int,
) -> int:
    """The cap with the least mean square error of a support: the noise, (d + mγ)/(n(γ−1)²) over
    the square of the part that survives, and what is open about that part.
    """
    sizes = _held(candidates, kinds).sum(axis=1)
    caps = np.arange(1, min(most, len(candidates)) + 1)
    kept = np.minimum(1.0, caps[:, None] / np.maximum(sizes, 1)) @ sizes / max(sizes.sum(), 1)
    noise = (len(candidates) + caps * gamma) / (people * (gamma - 1) ** 2) / kept**2
    return int(caps[np.argmin(noise + (DOUBT * (1 - kept) * support) ** 2)])
