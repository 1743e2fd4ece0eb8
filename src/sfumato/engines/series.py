"""Series: the rounds that people were asked in, one group after the other, as one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.domain import Cells, Items
from sfumato.engines.combining import CombinedSource
from sfumato.errors import ParameterError, SchemaError, Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.pooled_rounds import PooledRounds, next_asking
from sfumato.estimation.round_tally import RoundTally, pooled
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.estimation.supports.supports import Supports
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import ROUNDS, Asking, RoundDesign
from sfumato.mechanisms.item_set import WANTED
from sfumato.mechanisms.sizes import SizeBins
from sfumato.privacy.guarantee import Guarantee
from sfumato.source import Release
from sfumato.table.round import Round


@dataclass(frozen=True, eq=False, repr=False)
class RoundSeries(CombinedSource):
    """The rounds of one series: releases of different people, as those of several sites are, each
    asked what the rounds before it made worth asking.
    """

    sources: tuple[Release, ...]  # in the order of their rounds, from the first on

    @classmethod
    def of(cls, releases: Sequence[Release]) -> RoundSeries:
        """The rounds, once they are known to belong together."""
        if not releases:
            raise ParameterError("there is no round; give the releases of one or more")
        turns = [_turn_of(release) for release in releases]
        numbers = [release for release in releases if release.mechanism.symbol_law is None]
        if 0 < len(numbers) < len(releases):
            raise _about_numbers(numbers[0])
        if len({turn.series for turn in turns}) > 1:
            raise ParameterError(
                "these rounds are of different series, so that some people may be in both",
                hint="give the rounds of one series: each was made --after the one before",
            )
        ordered = sorted(releases, key=lambda release: _turn_of(release).round)
        _check_numbers([_turn_of(release).round for release in ordered])
        _check_alike(ordered)
        return cls(tuple(ordered))

    @property
    def turns(self) -> tuple[Round, ...]:
        """The rounds that were asked."""
        return tuple(map(_turn_of, self.sources))

    @property
    def mechanism(self) -> Mechanism:
        """What the first group was asked by."""
        return self.sources[0].mechanism

    @property
    def guarantee(self) -> Guarantee:
        """What everybody was promised."""
        return self.mechanism.guarantee

    @property
    def design(self) -> RoundDesign:
        """How the series is asked."""
        found = self.mechanism.rounds
        if found is None:
            raise ParameterError(f"no series of rounds is asked by {self.mechanism.name}")
        return found

    # What the rounds say.

    @cached_property
    def pooled(self) -> PooledRounds:
        """What all of them said of baskets."""
        items = self.domain.private.attributes[0]
        assert isinstance(items, Items)
        return PooledRounds(pooled([_tally_of(release) for release in self.sources]), items.size)

    def supports(self) -> Supports:
        if self.mechanism.symbol_law is None:
            raise _about_numbers(self.sources[-1])
        if len(self.sources) == 1:  # no other round tells what its cap left out of large baskets
            return self.sources[0].supports()
        names = self.domain.private.attributes[0].labels
        return AskedSupports(names, self.rows, self.pooled)

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        if self.domain.private.baskets:
            raise Unanswerable(
                "rounds are mined for itemsets",
                hint="use sfumato mine, or ask one release at a time",
            )
        return super()._estimate(cells)

    # What the next one asks.

    def next_round(self, wanted: int = WANTED) -> Mechanism:
        """What the people of the next round are asked, by what those so far said."""
        design, asked = self.design, len(self.sources)
        if asked == len(design.shares):
            raise ParameterError(
                f"all {asked} rounds of these people were asked", hint=design.at_last
            )
        people = self.rows * design.shares[asked] / sum(design.shares[:asked])
        return design.following(self, max(people, 1), wanted)

    def asking(self, wanted: int, people: float, most: int) -> Asking:
        """What to ask so many further people about their baskets."""
        return next_asking(self.pooled, wanted, float(self.guarantee.gamma), people, most)


def _about_numbers(release: Release) -> ParameterError:
    return ParameterError(
        f"one of these is round {_turn_of(release).round} about numbers "
        f"({release.mechanism.name}), which goes with no round of baskets",
        hint="give the rounds of one series; about numbers there are two, the second "
        "--after the first, and sfumato fit takes both",
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


def _check_alike(rounds: Sequence[Release]) -> None:
    """Refuse rounds that are of different data, or promised different things."""
    first = rounds[0]
    for other in rounds[1:]:
        if other.domain != first.domain:
            parts = "items" if first.domain.private.baskets else "columns"
            raise SchemaError(f"the rounds have different {parts}, so they are of different data")
        if other.mechanism.guarantee != first.mechanism.guarantee:
            raise ParameterError(
                f"one round promised {first.mechanism.guarantee}, another "
                f"{other.mechanism.guarantee}",
                hint="the rounds of one series promise the same",
            )


def _turn_of(release: Release) -> Round:
    turn = release.provenance.turn
    if turn is None:
        raise ParameterError(
            "a release that is no round asked everyone: a further report of the same people would "
            "compose with it",
            hint="begin with sfumato perturb … --round 1; what is no round is mined by itself",
        )
    return turn


@lru_cache(maxsize=2 * ROUNDS)
def _tally_of(release: Release) -> RoundTally:
    """What a release says of its itemsets; kept, since every later round asks for it again."""
    law = release.mechanism.symbol_law
    assert law is not None
    counts, people = release.counter.count(law.tally.cells), max(release.rows, 1)
    kept, variance = law.kept(counts)
    tiers = None
    if law.full is not None:
        full, noise = law.full(counts)
        tiers = SizeBins(law.tiers, full / people, noise / people**2, len(law.itemsets))
    shares = np.asarray(kept) / people, np.asarray(variance) / people**2
    return RoundTally(
        law.itemsets, *shares, law.cap, people, law.whole, tiers, max(law.slope, 0.0) / people
    )
