"""The fewest cells to blank so that every record's keys, as they then read, are shared by k
records.

Each record chooses which of its cells to blank; those that then read alike are a group, and every
group needs k members. To blank the fewest cells is hard (Meyerson and Williams 2004), so:

* a bound: a record blanks at least as many cells as it takes until k records *could* read like it;
* a start: level by level, records that are still in small groups blank one cell more, in the
  columns that bring most of them together first, with members of larger groups taken in where
  that is cheaper;
* then, while time is left, a few neighbouring groups at a time are solved exactly by an integer
  programme, everything else standing still. A small table is one neighbourhood: its answer is
  proved.

A reading (a record with its blanks) is a number: the sum of a random 64-bit number for each cell
that is not blank. Two readings that differ share it with chance 2^-64; the answer is checked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError
from sfumato.progress import Progress, silent
from sfumato.publish.integer import least, sparse
from sfumato.publish.limits import MOST_STALE, SOME_CHOICES, SOME_SECONDS, WHOLE_CHOICES
from sfumato.randomness import Keystream, seeded

Readings = NDArray[np.uint64]  # (records,)
Mask = NDArray[np.bool_]  # (records, columns): what is blanked


@dataclass(frozen=True, eq=False)
class Blanking:
    """Which cells are blanked, the number below which nobody can go, and whether this is the least
    possible.
    """

    blank: Mask
    bound: int
    proved: bool

    @property
    def cells(self) -> int:
        """The number of cells blanked."""
        return int(self.blank.sum())


@dataclass(frozen=True, eq=False)
class _Cells:
    """A random number for each cell, 0 for one that is blank from the start; and how many must read
    alike.
    """

    marks: NDArray[np.uint64]  # (records, columns)
    k: int

    @classmethod
    def of(cls, codes: NDArray[np.integer], k: int) -> _Cells:
        """The marks of codes, equal codes of a column having equal marks; -1 is blank."""
        marks = np.zeros(codes.shape, dtype=np.uint64)
        for place, column in enumerate(codes.T):
            drawn = seeded(place).words(int(column.max(initial=-1)) + 2)
            drawn[0] = 0
            marks[:, place] = drawn[column + 1]
        return cls(marks, k)

    @property
    def columns(self) -> int:
        return int(self.marks.shape[1])

    def readings(self, blank: Mask) -> Readings:
        """How each record reads with these blanks."""
        return np.where(blank, np.uint64(0), self.marks).sum(axis=1, dtype=np.uint64)

    def without(self, columns: tuple[int, ...], rows: NDArray[np.intp] | None = None) -> Readings:
        """How each record (of these rows) reads with these columns blank and no other."""
        chosen = self.whole if rows is None else self.whole[rows]
        for place in columns:
            chosen = chosen - (self.marks[:, place] if rows is None else self.marks[rows, place])
        return chosen

    @cached_property
    def whole(self) -> Readings:
        """How each record reads with no cell blanked."""
        return self.marks.sum(axis=1, dtype=np.uint64)

    def none(self) -> Mask:
        """Nothing blanked."""
        return np.zeros(self.marks.shape, dtype=bool)

    def cost(self, blank: Mask) -> NDArray[np.int64]:
        """How many cells of each record are blanked that were not blank before."""
        return (blank & (self.marks != 0)).sum(axis=1)


def blanked(
    codes: NDArray[np.integer],  # (records, columns)
    k: int,
    *,
    rng: Keystream,
    seconds: float = 10.0,
    progress: Progress = silent,
) -> Blanking:
    """Cells to blank so that each row of codes, read with the blanks, occurs k times or more; a
    code of -1 is blank from the start.
    """
    cells = _Cells.of(codes, k)
    bound = _bound(cells)
    blank = _started(cells, progress)
    whole = _solved(cells, blank, np.arange(len(codes)), WHOLE_CHOICES, max(seconds, 1.0))
    if whole is not None:
        blank, proved = whole
        bound = int(cells.cost(blank).sum()) if proved else bound
    else:
        blank = _improved(cells, blank, rng, time.monotonic() + seconds, bound, progress)
        proved = int(cells.cost(blank).sum()) == bound
    blank &= cells.marks != 0
    _, size = np.unique(np.where(blank, -1, codes), axis=0, return_counts=True)
    if size.min(initial=k) < k:
        raise EstimationError(f"a group of {size.min()} records was left, fewer than {k}")
    return Blanking(blank, bound, proved)


def _sizes(readings: Readings) -> NDArray[np.int64]:
    """How many records read like each."""
    _, number, size = np.unique(readings, return_inverse=True, return_counts=True)
    found: NDArray[np.int64] = size[number.ravel()]
    return found


def _bound(cells: _Cells) -> int:
    """What no answer can undercut, summed over the records whose group is too small.

    A group that blanks the columns m of k members or more costs |m|·max(k, members) cells. Shared
    out among those of its members that are in small groups now, of which there are at most as many
    as could read so, it costs each of them at least |m|·max(1, k / those).
    """
    poor = np.flatnonzero(_sizes(cells.readings(cells.none())) < cells.k)
    least = np.full(len(poor), np.inf)
    always = (cells.marks != 0).all(axis=0)  # columns in which everyone has something to blank
    missing = (cells.marks[poor] == 0).sum(axis=1)  # which cost a record nothing, at any level
    for level in range(1, cells.columns + 1):
        if not (least > level - missing).any():
            break
        for columns in combinations(range(cells.columns), level):
            own = (cells.marks[poor[:, None], list(columns)] != 0).sum(axis=1)
            if not (least > own).any():
                continue
            readings = cells.without(columns)
            enough = _sizes(readings)[poor] >= cells.k
            shared = always[list(columns)].sum() * cells.k / _sizes(readings[poor])
            least[enough] = np.minimum(least, np.maximum(own, shared))[enough]
    return int(np.ceil(least.sum() - 1e-6)) if len(poor) else 0


def _started(cells: _Cells, progress: Progress) -> Mask:
    """A first answer: the groups that cost least for each record of a small group come first."""
    blank = cells.none()
    live = np.flatnonzero(_sizes(cells.readings(blank)) < cells.k)
    spare = _sizes(cells.readings(blank)) - cells.k
    steps = sorted(
        (level * max(1.0, cells.k / poor), level, poor)
        for level in range(1, cells.columns + 1)
        for poor in range(1, cells.k + 1)
    )
    for place, (_, level, poor) in enumerate(steps):
        progress("grouping the records that are alone", place / len(steps))
        choices = list(combinations(range(cells.columns), level))
        # How many records of small groups would read alike with these columns blank.
        gains = [int((_sizes(cells.without(each, live)) >= poor).sum()) for each in choices]
        for which in np.argsort(gains)[::-1].tolist():
            if gains[which] and len(live):
                live = _grouped(cells, blank, live, spare, choices[which], poor)
        if not len(live):
            return _moved_down(cells, blank)
    return _moved_down(cells, _rest_blanked(cells, blank))


def _grouped(
    cells: _Cells,
    blank: Mask,
    live: NDArray[np.intp],
    spare: NDArray[np.int64],
    columns: tuple[int, ...],
    poor: int,
) -> NDArray[np.intp]:
    """Blank these columns where `poor` records or more then read alike, with as many members of
    larger groups as they miss; the records that are left.
    """
    tried = cells.without(columns, live)
    size = _sizes(tried)
    ready = size >= cells.k
    wanting = np.flatnonzero((size >= poor) & ~ready)
    if len(wanting):
        ready[_completed(cells, blank, tried, wanting, spare, columns)] = True
    blank[live[ready][:, None], list(columns)] = True
    return live[~ready]


def _completed(
    cells: _Cells,
    blank: Mask,
    tried: Readings,
    wanting: NDArray[np.intp],
    spare: NDArray[np.int64],
    columns: tuple[int, ...],
) -> NDArray[np.intp]:
    """Those of the wanting (places among the tried) whose group is made up by members of larger
    ones, which are blanked with it.
    """
    rich = np.flatnonzero((spare > 0) & ~blank.any(axis=1))
    theirs = cells.without(columns, rich)
    rich, theirs = rich[np.isin(theirs, tried[wanting])], theirs[np.isin(theirs, tried[wanting])]
    order = np.argsort(theirs, kind="stable")
    rich, theirs = rich[order], theirs[order]
    home = cells.without((), rich)
    done: list[int] = []
    for value, number in zip(*np.unique(tried[wanting], return_counts=True), strict=True):
        low, high = np.searchsorted(theirs, value), np.searchsorted(theirs, value, side="right")
        near = rich[low:high]
        near = near[spare[near] > 0]
        found = _first_spared(near, cells.without((), near), spare, int(cells.k - number))
        if len(found) == cells.k - number:
            blank[found[:, None], list(columns)] = True
            for reading in cells.without((), found):
                spare[rich[home == reading]] -= 1
            spare[found] = 0
            done += wanting[tried[wanting] == value].tolist()
    return np.array(done, dtype=np.intp)


def _first_spared(
    near: NDArray[np.intp], home: Readings, spare: NDArray[np.int64], wanted: int
) -> NDArray[np.intp]:
    """So many members of larger groups, from each no more than it can do without."""
    order = np.argsort(home, kind="stable")
    near, home = near[order], home[order]
    place = np.arange(len(near)) - np.searchsorted(home, home)
    return near[place < spare[near]][:wanted]


def _moved_down(cells: _Cells, blank: Mask) -> Mask:
    """The answer after records moved to groups that are there already and cost them less, alone
    where their own group can do without them, or all together.
    """
    readings = cells.readings(blank)
    for level in range(cells.columns):
        for columns in combinations(range(cells.columns), level):
            touched = np.flatnonzero(blank.any(axis=1))
            tried = cells.without(columns, touched)
            cost = (cells.marks[touched[:, None], list(columns)] != 0).sum(axis=1)
            dearer = cost < cells.cost(blank)[touched]
            better = np.zeros(len(blank), dtype=bool)
            better[touched[dearer & np.isin(tried, readings) & (tried != readings[touched])]] = True
            free = np.flatnonzero(_free_to_go(readings, better, cells.k))
            blank[free] = False
            blank[free[:, None], list(columns)] = True
            readings[free] = cells.without(columns, free)
    return blank


def _free_to_go(readings: Readings, better: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """Which of those who would be better off can leave: all of a group, or as many as it spares."""
    if not better.any():
        return better
    _, number, size = np.unique(readings, return_inverse=True, return_counts=True)
    number = number.ravel()
    leaving = np.bincount(number[better], minlength=len(size))
    most = np.where(leaving == size, size, np.minimum(leaving, np.maximum(size - k, 0)))
    rows = np.flatnonzero(better)
    order = rows[np.argsort(number[rows], kind="stable")]
    place = np.arange(len(order)) - np.searchsorted(number[order], number[order])
    free = np.zeros(len(readings), dtype=bool)
    free[order[place < most[number[order]]]] = True
    return free


def _rest_blanked(cells: _Cells, blank: Mask) -> Mask:
    """The answer with the few that found no company blanked wholly, and as many others as that
    takes.
    """
    blank = blank.copy()
    blank[_sizes(cells.readings(blank)) < cells.k] = True
    readings = cells.readings(blank)
    size = _sizes(readings)
    missing = cells.k - int((readings == 0).sum())
    if 0 < missing < cells.k:
        others = np.flatnonzero(readings != 0)
        found = _first_spared(others, readings[others], size - cells.k, missing)
        if len(found) < missing:  # no group can spare anyone: the smallest joins whole
            found = np.flatnonzero(readings == readings[others[np.argmin(size[others])]])
        blank[found] = True
    return blank


def _improved(
    cells: _Cells,
    blank: Mask,
    rng: Keystream,
    until: float,
    bound: int,
    progress: Progress,
) -> Mask:
    """The answer after neighbourhoods were solved one after the other while time is left."""
    total = max(until - time.monotonic(), 1e-9)
    stale, cost = 0, int(cells.cost(blank).sum())
    while stale < MOST_STALE and time.monotonic() < until and cost > bound:
        left = until - time.monotonic()
        progress(f"{cost:,} cells blanked", 1 - left / total)
        touched = np.flatnonzero(cells.cost(blank))
        seed = int(touched[int(rng.below(len(touched), 1)[0])])
        rows = _neighbours(cells, blank, seed)
        solved = _solved(cells, blank, rows, SOME_CHOICES, max(0.1, min(SOME_SECONDS, left)))
        better = cost if solved is None else int(cells.cost(solved[0]).sum())
        stale = 0 if better < cost else stale + 1
        if solved is not None and better < cost:
            blank, cost = solved[0], better
    return blank


def _neighbours(cells: _Cells, blank: Mask, seed: int) -> NDArray[np.intp]:
    """Whole groups of blanked records near one of them, and a few whom large groups can spare;
    none where all near it are too large.
    """
    readings = cells.readings(blank)
    size = _sizes(readings)
    most = max(40, 4 * cells.k)  # records: the choices of many more take long to solve
    spare = ~blank.any(axis=1) & (size > cells.k)
    apart = (cells.marks != cells.marks[seed]).sum(axis=1)
    order = np.argsort(apart + 0.5 * spare, kind="stable")[: 20 * most]
    chosen: list[int] = []
    for reading in dict.fromkeys(readings[order].tolist()):
        members = np.flatnonzero(readings == reading)
        if spare[members[0]]:
            members = members[: min(cells.k, len(members) - cells.k)]
        if len(members) <= most // 2 and len(chosen) + len(members) <= most:
            chosen += members.tolist()
        if len(chosen) > most - cells.k:
            break
    return np.array(chosen, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Choices:
    """Kinds of records with the readings that each could take, and the records that are beyond."""

    number: NDArray[np.int64]  # records of each kind
    kind: NDArray[np.intp]  # one entry a choice
    reading: NDArray[np.intp]
    mask: NDArray[np.intp]  # the number of the choice of columns
    cost: NDArray[np.int64]
    there: NDArray[np.int64]  # records elsewhere with each reading


def _choices(
    cells: _Cells,
    kinds: NDArray[np.uint64],
    number: NDArray[np.int64],
    elsewhere: Readings,
    masks: NDArray[np.bool_],
) -> _Choices:
    """Every kind with every reading by these masks that k records could share."""
    taken = np.where(masks[None], np.uint64(0), kinds[:, None, :])  # (kinds, masks, columns)
    readings = taken.sum(axis=2, dtype=np.uint64)
    cost = (masks[None] & (kinds != 0)[:, None, :]).sum(axis=2)
    kind = np.repeat(np.arange(len(kinds)), len(masks))
    values, reading = np.unique(readings.ravel(), return_inverse=True)
    # Blanks that were there already make several masks one reading.
    _, once = np.unique(kind * len(values) + reading.ravel(), return_index=True)
    held = np.bincount(reading.ravel()[once], weights=number[kind[once]], minlength=len(values))
    there = _counted(values, elsewhere)
    once = once[(held + there)[reading.ravel()[once]] >= cells.k]
    used, reading = np.unique(reading.ravel()[once], return_inverse=True)
    mask = np.tile(np.arange(len(masks)), len(kinds))
    return _Choices(
        number, kind[once], reading.ravel(), mask[once], cost.ravel()[once], there[used]
    )


@cache
def _few_columns(columns: int, level: int) -> NDArray[np.bool_]:  # (masks, columns)
    """Every choice of up to so many columns."""
    chosen = [choice for size in range(level + 1) for choice in combinations(range(columns), size)]
    masks = np.zeros((len(chosen), columns), dtype=bool)
    for place, choice in enumerate(chosen):
        masks[place, list(choice)] = True
    return masks


def _counted(values: NDArray[np.uint64], readings: Readings) -> NDArray[np.int64]:
    """How many readings equal each of the (sorted) values."""
    ordered = np.sort(readings)
    ends = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    return ends[1] - ends[0]


def _solved(
    cells: _Cells, blank: Mask, rows: NDArray[np.intp], most: int, seconds: float
) -> tuple[Mask, bool] | None:
    """The best blanks of these records, all others standing still, and whether that is proved; None
    where there are more choices than `most`, or no answer in time.

    For some of the records, three columns at once or fewer are tried, until the choices are few
    enough.
    """
    if not len(rows):
        return None
    kinds, member, number = np.unique(
        cells.marks[rows], axis=0, return_inverse=True, return_counts=True
    )
    elsewhere = np.delete(cells.readings(blank), rows)
    level = cells.columns if len(rows) == len(blank) else min(cells.columns, 3)
    while True:
        masks = np.unique(np.concatenate([_few_columns(cells.columns, level), blank[rows]]), axis=0)
        if len(kinds) * len(masks) <= 100 * most:
            choices = _choices(cells, kinds, number, elsewhere, masks)
            if len(choices.kind) <= most:
                break
        if len(rows) == len(blank) or level == 1:
            return None
        level -= 1
    picked = _programme(choices, cells.k, seconds)
    if picked is None:
        return None
    taken, proved = picked
    better = blank.copy()
    waiting = [rows[member.ravel() == kind].tolist() for kind in range(len(kinds))]
    for place in np.flatnonzero(taken).tolist():
        for _ in range(int(taken[place])):
            better[waiting[choices.kind[place]].pop()] = masks[choices.mask[place]]
    return better, proved


def _programme(choices: _Choices, k: int, seconds: float) -> tuple[NDArray[np.int64], bool] | None:
    """How many records of a kind take each reading, every reading shared by k, with the fewest
    blanks: an integer programme.
    """
    count, groups = len(choices.kind), len(choices.there)
    columns, place, group = count + groups, np.arange(count), np.arange(groups)
    number = choices.number[choices.kind]
    need = np.maximum(k - choices.there, 0)
    every = sparse([(choices.kind, place, 1)], (len(choices.number), columns))
    # A record may take a reading only if the group is there; a group needs its missing members.
    linked = count + choices.reading
    link = sparse([(place, place, 1), (place, linked, -number)], (count, columns))
    members = [(choices.reading, place, 1), (group, count + group, -need)]
    result = least(
        np.append(choices.cost, np.zeros(groups)),
        [
            (every, choices.number, choices.number),
            (link, -np.inf, 0),
            (sparse(members, (groups, columns)), 0, np.inf),
        ],
        upper=np.append(number, np.ones(groups)),
        seconds=seconds,
    )
    if result.x is None:
        return None
    return np.round(result.x[:count]).astype(np.int64), result.status == 0
