"""OLAP's figures 4 to 14: errors of reconstructed counts against retention, columns and rows, and
how much may be retained.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from papers.base import Cell, Reproduction, Row, Runs, Settings
from papers.breach import largest_keep_of_columns
from papers.conditioning import retention_condition
from papers.curves import Curves
from papers.data_sets import data_directory
from sfumato.domain import Cells, Domain, Numeric
from sfumato.errors import ConvergenceWarning
from sfumato.estimation.evidence import CountEvidence
from sfumato.mechanisms.retention import Retention
from sfumato.randomness import Keystream, seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table, read

if TYPE_CHECKING:
    pass

ADULT = Domain(
    (
        Numeric("age", 17, 90),
        Numeric("fnlwgt", 10_000, 1_500_000),
        Numeric("hours_per_week", 1, 100),
        Numeric("education_num", 1, 16),
    ),
    title="Adult (OLAP §7)",
)
PREDICATES = {
    "age": (25, 45),
    "fnlwgt": (100_000, 1_000_000),
    "hours_per_week": (30, 60),
    "education_num": (5, 10),
}
ADULT_ROWS = 32_561  # the training part: "about 32,000 rows"
KEEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CURVES = (0.2, 0.4, 0.6, 0.8)  # retention probabilities with a curve of their own
ZIPF_ROWS, ZIPF_COLUMNS, FIGURE_10_COLUMNS = (1_000, 10_000, 100_000), 10, 8
QUICK_ROWS, QUICK_COLUMNS = (1_000, 10_000), 5
LEAST_FREQUENT, EXPONENT = 5, 0.5  # of the Zipfian columns
WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
DRAWS = (
    25  # perturbations behind each point of figures 11 and 12, where one error is a single number
)
RHO2, PRIORS = 0.95, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
BOXES = 10  # intervals a column in figures 13 and 14
LARGEST_PRINTED = {2: 15.0, 3: 30.0}  # relative priors of the commonest box, §7.3
DATA_SEED = 1_000  # data are drawn from another stream than their noise
TOLERANCE, STEPS = (
    1e-5,
    6_000,
)  # of iterative Bayes: within one unit of the log-likelihood of 100,000 reports

RANDOMIZED, ITERATIVE, INVERSION, UNFINISHED = "randomized", "iterative", "inversion", "unfinished"
NO_NUMBERS = "the paper draws these curves and prints no numbers; its sentences are tested instead"
ITERATED = (
    "iterative Bayes is run to its fixed point (accelerated), where the paper stops once "
    "two iterates 'do not differ much'"
)
ZIPF_NOTE = (
    "values are the ranks; a predicate takes the commonest values up to half of the rows, a "
    "quarter of the domain (the paper "
    "states the selectivity of 0.5, not which values have it)"
)
QUICK_NOTE = "quick run on fewer rows or columns than the paper's"


Errors = Mapping[str, float]


def reproduce(names: Sequence[str], settings: Settings) -> Iterator[Reproduction]:
    """The figures asked for."""
    people = cache(lambda: adult(settings))
    figures: dict[str, Callable[[], Reproduction]] = {
        "olap-figure-4": lambda: by_retention(people(), settings, 2),
        "olap-figure-5": lambda: by_retention(people(), settings, 3),
        "olap-figure-6": condition_numbers,
        "olap-figure-7": lambda: by_columns(people(), settings, ITERATIVE),
        "olap-figure-8": lambda: by_columns(people(), settings, INVERSION),
        "olap-figure-9": lambda: zipf_by_columns(settings),
        "olap-figure-10": lambda: zipf_by_rows(settings),
        "olap-figure-11": lambda: by_width(settings, relative=False),
        "olap-figure-12": lambda: by_width(settings, relative=True),
        "olap-figure-13": lambda: safe_retention(people(), 2),
        "olap-figure-14": lambda: safe_retention(people(), 3),
    }
    for name in names:
        yield figures[name]()


def errors(table: Table, cells: Sequence[Cells], keep: float, rng: Keystream) -> Errors:
    """The l1 distances of three distributions over the cells from the true one: as reported, by
    iteration, by inversion.

    And whether the iteration was stopped before its end.
    """
    truth = Exact(table).marginal(cells).value / table.rows
    estimate = perturb(table, Retention(table.domain, keep), rng).marginal(cells)
    assert isinstance(estimate.evidence, CountEvidence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        likely = estimate.likelihood(tolerance=TOLERANCE, steps=STEPS)
    found = {
        RANDOMIZED: estimate.evidence.counts,
        ITERATIVE: likely.value,
        INVERSION: estimate.value,
    }
    distances = {
        name: float(np.abs(np.asarray(counts) / table.rows - truth).sum())
        for name, counts in found.items()
    }
    return distances | {UNFINISHED: float(not likely.converged)}


def predicate(attribute: Numeric, low: float, high: float) -> Cells:
    """The two cells of low <= value <= high: outside and inside."""
    first, beyond = attribute.first_code(low), attribute.first_code(high + attribute.grid_step)
    starts = np.array(
        sorted({0, first, *({beyond} if beyond < attribute.size else ())}), dtype=np.int64
    )
    return Cells(attribute, ("outside", "inside"), (starts == first).astype(np.intp), starts)


def adult(settings: Settings) -> Table:
    """The four numbers of the training part of Adult."""
    return read(data_directory(settings.data) / "adult.csv.gz", ADULT).slice(0, ADULT_ROWS)


def adult_cells(columns: int) -> list[Cells]:
    """The paper's predicates on the first so many columns."""
    return [
        predicate(_number(ADULT, name), *ends) for name, ends in list(PREDICATES.items())[:columns]
    ]


