"""Rounds on the command line: which people `perturb --round` asks, and what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.source import Release, Source
from sfumato.table import Reader
from sfumato.table.groups import people_in
from sfumato.table.turns import ROUNDS, SHARES, Turn

if TYPE_CHECKING:
    from sfumato.engines.rounds import RoundsSource
    from sfumato.mechanisms.item_set import ItemSet

ITEM_SET = "item-set"


@dataclass(frozen=True)
class RoundOptions:
    """What was said about rounds; None is what was not said."""

    round: int | None = None
    after: tuple[str, ...] = ()
    find: int | None = None

    @property
    def asked(self) -> bool:
        """Whether people are asked in rounds."""
        return self.round is not None

    def check(self, chosen: MechanismOptions, output: str, copies: int, engine: str | None) -> None:
        """Refuse what cannot be a round, before anything is read."""
        if self.round is None:
            if self.after or self.find is not None:
                raise ParameterError("--after and --find are of rounds", hint="add --round")
            return
        if not 1 <= self.round <= ROUNDS:
            raise ParameterError(f"--round {self.round}; there are rounds 1 to {ROUNDS}")
        if chosen.mechanism not in (None, ITEM_SET):
            raise ParameterError(
                f"rounds are asked by {ITEM_SET}, not by {chosen.mechanism}",
                hint="leave --mechanism out",
            )
        if engine is not None or "://" in output:
            raise ParameterError("a round is written to a file", hint="give a .parquet or .csv")
        if copies > 1:
            raise ParameterError("each person reports once in all rounds", hint="no --copies")
        self._check_before()

    def _check_before(self) -> None:
        assert self.round is not None
        if self.round == 1 and self.after:
            raise ParameterError("round 1 comes after nothing", hint="leave --after out")
        if len(self.after) != self.round - 1:
            before = " and ".join(f"round {number}" for number in range(1, self.round))
            raise ParameterError(
                f"round {self.round} comes after {before}, and --after names "
                f"{len(self.after) or 'no'} release{'' if len(self.after) == 1 else 's'}",
                hint=f"give --after RELEASE {self.round - 1} times, for each round before",
            )

    def first(self, chosen: MechanismOptions, domain: Domain) -> tuple[ItemSet, Turn]:
        """What the first group is asked: any item."""
        from sfumato.mechanisms.item_set import ItemSet

        guarantee = chosen.guarantee()
        if guarantee is None:
            raise ParameterError(
                "it is not said what the rounds should promise", hint="give --gamma 19"
            )
        return ItemSet.promising(guarantee, domain, **chosen.given), Turn.first()

    def following(
        self, chosen: MechanismOptions, reader: Reader, proposed: Domain
    ) -> tuple[ItemSet, Turn]:
        """What this group is asked, by what the groups before said."""
        from sfumato.engines.rounds import WANTED

        before = earlier(self.after)
        if before.turn.round != len(self.after):
            raise ParameterError(f"--after names round {before.turn.round} without those before it")
        if chosen.given:
            raise ParameterError("what a later round asks is chosen by the rounds before it")
        _check_promise(chosen, before)
        if proposed != before.domain:
            raise SchemaError(
                f"--after is about other items ({_some(before.domain)}) than these data "
                f"({_some(proposed)})",
                hint="give the data, and --items, of the first round",
            )
        _check_people(before, people_in(reader, before.domain), reader.where)
        mechanism = before.following(WANTED if self.find is None else self.find)
        return mechanism, before.turn.next


def earlier(paths: Sequence[str]) -> RoundsSource:
    """The rounds in these files."""
    from sfumato.engines import open_source
    from sfumato.engines.rounds import RoundsSource

    found = [open_source(path) for path in paths]
    for path, source in zip(paths, found, strict=True):
        if not isinstance(source, Release):
            raise ParameterError(
                f"'{path}' is no release, so no round", hint="give what was perturbed"
            )
    return RoundsSource.of([source for source in found if isinstance(source, Release)])


def rounds_up_to(file: str, source: Source) -> list[str]:
    """The addresses of all rounds of a campaign whose latest this source is; else its own."""
    turn = source.provenance.turn if isinstance(source, Release) else None
    campaign = file.partition("#")[2]
    if turn is None or not campaign or "/" in campaign:
        return [file]
    return [f"{file}/{number}" for number in range(1, turn.round + 1)]


def _check_promise(chosen: MechanismOptions, before: RoundsSource) -> None:
    from sfumato.mechanisms.item_set import simple

    guarantee = chosen.guarantee()
    if guarantee is None:
        return
    if simple(Fraction(guarantee.gamma)) != before.guarantee.gamma:
        raise ParameterError(
            f"the rounds before promised {before.guarantee}, and this one should promise "
            f"{guarantee}",
            hint="leave the guarantee out: it is theirs",
        )


def _check_people(before: RoundsSource, people: int, where: str) -> None:
    for release in before.releases:
        turn = release.provenance.turn
        assert turn is not None
        if turn.people(people) != release.rows:
            raise DataError(
                f"{where} holds {people:,} people, of whom round {turn.round} would have asked "
                f"{turn.people(people):,}, and it asked {release.rows:,}: these are other people",
                hint="give the very data of the first round",
            )


def _some(domain: Domain) -> str:
    return listing(domain.attributes[0].labels, most=3)


def tell(mechanism: ItemSet, turn: Turn, output: str) -> None:
    """What this round asks and what comes next, for people."""
    share = f"round {turn.round} asks {100 * SHARES[turn.round - 1]:.0f} % of the people"
    lengths = sorted({len(each) for each in mechanism.candidates})
    asked = (
        "for any item"
        if turn.round == 1
        else f"for {len(mechanism.candidates)} candidates of {lengths[0]} to {lengths[-1]} items"
    )
    then = (
        f"next: --round {turn.round + 1} --after {Path(output)}"
        + (" and those before" if turn.round > 1 else "")
        if turn.round < ROUNDS
        else "then mine all rounds together: sfumato mine ROUND1 ROUND2 ROUND3"
    )
    print_notes((f"{share} {asked}", then))
