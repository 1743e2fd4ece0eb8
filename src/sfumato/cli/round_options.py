"""Rounds on the command line: which people `perturb --round` asks, and what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.randomness import Keystream
from sfumato.source import Release, Source
from sfumato.table import Reader
from sfumato.table.readers import people_in
from sfumato.table.round import Round, RoundLock

if TYPE_CHECKING:
    from sfumato.engines.series import RoundSeries
    from sfumato.mechanisms.base import Mechanism
    from sfumato.rounds import RoundWanted


UNMARKED = (
    "nothing can be written beside these data, so nothing remembers that their people were asked: "
    "a second round 1 would ask them again"
)


@dataclass(frozen=True)
class RoundOptions:
    """What was said about rounds; None is what was not said."""

    round: int | None = None
    after: tuple[str, ...] = ()
    find: int | None = None
    output: str = ""
    force: bool = False
    data: str | None = None

    def wanted(
        self, chosen: MechanismOptions, copies: int, engine: str | None
    ) -> RoundWanted | None:
        """The round that is wanted, if any; what cannot be one is refused before anything is
        read.
        """
        if self.round is None and not self.after and self.find is None:
            return None
        from sfumato.rounds import RoundWanted, Spelling

        found = RoundWanted.of(
            self.round,
            after=self.after,
            find=self.find,
            mechanism=chosen.mechanism,
            guarantee=chosen.guarantee(),
            given=chosen.given,
            copies=copies,
            spell=Spelling(shell=True),
            data=self.data,
        )
        if engine is not None or "://" in self.output:
            raise ParameterError("a round is written to a file", hint="give a .parquet or .csv")
        return found

    def asked(
        self, wanted: RoundWanted, reader: Reader, domain: Domain, rng: Keystream
    ) -> tuple[Mechanism, Round]:
        """What the people of this round are asked, and who they are."""
        from sfumato.rounds import People

        count, output = partial(people_in, reader, domain), Path(self.output)
        return wanted.asked(People(domain, count, reader.where, output, self.force), rng)

    def keep(self, wanted: RoundWanted, turn: Round, name: str | None) -> None:
        """Remember that this round was asked."""
        if wanted.marked is not None:
            RoundLock(turn, Path(self.output), name).keep(wanted.marked)
        elif wanted.number == 1:
            print_notes([UNMARKED])


def earlier(paths: Sequence[str]) -> RoundSeries:
    """The rounds in these files."""
    from sfumato.engines.series import RoundSeries
    from sfumato.rounds import opened_rounds

    return RoundSeries.of(opened_rounds(paths))


def rounds_up_to(file: str, source: Source) -> list[str]:
    """The addresses of all rounds of a campaign whose latest this source is; else its own."""
    turn = source.provenance.turn if isinstance(source, Release) else None
    campaign = file.partition("#")[2]
    if turn is None or not campaign or "/" in campaign:
        return [file]
    return [f"{file}/{number}" for number in range(1, turn.round + 1)]


def tell(mechanism: Mechanism, turn: Round, output: str) -> None:
    """What this round asks and what comes next, for people."""
    design = mechanism.rounds
    assert design is not None
    share = f"round {turn.round} asks {100 * turn.shares[turn.round - 1]:.0f} % of the people"
    before = " and those before" if turn.round > 1 else ""
    after = f"next: --round {turn.round + 1} --after {Path(output)}{before}{design.after_next}"
    last = turn.round == len(design.shares)
    print_notes([f"{share}{design.asks(mechanism, turn.round)}", design.at_last if last else after])
