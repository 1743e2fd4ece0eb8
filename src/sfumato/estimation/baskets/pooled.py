"""PooledRounds: what groups of people, asked one after the other for symbols of their baskets, say
of all itemsets together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.baskets.caps import RoundTally, Undone, together
from sfumato.estimation.baskets.classes import (
    LOG_SD,
    Floats,
    Itemset,
    LatentClasses,
    LatentClassFit,
    padded,
)
from sfumato.estimation.baskets.priors import NOTHING, LiftPrior, NoisyObservation, Posterior

MODELLED = 160  # items that classes tell apart; the others differ from all by size alone
TURNS = 2  # of fitting classes and finding what the caps take


@dataclass(frozen=True, eq=False)
class PooledRounds:
    """All that the groups said, put together by the model that this package states."""

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

    # What caps took, and which classes of baskets there are: found by turns.

    @cached_property
    def _fitted(self) -> tuple[LatentClasses, list[Undone]]:
        guess = self._items_by([Undone.nothing(each) for each in self.tallies])[1].mean
        classes = LatentClasses.by_size(guess, self.log_sd)
        caps = [Undone.of(each, classes) for each in self.tallies]
        for _ in range(TURNS if self._direct else 0):
            classes = self._explaining(guess, caps)
            caps = [Undone.of(each, classes) for each in self.tallies]
        return classes, caps

    @cached_property
    def log_sd(self) -> float:
        """The standard deviation of log sizes, by what the first round told of single items."""
        for first in self.tallies[:1]:
            if first.tiers is not None and not first.tiers.supposed:
                return first.tiers.log_sd(first.seen)
        return LOG_SD

    def _explaining(self, guess: Floats, caps: Sequence[Undone]) -> LatentClasses:
        """Classes that explain what all rounds found of the most frequent of the named items; the
        others are as by size.
        """
        kept = sum(float(np.maximum(cap.tally.kept, 0).sum()) for cap in caps)
        held = sum(float(np.maximum(cap.found, 0).sum()) for cap in caps)
        singles = np.minimum(guess * held / max(kept, 1e-9), 0.999)
        order = np.flatnonzero(self.named)
        order = order[np.argsort(-guess[order], kind="stable")][:MODELLED]
        own = np.full(self.items, -1)
        own[order] = np.arange(len(order))
        rows, told = list[Itemset](), list[tuple[float, float, float]]()
        for cap in caps:
            # What a cap took is known no better than itemsets differ in it.
            noise = cap.tally.variance + (cap.heterogeneity * cap.tally.kept) ** 2
            each = zip(cap.tally.kept, noise, cap.left, strict=True)
            for itemset, kept_variance_left in zip(cap.tally.itemsets, each, strict=True):
                if all(own[item] >= 0 for item in itemset):
                    rows.append(tuple(own[list(itemset)].tolist()))
                    told.append(kept_variance_left)
        found, variance, left = np.array(told).T
        places = padded(rows, len(order))
        fit = LatentClassFit(places, found, variance, left, singles[order], self.log_sd).fitted()
        chances = LatentClasses.by_size(singles, self.log_sd).chances.copy()
        chances[:, order] = fit.chances
        return LatentClasses(fit.shares, np.clip(chances, 1e-9, 1 - 1e-9))

    @property
    def classes(self) -> LatentClasses:
        """Classes of baskets, over all items."""
        return self._fitted[0]

    # Single items.

    def _items_by(self, caps: Sequence[Undone]) -> tuple[NoisyObservation, Posterior]:
        found = together(caps, [(item,) for item in range(self.items)])
        return found, LiftPrior.of_items(found).known(np.ones(self.items), found)

    @cached_property
    def singles(self) -> Posterior:
        """The support of every item, as far as its reports and those of all others tell."""
        return self._items_by(self._fitted[1])[1]

    # Itemsets of two items and more.

    @cached_property
    def asked(self) -> tuple[Itemset, ...]:
        """The itemsets of two items and more that some group was asked about."""
        return tuple(sorted({x for each in self._direct for x in each.itemsets if len(x) > 1}))

    @cached_property
    def _found_asked(self) -> NoisyObservation:
        return together(self._fitted[1], self.asked)

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
