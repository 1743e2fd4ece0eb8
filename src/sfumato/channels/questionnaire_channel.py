"""Questions: each person answers one small question at the full guarantee; what the answers say of
any columns that some question held together.

A question asks for the cell of a few axes, or for the group of cells that a public map puts it in,
and is answered by k-ary response: P(y) = β + α·p(cells of y), α = (γ−1)/(γ+g−1), β = 1/(γ+g−1) for
g answers. So what is expected of every answer is linear in the means c of the features of the
interactions (`contrasts`), and c comes back by generalised least squares (`linear`), with the
people who in fact got each question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Counts, Dealt, batched, unbatched
from sfumato.channels.contrasts import Axes, Floats, Interactions, independent
from sfumato.channels.limits import FULL, KEPT, MOST_WORK
from sfumato.channels.linear import Block, Design, LeastSquares, Response
from sfumato.errors import Unanswerable
from sfumato.memory import Recent
from sfumato.privacy.probability import ONE


@dataclass(frozen=True)
class Question:
    """Some columns (their places among the private ones, ascending) asked at once, how their cells
    are answered, and the weight by which it is dealt.

    `map` is the public one from cells to answers; without it every cell is an answer. Cells are
    numbered with the last column changing fastest. A question without columns is about something
    else.
    """

    columns: Axes
    answers: int
    weight: int  # of 2^32
    map: tuple[int, ...] | None = None

    @property
    def share(self) -> float:
        """Of the people, that is dealt it."""
        return self.weight / ONE

    @cached_property
    def held(self) -> frozenset[int]:
        """The columns, to be compared with others."""
        return frozenset(self.columns)

    @cached_property
    def bits(self) -> int:
        """The same as bits, where sets are compared many times."""
        return _bits(self.columns)


class Pool(NamedTuple):
    """Questions that say the same, in the same way, of those of their axes that are looked at."""

    axes: Axes
    answers: int
    map: tuple[int, ...] | None


class Rows(NamedTuple):
    """The rows of a design: answers, or several of one question that say the same."""

    sizes: NDArray[np.intp]  # (pools,): how many each pool has
    pool_of_row: NDArray[np.intp]  # (rows,)
    pool_of_question: NDArray[np.intp]  # (questions,): -1 where it says nothing
    row_of: NDArray[np.intp]  # (questions, answers): where each is counted, -1 where in none
    multiplicity: Floats  # (questions, answers): how many answers of its question share its row


def pools_of(
    questions: Sequence[Question], asked: Axes | None = None, holding: Axes = ()
) -> dict[Pool, list[int]]:
    """The questions that say something of these axes (None: of any), by what they say; only those
    that hold all the axes of `holding`. Pools of the same axes stand together.

    Where each cell is an answer, a question speaks of any of its axes, the others summed out; a
    folded question only of all its axes.
    """
    wanted, needed = -1 if asked is None else _bits(asked), _bits(holding)
    found: dict[tuple[int, int, Any], list[int]] = {}
    for place, question in enumerate(questions):
        inside = question.bits & wanted
        whole = inside == question.bits or question.map is None
        if inside and whole and question.bits & needed == needed:
            found.setdefault((inside, question.answers, question.map), []).append(place)
    return {
        Pool(tuple(a for a in range(bits.bit_length()) if bits >> a & 1), answers, map_): places
        for (bits, answers, map_), places in sorted(found.items(), key=lambda each: each[0][0])
    }


def _bits(axes: Axes) -> int:
    return sum(1 << axis for axis in axes)


@dataclass(frozen=True, eq=False)
class System:
    """What the answers to questions say of the interactions of some axes, as a design whose rows
    are answers, or several that say the same.

    >>> coins = System((2, 2), (Question((0, 1), 4, ONE),), 3.0)
    >>> coins.interactions.sets, coins.design.offset.tolist()
    (((0,), (1,), (0, 1)), [0.25, 0.25, 0.25, 0.25])
    """

    shape: tuple[int, ...]
    questions: tuple[Question, ...]
    gamma: float
    asked: Axes | None = None  # the only axes that are looked at; None: all
    holding: Axes = ()  # only questions that hold all of these are looked at
    _solved: Recent[LeastSquares] = field(
        default_factory=lambda: Recent(KEPT), init=False, repr=False
    )
    _narrower: dict[tuple[str, Axes], System] = field(default_factory=dict, init=False, repr=False)

    def within(self, axes: Axes) -> System:
        """What the same answers say of a few axes, whatever the others are."""
        return self if self.asked == axes else self._narrowed("within", axes)

    def around(self, axes: Axes) -> System:
        """What the answers to questions that hold these axes say, of all axes they hold."""
        return self if self.holding == axes else self._narrowed("around", axes)

    def _narrowed(self, way: str, axes: Axes) -> System:
        if (way, axes) not in self._narrower:
            asked, holding = (axes, ()) if way == "within" else (None, axes)
            self._narrower[way, axes] = replace(self, asked=asked, holding=holding)
        return self._narrower[way, axes]

    def about(self, axes: Axes) -> System:
        """The system to ask about these axes: of everything, where that is little; else of them
        alone; else, where each question that holds them is folded, of all that those hold.
        """
        if self.full:
            return self
        return self.around(axes) if self.within(axes).silent else self.within(axes)

    @property
    def full(self) -> bool:
        """Whether all questions are solved together, whatever is asked."""
        return self.interactions.size <= FULL

    @property
    def silent(self) -> bool:
        """Whether no question says anything."""
        return not self._pools

    @cached_property
    def answers(self) -> int:
        """The most answers that a question has: rows of the tally are padded to it."""
        return max(question.answers for question in self.questions)

    @cached_property
    def _bits(self) -> frozenset[int]:
        """The sets of columns that questions hold, as bits."""
        return frozenset(question.bits for question in self.questions)

    def held(self, axes: Axes) -> bool:
        """Whether some question holds these columns together, those of one value left aside."""
        wanted = _bits(tuple(axis for axis in axes if self.shape[axis] > 1))
        return any(bits & wanted == wanted for bits in self._bits)

    @cached_property
    def _pools(self) -> dict[Pool, list[int]]:
        return pools_of(self.questions, self.asked, self.holding)

    @cached_property
    def interactions(self) -> Interactions:
        """Every interaction that some question holds together."""
        plain = (False,) * len(self.shape)
        return Interactions.within_any(self.shape, plain, {pool.axes for pool in self._pools})

    @cached_property
    def _responses(self) -> list[Response]:
        """What the answers of each pool are to the cells of its axes."""
        return [
            Response.kary(self.gamma, pool.answers, self.interactions.cells(pool.axes), pool.map)
            for pool in self._pools
        ]

    @cached_property
    def design(self) -> Design:
        """How the chance of each row moves with the means of the features."""
        by_axes: dict[Axes, list[Response]] = {}
        for pool, response in zip(self._pools, self._responses, strict=True):
            by_axes.setdefault(pool.axes, []).append(response)
        blocks = [Block.over(self.interactions, axes, each) for axes, each in by_axes.items()]
        return Design.of(self.interactions.size, blocks)

    @cached_property
    def rows(self) -> Rows:
        """The rows of the design, pool by pool, and the entries of the tally that each counts."""
        sizes = np.array([response.answers for response in self._responses], np.intp)
        starts, pool_of_question = np.cumsum(sizes) - sizes, np.full(len(self.questions), -1)
        row_of = np.full((len(self.questions), self.answers), -1)
        multiplicity = np.ones(row_of.shape)
        for number, (pool, places) in enumerate(self._pools.items()):
            pool_of_question[places] = number
            for place in places:
                shown = _cells_within(self.questions[place], pool.axes, self.shape)
                row_of[place, : pool.answers] = starts[number] + shown
                multiplicity[place, : pool.answers] = np.bincount(shown)[shown]
        pool_of_row = np.repeat(np.arange(len(sizes)), sizes)
        return Rows(sizes, pool_of_row, pool_of_question, row_of, multiplicity)

    def gathered(self, tally: Floats) -> Floats:  # (questions, answers) -> (rows,)
        """A tally of questions and answers, counted by rows."""
        row_of, number = self.rows.row_of, len(self.rows.pool_of_row)
        return np.bincount(row_of[row_of >= 0], tally[row_of >= 0], minlength=number)

    def summed(self, rows: Floats) -> Floats:  # (rows,) -> (rows,)
        """The sum over all rows of the same pool, at each of them."""
        pool = self.rows.pool_of_row
        return np.bincount(pool, rows, minlength=len(self.rows.sizes))[pool]

    @cached_property
    def planned(self) -> LeastSquares:
        """The least squares of a tally that is not yet known: planned shares, all cells equal."""
        shares = [sum(self.questions[q].share for q in each) for each in self._pools.values()]
        return LeastSquares(
            self.design, np.array(shares)[self.rows.pool_of_row], self.design.offset
        )

    def solved(
        self, tally: Floats, like: LeastSquares | None = None
    ) -> LeastSquares:  # (questions, answers)
        """The least squares of a tally, weighted by the chances that a first fit with equal cells
        gives once it is smoothed; `like` is that of more people, of whom these are some.
        """
        key = tally.tobytes() if like is None else tally.tobytes() + like.expected.tobytes()
        return self._solved.get(key, lambda: self._solve(self.gathered(tally), like))

    def _solve(self, counts: Floats, like: LeastSquares | None) -> LeastSquares:  # (rows,)
        first = LeastSquares(self.design, self.summed(counts), self.design.offset)
        means = self._smoothed(first, counts, None if like is None else like.expected)
        return replace(first, chances=self._possible(self.design.chances(means)))

    def _smoothed(self, fit: LeastSquares, counts: Floats, like: Floats | None) -> Floats:
        """The means of a fit, those of each interaction drawn to what others let one expect by as
        much as its noise is of its distance from that (James and Stein 1961, positive part).

        That is `like` where it is given; else nothing for a column alone, and of several columns
        what they have together when independent, which is the product of their own. Where reports
        are few, weights that follow every count take noise for knowledge.
        """
        means, noise = fit.means(counts), np.diag(fit.covariance)
        for axes in self.interactions.sets:
            places = self.interactions.places(axes)
            if like is not None:
                expected = like[places]
            else:
                alone = [means[self.interactions.places((axis,))] for axis in axes]
                expected = independent(alone).ravel() if len(axes) > 1 else np.zeros(len(places))
            beyond = means[places] - expected
            size = max(float(beyond @ beyond), 1e-300)
            means[places] = expected + max(0.0, 1 - float(noise[places].sum()) / size) * beyond
        return means

    def _possible(self, chances: Floats) -> Floats:  # (rows,)
        """Chances of answers base + gain·p, with the shares p cut at 0 and scaled to sum to 1."""
        least, gain = (
            np.array([getattr(each, name) for each in self._responses])[self.rows.pool_of_row]
            for name in ("base", "gain")
        )
        shares = np.maximum(chances - least, 0.0) / gain
        return np.asarray(least + gain * shares / self.summed(shares))


def _cells_within(question: Question, axes: Axes, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """For each answer of a question, its cell of some of the question's axes."""
    if question.map is not None or axes == question.columns:
        return np.arange(question.answers)
    sizes = [shape[axis] for axis in question.columns]
    codes = np.unravel_index(np.arange(question.answers), sizes)
    kept = [codes[question.columns.index(axis)] for axis in axes]
    return np.ravel_multi_index(kept, [shape[axis] for axis in axes])


