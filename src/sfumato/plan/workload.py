"""Workload: the functionals that a plan predicts the errors of: itemsets, range counts, means and
classes of a plausible truth.

Assumed of the truth, since nothing of it is known yet: the items of an itemset are independent and
equally frequent; a range holds half of the people; a number is spread evenly over its range; two
columns are independent and evenly spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, islice
from typing import Any

import numpy as np

from sfumato.domain import Attribute, Bins, Cells, Domain, Items, Numeric
from sfumato.errors import ParameterError, SchemaError, SfumatoError, Unanswerable, listing
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.questionnaire import are_few
from sfumato.mechanisms.shares import Workload, best_shares
from sfumato.model.fitted import order_for
from sfumato.plan.prediction import (
    Item,
    even_cuts,
    itemset_condition,
    itemset_variance,
    modelled_variance,
    observed_variance,
    translated_variance,
    value_count,
)
from sfumato.privacy.probability import ONE

OF_NUMBERS = ("ranges", "means", "quantiles")
PURPOSES = ("itemsets", "pairs", "counts", "ranges", "means", "quantiles", "classes")
SAMPLED = 16  # itemsets of each length that stand for all
NAMED = 48  # the same of sets of columns that are named, or those of a class
BESIDE_PAIRS = 0.1  # the share of single columns beside named pairs, so that each is asked
USELESS = 0.5  # a relative error above this tells nothing
MOST_PEOPLE = 1e12  # more people than there ever were
SURE = 8.0  # people to be expected at a question for it to be answered by someone at all
FINE_CELLS = 64  # cells of a number whose mean is predicted

ASSUMPTIONS = (
    "errors are standard errors of the perturbation, with the people held fixed",
    "the items of an itemset are taken as independent and equally frequent",
    "a range is taken to hold half of the people, and a number to be spread evenly over its range",
    "the other values of its columns, and those of the columns beside, are taken as equally likely",
    "records are independent: what one person reports says nothing about another",
)


@dataclass(frozen=True, eq=False)
class Functional:
    """One linear functional that is asked for, at a plausible truth: the support of some items that
    have these shares, or Σ weights·shares over some cells.
    """

    of: Sequence[Item] | Sequence[Cells]
    shares: Any  # of each item, or of each combination of cells
    weights: Any = None  # of each combination of cells
    scale: float = 1.0  # what its error is relative to
    modelled: bool = False  # whether a model answers, not the reports alone

    def variance(self, mechanism: Mechanism, people: float) -> float:
        """Its relative variance from so many people, times these; infinite for a support that the
        mechanism cannot answer.
        """
        if self.modelled:
            return self._modelled_variance(mechanism, people) / self.scale**2
        if self.weights is not None:
            cells = [part for part in self.of if isinstance(part, Cells)]
            found = observed_variance(mechanism, cells, self.weights, self.shares)
            return found / self.scale**2
        try:
            return itemset_variance(mechanism, self._items, self.shares) / self.scale**2
        except SfumatoError:  # a length, or a singular channel
            return math.inf

    def _modelled_variance(self, mechanism: Mechanism, people: float) -> float:
        """The same of a model's answer, which reports that tell it too hold near theirs."""
        found = modelled_variance(mechanism, self._items, self.shares, people)
        names = [item.attribute for item in self._items]
        if not math.isfinite(found) or not tells(mechanism, names, people, sure=1.0):
            return found
        alone = itemset_variance(mechanism, self._items, self.shares)
        return found + translated_variance(found, alone, len(self._items))

    def is_assumed(self, mechanism: Mechanism, people: float) -> bool:
        """Whether a model answers it that can know nothing of its columns together."""
        if not self.modelled:
            return False
        asked, names = mechanism.together or (), {item.attribute for item in self._items}
        joined = len(names) == 1 or any(names <= {*each} for each in asked)
        few = order_for(mechanism.domain.private.shape, people) < min(2, len(names))
        return few or not joined

    @property
    def _items(self) -> list[Item]:
        return [item for item in self.of if isinstance(item, Item)]

    def answered_by(self, mechanism: Mechanism, people: float, at: float = math.inf) -> Functional:
        """The same as a model answers it, where a model can and reports of so many people do not,
        or only so that it is no answer at this size; else as the reports do.
        """
        names = [item.attribute for item in self._items]
        if not tells(mechanism, names, people):
            return self if mechanism.joins_by_model else replace(self, modelled=True)
        if mechanism.together is None or predict(mechanism, [self], people) <= USELESS * at:
            return self
        found = replace(self, modelled=True)
        return found if math.isfinite(found.variance(mechanism, people)) else self


