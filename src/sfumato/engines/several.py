"""Several releases as one source: sites whose people are different, and the rounds of one series,
whose people are different groups asked one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sfumato.arguments import checked
from sfumato.domain import Cells, Domain, Items
from sfumato.errors import EstimationError, ParameterError, SchemaError, Unanswerable, listing
from sfumato.estimation.baskets.asking import next_asking
from sfumato.estimation.baskets.caps import RoundTally
from sfumato.estimation.baskets.pooled import PooledRounds
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.pooled import SummedMoments, SummedSupports, summed
from sfumato.estimation.pooled import pooled as pooled_estimate
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.estimation.supports.supports import Supports
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import ROUNDS, Asking, RoundDesign
from sfumato.mechanisms.item_set import WANTED
from sfumato.mechanisms.sizes import SizeBins
from sfumato.privacy.guarantee import Guarantee
from sfumato.release import Release
from sfumato.source import MINED_TABLE, Source
from sfumato.table.round import Round
from sfumato.view import TableView, View


@dataclass(frozen=True, eq=False, repr=False)
class CombinedSource(Source):
    """Several sources of different people over one domain, each undone by its own mechanism, then
    added.
    """

    sources: tuple[Source, ...]
    alike: bool = False

    def __post_init__(self) -> None:
        if not self.sources:
            raise ParameterError("there is nothing to combine; give at least one release")
        for other in self.sources[1:]:
            strange = sorted(set(self.domain.names) ^ set(other.domain.names))
            if strange:
                raise SchemaError(
                    f"releases to combine must have the same columns; '{strange[0]}' is not in "
                    "all of them"
                )
            for attribute in self.domain:
                if attribute != other.domain[attribute.name]:
                    raise SchemaError(
                        f"releases to combine must have the same domain; '{attribute.name}' has "
                        "other values in one of them"
                    )

    @property
    def domain(self) -> Domain:
        return self.sources[0].domain

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)

    def __repr__(self) -> str:
        return f"{self.rows:,} people's records of {listing(self.domain.names)}, in {self._told}"

    def view(self) -> View:
        """The sites and their people."""
        lines = [(place, repr(each)) for place, each in enumerate(self.sources, 1)]
        title = f"{self.rows:,} people in {self._told}"
        return View(title, tables=(TableView.of(("site", "records"), lines),))

    @property
    def _told(self) -> str:
        return f"{len(self.sources)} {'releases' if len(self.sources) > 1 else 'release'}"

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        by_source = [source._estimates(questions) for source in self.sources]
        added = pooled_estimate if self.alike else summed
        return [added(estimates) for estimates in zip(*by_source, strict=True)]

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        if self.alike:
            raise EstimationError(
                "sums are added over releases, not pooled", hint="combine them without alike"
            )
        return SummedMoments(tuple(source.moments(cells, axis) for source in self.sources))

    def sums(self, name: str) -> bool:
        return not self.alike and all(source.sums(name) for source in self.sources)

    def supports(self) -> Supports:
        if self.domain.private.baskets:
            return SummedSupports(tuple(source.supports() for source in self.sources))
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        return TabulatedSupports(
            columns, self.rows, (self.condensed(columns) if small else self).marginal, exact=False
        )


@checked
def combine(sources: Sequence[Source], *, alike: bool = False) -> Source:
    """One source of releases over the same domain that are about different people, whatever their
    mechanisms and keeps.

    Counts of the union are sums of counts, and the noises are independent, so estimates and
    covariances add; nothing is assumed about how the sites differ. With `alike` the people of all
    sites are taken as samples of one population, and each site's shares are weighted by 1 / their
    variance: smaller errors where the keeps differ, but wrong if the sites differ.

    >>> from sfumato.release import Exact
    >>> from sfumato.table import read
    >>> towns = [Exact(read({"smoker": ["no", "yes", smokes]})) for smokes in ("yes", "no")]
    >>> combine(towns).marginal(["smoker"]).where(smoker="yes").value
    3.0
    """
    return CombinedSource(tuple(sources), alike)


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
        about_numbers = [each for each in releases if each.mechanism.symbol_law is None]
        if 0 < len(about_numbers) < len(releases):
            raise _about_numbers(about_numbers[0])
        if len({turn.series for turn in turns}) > 1:
            raise ParameterError(
                "these rounds are of different series, so that some people may be in both",
                hint="give the rounds of one series: each was made --after the one before",
            )
        ordered = sorted(releases, key=lambda release: _turn_of(release).round)
        numbers = [_turn_of(release).round for release in ordered]
        for number in numbers:
            if numbers.count(number) > 1:
                raise ParameterError(
                    f"two releases are round {number} of the same people: what each promised "
                    "composes",
                    hint="give each round once",
                )
        missing = [number for number in range(1, numbers[-1]) if number not in numbers]
        if missing:
            raise ParameterError(
                f"round {numbers[-1]} comes after round {missing[0]}, which is not here",
                hint="give all the rounds before it",
            )
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
        return PooledRounds(tuple(map(_tally_of, self.sources)), items.size)

    def supports(self) -> Supports:
        if self.mechanism.symbol_law is None:
            raise _about_numbers(self.sources[-1])
        if len(self.sources) == 1:  # no other round tells what its cap left out of large baskets
            return self.sources[0].supports()
        names = self.domain.private.attributes[0].labels
        return AskedSupports(names, self.rows, self.pooled)

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        if self.domain.private.baskets:
            raise Unanswerable(
                "rounds are mined for itemsets",
                hint="use sfumato mine, or ask one release at a time",
            )
        return super()._estimates(questions)

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
    share, noise, number = kept / people, variance / people**2, len(law.itemsets)
    tiers = None
    if law.full is not None:
        full, error = law.full(counts)
        tiers = SizeBins.told(law.tiers, full / people, error / people**2, number)
    elif law.cap < number:
        tiers = SizeBins.untold(share, law.cap, number)
    slope = max(law.slope, 0.0) / people
    return RoundTally(law.itemsets, share, noise, law.cap, people, law.whole, tiers, slope)
