"""Rounds on the command line: which people `perturb --round` asks, and what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.randomness import Keystream
from sfumato.source import Release, Source
from sfumato.table import Reader
from sfumato.table.followers import Follower
from sfumato.table.groups import people_in
from sfumato.table.turns import NUMBER_SHARES, ROUNDS, Turn

if TYPE_CHECKING:
    from sfumato.engines.rounds import RoundsSource
    from sfumato.mechanisms.base import Mechanism

ITEM_SET = "item-set"
RANGES = "ranges"


@dataclass(frozen=True)
class RoundOptions:
    """What was said about rounds; None is what was not said."""

    round: int | None = None
    after: tuple[str, ...] = ()
    find: int | None = None
    output: str = ""
    force: bool = False

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
        if chosen.mechanism not in (None, ITEM_SET, RANGES):
            raise ParameterError(
                f"rounds are asked by {ITEM_SET} or {RANGES}, not by {chosen.mechanism}",
                hint="leave --mechanism out, or use --mechanism ranges for numbers",
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
                hint=f"name each: {' '.join(f'--after ROUND{n}' for n in range(1, self.round))}",
            )

    def first(
        self, chosen: MechanismOptions, domain: Domain, rng: Keystream
    ) -> tuple[Mechanism, Turn]:
        """What the first group is asked: any item, or one number."""
        guarantee = chosen.guarantee()
        if guarantee is None:
            raise ParameterError(
                "it is not said what the rounds should promise", hint="give --gamma 19"
            )
        if chosen.mechanism == RANGES:
            from sfumato.mechanisms.square_wave import SquareWave

            _check_several(domain)
            wave = SquareWave.promising(guarantee, domain, **chosen.given)
            return wave, Turn.first(rng, NUMBER_SHARES)
        from sfumato.mechanisms.item_set import ItemSet

        return ItemSet.promising(guarantee, domain, **chosen.given), Turn.first(rng)

    def following(
        self, chosen: MechanismOptions, reader: Reader, proposed: Domain
    ) -> tuple[Mechanism, Turn]:
        """What this group is asked, by what the groups before said."""
        from sfumato.engines.rounds import WANTED

        first = _number_round(self.after)
        if first is not None:
            return _second(first, chosen, reader, proposed, self._check_unasked)
        before = earlier(self.after)
        if before.turn.round != len(self.after):
            raise ParameterError(f"--after names round {before.turn.round} without those before it")
        if chosen.given:
            raise ParameterError("what a later round asks is chosen by the rounds before it")
        _check_promise(chosen, before)
        if proposed != before.domain:
            raise SchemaError(
                f"--after is about other items ({_some(before.domain, proposed)}) than these data "
                f"({_some(proposed, before.domain)})",
                hint="give the data, and --items, of the first round",
            )
        _check_people(before, people_in(reader, before.domain), reader.where)
        self._check_unasked(before.turn.next)
        mechanism = before.following(WANTED if self.find is None else self.find)
        return mechanism, before.turn.next

    def _check_unasked(self, turn: Turn) -> None:
        """Refuse to ask those again whom this round asked before."""
        if self._marked:
            Follower(turn, Path(self.output)).check(self._marked, force=self.force)

    def keep(self, turn: Turn) -> None:
        """Remember that this round was asked."""
        if self._marked:
            Follower(turn, Path(self.output)).keep(self._marked)

    @property
    def _marked(self) -> str | None:
        """The file beside which it is said that this round was asked; none in a database."""
        last = self.after[-1] if self.after else None
        return None if last is None or "://" in last else last


def _check_several(domain: Domain) -> None:
    if len(domain.private) < 2:
        raise SchemaError(
            "ranges asks about two columns at once, and this schema has one",
            hint="use --mechanism square-wave, without rounds",
        )


def _number_round(paths: Sequence[str]) -> Release | None:
    """The first round of numbers, where that is what comes before."""
    from sfumato.engines import open_source

    found = open_source(paths[0])
    if isinstance(found, Release) and found.mechanism.name == "square-wave":
        return found
    return None


def _second(
    first: Release,
    chosen: MechanismOptions,
    reader: Reader,
    proposed: Domain,
    check_unasked: Callable[[Turn], None],
) -> tuple[Mechanism, Turn]:
    """What the second group is asked about its numbers."""
    from sfumato.model.rounds import asked_after

    turn, guarantee = first.provenance.turn, chosen.guarantee()
    if turn is None:
        raise ParameterError(
            "a release that is no round asked everyone: a further report of the same people would "
            "compose with it",
            hint="begin with sfumato perturb … --round 1 --mechanism ranges",
        )
    if guarantee is not None and not guarantee.allows(first.mechanism.guarantee):
        raise ParameterError(
            f"the round before promised {first.mechanism.guarantee}, and this one should promise "
            f"{guarantee}",
            hint="leave the guarantee out: it is theirs",
        )
    if proposed != first.domain:
        raise SchemaError(
            "--after is about other columns than these data",
            hint="give the data, and --schema, of the first round",
        )
    everyone = people_in(reader, first.domain)
    _check_asked(turn, everyone, first.rows, reader.where)
    check_unasked(turn.next)
    return asked_after(first, turn.next.people(everyone)), turn.next


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
        _check_asked(turn, people, release.rows, where)


def _check_asked(turn: Turn, people: int, asked: int, where: str) -> None:
    if turn.people(people) != asked:
        raise DataError(
            f"{where} holds {people:,} people, of whom round {turn.round} would have asked "
            f"{turn.people(people):,}, and it asked {asked:,}: these are other people",
            hint="give the very data of the first round",
        )


def _some(domain: Domain, other: Domain) -> str:
    """Some of the items, those first which the other does not have."""
    strange = set(other.attributes[0].labels)
    return listing(sorted(domain.attributes[0].labels, key=strange.__contains__), most=3)


def tell(mechanism: Mechanism, turn: Turn, output: str) -> None:
    """What this round asks and what comes next, for people."""
    share = f"round {turn.round} asks {100 * turn.shares[turn.round - 1]:.0f} % of the people"
    of = _of_numbers if len(turn.shares) == len(NUMBER_SHARES) else _of_items
    print_notes(of(mechanism, turn, share, output))


def _of_numbers(mechanism: Mechanism, turn: Turn, share: str, output: str) -> tuple[str, str]:
    if turn.round == 1:
        return (
            f"{share} about one number each",
            f"next: --round 2 --after {Path(output)}, which takes its cuts from it",
        )
    cells = ", ".join(f"{name} {size}" for name, size in mechanism.described()["cells"].items())
    return (
        f"{share}, mostly about two numbers at once; cells: {cells}",
        "then fit both rounds: sfumato fit ROUND1 ROUND2 -o MODEL",
    )


def _of_items(mechanism: Mechanism, turn: Turn, share: str, output: str) -> tuple[str, str]:
    from sfumato.mechanisms.item_set import ItemSet

    assert isinstance(mechanism, ItemSet)
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
    return f"{share} {asked}", then
