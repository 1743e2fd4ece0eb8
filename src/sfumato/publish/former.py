"""What version 0.2.0 had its own names for: they work for one version more, with a warning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from warnings import warn

import numpy as np

from sfumato.arguments import checked
from sfumato.publish.owned import Keyed, binning, edges_of
from sfumato.table import Table

V = TypeVar("V", bound=Callable[..., Any])


@checked
class Binning(str):
    """How a number is cut, which is now written as text: "frequency:5", "width:5" or "35,55"."""

    def __new__(cls, method: str, count: int = 0, cuts: tuple[float, ...] = ()) -> Binning:
        return cls.parse(",".join(map(str, cuts)) if method == "cuts" else f"{method}:{count}")

    @classmethod
    def parse(cls, text: str) -> Binning:
        """The binning written as `frequency:5`, `width:5` or `35,55,75`."""
        binning(text)
        return str.__new__(cls, text)

    def edges(self, numbers: Any) -> Any:
        """The inner edges of the bins."""
        method, count, cuts = binning(self)
        return np.asarray(cuts) if method == "cuts" else edges_of(method, count, numbers)


@dataclass(frozen=True, eq=False)
class Microdata:
    """Records with what is asked of them, which identify, swap, suppress and pram now take
    themselves.
    """

    records: Table
    given: dict[str, Any]

    @classmethod
    def read(cls, data: Any, confidential: Any, **given: Any) -> Microdata:
        """The records of a file, an Arrow table or a data frame, and which of them are
        confidential.
        """
        records = Keyed.of(data, confidential, **given).records
        asked = {"confidential": confidential, **given}
        return cls(records, {name: asked[name] for name in asked if name != "beside"})


def taking_microdata(verb: V) -> V:
    """The same function, which takes what it took in version 0.2.0: microdata, and of a swap the
    classifier that judged it.
    """

    @wraps(verb)
    def taking(data: Any, *given: Any, **named: Any) -> Any:
        if isinstance(data, Microdata):
            data, named = data.records, {**data.given, **named}
        if verb.__name__ == "swap" and named.keys() & {"classifier", "folds"}:
            named = {name: named[name] for name in named if name not in ("classifier", "folds")}
            words = "no classifier judges a swap any more; leave classifier and folds out"
            warn(words, DeprecationWarning, stacklevel=2)
        return verb(data, *given, **named)

    return taking  # type: ignore[return-value]
