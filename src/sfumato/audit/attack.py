"""Attacks: what the best guess from the reports gets right, beside what the prior alone would.

The attacker knows the mechanism and the prior distribution of the records, either as reconstructed
from the release itself or the true one, and guesses the likeliest record, and the likeliest value
of each column, given what was reported (MAP).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.paired import Paired, judged_cells
from sfumato.channels import Channel
from sfumato.domain import Cells
from sfumato.estimation.adjust import clip_and_scale
from sfumato.randomness import Keystream
from sfumato.source import Release
from sfumato.table import Table

WHOLE_CELLS = 2048  # records of which there are more are guessed column by column
SAMPLED = 20_000  # people attacked where every possible record has to be weighed for each
CHUNK = 2048  # people weighed at once
NEVER = -1e4  # the logarithm of what cannot happen

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Attack:
    """How often a guess was right: from the prior alone, from one report, and from all reports of a
    person.
    """

    target: str  # "record" or the name of a column or item
    prior: str  # "true" or "reconstructed"
    baseline: float
    right: float
    siblings: float | None  # with all copies of a record; None where there is one
    people: int

    @property
    def stderr(self) -> float:
        """The standard error of the share that one report lets guess, over the people attacked."""
        return math.sqrt(self.right * (1 - self.right) / self.people)

    @property
    def gain(self) -> float:
        """How much oftener the guess is right with all reports of a person than with none."""
        return (self.right if self.siblings is None else self.siblings) - self.baseline

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "prior": self.prior,
            "baseline": self.baseline,
            "right": self.right,
            "siblings": self.siblings,
            "people": self.people,
        }


def attacks(
    paired: Paired, rng: Keystream, progress: Callable[[float], None] | None = None
) -> list[Attack]:
    """Guesses at whole records and at each column, with either prior."""
    if paired.private.baskets:
        return [
            attack for prior in ("true", "reconstructed") for attack in _item_attacks(paired, prior)
        ]
    whole = paired.private.cells <= WHOLE_CELLS and not any(
        axis.item is not None for axis in paired.private.axes
    )
    people = _sampled_people(
        paired, rng, max(1000, (SAMPLED if whole else 10 * SAMPLED) // paired.copies)
    )
    found: list[Attack] = []
    for done, prior in enumerate(("true", "reconstructed"), 1):
        found += (
            _whole_attacks(paired, prior, people)
            if whole
            else _column_attacks(paired, prior, people)
        )
        if progress:
            progress(done / 2)
    return found


def _sampled_people(paired: Paired, rng: Keystream, most: int) -> NDArray[np.intp]:
    if paired.people <= most:
        return np.arange(paired.people)
    return np.sort(rng.permutation(paired.people)[:most])


def _whole_attacks(paired: Paired, prior: str, people: NDArray[np.intp]) -> list[Attack]:
    """Weigh every possible record: its prior times the likelihood of the reports."""
    shape = paired.private.shape
    masses = whole_prior(paired, prior)
    cells = [attribute.cells() for attribute in paired.private]
    weigher = _weigher(paired, cells, whole_prior(paired, "true"))
    truth = np.ravel_multi_index(_true_codes(paired, people), shape)
    start = _logarithms(masses)
    alone, together = _Guesses(shape, truth), _Guesses(shape, truth)
    for part in _chunks(len(people)):
        scores = start + weigher(people[part] * paired.copies)  # (people, cells)
        alone.guess(scores, part)
        for copy in range(1, paired.copies):
            scores += weigher(people[part] * paired.copies + copy)
        if paired.copies > 1:
            together.guess(scores, part)
    baseline = _Guesses(shape, truth)
    baseline.guess(start[None, :], slice(0, len(people)))
    names = ("record", *paired.private.names)
    siblings = together.shares if paired.copies > 1 else [None] * len(names)
    return [
        Attack(name, prior, before, after, all_copies, len(people))
        for name, before, after, all_copies in zip(
            names, baseline.shares, alone.shares, siblings, strict=True
        )
    ]


def _true_codes(paired: Paired, people: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    return tuple(
        np.asarray(paired.truth.column(name))[people].astype(np.intp)
        for name in paired.private.names
    )


class _Guesses:
    """Counts of right guesses, of the record and of each column."""

    def __init__(self, shape: tuple[int, ...], truth: NDArray[np.intp]) -> None:
        self.shape, self.truth = shape, truth
        self.codes = np.unravel_index(truth, shape)
        self.right = [0] * (len(shape) + 1)

    def guess(self, scores: Floats, part: slice) -> None:  # (people or 1, cells)
        """Add the guesses for some people from the logarithms of their posteriors."""
        self.right[0] += int((scores.argmax(axis=1) == self.truth[part]).sum())
        weights = np.exp(scores - scores.max(axis=1, keepdims=True)).reshape(-1, *self.shape)
        for axis in range(len(self.shape)):
            rest = tuple(other + 1 for other in range(len(self.shape)) if other != axis)
            self.right[axis + 1] += int(
                (weights.sum(axis=rest).argmax(axis=1) == self.codes[axis][part]).sum()
            )

    @property
    def shares(self) -> list[float]:
        return [count / len(self.truth) for count in self.right]


Weigher = Callable[[NDArray[np.intp]], Floats]  # rows -> logarithms of likelihoods (rows, cells)


def _weigher(paired: Paired, cells: Sequence[Cells], shares: Floats) -> Weigher:
    """The log likelihood of the reports in some rows under every combination of these cells."""
    mechanism, columns = paired.mechanism, paired.release.columns

    def weigh(rows: NDArray[np.intp]) -> Floats:
        taken = tuple(column.take(rows) for column in columns)
        return np.maximum(mechanism.likelihood(taken, cells, shares=shares), NEVER)

    return weigh


def _odds(ones: Floats, zeros: Floats) -> tuple[Floats, Floats]:
    """For each item the log odds of being true that a reported one, and a missing one, adds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pair = np.log(ones) - np.log(1 - zeros), np.log(1 - ones) - np.log(zeros)
    shown, hidden = (np.nan_to_num(odds, nan=0.0, posinf=-NEVER, neginf=NEVER) for odds in pair)
    return shown, hidden


