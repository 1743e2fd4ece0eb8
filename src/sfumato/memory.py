"""Memory: what this machine has, so that what cannot fit is refused before it is begun; and results
that are kept in it, the oldest giving way.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from sfumato.errors import ParameterError

T = TypeVar("T")
P = ParamSpec("P")

HELD = 0.5  # of all memory that one command may take


def check_room(rows: int, each: int, what: str = "records") -> None:
    """Refuse so many rows, each of so many bytes while they are made, as memory cannot hold.

    >>> check_room(10**15, 64)
    Traceback (most recent call last):
    sfumato.errors.ParameterError: 1,000,000,000,000,000 records take 64,000,000.0 GB, ...
    """
    most = memory()
    if most is not None and rows * each > HELD * most:
        fit = int(HELD * most / each)
        raise ParameterError(
            f"{rows:,} {what} take {rows * each / 1e9:,.1f} GB, and this machine has "
            f"{most / 1e9:,.1f} GB",
            hint=f"{_rounded(fit):,} fit; make several files, each with another seed",
        )


def memory() -> int | None:
    """The bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _rounded(number: int) -> int:
    """A number to two figures, downwards."""
    size = 10 ** max(0, len(str(number)) - 2)
    return number // size * size


def _one(_: object) -> int:
    return 1


class Recent(Generic[T]):
    """Results under their keys, the oldest forgotten where all together are larger than `most`, by
    their number unless their size is given.

    >>> words: Recent[str] = Recent(2)
    >>> [words.get(key, lambda: key.upper()) for key in "abc"], len(words)
    (['A', 'B', 'C'], 2)
    """

    def __init__(self, most: float, size: Callable[[T], int] = _one) -> None:
        self._most, self._size = most, size
        self._found: dict[Hashable, T] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under a key, made if it is not."""
        return self._found[key] if key in self._found else self.keep(key, make())

    def find(self, key: Hashable) -> T | None:
        """What is kept under a key."""
        return self._found.get(key)

    def keep(self, key: Hashable, made: T) -> T:
        """The result itself, kept under a new key."""
        self._total += self._size(made)
        while self._found and self._total > self._most:
            self._total -= self._size(self._found.pop(next(iter(self._found))))
        self._found[key] = made
        return made


def remembered(
    most: float = math.inf, size: Callable[[Any], int] = _one
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A method whose results are kept with its object, by the arguments: all, or the latest.

    >>> class Doubled:
    ...     @remembered(8)
    ...     def words(self, word: str) -> list[str]:
    ...         return [word, word]
    >>> each = Doubled()
    >>> each.words("a") is each.words("a"), each.words("a") is Doubled().words("a")
    (True, False)
    >>> each.words(word="a"), each.words(word="b")
    (['a', 'a'], ['b', 'b'])
    """

    def keeping(method: Callable[P, T]) -> Callable[P, T]:
        place = f"_{method.__name__} remembered"

        @wraps(method)
        def found(*given: P.args, **named: P.kwargs) -> T:
            me: Any = given[0]
            kept: Recent[T] = me.__dict__.setdefault(place, Recent(most, size))
            return kept.get((given[1:], *named.items()), lambda: method(*given, **named))

        return found

    return keeping
