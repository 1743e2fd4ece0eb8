"""Frequent itemsets of any source, exact or perturbed, level by level, each with its standard
error.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.errors import ParameterError
from sfumato.estimation.noise import is_lost
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.estimation.supports.supports import Floats, Integers, Supports
from sfumato.mine.search import Level, LevelwiseSearch, Lost, Survivors, Threshold, require
from sfumato.privacy.probability import check_count, check_number
from sfumato.release import Release
from sfumato.renderers.picture import draw, estimates, points_in_words
from sfumato.result import Result
from sfumato.source import Source
from sfumato.view import DRAWN, LISTED, Chart, ColumnView, Panel, TableView, View

if TYPE_CHECKING:
    import pandas

# An itemset is surely frequent from this probability on, unless the caller names a level.
_SURE = 0.95


class Itemset(NamedTuple):
    """One frequent itemset and how far to trust it."""

    items: tuple[str, ...]
    support: float
    stderr: float
    probability: float
    status: str


@checked
def frequent_itemsets(
    source: Source | Supports,
    min_support: float | None = None,
    *,
    min_count: float | None = None,
    max_length: int | None = None,
    relax: float = 0.0,
    level: float | None = None,
    top: int | None = None,
    prune_errors: float = 2.0,
    max_candidates: int = 10_000_000,
    progress: Callable[[Level], None] | None = None,
) -> Itemsets:
    """The itemsets whose estimated support reaches `min_support`, with standard errors.

    Level-wise (Apriori) with a reconstruction at each level (MASK §4, FRAPP §8.1). `relax` lowers
    the threshold to (1 - relax) · min_support (MASK §6); `level` reports instead what is frequent
    with at least that probability. `prune_errors` is the error bar left to an itemset before its
    supersets are given up: more of it finds more long itemsets in perturbed data and costs time; 0
    prunes as the papers do. `top` keeps the itemsets of largest support only. More than
    `max_candidates` candidates at one length are refused. The search ends where the reports say
    nothing more: at a length whose supports have standard errors above one half (with 0 it goes on
    as the papers do).

    >>> from sfumato.release import Exact
    >>> from sfumato.table import read
    >>> people = Exact(read({"tea": ["yes", "yes", "no"], "milk": ["yes", "yes", "yes"]}))
    >>> found = frequent_itemsets(people, 0.6)
    >>> [(itemset.items, round(itemset.support, 3)) for itemset in found]
    [(('tea=yes',), 0.667), (('milk=yes',), 1.0), (('tea=yes', 'milk=yes'), 0.667)]
    """
    known: Any = source.supports() if hasattr(source, "supports") else source
    if not hasattr(known, "measure"):
        raise ParameterError(
            f"a {type(source).__name__} cannot be mined as it is",
            hint="give a release, or the truth as in sf.Exact(sf.read(data))",
        )
    supports: Supports = known
    rows = supports.rows
    require(min_support is None or min_count is None, "give min_support or min_count, not both")
    fraction = 1 / max(rows, 1)  # where only the top are wanted
    if min_support is not None:
        fraction = min_support
    elif min_count is not None:
        check_number("min_count", min_count)
        require(
            0 < min_count <= max(rows, 1),
            f"min_count={min_count:g} must lie in 1..{rows}, the number of rows",
        )
        fraction = min_count / max(rows, 1)
    else:
        require(top is not None, "say what is frequent: min_support, min_count or top")
    if top is not None and isinstance(supports, AskedSupports):
        fraction = max(fraction, 0.999 * supports.least(top))
    threshold = Threshold(fraction, relax=relax, level=level, prune_errors=prune_errors)
    numbers = {"max_length": max_length, "top": top, "max_candidates": max_candidates}
    for name, value in numbers.items():
        if value is not None:
            check_number(name, value)
            require(value >= 1, f"{name}={value} must be 1 or more")
    lengths = [each for each in (supports.longest, max_length) if each is not None]
    longest = min(lengths, default=None)
    search = LevelwiseSearch(supports, threshold, longest, top, max_candidates, progress)
    kept, threshold, lost = search.run()
    chosen = np.flatnonzero(threshold.reported(kept))
    turn = source.provenance.turn if isinstance(source, Release) else None
    asked = None if turn is None else turn.round
    found = Itemsets(kept, chosen, threshold, lost=lost, round=asked)
    return found if top is None else found.top(top)


@dataclass(frozen=True, eq=False, repr=False)
class Itemsets(Result):
    """Frequent itemsets as a table: shortest first, then in the order of the items.

    `kept` is every itemset that the search kept, reported or not, so that the support of each
    subset of a reported itemset is at hand for rules.
    """

    kept: Survivors
    chosen: Integers  # the numbers among `kept` of those that are reported
    threshold: Threshold
    labels: tuple[str, ...] | None = None  # what the items are called, where not as in the source
    lost: Lost | None = None  # the length from which on the reports say nothing
    round: int | None = None  # of several, where these are of that round's people alone
    true: Floats | None = None  # the true support of every number, where somebody knows them

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[Itemset]:
        columns = (self.support, self.stderr, self.probability, self.status)
        lists = (column.tolist() for column in columns)
        return map(Itemset._make, zip(self.items, *lists, strict=True))

    @property
    def supports(self) -> Supports:
        """What the source knows of itemsets."""
        return self.kept.supports

    @property
    def rows(self) -> int:
        """The number of baskets or records behind the supports."""
        return self.supports.rows

    @property
    def min_support(self) -> float:
        """The support from which an itemset counts as frequent."""
        return self.threshold.min_support

    @property
    def names(self) -> tuple[str, ...]:
        """What each item of the source is called."""
        return self.supports.names if self.labels is None else self.labels

    @checked
    def named(self, names: Mapping[str, str]) -> Itemsets:
        """The same itemsets, their items called by these names where they have one."""
        return replace(self, labels=tuple(names.get(item, item) for item in self.supports.names))

    @cached_property
    def items(self) -> list[tuple[str, ...]]:
        """The item names of each itemset, in the order of the source's items."""
        return self.kept.items(self.chosen, self.names)

    @property
    def itemsets(self) -> list[frozenset[str]]:
        """The item names of each itemset, as sets."""
        return [frozenset(items) for items in self.items]

    @cached_property
    def length(self) -> Integers:
        """The number of items of each itemset."""
        return self.kept.length[self.chosen]

    @cached_property
    def count(self) -> Floats:
        """The estimated number of rows that hold each itemset; negative where noise made it so."""
        return self.kept.measured.count[self.chosen]

    @cached_property
    def support(self) -> Floats:
        """The estimated share of rows that hold each itemset."""
        return self.count / max(self.rows, 1)

    @cached_property
    def stderr(self) -> Floats:
        """The standard error of each support, the rows held fixed."""
        return self.kept.measured.stderr[self.chosen] / max(self.rows, 1)

    @property
    def true_support(self) -> Floats | None:
        """The true support of each itemset, where it is known."""
        return None if self.true is None else self.true[self.chosen]

    @cached_property
    def probability(self) -> Floats:
        """The probability that each itemset's true support reaches `min_support`."""
        likely = self.threshold.probabilities(self.kept.tiers, self.rows)
        return np.concatenate([np.ones(1), *likely])[self.chosen]

    @property
    def left_out(self) -> int:
        """How many itemsets reach the threshold, but are lost in their errors and no finding."""
        if not self.threshold.prune_errors:
            return 0
        goal = (1 - self.threshold.relax) * self.threshold.goal(self.rows)
        measured = self.kept.measured
        lost = (measured.count >= goal) & is_lost(measured.stderr, self.rows)
        return int(lost[1:].sum())

    @property
    def false_discoveries(self) -> float:
        """The share of the reported itemsets that is expected not to be frequent."""
        return float(np.mean(1 - self.probability)) if len(self) else 0.0

    @cached_property
    def assumes(self) -> list[str | None]:
        """What a model supposed for the support of each itemset, beyond the reports."""
        return self.kept.assumed(self.chosen)

    @cached_property
    def status(self) -> NDArray[np.str_]:
        """'surely' frequent, 'borderline', or 'relaxed': below min_support and here only by
        relaxation.

        Surely means a probability of 0.95, or of the level asked for if that is higher than one
        half.
        """
        level = self.threshold.level
        sure = level if level and level > 0.5 else _SURE
        below = self.count < self.threshold.goal(self.rows)
        return np.select([self.probability >= sure, below], ["surely", "relaxed"], "borderline")

    def by_length(self) -> dict[int, int]:
        """How many itemsets there are of each length."""
        return dict(Counter(self.length.tolist()))

    @checked
    def where(self, mask: NDArray[np.bool_]) -> Itemsets:
        """The itemsets for which the mask, one truth value an itemset, is true."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ParameterError(
                "the mask will not do", hint=f"give True or False for each of {len(self)} itemsets"
            )
        return replace(self, chosen=self.chosen[mask])

    @checked
    def top(self, number: int) -> Itemsets:
        """The `number` itemsets of largest support; of equal ones the shorter and earlier."""
        check_count("number", number, least=0)
        mask = np.zeros(len(self), dtype=bool)
        mask[np.argsort(-self.count, kind="stable")[:number]] = True
        return self.where(mask)

    @checked
    def order(self, by: str = "length") -> Integers:
        """The numbers of the itemsets in the order people read them: the shortest first and of
        these the strongest, or by "support" alone.
        """
        require(
            by in ("length", "support"), f"itemsets go by length or support, not by {shown(by)}"
        )
        lengths = self.length if by == "length" else 0 * self.length
        return np.lexsort((-self.support, lengths))

    def maximal(self) -> Itemsets:
        """The itemsets with no superset in the result."""
        return self.where(np.isneginf(self._largest_superset()))

    def closed(self) -> Itemsets:
        """The itemsets with no superset of the same support (or, of estimates, a larger one) in the
        result.
        """
        return self.where(self._largest_superset() < self.count)

    def _largest_superset(self) -> Floats:
        """The largest count among the reported supersets of each reported itemset; -inf where there
        is none.
        """
        kept, own = self.kept, np.full(len(self.kept.length), -np.inf)
        own[self.chosen], above = self.count, own.copy()
        for length in range(len(kept.tiers), 0, -1):
            numbers = np.arange(*kept.starts[length - 1 : length + 1])
            reach = np.maximum(own[numbers], above[numbers])
            np.maximum.at(above, kept.without(numbers, length, slice(None)), reach[:, None])
        return above[self.chosen]

    def _places(self, by: str | None) -> Integers:
        """The itemsets in the order of `order(by)`, or as they were found."""
        return np.arange(len(self)) if by is None else self.order(by)

    def _columns(self, itemsets: Any, places: Integers) -> dict[str, Any]:
        """The columns that programs read, these itemsets among them."""
        true = self.true_support
        return {
            "support": self.support[places],
            "itemsets": itemsets,
            "length": self.length[places],
            "stderr": self.stderr[places],
            "probability": self.probability[places],
            "status": self.status[places].tolist(),
            **({} if true is None else {"true_support": true[places]}),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame in mlxtend's form: support, itemsets (frozensets), and our columns after
        them.
        """
        import pandas

        return pandas.DataFrame(self._columns(self.itemsets, self._places(None)))

    def to_arrow(self, *, by: str | None = None) -> Any:
        """An Arrow table: support, itemsets (lists of names), length, stderr, probability, status,
        and true_support where the truth is known; in the order of `order(by)` where one is asked
        for.
        """
        import pyarrow as pa

        places, none = self._places(by), np.zeros(0, np.int32)
        flat = [itemsets.ravel() for _, itemsets in self.kept.by_length(self.chosen)]
        names = pa.array(self.names, pa.string()).take(pa.array(np.concatenate([none, *flat])))
        ends = pa.array(np.cumsum([0, *self.length.tolist()]), pa.int32())
        columns = self._columns(pa.ListArray.from_arrays(ends, names).take(places), places)
        return pa.table(columns | {"status": pa.array(columns["status"], pa.string())})

    def to_csv(self, *, by: str | None = None) -> str:
        """Text with one itemset a line, items written {a,b} as the R package arules does, in the
        order of `order(by)` where one is asked for.
        """
        places = self._places(by)
        braced = [in_braces(self.items[place]) for place in places.tolist()]
        first = {"itemsets": braced, "length": self.length[places]}
        return csv_text(first | self._columns(braced, places))

    def to_dicts(self, *, by: str | None = None) -> list[dict[str, Any]]:
        """The itemsets in the shape of `sfumato mine --json`, in the order of `order(by)` where one
        is asked for.
        """
        places = self._places(by)
        items = [list(self.items[place]) for place in places.tolist()]
        columns = {"items": items, "length": None} | self._columns(None, places)
        del columns["itemsets"]
        return with_assumptions(lines_of(columns), self.kept.assumed(self.chosen[places]))

    def to_json(self, *, by: str | None = None) -> str:
        """The result as one JSON object, in the order of `order(by)` where one is asked for."""
        return json.dumps(
            {"rows": self.rows, "min_support": self.min_support, "itemsets": self.to_dicts(by=by)}
        )

    @checked
    def view(self, by: str = "support", most: int = LISTED) -> View:
        """The itemsets, at most so many, the strongest first or in another order, and how far to
        trust them.
        """
        lengths = self.by_length().items()
        title = f"{len(self):,} itemsets in {self.rows:,} rows at support {self.min_support:.4g}"
        found = ", ".join(f"{number:,} of length {length}" for length, number in lengths)
        true = self.true_support
        caption = "Itemsets of largest support"
        caption += ", with 95 % intervals" if self.stderr.any() else ""
        caption += "" if true is None else "; the truth as bars"
        drawn = self.order("support")[:DRAWN]
        names = [", ".join(self.items[place]) for place in drawn]
        alt = points_in_words("Supports", names, self.support[drawn], self.stderr[drawn])
        order = self.order(by)[:most]
        columns = [
            ColumnView("itemset", [", ".join(self.items[place]) for place in order]),
            ColumnView(
                "support",
                self.support[order].tolist(),
                self.stderr[order].tolist(),
                words="{:.4f}".format,
                counts=True,
                mark=self.min_support,
            ),
            *([] if true is None else [ColumnView("true", true[order].tolist())]),
            ColumnView("P(frequent)", self.probability[order].tolist(), words="{:.2f}".format),
            ColumnView("", self.status[order].tolist()),
        ]
        return View(
            f"{title}: {found}" if found else title,
            words=[*self._trust()],
            charts=(Chart(self._supports(true), caption, alt),),
            tables=(TableView(columns, rest="more itemsets", total=len(self)),),
            notes=self.notes,
        )

    def _trust(self) -> Iterator[str]:
        """How far to trust what was found."""
        if self.supports.exact:
            yield "exact: counted in true records"
        elif len(self):
            false = self.false_discoveries
            yield (
                f"of these about {false * len(self):,.0f} are expected not to be that frequent "
                f"(false-discovery rate {false:.2g})"
            )
            if (self.status != "surely").any():
                yield (
                    "those that are not surely frequent are here because they were estimated high: "
                    "on average they are less frequent than shown, the more so the longer they are"
                )
        if self.left_out:
            yield f"{self.left_out:,} more are lost in standard errors above half of the rows"

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of these itemsets, in words."""
        notes = [*self.suppositions]
        if self.round:
            notes.append(
                f"this is round {self.round} alone, of a part of the people: mine all rounds "
                "together, as in sf.mine([one, two, three])"
            )
        if self.lost is not None:
            longer = f"itemsets of {self.lost.length} or more items were not looked for"
            notes.append(f"{longer}: {self.lost}")
        return tuple(notes)

    @property
    def suppositions(self) -> tuple[str, ...]:
        """What a model supposed for some of these itemsets, in words."""
        counted = Counter(each for each in self.assumes if each is not None)
        return tuple(
            f"model-based: {number:,} of these {len(self):,} itemsets assume {supposed}"
            for supposed, number in counted.items()
        )

    @checked
    def plot(self, truth: Floats | None = None, *, top: int = DRAWN, axes: Any = None) -> Any:
        """The `top` itemsets of largest support with 95 % intervals, and the true supports (one an
        itemset, as `evaluate.true_supports` gives them) as bars; the axes they were drawn on.
        """
        check_count("top", top, least=1)
        if truth is not None and np.shape(truth) != (len(self),):
            raise ParameterError(
                "truth will not do", hint=f"give the support of each of {len(self)} itemsets"
            )
        truth = self.true_support if truth is None else truth
        return draw(Chart(self._supports(truth, top)), axes)

    def _supports(self, truth: Floats | None, top: int = DRAWN) -> Panel:
        drawn = self.order("support")[:top]
        return estimates(
            "",
            [", ".join(self.items[place]) for place in drawn],
            self.support[drawn],
            self.stderr[drawn],
            None if truth is None else np.asarray(truth)[drawn],
            quantity="support",
            mark=None if self.min_support is None else (self.min_support, "minimum support"),
            sideways=True,
            percent=True,
            from_zero=False,
            nothing="no frequent itemsets",
        )


def in_braces(items: tuple[str, ...]) -> str:
    """A set of items as the R package arules writes it."""
    return "{" + ",".join(items) + "}"


def with_assumptions(
    lines: Iterable[dict[str, Any]], assumed: Iterable[str | None]
) -> list[dict[str, Any]]:
    """Lines, each with what a model supposed for it, if anything."""
    pairs = zip(lines, assumed, strict=True)
    return [line if each is None else line | {"assumes": each} for line, each in pairs]


def lines_of(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The lines of a table, each by the names of its columns, with Python's own numbers."""
    lists = (each.tolist() if isinstance(each, np.ndarray) else each for each in columns.values())
    return (dict(zip(columns, line, strict=True)) for line in zip(*lists, strict=True))


def csv_text(columns: Mapping[str, Any]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(line.values() for line in lines_of(columns))
    return text.getvalue()
