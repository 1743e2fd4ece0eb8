"""Rounds on the command line: which people `perturb --round` asks, and what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.options import Options, option
from sfumato.cli.printing import print_notes
from sfumato.errors import ParameterError
from sfumato.release import Release
from sfumato.source import Source
from sfumato.table.round import Round

if TYPE_CHECKING:
    from sfumato.engines.several import RoundSeries
    from sfumato.mechanisms.base import Mechanism
    from sfumato.rounds import RoundWanted

UNMARKED = (
    "nothing can be written beside these data, so nothing remembers that their people were asked: "
    "a second round 1 would ask them again"
)
in_rounds = partial(option, panel="Baskets in rounds")


@dataclass(frozen=True)
class RoundOptions(Options):
    """Which round is asked, after which, and how much the rounds look for."""

    turn: Annotated[
        int | None,
        in_rounds(
            "Ask baskets in rounds: 40 % of the people for any item, then 30 % and 30 % for what "
            "those before them made probable.",
            "--round",
            metavar="K",
        ),
    ] = None
    after: Annotated[
        list[str] | None, in_rounds("A round before this one; once for each.", metavar="RELEASE")
    ] = None
    find: Annotated[
        int | None,
        in_rounds(
            "How many itemsets of largest support the rounds look for; 64 unless stated.",
            min=1,
            max=4096,
        ),
    ] = None

    def wanted(
        self, chosen: MechanismOptions, engine: str | None, output: str, **said: Any
    ) -> RoundWanted | None:
        """The round, if one is wanted; what cannot be one is refused before anything is read."""
        if self.turn is None and not self.after and self.find is None:
            return None
        from sfumato.rounds import RoundWanted, Spelling

        found = RoundWanted.of(
            self.turn,
            after=tuple(self.after or ()),
            find=self.find,
            mechanism=chosen.mechanism,
            guarantee=chosen.guarantee(),
            given=chosen.given,
            spell=Spelling(shell=True),
            output=Path(output),
            **said,
        )
        if engine is not None or "://" in output:
            raise ParameterError("a round is written to a file", hint="give a .parquet or .csv")
        return found


def earlier(paths: Sequence[str]) -> RoundSeries:
    """The rounds in these files."""
    from sfumato.engines.several import RoundSeries
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