def zipf(rows: int, columns: int, rng: Keystream) -> Table:
    """Independent Zipfian columns: the value of rank i occurs 5·√(D/i) times, D = rows/10 the
    number of values.
    """
    distinct = rows // 10
    frequencies = LEAST_FREQUENT * (distinct / np.arange(1, distinct + 1)) ** EXPONENT
    edges = np.rint(np.cumsum(frequencies) * rows / frequencies.sum()).astype(np.int64)
    sorted_codes = np.searchsorted(edges, np.arange(rows), side="right").astype(np.uint32)
    domain = Domain(tuple(Numeric(f"c{place}", 1, distinct) for place in range(1, columns + 1)))
    return Table(domain, tuple(sorted_codes[rng.permutation(rows)] for _ in range(columns)))


def zipf_cells(table: Table, columns: int) -> list[Cells]:
    """On each column the commonest values that together are half of the rows."""
    half = int(np.median(np.asarray(table.columns[0])))  # every column holds the same values
    return [
        predicate(_number(table.domain, name), 1, half) for name in table.domain.names[:columns]
    ]


def by_retention(table: Table, settings: Settings, columns: int) -> Reproduction:
    """Figures 4 and 5: errors over retention, as reported and reconstructed."""
    cells = adult_cells(columns)
    projected = table.recode(table.domain.project([part.name for part in cells]))
    rows: list[Row] = []
    every: list[Errors] = []
    for place, keep in enumerate(KEEPS):
        runs = [
            errors(projected, cells, keep, seeded(seed).derive(place)) for seed in settings.runs
        ]
        every += runs
        rows.append(Row((keep,), _cells(runs, (RANDOMIZED, ITERATIVE, INVERSION))))
    notes = (
        NO_NUMBERS,
        "'the iterative procedure gives smaller errors than the inversion procedure, especially "
        "when … p is small'; with no "
        "negative cell in the inversion the two are the same numbers",
        _iteration_note(every),
    )
    title = f"OLAP figure {columns + 2}: {columns} predicates on Adult ({settings.counted})"
    quantities = (RANDOMIZED, ITERATIVE, INVERSION)
    return Curves(
        f"olap-figure-{columns + 2}",
        title,
        ("retention",),
        quantities,
        tuple(rows),
        notes,
        logarithmic=quantities,
    )


