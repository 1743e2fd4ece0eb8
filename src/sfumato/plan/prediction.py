"""What one person adds to the variance of an estimate, from the channel and a plausible truth,
before any data are seen.

With g = A⁻ᵀw, the estimate of w·x has the variance Σ_v y_v g_v² - Σ_u x_u w_u² (rows held fixed,
THEORY §3). For a truth x of one person, y = A x, this is what each person adds; N people leave a
share with the standard error √(that / N).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Product, Retain, Sizes
from sfumato.domain import Attribute, Cells, Items, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.cut_and_paste import TYPICAL_BASKET, CutAndPaste

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Item:
    """One value of a column (the place of its cell), or one item of a basket (its number)."""

    attribute: str
    place: int


def itemset_variance(mechanism: Mechanism, items: Sequence[Item], shares: Sequence[float]) -> float:
    """What one person adds to the variance of an itemset's support, its items being independent
    with these shares.
    """
    return channel_variance(itemset_channel(mechanism, items), shares)


def channel_variance(channel: Channel, shares: Sequence[float]) -> float:
    """The same from the channel of the itemset: the last cell is "all items true"."""
    truth = _how_many(shares) if isinstance(channel, Sizes) else _which(shares)
    squares = channel.inverse_squared(channel.apply(truth))
    return float(squares.ravel()[-1]) - float(np.prod(shares))


def itemset_channel(mechanism: Mechanism, items: Sequence[Item]) -> Channel:
    """From which of the items are true to which are reported; for cut-and-paste, from how many to
    how many.
    """
    if isinstance(mechanism, CutAndPaste):
        return _sizes(mechanism, len(items))
    if mechanism.item_keeps is not None:
        ones, zeros = mechanism.item_keeps
        numbers = [_report_item(mechanism, item) for item in items]
        return Product.of(
            *(Retain.flip(float(ones[number]), float(zeros[number])) for number in numbers)
        )
    cells = [_item_cells(mechanism.domain[item.attribute], item.place) for item in items]
    return mechanism.channel_over([mechanism.domain.axis(part.name) for part in cells]).coarsen(
        cells
    )


def itemset_condition(mechanism: Mechanism, items: Sequence[Item]) -> float:
    """The condition number of the table the itemset is a cell of, or of the itemset itself where
    items are reported.
    """
    baskets = any(isinstance(mechanism.domain[item.attribute], Items) for item in items)
    if mechanism.reports_in_items or mechanism.item_keeps is not None or baskets:
        return itemset_channel(mechanism, items).condition
    cells = [default_cells(mechanism.domain[item.attribute]) for item in items]
    return (
        mechanism.channel_over([mechanism.domain.axis(part.name) for part in cells])
        .coarsen(cells)
        .condition
    )


def column_variance(mechanism: Mechanism, cells: Cells, weights: Floats, shares: Floats) -> float:
    """What one person adds to the variance of Σ weights·shares over the cells of one column, the
    truth being `shares`.
    """
    if mechanism.reports_in_items:
        return _flipped_variance(mechanism, cells, weights, shares)
    channel = mechanism.channel_over([mechanism.domain.axis(cells.name)]).coarsen([cells])
    influence = np.asarray(channel.solve_adjoint(weights))
    return float((channel.apply(shares) * influence**2).sum() - (shares * weights**2).sum())


def _flipped_variance(mechanism: Mechanism, cells: Cells, weights: Floats, shares: Floats) -> float:
    """Items are reported independently: Σ_i w_i²·(x_i p(1-p) + (1-x_i) q(1-q)) / (p+q-1)², one item
    a value.

    Within one attribute this holds for cut-and-paste too: only one of its items can be kept, the
    others are put in by chance.
    """
    group = cells.assign(np.arange(cells.attribute.size)).astype(np.intp)
    own = [Item(cells.attribute.name, value) for value in range(len(group))]
    ones, zeros = _single_keeps(mechanism, own)
    each = np.asarray(shares)[group] / np.bincount(group, minlength=cells.size)[group]
    noise = each * ones * (1 - ones) + (1 - each) * zeros * (1 - zeros)
    return float((np.asarray(weights)[group] ** 2 * noise / (ones + zeros - 1) ** 2).sum())


def _single_keeps(mechanism: Mechanism, items: Sequence[Item]) -> tuple[Floats, Floats]:
    if isinstance(mechanism, CutAndPaste):
        matrix = _sizes(mechanism, 1).to_dense()
        return np.full(len(items), matrix[1, 1]), np.full(len(items), matrix[0, 0])
    assert mechanism.item_keeps is not None
    numbers = [_report_item(mechanism, item) for item in items]
    return mechanism.item_keeps[0][numbers], mechanism.item_keeps[1][numbers]


@lru_cache(maxsize=64)
def _sizes(mechanism: CutAndPaste, length: int) -> Sizes:
    """Partial supports of itemsets; baskets are taken to have six items, or as many as
    the itemset.
    """
    if not mechanism.domain.private.baskets:
        return mechanism.sizes(length)
    return mechanism.sizes(length, min(max(TYPICAL_BASKET, length), mechanism.universe))


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
