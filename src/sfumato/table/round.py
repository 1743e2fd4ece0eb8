"""Rounds of people: each person is asked in one of them, by their place and a public name; and the
lock beside a file, which says that a round was asked: nobody is asked twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Columns
from sfumato.errors import FileError, ParameterError
from sfumato.files import write_whole
from sfumato.mechanisms.in_rounds import NUMBER_SHARES, ROUNDS, SHARES
from sfumato.randomness import Keystream, drawing, secure
from sfumato.untrusted import Untrusted, parsed_json, read_text

RANDOM_NAME = re.compile("[0-9a-f]{32}")  # of a series, or of a release
ENDING = ".next"  # of a lock, behind the name of the file that it is about
BLOCK = 32  # people that one digest deals, two bytes each


@dataclass(frozen=True)
class Round:
    """One of several rounds: `series` names the people, who are dealt to rounds by their place.

    Who is asked when depends on that public name and on the place alone, so it tells nothing of
    anybody's basket, and nobody is asked twice.

    >>> turn = Round("00" * 16, 1)
    >>> turn.people(1000), turn.next.people(1000), turn.next.next.people(1000)
    (384, 290, 326)
    """

    series: str
    round: int  # from 1
    shares: tuple[float, ...] = SHARES

    @classmethod
    def first(cls, rng: Keystream | None = None, shares: tuple[float, ...] = SHARES) -> Round:
        """The first round of people who were never asked. A seeded stream names them, so that an
        experiment repeats; from a secure one, which hides somebody, nothing public is drawn.
        """
        rng = drawing(rng)
        source = secure() if rng.secure else rng
        return cls(source.words(2).tobytes().hex(), 1, shares)

    @property
    def next(self) -> Round:
        """The round behind this one."""
        return Round(self.series, self.round + 1, self.shares)

    def to_dict(self) -> dict[str, Any]:
        """The turn as JSON data."""
        two = {} if self.shares == SHARES else {"rounds": len(self.shares)}
        return {"series": self.series, "round": self.round} | two

    @classmethod
    def from_dict(cls, given: Untrusted) -> Round:
        """The turn that a description names."""
        series = given["series"].word()
        if not RANDOM_NAME.fullmatch(series):
            raise FileError("this file's description names no series of rounds as Sfumato does")
        if "rounds" in given.fields():
            given["rounds"].whole(len(NUMBER_SHARES), len(NUMBER_SHARES))
            return cls(series, given["round"].whole(1, len(NUMBER_SHARES)), NUMBER_SHARES)
        return cls(series, given["round"].whole(1, ROUNDS))

    def asked(self, first: int, count: int) -> NDArray[np.bool_]:
        """Which of so many people, counted from a place on, this round asks: a digest of the series
        and the place is dealt to the rounds by their shares.
        """
        blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
        drawn = b"".join(
            hashlib.sha512(f"{self.series}/{block}".encode()).digest() for block in blocks
        )
        levels = np.frombuffer(drawn, dtype="<u2")[first % BLOCK :][:count]
        upto = np.cumsum(self.shares)[:-1] * (1 << 16)
        return np.asarray(np.searchsorted(upto, levels, side="right") == self.round - 1)

    def among(self, batches: Iterable[Columns]) -> Iterator[Columns]:
        """The records of those whom this round asks, of all that come one batch after the other."""
        place = 0
        for columns in batches:
            rows = len(columns[0])
            chosen = np.flatnonzero(self.asked(place, rows))
            place += rows
            if len(chosen):
                yield tuple(column.take(chosen) for column in columns)

    def people(self, everyone: int) -> int:
        """How many of so many people this round asks."""
        return int(self.asked(0, everyone).sum())


@dataclass(frozen=True)
class RoundLock:
    """The round that comes after a release (the first one: after the true records), the file it was
    written to and, where it is known, its own name; whether it was written to other files too.
    """

    turn: Round
    output: Path
    name: str | None = None
    copied: bool = False

    @classmethod
    def of(cls, release: str | Path) -> RoundLock | None:
        """The one that is known of, if any."""
        mark = _mark(release)
        if not mark.exists():
            return None
        given = Untrusted(parsed_json(read_text(mark, "round"), str(mark)), str(mark))
        name = given["release"].word() if "release" in given.fields() else None
        output = mark.parent / given["output"].word()
        return cls(Round.from_dict(given["turn"]), output, name, "copied" in given.fields())

    def check(self, release: str | Path, *, force: bool) -> None:
        """Refuse a second round of the same people, unless it takes the place of the first or is
        the first, written once more.
        """
        known = RoundLock.of(release)
        if known is not None:
            replaced = force and not known.copied and known.output.resolve() == self._place
            if replaced or known.writes(self):
                return
        check_unasked(release, self.turn)

    @property
    def _place(self) -> Path:
        return self.output.resolve()

    def writes(self, other: RoundLock) -> bool:
        """Whether another is the same release."""
        return self.name is not None and self.name == other.name

    def keep(self, release: str | Path) -> None:
        """Say it beside the release."""
        mark, known = _mark(release), RoundLock.of(release)
        again = known if known is not None and known.writes(self) else None
        copied = again is not None and (again.copied or again._place != self._place)
        output = os.path.relpath(self._place, mark.parent.resolve())
        said: dict[str, Any] = {"turn": self.turn.to_dict(), "output": output}
        said |= {} if self.name is None else {"release": self.name}
        said |= {"copied": True} if copied else {}
        write_whole(mark, json.dumps(said).encode() + b"\n")


def check_unasked(release: str | Path, turn: Round) -> None:
    """Refuse a turn that is known to have been asked after a release. A first round begins a series
    of its own, so any other first round of the same file asked the same people.
    """
    known = RoundLock.of(release)
    if known is not None and (known.turn == turn or known.turn.round == turn.round == 1):
        raise ParameterError(
            f"round {turn.round} of these people was asked already and written to "
            f"{known.output}: what a second report promises composes with the first",
            hint=f"use that file; if nobody ever saw it{_others(turn)}, delete {_mark(release)} to "
            "ask anew",
        )


def _others(turn: Round) -> str:
    return ", or these are other people" if turn.round == 1 else ""


def _mark(release: str | Path) -> Path:
    return Path(f"{release}{ENDING}")
