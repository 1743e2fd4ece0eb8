"""Association rules between frequent itemsets, with standard errors by the delta method."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.estimation.answer import reach
from sfumato.estimation.ratio import Parts, fieller, lift_parts
from sfumato.estimation.supports.supports import Floats, Integers
from sfumato.mine import limits
from sfumato.mine.itemsets import Itemsets, csv_text, in_braces, lines_of, with_assumptions
from sfumato.printable import json_number, percent
from sfumato.privacy.probability import check_count, check_number
from sfumato.renderers.picture import draw, points_in_words
from sfumato.result import Result
from sfumato.view import DRAWN, LISTED, Chart, ColumnView, Dots, TableView, View

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Two counts whose ratio is the threshold reach it: 16 of 20 is 0.8, whatever doubles make of it.
# No two ratios of counts of people lie as close to each other as this.
_SLACK = 1e-12


ABOVE_ONE = "a confidence above 1 is noise: in truth it is 1 at most"
DRAWN_ERROR = 0.25  # of a confidence: what is less certain would only stretch the picture


@dataclass(frozen=True)
class _Supports:
    """The supports a rule's metrics are made of."""

    antecedent: Floats
    consequent: Floats
    both: Floats


def _confidence(of: _Supports) -> Floats:
    return of.both / of.antecedent


def _conviction(of: _Supports) -> Floats:
    missed = 1 - _confidence(of)
    return np.where(missed > 0, (1 - of.consequent) / missed, np.inf)


def _leverage(of: _Supports) -> Floats:
    return of.both - of.antecedent * of.consequent


def _zhang(of: _Supports) -> Floats:
    largest = np.maximum(of.both * (1 - of.antecedent), of.antecedent * (of.consequent - of.both))
    return np.where(largest == 0, 0, _leverage(of) / largest)


def _certainty(of: _Supports) -> Floats:
    rest = 1 - of.consequent
    return np.where(rest == 0, 0, (_confidence(of) - of.consequent) / rest)


# Names and order of mlxtend.
METRICS: dict[str, Callable[[_Supports], Floats]] = {
    "antecedent support": lambda of: of.antecedent,
    "consequent support": lambda of: of.consequent,
    "support": lambda of: of.both,
    "confidence": _confidence,
    "lift": lambda of: of.both / (of.antecedent * of.consequent),
    "representativity": lambda of: np.ones_like(of.both),
    "leverage": _leverage,
    "conviction": _conviction,
    "zhangs_metric": _zhang,
    "jaccard": lambda of: of.both / (of.antecedent + of.consequent - of.both),
    "certainty": _certainty,
    "kulczynski": lambda of: (of.both / of.antecedent + of.both / of.consequent) / 2,
}

QUOTIENTS = ("confidence", "lift")  # which have intervals of their own, by Fieller's method

