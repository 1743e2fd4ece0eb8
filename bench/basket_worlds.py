"""What of the basket model earns its place? Generated worlds and ablations.

`python -m bench.basket_worlds [--seeds N] [--first SEED] [--afresh] [--keep DIR] [--write FILE]
[ABLATION…]`.

Worlds are drawn by a written-down generator, never from the files that judge (`bench.baskets`):
sizes are Poisson, log-normal, Pareto (1.2, 1.6, 2), of two kinds, nine tenths empty, or dense
records; supports fall as Zipf's law; itemsets are planted. Each ablation sets numbers of the model
to what "nothing known" would be, or replaces a function, and estimates from the same reports
(paired); `--afresh` asks the later rounds anew too. Squared errors are of the itemsets rightly
found, as the geometric mean of ratios to the model as it is; ± is the standard error over worlds.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import error_of, write_section
from bench.baskets import HEADING, asked_in_rounds, true_top
from bench.svsm import Baskets, Itemset
from sfumato.engines import several as series_module
from sfumato.engines.several import RoundSeries
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.randomness import seeded

PEOPLE, UNIVERSE, TOP = 40_000, 300, 32
Rng = np.random.Generator


def drawn(rng: Rng, sizes: np.ndarray, universe: int, planted: float = 0.3) -> Baskets:
    """Baskets of these sizes: items without replacement, the n-th as 1/n^.8 (Gumbel's trick), a
    share of them around one of twelve planted itemsets, the k-th as 1/k.
    """
    weights = 1 / np.arange(1, universe + 1) ** 0.8
    patterns = [rng.choice(60, rng.integers(2, 5), replace=False) for _ in range(12)]
    likely = 1 / np.arange(1, 13)
    rows = []
    for sizes_part in np.array_split(sizes, max(1, len(sizes) * universe // 4_000_000)):
        keys = rng.exponential(size=(len(sizes_part), universe)) / weights
        around = rng.choice(12, len(sizes_part), p=likely / likely.sum())
        around[rng.random(len(sizes_part)) >= planted] = -1
        for number, pattern in enumerate(patterns):
            keys[np.ix_(around == number, pattern)] = 0
        order = np.argsort(keys, axis=1)
        rows += [np.sort(o[:s]) for o, s in zip(order, sizes_part, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Baskets(offsets, np.concatenate(rows).astype(np.int32), universe)


def drawn_wide(rng: Rng, sizes: np.ndarray, universe: int) -> Baskets:
    """The same of a wide universe, items drawn with replacement and nothing planted."""
    weights = 1 / np.arange(1, universe + 1) ** 0.8
    row = np.repeat(np.arange(len(sizes)), sizes)
    items = rng.choice(universe, len(row), p=weights / weights.sum())
    each = np.unique(row * universe + items)
    offsets = np.searchsorted(each, np.arange(len(sizes) + 1) * universe)
    return Baskets(offsets, (each % universe).astype(np.int32), universe)


def dense(rng: Rng, people: int) -> Baskets:
    """Records of twenty columns of two to six values each, of three kinds of people."""
    kind, rows, start = rng.choice(3, people, p=[0.5, 0.3, 0.2]), [], 0
    for _ in range(20):
        values = int(rng.integers(2, 7))
        chances = rng.dirichlet(np.full(values, 0.5), 3)
        upto = np.cumsum(chances, axis=1)[kind]
        rows.append(start + np.minimum((rng.random((people, 1)) > upto).sum(axis=1), values - 1))
        start += values
    items = np.column_stack(rows).astype(np.int32)
    return Baskets(np.arange(people + 1) * 20, items.ravel(), start)


def _pareto(shape: float) -> Callable[[Rng, int], np.ndarray]:
    return lambda rng, people: np.ceil(rng.pareto(shape, people) + 1)


SIZES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "poisson": lambda rng, people: rng.poisson(6, people),
    "log-normal": lambda rng, people: np.ceil(np.exp(rng.normal(1.2, 1, people))),
    "pareto 1.2": _pareto(1.2),
    "pareto 1.6": _pareto(1.6),
    "pareto 2": _pareto(2.0),
    "two kinds": lambda rng, people: np.where(rng.random(people) < 0.1, 60, 2),
    "empty": lambda rng, people: (rng.random(people) < 0.1) * (1 + rng.poisson(8, people)),
}
KINDS = (*SIZES, "dense", "wide", "widest")
GAMMAS = (19.0, 100.0, 4.0)  # one seed after the other


@dataclass(frozen=True)
class World:
    """People of one kind, asked under one γ."""

    kind: str
    seed: int

    @property
    def gamma(self) -> float:
        if self.kind == "widest":
            return (math.e, math.e**2)[self.seed % 2]  # where noise hides the tiers
        return GAMMAS[self.seed % len(GAMMAS)]

    @property
    def people(self) -> Baskets:
        rng = np.random.default_rng([self.seed, KINDS.index(self.kind)])
        if self.kind == "dense":
            return dense(rng, PEOPLE)
        if self.kind == "widest":
            sizes = SIZES["log-normal"](rng, 5 * PEOPLE) * 2
            return drawn_wide(rng, np.minimum(sizes, 500).astype(np.int64), 10_000)
        universe = 3000 if self.kind == "wide" else UNIVERSE  # the second is asked by hash
        people = PEOPLE // 2 if self.kind == "wide" else PEOPLE
        law = SIZES["log-normal" if self.kind == "wide" else self.kind]
        return drawn(rng, np.minimum(law(rng, people), universe).astype(np.int64), universe)


@dataclass(frozen=True)
class Score:
    """How well the itemsets of largest support were found."""

    f1: float
    square: float  # of those rightly found
    held: float  # of the intervals of all found
    off: float  # errors, on the mean
    seconds: float


def judged(series: RoundSeries, people: Baskets, truth: Mapping[Itemset, float]) -> Score:
    """What these rounds find, beside the truth."""
    start = time.process_time()
    supports = AskedSupports(tuple(map(str, range(people.universe))), people.rows, series.pooled)
    mined = frequent_itemsets(supports, top=TOP)
    seconds = time.process_time() - start
    found = {tuple(sorted(map(int, each.items))): each for each in mined}
    true = dict(zip(found, people.held(list(found)).mean(axis=1), strict=True))
    off = np.array([(each.support - true[x]) / each.stderr for x, each in found.items()])
    right = [(found[x].support - true[x]) ** 2 for x in found if x in truth]
    f1 = 2 * len(right) / (len(found) + len(truth))
    square = float(np.mean(right)) if right else math.nan
    return Score(f1, square, float((abs(off) < 1.96).mean()), float(off.mean()), seconds)


def prepared(world: World, keep: Path) -> tuple[Baskets, dict[Itemset, float], RoundSeries]:
    """The people of a world, what is true of them, and what they said; kept from run to run."""
    path = keep / f"{world.kind}-{world.seed}"
    if path.exists():
        people, truth, series = pickle.loads(path.read_bytes())
        return people, truth, RoundSeries(series)
    people = world.people
    truth = true_top(people, np.ones(people.rows), TOP)
    series = asked_in_rounds(people, math.log(world.gamma), seeded(world.seed), TOP)
    keep.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((people, truth, series.sources)))
    return people, truth, series


@contextmanager
def ablated(changes: Mapping[str, Any]) -> Iterator[None]:
    """The model with some of its names, as `module:NAME`, set to something else."""
    before = []
    for name, value in changes.items():
        module, attribute = name.split(":")
        owner: Any = importlib.import_module(f"sfumato.{module}")
        *path, last = attribute.split(".")
        for part in path:
            owner = getattr(owner, part)
        before.append((owner, last, owner.__dict__[last]))
        setattr(owner, last, value)
    try:
        yield
    finally:
        for owner, last, value in reversed(before):
            setattr(owner, last, value)


def scores(
    worlds: Sequence[World], keep: Path, changes: Mapping[str, Any], *, afresh: bool = False
) -> list[Score]:
    """Every world as the changed model sees it: from the reports kept, or with all asked anew."""
    found = []
    for world in worlds:
        people, truth, series = prepared(world, keep)
        with ablated(changes):
            series_module._tally_of.cache_clear()
            if afresh:
                series = asked_in_rounds(people, math.log(world.gamma), seeded(world.seed), TOP)
            found.append(judged(RoundSeries(series.sources), people, truth))
    return found


def compared(name: str, usual: Sequence[Score], other: Sequence[Score]) -> str:
    """One row of the table: what the model loses without something."""
    pairs = list(zip(usual, other, strict=True))
    f1 = np.array([b.f1 - a.f1 for a, b in pairs])
    logs = np.array([math.log(b.square / a.square) for a, b in pairs if a.square and b.square])
    logs = logs[np.isfinite(logs)]
    held = np.array([b.held for _, b in pairs])
    more = np.array([b.held - a.held for a, b in pairs])
    return (
        f"{name:34} F1 {f1.mean():+.3f} ± {error_of(f1):.3f}, squared × "
        f"{math.exp(logs.mean()):.3f} ± {error_of(logs):.3f}, held {100 * held.mean():.1f} % "
        f"({100 * more.mean():+.1f} ± {100 * error_of(more):.1f}), least of kinds "
        f"{100 * _least(held):.1f} %, {np.mean([b.seconds for _, b in pairs]):.2f} s"
    )


def _least(held: np.ndarray) -> float:
    """The least share that holds, of any kind: worlds stand kind by kind."""
    return float(held.reshape(len(KINDS), -1).mean(axis=1).min())


MODEL = "estimation.baskets."
ABLATIONS: dict[str, dict[str, Any]] = {
    "tiers: as told, off any curve": {"mechanisms.sizes:OFF_CURVE": 100.0},
    "tiers: OFF_CURVE 0.35": {"mechanisms.sizes:OFF_CURVE": 0.35},
    "tiers: OFF_CURVE 1.4": {"mechanisms.sizes:OFF_CURVE": 1.4},
    "caps: HETEROGENEITY 0": {f"{MODEL}caps:HETEROGENEITY": 0.0},
    "caps: HETEROGENEITY 0.6": {f"{MODEL}caps:HETEROGENEITY": 0.6},
    "caps: LEAST_DRAWN 10": {f"{MODEL}caps:LEAST_DRAWN": 10},
    "caps: DRAWN 2000": {f"{MODEL}caps:DRAWN": 2000},
    "classes: not fitted, sizes alone": {f"{MODEL}pooled:TURNS": 0},
    "classes: one turn": {f"{MODEL}pooled:TURNS": 1},
    "classes: five, equally common": {f"{MODEL}classes:SHARES": np.full(5, 0.2)},
    "classes: two": {f"{MODEL}classes:SHARES": np.array([0.7, 0.3])},
    "classes: LOG_SD 0.6": {f"{MODEL}classes:LOG_SD": 0.6},
    "classes: LOG_SD 1.2": {f"{MODEL}classes:LOG_SD": 1.2},
    "classes: LOOSE 0.75": {f"{MODEL}classes:LOOSE": 0.75},
    "classes: LOOSE 3": {f"{MODEL}classes:LOOSE": 3.0},
    "classes: MODELLED 60": {f"{MODEL}pooled:MODELLED": 60},
    "priors: lifts not learnt": {
        f"{MODEL}priors:LiftPrior.of_itemsets": classmethod(lambda cls, *_: cls.supposed())
    },
    "priors: EVEN 1": {f"{MODEL}priors:EVEN": 1.0},
    "priors: EVEN 100": {f"{MODEL}priors:EVEN": 100.0},
    "priors: items even, not learnt": {f"{MODEL}priors:EVEN": 1e9},
    "priors: SMOOTH 0.1": {f"{MODEL}priors:SMOOTH": 0.1},
    "priors: SMOOTH 0.4": {f"{MODEL}priors:SMOOTH": 0.4},
    "priors: noise normal, not Poisson": {
        f"{MODEL}priors:NoisyObservation.log_chances": lambda own, supports: (
            -((own.found[:, None] - supports) ** 2) / (2 * own.variance[:, None])
        )
    },
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="ABLATION", help="parts of their names")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--afresh", action="store_true", help="ask all rounds anew")
    parser.add_argument("--keep", type=Path, default=Path("basket_worlds"), metavar="DIR")
    parser.add_argument("--write", type=Path, default=None, metavar="FILE")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds)
    worlds = [World(kind, seed) for kind in KINDS for seed in seeds]
    usual = scores(worlds, asked.keep, {}, afresh=asked.afresh)
    lines = [compared("as it is", usual, usual)]
    print(lines[0], flush=True)
    for name, changes in ABLATIONS.items():
        if not asked.names or any(part in name for part in asked.names):
            other = scores(worlds, asked.keep, changes, afresh=asked.afresh)
            lines.append(compared(name, usual, other))
            print(lines[-1], flush=True)
    if asked.write is not None:
        title = f"ablations: {len(worlds)} generated worlds, seeds {seeds[0]} to {seeds[-1]}"
        write_section(asked.write, HEADING, title, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
