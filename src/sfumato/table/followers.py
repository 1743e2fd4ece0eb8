"""Followers: the round that was asked after a release, said beside it: nobody is asked twice."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import ParameterError
from sfumato.files import write_whole
from sfumato.received import Received, parsed_json, read_text
from sfumato.table.turns import Turn

ENDING = ".next"


@dataclass(frozen=True)
class Follower:
    """The round that comes after a release, and the file it was written to."""

    turn: Turn
    output: Path

    @classmethod
    def of(cls, release: str | Path) -> Follower | None:
        """The one that is known of, if any."""
        mark = _mark(release)
        if not mark.exists():
            return None
        given = Received(parsed_json(read_text(mark, "round"), str(mark)), str(mark))
        return cls(Turn.from_dict(given["turn"]), mark.parent / given["output"].word())

    def check(self, release: str | Path, *, force: bool) -> None:
        """Refuse a second round of the same people, unless it takes the place of the first."""
        known = Follower.of(release)
        if known is None or known.turn != self.turn:
            return
        if force and known.output.resolve() == self.output.resolve():
            return
        raise ParameterError(
            f"round {self.turn.round} of these people was asked already and written to "
            f"{known.output}: what a second report promises composes with the first",
            hint=f"use that file; if nobody ever saw it, delete {_mark(release)} to ask anew",
        )

    def keep(self, release: str | Path) -> None:
        """Say it beside the release."""
        mark = _mark(release)
        output = os.path.relpath(self.output.resolve(), mark.parent.resolve())
        said = {"turn": self.turn.to_dict(), "output": output}
        write_whole(mark, json.dumps(said).encode() + b"\n")


def _mark(release: str | Path) -> Path:
    return Path(f"{release}{ENDING}")