def whole_prior(paired: Paired, prior: str) -> Floats:
    """The distribution of whole records: the true one, or the better of two that an attacker can
    reconstruct.
    """
    shape = paired.private.shape
    if prior == "true":
        codes = tuple(
            np.asarray(paired.truth.column(name)).astype(np.intp) for name in paired.private.names
        )
        return (
            np.bincount(np.ravel_multi_index(codes, shape), minlength=math.prod(shape))
            / paired.people
        )
    if not paired.in_place:
        return _independent(paired, paired.release)
    half = paired.people // 2 * paired.copies
    first, second = paired.release.slice(0, half), paired.release.slice(half, paired.release.rows)
    ways = (_independent, _reconstructed) if half else (_independent,)
    best = max(
        ways,
        key=lambda way: _likelihood(paired, way(paired, first), second) if len(ways) > 1 else 0.0,
    )
    return best(paired, paired.release)


def _reconstructed(paired: Paired, release: Table) -> Floats:
    """Whole records reconstructed at once: noisy, but it keeps how columns go together."""
    cells = [attribute.cells() for attribute in paired.private]
    return clip_and_scale(Release.of(release).marginal(cells).value, 1.0).ravel()


def _independent(paired: Paired, release: Table) -> Floats:
    """Each column reconstructed on its own, taken as independent."""
    joint: Any = np.ones(())
    for attribute in paired.private:
        joint = np.multiply.outer(
            joint, clip_and_scale(Release.of(release).marginal([attribute.cells()]).value, 1.0)
        )
    return np.asarray(joint).ravel()


def _likelihood(paired: Paired, masses: Floats, release: Table) -> float:
    """The log likelihood of reports under a prior, by which an attacker chooses one: on reports it
    was not made from.
    """
    shape = paired.private.shape
    expected = np.asarray(
        paired.channel_over(list(range(len(shape)))).apply(masses.reshape(shape))
    ).ravel()
    codes = tuple(np.asarray(release.column(name)).astype(np.intp) for name in paired.private.names)
    return float(np.log(np.maximum(expected, 1e-300))[np.ravel_multi_index(codes, shape)].sum())


def column_prior(paired: Paired, cells: Cells, prior: str) -> Floats:
    """The distribution of one column's cells."""
    if prior == "true":
        column = cells.assign(paired.truth.column(cells.attribute.name))
        return np.bincount(np.asarray(column).astype(np.intp), minlength=cells.size) / paired.people
    return clip_and_scale(Release.of(paired.release).marginal([cells]).value, 1.0)


def _column_attacks(paired: Paired, prior: str, people: NDArray[np.intp]) -> Iterator[Attack]:
    """Guess each column from its own reports, and the record as its columns' guesses: for many
    possible records.
    """
    rows = people[:, None] * paired.copies + np.arange(paired.copies)
    record = [np.ones(len(people), dtype=bool) for _ in range(3)]
    columns = []
    for place, attribute in enumerate(paired.private):
        if any(axis.item is not None and axis.attribute == place for axis in paired.private.axes):
            continue
        cells = judged_cells(attribute)
        truth = np.asarray(cells.assign(paired.truth.column(attribute.name)))[people]
        weigh = _weigher(paired, [cells], column_prior(paired, cells, "true"))
        start = _logarithms(column_prior(paired, cells, prior))
        each = weigh(rows.reshape(-1)).reshape(*rows.shape, -1)  # (people, copies, cells)
        guesses = [np.full(len(people), start.argmax()), (start + each[:, 0]).argmax(axis=1)]
        guesses.append((start + each.sum(axis=1)).argmax(axis=1))
        hits = [guess == truth for guess in guesses]
        record = [so_far & hit for so_far, hit in zip(record, hits, strict=True)]
        columns.append(_attack_of(attribute.name, prior, hits, paired.copies))
    reported = _reported_hits(paired, prior, people)
    yield _attack_of("record", prior, _better(record, reported), paired.copies)
    yield from columns