def condition_numbers() -> Reproduction:
    """Figure 6: the condition number of the transition matrix, every predicate of mass 1/2."""
    rows = [
        Row((keep, columns), (Cell(None, retention_condition(keep, 0.5) ** columns),))
        for keep in CURVES
        for columns in range(1, ZIPF_COLUMNS + 1)
    ]
    notes = (
        NO_NUMBERS,
        "p^-k where the replacement law gives the predicate 1/2: 'increases exponentially as the "
        "number of columns increases'",
    )
    quantities = ("condition number",)
    title = "OLAP figure 6: condition number of the transition matrix"
    labels = ("retention", "columns")
    return Curves(
        "olap-figure-6",
        title,
        labels,
        quantities,
        tuple(rows),
        notes,
        logarithmic=quantities,
        error=quantities[0],
    )


def by_columns(table: Table, settings: Settings, method: str) -> Reproduction:
    """Figures 7 and 8: errors on Adult over the number of columns, for several retentions."""
    rows: list[Row] = []
    every: list[Errors] = []
    for keep in CURVES:
        for columns in range(1, len(PREDICATES) + 1):
            cells = adult_cells(columns)
            projected = table.recode(table.domain.project([part.name for part in cells]))
            runs = [
                errors(projected, cells, keep, seeded(seed).derive(columns))
                for seed in settings.runs
            ]
            every += runs
            rows.append(Row((keep, columns), _cells(runs, (method,))))
    number = 7 if method == ITERATIVE else 8
    notes = (
        NO_NUMBERS,
        "'both iterative and inversion algorithms show an exponential increase in the error as "
        "the number of columns increases "
        "and as the probability of retention decreases'",
        "'for larger number of columns and lower retention probabilities the iterative algorithm "
        "gives smaller errors': "
        "figures 7 and 8 are made of the same perturbed tables",
        _iteration_note(every),
    )
    title = f"OLAP figure {number}: Adult by the {method} algorithm ({settings.counted})"
    name, labels = f"olap-figure-{number}", ("retention", "columns")
    return Curves(name, title, labels, (method,), tuple(rows), notes, logarithmic=(method,))


def zipf_by_columns(settings: Settings) -> Reproduction:
    """Figure 9: errors on Zipfian data over the number of columns, for several retentions."""
    size, most = (
        (QUICK_ROWS[-1], QUICK_COLUMNS) if settings.quick else (ZIPF_ROWS[-1], ZIPF_COLUMNS)
    )
    tables = [zipf(size, most, seeded(DATA_SEED + seed)) for seed in settings.runs]
    rows: list[Row] = []
    every: list[Errors] = []
    for keep in CURVES:
        for columns in range(1, most + 1):
            runs = [
                _zipf_errors(table, columns, keep, seed)
                for seed, table in zip(settings.runs, tables, strict=True)
            ]
            every += runs
            rows.append(Row((keep, columns), _cells(runs, (ITERATIVE, INVERSION))))
    notes = (
        NO_NUMBERS,
        "'after an initial exponential increase, the reconstruction error flattens out': it "
        "cannot exceed 2, where the "
        "inversion (not in the paper's figure) grows like p^-k",
        ZIPF_NOTE,
        _iteration_note(every),
        *((QUICK_NOTE,) if settings.quick else ()),
    )
    title = f"OLAP figure 9: Zipfian data, {size:,} rows ({settings.counted})"
    quantities, labels = (ITERATIVE, INVERSION), ("retention", "columns")
    return Curves(
        "olap-figure-9",
        title,
        labels,
        quantities,
        tuple(rows),
        notes,
        logarithmic=quantities,
        drawn=(ITERATIVE,),
    )


