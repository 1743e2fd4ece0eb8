"""Questions: which sets of columns a questionnaire asks about, how often, and how large ones are
folded to few answers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.contrasts import Axes, Floats, subsets
from sfumato.channels.linear import inverted
from sfumato.channels.questionnaire_channel import Question
from sfumato.domain import Domain
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.mechanisms.limits import MOST_CELLS
from sfumato.mechanisms.shares import Workload, answers_of, best_shares, identity_limit
from sfumato.privacy.probability import ONE
from sfumato.randomness import seeded

ORDERS = {"singles": 1, "pairs": 2, "triples": 3}
USUAL = {1: 0.1, 2: 0.5, 3: 0.4}  # shares by order, for few columns
FEW_COLUMNS, FEW_CELLS = 8, 10_000
TRIES = 3000  # random sets among which a cover is chosen
WASTE = 11.0  # times the variance of maps without end, beyond which there are too few maps
AMPLE = 4.0  # the same, from which there are enough
SINGULAR = 1e-7  # of the greatest pivot: less is rounding
NEGLIGIBLE = 1e-4  # a share below this is not worth a question


def asked(
    sets: Sequence[Axes], shares: Sequence[float], shape: Sequence[int], gamma: float
) -> tuple[Question, ...]:
    """Questions about these sets of columns with these shares: large ones folded several ways."""
    parts = []
    for axes, share in zip(sets, shares, strict=True):
        cells = math.prod(shape[axis] for axis in axes)
        answers = answers_of(cells, gamma)
        maps = (None,) if answers == cells else ample_folds(cells, answers)
        parts += [(axes, share / len(maps), answers, each) for each in maps]
    weights = whole_weights([share for _, share, _, _ in parts])
    return tuple(
        Question(axes, answers, weight, each)
        for (axes, _, answers, each), weight in zip(parts, weights, strict=True)
        if weight
    )


def whole_weights(shares: Sequence[float]) -> list[int]:
    """Whole weights of sum 2^32 in proportion to the shares: what a 32-bit word can deal."""
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * ONE).astype(np.int64)
    return [int(weight) for weight in np.diff(ends, prepend=0)]


@lru_cache(maxsize=1024)
def folds(cells: int, answers: int) -> tuple[tuple[int, ...], ...]:
    """Balanced maps from cells to answers, fixed for all time, that determine the cells together.

    Each map is a random partition into groups whose sizes differ by at most one; there are
    max(2, ⌈(K−1)/(g−1)⌉) of them, or one more should the cells not be determined.

    >>> [len(set(each)) for each in folds(5, 3)]
    [3, 3]
    """
    number = least_number(cells, answers)
    for attempt in range(16):
        maps = [_fold(cells, answers, place, attempt) for place in range(number + attempt // 4)]
        if math.isfinite(waste(shared_answers(maps))):
            return tuple(maps)
    raise ParameterError(f"no {number} maps of {cells} cells to {answers} answers tell them apart")


def least_number(cells: int, answers: int) -> int:
    """How many maps from cells to answers it takes at least to determine the cells."""
    return max(2, math.ceil((cells - 1) / (answers - 1)))


@lru_cache(maxsize=1024)
def ample_folds(cells: int, answers: int) -> tuple[tuple[int, ...], ...]:
    """The least number of maps (`folds`), or more where so few hardly determine the cells.

    Where the answers are hardly more than the cells, some sums of cells are hardly told: of 210
    cells and 11 maps to 20 answers the variance would be 2,600 times that of maps without end.

    >>> len(folds(125, 20)), len(ample_folds(125, 20)), len(folds(96, 20)), len(ample_folds(96, 20))
    (7, 7, 5, 7)
    """
    maps = list(folds(cells, answers))
    shared = shared_answers(maps)
    wasted = waste(shared)
    if wasted <= WASTE:
        return tuple(maps)
    more = max(1, len(maps) // 8)
    while wasted > AMPLE:
        further = [_fold(cells, answers, len(maps) + place, 0) for place in range(more)]
        shared += shared_answers(further)
        wasted, maps = waste(shared), maps + further
    return tuple(maps)


def shared_answers(maps: Sequence[Sequence[int]]) -> NDArray[np.int32]:  # (cells, cells)
    """Under how many of the maps each cell shares its answer with each other."""
    groups = np.array(maps, dtype=np.int16)  # fewer than 1,024 answers
    shared = np.zeros((groups.shape[1],) * 2, dtype=np.int32)
    for each in groups:
        shared += np.equal.outer(each, each)
    return shared


def waste(shared: NDArray[np.int32]) -> float:
    """How many times the mean variance of the cells is what it would be, were there balanced maps
    without end, all cells being equally likely; infinite where the maps leave cells undetermined.

    That is the mean eigenvalue of what the maps tell of the cells, the sum of all left aside, times
    the mean of the inverse eigenvalues: two traces.
    """
    cells = len(shared)
    told = shared - shared.mean(axis=0) - shared.mean(axis=1, keepdims=True) + shared.mean()
    mean = float(np.trace(told)) / (cells - 1)
    inverse = inverted(told + mean / cells, SINGULAR)  # as if of the sum, too, what is usual
    if inverse is None:
        return math.inf
    return mean * (float(np.trace(inverse)) - 1 / mean) / (cells - 1)


def _fold(cells: int, answers: int, place: int, attempt: int) -> tuple[int, ...]:
    text = f"sfumato fold {cells} {answers} {place} {attempt}".encode()
    seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    order = seeded(seed).permutation(cells)
    result = np.empty(cells, dtype=np.intp)
    result[order] = np.arange(cells) % answers
    return tuple(result.tolist())


def stated(text: str, domain: Domain) -> tuple[list[Axes], list[float], tuple[str, ...]]:
    """The sets of private columns that a text states and their shares; and what had to be left out.

    A part is an order (singles, pairs, triples) or columns joined by a plus, then its share.

    >>> from sfumato.domain import Category
    >>> coins = Domain((Category("one", ("h", "t")), Category("two", ("h", "t"))))
    >>> stated("singles:0.5,one+two:0.5", coins)
    ([(0,), (1,), (0, 1)], [0.25, 0.25, 0.5], ())
    """
    parts = _shares_of(text, domain)
    orders = {order: share for order, share in parts.items() if isinstance(order, int)}
    named = {axes: share for axes, share in parts.items() if not isinstance(axes, int)}
    shape, names = domain.private.shape, domain.private.names
    for axes in named:
        _check_cells(shape, axes, names)
    if not orders:
        return list(named), list(named.values()), ()
    sets, shares, notes = by_order(shape, orders, names)
    rest = 1 - sum(named.values())
    found = {axes: share * rest for axes, share in zip(sets, shares, strict=True)}
    for axes, share in named.items():
        found[axes] = found.get(axes, 0.0) + share
    return list(found), list(found.values()), notes


def _shares_of(text: str, domain: Domain) -> dict[int | Axes, float]:
    """The shares of orders and of named columns; they sum to 1."""
    found: dict[int | Axes, float] = {}
    for part in parts_of(text, lambda part: _is_share(part, domain)):
        word, _, number = part.strip().rpartition(":")
        place = ORDERS[word] if word in ORDERS else _named(word, part.strip(), domain)
        if place in found:
            raise ParameterError(f"'{word}' is given two shares; give it one")
        try:
            found[place] = float(number)
        except ValueError:
            found[place] = math.nan
        if not 0 < found[place] <= 1:
            raise ParameterError(f"{word}:{number} is no share; use a number above 0 and at most 1")
    total = math.fsum(found.values())
    if abs(total - 1) > 1e-6:
        raise ParameterError(f"the shares of questions sum to {total:g}; they must sum to 1")
    return found


def _named(word: str, part: str, domain: Domain) -> Axes:
    """The private columns that a part of a text names."""
    names = columns_of(word, domain.names)
    if len(names) == 1 and word not in domain.names:
        raise ParameterError(
            f"'{part}' is no share of questions ({listing(ORDERS)}, or columns)",
            hint=near_miss(word, (*ORDERS, *domain.names))
            or "write singles:0.1,pairs:0.5,triples:0.4",
        )
    for name in names:
        if domain[name].public:
            raise ParameterError(
                f"a question asks about '{name}', which is public and stands in every report",
                hint="ask about private columns",
            )
    if len(set(names)) < len(names):
        raise ParameterError(f"'{word}' names a column twice", hint="name each once")
    return tuple(sorted(domain.private.index(name) for name in names))


def _is_share(part: str, domain: Domain) -> bool:
    """Whether a part of a text states the share of an order or of columns that there are."""
    word, colon, _ = part.strip().rpartition(":")
    known = word in ORDERS or set(columns_of(word, domain.names)) <= {*domain.names}
    return bool(colon) and known


def parts_of(text: str, is_one: Callable[[str], bool]) -> list[str]:
    """A text parted at commas, but at none within what `is_one` knows: a name may have commas.

    >>> parts_of("size,x+age,y+sex", {"size,x+age", "y+sex"}.__contains__)
    ['size,x+age', 'y+sex']
    """
    left, found = text.split(","), []
    while left:
        ends = (n for n in range(1, len(left) + 1) if is_one(",".join(left[:n])))
        end = next(ends, 1)
        found.append(",".join(left[:end]))
        left = left[end:]
    return found


def columns_of(word: str, names: Sequence[str]) -> list[str]:
    """Column names joined by a plus, which a name may have too.

    >>> columns_of("a+b+sex", ("sex", "a+b")), columns_of("age+sex", ("sex", "a+b"))
    (['a+b', 'sex'], ['age', 'sex'])
    """
    return _joined(word.split("+"), frozenset(names)) or word.split("+")


def _joined(pieces: Sequence[str], names: Set[str]) -> list[str] | None:
    """The pieces put together to names that there are; None where that cannot be."""
    if not pieces:
        return []
    for end in range(1, len(pieces) + 1):
        first, rest = "+".join(pieces[:end]), None
        if first in names:
            rest = _joined(pieces[end:], names)
        if rest is not None:
            return [first, *rest]
    return None


def by_order(
    shape: Sequence[int], shares: Mapping[int, float], names: Sequence[str]
) -> tuple[list[Axes], list[float], tuple[str, ...]]:
    """Every set of columns of these orders, uniform inside each; and what had to be left out.

    An order that the schema is too small for is left out and the rest rescaled.
    """
    columns = asked_about(shape)
    possible = {order: share for order, share in shares.items() if order <= len(columns)}
    notes = tuple(
        f"{word} were left out and the other shares rescaled: there are only {len(columns)} "
        "private columns"
        for word, order in ORDERS.items()
        if order in shares and order not in possible
    )
    if not possible:
        raise ParameterError(
            f"no question can be asked: {listing(shares)} columns at once of {len(columns)}",
            hint="ask singles",
        )
    total = sum(possible.values())
    sets: list[Axes] = []
    each: list[float] = []
    for order, share in sorted(possible.items()):
        every = list(combinations(columns, order))
        for axes in every:
            _check_cells(shape, axes, names)
        sets += every
        each += [share / total / len(every)] * len(every)
    return sets, each, notes


def _check_cells(shape: Sequence[int], axes: Axes, names: Sequence[str]) -> None:
    cells = math.prod(shape[axis] for axis in axes)
    if cells > MOST_CELLS:
        raise ParameterError(
            f"a question about {listing(names[axis] for axis in axes)} has {cells:,} cells, more "
            f"than {MOST_CELLS:,}",
            hint="give its columns fewer values (coarser cuts, other = …), or ask fewer at once",
        )


def asked_about(shape: Sequence[int]) -> list[int]:
    """The columns that a question can be about: those of more than one value."""
    return [axis for axis, size in enumerate(shape) if size > 1]


def cover(
    shape: Sequence[int], gamma: float, workload: Workload, within: Sequence[int] | None = None
) -> tuple[list[Axes], Floats]:
    """Sets of columns and shares that answer a workload well where columns are many.

    Candidates are all pairs that it holds, folded if they must be, and random maximal sets of
    columns whose cells are few enough to be answers of their own; shares are optimised, negligible
    ones dropped. A column that none of them holds is asked alone. The draws are fixed, so the same
    schema gives the same questions. With `within` every set holds these columns.
    """
    wanted = {axes for axes in workload.weights if len(axes) <= 2}
    pairs = {axes for axes in wanted if math.prod(shape[a] for a in axes) <= MOST_CELLS}
    sets = pairs | _maximal(shape, gamma, tuple(within or ()))
    several = {axes for axes in sets if len(axes) > 1}
    columns = asked_about(shape) if within is None else within
    alone = {(axis,) for axis in columns if not any(axis in axes for axes in several)}
    ranked = sorted(several | alone, key=lambda axes: (len(axes), axes))
    held = {part for axes in ranked for part in subsets(axes, 2)}  # else no set tells of it
    told = {axes: weight for axes, weight in workload.weights.items() if axes in held}
    shares = best_shares(ranked, Workload(workload.shape, told), gamma)
    worth = shares > NEGLIGIBLE
    kept = [axes for axes, keep in zip(ranked, worth, strict=True) if keep]
    return kept, shares[worth] / shares[worth].sum()


def _maximal(shape: Sequence[int], gamma: float, start: Axes) -> set[Axes]:
    """Random sets of columns to which no further one can be added: each tries all in its order."""
    limit = identity_limit(gamma)
    sizes = np.where(np.array(shape) > 1, np.array(shape, dtype=np.float64), np.inf)
    order = np.argsort(seeded(1).words(TRIES * len(shape)).reshape(TRIES, -1), axis=1)
    held = np.zeros((TRIES, len(shape)), dtype=bool)
    held[:, list(start)] = True
    cells = np.full(TRIES, math.prod(shape[axis] for axis in start), dtype=np.float64)
    every = np.arange(TRIES)
    for axis in order.T:
        fits = ~held[every, axis] & (cells * sizes[axis] <= limit)
        held[every[fits], axis[fits]] = True
        cells[fits] *= sizes[axis[fits]]
    held = np.unique(held[(cells <= limit) & held.any(axis=1)], axis=0)
    return {tuple(np.flatnonzero(row).tolist()) for row in held}


def free_column(name: str, taken: set[str]) -> str:
    """A name for a column of the reports that no public column has."""
    return name if name not in taken else free_column(f"{name}_", taken)
