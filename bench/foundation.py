"""Perturbing, counting and starting, beside other libraries in one run: `python -m
bench.foundation`.

Everything runs on one core and is timed in CPU seconds, the best of a few repetitions. Peers that
are not installed are left out. A peer that handles one record a call is timed on fewer records and
compared by its records a second.
"""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.data_sets import CENSUS, HEALTH
from sfumato.bits import Bits
from sfumato.counting.in_memory import contingency
from sfumato.domain import Columns, Domain, Items, code_dtype
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.steps.basket_steps import PLANES, SCALE
from sfumato.mechanisms.steps.basket_steps import WIDE_CHUNK as CHUNK
from sfumato.randomness import secure, seeded

GAMMA = 19
PEER_RECORDS = 100_000  # of the peers that take one record a call


@dataclass(frozen=True)
class Line:
    """One comparison: ours and theirs in one unit, their ratio, and what it should be."""

    what: str
    ours: str
    theirs: str
    ratio: float
    target: str
    met: bool | None = None  # None where nothing was asked

    def __str__(self) -> str:
        verdict = "" if self.met is None else "yes" if self.met else "NO"
        return (
            f"{self.what:<62}{self.ours:>16}{self.theirs:>16}{self.ratio:>9.3g}  "
            f"{self.target:<10}{verdict}"
        )


def run() -> None:
    """Print every comparison in one table."""
    one_core()
    print(f"{'':<62}{'ours':>16}{'theirs':>16}{'ratio':>9}  {'target':<10}met")
    for measure in (gamma_diagonal, bit_flips, contingency_tables, streamed_memory, cold_help):
        for line in measure():
            print(line, flush=True)


def one_core() -> None:
    """Keep this process and those it starts on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "ARROW_NUM_THREADS",
    ):
        os.environ[name] = "1"


def cpu_seconds(work: Callable[[], Any], repetitions: int = 5) -> float:
    """The least CPU time of a few repetitions."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def installed(module: str) -> bool:
    """Whether a peer is here; where it is not, that is said."""
    found = importlib.util.find_spec(module) is not None
    if not found:
        print(f"({module} is not installed and left out)")
    return found


def uneven_columns(domain: Domain, rows: int) -> list[NDArray[Any]]:
    """Codes with masses falling by half from the first value of a column to the last."""
    rng = np.random.default_rng(1)
    columns = []
    for size in domain.shape:
        masses = np.linspace(2, 1, size)
        columns.append(rng.choice(size, rows, p=masses / masses.sum()).astype(code_dtype(size)))
    return columns


def gamma_diagonal(rows: int = 2_500_000) -> Iterator[Line]:
    """Records a second of secure gamma-diagonal perturbation beside k-ary randomised response on
    the same joint domain.
    """
    domain = CENSUS.binned()
    columns: Columns = tuple(uneven_columns(domain, rows))
    mechanism = GammaDiagonal(domain, GAMMA)
    ours = rows / cpu_seconds(lambda: mechanism.perturb(columns, secure()))
    joint = np.ravel_multi_index(
        [np.asarray(column)[:PEER_RECORDS] for column in columns], domain.shape
    )
    peers = {"multi_freq_ldpy": multi_freq_ldpy, "pure_ldp": pure_ldp}
    for name, peer in peers.items():
        if installed(name):
            theirs = len(joint) / cpu_seconds(peer(joint, domain.cells), 2)
            what = f"gamma-diagonal, {rows:,} CENSUS-shaped records, {name}"
            yield Line(
                what,
                f"{ours:,.0f}/s",
                f"{theirs:,.0f}/s",
                ours / theirs,
                ">= 10",
                ours >= 10 * theirs,
            )


