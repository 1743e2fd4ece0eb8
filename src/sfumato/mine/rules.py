"""Association rules between frequent itemsets, with standard errors by the delta method."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato import plots
from sfumato.arguments import checked
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.estimation.supports.supports import Floats, Integers
from sfumato.mine.itemsets import Itemsets, Tier
from sfumato.printable import json_number, percent
from sfumato.privacy.probability import check_count, check_number
from sfumato.renderers.picture import points_told
from sfumato.result import Result
from sfumato.view import DRAWN, LISTED, Chart, ColumnView, TableView, View

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["METRICS", "Rules", "association_rules"]

# Subsets of itemsets looked at together: bounds the memory, however long the itemsets.
_CHUNK = 1 << 18
# Two counts whose ratio is the threshold reach it: 16 of 20 is 0.8, whatever doubles make of it.
# No two ratios of counts of people lie as close to each other as this.
_SLACK = 1e-12


ABOVE_ONE = "a confidence above 1 is noise: in truth it is 1 at most"
DRAWN_ERROR = 0.25  # of a confidence: what is less certain would only stretch the picture


@dataclass(frozen=True)
class _Parts:
    """The supports a rule's metrics are made of."""

    antecedent: Floats
    consequent: Floats
    both: Floats


def _confidence(of: _Parts) -> Floats:
    return of.both / of.antecedent


def _conviction(of: _Parts) -> Floats:
    missed = 1 - _confidence(of)
    return np.where(missed > 0, (1 - of.consequent) / missed, np.inf)


def _leverage(of: _Parts) -> Floats:
    return of.both - of.antecedent * of.consequent


def _zhang(of: _Parts) -> Floats:
    largest = np.maximum(of.both * (1 - of.antecedent), of.antecedent * (of.consequent - of.both))
    return np.where(largest == 0, 0, _leverage(of) / largest)


def _certainty(of: _Parts) -> Floats:
    rest = 1 - of.consequent
    return np.where(rest == 0, 0, (_confidence(of) - of.consequent) / rest)


