"""Rounds: releases of groups of people who were asked one after the other, mined as one source, and
what the next group should be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.domain import Cells, Domain, Items
from sfumato.errors import ParameterError, Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.heard import Heard, pooled
from sfumato.estimation.rounds import Rounds, next_asking
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.estimation.supports.base import Supports
from sfumato.mechanisms.item_set import MOST_CAP, ItemSet
from sfumato.mechanisms.sizes import Tiers, tiers_above
from sfumato.privacy.guarantee import Guarantee
from sfumato.source import Release, Source, check_alike
from sfumato.table.turns import ROUNDS, SHARES, Turn

WANTED = 64  # itemsets of largest support that rounds look for, unless told otherwise


@dataclass(frozen=True, eq=False)
class RoundsSource(Source):
    """The rounds that people of one series were asked in: each its own symbols, all one truth."""

    releases: tuple[Release, ...]  # in the order of their rounds, from the first on

    @classmethod
    def of(cls, releases: Sequence[Release]) -> RoundsSource:
        """The rounds, once they are known to belong together."""
        if not releases:
            raise ParameterError("there is no round; give the releases of one or more")
        turns = [_turn_of(release) for release in releases]
        if len({turn.series for turn in turns}) > 1:
            raise ParameterError(
                "these rounds are of different series, so that some people may be in both",
                hint="give the rounds of one series: each was made --after the one before",
            )
        ordered = sorted(releases, key=lambda release: _turn_of(release).round)
        numbers = [_turn_of(release).round for release in ordered]
        _check_numbers(numbers)
        check_alike(ordered, "items")
        return cls(tuple(ordered))

    @property
    def domain(self) -> Domain:
        return self.releases[0].domain

    @property
    def rows(self) -> int:
        return sum(release.rows for release in self.releases)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The rounds that were asked."""
        return tuple(map(_turn_of, self.releases))

    @property
    def turn(self) -> Turn:
        """The last round that was asked."""
        return self.turns[-1]

    @property
    def guarantee(self) -> Guarantee:
        """What everybody was promised."""
        return self.releases[0].mechanism.guarantee

    @property
    def _items(self) -> Items:
        items = self.domain.private.attributes[0]
        assert isinstance(items, Items)
        return items

    @cached_property
    def rounds(self) -> Rounds:
        """What all of them said."""
        heard = pooled([_heard(release) for release in self.releases])
        return Rounds(heard, self._items.size)

    def supports(self) -> Supports:
        if len(self.releases) == 1:  # no other round tells what its cap left out of large baskets
            return self.releases[0].supports()
        return AskedSupports(self._items.labels, self.rows, self.rounds)

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        raise Unanswerable(
            "rounds are mined for itemsets", hint="use sfumato mine, or ask one release at a time"
        )

    def following(self, wanted: int = WANTED) -> ItemSet:
        """What the next round asks: candidates chosen by what the rounds so far said."""
        turn = self.turn.next
        if turn.round > ROUNDS:
            raise ParameterError(
                f"all {ROUNDS} rounds of these people were asked", hint="mine them together"
            )
        people = self.rows * SHARES[turn.round - 1] / sum(SHARES[: turn.round - 1])
        gamma = self.guarantee.gamma
        asking = next_asking(self.rounds, wanted, float(gamma), max(people, 1), MOST_CAP)
        tiers = tiers_above(asking.cap, len(asking.candidates))
        return ItemSet(
            self.domain, gamma, asking.cap, asking.candidates, asking.buckets, tiers=tiers
        )


def _check_numbers(numbers: Sequence[int]) -> None:
    twice = [number for number in set(numbers) if numbers.count(number) > 1]
    if twice:
        raise ParameterError(
            f"two releases are round {twice[0]} of the same people: what each promised composes",
            hint="give each round once",
        )
    missing = [number for number in range(1, numbers[-1]) if number not in numbers]
    if missing:
        raise ParameterError(
            f"round {numbers[-1]} comes after round {missing[0]}, which is not here",
            hint="give all the rounds before it",
        )


def _turn_of(release: Release) -> Turn:
    turn = release.provenance.turn
    if turn is not None and not isinstance(release.mechanism, ItemSet):
        raise ParameterError(
            f"one of these is round {turn.round} about numbers ({release.mechanism.name}), which "
            "goes with no round of baskets",
            hint="give the rounds of one series; about numbers there are two, the second "
            "--after the first, and sfumato fit takes both",
        )
    if turn is None:
        raise ParameterError(
            "a release that is no round asked everyone: a further report of the same people would "
            "compose with it",
            hint="begin with sfumato perturb … --round 1; what is no round is mined by itself",
        )
    return turn


@lru_cache(maxsize=2 * ROUNDS)
def _heard(release: Release) -> Heard:
    """What a release says of its itemsets; kept, since every later round asks for it again."""
    law = release.mechanism.symbol_law
    assert law is not None
    counts, people = release.counter.count(law.tally.cells), max(release.rows, 1)
    kept, variance = law.kept(counts)
    tiers = None
    if law.full is not None:
        full, noise = law.full(counts)
        tiers = Tiers(law.tiers, full / people, noise / people**2, len(law.itemsets))
    shares = np.asarray(kept) / people, np.asarray(variance) / people**2
    return Heard(
        law.itemsets, *shares, law.cap, people, law.whole, tiers, max(law.slope, 0.0) / people
    )
