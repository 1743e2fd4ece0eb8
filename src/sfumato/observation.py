"""Observation: what to count of the reports for a question, and the channel that tally went
through.

The cells of a question are cells of the records; what is counted are cells, items or itemsets of
the *reports*, which may live in other columns. An observation joins the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Product, Retain, Sizes
from sfumato.channels.channel import Dealt, is_exact
from sfumato.channels.cut import beyond_cutoff, kept_inside
from sfumato.channels.limits import ENTRIES
from sfumato.domain import Cells, Items
from sfumato.errors import Unanswerable

ItemSource = Items | Cells  # items of baskets, or the cells of a column taken as items


class ItemsetCounter(Protocol):
    """Whoever can say how many baskets hold all items of an itemset."""

    @property
    def items(self) -> int:
        """The number of items."""

    @property
    def rows(self) -> int:
        """The number of baskets."""

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k)."""


class Counting(Protocol):
    """What a tally asks of whoever holds the reports."""

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        """How many reports fall into each combination of these cells."""

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """The tables of several questions; an engine that can answers them all in one scan."""

    def baskets(self, sources: Sequence[ItemSource]) -> ItemsetCounter:
        """Counts of itemsets among the items of these sources, numbered one after the other."""


@runtime_checkable
class Tally(Protocol):
    """What is counted of the reports; `key` tells it from other tallies of the same release."""

    @property
    def key(self) -> Any:
        """What tells this tally from others of the same release."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tally: the outputs of its channel."""

    def count(self, counter: Counting) -> NDArray[Any]:
        """The tally over all reports."""


@dataclass(frozen=True, eq=False)
class CellTally:
    """Cells of the reports' own columns: each report is counted once."""

    cells: tuple[Cells, ...]

    @property
    def key(self) -> Any:
        return ("cells", *(part.key for part in self.cells))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.cells)

    def count(self, counter: Counting) -> NDArray[Any]:
        return counter.count(self.cells)

    @property
    def axes(self) -> tuple[tuple[Cells, bool], ...]:
        return tuple((part, False) for part in self.cells)


def counts_of(tallies: Mapping[Any, Tally], counter: Counting) -> dict[Any, NDArray[Any]]:
    """The counts of these tallies under the same keys; those of cells are counted together."""
    plain = {key: t.cells for key, t in tallies.items() if isinstance(t, CellTally)}
    tables = counter.count_many(list(plain.values())) if plain else []
    others = {key: t.count(counter) for key, t in tallies.items() if key not in plain}
    return dict(zip(plain, tables, strict=True)) | others


@dataclass(frozen=True, eq=False)
class ItemsetTally:
    """Itemsets with at most one item of each axis: entry 0 of an axis is "whatever it shows".

    An axis is a group of items, given by an Items attribute's own numbers or by cells taken as
    items; `optional` says whether entry 0 is there (else exactly one item of the axis is named).
    """

    sources: tuple[ItemSource, ...]
    columns: tuple[tuple[tuple[int, ...], bool], ...]  # item numbers of each axis, optional?

    @property
    def key(self) -> Any:
        names = tuple(s.name if isinstance(s, Items) else s.key for s in self.sources)
        return ("itemsets", names, self.columns)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(items) + optional for items, optional in self.columns)

    def count(self, counter: Counting) -> NDArray[Any]:
        if math.prod(self.shape) > ENTRIES:
            raise Unanswerable(
                f"this question needs {math.prod(self.shape):,} itemsets of the reports",
                hint="ask about fewer columns at once, or coarser cells",
            )
        counts = np.empty(self.shape, dtype=np.int64)
        baskets = counter.baskets(self.sources)
        for named in product(
            *((True, False) if optional else (True,) for _, optional in self.columns)
        ):
            place = tuple(
                slice(int(optional), None) if there else 0
                for there, (_, optional) in zip(named, self.columns, strict=True)
            )
            items = [
                list(items) for there, (items, _) in zip(named, self.columns, strict=True) if there
            ]
            counts[place] = _counted(baskets, items)
        return counts


