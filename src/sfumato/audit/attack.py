"""Attacks: what the best guess from the reports gets right, beside what the prior alone would.

The attacker knows the mechanism and the prior distribution of the records, either as reconstructed
from the release itself or the true one, and guesses the likeliest record, and the likeliest value
of each column, given what was reported (MAP). One who knows only the public columns of a person may
single them out (linkage).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import ATTACKED, FEW_RECORDS
from sfumato.audit.paired import Paired, cells_of, judged_cells
from sfumato.channels import Channel
from sfumato.domain import Cells, Items
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.randomness import Keystream
from sfumato.release import Release
from sfumato.table import Table

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


def attacks(
    paired: Paired, rng: Keystream, progress: Callable[[float], None] | None = None
) -> list[Attack]:
    """Guesses at whole records and at each column, with either prior."""
    priors = ("true", "reconstructed")
    if paired.private.baskets:
        return [attack for prior in priors for attack in _item_attacks(paired, prior)]
    whole = paired.private.cells <= FEW_RECORDS and paired.numbered
    most = max(1000, (ATTACKED if whole else 10 * ATTACKED) // paired.copies)
    people = np.arange(paired.people)
    if paired.people > most:
        people = np.sort(rng.permutation(paired.people)[:most])
    way = _whole_attacks if whole else _column_attacks
    found: list[Attack] = []
    for done, prior in enumerate(priors, 1):
        found += way(paired, prior, people)
        if progress:
            progress(done / 2)
    return found


def _attack(target: str, prior: str, right: Sequence[float], paired: Paired, people: int) -> Attack:
    """From how many were right: without a report, with one, and with all of a person."""
    baseline, one, every = (float(count) / people for count in right)
    return Attack(target, prior, baseline, one, every if paired.copies > 1 else None, people)


def _whole_attacks(paired: Paired, prior: str, people: NDArray[np.intp]) -> list[Attack]:
    """Weigh every possible record: its prior times the likelihood of the reports."""
    private, copies = paired.private, paired.copies
    cells, shares = [attribute.cells() for attribute in private], whole_prior(paired, "true")
    truth = paired.records(paired.truth.column(name) for name in private.names)
    start = _logarithms(whole_prior(paired, prior))
    right = np.zeros((1 + len(private), 3), dtype=np.int64)
    for part in np.split(people, range(2048, len(people), 2048)):  # some at a time, for memory
        held = truth[part]
        right[:, 0] += _right(start[None, :], private.shape, held)
        scores = start + _likelihoods(paired, part * copies, cells, shares)  # (people, cells)
        right[:, 1] += _right(scores, private.shape, held)
        for copy in range(1, copies):
            scores += _likelihoods(paired, part * copies + copy, cells, shares)
        if copies > 1:
            right[:, 2] += _right(scores, private.shape, held)
    names = ("record", *private.names)
    return [
        _attack(name, prior, counts, paired, len(people))
        for name, counts in zip(names, right.tolist(), strict=True)
    ]


def _right(
    scores: Floats,  # (people or 1, cells)
    shape: tuple[int, ...],
    truth: NDArray[np.intp],
) -> list[int]:
    """How many of the likeliest records, and of the likeliest values of each column, are true."""
    found = [int((scores.argmax(axis=1) == truth).sum())]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True)).reshape(-1, *shape)
    for axis, codes in enumerate(np.unravel_index(truth, shape)):
        rest = tuple(other + 1 for other in range(len(shape)) if other != axis)
        found.append(int((weights.sum(axis=rest).argmax(axis=1) == codes).sum()))
    return found


def _likelihoods(
    paired: Paired, rows: NDArray[np.intp], cells: Sequence[Cells], shares: Floats
) -> Floats:  # (rows, cells)
    """The log likelihood of the reports in some rows under every combination of these cells."""
    taken = tuple(column.take(rows) for column in paired.release.columns)
    return np.maximum(paired.mechanism.likelihood(taken, cells, shares=shares), NEVER)


def whole_prior(paired: Paired, prior: str) -> Floats:
    """The distribution of whole records: the true one, or the better of two that an attacker can
    reconstruct.
    """
    shape = paired.private.shape
    if prior == "true":
        numbers = paired.records(paired.truth.column(name) for name in paired.private.names)
        return np.bincount(numbers, minlength=math.prod(shape)) / paired.people
    if not paired.in_place:
        return _independent(paired, paired.release)
    half = paired.people // 2 * paired.copies
    first, second = paired.release.slice(0, half), paired.release.slice(half, paired.release.rows)
    if not half:
        return _independent(paired, paired.release)
    # An attacker chooses by the likelihood of reports that the prior was not made from.
    channel, reports = paired.channel_over(range(len(shape))), paired.reported(second)

    def likelihood(way: Callable[[Paired, Table], Floats]) -> float:
        expected = np.asarray(channel.apply(way(paired, first).reshape(shape))).ravel()
        return float(np.log(np.maximum(expected, 1e-300))[reports].sum())

    return max((_independent, _reconstructed), key=likelihood)(paired, paired.release)


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


def column_prior(paired: Paired, cells: Cells, prior: str) -> Floats:
    """The distribution of one column's cells."""
    if prior == "true":
        column = cells_of(cells, paired.truth.column(cells.attribute.name))
        return np.bincount(column, minlength=cells.size) / paired.people
    return clip_and_scale(Release.of(paired.release).marginal([cells]).value, 1.0)


