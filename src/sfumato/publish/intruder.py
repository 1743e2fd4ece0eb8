"""What one who wants to know a person's value makes of a release: believing it, knowing how it was
made, or having none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Distinct
from sfumato.printable import percent
from sfumato.publish.conditional import pair_counts, simple_bayes
from sfumato.publish.identify import ALONE, TOGETHER, Status, extremes
from sfumato.publish.verdict import Guesses
from sfumato.randomness import seeded
from sfumato.view import TableView, View


@dataclass(frozen=True)
class Believer:
    """Share of right guesses by one who knows a person's keys and takes the commonest value the
    table shows for them.
    """

    identifiable: float | None
    everyone: float


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


@dataclass(frozen=True)
class Intruder:
    """How often guesses of one confidential column are right, for those who knew less and more.

    Of the unique records: `baseline` always says the commonest value and needs no release;
    `believing` takes what is shown; `informed` knows method, proportion and totals, and so the
    likeliest true value of each shown one; `keys_alone` is naive Bayes learnt from the release,
    `weighing_keys` knows all of this and also uses how likely the keys make the shown value, what
    each sort of record truly has being learnt from other people. Of the records of groups that
    shared one value: `groups_baseline`, `groups_believing` and `groups_informed`.
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
    groups_baseline: float | None
    groups_believing: float | None
    groups_informed: float | None
    groups_told: int  # records of groups that still show the one value that all of them have

    also = ("worst",)  # in JSON, beside the fields

    @property
    def worst(self) -> ShownValue | None:
        """The shown value whose true one is guessed most surely; of equal ones the one more people
        show.
        """
        return max(self.shown, key=lambda one: (one.posterior, one.records), default=None)

    @property
    def guesses(self) -> Iterator[Guesses]:
        """The best guess of those whose value follows from their keys, alone and in groups."""
        if self.baseline is not None:
            ways = (self.believing, self.informed, self.keys_alone, self.weighing_keys)
            whom = f"{self.confidential} of the {self.unique:,} {ALONE}"
            yield Guesses(whom, self.baseline, max(rate or 0.0 for rate in ways))
        if self.groups_baseline is not None:
            pair = (self.groups_believing, self.groups_informed)
            whom = f"{self.confidential} of the {self.grouped:,} {TOGETHER}"
            yield Guesses(whom, self.groups_baseline, max(rate or 0.0 for rate in pair))

    def view(self, limit: float) -> View:
        """How often each sort of guess is right, and how sure one is from each value shown; `limit`
        is what was allowed.
        """
        name, worst = self.confidential, self.worst
        found = [
            ("without the release", f"{share(self.baseline)} (always '{self.commonest}')"),
            ("believing what is shown", share(self.believing)),
            ("knowing how it was made", share(self.informed)),
            (
                "and weighing the keys",
                f"{share(self.weighing_keys)} ({share(self.keys_alone)} from the keys alone)",
            ),
        ]
        if worst is not None:
            told = (
                f"'{worst.shown}': of {worst.records:,} records {percent(worst.posterior)} are "
                f"truly '{worst.likeliest}' (at most {percent(limit, 0)} were allowed)"
            )
            found.append(("worst shown value", told))
        return View(
            f"Guesses of {name}",
            (f"An intruder is right about {name} for {' and for '.join(self._whom())}.",),
            found if self.unique else (),
            sections=(View(tables=(self._shown_table(),), detail=True),),
        )

    def _whom(self) -> Iterator[str]:
        """For how many records, alone and in groups."""
        if self.unique:
            yield f"the share below of the {self.unique:,} unique records"
        if self.grouped:
            told = f" ({self.groups_told:,} are told for certain)" if self.groups_told else ""
            yield (
                f"{share(self.groups_informed)} of the {self.grouped:,} records of groups that "
                f"shared one value{told}"
            )

    def _shown_table(self) -> TableView:
        lines = [
            (
                *(str(one.shown), one.records, str(one.likeliest)),
                *(percent(one.posterior), percent(one.as_shown)),
            )
            for one in sorted(self.shown, key=lambda one: -one.posterior)
        ]
        heads = ("shown", "unique records", "likeliest truth", "how sure", "as shown")
        return TableView.of(heads, lines, f"{self.confidential}, surest first")

    def remains(self) -> list[str]:
        """What can still be guessed, in sentences."""
        name, worst, found = self.confidential, self.worst, list[str]()
        if worst is not None:
            found.append(
                f"{name}: of the {worst.records:,} unique records that show '{worst.shown}', "
                f"{percent(worst.posterior)} truly have '{worst.likeliest}', the surest guess that "
                "knowing the method allows."
            )
        if (self.weighing_keys or 0) > (self.informed or 0) + 0.005:
            found.append(
                f"{name}: one who also weighs how likely the keys make a value is right about "
                f"{share(self.weighing_keys)} of the unique records; the limit does not bound this."
            )
        if self.grouped:
            found.append(
                f"{name}: of {self.grouped:,} records in groups that shared one value one a group "
                "was changed, so the majority of three or more still shows it; a guess is right "
                f"for {share(self.groups_informed)} of them."
            )
        return found


def intruder_of(
    keys: Sequence[Codes], status: Status, attribute: Distinct, truth: Codes, shown: Codes
) -> Intruder:
    """What can be guessed of the records that were identifiable in the truth."""
    rows, values = np.flatnonzero(status.unique), attribute.size
    flows = pair_counts(shown[rows], truth[rows], values, values)
    commonest = int(np.bincount(truth).argmax())
    held = flows.sum(axis=0)
    unique = len(rows)
    grouped = truth[status.collective]
    baseline = float((grouped == commonest).mean()) if len(grouped) else None
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
        groups_baseline=baseline,
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
    keys: Sequence[Codes],
    values: int,
    truth: Codes,
    shown: Codes,
    rows: NDArray[np.intp],
    bands: int = 10,
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
    edges = np.unique(np.quantile(lead, np.linspace(0, 1, bands + 1)[1:-1]))
    sort = own.astype(np.int64) * bands + np.searchsorted(edges, lead, side="right")
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


def share(value: float | None) -> str:
    """A share in per cent, or the dash of none."""
    return "–" if value is None else percent(value)
