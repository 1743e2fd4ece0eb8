"""Itemsets under one guarantee for the whole basket, against SVSM: `python -m bench.baskets
[--data DIR] [--seeds N] [--first SEED] [--people N] [--epsilon E…] [--coverage | --peer]
[--keep DIR] [--write FILE] [NAME…]`.

Each seed is a bootstrapped sample of people; its truth is the 64 itemsets of largest support in
that very sample, all lengths, by brute force. Ours is the real thing: people dealt to rounds, the
client's integers, releases mined together. The peer is `bench.svsm`, as released and with its
missing factor restored, the better of both counting. `--coverage` leaves the peer out and counts
the intervals that hold the truth, over many perturbations; what people said is kept in a directory
where one is given, so that errors worked out anew need nobody to be asked again. `--peer` runs the
peer alone and says how far it is from the design's study. `oracle` compares the variance of real
reports with the two formulas; `speed` draws reports from secure randomness.
"""

from __future__ import annotations

import argparse
import gzip
import math
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench import error_of, percent, write_section
from bench.svsm import Baskets, Itemset, Svsm
from papers.data_sets import data_directory
from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.engines.several import RoundSeries
from sfumato.estimation.baskets.caps import RoundTally
from sfumato.estimation.baskets.pooled import PooledRounds
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.mechanisms.in_rounds import ROUNDS
from sfumato.mechanisms.item_set import ItemSet, collision_variance
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, secure, seeded
from sfumato.release import Release
from sfumato.table import Provenance, Table
from sfumato.table.round import Round

TOP = 64
LN19 = math.log(19)
# The least ratio of F1 to the peer's, by data set and ε.
TARGETS = {
    "retail": {2.0: 1.5, LN19: 1.2},
    "t10i4d100k": {2.0: 1.5, LN19: 1.2},
    "bms-webview-1": {1.0: 0.95, 2.0: 1.0, LN19: 1.05, 4.0: 1.05},
    "mushroom": {1.0: 1.1, 2.0: 1.1, LN19: 1.1},
}
THEORY = {  # the peer's F1 in the design's own study, at ε = 1, 2, ln 19, 4
    "retail": (0.09, 0.33, 0.54, 0.79),
    "t10i4d100k": (0.20, 0.47, 0.68, 0.84),
    "bms-webview-1": (0.33, 0.62, 0.77, 0.84),
    "mushroom": (0.73, 0.76, 0.75),
    "kosarak-25k": (0.19, 0.66, 0.78, 0.80),
}
STUDY_RUNS = 2.5  # it says "two or three runs a cell", and no errors
LEAST_COVERED, MOST_COVERED = 0.93, 0.97  # the share of 95 % intervals that hold the truth
MOST_SQUARED = 0.4  # times the peer's, up to ε = ln 19
HEADING = """# Baskets under one guarantee: the figures

Written by `python -m bench.baskets --write docs/figures/baskets.md`. F1 of the 64 itemsets of
largest support, all lengths, of bootstrapped people; the peer is SVSM, re-implemented, the better
of as released and with its missing factor restored; squared errors are of the itemsets each finds
rightly. ± is the standard error over the seeds. `covered` is the share of 95 % intervals that hold
the truth: of all itemsets found, wrongly or rightly, and of those rightly found alone.

Baskets above a cap tell how much they hold (tiers), so that what a cap takes is measured. The model
that undoes it is stated in `sfumato.estimation.baskets`; its numbers were judged by ablation on
generated worlds (`python -m bench.basket_worlds`), not on these files. Sections before those named
"one stated model" are of version 0.2.0, whose numbers were in part chosen on these files.
Sections of coverage are of seeds from 200 on, without the peer. A cell is called missed only beyond
two of its own errors, a mean of cells wherever it is outside: retail's are near 97 %.

The study states no errors for SVSM (two or three runs a cell); they are supposed from the spread
here (two and a half runs). Its figures agree with SVSM as released: all 15 cells are within two
standard errors of it (retail at ln 19 is 1.9 off on 40 seeds, 2.3 on the first ten; at ε = 2 1.5;
all others 1.7 at most; χ² on seeds 0 to 9 15 for 15 cells). The better of both variants, cell by
cell, does not (χ² 33): with the factor restored for single items and itemsets alike retail at ε = 2
is 4.1 errors better here and mushroom at ln 19 2.4. This was seen in the figures, not foreseen.
Likely the study restored the factor in another way, which gained nothing; its code is not at hand.
Sections named SVSM are of the peer alone (`--peer`).

The peer was compared line by line with its authors' code (github.com/vvv214/LDP_Protocols, svsm),
and that code, run on the samples of seeds 0 to 9 with its hashed counts drawn from their laws,
scores the same, as released and restored: retail at ε = 2 .447 ± .023 and .444 ± .016 (40 seeds
here: .433 and .460), at ln 19 .581 ± .021 and .597 ± .015 (.608, .579), mushroom at ln 19
.745 ± .008 and .794 ± .006 (ten seeds here: .741, .786). Nor does any of these bring retail at
ε = 2 down to the study's .33: people in the order of the file, a universe of 42,178 items as their
`data.py` has it, a tail left out, scaled, or added before the factor (all .43 to .47). Ours is
compared with the better of both, which is harder than the study's figures.

A seed repeats its sample, its rounds and its reports. F1 and squared errors are of seeds 0 to 9,
ours and the peer's in one run. Sections named uneven (`python -m bench.uneven`) are of few people
and of uneven sizes, which nothing was chosen on but for three seeds of each class.
"""


