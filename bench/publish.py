"""Swapping and hiding, ours beside the published methods in one run: `python -m bench.publish
[--data DIR] [--quick]`.

Times are CPU seconds on one core. "Greedy as printed" writes out and sorts every admissible swap,
as table 2 of Li and Sarkar does; "greedy, heap" makes the same swaps from sorted classes and is
what `sfumato swap --method greedy` runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.foundation import one_core
from papers.data_sets import data_directory
from papers.li_sarkar import CENSUS_BINS, census_records, classified
from sfumato.bits import Bits
from sfumato.publish.exchange import Exchange, solve
from sfumato.publish.greedy import _admissible, _classes, phase_one, phase_two
from sfumato.publish.hide import HideReport, frequent_counts, hide
from sfumato.publish.owned import Keyed, records_of
from sfumato.publish.restriction import Limits, Restriction
from sfumato.publish.suppress import suppress
from sfumato.publish.swap import swap
from sfumato.publish.units import Units
from sfumato.randomness import seeded
from sfumato.table import read

RETAIL_COUNT = 265  # 0.3 % of 88,162 baskets
PATTERNS = 10
CATEGORIES = 5


def largest_disclosure(bits: Bits, restrictions: Sequence[Restriction], limits: Limits) -> float:
    """The largest ψ at which every restriction is surely hidden: min over them of what may stay /
    what there is.
    """
    shares = [r.most_left(bits, limits) / max(1, len(r.holders(bits))) for r in restrictions]
    return min(1.0, *shares) if shares else 1.0


def main() -> None:
    """Print every comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench.publish")
    parser.add_argument("--data", type=Path, help="the folder of the public data sets")
    parser.add_argument("--quick", action="store_true", help="fewer folds, sizes and pattern sets")
    parser.add_argument("--scale", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    one_core()
    if options.scale:
        print(_scale_line(options.scale))
        return
    data = data_directory(options.data)
    census(data, folds=3 if options.quick else 10)
    scaling((10_000, 100_000) if options.quick else (10_000, 100_000, 1_000_000))
    hiding(data, range(1 if options.quick else 3))
    blanking(data, quick=options.quick)


def census(data: Path, folds: int) -> None:
    """Time, objective and classification error on the 25,049-record Census of the
    paper, p = 0.5.
    """
    raw = census_records(data, seeded(1))
    people = records_of(raw)
    units = Units.of(Keyed.of(people, "income", bins=CENSUS_BINS), ["income"], seeded(2))
    problem = units.exchange(units.changes(0.5)[0])
    solve(problem)  # loads the solver
    greedy = phase_two(problem, phase_one(problem, seeded(3)))
    drift = int(np.abs(np.bincount(greedy, minlength=problem.values) - problem.totals()).sum())
    start = phase_one(problem, seeded(3))
    print(
        f"Census, {people.rows:,} records, {units.unique:,} unique, {units.groups:,} groups, p "
        "= 0.5"
    )
    print(f"{'':<34}{'CPU s':>9}{'objective':>12}{'drift':>7}")
    _show("optimal, least drift", lambda: solve(problem).assigned, problem)
    _show(f"optimal, drift up to {drift}", lambda: solve(problem, drift=drift).assigned, problem)
    _show("greedy, heap", lambda: phase_two(problem, phase_one(problem, seeded(3))), problem)
    _show("greedy as printed", lambda: greedy_as_printed(problem, start), problem, times=1)
    print(
        f"\n{'error of a tree, ' + str(folds) + ' folds':<34}{'within':>9}{'on truth':>12}   "
        "(paper: 19.01, 30.44, 50.10)"
    )
    for name, how in (
        ("optimal", {"max_posterior": 1.0}),
        (f"optimal, drift up to {drift}", {"max_posterior": 1.0, "drift": drift // 2}),
        ("optimal, no guess above 0.9", {}),
        ("greedy", {"method": "greedy", "max_posterior": 1.0}),
        ("random", {"method": "random", "max_posterior": 1.0}),
    ):
        settings = {"drift": None, "confidential": "income", "bins": CENSUS_BINS, **how}
        release = swap(people, 0.5, rng=seeded(4), **settings)  # type: ignore[arg-type]
        found = classified(raw, release, folds)
        if name == "optimal":
            print(f"{'original':<34}{found.trained_on_truth:>9.2%}{found.trained_on_truth:>12.2%}")
        print(
            f"{name:<34}{found.within_release:>9.2%}{found.trained_on_release:>12.2%}", flush=True
        )


def greedy_as_printed(exchange: Exchange, assigned: NDArray[np.intp]) -> NDArray[np.intp]:
    """Steps 3 and 4 of the paper's table 2 with the list of all admissible swaps of negative cost
    written out and sorted.
    """
    assigned = assigned.copy()
    while True:
        costs, firsts, seconds = (
            [np.zeros(0)],
            [np.zeros(0, dtype=np.intp)],
            [np.zeros(0, dtype=np.intp)],
        )
        classes = _classes(exchange, assigned)
        for place, first in enumerate(classes):
            for second in classes[place + 1 :]:
                if _admissible(first, second):
                    gain = (
                        exchange.posterior[first.units, first.current]
                        - exchange.posterior[first.units, second.current]
                    )
                    other = (
                        exchange.posterior[second.units, second.current]
                        - exchange.posterior[second.units, first.current]
                    )
                    cost = gain[:, None] + other[None, :]
                    i, j = np.nonzero(cost < -1e-12)
                    costs.append(cost[i, j])
                    firsts.append(first.units[i])
                    seconds.append(second.units[j])
        order = np.argsort(np.concatenate(costs), kind="stable")
        if not len(order):
            return assigned
        used = bytearray(exchange.units)
        pairs = zip(
            np.concatenate(firsts)[order].tolist(),
            np.concatenate(seconds)[order].tolist(),
            strict=True,
        )
        for i, j in pairs:
            if not (used[i] or used[j]):
                used[i] = used[j] = 1
                assigned[i], assigned[j] = assigned[j], assigned[i]


def _show(
    name: str, work: Callable[[], NDArray[np.intp]], exchange: Exchange, times: int = 5
) -> None:
    seconds, assigned = _timed(work, times)
    drift = int(np.abs(np.bincount(assigned, minlength=exchange.values) - exchange.totals()).sum())
    print(f"{name:<34}{seconds:>9.3f}{exchange.cost(assigned):>12.4f}{drift:>7}", flush=True)


def _timed(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The least CPU time of a few runs, and what the last gave."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def scaling(sizes: Sequence[int]) -> None:
    """Time and memory of the optimum with five confidential values, each size in a process of its
    own.
    """
    print(
        f"\n{'optimal swap, 5 values':<24}{'CPU s':>9}{'data MB':>9}{'peak / data':>12}"
        f"{'gap':>10}  proved"
    )
    for size in sizes:
        command = [sys.executable, "-m", "bench.publish", "--scale", str(size)]
        print(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout,
            end="",
            flush=True,
        )


def people(rows: int) -> pa.Table:
    """Synthetic people: seven keys and a condition of five values that leans on them."""
    rng = np.random.default_rng(1)
    sizes = (80, 50, 12, 9, 7, 5, 2)
    keys = [rng.integers(size, size=rows) for size in sizes]
    lean = sum(key / size for key, size in zip(keys, sizes, strict=True)) / len(sizes)
    secret = np.clip(
        (lean * CATEGORIES * 1.6 - 1.5 + rng.normal(size=rows)).astype(int), 0, CATEGORIES - 1
    )
    return pa.table({**{f"key{place}": key for place, key in enumerate(keys)}, "secret": secret})


def _scale_line(rows: int) -> str:
    how: dict[str, Any] = {"confidential": "secret", "drift": None}
    swap(people(500), 0.5, rng=seeded(1), **how)  # loads the solver
    table = people(rows)
    before = _peak()
    started = time.process_time()
    release = swap(table, 0.5, rng=seeded(1), **how)
    whole = time.process_time() - started
    peak = _peak() - before
    report = release.reports[0]
    megabytes = table.nbytes / 1e6
    share = (peak + table.nbytes) / table.nbytes
    figures = f"{whole:>9.2f}{megabytes:>9.1f}{share:>12.1f}{report.gap:>10.1e}"
    return f"{rows:>14,} records  {figures}  {'yes' if report.optimal else 'NO'}"


def _peak() -> int:
    """The most memory this process held, in bytes; what a parent held before it was started does
    not count.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def hiding(data: Path, seeds: Sequence[int]) -> None:
    """Ten patterns of retail, drawn at random from the frequent itemsets of two items or more."""
    table = read(data / "retail.dat.gz")
    bits, names = table.columns[0], table.domain.attributes[0].labels
    assert isinstance(bits, Bits)
    itemsets = _frequent_itemsets(bits, names)
    print(
        f"\nhiding {PATTERNS} patterns of retail at {RETAIL_COUNT} baskets, mean over "
        f"{len(seeds)} draws of patterns"
    )
    print(f"{'method':<10}{'ψ':>10}{'failure':>9}{'misses':>9}{'removed':>9}{'CPU s':>9}")
    rows: dict[tuple[str, str], list[tuple[HideReport, float]]] = {}
    for seed in seeds:
        chosen = np.random.default_rng(seed).choice(len(itemsets), PATTERNS, replace=False)
        restrictions = [Restriction(itemsets[place]) for place in chosen]
        largest = largest_disclosure(bits, restrictions, Limits(RETAIL_COUNT))
        ways = [("naive", 0.0), ("minfia", 0.0), ("maxfia", 0.0), ("iga", 0.0)]
        ways += [("minfia", largest), ("maxfia", largest), ("iga", largest)]
        for method, disclosure in [*ways, ("cover", None)]:
            started = time.process_time()
            report = hide(
                table,
                restrictions,
                min_count=RETAIL_COUNT,
                method=method,
                disclosure=disclosure,
                rng=seeded(1),
            ).report
            label = "–" if disclosure is None else "0" if disclosure == 0 else "largest"
            rows.setdefault((method, label), []).append((report, time.process_time() - started))
    for (method, label), found in rows.items():
        mean = np.mean(
            [(r.hiding_failure, r.misses_cost, r.removed, seconds) for r, seconds in found], axis=0
        )
        print(
            f"{method:<10}{label:>10}{mean[0]:>9.2f}{mean[1]:>9.4f}{mean[2]:>9.0f}{mean[3]:>9.2f}",
            flush=True,
        )


def blanking(data: Path, *, quick: bool) -> None:
    """Cells of Adult blanked for k = 3, beside the number below which no answer can go."""
    from pyarrow import csv

    table = csv.read_csv(data / "adult.csv.gz")
    few = ["workclass", "education", "marital_status", "sex"]
    print(f"\n{'keys of Adult, k = 3':<24}{'CPU s':>9}{'cells':>9}{'bound':>9}{'records':>9}")
    for keys in (few, [*few, "occupation", "relationship", "race", "native_country"])[: 2 - quick]:
        started = time.process_time()
        report = suppress(table, 3, keys=keys, seconds=10, rng=seeded(1)).report
        taken = time.process_time() - started
        figures = f"{report.cells:>9,}{report.bound:>9,}{report.blanked_records:>9,}"
        print(f"{len(keys):<24}{taken:>9.2f}{figures}", flush=True)


def _frequent_itemsets(bits: Bits, names: Sequence[str]) -> list[tuple[int, ...]]:
    return [items for items in frequent_counts(bits, names, RETAIL_COUNT) if len(items) > 1]


if __name__ == "__main__":
    main()
