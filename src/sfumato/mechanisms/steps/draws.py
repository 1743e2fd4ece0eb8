"""Draws: exact integers from a stream of bytes, one at a time, as browser and library both take
them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.randomness import Keystream, Process, Unrepeated

CHUNK = 1024  # bytes fetched at a time; a word may begin in one chunk and end in the next


class Draws(Unrepeated):
    """Integers from bytes, little-endian: the same bytes give the same integers in every language.

    `Keystream.below` makes the same integers of the same bytes, a record at a time.

    No two records may share their noise: what was fetched before a fork is dropped in the child,
    which fetches its own (from a seeded stream the next chunk, in every child alike); threads may
    share the draws, each getting bytes of its own; and they cannot be copied or pickled.

    >>> draws = Draws(lambda: bytes([7, 0, 1, 128]))
    >>> draws.word(16), draws.below(10), draws.chance(1, 16)
    (7, 5, False)
    """

    def __init__(self, refill: Callable[[], bytes]) -> None:
        self._refill = refill
        # How bytes are taken from the chunk, and which process fetched it: one value, so that no
        # thread sees the one without the other.
        self._chunk = (BytesIO().read, Process.current())

    @classmethod
    def of(cls, rng: Keystream, chunk: int = CHUNK) -> Draws:
        """Draws from a keystream, fetched `chunk` bytes at a time."""

        def refill() -> bytes:
            block = np.empty(chunk, dtype=np.uint8)
            rng.fill(block)
            return block.tobytes()

        return cls(refill)

    def word(self, bits: int) -> int:
        """A uniform word of 16, 32 or 64 bits."""
        count = bits // 8
        take, (_, forks) = self._chunk
        octets = take(count)  # in one step, so that no two threads take the same
        if len(octets) < count or forks != Process.forks:
            octets = self._fetched(octets if forks == Process.forks else b"", count)
        return int.from_bytes(octets, "little")

    def _fetched(self, octets: bytes, count: int) -> bytes:
        while len(octets) < count:
            process, take = Process.current(), BytesIO(self._refill()).read
            octets += take(count - len(octets))
            self._chunk = (take, process)
        return octets

    def begin(self) -> None:
        """Before a record is drawn: drop what another process fetched. The id of the process sees a
        fork that Python was not told of; asked for every word it would cost as much as the word.
        """
        process = Process.current()
        if self._chunk[1] != process:
            self._chunk = (BytesIO().read, process)

    def below(self, bound: int) -> int:
        """An integer uniform on 0..bound-1: multiply and shift for small bounds (Lemire 2019), else
        words masked to the bits of the bound and drawn again until one is below it.
        """
        if not 1 <= bound <= 1 << 64:
            raise ParameterError(
                f"cannot draw an integer below {bound}; the bound must lie between 1 and 2^64"
            )
        if bound <= 1 << 24:
            bits = 16 if bound <= 1 << 8 else 32
            while (product := self.word(bits) * bound) % (1 << bits) < (1 << bits) % bound:
                pass
            return product >> bits
        mask, bits = (1 << (bound - 1).bit_length()) - 1, 32 if bound <= 1 << 32 else 64
        while (drawn := self.word(bits) & mask) >= bound:
            pass
        return drawn

    def chance(self, threshold: int, bits: int) -> bool:
        """True with probability threshold / 2^bits; what is certain draws nothing."""
        return threshold >= 1 << bits or self.word(bits) < threshold

    def pick(self, cumulative: Sequence[int]) -> int:
        """A place with the weights whose running sums these are, the last being 2^32."""
        return bisect_right(cumulative, self.word(32))

    def some(self, of: Sequence[Any], count: int) -> list[Any]:
        """A uniform choice of so many, in the order drawn: the first steps of a Fisher-Yates
        shuffle.
        """
        left = list(of)
        for place in range(count):
            chosen = place + self.below(len(left) - place)
            left[place], left[chosen] = left[chosen], left[place]
        return left[:count]