def _counted(baskets: ItemsetCounter, items: Sequence[Sequence[int]]) -> NDArray[Any]:
    """The counts of all itemsets with one item of each list."""
    grid = np.meshgrid(*items, indexing="ij") if items else []
    flat = np.stack([axis.ravel() for axis in grid], axis=1) if items else np.empty((1, 0))
    order = np.argsort(flat, axis=1, kind="stable")
    sets = np.take_along_axis(flat, order, axis=1).astype(np.int32)
    return baskets.counts(sets).reshape([len(axis) for axis in items])


def item_tally(items: Items) -> ItemsetTally:
    """Bits summed, and everyone: entry 0 counts all reports."""
    return ItemsetTally((items,), ((tuple(range(items.size)), True),))


@dataclass(frozen=True, eq=False)
class Observation:
    """A tally of the reports and the channel it went through, about these cells of the records.

    The cells may be finer than the question's, or hold further columns: what was asked is then a
    sum over them.
    """

    cells: tuple[Cells, ...]
    tally: Tally
    channel: Channel

    @classmethod
    def plain(cls, cells: Sequence[Cells]) -> Observation:
        """Columns that are reported as they are."""
        kept = tuple(cells)
        return cls(kept, CellTally(kept), Retain.identity([part.size for part in kept]))


@dataclass(frozen=True, eq=False)
class FlipLaw:
    """Every reported item was kept or flipped on its own: ones with `ones`, zeros with `zeros`."""

    ones: NDArray[Any]
    zeros: NDArray[Any]

    def keeps(self, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """How often each item is reported when true, and not when false."""
        return np.asarray(self.ones, dtype=np.float64), np.asarray(self.zeros, dtype=np.float64)

    def sizes(self, items: Sequence[int], size: int) -> Channel:
        """The channel of these items: from which of them are true to which are reported."""
        pairs = (Retain.flip(float(self.ones[item]), float(self.zeros[item])) for item in items)
        return Product.of(*pairs)


@dataclass(frozen=True, eq=False)
class CutLaw:
    """Some items of each basket were kept, any other put in: what a report says of an itemset
    depends on how many of its items it shows, and on the size of the true basket.

    `size` is the size of every basket, or the public column of the reports that states it.
    """

    cutoff: int
    insert: float
    items: int
    size: int | Cells

    def sizes(self, items: Sequence[int], size: int) -> Sizes:
        """From how many of these items are true, in baskets of this size, to how many are shown."""
        if min(len(items), size) > self.cutoff:
            raise beyond_cutoff(len(items), self.cutoff)
        return Sizes.cut_and_paste(len(items), size, self.cutoff, self.insert)

    def votes(self, length: int, size: int) -> NDArray[Any]:  # (length + 1,)
        """What a report that shows 0, 1, … of an itemset's items says about its presence: mean 1
        where the basket holds it, else 0.
        """
        return self.sizes(range(length), size).inverse[-1]

    def keeps(self, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """How often an item of a basket of this size is reported when true, and not when false."""
        kept = kept_inside(size, 1, self.cutoff)[1] if size else 0.0
        shown = kept + (1 - kept) * self.insert
        return np.full(self.items, shown), np.full(self.items, 1 - self.insert)


@dataclass(frozen=True, eq=False)
class SymbolLaw:
    """A report is one symbol for a whole basket: `decode` gives, of the tally, the estimated people
    who hold each of the itemsets asked about, and the variances; `kept` the same of those who hold
    it and whose basket kept it under its cap; `full` of those whose basket holds more than the cap,
    tier by tier, where that is told.
    """

    tally: CellTally
    itemsets: tuple[tuple[int, ...], ...]
    decode: Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
    kept: Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
    cap: int
    whole: bool  # whether any item of the universe could be told, by its hash
    slope: float = 0.0  # by how much more the variance of a share is where more people hold it
    hits: Callable[[NDArray[Any]], NDArray[Any]] | None = None  # reports of each itemset's symbol
    between: tuple[float, float] = (0.0, 1.0)  # of its chance, whatever the basket
    tiers: tuple[int, ...] = ()  # where each begins
    full: Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]] | None = None
    most_counted: Callable[[float], int] | None = None  # times that a report of so many people's
    # counts in the estimate with bounded gain; None where no symbol is hashed, and there is none