def predict(mechanism: Mechanism, functionals: Sequence[Functional], people: float) -> float:
    """The relative standard error to be expected from so many people: the root mean square over all
    functionals.
    """
    each = [functional.variance(mechanism, people) for functional in functionals]
    return math.sqrt(max(0.0, float(np.mean(each)))) / math.sqrt(people)


def people_for(
    mechanism: Mechanism, functionals: Sequence[Functional], people: float, wanted: float
) -> float:
    """How many people it takes for this error: as many times those as the square of what is lacking
    where reports answer; a model's error falls otherwise, and never below what it is where nobody
    is asked.
    """
    error = predict(mechanism, functionals, people)
    if not any(each.modelled for each in functionals):
        return float(math.ceil(people * (error / wanted) ** 2))
    low, high = 0.0, math.log(MOST_PEOPLE)
    if predict(mechanism, functionals, MOST_PEOPLE) > wanted:
        return math.inf
    while high - low > 0.005:
        middle = (low + high) / 2
        enough = predict(mechanism, functionals, math.exp(middle)) <= wanted
        low, high = (low, middle) if enough else (middle, high)
    return float(math.ceil(math.exp(high)))


@dataclass(frozen=True)
class PlanWorkload:
    """What will be asked of a release with these columns, and how well a mechanism
    would answer it.
    """

    domain: Domain
    at_support: float = 0.02
    target: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()  # named, where these are asked about
    purpose: str = "itemsets"
    length: int | None = None  # of itemsets; two unless stated

    @cached_property
    def columns(self) -> tuple[Attribute, ...]:
        """The private columns: the public ones are reported without error, and of a column with one
        value there is nothing to ask; a basket may be without the only item there is.
        """
        private = self.domain.private
        told = tuple(a for a in private if private.baskets or value_count(a) > 1)
        if not told:
            raise SchemaError(
                "every private column has one value, so a report would tell nothing of anybody",
                hint="give the schema a column with two values at least",
            )
        return told

    @property
    def longest(self) -> int:
        """The longest itemset a record can hold."""
        return self.columns[0].size if self.domain.private.baskets else len(self.columns)

    @cached_property
    def _sampled(self) -> dict[int, list[tuple[Item, ...]]]:
        return {}

    def itemsets(self, length: int) -> list[tuple[Item, ...]]:
        """Some itemsets of one length, evenly spread over the columns and their values."""
        if length not in self._sampled:
            self._sampled[length] = list(self._spread(length))
        return self._sampled[length]

    def _spread(self, length: int) -> Iterator[tuple[Item, ...]]:
        if self.domain.private.baskets:
            names, count = self.columns[0], min(SAMPLED, max(1, self.longest // length))
            yield from (
                tuple(Item(names.name, start * length + step) for step in range(length))
                for start in range(count)
            )
            return
        choices = math.comb(len(self.columns), length)
        ranks = range(0, choices, max(1, choices // SAMPLED))
        yield from _items([_chosen(self.columns, length, rank) for rank in ranks], SAMPLED)

    def itemset_figures(
        self, mechanism: Mechanism, length: int, people: float
    ) -> tuple[float, float]:
        """The standard error of itemsets of this length, and the worst condition number among
        their reconstructions.
        """
        error = predict(mechanism, self.supports(mechanism, length, people), people)
        if not math.isfinite(error):
            return math.inf, math.inf
        try:
            conditions = [itemset_condition(mechanism, each) for each in self.itemsets(length)]
        except SfumatoError:  # nothing is inverted: a model's answer
            return error, math.inf
        return error, max(conditions)

    @property
    def suited(self) -> dict[str, dict[str, str]]:
        """The options, by mechanism, that suit what is asked: so far a questionnaire's."""
        if self.domain.private.baskets:
            return {}
        if self.purpose == "classes":
            return {"questionnaire": {"target": self.class_column.name}}
        if self.purpose == "pairs":
            return {"questionnaire": {"questions": self._pairs_text()}}
        if self.purpose in ("counts", *OF_NUMBERS) or self.length == 1:
            return {"questionnaire": {"questions": "singles:1"}}
        few = are_few(self.domain.binned().private)
        pairs = self.length == 2 and few and len(self.columns) > 1
        return {"questionnaire": {"questions": "pairs:1"}} if pairs else {}

    def _pairs_text(self) -> str:
        """The named pairs with the shares that tell most of them, and every column now and then."""
        axes = self.sets
        shape = self.domain.binned().private.shape
        shares = best_shares(axes, Workload.marginals(shape, axes), 19.0)
        rounded = np.maximum(1, np.rint(shares * (1 - BESIDE_PAIRS) * 1000)).astype(int)
        names = self.domain.private.names
        parts = [
            f"{names[a]}+{names[b]}:{share / 1000:g}"
            for (a, b), share in zip(axes, rounded.tolist(), strict=True)
        ]
        return ",".join([*parts, f"singles:{1 - int(rounded.sum()) / 1000:g}"])

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of private columns that are asked about; none where it is all of a length."""
        private = self.domain.private
        if self.purpose == "classes":
            axis = private.index(self.class_column.name)
            told = (a for a in self.columns if not isinstance(a, Items))
            others = (place for a in told if (place := private.index(a.name)) != axis)
            return tuple((min(axis, other), max(axis, other)) for other in others)
        if self.purpose != "pairs":
            return ()
        if not self.pairs:
            raise ParameterError(
                "no pair of columns is named", hint="name them, as in --pairs age+sex,sex+smoker"
            )
        found = {tuple(sorted((private.index(a), private.index(b)))) for a, b in self.pairs}
        if any(a == b for a, b in found):
            raise ParameterError("a pair of columns names one twice", hint="name two")
        for axis in sorted({axis for pair in found for axis in pair}):
            if private.attributes[axis] not in self.columns:
                raise ParameterError(
                    f"'{private.names[axis]}' has one value, so a pair with it tells no more than "
                    "the other column",
                    hint="name two columns with two values at least",
                )
        return tuple(sorted(found))

    def predict(self, mechanism: Mechanism, people: float) -> float:
        """The relative standard error of what is asked for."""
        return predict(mechanism, self.functionals(mechanism, people), people) / self.scale

    def functionals(self, mechanism: Mechanism, people: float) -> list[Functional]:
        """What is asked for, and whether reports of so many people or a model answer it."""
        if self.together > 1 and mechanism.joins_by_model:
            raise Unanswerable("says of columns together what a model makes of it: plan for ranges")
        ways = {
            "itemsets": lambda: self.supports(mechanism, self.together, people),
            "pairs": lambda: self.supports(mechanism, 2, people, self.sets),
            "counts": lambda: self.counts(mechanism, 0.5),
            "ranges": lambda: self._ranges(mechanism),
            "means": lambda: self._means(mechanism),
            "quantiles": lambda: self._quartiles(mechanism),
            "classes": lambda: self._class_cells(mechanism, people),
        }
        return ways[self.purpose]()

    @property
    def scale(self) -> float:
        """What the errors of what is asked for are relative to."""
        return self.at_support if self.purpose in ("itemsets", "pairs") else 1.0

    @cached_property
    def together(self) -> int:
        """How many columns an answer is about that is not one of numbers."""
        if self.purpose != "itemsets":
            return 2 if self.purpose in ("pairs", "classes") else 1
        return min(2, self.longest) if self.length is None else self.length

    @property
    def words(self) -> str:
        """What is asked for, in words."""
        support = f"{100 * self.at_support:.3g} %"
        return {
            "itemsets": f"an itemset of length {self.together} and support {support}",
            "pairs": f"a support of {support} in the pairs of columns named",
            "counts": "the count of a range that holds half of the people",
            "ranges": "the count of half of two numbers' ranges at once, wherever they end,"
            if self._joins_numbers
            else "the count of a range that holds half of the people, wherever it ends,",
            "means": "a mean, as a share of its column's range,",
            "quantiles": "a quartile, as a share of its column's range,",
            "classes": "a cell of the table of the class and another column",
        }[self.purpose]

    def supports(
        self,
        mechanism: Mechanism,
        length: int,
        people: float,
        sets: Sequence[tuple[int, ...]] | None = None,
        *,
        even: bool = False,
    ) -> list[Functional]:
        """Supports of this length, within some sets of private columns or any; at the support asked
        about, or with all values equally likely. Where a model answers some of them, only those.
        """
        every = self.itemsets(length) if sets is None else self._within(sets)
        each = [self.at_support ** (1 / length)] * length
        found = [
            Functional(items, self._evenly(items) if even else each).answered_by(
                mechanism, people, self.at_support
            )
            for items in every
        ]
        return [each for each in found if each.modelled] or found

    def _within(self, sets: Sequence[tuple[int, ...]]) -> list[tuple[Item, ...]]:
        """Some itemsets of these sets of private columns."""
        columns = self.domain.private.attributes
        return list(_items([[columns[axis] for axis in axes] for axes in sets], NAMED))

    def _evenly(self, items: Sequence[Item]) -> list[float]:
        return [1 / value_count(self.domain[item.attribute]) for item in items]

    def sets_of(self, length: int) -> list[tuple[int, ...]]:
        """The sets of private columns whose itemsets of a length stand for all."""
        private = self.domain.private
        sets = (tuple(private.index(i.attribute) for i in each) for each in self.itemsets(length))
        return list(dict.fromkeys(sets))

    def is_modelled(self, mechanism: Mechanism, length: int, people: float) -> bool:
        """Whether a model answers some supports of this length, and not the reports alone."""
        supports = self.supports(mechanism, length, people)
        return any(e.modelled for e in supports) or not self.unaided(mechanism, length, people)

    def unaided(
        self,
        mechanism: Mechanism,
        length: int,
        people: float,
        sets: Sequence[tuple[int, ...]] | None = None,
    ) -> bool:
        """Whether reports of so many people tell all sets of columns of a length, or these, without
        a model.
        """
        names = self.domain.private.names
        every: Iterable[tuple[int, ...]] = sets or ()
        if sets is None:
            every = combinations([names.index(a.name) for a in self.columns], length)
        if mechanism.asked_sets is None:  # then sets of one length are all alike
            every = islice(every, 1)
        return all(tells(mechanism, [names[axis] for axis in axes], people) for axes in every)

    def _class_cells(self, mechanism: Mechanism, people: float) -> list[Functional]:
        """Cells of the tables target × column that classifiers read, relative to their shares."""
        cells = [(items, self._evenly(items)) for items in self._within(self.sets)]
        return [
            Functional(items, shares, scale=math.prod(shares)).answered_by(mechanism, people)
            for items, shares in cells
        ]

    @cached_property
    def class_column(self) -> Attribute:
        """The column to be predicted: the one named, else the last."""
        if sum(not isinstance(column, Items) for column in self.columns) < 2:
            raise ParameterError(
                "a class needs a column to predict and another to predict it from; this schema "
                "has one"
            )
        found = self.columns[-1] if self.target is None else self.domain.private[self.target]
        if isinstance(found, Items):
            raise ParameterError(
                f"'{found.name}' holds baskets, which are no class", hint="name another target"
            )
        return found

    def counts(self, mechanism: Mechanism, scale: float = 1.0) -> list[Functional]:
        """The share of people within a range that holds half of them."""
        if self.domain.private.baskets:
            return [Functional((Item(self.columns[0].name, 0),), [0.5], scale=scale)]
        ordered = [a for a in self.columns if isinstance(a, Numeric | Bins)] or self.columns
        halves = [_halves(mechanism.domain[a.name], a) for a in ordered if not isinstance(a, Items)]
        weights, shares = np.array([0.0, 1.0]), np.array([0.5, 0.5])
        return [Functional([cells], shares, weights, scale) for cells in halves]

    @cached_property
    def numbers(self) -> tuple[Numeric, ...]:
        """The columns that have a mean."""
        return tuple(column for column in self.columns if isinstance(column, Numeric))

    def mean(self, mechanism: Mechanism, column: Numeric, scale: float = 1.0) -> Functional:
        """A column's mean, in the column's own unit."""
        reported = mechanism.domain[column.name]
        cells = (
            reported.cells_by_cuts(even_cuts(reported, FINE_CELLS))
            if isinstance(reported, Numeric)
            else reported.cells()
        )
        edges = _edges(reported, cells)
        shares = np.diff(edges) / (edges[-1] - edges[0])
        middles = (edges[1:] + edges[:-1]) / 2
        return Functional([cells], shares, middles - shares @ middles, scale)

    def _means(self, mechanism: Mechanism) -> list[Functional]:
        """Means of all numbers as shares of their ranges."""
        self._check_numbers(mechanism, "a mean")
        return [self.mean(mechanism, a, a.max - a.min) for a in self.numbers]

    def _quartiles(self, mechanism: Mechanism) -> list[Functional]:
        """Quartiles of all numbers as shares of their ranges: each has the error of the share below
        it, a number being spread evenly.
        """
        self._check_numbers(mechanism, "a quantile")
        shares = (0.25, 0.5, 0.75)
        return [_within(mechanism, (n,), 0.0, high) for n in self.numbers for high in shares]

    def _ranges(self, mechanism: Mechanism) -> list[Functional]:
        """The share of people within half of a number's range, or of two at once, wherever that
        lies.
        """
        self._check_numbers(mechanism, "a range that ends inside one")
        numbers: Iterable[tuple[Numeric, ...]] = ((number,) for number in self.numbers)
        scale = 0.5
        if self._joins_numbers:
            numbers, scale = combinations(self.numbers, 2), 0.25
        halves = [(0.0, 0.5), (0.13, 0.63), (0.25, 0.75)]
        return [
            _within(mechanism, each, low, high, scale) for each in numbers for low, high in halves
        ]

    @property
    def _joins_numbers(self) -> bool:
        """Whether ranges are of two numbers at once: where there are several, cut into cells."""
        return len(self.numbers) > 1 and all(n.cuts for n in self.numbers)

    def _check_numbers(self, mechanism: Mechanism, wanted: str) -> None:
        """Refuse what only reported numbers tell, where there are none."""
        if not self.numbers:
            raise ParameterError(
                f"this schema has no private number, so {wanted.split(' that')[0]} cannot be "
                "planned; plan for counts instead"
            )
        binned = [a.name for a in self.numbers if not has_mean(mechanism, a)]
        if binned:
            names = listing([f"'{name}'" for name in binned])
            raise Unanswerable(f"perturbs {names} in bins, of which nothing tells {wanted}")


def _items(sets: Sequence[Sequence[Attribute]], number: int) -> Iterator[tuple[Item, ...]]:
    """So many itemsets of these sets of columns, or a few more: of each set as many, evenly spread
    over all combinations of their values.
    """
    rounds = -(-number // len(sets))
    for turn in range(rounds):
        for first, columns in enumerate(sets):
            sizes = [value_count(column) for column in columns]
            cells = math.prod(sizes)
            places = np.unravel_index((turn * cells // rounds + first) % cells, sizes)
            yield tuple(Item(a.name, int(p)) for a, p in zip(columns, places, strict=True))


def _chosen(columns: Sequence[Attribute], length: int, rank: int) -> list[Attribute]:
    """The set of columns that has this rank among all of a length, in the order of
    `combinations`.
    """
    found: list[Attribute] = []
    for place, column in enumerate(columns):
        wanted = length - len(found)
        first = math.comb(len(columns) - place - 1, wanted - 1) if wanted else 0
        if rank < first:
            found.append(column)
        else:
            rank -= first
    return found


def tells(mechanism: Mechanism, names: Sequence[str], people: float, sure: float = SURE) -> bool:
    """Whether reports of so many people should tell these private columns together by themselves,
    where otherwise a model would have to: enough are asked about all of them.
    """
    if mechanism.asked_sets is None:
        return len(names) == 1 or not mechanism.joins_by_model
    enough = max(1 / ONE, sure / max(people, 1e-9))
    about = [each for each in mechanism.asked_sets if each.columns >= set(names)]
    plain = sum(each.share for each in about if not each.folded)
    return plain >= enough or any(each.folded and each.share >= enough for each in about)


def has_mean(mechanism: Mechanism, column: Numeric) -> bool:
    """Whether the reports tell a number's mean: a number that was perturbed in bins has none."""
    return isinstance(mechanism.domain[column.name], Numeric)


def _within(
    mechanism: Mechanism, numbers: Sequence[Numeric], low: float, high: float, scale: float = 1.0
) -> Functional:
    """The share of people within such a part of each of some numbers."""
    cells = [_between(mechanism.domain[number.name], low, high) for number in numbers]
    shares = reduce(np.multiply.outer, [part.counts() / part.attribute.size for part in cells])
    weights = np.zeros([part.size for part in cells])
    weights[(0 if low == 0 else 1,) * len(cells)] = 1.0
    return Functional(cells, shares, weights, scale)


def _between(reported: Attribute, low: float, high: float) -> Cells:
    """The cells below, within and above two shares of a number's values; those that are empty
    are left out.
    """
    assert isinstance(reported, Numeric)
    starts = sorted({round(low * reported.size), round(high * reported.size)} - {0})
    return reported.cells_by_cuts([reported.min + reported.grid_step * s for s in starts])


def _halves(reported: Attribute, column: Attribute) -> Cells:
    """A range of a column and its complement: from the cut nearest to the middle up, or the second
    half of the values.
    """
    if isinstance(reported, Numeric):
        cuts = (
            column.cuts if isinstance(column, Numeric) and column.cuts else even_cuts(reported, 2)
        )
        middle = (reported.min + reported.max) / 2
        return reported.cells_by_cuts([min(cuts, key=lambda cut: abs(cut - middle))])
    group = (np.arange(reported.size) >= _middle_place(reported)).astype(np.intp)
    return Cells(reported, ("below", "above"), group)


def _middle_place(reported: Attribute) -> int:
    if isinstance(reported, Bins):
        middle = (reported.edges[0] + reported.edges[-1]) / 2
        inner = reported.edges[1:-1]
        return (
            1 + min(range(len(inner)), key=lambda place: abs(inner[place] - middle)) if inner else 0
        )
    return reported.size // 2


def _edges(reported: Attribute, cells: Cells) -> np.ndarray:
    if isinstance(reported, Bins):
        return np.array(reported.edges, dtype=np.float64)
    assert isinstance(reported, Numeric) and cells.starts is not None
    return reported.min + reported.grid_step * (
        np.array([*cells.starts.tolist(), reported.size]) - 0.5
    )