def load(name: str, data: str | None) -> Baskets:
    """A data set, its items numbered from 0."""
    with gzip.open(Path(data_directory(data)) / f"{name}.dat.gz", "rt") as stream:
        rows = [np.unique(np.array(line.split(), dtype=np.int64)) for line in stream]
    rows = [row for row in rows if len(row)]
    known, codes = np.unique(np.concatenate(rows), return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Baskets(offsets, codes.astype(np.int32), len(known))


def true_top(data: Baskets, times: np.ndarray, top: int) -> dict[Itemset, float]:
    """The itemsets of largest support where each row counts so many times, level by level."""
    people = times.sum()
    row = np.repeat(np.arange(data.rows), np.diff(data.offsets))
    singles = np.bincount(data.items, weights=times[row], minlength=data.universe) / people
    best = np.argsort(-singles)[:top]
    columns = data.held([(int(item),) for item in np.sort(best)])
    found = {(int(item),): float(singles[item]) for item in best}
    level = [((int(item),), column) for item, column in zip(np.sort(best), columns, strict=True)]
    alone = {item: column for (item,), column in level}
    while level:
        least = sorted(found.values(), reverse=True)[top - 1]
        longer = []
        for itemset, column in level:
            for item in (i for i in alone if i > itemset[-1] and found[(i,)] >= least):
                both = column & alone[item]
                support = float(times[both].sum() / people)
                if support >= least:
                    found[(*itemset, item)] = support
                    longer.append(((*itemset, item), both))
        level = longer
    return dict(sorted(found.items(), key=lambda each: -each[1])[:top])


def asked_in_rounds(people: Baskets, epsilon: float, rng: Keystream, top: int = TOP) -> RoundSeries:
    """The releases of all rounds, through the real client."""
    domain = Domain((Items("items", tuple(map(str, range(people.universe)))),))
    turn, releases = Round.first(rng), list[Release]()
    for _ in range(ROUNDS):
        mechanism = (
            RoundSeries.of(releases).next_round(top)
            if releases
            else ItemSet.promising(Guarantee.from_epsilon(epsilon), domain)
        )
        group = people.take(np.flatnonzero(turn.asked(0, people.rows)))
        bits = Bits.from_csr(group.offsets, group.items, group.universe)
        table = Table(mechanism.reports, mechanism.perturb((bits,), rng))
        provenance = Provenance(mechanism, rng.secure, turn=turn)
        releases.append(Release.of(replace(table, provenance=provenance)))
        turn = turn.next
    return RoundSeries.of(releases)


def said(people: Baskets, epsilon: float, seed: int, kept: Path | None = None) -> AskedSupports:
    """What all rounds say of itemsets; as they said it before, where that was kept."""
    if kept is not None and kept.exists():
        rounds = PooledRounds(_afresh(pickle.loads(kept.read_bytes())), people.universe)
    else:
        rounds = asked_in_rounds(people, epsilon, seeded(seed)).pooled
        if kept is not None:
            kept.write_bytes(pickle.dumps(rounds.tallies))
    return AskedSupports(tuple(map(str, range(people.universe))), people.rows, rounds)


def _afresh(tally: Sequence[RoundTally]) -> tuple[RoundTally, ...]:
    """What was tally, without what was worked out of it when it was kept."""
    return tuple(
        replace(each, tiers=None if each.tiers is None else replace(each.tiers)) for each in tally
    )


def found_by_us(
    people: Baskets, supports: AskedSupports, truth: dict[Itemset, float]
) -> tuple[dict[Itemset, float], tuple[float, float]]:
    """The itemsets found, and the share of their intervals that hold the truth: of all of them, and
    of those that are truly wanted.
    """
    mined = frequent_itemsets(supports, top=TOP)
    found = {tuple(sorted(map(int, each.items))): each.support for each in mined}
    held = people.held(list(found)).mean(axis=1)
    errors = {tuple(sorted(map(int, each.items))): each.stderr for each in mined}
    inside = {
        each: abs(found[each] - true) < 1.96 * errors[each]
        for each, true in zip(found, held, strict=True)
    }
    rightly = [value for each, value in inside.items() if each in truth]
    return found, (float(np.mean(list(inside.values()))), float(np.mean(rightly or [math.nan])))


@dataclass(frozen=True)
class Cell:
    """One data set at one ε, on so many seeds from the first on."""

    name: str
    epsilon: float
    seeds: range
    people: int
    data: str | None

    @property
    def title(self) -> str:
        return f"{self.name}, ε = {self.epsilon:.3g}"

    def kept(self, directory: Path | None, seed: int) -> Path | None:
        """Where what the people of a seed said is kept."""
        return directory and directory / f"{self.name}-{self.epsilon:.3g}-{self.people}-{seed}"

    def samples(self) -> Iterator[tuple[int, np.random.Generator, Baskets, dict[Itemset, float]]]:
        """Seed by seed: its chance, its people, and the itemsets of largest support among them."""
        every = load(self.name, self.data)
        for seed in self.seeds:
            rng = np.random.default_rng([seed, self.people])
            rows = rng.integers(0, every.rows, self.people)
            times = np.bincount(rows, minlength=every.rows).astype(float)
            yield seed, rng, every.take(rows), true_top(every, times, TOP)


def coverage(cell: Cell, keep: Path | None) -> list[str]:
    """The share of intervals that hold the truth, of our side alone."""
    shares = []
    for seed, _, sample, truth in cell.samples():
        supports = said(sample, cell.epsilon, seed, cell.kept(keep, seed))
        shares.append(found_by_us(sample, supports, truth)[1])
    each = np.array(shares)
    last = cell.seeds[-1]
    return [
        f"{cell.title}, seeds {cell.seeds[0]} to {last}: covered {percent(each[:, 0])} "
        f"{_verdict(each[:, 0])} (93 to 97), rightly found {percent(each[:, 1])}"
    ]


def _verdict(covered: np.ndarray) -> str:
    """Missed where the share is outside by more than two of its own errors."""
    mean, error = float(covered.mean()), np.nan_to_num(error_of(covered))
    inside = LEAST_COVERED - 2 * error <= mean <= MOST_COVERED + 2 * error
    return "ok" if inside else "MISSED"


def together(path: Path | None) -> list[str]:
    """The coverage of all cells that a file has sections of, and by data set."""
    text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
    found = [
        (name, float(mean), float(error))
        for name, mean, error in re.findall(r"(\S+), ε = \S+ seeds.*: covered (\S+) ± (\S+)", text)
    ]
    lines = []
    for label in ["all", *sorted({name for name, _, _ in found})]:
        own = np.array([each[1:] for each in found if label in ("all", each[0])])
        mean, error = own[:, 0].mean(), math.hypot(*own[:, 1]) / len(own)
        inside = 100 * LEAST_COVERED <= mean <= 100 * MOST_COVERED
        each = (own[:, 0] >= 100 * LEAST_COVERED) & (own[:, 0] <= 100 * MOST_COVERED)
        lines.append(
            f"{label}, {len(own)} cells: covered {mean:.1f} ± {error:.1f} % on the mean "
            f"{'ok' if inside else 'MISSED'} (93 to 97); {each.sum()} of {len(own)} cells within"
        )
    return lines


def compare(cell: Cell, keep: Path | None) -> list[str]:
    """One cell of the table, as lines."""
    scores, epsilon = [], cell.epsilon
    for seed, rng, sample, truth in cell.samples():
        supports = said(sample, epsilon, seed, cell.kept(keep, seed))
        ours, covered = found_by_us(sample, supports, truth)
        scores.append((_scores(ours, truth), *_peers(sample, epsilon, rng, truth), covered))
    f1 = np.array([[part[0] for part in score[:3]] for score in scores])
    squares = np.array([[part[1] for part in score[:3]] for score in scores])
    return _told(cell.name, epsilon, f1, squares, np.array([score[3] for score in scores]))


def _peers(
    sample: Baskets, epsilon: float, rng: np.random.Generator, truth: dict[Itemset, float]
) -> list[tuple[float, float]]:
    """What SVSM scores as released, and with its missing factor restored."""
    found = [Svsm(TOP, epsilon, restored, rng).find(sample) for restored in (False, True)]
    return [_scores(each, truth) for each in found]


def reproduced(cell: Cell, _keep: Path | None) -> list[str]:
    """The peer alone, and how far the study's figure is from it, in standard errors of both."""
    scores = [_peers(sample, cell.epsilon, rng, truth) for _, rng, sample, truth in cell.samples()]
    f1 = np.array(scores)[:, :, 0]
    mean, runs = f1.mean(axis=0), len(f1)
    spread = f1.std(axis=0, ddof=1) if runs > 1 else np.full(2, math.nan)
    study = _study(cell.name, cell.epsilon)
    off = (study - mean) / (spread * math.sqrt(1 / runs + 1 / STUDY_RUNS))
    told = [
        f"{how} {m:.3f} ± {s / math.sqrt(runs):.3f} (study {z:+.1f} errors)"
        for how, m, s, z in zip(("as released", "restored"), mean, spread, off, strict=True)
    ]
    return [
        f"{cell.title}, seeds {cell.seeds[0]} to {cell.seeds[-1]}: study {study:.2f}, SVSM "
        f"{', '.join(told)}; {'ok' if abs(off[0]) <= 2 else 'MISSED'} (as released within 2)"
    ]


def _study(name: str, epsilon: float) -> float:
    """The peer's F1 in the design's study; NaN where it has none."""
    known = dict(zip((1.0, 2.0, LN19, 4.0), THEORY[name], strict=False))
    return next((v for e, v in known.items() if abs(e - epsilon) < 0.01), math.nan)


def _scores(found: dict[Itemset, float], truth: dict[Itemset, float]) -> tuple[float, float]:
    both = [itemset for itemset in found if itemset in truth]
    squares = [(found[itemset] - truth[itemset]) ** 2 for itemset in both]
    return 2 * len(both) / (len(found) + len(truth)), float(np.mean(squares)) if both else math.nan


def _told(
    name: str, epsilon: float, f1: np.ndarray, squares: np.ndarray, covered: np.ndarray
) -> list[str]:
    seeds = len(f1)
    mean, error = f1.mean(axis=0), f1.std(axis=0, ddof=min(1, seeds - 1)) / math.sqrt(seeds)
    place = 1 + int(np.argmax(mean[1:]))
    square = np.nanmean(squares, axis=0)
    ratio, less = mean[0] / max(mean[place], 1e-9), square[0] / np.nanmin(square[1:])
    target = next((t for e, t in TARGETS[name].items() if abs(e - epsilon) < 0.01), None)
    verdict = "" if target is None else f"{'ok' if ratio >= target else 'MISSED'} (≥ {target:g})"
    study = f"{_study(name, epsilon):.2f}".replace("nan", "–")
    lines = [
        f"{name}, ε = {epsilon:.3g}, {seeds} seeds: F1 {mean[0]:.3f} ± {error[0]:.3f}, SVSM as "
        f"released {mean[1]:.3f} ± {error[1]:.3f}, restored {mean[2]:.3f} ± {error[2]:.3f} "
        f"(study {study}); × {ratio:.2f} {verdict}",
        f"    squared error {square[0]:.2e}, × {less:.2g} of the peer's better"
        + ("" if epsilon > LN19 + 0.01 else f" {'ok' if less <= MOST_SQUARED else 'MISSED'}")
        + f"; covered {percent(covered[:, 0])}, rightly found {percent(covered[:, 1])}",
    ]
    return lines


def oracle(repeats: int = 60, people: int = 20_000) -> list[str]:
    """The variance of real reports over that of the formulas, of items that nobody holds."""
    lines, universe = [], 400
    rng = np.random.default_rng(1)
    items = np.sort(rng.integers(0, 20, (people, 3)), axis=1).astype(np.int32)
    bits = Bits.from_csr(np.arange(people + 1) * 3, items.ravel(), universe)
    domain = Domain((Items("items", tuple(map(str, range(universe)))),))
    singles = tuple((item,) for item in range(universe))
    for epsilon in (1.0, 2.0, LN19, 4.0):
        guarantee = Guarantee.from_epsilon(epsilon)
        gamma = ItemSet.promising(guarantee, domain).gamma
        direct = ItemSet(domain, gamma, 8, singles)
        buckets = ItemSet.promising(guarantee, Domain((Items("i", tuple(map(str, range(9999)))),)))
        collided = replace(direct, candidates=(), buckets=buckets.buckets, seeds=1 << 12)
        value = float(gamma)
        wanted = {
            "direct": (universe + 8 * value) / (value - 1) ** 2,
            "collision": collision_variance(8, collided.buckets, value),
        }
        for label, mechanism in (("direct", direct), ("collision", collided)):
            found = []
            for seed in range(repeats):
                release = Release.of(
                    replace(
                        Table(mechanism.reports, mechanism.perturb((bits,), seeded(seed))),
                        provenance=Provenance(mechanism, False),
                    )
                )
                law = mechanism.symbol_law
                kept, _ = law.kept(release.counter.count(law.tally.cells))
                found.append(np.asarray(kept)[20:] / people)
            ratio = float(np.var(found)) * people / wanted[label]
            mark = "ok    " if abs(ratio - 1) < 0.05 else "MISSED"
            lines.append(f"{mark} {label}, ε = {epsilon:.3g}: variance × {ratio:.3f} (within 5 %)")
    return lines


def speed(data: str | None) -> list[str]:
    """Baskets a second on one core, from secure randomness, both forms."""
    lines = []
    for name in TARGETS:
        every = load(name, data)
        bits = Bits.from_csr(every.offsets, every.items, every.universe)
        domain = Domain((Items("items", tuple(map(str, range(every.universe)))),))
        for label, mechanism in (
            ("as chosen", ItemSet.promising(Guarantee(19), domain)),
            ("collision", ItemSet(domain, 19, 8, buckets=175)),
        ):
            mechanism.randomise((bits,), secure())
            spent = []
            for _ in range(5):
                start = time.process_time()
                mechanism.randomise((bits,), secure())
                spent.append(time.process_time() - start)
            rate = bits.rows / min(spent) / 1e6
            mark = "ok    " if rate >= 1 else "MISSED"
            lines.append(f"{mark} {name}, {label}: {rate:.2f} million baskets a second (≥ 1)")
    return lines


WORK: dict[str | None, tuple[Callable[[Cell, Path | None], list[str]], str]] = {
    None: (compare, ""),
    "coverage": (coverage, ", coverage"),
    "peer": (reproduced, ", SVSM"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join([*TARGETS, "oracle", "speed", "together"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--data", default=None)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    alone = parser.add_mutually_exclusive_group()
    for work, what in (("coverage", "intervals of ours"), ("peer", "SVSM beside the study's")):
        alone.add_argument(f"--{work}", dest="work", action="store_const", const=work, help=what)
    parser.add_argument("--keep", type=Path, default=None, metavar="DIR", help="what people said")
    parser.add_argument("--people", type=int, default=500_000)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 2.0, LN19, 4.0])
    parser.add_argument("--write", type=Path, default=None, metavar="FILE")
    asked = parser.parse_args(arguments)
    done, words = WORK[asked.work]
    for name in asked.names or (THEORY if asked.work == "peer" else ["oracle", "speed", *TARGETS]):
        print(f"-- {name}", flush=True)
        if name in ("oracle", "speed"):
            _write(asked.write, name, oracle() if name == "oracle" else speed(asked.data))
            continue
        if name == "together":
            _write(asked.write, "all cells, coverage", together(asked.write))
            continue
        for epsilon in asked.epsilon:
            if name == "mushroom" and epsilon > LN19 + 0.01:
                continue
            seeds = range(asked.first, asked.first + asked.seeds)
            cell = Cell(name, epsilon, seeds, asked.people, asked.data)
            _write(asked.write, cell.title + words, done(cell, asked.keep))
    return 0


def _write(path: Path | None, name: str, lines: Sequence[str]) -> None:
    """Print the lines, and put them into a file in the place of those of that name."""
    print("\n".join(lines), flush=True)
    if path is not None:
        write_section(path, HEADING, name, lines)


if __name__ == "__main__":
    sys.exit(main())