def _column_attacks(paired: Paired, prior: str, people: NDArray[np.intp]) -> list[Attack]:
    """Guess each column from its own reports, and the record as its columns' guesses: for many
    possible records.
    """
    rows = people[:, None] * paired.copies + np.arange(paired.copies)
    record = np.ones((3, len(people)), dtype=bool)
    columns = []
    for attribute in paired.private:
        if isinstance(attribute, Items):
            continue
        cells = judged_cells(attribute)
        truth = cells_of(cells, paired.truth.column(attribute.name))[people]
        start = _logarithms(column_prior(paired, cells, prior))
        shares = column_prior(paired, cells, "true")
        each = _likelihoods(paired, rows.reshape(-1), [cells], shares).reshape(*rows.shape, -1)
        scores = (start[None, :], start + each[:, 0], start + each.sum(axis=1))
        hits = np.stack([np.broadcast_to(s.argmax(axis=1), len(people)) == truth for s in scores])
        record &= hits
        columns.append(
            _attack(attribute.name, prior, hits.sum(axis=1).tolist(), paired, len(people))
        )
    right = record.sum(axis=1).tolist()
    if paired.in_place and paired.private.cells < 1 << 62 and paired.numbered:
        # The attacker's better way, for one report and for all: column by column, or whole.
        right[1:] = map(max, right[1:], _reported_right(paired, prior, people))
    return [_attack("record", prior, right, paired, len(people)), *columns]


def _reported_right(paired: Paired, prior: str, people: NDArray[np.intp]) -> list[int]:
    """Right guesses at whole records among those that were reported, from one report and from all.

    For records that are kept or redrawn as a whole only a reported one is likelier than the prior
    says, so the best guess is one of the reports, or the likeliest record of all. Columns are taken
    as independent in the prior.
    """
    private = paired.private
    channel = paired.channel_over(range(len(private)))
    rows = people[:, None] * paired.copies + np.arange(paired.copies)
    reported = [
        np.asarray(paired.release.column(name))[rows].astype(np.intp) for name in private.names
    ]
    priors = [_logarithms(column_prior(paired, attribute.cells(), prior)) for attribute in private]
    likeliest = [np.full((len(people), 1), int(logs.argmax())) for logs in priors]
    truth = paired.records(paired.truth.column(name) for name in private.names)[people]
    found = []
    for seen in (1, paired.copies):
        shown = [codes[:, :seen] for codes in reported]
        best = _best_candidate(channel, priors, shown, likeliest, private.shape)
        found.append(int((best == truth).sum()))
    return found


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


def _item_attacks(paired: Paired, prior: str) -> list[Attack]:
    """Guess each item of a basket from its own bit; all items on average, and the three with most
    to lose.
    """
    truth, report, law = paired.true_baskets, paired.reported_baskets, paired.mechanism.item_law
    assert law is not None
    # Where chances depend on the size of the basket, those of one of average size.
    ones, zeros = law.keeps(max(1, round(float(truth.sizes().mean()))))
    rows, held, seen = truth.rows, paired.true_items, report.counts()
    shares = held / rows
    believed = shares
    if prior == "reconstructed":
        believed = np.clip((seen / rows - (1 - zeros)) / (ones + zeros - 1), 0.0, 1.0)
    start = np.log(np.maximum(believed, 1e-300)) - np.log(np.maximum(1 - believed, 1e-300))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The log odds of being true that a reported item, and a missing one, adds.
        odds = np.log(ones) - np.log(1 - zeros), np.log(1 - ones) - np.log(zeros)
    shown, hidden = (np.nan_to_num(each, nan=0.0, posinf=-NEVER, neginf=NEVER) for each in odds)
    both = np.bitwise_count(truth.words & report.words).sum(axis=1, dtype=np.int64)
    alone = seen - both
    where_shown = np.where(start + shown > 0, both, alone)
    where_hidden = np.where(start + hidden > 0, held - both, rows - held - alone)
    baseline, right = np.where(start > 0, shares, 1 - shares), (where_shown + where_hidden) / rows
    found = [("items on average", float(baseline.mean()), float(right.mean()))]
    for item in np.argsort(baseline - right, kind="stable")[:3].tolist():
        name = f"item '{paired.item_names[item]}'"
        found.append((name, float(baseline[item]), float(right[item])))
    return [Attack(name, prior, base, one, None, paired.people) for name, base, one in found]


@dataclass(frozen=True)
class Linkage:
    """How many people stand alone with their public values, and how likely a person with known
    public values is found.
    """

    columns: tuple[str, ...]
    people: int
    unique: int
    groups: int

    @property
    def found(self) -> float:
        """The chance to pick the right person among those with the same public values: groups /
        people.
        """
        return self.groups / self.people

    def to_dict(self) -> dict[str, Any]:
        return {
            "public_columns": list(self.columns),
            "people": self.people,
            "unique": self.unique,
            "groups": self.groups,
            "found": self.found,
        }


def linkage(paired: Paired) -> Linkage:
    """The groups of people with the same public values; one group of all where nothing
    is public.
    """
    public = [attribute.name for attribute in paired.release.domain if attribute.public]
    if not public:
        return Linkage((), paired.people, int(paired.people == 1), 1)
    group = np.zeros(paired.people, dtype=np.int64)
    for name in public:
        codes = np.asarray(paired.release.column(name))[:: paired.copies].astype(np.int64)
        # Renumbered after each column, so that the product of many columns never overflows.
        _, group = np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)
    sizes = np.bincount(group)
    return Linkage(tuple(public), paired.people, int((sizes == 1).sum()), len(sizes))