# How each metric moves with the supports of the antecedent, the consequent and both.
_Gradient = tuple[Floats | float, Floats | float, Floats | float]
_GRADIENTS: dict[str, Callable[[_Supports], _Gradient]] = {
    "antecedent support": lambda of: (1.0, 0.0, 0.0),
    "consequent support": lambda of: (0.0, 1.0, 0.0),
    "support": lambda of: (0.0, 0.0, 1.0),
    "confidence": lambda of: (-of.both / of.antecedent**2, 0.0, 1 / of.antecedent),
    "lift": lambda of: (
        -of.both / (of.antecedent**2 * of.consequent),
        -of.both / (of.antecedent * of.consequent**2),
        1 / (of.antecedent * of.consequent),
    ),
    "leverage": lambda of: (-of.consequent, -of.antecedent, 1.0),
    "conviction": lambda of: (
        -(1 - of.consequent) * of.both / (of.antecedent - of.both) ** 2,
        -of.antecedent / (of.antecedent - of.both),
        (1 - of.consequent) * of.antecedent / (of.antecedent - of.both) ** 2,
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class Rules(Result):
    """Rules "if antecedents then consequents" as a table, in the order of the itemsets they come
    from.
    """

    itemsets: Itemsets
    both: Integers  # (n,): the number of each rule's itemset among those that were kept
    antecedent: Integers  # (n,): that of its "if"
    consequent: Integers  # (n,): that of its "then"
    metrics: dict[str, Floats]  # mlxtend's names, each (n,)
    stderr: dict[str, Floats]  # by the metric's name; nan where a standard error is not defined
    ends: dict[str, Floats]  # of the 95 % intervals of QUOTIENTS, (n, 2) each

    def __len__(self) -> int:
        return len(self.both)

    @cached_property
    def antecedents(self) -> list[tuple[str, ...]]:
        """The items of each rule's "if"."""
        return self.itemsets.kept.items(self.antecedent, self.itemsets.names)

    @cached_property
    def consequents(self) -> list[tuple[str, ...]]:
        """The items of each rule's "then"."""
        return self.itemsets.kept.items(self.consequent, self.itemsets.names)

    @cached_property
    def assumes(self) -> list[str | None]:
        """What a model supposed for each rule's items together, beyond the reports."""
        return self.itemsets.kept.assumed(self.both)

    @checked
    def take(self, rows: NDArray[Any] | slice) -> Rules:
        """Some of the rules, by their numbers, a mask or a range, in this order."""
        try:
            np.arange(len(self))[rows].shape[0]  # numbers, a mask or a range, of these
        except IndexError:
            raise ParameterError(
                f"the rows will not do for {len(self)} rules",
                hint="give their numbers from 0, a mask or a slice",
            ) from None
        numbers = (self.both[rows], self.antecedent[rows], self.consequent[rows])
        metrics = {name: values[rows] for name, values in self.metrics.items()}
        stderr = {name: values[rows] for name, values in self.stderr.items()}
        ends = {name: values[rows] for name, values in self.ends.items()}
        return Rules(self.itemsets, *numbers, metrics, stderr, ends)

    @checked
    def strongest(self, metric: str = "confidence") -> Rules:
        """All rules, the surest first: by the low end of the interval, or the metric less two
        standard errors, so that noise does not lead the list.
        """
        values = self.metrics[_known(metric)]
        if metric in self.ends:
            values = np.nan_to_num(self.ends[metric][:, 0], nan=-np.inf)
        elif metric in self.stderr:
            values = values - 2 * np.nan_to_num(self.stderr[metric], nan=0.0, posinf=np.inf)
        return self.take(np.argsort(-values, kind="stable"))

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with mlxtend's columns (antecedents and consequents as frozensets), then the
        errors.
        """
        import pandas

        sets = {"antecedents": self.antecedents, "consequents": self.consequents}
        frozen = {name: [frozenset(items) for items in column] for name, column in sets.items()}
        return pandas.DataFrame({**frozen, **self._columns()})

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table with the same columns, antecedents and consequents as lists of names."""
        import pyarrow as pa

        names = pa.list_(pa.string())
        sets = {
            "antecedents": pa.array(self.antecedents, names),
            "consequents": pa.array(self.consequents, names),
        }
        return pa.table({**sets, **self._columns()})

    @checked
    def view(self, by: str = "confidence", most: int = LISTED) -> View:
        """The rules, at most so many, the surest first; a confidence above 1 is kept, and its cause
        said.
        """
        best, drawn = self.strongest(by).take(slice(most)), self.drawn
        columns = [ColumnView("if", [*map(", ".join, best.antecedents)])]
        columns.append(ColumnView("then", [*map(", ".join, best.consequents)]))
        for name in ("support", "confidence", "lift"):
            values, errors = best.metrics[name].tolist(), best.stderr[name].tolist()
            pairs = best.ends[name].tolist() if name in QUOTIENTS else None
            ends = None if pairs is None else [(low, high) for low, high in pairs]
            column = ColumnView(name, values, errors, "{:.4g}".format, ends=ends)
            if name == "confidence":
                column = replace(column, counts=True, mark=1.0)
            columns.append(column)
        open_ = ", with 95 % intervals" if self.stderr["support"].any() else ""
        caption = (
            f"Rules by support and confidence, coloured by lift{open_}; those of the surest lift "
            "are numbered"
        )
        if len(drawn) < len(self):
            caption += (
                f"; {len(self) - len(drawn):,} with a standard error of the confidence above "
                f"{percent(DRAWN_ERROR, 0)} are not drawn"
            )
        alt = points_in_words(
            "Confidence of the rules of surest lift",
            drawn.names[:DRAWN],
            drawn.metrics["confidence"][:DRAWN],
            drawn.stderr["confidence"][:DRAWN],
        )
        return View(
            f"{len(self):,} rules in {self.itemsets.rows:,} rows",
            charts=(Chart(self._dots(drawn), caption, alt),),
            tables=(TableView(columns, rest="more rules", total=len(self)),),
            notes=(ABOVE_ONE,) if (best.metrics["confidence"] > 1).any() else (),
        )

    @property
    def names(self) -> list[str]:
        """Each rule in words: tea, milk → jam."""
        sides = zip(self.antecedents, self.consequents, strict=True)
        return [f"{', '.join(ifs)} → {', '.join(thens)}" for ifs, thens in sides]

    @property
    def drawn(self) -> Rules:
        """The rules whose confidence is known well enough to be drawn, those of the surest lift
        first.
        """
        known = np.nan_to_num(self.stderr["confidence"], nan=0.0) <= DRAWN_ERROR
        return self.take(known).strongest("lift")

    @checked
    def plot(self, *, top: int = 5, axes: Any = None) -> Any:
        """Support across, confidence up, lift as colour, with 95 % intervals; the `top` rules of
        surest lift are named. Rules whose confidence has a standard error above a quarter are left
        out. The axes they were drawn on.
        """
        check_count("top", top, least=0)
        return draw(Chart(self._dots(self.drawn, top)), axes)

    @staticmethod
    def _dots(drawn: Rules, top: int = 5) -> Dots:
        support, confidence, lift = (
            drawn.metrics[name] for name in ("support", "confidence", "lift")
        )
        errors = drawn.stderr["support"], drawn.stderr["confidence"]
        return Dots(support, confidence, lift, errors, drawn.names[:top])

    def to_csv(self) -> str:
        """Text with one rule a line, written {a,b} => {c} as the R package arules does."""
        sides = zip(self.antecedents, self.consequents, strict=True)
        rules = [f"{in_braces(ifs)} => {in_braces(thens)}" for ifs, thens in sides]
        return csv_text({"rules": rules, **self._columns()})

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rules in the shape of `sfumato mine --json`."""
        shown = ("support", "confidence", "lift", "leverage", "conviction")
        values = {name: self.metrics[name] for name in shown} | self.true
        numbers = [values, {name: self.stderr[name] for name in shown}]
        sides = zip(self.antecedents, self.consequents, strict=True)
        lines: list[dict[str, Any]] = []
        for (ifs, thens), *parts in zip(sides, *map(lines_of, numbers), strict=True):
            own, errors = ({name: json_number(x) for name, x in part.items()} for part in parts)
            lines.append({"if": list(ifs), "then": list(thens), **own, "stderr": errors})
        for place, line in enumerate(lines):
            line["interval"] = {
                name: [json_number(end) for end in values[place].tolist()]
                for name, values in self.ends.items()
            }
        return with_assumptions(lines, self.assumes)

    def to_json(self) -> str:
        """The rules as one JSON object."""
        return json.dumps({"rows": self.itemsets.rows, "rules": self.to_dicts()})

    def _columns(self) -> dict[str, Floats]:
        errors = {f"{name} stderr": values for name, values in self.stderr.items()}
        return {**self.metrics, **errors, **self.true}

    @cached_property
    def true(self) -> dict[str, Floats]:
        """The true support and confidence of each rule, where the truth of its itemsets is known:
        `true_support` and `true_confidence`, nan where nobody has what the rule begins with.
        """
        known = self.itemsets.true
        if known is None:
            return {}
        both, ifs = known[self.both], known[self.antecedent]
        confidence = np.divide(both, ifs, out=np.full(len(self), np.nan), where=ifs > 0)
        return {"true_support": both, "true_confidence": confidence}


@checked
def association_rules(
    itemsets: Itemsets,
    metric: str = "confidence",
    min_threshold: float = 0.8,
    *,
    min_confidence: float | None = None,
    max_consequents: int | None = None,
    level: float | None = None,
    max_rules: int = 100_000_000,
) -> Rules:
    """The rules inside the itemsets whose `metric` reaches `min_threshold`, with standard errors.

    Metrics and column names are mlxtend's. `min_confidence` is short for the metric confidence;
    `max_consequents` limits the items of a "then"; `level` keeps only what passes with that
    probability, given its standard error. Errors are by the delta method, from the covariances
    between an itemset's estimate and those of its subsets, the rows held fixed. Every antecedent
    and consequent has an estimate, be it itself frequent or not.

    >>> from sfumato.api import mine
    >>> found = mine([["tea", "milk"], ["tea"], ["tea", "milk"]], 0.5)
    >>> association_rules(found, min_confidence=0.9).antecedents
    [('milk',)]
    """
    if min_confidence is not None:
        metric, min_threshold = "confidence", min_confidence
    _known(metric)
    if not isinstance(itemsets, Itemsets):
        raise ParameterError(
            f"rules are found in itemsets, not in a {type(itemsets).__name__}",
            hint="as in sf.association_rules(sf.mine(data, 0.02))",
        )
    check_number("min_threshold", min_threshold)
    for name, value in (("max_consequents", max_consequents), ("level", level)):
        if value is not None:
            check_number(name, value)
    if level is not None and (not 0 < level < 1 or metric not in _GRADIENTS):
        raise ParameterError(
            f"level={level:g} must lie between 0 and 1, with one of {listing(_GRADIENTS)} as metric"
        )
    if (many := sum(n * ((1 << k) - 2) for k, n in itemsets.by_length().items())) > max_rules:
        raise ParameterError(
            f"these itemsets hold {many:,} rules, more than max_rules={max_rules:,}",
            hint="raise min_support, set max_length, take maximal() or top(), or raise max_rules",
        )
    least, none = min_threshold - _SLACK * abs(min_threshold), np.zeros(0, np.int64)
    empty = [{name: np.zeros(0) for name in names} for names in (METRICS, _GRADIENTS)]
    ends = {name: np.zeros((0, 2)) for name in QUOTIENTS}
    parts = [Rules(itemsets, none, none, none, empty[0], empty[1], ends)]
    for length in range(2, len(itemsets.kept.tiers) + 1):
        numbers, step = itemsets.chosen[itemsets.length == length], limits.CANDIDATES >> length
        for start in range(0, len(numbers), max(1, step)):
            some = numbers[start : start + max(1, step)]
            found = _rules_of(itemsets, some, length, metric, least, max_consequents)
            if level is not None:
                lower = found.metrics[metric] - NormalDist().inv_cdf(level) * found.stderr[metric]
                found = found.take(np.flatnonzero(lower >= least))
            parts.append(found)
    return _concatenated(parts)


def _concatenated(parts: list[Rules]) -> Rules:
    return Rules(
        parts[0].itemsets,
        np.concatenate([part.both for part in parts]),
        np.concatenate([part.antecedent for part in parts]),
        np.concatenate([part.consequent for part in parts]),
        {name: np.concatenate([part.metrics[name] for part in parts]) for name in METRICS},
        {name: np.concatenate([part.stderr[name] for part in parts]) for name in _GRADIENTS},
        {name: np.concatenate([part.ends[name] for part in parts]) for name in QUOTIENTS},
    )


def _rules_of(
    itemsets: Itemsets,
    numbers: Integers,
    length: int,
    metric: str,
    least: float,
    max_consequents: int | None,
) -> Rules:
    """The rules that divide one of these itemsets of one length in two and reach a threshold; one
    whose antecedent is estimated at 0 or less never does.
    """
    kept, whole = itemsets.kept, (1 << length) - 1
    # The numbers of all subsets of the itemsets; column = bit mask of their items.
    lattice = np.zeros((len(numbers), whole + 1), dtype=np.int64)
    lattice[:, -1] = numbers
    for mask in range(whole - 1, 0, -1):
        # Items are taken out from the last to the first, so the lowest one missing is still at its
        # own place.
        lowest = (~mask & (mask + 1)).bit_length() - 1
        above = mask | (1 << lowest)
        lattice[:, mask] = kept.without(lattice[:, above], above.bit_count(), lowest)
    support = kept.measured.count[lattice] / itemsets.rows
    masks = np.arange(1, whole)
    if max_consequents is not None:
        masks = masks[length - np.bitwise_count(masks) <= max_consequents]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = _Supports(support[:, masks], support[:, whole - masks], support[:, [whole]])
        if metric == "confidence":  # by counts, of which no quotient is rounded
            reached = parts.both >= least * parts.antecedent
        else:
            reached = METRICS[metric](parts) >= least
        reached = reached & (parts.antecedent > 0) & (parts.consequent > 0)
        itemset, column = np.nonzero(reached)
        ifs = masks[column]
        sides = [(itemset, each) for each in (ifs, whole - ifs, np.full_like(ifs, whole))]
        found = _Supports(*(support[side] for side in sides))
        metrics = {name: function(found) for name, function in METRICS.items()}
        covariance = _covariances(itemsets, length, lattice, sides)
        stderr, ends = _errors(found, covariance), _ends(found, covariance)
        for name in QUOTIENTS:
            unknown = np.isnan(ends[name][:, 0]) & np.isfinite(stderr[name])
            metrics[name] = np.where(unknown, np.nan, metrics[name])
            stderr[name] = np.where(unknown, np.nan, stderr[name])
    antecedent, consequent, both = (lattice[side] for side in sides)
    rules = Rules(itemsets, both, antecedent, consequent, metrics, stderr, ends)
    known = ~np.isnan(metrics[metric])
    return rules if known.all() else rules.take(known)


_Sides = list[tuple[Integers, Integers]]  # of each rule the itemset and the mask: if, then, both


_Covariances = tuple[tuple[Floats, Floats, Floats], ...]  # of the supports if, then, both


def _covariances(itemsets: Itemsets, length: int, lattice: Integers, sides: _Sides) -> _Covariances:
    """How the supports that rules are made of err together."""
    kept, rows = itemsets.kept, itemsets.rows
    if itemsets.supports.exact:
        none = np.zeros(len(sides[0][0]))
        return ((none,) * 3,) * 3
    observed, count = kept.measured.observed[lattice], kept.measured.count[lattice]
    variance = kept.measured.stderr[lattice] ** 2 / rows**2
    members = kept.tiers[length - 1].itemsets[lattice[:, -1] - kept.starts[length - 1]]
    found = itemsets.supports.covariances(members, observed, count)
    with_whole, with_rest = (each / rows**2 for each in found)
    ifs, thens, both = sides
    return (
        (variance[ifs], with_rest[ifs], with_whole[ifs]),
        (with_rest[ifs], variance[thens], with_whole[thens]),
        (with_whole[ifs], with_whole[thens], variance[both]),
    )


def _ends(parts: _Supports, covariance: _Covariances) -> dict[str, Floats]:
    """The 95 % intervals of quotients, by Fieller's method; nan where they cannot be estimated."""
    (ifs, _, with_ifs), _, (_, _, own) = covariance
    quotients = {
        "confidence": (Parts(parts.both, parts.antecedent, own, with_ifs, ifs), (0.0, 1.0)),
        "lift": (
            lift_parts(parts.both, parts.antecedent, parts.consequent, covariance, 1.0),
            (0.0, math.inf),
        ),
    }
    found = {name: fieller(each, reach(0.95), ends) for name, (each, ends) in quotients.items()}
    return {name: np.stack(ends, axis=-1) for name, ends in found.items()}


def _errors(parts: _Supports, covariance: _Covariances) -> dict[str, Floats]:
    """Standard errors of rules, by the delta method."""
    found = {}
    for name, gradient in _GRADIENTS.items():  # gradientᵀ · covariance · gradient
        slopes, total = gradient(parts), np.zeros(len(parts.both))
        for slope, line in zip(slopes, covariance, strict=True):
            for other, entry in zip(slopes, line, strict=True):
                total = total + slope * other * entry
        root = np.sqrt(np.maximum(total, 0))
        found[name] = np.where(np.isfinite(total), root, np.nan)
    endless = np.isinf(METRICS["conviction"](parts))  # what has no end has no error either
    return found | {"conviction": np.where(endless, np.nan, found["conviction"])}


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise ParameterError(
            f"no metric '{metric}' ({listing(METRICS, 12)})", hint=near_miss(metric, METRICS)
        )
    return metric
