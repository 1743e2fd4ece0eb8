"""Rounds: what groups of people, asked one after the other for symbols of their baskets, say of
all itemsets together, and what the next group should be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.heard import Heard, held_of
from sfumato.estimation.kinds import USUAL, BasketKinds, Itemset
from sfumato.estimation.ratios import NOTHING, Posterior, Ratios
from sfumato.estimation.supposition import DOUBT, MODELLED, Supposition, together

Floats = NDArray[np.float64]

UNEVEN = (0.0, 0.3, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7)  # what the sizes of baskets may be
OPEN = 0.5  # how far from the usual unevenness that of these baskets may well be
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
        return self._together([(item,) for item in range(self.items)])

    @cached_property
    def _first_guess(self) -> Floats:
        """The items as they were kept, a cap not undone."""
        none = [np.ones(len(each.itemsets)) for each in self.heard]
        found, variance = together(self.heard, [(item,) for item in range(self.items)], none)
        return Ratios.of_items(found, variance).known(np.ones(self.items), found, variance).mean

    @cached_property
    def _suppositions(self) -> list[Supposition]:
        supposed = UNEVEN if self._direct else (USUAL,)
        return [Supposition(self.heard, self._first_guess, each) for each in supposed]

    @cached_property
    def _belief(self) -> Floats:  # (suppositions,)
        """How probable each supposition is: beforehand near the usual one, then by how well what
        all groups found goes together under it.
        """
        spread = np.array([each.unevenness for each in self._suppositions])
        losses = np.array([each.loss for each in self._suppositions])
        logs = -(((spread - USUAL) / OPEN) ** 2) / 2 - losses
        belief = np.exp(logs - logs.max())
        return np.asarray(belief / belief.sum())

    def _together(self, itemsets: Sequence[Itemset]) -> tuple[Floats, Floats]:
        """What all rounds found of these itemsets and its variance, how uneven sizes are being
        open; a variance beyond all others where none told anything.
        """
        found, variance = np.array(
            [each.together(itemsets) for each in self._suppositions]
        ).swapaxes(0, 1)
        share = self._belief @ found
        return share, self._belief @ (variance + (found - share) ** 2)

    @property
    def believed(self) -> list[tuple[float, BasketKinds]]:
        """The kinds of every supposition that is not out of the question, and its belief."""
        each = zip(self._belief.tolist(), self._suppositions, strict=True)
        return [(belief, one.kinds) for belief, one in each if belief > UNLIKELY]

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
    def _found_asked(self) -> tuple[Floats, Floats]:
        return self._together(self.asked)

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
    return Asking(chosen, best_cap(chosen, rounds.believed, gamma, people, least, most))


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
    believed: Sequence[tuple[float, BasketKinds]],
    gamma: float,
    people: float,
    support: float,
    most: int,
) -> int:
    """The cap with the least mean square error of a support: the noise, (d + mγ)/(n(γ−1)²) over
    the square of the part that survives, and what is open about that part, on the mean of what is
    believed of the sizes of baskets.
    """
    caps = np.arange(1, min(most, len(candidates)) + 1)
    noise = (len(candidates) + caps * gamma) / (people * (gamma - 1) ** 2)
    square = np.zeros(len(caps))
    for belief, kinds in believed:
        sizes = held_of(candidates, kinds).sum(axis=0)
        kept = np.minimum(1.0, caps[:, None] / np.maximum(sizes, 1)) @ sizes / max(sizes.sum(), 1)
        square += belief * (noise / kept**2 + (DOUBT * (1 - kept) * support) ** 2)
    return int(caps[np.argmin(square)])