def zipf_by_rows(settings: Settings) -> Reproduction:
    """Figure 10: errors on Zipfian data over the number of rows, 8 columns."""
    sizes, columns = (QUICK_ROWS, 4) if settings.quick else (ZIPF_ROWS, FIGURE_10_COLUMNS)
    tables = {
        (size, seed): zipf(size, columns, seeded(DATA_SEED + seed))
        for size in sizes
        for seed in settings.runs
    }
    rows: list[Row] = []
    every: list[Errors] = []
    for keep in (*CURVES, 0.9):
        for size in sizes:
            runs = [_zipf_errors(tables[size, seed], columns, keep, seed) for seed in settings.runs]
            every += runs
            rows.append(Row((keep, size), _cells(runs, (ITERATIVE,))))
    notes = (
        NO_NUMBERS,
        "'for large values of n the reconstruction error decreases as n^-0.5'; from "
        f"{sizes[-2]:,} to {sizes[-1]:,} rows here: "
        + ", ".join(f"n^{_slope(rows, keep):.2f} at p = {keep:g}" for keep in (*CURVES, 0.9)),
        ZIPF_NOTE,
        _iteration_note(every),
        *((QUICK_NOTE,) if settings.quick else ()),
    )
    title = f"OLAP figure 10: Zipfian data, {columns} columns, iterative ({settings.counted})"
    labels = ("retention", "rows")
    return Curves(
        "olap-figure-10", title, labels, (ITERATIVE,), tuple(rows), notes, logarithmic=(ITERATIVE,)
    )


def by_width(settings: Settings, *, relative: bool) -> Reproduction:
    """Figures 11 and 12: error of one range count over the width of the range, one Zipfian column
    at p = 0.2.
    """
    rows = []
    for size in QUICK_ROWS if settings.quick else ZIPF_ROWS:
        runs = [range_errors(size, seed) for seed in settings.runs]
        for width in WIDTHS:
            values = tuple(run[width][1 if relative else 0] for run in runs)
            rows.append(Row((size, width), (Cell(None, Runs(values)),)))
    number, quantity = (12, "relative error") if relative else (11, "absolute error")
    notes = (
        NO_NUMBERS,
        f"the mean of |e - a| over {DRAWS} perturbations and ranges of that width a seed, e and a "
        "shares of the rows",
        "'the absolute error does not vary much with the interval width. However the relative "
        "error increases as the interval "
        "width decreases'; both fall by a factor of 10 from 1,000 to 100,000 rows",
        *((QUICK_NOTE,) if settings.quick else ()),
    )
    title = f"OLAP figure {number}: {quantity} of one Zipfian column, p = 0.2 ({settings.counted})"
    name, labels = f"olap-figure-{number}", ("rows", "interval width")
    return Curves(
        name,
        title,
        labels,
        (quantity,),
        tuple(rows),
        notes,
        logarithmic=(quantity,),
        error=quantity,
    )


def range_errors(rows: int, seed: int, keep: float = 0.2) -> dict[float, tuple[float, float]]:
    """By width, the mean absolute and mean relative error of counts of random ranges, each on a
    perturbation of its own.
    """
    table, rng = zipf(rows, 1, seeded(DATA_SEED + seed)), seeded(seed)
    attribute = _number(table.domain, "c1")
    release = [perturb(table, Retention(table.domain, keep), rng) for _ in range(DRAWS)]
    found = {}
    for width in WIDTHS:
        length = max(1, round(width * attribute.size))
        lows = 1 + rng.below(attribute.size - length + 1, DRAWS).astype(np.int64)
        pairs = []
        for source, low in zip(release, lows.tolist(), strict=True):
            cells = [predicate(attribute, low, low + length - 1)]
            truth = float(Exact(table).marginal(cells).value[1])
            pairs.append((abs(float(source.marginal(cells).value[1]) - truth) / rows, truth / rows))
        found[width] = (
            float(np.mean([error for error, _ in pairs])),
            float(np.mean([error / true for error, true in pairs])),
        )
    return found


