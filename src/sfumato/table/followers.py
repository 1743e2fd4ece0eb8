"""Followers: the round that was asked after a release, or of the people of a file, said beside it:
nobody is asked twice.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import ParameterError
from sfumato.files import write_whole
from sfumato.received import Received, parsed_json, read_text
from sfumato.table.turns import Turn

ENDING = ".next"


@dataclass(frozen=True)
class Follower:
    """The round that comes after a release (the first one: after the true records), the file it was
    written to and, where it is known, its own name; whether it was written to other files too.
    """

    turn: Turn
    output: Path
    name: str | None = None
    copied: bool = False

    @classmethod
    def of(cls, release: str | Path) -> Follower | None:
        """The one that is known of, if any."""
        mark = _mark(release)
        if not mark.exists():
            return None
        given = Received(parsed_json(read_text(mark, "round"), str(mark)), str(mark))
        name = given["release"].word() if "release" in given.fields() else None
        output = mark.parent / given["output"].word()
        return cls(Turn.from_dict(given["turn"]), output, name, "copied" in given.fields())

    def check(self, release: str | Path, *, force: bool) -> None:
        """Refuse a second round of the same people, unless it takes the place of the first or is
        the first, written once more.
        """
        known = Follower.of(release)
        if known is not None:
            replaced = force and not known.copied and known.output.resolve() == self._place
            if replaced or known.writes(self):
                return
        check_unasked(release, self.turn)

    @property
    def _place(self) -> Path:
        return self.output.resolve()

    def writes(self, other: Follower) -> bool:
        """Whether another is the same release."""
        return self.name is not None and self.name == other.name

    def keep(self, release: str | Path) -> None:
        """Say it beside the release."""
        mark, known = _mark(release), Follower.of(release)
        again = known if known is not None and known.writes(self) else None
        copied = again is not None and (again.copied or again._place != self._place)
        output = os.path.relpath(self._place, mark.parent.resolve())
        said: dict[str, Any] = {"turn": self.turn.to_dict(), "output": output}
        said |= {} if self.name is None else {"release": self.name}
        said |= {"copied": True} if copied else {}
        write_whole(mark, json.dumps(said).encode() + b"\n")


def check_unasked(release: str | Path, turn: Turn) -> None:
    """Refuse a turn that is known to have been asked after a release. A first round begins a series
    of its own, so any other first round of the same file asked the same people.
    """
    known = Follower.of(release)
    if known is not None and (known.turn == turn or known.turn.round == turn.round == 1):
        raise ParameterError(
            f"round {turn.round} of these people was asked already and written to "
            f"{known.output}: what a second report promises composes with the first",
            hint=f"use that file; if nobody ever saw it{_others(turn)}, delete {_mark(release)} to "
            "ask anew",
        )


def _others(turn: Turn) -> str:
    return ", or these are other people" if turn.round == 1 else ""


def _mark(release: str | Path) -> Path:
    return Path(f"{release}{ENDING}")
