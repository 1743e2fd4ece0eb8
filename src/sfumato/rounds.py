"""Rounds as they are asked for, in the shell or in Python: whom one of them asks, and what, by what
the rounds before it said.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.arguments import shown
from sfumato.counting.base import Counter
from sfumato.domain import Domain
from sfumato.engines import open_source
from sfumato.engines.rounds import WANTED, RoundsSource
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.item_set import ItemSet, simple
from sfumato.mechanisms.ranges import Ranges
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.model.rounds import asked_after
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream
from sfumato.source import Release, Source
from sfumato.table import Provenance
from sfumato.table.followers import Follower
from sfumato.table.turns import NUMBER_SHARES, ROUNDS, Turn

ITEM_SET, RANGES = "item-set", "ranges"
MOST_FOUND = 4096  # itemsets that rounds may look for


@dataclass(frozen=True)
class Tongue:
    """How an option is written: as in the shell, or as in Python.

    >>> Tongue(shell=True)("after", "ONE", "TWO"), Tongue()("after", "ONE", "TWO")
    ('--after ONE --after TWO', "after=['ONE', 'TWO']")
    >>> Tongue(shell=True)("gamma", 19), Tongue()("gamma", 19), Tongue()("round")
    ('--gamma 19', 'gamma=19', 'round')
    """

    shell: bool = False

    def __call__(self, name: str, *values: object) -> str:
        if self.shell:
            return " ".join(f"--{name} {value}" for value in values) or f"--{name}"
        if not values:
            return name
        return f"{name}={(values[0] if len(values) == 1 else [*values])!r}"


@dataclass(frozen=True)
class People:
    """Those of whom a round asks some: the columns they are read by, how many they are once someone
    counts, what messages call their data, and what refuses a turn that was asked before.
    """

    domain: Domain
    count: Callable[[], int]
    where: str
    unasked: Callable[[Turn], None]


@dataclass(frozen=True)
class RoundWanted:
    """A round that somebody wants asked: what was said of it, None where nothing was."""

    number: int
    after: tuple[Any, ...] = ()  # the rounds before it: releases, or their files and tables
    find: int | None = None
    mechanism: str | None = None
    guarantee: Guarantee | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own options
    copies: int = 1
    tongue: Tongue = Tongue()
    data: Any = None  # the people: a file, or whatever they are in

    @classmethod
    def of(cls, number: int | None, **said: Any) -> RoundWanted | None:
        """The round, where one is wanted at all; what is said of rounds alone is refused else."""
        if number is not None:
            return cls(number, **said)
        if said["after"] or said["find"] is not None:
            spell = said["tongue"]
            raise ParameterError(
                f"{spell('after')} and {spell('find')} are of rounds", hint=f"add {spell('round')}"
            )
        return None

    def __post_init__(self) -> None:
        spell = self.tongue
        if not 1 <= self.number <= ROUNDS:
            raise ParameterError(f"{spell('round', self.number)}; there are rounds 1 to {ROUNDS}")
        if self.mechanism not in (None, ITEM_SET, RANGES):
            raise ParameterError(
                f"rounds are asked by {ITEM_SET} or {RANGES}, not by {self.mechanism}",
                hint=f"leave {spell('mechanism')} out, or use {spell('mechanism', RANGES)} for "
                "numbers",
            )
        if self.find is not None and not 1 <= self.find <= MOST_FOUND:
            raise ParameterError(f"{spell('find', self.find)}; use 1 to {MOST_FOUND:,}")
        if self.copies > 1:
            raise ParameterError(
                "each person reports once in all rounds", hint=f"no {spell('copies')}"
            )
        self._check_before()

    def _check_before(self) -> None:
        spell, named = self.tongue, len(self.after)
        if self.number == 1 and self.after:
            raise ParameterError("round 1 comes after nothing", hint=f"leave {spell('after')} out")
        if named != self.number - 1:
            before = [f"round {number}" for number in range(1, self.number)]
            files = [f"ROUND{number}" for number in range(1, self.number)]
            raise ParameterError(
                f"round {self.number} comes after {' and '.join(before)}, and {spell('after')} "
                f"names {named or 'no'} release{'' if named == 1 else 's'}",
                hint=f"name each: {spell('after', *files)}",
            )

    def first(self, domain: Domain, rng: Keystream) -> tuple[Mechanism, Turn]:
        """What the first group is asked: any item, or one number."""
        if self.guarantee is None:
            raise ParameterError(
                "it is not said what the rounds should promise",
                hint=f"give {self.tongue('gamma', 19)}",
            )
        if self.mechanism == RANGES:
            self._check_several(domain)
            wave = SquareWave.promising(self.guarantee, domain, **self.given)
            return wave, Turn.first(rng, NUMBER_SHARES)
        return ItemSet.promising(self.guarantee, domain, **self.given), Turn.first(rng)

    def _check_several(self, domain: Domain) -> None:
        if len(domain.private) < 2:
            raise SchemaError(
                "ranges asks about two columns at once, and this schema has one",
                hint=f"use {self.tongue('mechanism', SquareWave.name)}, without rounds",
            )

    def following(self, people: People) -> tuple[Mechanism, Turn]:
        """What this group is asked, by what the groups before said."""
        before = opened_rounds(self.after)
        numbers = isinstance(before[0].mechanism, SquareWave | Ranges)
        if before[0].provenance.turn is not None:
            self._check_mechanism(RANGES if numbers else ITEM_SET)
        return (self._second if numbers else self._candidates)(before, people)

    def _check_mechanism(self, theirs: str) -> None:
        """Refuse a mechanism other than the one by which the series is asked."""
        if self.mechanism not in (None, theirs):
            spell = self.tongue
            raise ParameterError(
                f"{spell('after')} is a round of {theirs}, and {spell('mechanism', self.mechanism)}"
                " is none of that series",
                hint=f"leave {spell('mechanism')} out: it is that of the rounds before",
            )

    def _candidates(self, releases: Sequence[Release], people: People) -> tuple[Mechanism, Turn]:
        """What the next group is asked about its baskets."""
        before, domain = RoundsSource.of(releases), people.domain
        if before.turn.round != len(self.after):
            raise ParameterError(
                f"{self.tongue('after')} names round {before.turn.round} without those before it"
            )
        self._check_chosen()
        self._check_promise(before.guarantee, exactly=True)
        if domain != before.domain:
            raise SchemaError(
                f"{self.tongue('after')} is about other items ({_some(before.domain, domain)}) "
                f"than these data ({_some(domain, before.domain)})",
                hint=f"give the data, and {self.tongue('items')}, of the first round",
            )
        _check_asked(before.releases, people.count(), people.where)
        people.unasked(before.turn.next)
        return before.following(WANTED if self.find is None else self.find), before.turn.next

    def _second(self, releases: Sequence[Release], people: People) -> tuple[Mechanism, Turn]:
        """What the second group is asked about its numbers."""
        first, turn = releases[0], releases[0].provenance.turn
        if turn is None:
            raise ParameterError(
                "a release that is no round asked everyone: a further report of the same people "
                "would compose with it",
                hint=f"begin with round 1: {self._begin}",
            )
        if self.number > len(NUMBER_SHARES):
            raise ParameterError(
                f"about numbers there are {len(NUMBER_SHARES)} rounds, and both are asked",
                hint="fit them together",
            )
        if turn.round != 1:
            raise ParameterError(
                f"round 2 comes after round 1, and {self.tongue('after')} names round {turn.round}",
                hint=f"name the first: {self.tongue('after', 'ROUND1')}",
            )
        self._check_chosen()
        self._check_promise(first.mechanism.guarantee)
        if people.domain != first.domain:
            raise SchemaError(
                f"{self.tongue('after')} is about other columns than these data",
                hint=f"give the data, and {self.tongue('schema')}, of the first round",
            )
        everyone = people.count()
        _check_asked(releases, everyone, people.where)
        people.unasked(turn.next)
        return asked_after(first, turn.next.people(everyone)), turn.next

    def _check_chosen(self) -> None:
        if self.given:
            raise ParameterError(
                "what a later round asks is chosen by the rounds before it, and "
                f"{listing(map(self.tongue, self.given))} would choose it anew",
                hint="leave it out",
            )

    @property
    def _begin(self) -> str:
        if self.tongue.shell:
            return "sfumato perturb … --round 1 --mechanism ranges"
        return "sf.perturb(…, 'ranges', gamma=19, round=1)"

    def _check_promise(self, before: Guarantee, exactly: bool = False) -> None:
        asked = self.guarantee
        if asked is None:
            return
        same = simple(Fraction(asked.gamma)) == before.gamma if exactly else asked.allows(before)
        if not same and not math.isclose(asked.gamma, before.gamma, rel_tol=1e-12):
            rounds = "rounds before" if exactly else "round before"
            raise ParameterError(
                f"the {rounds} promised {before}, and this one should promise {asked}",
                hint="leave the guarantee out: it is theirs",
            )

    @cached_property
    def marked(self) -> Path | None:
        """The file beside which it is said that this round was asked: that of the round before it,
        in whichever order they are named, and of the people themselves for the first; none where
        that stands in a database or in memory, or nothing can be written beside it.
        """
        if self.number == 1:
            return _people_file(self.data)
        files = [each for each in self.after if isinstance(each, str | Path)]
        for path in (Path(each).resolve() for each in files if "://" not in str(each)):
            turn = _opened(path).provenance.turn
            if turn is not None and turn.round == self.number - 1:
                return path
        return None


def _people_file(data: Any) -> Path | None:
    if not isinstance(data, str | Path) or not Path(data).is_file():
        return None
    path = Path(data).resolve()
    return path if os.access(path.parent, os.W_OK) else None


def opened_rounds(rounds: Sequence[Any]) -> list[Release]:
    """The releases, opened where they are named by their files or tables."""
    return [_opened(each) for each in rounds]


def _opened(each: Any) -> Release:
    found = each if isinstance(each, Source) else open_source(each)
    if not isinstance(found, Release):
        called = f"'{each}'" if isinstance(each, str | Path) else shown(each)
        raise ParameterError(f"{called} is no release, so no round", hint="give what was perturbed")
    return found


def _check_asked(releases: Sequence[Release], people: int, where: str) -> None:
    """Refuse data of other people than those whom the rounds so far asked."""
    for release in releases:
        turn = release.provenance.turn
        assert turn is not None
        if turn.people(people) != release.rows:
            raise DataError(
                f"{where} holds {people:,} people, of whom round {turn.round} would have asked "
                f"{turn.people(people):,}, and it asked {release.rows:,}: these are other people",
                hint="give the very data of the first round",
            )


def _some(domain: Domain, other: Domain) -> str:
    """Some of the items, those first which the other does not have."""
    strange = set(other.attributes[0].labels)
    return listing(sorted(domain.attributes[0].labels, key=strange.__contains__), most=3)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class MarkedRound(Release):
    """A round in memory that was asked after one in a file, or of the people of a file: once it is
    saved, that is said beside that file, so that nobody is asked twice.
    """

    after: Path

    def __init__(self, counter: Counter, provenance: Provenance, after: Path) -> None:
        super().__init__(counter, provenance)
        object.__setattr__(self, "after", after)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the reports with their mechanism, unless others of the same round were written."""
        turn = self.provenance.turn
        assert turn is not None
        follower = Follower(turn, Path(path), self.provenance.release)
        follower.check(self.after, force=force)
        super().save(path, force=force)
        follower.keep(self.after)