def multi_freq_ldpy(joint: NDArray[Any], cells: int) -> Callable[[], Any]:
    """Its client is compiled; so is the loop around it, which is the kindest way to call it."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    from numba import njit

    @njit
    def loop(values: Any, size: int, epsilon: float) -> Any:
        reports = np.empty_like(values)
        for row in range(len(values)):
            reports[row] = GRR_Client(values[row], size, epsilon)
        return reports

    loop(joint[:2], cells, math.log(GAMMA))
    return lambda: loop(joint, cells, math.log(GAMMA))


def pure_ldp(joint: NDArray[Any], cells: int) -> Callable[[], Any]:
    from pure_ldp.frequency_oracles.direct_encoding import DEClient

    client = DEClient(math.log(GAMMA), cells, index_mapper=lambda value: value)
    values = joint.tolist()
    return lambda: [client.privatise(value) for value in values]


def bit_flips(rows: int = 1_000_000, items: int = 1_000) -> Iterator[Line]:
    """Secure bit flips beside their own keystream, that is 16 random bits a bit, and beside one
    random bit a bit.
    """
    baskets = Bits(np.zeros((items, rows // 64), dtype=np.uint64), rows)
    seeded(1).fill(baskets.words)
    universe = Domain((Items("items", tuple(map(str, range(items)))),))
    rng, buffer = secure(), np.empty((PLANES, CHUNK), dtype=np.uint64)

    def keystream(octets: int) -> Callable[[], None]:
        def draw() -> None:
            for _ in range(octets // buffer.nbytes):
                rng.fill(buffer)

        return draw

    plain = cpu_seconds(keystream(baskets.words.nbytes))
    for what, keep_ones, keep_zeros in (("one keep", 0.9, 0.9), ("two keeps", 0.9, 0.95)):
        mask = BitFlip(universe, keep_ones, keep_zeros)
        planes = max(
            PLANES - _trailing_zeros(SCALE - int(threshold)) for threshold in mask.thresholds[0]
        )
        ours = cpu_seconds(lambda mask=mask: mask.perturb((baskets,), secure()), 3)
        theirs = cpu_seconds(keystream(planes * baskets.words.nbytes), 3)
        name = f"bit flips, 1M x 1,000, {what}, against their keystream"
        yield Line(
            name, f"{ours:.3f} s", f"{theirs:.3f} s", ours / theirs, "<= 4", ours <= 4 * theirs
        )
        yield Line(
            f"  {what}, against 1 random bit a bit",
            f"{ours:.3f} s",
            f"{plain:.3f} s",
            ours / plain,
            "",
        )


def _trailing_zeros(threshold: int) -> int:
    return (threshold & -threshold).bit_length() - 1


def all_marginals(table: NDArray[np.int64]) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """Every marginal of a table by its axes: each summed from the smallest marginal already known
    that contains it.

    >>> margins = all_marginals(np.array([[1, 2], [3, 4]]))
    >>> {axes: margin.tolist() for axes, margin in margins.items()}
    {(0, 1): [[1, 2], [3, 4]], (0,): [3, 7], (1,): [4, 6]}
    """
    full = tuple(range(table.ndim))
    margins = {full: table}
    subsets = chain.from_iterable(combinations(full, size) for size in range(table.ndim - 1, 0, -1))
    for axes in subsets:
        parents = (tuple(sorted((*axes, extra))) for extra in full if extra not in axes)
        parent = min(parents, key=lambda axes: margins[axes].size)
        dropped = next(place for place, axis in enumerate(parent) if axis not in axes)
        margins[axes] = margins[parent].sum(axis=dropped)
    return margins


def contingency_tables(rows: int = 5_000_000) -> Iterator[Line]:
    """The full contingency table of seven columns and all its marginals beside DuckDB's GROUP BY
    for the table alone.
    """
    domain = HEALTH.binned()
    columns = uneven_columns(domain, rows)
    ours = cpu_seconds(lambda: all_marginals(contingency(columns, domain.shape)))
    if not installed("duckdb"):
        return
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect(config={"threads": 1})
    arrow = pa.table(dict(zip(domain.names, map(pa.array, columns), strict=True)))
    connection.register("arrow", arrow)
    connection.execute("CREATE TABLE records AS SELECT * FROM arrow")
    query = f"SELECT {', '.join(domain.names)}, count(*) FROM records GROUP BY ALL"
    theirs = cpu_seconds(lambda: connection.execute(query).fetchnumpy(), 3)
    name = f"contingency table 5M x 7 and {2 ** len(domain) - 1} marginals, DuckDB GROUP BY"
    yield Line(name, f"{ours:.3f} s", f"{theirs:.3f} s", ours / theirs, "< 1", ours < theirs)


def streamed_memory(rows: int = 500_000, times: int = 8) -> Iterator[Line]:
    """Peak memory of a streamed perturbation of a file, and of one several times as long."""
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("parquet", "csv"):
            peaks = []
            for length in (rows, rows * times):
                source = Path(folder, f"{length}.{ending}")
                write_census(source, length)
                peaks.append(peak_megabytes(source, Path(folder, f"reports-{length}.{ending}")))
            ratio = peaks[1] / peaks[0]
            name = f"peak memory of a streamed perturb, {ending}, {times} times the rows"
            yield Line(
                name, f"{peaks[1]:.0f} MB", f"{peaks[0]:.0f} MB", ratio, "<= 1.1", ratio <= 1.1
            )


def write_census(path: Path, rows: int) -> None:
    """A file of CENSUS-shaped records, written in pieces."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    domain = CENSUS.binned()
    codes = uneven_columns(domain, 250_000)
    arrays = [
        attribute.decode(code).cast(pa.string())
        for attribute, code in zip(domain, codes, strict=True)
    ]
    piece = pa.table(dict(zip(domain.names, arrays, strict=True)))
    kind = pa.parquet.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
    with kind(path, piece.schema) as writer:
        for _ in range(rows // len(codes[0])):
            writer.write_table(piece)


# The high-water mark of the process itself: ru_maxrss begins at the memory of the process that
# started it.
PERTURB = """
import re, sys
from papers.data_sets import CENSUS
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.table.perturbing import perturb_file
perturb_file(sys.argv[1], sys.argv[2], GammaDiagonal(CENSUS.binned(), 19), force=True)
print(int(re.search("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


def peak_megabytes(source: Path, target: Path, repetitions: int = 3) -> float:
    """Peak memory of a process that perturbs one file into another: the least of a few, as Arrow
    reads ahead by chance.
    """
    command = [sys.executable, "-c", PERTURB, str(source), str(target)]
    runs = (
        subprocess.run(command, check=True, capture_output=True, text=True)
        for _ in range(repetitions)
    )
    return min(float(run.stdout) for run in runs)


TYPER_ALONE = """
import typer
app = typer.Typer()
@app.command()
def hello(name: str = "you") -> None:
    "Say hello."
app()
"""


def cold_help() -> Iterator[Line]:
    """A cold `sfumato --help` beside that of a program that imports Typer alone."""
    if not installed("sfumato.cli"):
        return
    theirs = child_seconds([sys.executable, "-c", TYPER_ALONE, "--help"])
    for arguments in (["--help"], ["describe", "--help"]):
        ours = child_seconds(
            [sys.executable, "-c", "from sfumato.cli import main; main()", *arguments]
        )
        name = f"cold `sfumato {' '.join(arguments)}`, Typer alone"
        yield Line(
            name, f"{ours:.3f} s", f"{theirs:.3f} s", ours / theirs, "<= 3", ours <= 3 * theirs
        )


def child_seconds(command: list[str], repetitions: int = 7) -> float:
    """The least CPU time of a process of its own."""
    times = []
    for _ in range(repetitions):
        with children_time() as spent:
            subprocess.run(command, check=True, capture_output=True)
        times.append(spent[0])
    return min(times)


@contextmanager
def children_time() -> Iterator[list[float]]:
    """CPU seconds of the child processes that end inside, in a list of one."""
    spent = [0.0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield spent
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent[0] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    run()
