"""Supposition: what rounds say of itemsets, were the sizes of baskets just so uneven.

A report is capped, so that nothing in it tells how many baskets are large, and what a cap takes
from an itemset hangs on just that. How uneven the sizes are is therefore supposed, several times
over: each supposition is believed as far as the rounds agree under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.heard import Heard, survival
from sfumato.estimation.kinds import BasketKinds, Itemset, KindsFit, padded
from sfumato.estimation.ratios import NOTHING

Floats = NDArray[np.float64]

MODELLED = 160  # items that kinds of baskets tell apart; the others are independent
# Of what a cap takes away, how far that is open once the unevenness of sizes is known: chosen by
# the errors seen on baskets of geometric, log-normal and Pareto sizes, and on two real files.
DOUBT = 0.6
UNLIKE = 0.03  # how far the part that survives a cap differs from item to item
CALIBRATED = 24  # items by which two rounds are compared
TURNS = 2  # of fitting kinds and finding what the cap takes


@dataclass(frozen=True, eq=False)
class Supposition:
    """The rounds, the sizes of baskets being as uneven as supposed."""

    heard: tuple[Heard, ...]
    singles: Floats  # (items,): a first guess, a cap not undone
    unevenness: float

    @cached_property
    def _direct(self) -> list[Heard]:
        return [each for each in self.heard if not each.whole]

    def together(self, itemsets: Sequence[Itemset]) -> tuple[Floats, Floats]:
        """What all rounds found of these itemsets and its variance, each round weighed by how much
        it tells; a variance beyond all others where none told anything.
        """
        return together(self.heard, itemsets, self.survivals)

    @property
    def kinds(self) -> BasketKinds:
        """Kinds of baskets, over all items."""
        return self._fitted[0]

    @property
    def survivals(self) -> list[Floats]:
        """What part of each itemset's people kept it, round by round."""
        return self._fitted[1]

    @property
    def loss(self) -> float:
        """How badly the kinds explain what was found."""
        return self._fitted[2]

    @cached_property
    def _fitted(self) -> tuple[BasketKinds, list[Floats], float]:
        kinds, loss = BasketKinds.uneven(self.singles, self.unevenness), 0.0
        survivals = [self._survival(each, kinds) for each in self.heard]
        for _ in range(TURNS if self._direct else 0):
            survivals = self._calibrated(survivals)
            kinds, loss = self._refitted(survivals)
            survivals = [self._survival(each, kinds) for each in self.heard]
        return kinds, self._calibrated(survivals), loss

    def _survival(self, heard: Heard, kinds: BasketKinds) -> Floats:
        return np.ones(len(heard.itemsets)) if heard.whole else survival(heard, kinds)

    def _calibrated(self, survivals: list[Floats]) -> list[Floats]:
        """What the first round's cap left, by comparing it with those who were asked directly."""
        asked = sorted({x for each in self._direct for x in each.itemsets if len(x) == 1})
        if not asked:
            return survivals
        own = [s for each, s in zip(self.heard, survivals, strict=True) if not each.whole]
        found, variance = together(self._direct, asked, own)
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

    def _refitted(self, survivals: list[Floats]) -> tuple[BasketKinds, float]:
        """Kinds that explain what every round found, over the items that matter."""
        singles = self._undone(survivals)
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
        fit = KindsFit(
            padded(rows, len(order)), found, variance, left, singles[order], self.unevenness
        )
        fitted, loss = fit.fitted()
        chances = np.repeat(singles[None], len(fitted.shares), axis=0)
        chances[:, order] = fitted.chances
        return BasketKinds(fitted.shares, np.clip(chances, 1e-9, 1 - 1e-9)), loss

    def _undone(self, survivals: list[Floats]) -> Floats:  # (items,)
        """The first guess, the cap undone by what it takes from all items together."""
        kept = left = 0.0
        for each, part in zip(self.heard, survivals, strict=True):
            alone = np.array([len(itemset) == 1 for itemset in each.itemsets])
            weight = np.maximum(each.kept[alone], 0)
            kept += float(weight.sum())
            left += float((weight / part[alone]).sum())
        return np.minimum(self.singles * left / max(kept, 1e-9), 0.999)


def together(
    heard: Sequence[Heard], itemsets: Sequence[Itemset], survivals: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """What rounds found of these itemsets and its variance, were these the parts that kept them."""
    place = {each: number for number, each in enumerate(itemsets)}
    weight, total, noise, doubt = (np.zeros(len(itemsets)) for _ in range(4))
    for each, left in zip(heard, survivals, strict=True):
        known = np.array([place.get(itemset, -1) for itemset in each.itemsets])
        here = known >= 0
        found, variance, open_to = (part[here] for part in _undone(each, left))
        told = 1 / (variance + open_to**2)
        weight[known[here]] += told
        total[known[here]] += told * found
        noise[known[here]] += told**2 * variance
        # Where one cap takes more than was thought, so does the next: these errors do not average.
        doubt[known[here]] += told * open_to
    asked = weight > 0
    whole = np.where(asked, weight, 1)
    return total / whole, np.where(asked, (noise + doubt**2) / whole**2, 2 * NOTHING)


def _undone(heard: Heard, left: Floats) -> tuple[Floats, Floats, Floats]:
    """Shares once the cap is undone, their variances, and how far what it took leaves them open."""
    found = heard.kept / left
    capped = UNLIKE if heard.whole or heard.cap < len(heard.itemsets) else 0.0
    open_to = np.hypot(capped, 0.0 if heard.whole else DOUBT * (1 - left))
    return found, heard.variance / left**2, open_to * np.maximum(found, 0)