@dataclass(frozen=True, eq=False)
class Questions(Dealt):
    """From cells of some axes to (question, answer), by generalised least squares over everything
    that was answered.

    `cell_of` says which asked cell each cell of the axes belongs to, so the asked cells may be
    coarse and in any order. Columns that every report states as they are stand first
    (`public_shape`): people are counted and solved for within each of their cells. Axes that are
    not asked count as spread evenly in `apply`; `solve` undoes it whatever they are.
    """

    system: System
    axes: Axes  # ascending
    cell_of: NDArray[np.intp]  # (cells of the axes,)
    cell_shape: tuple[int, ...]  # the shape of the asked cells
    public_shape: tuple[int, ...] = ()
    tally: NDArray[Any] | None = None  # (public cells, questions, answers), once it is settled

    def predicted_variance(self, weights: Counts, truth: Counts) -> float:  # inputs, inputs
        """What one person is planned to add to the variance of w·x, x having these shares and the
        people not being held fixed.
        """
        system, (places, sums, even) = self.system, self._sums
        wanted, means = np.zeros((2, system.interactions.size))
        wanted[places] = sums @ weights.ravel()
        means[places] = (sums / even) @ truth.ravel()
        return system.planned.variance_at(system.design.chances(means), wanted)

    @property
    def held(self) -> bool:
        """Whether some question held the axes together."""
        return self.system.held(self.axes)

    @property
    def inputs(self) -> tuple[int, ...]:
        return (*self.public_shape, *self.cell_shape)

    @property
    def outputs(self) -> tuple[int, ...]:
        return (*self.public_shape, len(self.system.questions), self.system.answers)

    @property
    def closed(self) -> NDArray[np.bool_]:
        fine = len(set(self.cell_of.tolist())) == len(self.cell_of)
        own = np.zeros((len(self.system.questions), self.system.answers), dtype=bool)
        for place, question in enumerate(self.system.questions):
            inside = fine and question.columns and question.held <= set(self.axes)
            own[place] = bool(inside) or np.arange(self.system.answers) >= question.answers
        return np.broadcast_to(own, self.outputs)

    def beside(self, shape: tuple[int, ...]) -> Questions:
        return replace(self, public_shape=(*shape, *self.public_shape))

    def settle(self, counts: Counts) -> Questions:
        tally = np.asarray(counts, dtype=np.float64).reshape(
            -1, *self.outputs[len(self.public_shape) :]
        )
        for system in self._systems():
            channel = replace(self, system=system, tally=tally)
            if all(channel._determined(place) for place in range(len(tally))):
                return channel
        short = sum(not channel._determined(place) for place in range(len(tally)))
        raise Unanswerable(
            f"the reports do not determine these cells in {short} of {len(tally)} groups of people"
            if self.public_shape
            else "the reports do not determine these cells: too few people were asked about them",
            hint="merge small groups, ask about fewer columns, or fit a model",
        )

    def _systems(self) -> Iterator[System]:
        """The systems that may tell these axes, each made where those before did not do. That of
        all questions comes first, for it tells most, unless it would be solved for many groups.
        """
        work = math.prod(self.public_shape) * self.system.interactions.size**3
        if work <= MOST_WORK:
            yield self.system
        for narrower in (self.system.within, self.system.around):
            system = narrower(self.axes)
            if not system.silent:
                yield system
        if work > MOST_WORK:
            yield self.system

    def _determined(self, place: int) -> bool:
        places, sums, _ = self._sums
        assert self.tally is not None
        return not self.tally[place].any() or self._solutions[place].determines(places, sums)

    @cached_property
    def _solutions(self) -> list[LeastSquares]:
        """The least squares of each cell of the public columns."""
        if not self.held:
            raise Unanswerable(
                f"no question held {len(self.axes)} such columns together",
                hint="ask about fewer columns, or fit a model",
            )
        if self.tally is None:
            return [self.system.planned] * math.prod(self.public_shape)
        if len(self.tally) == 1:
            return [self.system.solved(self.tally[0])]
        together = self.system.solved(self.tally.sum(axis=0))
        return [self.system.solved(part, together) for part in self.tally]

    @cached_property
    def _people(self) -> Floats:  # (public cells, questions)
        """Who got each question, or its share where nobody was asked yet."""
        if self.tally is None:
            return np.tile(
                [q.share for q in self.system.questions], (math.prod(self.public_shape), 1)
            )
        return np.asarray(self.tally.sum(axis=2))

    @cached_property
    def _shares(self) -> Floats:  # (public cells, questions)
        return self._people / np.maximum(self._people.sum(axis=1, keepdims=True), 1e-300)

    @cached_property
    def _sums(self) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Places of the features within the axes; each asked cell as a sum of their means; and its
        share where all cells are equally likely.
        """
        matrix, places = self.system.interactions.features(self.axes)
        asked, cells = math.prod(self.cell_shape), len(matrix)
        sums = np.zeros((asked, matrix.shape[1]))
        np.add.at(sums, self.cell_of, matrix / cells)
        return places, sums.T, np.bincount(self.cell_of, minlength=asked) / cells

    @cached_property
    def _expected(self) -> Floats:  # (questions, answers, asked cells)
        """P(answer | question, asked cell), axes that are not asked spread evenly."""
        system, (places, sums, even) = self.system, self._sums
        means = np.zeros((system.interactions.size, len(even)))
        means[places] = sums / even
        rows = system.design.offset[:, None] + system.design.apply(means)
        result = rows[system.rows.row_of] / system.rows.multiplicity[:, :, None]
        for place, question in enumerate(system.questions):
            if system.rows.pool_of_question[place] < 0:
                result[place] = 1 / question.answers
            result[place, question.answers :] = 0.0
        return result

    def apply(self, counts: Counts) -> Counts:
        table = batched(counts, self.inputs).reshape(len(self._shares), len(self._sums[2]), -1)
        result = np.einsum("kq,qac,kcb->kqab", self._shares, self._expected, table, optimize=True)
        return unbatched(result, counts, self.inputs, self.outputs)

    def adjoint(self, weights: Counts) -> Counts:
        table = self._entries(weights)
        result = np.einsum("kq,qac,kqab->kcb", self._shares, self._expected, table, optimize=True)
        return unbatched(result, weights, self.outputs, self.inputs)

    def _entries(self, weights: Counts) -> Floats:  # (public, questions, answers, batch)
        flat = batched(weights, self.outputs)
        return flat.reshape(len(self._shares), *self.outputs[len(self.public_shape) :], -1)

    def solve(self, counts: Counts) -> Counts:
        parts = [self._estimated(place, part) for place, part in enumerate(self._entries(counts))]
        return unbatched(np.stack(parts), counts, self.outputs, self.inputs)

    def _estimated(self, place: int, tally: Floats) -> Floats:
        """The estimates from a tally (questions, answers, batch): each report adds to each asked
        cell what its row does, and what everyone does.
        """
        system, solution, (places, sums, even) = self.system, self._solutions[place], self._sums
        influence = solution.influence(places, sums)
        people = float(self._people[place].sum()) or 1.0
        rows = influence / (np.maximum(solution.people, 1e-300) / people)[:, None]
        counts = np.stack([system.gathered(each) for each in np.moveaxis(tally, -1, 0)], axis=-1)
        alike = even - system.design.offset @ influence
        return np.asarray(rows.T @ counts + np.outer(alike, tally.sum(axis=(0, 1))))

    def solve_adjoint(self, weights: Counts) -> Counts:
        table = batched(weights, self.inputs).reshape(len(self._shares), len(self._sums[2]), -1)
        parts = [self._influence(place, part) for place, part in enumerate(table)]
        return unbatched(np.stack(parts), weights, self.inputs, self.outputs)

    def _influence(self, place: int, weights: Floats) -> Floats:  # (asked cells, n) -> (entries, n)
        """How the estimates of w·x move with one more report of each kind.

        The people of each question divide its counts, so only how an answer differs from the mean
        of its question moves an estimate, and that mean is 0; beside that each report is one more
        person.
        """
        system, solution, (places, sums, even) = self.system, self._solutions[place], self._sums
        influence = solution.influence(places, sums @ weights)
        people = float(self._people[place].sum()) or 1.0
        moved = influence / (np.maximum(solution.people, 1e-300) / people)[:, None]
        row_of = system.rows.row_of.ravel()
        shares = even + solution.expected[places] @ sums
        return np.where(row_of[:, None] >= 0, moved[row_of], 0.0) + shares @ weights

    def variance_counts(self, counts: Counts) -> tuple[Counts, Counts | None]:
        if self.tally is None:
            return counts, None
        table = np.array(self._entries(counts)[..., 0])
        known = self.system.rows.row_of >= 0
        for place, solution in enumerate(self._solutions):
            chances = solution.chances[self.system.rows.row_of] / self.system.rows.multiplicity
            asked = table[place].sum(axis=1, keepdims=True)
            table[place] = np.where(known, asked * chances, table[place])
        places, sums, even = self._sums
        shares = np.stack([even + each.expected[places] @ sums for each in self._solutions])
        truths = self._people.sum(axis=1, keepdims=True) * shares
        return table.reshape(self.outputs), truths.reshape(self.inputs)

    def inverse_squared(self, counts: Counts) -> Counts:
        table = self._entries(counts)
        units = np.eye(len(self._sums[2]))
        squares = [
            (self._influence(place, units) ** 2).T @ part.reshape(-1, table.shape[-1])
            for place, part in enumerate(table)
        ]
        return unbatched(np.stack(squares), counts, self.outputs, self.inputs)
