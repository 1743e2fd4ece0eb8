"""Turns: people who are asked in rounds, each in one of them, by their place and a public name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import FileError
from sfumato.mechanisms.in_rounds import NUMBER_SHARES, ROUNDS, SHARES
from sfumato.randomness import Keystream, drawing, secure
from sfumato.received import Received

SERIES = re.compile("[0-9a-f]{32}")
BLOCK = 32  # people that one digest deals, two bytes each


@dataclass(frozen=True)
class Turn:
    """One of several rounds: `series` names the people, who are dealt to rounds by their place.

    Who is asked when depends on that public name and on the place alone, so it tells nothing of
    anybody's basket, and nobody is asked twice.

    >>> turn = Turn("00" * 16, 1)
    >>> turn.people(1000), turn.next.people(1000), turn.next.next.people(1000)
    (384, 290, 326)
    """

    series: str
    round: int  # from 1
    shares: tuple[float, ...] = SHARES

    @classmethod
    def first(cls, rng: Keystream | None = None, shares: tuple[float, ...] = SHARES) -> Turn:
        """The first round of people who were never asked. A seeded stream names them, so that an
        experiment repeats; from a secure one, which hides somebody, nothing public is drawn.
        """
        rng = drawing(rng)
        source = secure() if rng.secure else rng
        return cls(source.words(2).tobytes().hex(), 1, shares)

    @property
    def next(self) -> Turn:
        """The round behind this one."""
        return Turn(self.series, self.round + 1, self.shares)

    def to_dict(self) -> dict[str, Any]:
        """The turn as JSON data."""
        two = {} if self.shares == SHARES else {"rounds": len(self.shares)}
        return {"series": self.series, "round": self.round} | two

    @classmethod
    def from_dict(cls, given: Received) -> Turn:
        """The turn that a description names."""
        series = given["series"].word()
        if not SERIES.fullmatch(series):
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

    def people(self, everyone: int) -> int:
        """How many of so many people this round asks."""
        return int(self.asked(0, everyone).sum())
