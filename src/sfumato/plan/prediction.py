"""What one person adds to the variance of an estimate, from the channel and a plausible truth,
before any data are seen.

With g = A⁻ᵀw, the estimate of w·x has the variance Σ_v y_v g_v² - Σ_u x_u w_u² (rows held fixed,
docs/theory.md). For a truth x of one person, y = A x, this is what each person adds; N people leave
a share with the standard error √(that / N).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Sizes
from sfumato.channels.channel import exact_axes, has_known_laws, scatter
from sfumato.channels.conditioning import condition
from sfumato.domain import Attribute, Cells, Items, Numeric, gathered, spread
from sfumato.errors import Unanswerable
from sfumato.estimation.evidence import NEGLIGIBLE
from sfumato.mechanisms.base import TYPICAL_BASKET, Mechanism
from sfumato.model.fitted import order_for
from sfumato.observation import CellTally, CutLaw, ItemLaw, ItemsetTally

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Item:
    """One value of a column (the place of its cell), or one item of a basket (its number)."""

    attribute: str
    place: int


def itemset_variance(mechanism: Mechanism, items: Sequence[Item], shares: Sequence[float]) -> float:
    """What one person adds to the variance of an itemset's support, its items being independent
    with these shares; where items are reported, of the support that mining counts, not of a cell of
    a table, which knows how many people the values of a column make up.
    """
    law = mechanism.item_law
    if law is None or not all(_is_reported(mechanism, item) for item in items):
        weights = np.zeros((2,) * len(items))
        weights[(-1,) * len(items)] = 1.0
        cells = [_item_cells(mechanism.domain[item.attribute], item.place) for item in items]
        return observed_variance(mechanism, cells, weights, _which(shares))
    channel = _item_channel(mechanism, law, items)
    truth = _how_many(shares) if isinstance(channel, Sizes) else _which(shares)
    squares = channel.inverse_squared(channel.apply(truth))
    return float(squares.ravel()[-1]) - float(np.prod(shares))


def observed_variance(
    mechanism: Mechanism, cells: Sequence[Cells], weights: Floats, shares: Floats
) -> float:
    """What one person adds to the variance of Σ weights·shares over these cells, the truth being
    `shares`, spread evenly over whatever finer cells the reports tell apart.
    """
    known = mechanism.predicted_variance(cells, weights, shares)
    if known is not None:
        return known
    seen = mechanism.observe(cells)
    fine_weights, truth = weights, shares
    if len(seen.cells) != len(cells) or any(
        a.key != b.key for a, b in zip(seen.cells, cells, strict=True)
    ):
        names = [part.name for part in seen.cells]
        axes = [names.index(part.name) for part in cells]
        merges = [part.within(seen.cells[axis]) for part, axis in zip(cells, axes, strict=True)]
        shape = seen.channel.inputs
        fine_weights = spread(weights, axes, merges, shape)
        held = gathered(np.ones(shape), axes, merges)
        truth = spread(shares / held, axes, merges, shape)
    known = has_known_laws(seen.channel)
    channel = seen.channel.settle(seen.channel.apply(truth) if known else truth)
    influence = np.asarray(channel.solve_adjoint(fine_weights))
    found = float((truth * scatter(channel, influence, influence)).sum())
    if not isinstance(seen.tally, CellTally | ItemsetTally):
        return found
    return found - _known_total(channel, truth, influence)


def _known_total(channel: Channel, truth: Floats, influence: Floats) -> float:
    """What knowing how many people there are takes from the variance of an estimate: all that goes
    with the estimate of everyone, of each value of the axes that are reported as they are
    (`CountEvidence`).
    """
    everyone = np.asarray(channel.solve_adjoint(np.ones_like(truth)))
    exact = exact_axes(channel)
    noisy = tuple(axis for axis in range(truth.ndim) if axis not in exact)
    joint, total = (
        (truth * scatter(channel, everyone, each)).sum(axis=noisy) for each in (influence, everyone)
    )
    known = total > NEGLIGIBLE
    return float(np.divide(joint**2, total, out=np.zeros_like(total), where=known).sum())


def modelled_variance(
    mechanism: Mechanism, items: Sequence[Item], shares: Sequence[float], people: float
) -> float:
    """The same of an itemset that a model answers from so many people, times these; infinite where
    none is fitted.
    """
    try:
        order = order_for(mechanism.domain.private.shape, people)
    except Unanswerable:  # too few people
        return math.inf
    weights = np.zeros((2,) * len(items))
    weights[(-1,) * len(items)] = 1.0
    cells = [_item_cells(mechanism.domain[item.attribute], item.place) for item in items]
    found = mechanism.modelled_variance(cells, weights, _which(shares), people, order)
    return math.inf if found is None else found


def translated_variance(model: float, reports: float, columns: int) -> float:
    """What limited translation (Efron and Morris 1971) adds to the variance of a model's answer,
    which it moves to within r standard errors of that of the reports.

    What a posterior mean is off by is uncorrelated with how far it is from the unbiased answer, so
    that is normal with the difference d² of both variances, and E(|z| − a)₊² of it is added, a =
    r·s/d, r² the interactions that a model of so many columns shrinks.

    >>> translated_variance(1.0, 1.0, 2), round(translated_variance(0.0, 1.0, 2), 3)
    (0.0, 0.151)
    """
    apart = math.sqrt(max(0.0, reports - model))
    if not apart:
        return 0.0
    reach = math.sqrt(max(2**columns - columns - 1, 1) * reports) / apart
    normal = NormalDist()
    beyond = (1 + reach**2) * normal.cdf(-reach) - reach * normal.pdf(reach)
    return 2 * apart**2 * max(0.0, beyond)


def itemset_condition(mechanism: Mechanism, items: Sequence[Item]) -> float:
    """The condition number of the table the itemset is a cell of, or of the itemset itself where
    items are reported; infinite where the tally is no table of cells.
    """
    law = mechanism.item_law
    if law is not None and all(_is_reported(mechanism, item) for item in items):
        return condition(_item_channel(mechanism, law, items))
    attributes = [mechanism.domain[item.attribute] for item in items]
    baskets = any(isinstance(attribute, Items) for attribute in attributes)
    cells = (
        [_item_cells(a, item.place) for a, item in zip(attributes, items, strict=True)]
        if baskets
        else [default_cells(attribute) for attribute in attributes]
    )
    seen = mechanism.observe(cells)
    if not isinstance(seen.tally, CellTally):
        return math.inf
    channel = seen.channel
    if not has_known_laws(channel):
        channel = channel.settle(np.ones(channel.inputs))
    return condition(channel)


def _is_reported(mechanism: Mechanism, item: Item) -> bool:
    return not mechanism.domain[item.attribute].public


def _item_channel(mechanism: Mechanism, law: ItemLaw, items: Sequence[Item]) -> Channel:
    """From which of the items are true to which are reported, or from how many to how many; baskets
    are taken to have six items, or as many as the itemset.
    """
    size = law.size if isinstance(law, CutLaw) and isinstance(law.size, int) else None
    reported = mechanism.private_reports.attributes[0].size
    typical = min(max(TYPICAL_BASKET, len(items)), reported) if size is None else size
    return law.sizes([_report_item(mechanism, item) for item in items], typical)


def _report_item(mechanism: Mechanism, item: Item) -> int:
    attribute = mechanism.domain[item.attribute]
    if isinstance(attribute, Items):
        return item.place
    return mechanism.private_reports.attributes[0].code(
        f"{attribute.name}={attribute.labels[item.place]}"
    )


def _item_cells(attribute: Attribute, place: int) -> Cells:
    """The two cells "any other value" and "this value" of a column, or of one item."""
    if isinstance(attribute, Items):
        return attribute.item_cells(attribute.values[place])
    whole = default_cells(attribute)
    group = (np.arange(whole.size) == place).astype(np.intp)
    return Cells(attribute, ("other", whole.labels[place]), group, whole.starts)


def default_cells(attribute: Attribute) -> Cells:
    """The values of a column; of a number its default bins, or four quarters where it has none."""
    if not isinstance(attribute, Numeric):
        return attribute.cells()
    return attribute.cells_by_cuts(attribute.cuts or even_cuts(attribute, 4))


def value_count(attribute: Attribute) -> int:
    """How many items a column has: its default cells, or the items of its baskets."""
    return attribute.size if isinstance(attribute, Items) else default_cells(attribute).size


def even_cuts(attribute: Numeric, parts: int) -> list[float]:
    """The cuts that divide a number's range evenly."""
    return [
        attribute.min + (attribute.max - attribute.min) * part / parts for part in range(1, parts)
    ]


def _which(shares: Sequence[float]) -> NDArray[Any]:  # (2,) * items
    return reduce(np.multiply.outer, [np.array([1 - share, share]) for share in shares])


def _how_many(shares: Sequence[float]) -> Floats:  # (items + 1,)
    return reduce(np.convolve, [np.array([1 - share, share]) for share in shares])