ItemLaw = FlipLaw | CutLaw


def joined(parts: Sequence[Observation], wanted: Sequence[Cells] = ()) -> Observation:
    """Independent observations of different columns, as one: the tally of all, the product of the
    channels; in the order of the cells that are wanted where each part counts its own cells.
    """
    if len(parts) == 1:
        return parts[0]
    cells = tuple(cell for part in parts for cell in part.cells)
    channel = _beside(parts)
    if channel is None and wanted and all(_counts_itself(part, wanted) for part in parts):
        places = [tuple(_place(cell, wanted) for cell in part.cells) for part in parts]
        product_ = Product(tuple(part.channel for part in parts), tuple(places))
        return Observation(tuple(wanted), CellTally(tuple(wanted)), product_)
    channel = channel or Product.of(*(part.channel for part in parts))
    return Observation(cells, _joined_tally([part.tally for part in parts]), channel)


def _place(cell: Cells, among: Sequence[Cells]) -> int:
    return next((place for place, other in enumerate(among) if other is cell), -1)


def _counts_itself(part: Observation, wanted: Sequence[Cells]) -> bool:
    """Whether what is counted are the very cells that are asked about."""
    own = isinstance(part.tally, CellTally) and part.tally.cells == part.cells
    return own and all(_place(cell, wanted) >= 0 for cell in part.cells)


def renamed(tally: Tally, names: Mapping[str, str]) -> Tally:
    """The tally of the same columns under other names."""
    if isinstance(tally, CellTally):
        return CellTally(tuple(_renamed_source(part, names) for part in tally.cells))
    if isinstance(tally, ItemsetTally):
        return replace(tally, sources=tuple(_renamed_source(s, names) for s in tally.sources))
    raise Unanswerable("reports that are read row by row cannot be counted beside others")


def _renamed_source(source: Any, names: Mapping[str, str]) -> Any:
    if isinstance(source, Items):
        return replace(source, name=names.get(source.name, source.name))
    attribute = source.attribute
    named = replace(attribute, name=names.get(attribute.name, attribute.name))
    return replace(source, attribute=named)


def _beside(parts: Sequence[Observation]) -> Channel | None:
    """The channel of one noisy part next to columns reported as they are, where it has one."""
    noisy = [part for part in parts if not is_exact(part.channel)]
    if len(noisy) != 1 or parts[-1] is not noisy[0]:
        return None
    channel, shape = noisy[0].channel, [s for part in parts[:-1] for s in part.channel.inputs]
    return channel.beside(tuple(shape)) if isinstance(channel, Dealt) else None


def _joined_tally(tallies: Sequence[Tally]) -> Tally:
    if all(isinstance(tally, CellTally) for tally in tallies):
        return CellTally(tuple(c for t in tallies if isinstance(t, CellTally) for c in t.cells))
    sources: list[ItemSource] = []
    columns: list[tuple[tuple[int, ...], bool]] = []
    for tally in tallies:
        start = sum(source.size for source in sources)
        if isinstance(tally, CellTally):
            for part in tally.cells:
                columns.append((tuple(range(start, start + part.size)), False))
                start += part.size
            sources += tally.cells
        elif isinstance(tally, ItemsetTally):
            columns += [
                (tuple(start + item for item in items), optional)
                for items, optional in tally.columns
            ]
            sources += tally.sources
        else:
            raise Unanswerable("reports that are read row by row cannot be counted beside others")
    return ItemsetTally(tuple(sources), tuple(columns))
