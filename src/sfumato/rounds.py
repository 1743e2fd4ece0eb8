"""Rounds as they are asked for, in the shell or in Python: whom one of them asks, and what, by what
the rounds before it said.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.arguments import shown
from sfumato.counting import Counter
from sfumato.domain import Domain
from sfumato.engines import open_source
from sfumato.engines.several import RoundSeries
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import IN_ROUNDS, ROUNDS
from sfumato.mechanisms.item_set import WANTED
from sfumato.mechanisms.registry import round_design
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream
from sfumato.release import Release
from sfumato.source import Source
from sfumato.table import Provenance
from sfumato.table.round import Round, RoundLock, check_unasked

MOST_FOUND = 4096  # itemsets that rounds may look for


@dataclass(frozen=True)
class Spelling:
    """How an option is written: as in the shell, or as in Python.

    >>> Spelling(shell=True)("after", "ONE", "TWO"), Spelling()("after", "ONE", "TWO")
    ('--after ONE --after TWO', "after=['ONE', 'TWO']")
    >>> Spelling(shell=True)("gamma", 19), Spelling()("gamma", 19), Spelling()("round")
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
class RoundWanted:
    """A round that somebody wants asked: what was said of it, None where nothing was."""

    number: int
    after: tuple[Any, ...] = ()  # the rounds before it: releases, or their files and tables
    find: int | None = None
    mechanism: str | None = None
    guarantee: Guarantee | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own options
    copies: int = 1
    spell: Spelling = Spelling()
    data: Any = None  # the people: a file, or whatever they are in
    output: Path | None = None  # where reports are written, if anywhere yet
    force: bool = False  # whether another file there may be replaced

    @classmethod
    def of(cls, number: int | None, **said: Any) -> RoundWanted | None:
        """The round, where one is wanted at all; what is said of rounds alone is refused else."""
        if number is not None:
            return cls(number, **said)
        if said["after"] or said["find"] is not None:
            spell = said["spell"]
            raise ParameterError(
                f"{spell('after')} and {spell('find')} are of rounds", hint=f"add {spell('round')}"
            )
        return None

    def __post_init__(self) -> None:
        spell = self.spell
        if not 1 <= self.number <= ROUNDS:
            raise ParameterError(f"{spell('round', self.number)}; there are rounds 1 to {ROUNDS}")
        if self.mechanism not in (None, *IN_ROUNDS):
            raise ParameterError(
                f"rounds are asked by {' or '.join(IN_ROUNDS)}, not by {self.mechanism}",
                hint=f"leave {spell('mechanism')} out, or use {spell('mechanism', 'ranges')} for "
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
        spell, named = self.spell, len(self.after)
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

    def asked(
        self, domain: Domain, count: Callable[[], int], where: str, rng: Keystream
    ) -> tuple[Mechanism, Round]:
        """What the people of this round are asked, refused where they were asked before: those with
        these columns, as many as someone counts, whose data messages call so.
        """
        if self.number == 1:
            return self._first(domain, rng)
        return self._following(domain, count, where)

    def _check_unasked(self, asked: Round) -> None:
        if self.marked is None:
            return
        if self.output is None:
            check_unasked(self.marked, asked)
        else:
            RoundLock(asked, self.output).check(self.marked, force=self.force)

    def keep(self, asked: Round, release: str | None) -> bool:
        """Remember beside a file that this round was asked, if anything can."""
        if self.marked is None or self.output is None:
            return False
        RoundLock(asked, self.output, release).keep(self.marked)
        return True

    def _first(self, domain: Domain, rng: Keystream) -> tuple[Mechanism, Round]:
        """What the first group is asked: any item, or one number."""
        if self.guarantee is None:
            raise ParameterError(
                "it is not said what the rounds should promise",
                hint=f"give {self.spell('gamma', 19)}",
            )
        design = round_design(self.mechanism or IN_ROUNDS[0])
        mechanism = design.first(self.guarantee, domain, **self.given)
        first = Round.first(rng, design.shares)
        self._check_unasked(first)
        return mechanism, first

    def _following(
        self, domain: Domain, count: Callable[[], int], where: str
    ) -> tuple[Mechanism, Round]:
        """What this group is asked, by what the groups before said."""
        series = RoundSeries.of(opened_rounds(self.after))
        spell, design, last = self.spell, series.design, series.turns[-1]
        if self.mechanism not in (None, design.asked_by):
            raise ParameterError(
                f"{spell('after')} is a round of {design.asked_by}, and "
                f"{spell('mechanism', self.mechanism)} is none of that series",
                hint=f"leave {spell('mechanism')} out: it is that of the rounds before",
            )
        if self.number > len(design.shares):
            raise ParameterError(
                f"of {design.about} there are {len(design.shares)} rounds, and all are asked",
                hint=design.at_last,
            )
        self._check_chosen(series)
        if domain != series.domain:
            asked, given = _some(series.domain, domain), _some(domain, series.domain)
            unlike = (
                f"other values of {asked} than these data have"
                if asked == given
                else f"other {design.about} ({asked}) than these data ({given})"
            )
            raise SchemaError(
                f"{spell('after')} is about {unlike}",
                hint=f"give the data, and the {design.about}, of the first round",
            )
        _check_asked(series, count(), where)
        self._check_unasked(last.next)
        return series.next_round(WANTED if self.find is None else self.find), last.next

    def _check_chosen(self, series: RoundSeries) -> None:
        """Refuse what the rounds before have chosen already: what is asked, and the promise."""
        if self.given:
            raise ParameterError(
                "what a later round asks is chosen by the rounds before it, and "
                f"{listing(map(self.spell, self.given))} would choose it anew",
                hint="leave it out",
            )
        asked, before = self.guarantee, series.guarantee
        if asked is None or math.isclose(asked.gamma, before.gamma, rel_tol=1e-12):
            return
        if series.design.first(asked, series.domain).guarantee != before:
            raise ParameterError(
                f"the rounds before promised {before}, and this one should promise {asked}",
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


def _check_asked(series: RoundSeries, people: int, where: str) -> None:
    """Refuse data of other people than those whom the rounds so far asked."""
    for turn, release in zip(series.turns, series.sources, strict=True):
        if turn.people(people) != release.rows:
            raise DataError(
                f"{where} holds {people:,} people, of whom round {turn.round} would have asked "
                f"{turn.people(people):,}, and it asked {release.rows:,}: these are other people",
                hint="give the very data of the first round",
            )


def _some(domain: Domain, other: Domain) -> str:
    """Some of the items, or columns, those first which the other does not have."""
    own, strange = (
        each.attributes[0].labels if each.baskets else each.names for each in (domain, other)
    )
    return listing(sorted(own, key=set(strange).__contains__), most=3)


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
        lock = RoundLock(turn, Path(path), self.provenance.release)
        lock.check(self.after, force=force)
        super().save(path, force=force)
        lock.keep(self.after)
