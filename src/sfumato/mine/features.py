"""Features and target of a classifier: which cells of each column are asked for, and how test
records are put into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.domain import Attribute, Bins, Cells, Domain, Numeric
from sfumato.errors import (
    DataError,
    ParameterError,
    SchemaError,
    Unanswerable,
    listing,
    near_miss,
)
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.likelihood import project_simplex
from sfumato.mine import limits
from sfumato.release import Exact, Release, source_of
from sfumato.source import Source, default_cells
from sfumato.table import Table


@dataclass(frozen=True, eq=False)
class Feature:
    """One column that predicts: its cells, whether their order means something, and how many people
    are in each.
    """

    cells: Cells
    counts: NDArray[Any]  # (cells,), not negative

    @property
    def name(self) -> str:
        return self.cells.name

    @property
    def size(self) -> int:
        return self.cells.size

    @property
    def ordered(self) -> bool:
        """Whether the cells are intervals of a number."""
        return isinstance(self.cells.attribute, Numeric | Bins)

    def merged(self, group: NDArray[Any]) -> Cells:
        """The partition that puts cell i into group[i]."""
        names = tuple(str(number) for number in range(int(group.max()) + 1))
        return Cells(
            self.cells.attribute, names, group[self.cells.group], self.cells.starts, self.cells.item
        )

    def cut(self, cell: int) -> str:
        """The number at which this cell begins, as a person writes it."""
        return self.cells.labels[cell].split(",")[0].lstrip("[")


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be predicted from what: the source, the target's classes, the features, and their
    two-way counts.
    """

    source: Source
    target: Cells
    features: tuple[Feature, ...]
    tables: tuple[Estimate, ...]  # feature × target, one a feature
    left_out: tuple[str, ...] = ()  # columns whose tables the reports do not determine

    @property
    def classes(self) -> tuple[str, ...]:
        return self.target.labels

    @classmethod
    def of(
        cls, source: Any, target: str, features: Sequence[str] | None, most_cells: int
    ) -> Problem:
        """The problem, with the cells of every number chosen from the data: one scan."""
        source = as_source(source)
        classes = _classes(source, target)
        names = _feature_names(source.domain, target, features)
        tables = [_binned(estimate, most_cells) for estimate in _tables(source, names, classes)]
        totals = tables[0].coarsen([classes])
        if np.count_nonzero(totals.value + 2 * totals.stderr >= 1) < 2:  # all others surely absent
            only = classes.labels[int(np.argmax(totals.value))]
            so_far = "as far as the reports tell, " if totals.stderr.any() else ""
            raise DataError(
                f"{so_far}every record has {target} = '{only}', so there is nothing to predict"
            )
        found = tuple(Feature(table.cells[0], _margin(table)) for table in tables)
        left_out = tuple(name for name in names if name not in {part.name for part in found})
        return cls(source, classes, found, tuple(tables), left_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the features before anything is learned."""
        if not self.left_out:
            return ()
        why = "too few people were asked in some group of theirs"
        return (f"left out, for {why}: {listing(self.left_out)}",)


def as_source(source: Any) -> Source:
    """The source that was given, or that a table is."""
    if isinstance(source, Source):
        return source
    if isinstance(source, Table):
        return source_of(source)
    raise ParameterError(
        f"a classifier is fitted on a source of counts, not on {type(source).__name__}",
        hint=(
            "use sf.Exact(sf.read(data, schema)) for true records, sf.open(file) for perturbed ones"
        ),
    )


def _classes(source: Source, target: str) -> Cells:
    """The classes of the target: values, or the default bins of a number."""
    names = [axis.name for axis in source.domain.axes]
    if not isinstance(target, str) or target not in names:
        raise SchemaError(
            f"no attribute {shown(target)} to predict ({listing(names)})",
            hint=near_miss(target, names),
        )
    attribute = source.domain.axis_named(target).attribute
    if isinstance(attribute, Numeric) and not attribute.cuts:
        raise SchemaError(
            f"'{target}' is a number without cuts, so it has no classes",
            hint="give it cuts = […] in the schema",
        )
    cells = source.cells(target)
    if cells.size < 2:
        raise SchemaError(
            f"'{target}' has one class only ('{cells.labels[0]}'), so there is nothing to predict"
        )
    return cells


def _feature_names(domain: Domain, target: str, features: Sequence[str] | None) -> list[str]:
    if isinstance(features, str):
        raise ParameterError(f"features must be a list; use ['{features}']")
    if features is not None and not isinstance(features, Iterable):
        raise ParameterError(
            f"features={shown(features)} is no list of columns", hint=f"as in [{domain.names[0]!r}]"
        )
    names = (
        [axis.name for axis in domain.axes if axis.name != target]
        if features is None
        else list(features)
    )
    if target in map(str, names):
        raise ParameterError(f"'{target}' is the target, so it cannot be a feature")
    names = [name for name in names if domain.axis_named(name).size > 1]
    if not names:
        raise SchemaError(f"there is no column to predict '{target}' from")
    return names


def _tables(source: Source, names: Sequence[str], classes: Cells) -> list[Estimate]:
    """Each feature by class, from one scan; each on its own, as fine as the reports determine it,
    where one is not determined: a public number may have more values than there are groups of
    people whose classes are known.
    """
    grids, found = [_fine_cells(source.domain, name) for name in names], list[Estimate]()
    try:
        tables = source.marginals([(grid, classes) for grid in grids])
        _ = [table.value for table in tables]  # only then they are known to be determined
        return tables
    except Unanswerable:
        for grid in grids:
            uncut = isinstance(grid.attribute, Numeric) and not grid.attribute.cuts
            coarse = grid if uncut else default_cells(source.domain, grid.name)
            for cells in (grid, coarse):
                try:
                    table = source.marginal([cells, classes])
                    _ = table.value
                except Unanswerable:
                    continue
                found.append(table)
                break
        if not found:
            raise
        return found


def _fine_cells(domain: Domain, name: str) -> Cells:
    """Every value a cell, or a thousand equal intervals of a number with more values."""
    attribute = domain.axis_named(name).attribute
    if isinstance(attribute, Numeric):
        number = min(limits.FINE_CELLS, attribute.size)
        codes = np.linspace(0, attribute.size, number, endpoint=False).astype(np.int64)
        return attribute.cells_by_cuts(attribute.numbers(np.unique(codes)[1:]).tolist())
    return domain.cells_of(name)


def _binned(estimate: Estimate, most: int) -> Estimate:
    """The table of a number with at most this many cells; others as they are."""
    if most < 2:
        raise ParameterError(f"most_cells={most}; a number is cut into at least 2 cells")
    cells, classes = estimate.cells
    if not isinstance(cells.attribute, Numeric) or cells.size <= most:
        return estimate
    # Each with about as many people; a value that many people share does not use up more than one.
    counts = _margin(estimate)
    for _ in range(5):
        counts = np.minimum(counts, counts.sum() / most)
    share = (np.cumsum(counts) - counts / 2) / (counts.sum() or 1)
    starts = np.searchsorted(share, np.arange(1, most) / most)
    starts = np.unique(starts[(starts > 0) & (starts < len(counts))])
    assert cells.starts is not None
    coarse = cells.attribute.cells_by_cuts(cells.attribute.numbers(cells.starts[starts]).tolist())
    return estimate.coarsen([coarse, classes])


def _margin(table: Estimate) -> NDArray[Any]:
    """How many people are in each cell of the feature, whatever their class; none negative."""
    return project_simplex(table.value.sum(axis=1), table.rows)


def read_records(data: Any, domain: Domain, names: Sequence[str]) -> Table:
    """Test records over these attributes: a table, a source, a data frame, a dictionary of columns,
    or a matrix of them.
    """
    if isinstance(data, Exact | Release):
        data = data.table
    if isinstance(data, Table):
        if data.provenance is not None:
            return data
        # Columns that are coded alike stay as they are.
        alike = all(plain(data.domain[name]) == plain(domain[name]) for name in names)
        wanted = data.domain.project(names) if alike else domain_of_tests(domain, names)
        return data.recode(wanted)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        if data.shape[1] != len(names):
            raise DataError(
                f"a matrix with {data.shape[1]} columns was given for {len(names)} features "
                f"({listing(names)})"
            )
        data = {name: data[:, place] for place, name in enumerate(names)}
    if isinstance(data, Mapping):
        data = pa.table({name: pa.array(values) for name, values in data.items()})
    return Table.from_arrow(data, domain_of_tests(domain, names))


def domain_of_tests(domain: Domain, names: Sequence[str]) -> Domain:
    """The domain by which test records are read: a number beyond the range seen in training counts
    as its end.
    """
    wanted = domain.project(names)
    lenient = (replace(a, clip=True) if isinstance(a, Numeric | Bins) else a for a in wanted)
    return replace(wanted, attributes=tuple(lenient))


def assigned(table: Table, cells: Sequence[Cells]) -> list[NDArray[Any]]:
    """The cell of each record, column by column."""
    columns = [part.assign(table.column(part.attribute.name)) for part in cells]
    return [column.astype(np.uint8) if column.dtype == bool else column for column in columns]


def plain(attribute: Attribute) -> dict[str, Any]:
    """What decides how values are coded."""
    return attribute.to_dict() | {"public": None, "clip": None, "cuts": None}
