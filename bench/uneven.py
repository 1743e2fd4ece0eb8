"""Baskets of uneven sizes and few people: do the intervals of rounds hold?

python -m bench.uneven [NAME …] [--seeds N] [--write docs/figures/baskets.md]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import percent, write_section
from bench.baskets import HEADING, TOP, Baskets, asked_in_rounds, load
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.randomness import seeded

LONGEST = 3  # items, where everything that large baskets hold goes together
DRAW = Callable[[np.random.Generator, int], Baskets]


def of_sizes(rng: np.random.Generator, sizes: np.ndarray, universe: int) -> Baskets:
    """Baskets of these sizes, whose items are drawn without replacement, the n-th as 1/n^.8."""
    weights = 1 / np.arange(1, universe + 1) ** 0.8
    rows = [
        np.sort(np.argsort(rng.exponential(size=universe) / weights)[: min(size, universe)])
        for size in sizes
    ]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Baskets(offsets, np.concatenate(rows).astype(np.int32), universe)


def pareto(rng: np.random.Generator, people: int) -> Baskets:
    """Sizes of Pareto's law with the exponent 1.6: the variance has no bound."""
    return of_sizes(rng, np.ceil(rng.pareto(1.6, people) + 1).astype(np.int64), 1000)


def two_kinds(rng: np.random.Generator, people: int) -> Baskets:
    """A tenth of the people hold 300 items, the others two."""
    return of_sizes(rng, np.where(rng.random(people) < 0.1, 300, 2), 500)


def of_file(name: str) -> DRAW:
    """People drawn from a file, with replacement."""

    def drawn(rng: np.random.Generator, people: int) -> Baskets:
        every = load(name, None)
        return every.take(rng.integers(0, every.rows, people))

    return drawn


@dataclass(frozen=True)
class Case:
    """So many people of some kind, under a guarantee."""

    name: str
    draw: DRAW
    people: int
    gamma: float

    @property
    def title(self) -> str:
        return f"{self.name}, {self.people:,} people, γ = {self.gamma:g}"


CASES = (
    Case("bms-webview-2", of_file("bms-webview-2"), 60_000, 19),
    Case("bms-webview-2", of_file("bms-webview-2"), 60_000, 55),
    Case("kosarak", of_file("kosarak-25k"), 60_000, 19),
    Case("retail", of_file("retail"), 60_000, 19),
    Case("pareto", pareto, 10_000, 19),
    Case("pareto", pareto, 10_000, 300),
    Case("two-kinds", two_kinds, 10_000, 19),
    Case("two-kinds", two_kinds, 10_000, 2980),
)


def off_by(case: Case, seed: int) -> np.ndarray:
    """How many errors each itemset found is off."""
    data = case.draw(np.random.default_rng([seed, case.people]), case.people)
    rounds = asked_in_rounds(data, math.log(case.gamma), seeded(seed)).pooled
    supports = AskedSupports(tuple(map(str, range(data.universe))), data.rows, rounds)
    mined = frequent_itemsets(supports, top=TOP, max_length=LONGEST)
    found = [tuple(sorted(map(int, each.items))) for each in mined]
    if not found:
        return np.zeros(0)
    held = data.held(found).mean(axis=1)
    return np.array([(e.support - true) / e.stderr for e, true in zip(mined, held, strict=True)])


def told(case: Case, seeds: range) -> list[str]:
    """What came out of a case, as a line."""
    each = [off_by(case, seed) for seed in seeds]
    some = [off for off in each if len(off)]
    if not some:
        return [f"{case.title}: nothing was found in {len(seeds)} perturbations"]
    shares = np.array([(np.abs(off) < 1.96).mean() for off in some])
    every = np.concatenate(some)
    return [
        f"{case.title}, seeds {seeds[0]} to {seeds[-1]}: covered {percent(shares)}, off by "
        f"{every.mean():+.2f} errors on the mean, at most by {np.abs(every).max():.1f} of "
        f"{len(every)}"
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=300, metavar="SEED")
    parser.add_argument("--write", type=Path, default=None, metavar="FILE")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds)
    for case in CASES:
        if asked.names and case.name not in asked.names:
            continue
        lines = told(case, seeds)
        print("\n".join(lines), flush=True)
        if asked.write is not None:
            write_section(asked.write, HEADING, f"uneven: {case.title}", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