# Names and order of mlxtend.
METRICS: dict[str, Callable[[_Parts], Floats]] = {
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

# How each metric moves with the supports of the antecedent, the consequent and both.
_Gradient = tuple[Floats | float, Floats | float, Floats | float]
_GRADIENTS: dict[str, Callable[[_Parts], _Gradient]] = {
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
    tier: NDArray[
        np.int32
    ]  # (n,): which tier of `itemsets` holds antecedents and consequents together
    row: NDArray[np.int32]  # (n,): and where in it
    mask: Integers  # (n,): bit j set where item j of that itemset is an antecedent
    metrics: dict[str, Floats]  # mlxtend's names, each (n,)
    stderr: dict[str, Floats]  # by the metric's name; nan where a standard error is not defined

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def antecedents(self) -> list[tuple[str, ...]]:
        """The items of each rule's "if"."""
        return self._named(self.mask)

    @cached_property
    def consequents(self) -> list[tuple[str, ...]]:
        """The items of each rule's "then"."""
        lengths = np.array([tier.length for tier in self.itemsets.tiers], dtype=np.int64)
        return self._named((1 << lengths[self.tier]) - 1 - self.mask if len(self) else self.mask)

    @cached_property
    def assumes(self) -> list[str | None]:
        """What a model supposed for each rule's items together, beyond the reports."""
        result: list[str | None] = [None] * len(self)
        for number in np.unique(self.tier).tolist():
            places = np.flatnonzero(self.tier == number)
            found = self.itemsets.assumed(self.itemsets.tiers[number].itemsets[self.row[places]])
            for place, supposed in zip(places.tolist(), found, strict=True):
                result[place] = supposed
        return result

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
        metrics = {name: values[rows] for name, values in self.metrics.items()}
        stderr = {name: values[rows] for name, values in self.stderr.items()}
        return Rules(
            self.itemsets, self.tier[rows], self.row[rows], self.mask[rows], metrics, stderr
        )

    @checked
    def strongest(self, metric: str = "confidence") -> Rules:
        """All rules, the surest first: by the metric less two standard errors, so that noise does
        not lead the list.
        """
        values = self.metrics[_known(metric)]
        if metric in self.stderr:
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
        columns += [best._estimated(name) for name in ("support", "confidence", "lift")]
        errors = ", with 95 % intervals" if self.stderr["support"].any() else ""
        caption = (
            f"Rules by support and confidence, coloured by lift{errors}; those of the surest lift "
            "are numbered"
        )
        if len(drawn) < len(self):
            caption += (
                f"; {len(self) - len(drawn):,} with a standard error of the confidence above "
                f"{percent(DRAWN_ERROR, 0)} are not drawn"
            )
        alt = points_told(
            "Confidence of the rules of surest lift",
            drawn.names[:DRAWN],
            drawn.metrics["confidence"][:DRAWN],
            drawn.stderr["confidence"][:DRAWN],
        )
        return View(
            f"{len(self):,} rules in {self.itemsets.rows:,} rows",
            charts=(Chart(self.plot, caption, alt),),
            tables=(TableView(columns, rest="more rules", total=len(self)),),
            notes=(ABOVE_ONE,) if (best.metrics["confidence"] > 1).any() else (),
        )

    def _estimated(self, name: str) -> ColumnView:
        """A metric with its errors; of a confidence an interval that ends where it can lie."""
        values, errors = self.metrics[name].tolist(), self.stderr[name].tolist()
        if name != "confidence":
            return ColumnView(name, values, errors, "{:.4g}".format)
        ends = ColumnView(name, values, errors).intervals
        cut = [(max(low, 0.0), min(high, 1.0)) for low, high in ends]
        return ColumnView(name, values, errors, "{:.4g}".format, counts=True, mark=1.0, ends=cut)

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
        best = self.drawn
        return plots.rules(
            best.metrics["support"],
            best.metrics["confidence"],
            best.metrics["lift"],
            stderr=(best.stderr["support"], best.stderr["confidence"]),
            names=best.names[:top],
            top=top,
            axes=axes,
        )

    def to_csv(self) -> str:
        """Text with one rule a line, written {a,b} => {c} as the R package arules does."""
        columns = self._columns()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["rules", *columns])
        for ifs, thens, *values in self._lines(columns):
            writer.writerow([f"{{{','.join(ifs)}}} => {{{','.join(thens)}}}", *values])
        return text.getvalue()

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rules in the shape of `sfumato mine --json`."""
        shown = ("support", "confidence", "lift", "leverage", "conviction")
        values, true = {name: self.metrics[name] for name in shown}, self.true
        errors = {f"stderr {name}": self.stderr[name] for name in shown}
        named = (*shown, *true)  # the errors stand behind these
        return [
            {
                "if": list(ifs),
                "then": list(thens),
                **{name: json_number(value) for name, value in zip(named, numbers, strict=False)},
                "stderr": {
                    name: json_number(value)
                    for name, value in zip(shown, numbers[len(named) :], strict=True)
                },
            }
            | ({} if supposed is None else {"assumes": supposed})
            for supposed, (ifs, thens, *numbers) in zip(
                self.assumes, self._lines({**values, **true, **errors}), strict=True
            )
        ]

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
        size = np.bitwise_count(self.mask).astype(np.intp)
        both = _picked(known, self.tier, self.row)
        ifs = _picked(known, size - 1, self._antecedent_rows())
        confidence = np.divide(both, ifs, out=np.full(len(self), np.nan), where=ifs > 0)
        return {"true_support": both, "true_confidence": confidence}

    def _antecedent_rows(self) -> Integers:
        """Where the antecedents stand in the tier of their length: the other items are taken out
        from the last to the first, so that each is still at its own place.
        """
        tiers, rows = self.itemsets.tiers, self.row.astype(np.int64)
        size = np.array([tier.length for tier in tiers], dtype=np.int64)[self.tier]
        for item in reversed(range(len(tiers))):
            out = (self.mask >> item) & 1 == 0
            for tier in tiers[item:]:  # the shortest first, so that no item is taken out twice
                chosen = np.flatnonzero(out & (size == tier.length))
                rows[chosen] = tier.subsets[rows[chosen], item]
                size[chosen] -= 1
        return rows

    def _lines(self, columns: dict[str, Floats]) -> Iterator[tuple[Any, ...]]:
        return zip(
            self.antecedents,
            self.consequents,
            *(values.tolist() for values in columns.values()),
            strict=True,
        )

    def _named(self, mask: Integers) -> list[tuple[str, ...]]:
        """The item names that the bits of each mask stand for."""
        names = self.itemsets.names
        width = max((tier.length for tier in self.itemsets.tiers), default=0)
        items = np.full((len(self), width), -1, dtype=np.int32)
        for position, tier in enumerate(self.itemsets.tiers):
            rules = np.flatnonzero(self.tier == position)
            chosen = (mask[rules, None] >> np.arange(tier.length)) & 1 == 1
            items[rules, : tier.length] = np.where(chosen, tier.itemsets[self.row[rules]], -1)
        return [tuple(names[item] for item in line if item >= 0) for line in items.tolist()]


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
    _check_asked(itemsets, min_threshold, max_consequents, level)
    if level is not None and (not 0 < level < 1 or metric not in _GRADIENTS):
        raise ParameterError(
            f"level={level:g} must lie between 0 and 1, with one of {listing(_GRADIENTS)} as metric"
        )
    _check_number(itemsets, max_rules)
    wanted = _Wanted(metric, min_threshold, max_consequents, level)
    parts = [
        part
        for position in range(1, len(itemsets.tiers))
        for part in _rules_of_tier(itemsets, position, wanted)
    ]
    return _concatenated(itemsets, parts)


@dataclass(frozen=True)
class _Wanted:
    metric: str
    threshold: float
    max_consequents: int | None
    level: float | None

    def pass_threshold(self, parts: _Parts) -> NDArray[np.bool_]:
        """Which rules reach the threshold; a rule whose antecedent is estimated at 0 or less never
        does.
        """
        least = self.threshold - _SLACK * abs(self.threshold)
        if self.metric == "confidence":  # by counts, of which no quotient is rounded
            reached = parts.both >= least * parts.antecedent
        else:
            reached = METRICS[self.metric](parts) >= least
        return reached & (parts.antecedent > 0) & (parts.consequent > 0)

    def sure(self, rules: Rules) -> Rules:
        """The rules that reach the threshold with probability `level`."""
        if self.level is None:
            return rules
        from scipy.special import ndtri

        lower = rules.metrics[self.metric] - ndtri(self.level) * rules.stderr[self.metric]
        least = self.threshold - _SLACK * abs(self.threshold)
        return rules.take(np.flatnonzero(lower >= least))


def _rules_of_tier(itemsets: Itemsets, position: int, wanted: _Wanted) -> Iterator[Rules]:
    rows, length = itemsets.chosen[position], itemsets.tiers[position].length
    step = max(1, _CHUNK >> length)
    for start in range(0, len(rows), step):
        yield wanted.sure(
            _rules_of_itemsets(itemsets, position, rows[start : start + step], wanted)
        )


def _rules_of_itemsets(itemsets: Itemsets, position: int, rows: Integers, wanted: _Wanted) -> Rules:
    """Every rule that divides one of these itemsets of one tier into two parts."""
    tier = itemsets.tiers[position]
    lattice = _subset_rows(itemsets.tiers, position, rows)
    total = itemsets.rows
    support = _gathered(itemsets.tiers, lattice, "count", total) / total
    whole = (1 << tier.length) - 1
    masks = _antecedent_masks(tier.length, wanted.max_consequents)
    parts = _Parts(support[:, masks], support[:, whole - masks], support[:, [whole]])
    with np.errstate(divide="ignore", invalid="ignore"):
        itemset, column = np.nonzero(wanted.pass_threshold(parts))
        mask = masks[column]
        kept = _Parts(
            support[itemset, mask], support[itemset, whole - mask], support[itemset, whole]
        )
        metrics = {name: function(kept) for name, function in METRICS.items()}
        stderr = _errors(itemsets, tier.itemsets[rows], lattice, itemset, mask, kept)
    places = np.full(len(mask), position, dtype=np.int32)
    return Rules(itemsets, places, rows[itemset].astype(np.int32), mask, metrics, stderr)


def _antecedent_masks(length: int, max_consequents: int | None) -> Integers:
    masks = np.arange(1, (1 << length) - 1, dtype=np.int64)
    if max_consequents is None:
        return masks
    return masks[length - np.bitwise_count(masks) <= max_consequents]


def _subset_rows(tiers: tuple[Tier, ...], position: int, rows: Integers) -> Integers:
    """Where each subset of the itemsets stands in the tier of its length; column = bit mask of its
    items.
    """
    length = tiers[position].length
    lattice = np.zeros((len(rows), 1 << length), dtype=np.int64)
    whole = (1 << length) - 1
    lattice[:, whole] = rows
    for mask in range(whole - 1, 0, -1):
        # Items are taken out from the last to the first, so the lowest one missing is still at its
        # own place.
        lowest = (~mask & (mask + 1)).bit_length() - 1
        above = mask | (1 << lowest)
        lattice[:, mask] = tiers[above.bit_count() - 1].subsets[lattice[:, above], lowest]
    return lattice


def _gathered(tiers: tuple[Tier, ...], lattice: Integers, name: str, empty: float) -> Floats:
    """A measured column of every subset."""
    values = np.full(lattice.shape, float(empty))
    sizes = np.bitwise_count(np.arange(lattice.shape[1]))
    for size in range(1, int(sizes[-1]) + 1):
        columns = np.flatnonzero(sizes == size)
        values[:, columns] = getattr(tiers[size - 1].measured, name)[lattice[:, columns]]
    return values


def _errors(
    itemsets: Itemsets,
    members: NDArray[np.int32],
    lattice: Integers,
    itemset: Integers,
    mask: Integers,
    parts: _Parts,
) -> dict[str, Floats]:
    """Standard errors of the rules (itemset, mask), by the delta method."""
    if itemsets.supports.exact:
        return {name: np.zeros(len(mask)) for name in _GRADIENTS}
    tiers, rows, whole = itemsets.tiers, itemsets.rows, lattice.shape[1] - 1
    reports = float(itemsets.supports.empty().observed[0])
    observed, count = (
        _gathered(tiers, lattice, "observed", reports),
        _gathered(tiers, lattice, "count", rows),
    )
    variance = _gathered(tiers, lattice, "stderr", 0) ** 2
    with_whole, with_rest = itemsets.supports.covariances(members, observed, count)
    rest = whole - mask
    covariance = (
        (variance[itemset, mask], with_rest[itemset, mask], with_whole[itemset, mask]),
        (with_rest[itemset, mask], variance[itemset, rest], with_whole[itemset, rest]),
        (with_whole[itemset, mask], with_whole[itemset, rest], variance[itemset, whole]),
    )
    found = {
        name: _delta(gradient(parts), covariance) / rows for name, gradient in _GRADIENTS.items()
    }
    endless = np.isinf(METRICS["conviction"](parts))  # what has no end has no error either
    return found | {"conviction": np.where(endless, np.nan, found["conviction"])}


def _delta(gradient: _Gradient, covariance: tuple[tuple[Floats, ...], ...]) -> Floats:
    """The square root of gradientᵀ · covariance · gradient, nan where a gradient is not finite."""
    shape = covariance[0][0].shape
    variance = np.zeros(shape)
    for slope, line in zip(gradient, covariance, strict=True):
        for other, entry in zip(gradient, line, strict=True):
            variance = variance + slope * other * entry
    return np.where(np.isfinite(variance), np.sqrt(np.maximum(variance, 0)), np.nan)


def _concatenated(itemsets: Itemsets, parts: list[Rules]) -> Rules:
    def joined(arrays: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
        return np.concatenate(arrays) if arrays else np.zeros(0, dtype=kind)

    return Rules(
        itemsets,
        joined([part.tier for part in parts], np.int32),
        joined([part.row for part in parts], np.int32),
        joined([part.mask for part in parts], np.int64),
        {name: joined([part.metrics[name] for part in parts], np.float64) for name in METRICS},
        {name: joined([part.stderr[name] for part in parts], np.float64) for name in _GRADIENTS},
    )


def _picked(tiers: Sequence[Floats], tier: NDArray[Any], row: NDArray[Any]) -> Floats:
    """Of each rule's tier, the entry in its row."""
    found = np.zeros(len(row))
    for number, values in enumerate(tiers):
        chosen = tier == number
        found[chosen] = values[row[chosen]]
    return found


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise ParameterError(
            f"no metric '{metric}' ({listing(METRICS, 12)})", hint=near_miss(metric, METRICS)
        )
    return metric


def _check_asked(itemsets: Any, threshold: Any, consequents: Any, level: Any) -> None:
    """Refuse what is no itemsets, and numbers that are none."""
    if not isinstance(itemsets, Itemsets):
        raise ParameterError(
            f"rules are found in itemsets, not in a {type(itemsets).__name__}",
            hint="as in sf.association_rules(sf.mine(data, 0.02))",
        )
    check_number("min_threshold", threshold)
    for name, value in (("max_consequents", consequents), ("level", level)):
        if value is not None:
            check_number(name, value)


def _check_number(itemsets: Itemsets, limit: int) -> None:
    number = sum(
        len(rows) * ((1 << tier.length) - 2)
        for tier, rows in zip(itemsets.tiers, itemsets.chosen, strict=True)
    )
    if number > limit:
        raise ParameterError(
            f"these itemsets hold {number:,} rules, more than max_rules={limit:,}",
            hint="raise min_support, set max_length, take maximal() or top(), or raise max_rules",
        )