def _better(
    record: list[NDArray[np.bool_]], reported: list[NDArray[np.bool_]] | None
) -> list[NDArray[np.bool_]]:
    """The attacker's better way, for one report and for all: column by column, or whole."""
    if reported is None:
        return record
    ways = zip(record[1:], reported, strict=True)
    return [record[0], *(max(pair, key=lambda hits: float(hits.mean())) for pair in ways)]


def _reported_hits(
    paired: Paired, prior: str, people: NDArray[np.intp]
) -> list[NDArray[np.bool_]] | None:
    """Right guesses at whole records among those that were reported, from one report and from all;
    None where records cannot be numbered.

    For records that are kept or redrawn as a whole only a reported one is likelier than the prior
    says, so the best guess is one of the reports, or the likeliest record of all. Columns are taken
    as independent in the prior.
    """
    private = paired.private
    baskets = any(axis.item is not None for axis in private.axes)
    if not paired.in_place or private.cells >= 1 << 62 or baskets:
        return None
    channel = paired.channel_over(list(range(len(private))))
    rows = people[:, None] * paired.copies + np.arange(paired.copies)
    reported = [
        np.asarray(paired.release.column(name))[rows].astype(np.intp) for name in private.names
    ]
    priors = [_logarithms(column_prior(paired, attribute.cells(), prior)) for attribute in private]
    likeliest = [np.full((len(people), 1), int(logs.argmax())) for logs in priors]
    truth = np.ravel_multi_index(_true_codes(paired, people), private.shape)
    return [
        _best_candidate(
            channel, priors, [codes[:, :seen] for codes in reported], likeliest, private.shape
        )
        == truth
        for seen in (1, paired.copies)
    ]


def _best_candidate(
    channel: Channel,
    priors: Sequence[Floats],
    reported: Sequence[NDArray[np.intp]],  # (people, reports) each
    likeliest: Sequence[NDArray[np.intp]],  # (people, 1) each
    shape: tuple[int, ...],
) -> NDArray[np.intp]:
    """Of the reports and the likeliest record, that with the largest posterior."""
    candidates = [np.hstack([a, b]) for a, b in zip(reported, likeliest, strict=True)]
    scores = np.sum([logs[codes] for logs, codes in zip(priors, candidates, strict=True)], axis=0)
    for place in range(reported[0].shape[1]):
        shown = [np.broadcast_to(codes[:, place, None], scores.shape) for codes in reported]
        scores = scores + _logarithms(channel.chances(shown, candidates))
    best = scores.argmax(axis=1)[:, None]
    joint = np.ravel_multi_index(tuple(candidates), shape)
    return np.take_along_axis(joint, best, axis=1)[:, 0]


def _logarithms(masses: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(masses), NEVER)


def _attack_of(target: str, prior: str, hits: list[NDArray[np.bool_]], copies: int) -> Attack:
    baseline, right, siblings = (float(hit.mean()) for hit in hits)
    return Attack(target, prior, baseline, right, siblings if copies > 1 else None, len(hits[0]))


def _item_attacks(paired: Paired, prior: str) -> list[Attack]:
    """Guess each item of a basket from its own reports; all items on average, and the three with
    most to lose.
    """
    ones, zeros = _item_keeps(paired)
    truth = paired.true_baskets.counts() / paired.true_baskets.rows
    seen = paired.reported_baskets.counts() / paired.reported_baskets.rows
    believed = (
        truth if prior == "true" else np.clip((seen - (1 - zeros)) / (ones + zeros - 1), 0.0, 1.0)
    )
    start = np.log(np.maximum(believed, 1e-300)) - np.log(np.maximum(1 - believed, 1e-300))
    baseline = np.where(start > 0, truth, 1 - truth)
    right = _right_of_one(paired, start, *_odds(ones, zeros))
    labels = paired.mechanism.private_reports.attributes[0].labels
    worst = np.argsort(baseline - right, kind="stable")[:3]
    found = [
        Attack(
            "items on average",
            prior,
            float(baseline.mean()),
            float(right.mean()),
            None,
            paired.people,
        )
    ]
    return found + [
        Attack(
            f"item '{labels[item]}'",
            prior,
            float(baseline[item]),
            float(right[item]),
            None,
            paired.people,
        )
        for item in worst.tolist()
    ]


def _item_keeps(paired: Paired) -> tuple[Floats, Floats]:
    """How often each item is reported when true, and not when false; where that depends on the
    size of the basket, for one of average size.
    """
    law = paired.mechanism.item_law
    assert law is not None
    return law.keeps(max(1, round(float(paired.true_baskets.sizes().mean()))))


def _right_of_one(paired: Paired, start: Floats, shown: Floats, hidden: Floats) -> Floats:
    """The share of rows in which the guess at an item from its own bit is right."""
    truth, report = paired.true_baskets, paired.reported_baskets
    rows, ones = truth.rows, truth.counts()
    both = np.bitwise_count(truth.words & report.words).sum(axis=1, dtype=np.int64)
    alone = report.counts() - both
    where_shown = np.where(start + shown > 0, both, alone)
    where_hidden = np.where(start + hidden > 0, ones - both, rows - ones - alone)
    return (where_shown + where_hidden) / rows


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, CHUNK):
        yield slice(start, min(start + CHUNK, count))