def safe_retention(table: Table, columns: int) -> Reproduction:
    """Figures 13 and 14: the largest retention without a (s, ρ1, 0.95) breach, for the commonest,
    the median and a rare box.
    """
    printed, found = LARGEST_PRINTED[columns], largest_relative_prior(table, columns)
    shares = {
        f"s = {found:.1f}, the largest here": found,
        f"s = {printed:g}, the largest in the paper": printed,
        "s = 1, the median": 1.0,
        "s = 0.1, rare": 0.1,
    }
    masses = [1 / BOXES] * columns
    rows = []
    for rho1 in PRIORS:
        keeps = (largest_keep_of_columns(share, rho1, RHO2, masses) for share in shares.values())
        rows.append(Row((rho1,), tuple(Cell(None, keep) for keep in keeps)))
    title = (
        f"OLAP figure {columns + 11}: the largest retention without a breach to {RHO2:g}, "
        f"{columns} columns of Adult"
    )
    notes = tuple(_safe_notes(table, columns, found))
    name = f"olap-figure-{columns + 11}"
    return Curves(
        name, title, ("ρ1",), tuple(shares), tuple(rows), notes, error="largest safe retention"
    )


def _safe_notes(table: Table, columns: int, found: float) -> Iterator[str]:
    printed, masses = LARGEST_PRINTED[columns], [1 / BOXES] * columns
    chosen = [
        table.recode(table.domain.project(names))
        for names in combinations(table.domain.names, columns)
    ]
    every = sorted(largest_relative_prior(part, columns) for part in chosen)
    yield (
        f"the largest relative prior of a box is {printed:g} in §7.3, which does not name the "
        f"columns; the first {columns} "
        f"give {found:.1f}, others {every[0]:.1f} to {every[-1]:.1f}, none {printed:g}"
    )
    common, rare = (largest_keep_of_columns(share, 0.5, RHO2, masses) for share in (printed, 0.1))
    yield (
        f"'for rare properties (s <= 0.1) and ρ1 > 0.5 p can be as high as 0.8': {rare:.2f} at "
        "ρ1 = 0.5 by theorem 5"
    )
    yield (
        f"'even for the largest s … as high as p = 0.3': {common:.2f} at ρ1 = 0.5 and the "
        f"printed s = {printed:g}"
    )


def largest_relative_prior(table: Table, columns: int) -> float:
    """The largest p_S/m_S of the boxes that 10 intervals of equal width a column make (OLAP
    definition 5).
    """
    cells = [_equal_parts(_number(table.domain, name)) for name in table.domain.names[:columns]]
    shares = Exact(table).marginal(cells).value / table.rows
    masses = np.ones(())
    for part in cells:
        masses = np.multiply.outer(masses, part.counts() / part.attribute.size)
    return float((shares / masses).max())


def _equal_parts(attribute: Numeric) -> Cells:
    width = (attribute.max - attribute.min) / BOXES
    return attribute.cells_by_cuts([attribute.min + width * place for place in range(1, BOXES)])


def _zipf_errors(table: Table, columns: int, keep: float, seed: int) -> Errors:
    projected = table.recode(table.domain.project(table.domain.names[:columns]))
    return errors(projected, zipf_cells(projected, columns), keep, seeded(seed).derive(columns))


def _cells(runs: Sequence[Errors], names: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(Cell(None, Runs(tuple(run[name] for run in runs))) for name in names)


def _iteration_note(runs: Sequence[Errors]) -> str:
    stopped = sum(run[UNFINISHED] for run in runs)
    return ITERATED + (
        f"; {stopped:.0f} of {len(runs)} iterations were not there after {STEPS:,} steps"
        if stopped
        else ""
    )


def _slope(rows: Sequence[Row], keep: float) -> float:
    """The power of n by which the error changes between the two largest numbers of rows."""
    points = [
        (float(row.labels[1]), row.cells[0].value or math.nan)
        for row in rows
        if row.labels[0] == keep
    ]
    (few, before), (many, after) = list(pairwise(points))[-1]
    return math.log(after / before) / math.log(many / few)


def _number(domain: Domain, name: str) -> Numeric:
    attribute = domain[name]
    assert isinstance(attribute, Numeric)
    return attribute
