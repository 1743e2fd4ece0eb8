"""Errors of a task on a release against the same task on the truth."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.errors import DataError, listing
from sfumato.mine.itemsets import Itemsets
from sfumato.renderers.picture import lines
from sfumato.result import Result
from sfumato.source import Source
from sfumato.view import ColumnView, Series, TableView, View

KINDS = {
    "support error": "support_error",
    "false negatives": "false_negatives",
    "false positives": "false_positives",
}
# What the errors of itemsets are shares of, in words.
OF_WHAT = "in per cent (support error: of true supports; the others: of the truly frequent)"


@dataclass(frozen=True)
class LengthErrors:
    """How well the itemsets of one length were found, in per cent of the truly frequent ones F (R:
    those reported).

    `support_error`: mean relative error of the supports over F∩R (FRAPP §9, MASK §7);
    `false_negatives`: σ- = |F∖R|/|F|; `false_positives`: σ+ = |R∖F|/|F|. None where there is
    nothing to divide by.
    """

    length: int
    frequent: int
    found: int
    support_error: float | None
    false_negatives: float | None
    false_positives: float | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON shape of `sfumato mine --truth`."""
        return asdict(self)


class ErrorsByLength(list[LengthErrors], Result):
    """The errors of itemsets, one entry per length."""

    __repr__ = Result.__repr__  # as a table, not as a list

    def view(self) -> View:
        """A line and a place in each panel for every length, in per cent."""
        lengths = [each.length for each in self]
        panels = {
            title: [Series("found", np.array([getattr(e, name) for e in self], dtype=float))]
            for title, name in KINDS.items()
        }
        counts = [
            ColumnView(name, [getattr(each, name) for each in self], field=name, kind="int64")
            for name in ("length", "frequent", "found")
        ]
        errors = [
            ColumnView(
                title,
                [getattr(each, name) for each in self],
                words=_percent,
                field=name,
                kind="double",
            )
            for title, name in KINDS.items()
        ]
        caption = f"Errors against the truth by itemset length, {OF_WHAT}; undefined is a gap"
        axes = {"across": "itemset length", "quantity": "error (%)"}
        chart = lines(lengths, panels, caption=caption, **axes)
        table = TableView([*counts, *errors])
        return View("Against the truth", words=(OF_WHAT,), charts=(chart,), tables=(table,))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1f}"


@checked
def itemset_errors(found: Itemsets, truth: Itemsets) -> ErrorsByLength:
    """Support and identity errors of mined itemsets by length.

    Both must have been mined at the same threshold; items are matched by name.

    >>> import sfumato as sf
    >>> found = sf.mine([["tea", "milk"], ["tea"], ["tea", "jam"]], 0.5)
    >>> [(each.length, each.support_error) for each in itemset_errors(found, found)]
    [(1, 0.0)]
    """
    _check_known(found, set(truth.supports.names))
    reported, frequent = _by_name(found), _by_name(truth)
    lengths = sorted({len(items) for items in (*reported, *frequent)})
    return ErrorsByLength(_errors_at(length, reported, frequent) for length in lengths)


def beside_truth(found: Itemsets, truth: Source) -> Itemsets:
    """The same itemsets, each with its true support, frequent or not; items are matched by name."""
    supports = truth.supports()
    places = {name: place for place, name in enumerate(supports.names)}
    _check_known(found, places)
    mapped = np.array([places[name] for name in found.supports.names], dtype=np.int32)
    shorter, true, below = supports.empty(), [np.ones(1)], np.zeros(1, dtype=np.int64)
    for tier in found.kept.tiers:
        items = mapped[tier.itemsets]
        turn = items.argsort(axis=1)
        items = np.take_along_axis(items, turn, axis=1)
        order = np.lexsort(items.T[::-1])  # where the truth's items stand in another order
        subsets = below[np.take_along_axis(tier.subsets, turn, axis=1)][order]
        shorter = supports.measure(items[order], subsets.astype(np.int32), shorter)
        below = order.argsort()
        true.append(shorter.count[below] / max(supports.rows, 1))
    return replace(found, true=np.concatenate(true))


def true_supports(found: Itemsets, truth: Source) -> NDArray[np.float64]:
    """The true support of every itemset that was found."""
    known = beside_truth(found, truth).true_support
    assert known is not None
    return known


def _check_known(found: Itemsets, known: Container[str]) -> None:
    strange = [name for name in found.supports.names if name not in known]
    if strange:
        raise DataError(
            f"the truth has no item {listing(repr(name) for name in strange[:3])}, which the "
            "release has",
            hint="give the true records of this very release, with the same columns",
        )


def _by_name(itemsets: Itemsets) -> dict[tuple[str, ...], float]:
    """Supports by the itemsets' names in one order, whatever the order of the source's items."""
    return {
        tuple(sorted(items)): support
        for items, support in zip(itemsets.items, itemsets.support.tolist(), strict=True)
    }


def _errors_at(
    length: int, reported: dict[tuple[str, ...], float], frequent: dict[tuple[str, ...], float]
) -> LengthErrors:
    found = {items for items in reported if len(items) == length}
    true = {items for items in frequent if len(items) == length}
    both = found & true
    relative = [abs(reported[items] - frequent[items]) / frequent[items] for items in both]
    return LengthErrors(
        length,
        len(true),
        len(found),
        100 * float(np.mean(relative)) if both else None,
        100 * len(true - found) / len(true) if true else None,
        100 * len(found - true) / len(true) if true else None,
    )
