"""What one who wants to know a person's value makes of a release: believing it, knowing how it was
made, or having none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Distinct
from sfumato.publish.conditional import pair_counts, simple_bayes
from sfumato.publish.identify import Status, extremes
from sfumato.randomness import seeded

__all__ = ["Believer", "Intruder", "ShownValue", "believer_of", "intruder_of", "plain_value"]

_BANDS = 10  # of how much likelier the shown value is, from the keys, than the next


@dataclass(frozen=True)
class Believer:
    """Share of right guesses by one who knows a person's keys and takes the commonest value the
    table shows for them.
    """

    identifiable: float | None
    everyone: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class ShownValue:
    """What is true of the unique records that show one value: the likeliest true value, and how
    sure a guess of it is.
    """

    shown: Any
    records: int
    likeliest: Any
    posterior: float
    as_shown: float  # the share that truly has the shown value

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            **self.__dict__,
            "shown": plain_value(self.shown),
            "likeliest": plain_value(self.likeliest),
        }


@dataclass(frozen=True)
class Intruder:
    """How often guesses of one confidential column are right, for those who knew less and more.

    Of the unique records: `baseline` always says the commonest value and needs no release;
    `believing` takes what is shown; `informed` knows method, proportion and totals, and so the
    likeliest true value of each shown one; `keys_alone` is naive Bayes learnt from the release,
    `weighing_keys` knows all of this and also uses how likely the keys make the shown value, what
    each sort of record truly has being learnt from other people. Of the records of groups that
    shared one value: `groups_believing` and `groups_informed`.
    """

    confidential: str
    unique: int
    commonest: Any
    baseline: float | None
    believing: float | None
    informed: float | None
    keys_alone: float | None
    weighing_keys: float | None
    shown: tuple[ShownValue, ...]
    grouped: int
    groups_believing: float | None
    groups_informed: float | None
    groups_told: int  # records of groups that still show the one value that all of them have

    @property
    def worst(self) -> ShownValue | None:
        """The shown value whose true one is guessed most surely; of equal ones the one more people
        show.
        """
        return max(self.shown, key=lambda one: (one.posterior, one.records), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain = {name: value for name, value in self.__dict__.items() if name != "shown"}
        return {
            **plain,
            "commonest": plain_value(self.commonest),
            "worst": self.worst.to_dict() if self.worst else None,
            "shown": [one.to_dict() for one in self.shown],
        }


def intruder_of(
    keys: Sequence[Codes], status: Status, attribute: Distinct, truth: Codes, shown: Codes
) -> Intruder:
    """What can be guessed of the records that were identifiable in the truth."""
    rows, values = np.flatnonzero(status.unique), attribute.size
    flows = pair_counts(shown[rows], truth[rows], values, values)
    commonest = int(np.bincount(truth).argmax())
    held = flows.sum(axis=0)
    unique = len(rows)
    believing, informed, told = _groups(status, values, truth, shown)
    alone, weighing = _with_keys(keys, values, truth, shown, rows)

    def share(right: float) -> float | None:
        return float(right) / unique if unique else None

    return Intruder(
        confidential=attribute.name,
        unique=unique,
        commonest=attribute.values[commonest],
        baseline=share(held[commonest]),
        believing=share(np.trace(flows)),
        informed=share(flows.max(axis=1).sum()),
        keys_alone=share(alone),
        weighing_keys=share(max(weighing, float(flows.max(axis=1).sum()))),
        shown=_shown_values(flows, attribute.values),
        grouped=int(status.collective.sum()),
        groups_believing=believing,
        groups_informed=informed,
        groups_told=told,
    )


def _shown_values(flows: NDArray[np.int64], values: tuple[Any, ...]) -> tuple[ShownValue, ...]:
    return tuple(
        ShownValue(
            values[place],
            int(row.sum()),
            values[int(row.argmax())],
            float(row.max() / row.sum()),
            float(row[place] / row.sum()),
        )
        for place, row in enumerate(flows)
        if row.sum()
    )


def _with_keys(
    keys: Sequence[Codes], values: int, truth: Codes, shown: Codes, rows: NDArray[np.intp]
) -> tuple[float, float]:
    """Right guesses by naive Bayes learnt from the release, and by one who sets its verdict beside
    what is shown.

    Records are sorted by the shown value and by how much likelier the keys make it than any other;
    of each sort the commonest true value among other records is guessed.
    """
    if not len(rows):
        return 0.0, 0.0
    posterior = simple_bayes(keys, shown, values, rows)
    true, own = truth[rows], shown[rows]
    place = np.arange(len(rows))
    alone = float((posterior.argmax(axis=1) == true).sum())
    lead = posterior[place, own]
    posterior[place, own] = -1.0
    lead = lead - posterior.max(axis=1)
    edges = np.unique(np.quantile(lead, np.linspace(0, 1, _BANDS + 1)[1:-1]))
    sort = own.astype(np.int64) * _BANDS + np.searchsorted(edges, lead, side="right")
    return alone, _right_from_others(sort, true, values)


def _right_from_others(sort: NDArray[np.int64], true: NDArray[np.integer], values: int) -> float:
    """Right guesses of the commonest true value among the records of the same sort in the other
    half of the people; of a sort that is not there, and of ties, the commonest value of all.
    """
    _, number = np.unique(sort, return_inverse=True)
    half = seeded(0).permutation(len(sort)) % 2  # the same for every release of a table
    counts = np.zeros((2, int(number.max(initial=-1)) + 1, values))
    np.add.at(counts, (half, number, true), 1)
    whole = counts.sum(axis=1, keepdims=True)
    guess = (counts + whole / (whole.sum(axis=2, keepdims=True) + 1)).argmax(axis=2)
    return float((guess[1 - half, number] == true).sum())


def _groups(
    status: Status, values: int, truth: Codes, shown: Codes
) -> tuple[float | None, float | None, int]:
    """Right guesses of the records of groups that shared one value, and how many are still told.

    In a group of three or more the commonest shown value is guessed. Of two records that differ one
    was changed or none: the informed guess is what such pairs truly hold most often.
    """
    grouped = np.flatnonzero(status.collective)
    if not len(grouped):
        return None, None, 0
    believing = believed(status, truth, shown)[grouped]
    low, high = extremes(status.pattern, shown)
    pair = (status.size[status.pattern] == 2) & (low != high)[status.pattern]
    _, number = np.unique((low * values + high)[status.pattern[pair]], return_inverse=True)
    guess = np.full(len(truth), -1)
    held = pair_counts(number, truth[pair], int(number.max(initial=-1)) + 1, values)
    guess[pair] = held.argmax(axis=1)[number]
    informed = np.where(pair[grouped], guess[grouped] == truth[grouped], believing)
    told = (low == high)[status.pattern[grouped]] & (shown[grouped] == truth[grouped])
    return float(believing.mean()), float(informed.mean()), int(told.sum())


def believed(status: Status, truth: Codes, shown: Codes) -> NDArray[np.float64]:  # (records,)
    """The chance that the commonest value shown for a record's pattern is its true one; ties are
    guessed at random (in expectation).
    """
    values = int(max(truth.max(), shown.max())) + 1
    key = status.pattern * values
    cells, counts = np.unique(key + shown, return_counts=True)
    group = cells // values
    most = np.zeros(len(status.size), dtype=np.int64)
    np.maximum.at(most, group, counts)
    winner = counts == most[group]
    winners = np.bincount(group, weights=winner, minlength=len(status.size))
    place = np.minimum(np.searchsorted(cells, key + truth), len(cells) - 1)
    right = (cells[place] == key + truth) & winner[place]
    chance: NDArray[np.float64] = right / winners[status.pattern]
    return chance


def believer_of(status: Status, truth: Codes, shown: Codes) -> Believer:
    """Everyone's value guessed as the commonest one shown for their pattern."""
    chance = believed(status, truth, shown)
    identifiable = status.identifiable
    return Believer(
        float(chance[identifiable].mean()) if identifiable.any() else None, float(chance.mean())
    )


def plain_value(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, tuple):
        return [plain_value(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
