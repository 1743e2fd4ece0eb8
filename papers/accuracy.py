"""How far supports are from the truth, over all truly frequent itemsets, found or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.errors import Unanswerable
from sfumato.source import Source


@dataclass(frozen=True)
class Accuracy:
    """How well supports of one length are estimated, over all truly frequent itemsets whether or
    not anyone would have found them.
    """

    length: int
    itemsets: int
    error: float  # mean relative error, in per cent
    covered: float  # of the intervals at the level asked for, in per cent


def support_accuracy(
    source: Source,
    truth: Source,
    sets: Iterable[Sequence[str]],
    min_support: float,
    *,
    level: float = 0.95,
) -> list[Accuracy]:
    """The errors of a source's supports, and how often its intervals hold the true ones, by length.

    `sets` are the columns whose cells are the itemsets; sets that the source cannot answer are left
    out.
    """
    reach = NormalDist().inv_cdf((1 + level) / 2)
    found: dict[int, list[tuple[Any, Any]]] = {}
    for names in sets:
        true = truth.marginal(names).value / truth.rows
        frequent = true >= min_support
        if not frequent.any():
            continue
        try:
            estimate = source.marginal(names)
        except Unanswerable:
            continue
        away = np.abs(estimate.value / source.rows - true)[frequent]
        inside = away <= reach * estimate.stderr[frequent] / source.rows
        found.setdefault(len(names), []).append((away / true[frequent], inside))
    return [_accuracy(length, parts) for length, parts in sorted(found.items())]


def _accuracy(length: int, parts: Sequence[tuple[Any, Any]]) -> Accuracy:
    errors, inside = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Accuracy(length, len(errors), 100 * float(errors.mean()), 100 * float(inside.mean()))
