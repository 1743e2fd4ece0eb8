"""Repeats: which whole reports came again and again, in a fixed amount of memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

ROOM = 1 << 14  # reports that are remembered, so that memory does not grow with a campaign


class Repeats:
    """Counts of single whole reports, never above the true ones and below them by at most n/16,384
    (frequent items, Misra and Gries 1982; batches merged as by Agarwal et al. 2013).
    """

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()

    def add_packed(self, data: bytes, width: int) -> None:
        """Count reports of so many bytes each that stand one after the other."""
        rows = [None, pa.py_buffer(data)]
        column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(data) // width, rows)
        bodies, counts = pc.value_counts(column).flatten()
        self.add(dict(zip(bodies.to_pylist(), counts.to_pylist(), strict=True)))

    def add(self, bodies: Iterable[bytes] | Mapping[bytes, int]) -> None:
        """Count these reports; where more are held than there is room for, the rare are dropped."""
        self._counts.update(bodies)
        if len(self._counts) > ROOM:
            least = sorted(self._counts.values(), reverse=True)[ROOM]
            kept = ((body, count - least) for body, count in self._counts.items() if count > least)
            self._counts = Counter(dict(kept))

    def remove(self, bodies: Iterable[bytes]) -> None:
        """Take withdrawn reports away."""
        for body in bodies:
            if self._counts[body] > 1:
                self._counts[body] -= 1
            else:
                del self._counts[body]

    def most(self, number: int) -> list[tuple[bytes, int]]:
        """The reports that came most often, and how often at least."""
        return self._counts.most_common(number)
