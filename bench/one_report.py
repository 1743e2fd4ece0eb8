"""One report of each person: errors, intervals and costs against what must be reached:
`python -m bench.one_report [--data DIR] [--quick] [--seeds N] [--keep DIR] [--write FILE]
[NAME…]`.

CENSUS over all its frequent itemsets beside FRAPP's mechanisms; the health survey with 12 and 17
columns and Adult with 14 at lengths 1 to 4 (3 and 4 over 40 sets of columns drawn with a fixed
seed); classifiers of income and diabetes; the cost of fits, of perturbing, of a query once counted.
Every figure is printed with its target, and a miss makes the exit code 1. `--write` puts the same
lines into a Markdown file, one section for each name, which a later run of that name replaces.
`--keep` remembers the result of every seed in files there, so that a run that was stopped goes on
where it stood; remove them when the code has changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import write_section
from bench.wide import adult_wide, health_wide
from papers.accuracy import Accuracy, support_accuracy
from papers.data_sets import census, data_directory
from papers.one_report import TARGETS, Way, accuracy, ways
from sfumato.datasets import Records
from sfumato.engines import open_source, save_release
from sfumato.errors import ConvergenceWarning
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.classifier import Classifier
from sfumato.mine.tree import DecisionTree
from sfumato.model.fitted import fit_release
from sfumato.model.model import Model
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import secure, seeded
from sfumato.release import Exact, perturb
from sfumato.source import Source
from sfumato.table import Table, read

PROMISE = Guarantee(19)
SEEDS, CLASS_SEEDS = 20, 10
FEW_SEEDS = 3  # of what errs by several times as much
COVER_SEEDS = 100  # perturbations from which coverage is known
LONG_SEEDS = 40  # the same where a run takes over five seconds
DRAWN = 40  # sets of columns that stand for all of their length
CENSUS_GOAL = (2.5, 5.0, 6.0, 6.0, 6.0, 6.0)
WIDE = {  # errors at lengths 2 to 4, the least coverage, and how many perturbations
    "health-12": ((5.5, 6.5, 6.5), 93.0, COVER_SEEDS),
    "health-17": ((6.6, 7.5, 7.5), 93.0, LONG_SEEDS),
    "adult-14": ((14.0, 16.0, 19.0), 92.0, LONG_SEEDS),
}
MOST_COVERED = 98.0
HEADING = """# One report is enough: the figures

Written by `python -m bench.one_report --write docs/figures/one_report.md`, at gamma 19. Each line
says whether its target was met; times are CPU seconds unless the line says otherwise. After ± is
the standard error of the figure itself, from the spread over seeds. Coverage is shown two of these
towards the target, for it is missed only beyond them.
"""


@dataclass(frozen=True)
class Kept:
    """Results of seeds, remembered in a folder if one was named."""

    folder: Path | None = None

    def run(
        self, name: str, seeds: Sequence[int], work: Callable[[int], Sequence[Sequence[float]]]
    ) -> list[list[list[float]]]:
        """The result of each seed: what is known, and what work finds for the others."""
        path = None if self.folder is None else self.folder / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        known = {seed: result for seed, result in map(json.loads, lines)}
        for seed in seeds:
            if seed not in known:
                known[seed] = [[float(number) for number in row] for row in work(seed)]
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("a") as file:
                        print(json.dumps([seed, known[seed]]), file=file)
        return [known[seed] for seed in seeds]


@dataclass
class Judge:
    """Prints figures beside their targets and remembers whether any was missed."""

    seeds: int | None = None  # asked for in the place of the usual numbers
    kept: Kept = field(default_factory=Kept)
    missed: int = 0
    lines: list[str] = field(default_factory=list)

    def number(self, usual: int) -> int:
        """How many seeds are run."""
        return usual if self.seeds is None else self.seeds

    def say(self, line: str) -> None:
        """A line of the figures that has no target."""
        self.lines.append(line)
        print(line, flush=True)

    def most(self, what: str, found: float, target: float, unit: str = "") -> None:
        """A figure that must not be larger."""
        self._say(what, found, f"at most {target:g}{unit}", found <= target, unit)

    def least(self, what: str, found: float, target: float, unit: str = "") -> None:
        """A figure that must not be smaller."""
        self._say(what, found, f"at least {target:g}{unit}", found >= target, unit)

    def _say(self, what: str, found: float, wanted: str, met: bool, unit: str) -> None:
        self.missed += not met
        mark = "ok    " if met else "MISSED"
        self.say(f"{mark} {what}: {found:.3g}{unit} ({wanted})")


def load(name: str, data: str | None) -> Table:
    """A data set, binned as its questionnaire asks about it."""
    makers: dict[str, Callable[[], Records]] = {
        "census": lambda: census(data),
        "health-12": lambda: health_wide(12, data),
        "health-17": lambda: health_wide(17, data),
        "adult-14": lambda: adult_wide(data),
    }
    records = makers[name]()
    return read(records.table, records.domain.binned())


def asked_sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All single columns and pairs, and so many sets of three and four, drawn with a fixed seed."""
    rng, found = np.random.default_rng(0), list(combinations(names, 1))
    for length in (2, 3, 4):
        every = list(combinations(names, length))
        chosen = (
            range(len(every))
            if length == 2
            else sorted(rng.choice(len(every), DRAWN, replace=False))
        )
        found += [every[place] for place in chosen]
    return found


def model_of(table: Table, mechanism: Questionnaire, seed: int, order: int = 3) -> Model:
    return fit_release(perturb(table, mechanism, seeded(seed)), order)


class Figure(NamedTuple):
    """Error and coverage at one length, each with its own standard error, in per cent."""

    length: int
    error: float
    error_spread: float
    covered: float
    covered_spread: float


def rows_of(found: Sequence[Accuracy]) -> list[tuple[float, float, float]]:
    return [(each.length, each.error, each.covered) for each in found]


def by_length(runs: Sequence[Sequence[Sequence[float]]]) -> list[Figure]:
    """The means over runs, by length."""
    table = np.array(runs)  # (runs, lengths, (length, error, covered))
    spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.inf
    spread = np.broadcast_to(spread, table.shape[1:])
    return [
        Figure(int(mean[0]), mean[1], own[1], mean[2], own[2])
        for mean, own in zip(table.mean(axis=0), spread, strict=True)
    ]


def judge_covered(judge: Judge, what: str, figure: Figure, least: float) -> None:
    """Coverage is missed only beyond two standard errors of its own."""
    label, reach = f"{what} coverage ± {figure.covered_spread:.2f}", 2 * figure.covered_spread
    judge.least(label, figure.covered + reach, least, " %")
    judge.most(label, figure.covered - reach, MOST_COVERED, " %")


def judge_lengths(
    judge: Judge, name: str, figures: Sequence[Figure], targets: Mapping[int, float], least: float
) -> None:
    """Errors and coverage by length, against their targets."""
    for figure in figures:
        what = f"{name}, length {figure.length},"
        if figure.length in targets:
            label = f"{what} error ± {figure.error_spread:.2f}"
            judge.most(label, figure.error, targets[figure.length], " %")
        judge_covered(judge, what, figure, least)


def say_errors(judge: Judge, label: str, figures: Sequence[Figure], seeds: int) -> None:
    errors = " ".join(f"{figure.error:7.1f}" for figure in figures)
    judge.say(f"{label:28s} {errors} % ({seeds} seeds)")


def census_errors(judge: Judge, data: str | None, quick: bool) -> None:
    """CENSUS beside FRAPP's mechanisms."""
    table = load("census", data)
    for place, way in enumerate(ways(read(*census(data)), 5 if quick else 50)):
        usual = 2 if quick else SEEDS if place else COVER_SEEDS
        seeds = judge.number(usual)
        found = judge.kept.run(
            f"census, {way.label}",
            range(1, seeds + 1),
            lambda seed, way=way: rows_of(accuracy(way, table, seed)),  # type: ignore[misc]
        )
        say_errors(judge, way.label, by_length(found), seeds)
        if place == 0:
            targets = dict(enumerate(TARGETS, 1))
            judge_lengths(judge, "CENSUS", by_length(found), targets, 93.0)
    goal = " ".join(f"{error:7.1f}" for error in CENSUS_GOAL)
    judge.say(f"{'the goal beyond':28s} {goal} %")


def wide_errors(judge: Judge, name: str, data: str | None, quick: bool) -> None:
    """Many columns: errors at lengths 2 to 4, what the intervals cover, and how the mechanisms of
    whole records err.
    """
    table, (targets, least, usual) = load(name, data), WIDE[name]
    truth, sets = Exact(table), asked_sets(table.domain.names)
    for place, way in enumerate(wide_ways(table, 5 if quick else 50)):
        seeds = judge.number(2 if quick else FEW_SEEDS if place else usual)
        asked = [names for names in sets if len(names) <= (way.longest or 4)]
        found = judge.kept.run(
            f"{name}, {way.label}",
            range(1, seeds + 1),
            lambda seed, way=way, asked=asked: rows_of(  # type: ignore[misc]
                support_accuracy(way.source(table, seed), truth, asked, 0.02)
            ),
        )
        say_errors(judge, way.label, by_length(found), seeds)
        if place == 0:
            judge_lengths(judge, name, by_length(found), dict(enumerate(targets, 2)), least)


def wide_ways(table: Table, versions: int) -> list[Way]:
    """One small question a person, and FRAPP's mechanisms, at γ = 19 for one report."""
    domain = table.domain
    return [
        Way("questionnaire, model", Questionnaire.promising(PROMISE, domain), order=3),
        Way("DET-GD", GammaDiagonal.promising(PROMISE, domain)),
        Way("retention", Combined.promising(PROMISE, domain)),
        Way("MASK", BitFlip.promising(PROMISE, domain), longest=2),
        Way("C&P", CutAndPaste.promising(PROMISE, domain), longest=2),
        Way(f"DET-GD × {versions}", GammaDiagonal.promising(PROMISE, domain), versions),
    ]


def unbiased(judge: Judge, data: str | None, quick: bool) -> None:
    """The unbiased answers' stated errors against those found, and what their intervals cover."""
    table = load("census", data)
    mechanism, truth = Questionnaire.promising(PROMISE, table.domain), Exact(table)
    squares: dict[int, list[float]] = {}
    inside: dict[int, list[float]] = {}
    seeds = judge.number(4 if quick else 100)
    judge.say(f"{seeds} seeds")
    for seed in range(seeds):
        release = perturb(table, mechanism, seeded(1000 + seed))
        for names in (n for k in (1, 2, 3) for n in combinations(table.domain.names, k)):
            found = release.marginal(names)
            z = (found.value - truth.marginal(names).value) / np.maximum(found.stderr, 1e-9)
            squares.setdefault(len(names), []).append(float((z**2).mean()))
            inside.setdefault(len(names), []).append(100 * float((np.abs(z) < 1.96).mean()))
    for length, each in squares.items():
        ratio = float(np.sqrt(np.mean(each)))
        judge.most(f"unbiased, length {length}, |found/stated error − 1|", abs(ratio - 1), 0.15)
        judge.least(
            f"unbiased, length {length}, coverage", float(np.mean(inside[length])), 93, " %"
        )
        judge.most(f"unbiased, length {length}, coverage", float(np.mean(inside[length])), 97, " %")


def planted(judge: Judge, data: str | None, quick: bool) -> None:
    """A three-way interaction: sex replaced by age ≥ 35 xor hours ≥ 40, with 15 % noise."""
    table = load("census", data)
    rng = np.random.default_rng(7)
    age, hours = (np.asarray(table.column(name)) for name in ("age", "hours_per_week"))
    flag = (age >= 1) ^ (hours >= 2) ^ (rng.random(table.rows) < 0.15)
    place = table.domain.index("sex")
    columns = [*table.columns[:place], flag.astype(np.uint8), *table.columns[place + 1 :]]
    table = Table(table.domain, tuple(columns))
    truth, names = Exact(table), table.domain.names
    sets = [n for k in range(1, 7) for n in combinations(names, k)]
    mechanism = Questionnaire.promising(PROMISE, table.domain)
    seeds = judge.number(2 if quick else SEEDS)
    judge.say(f"{seeds} seeds")
    runs = judge.kept.run(
        "planted",
        range(1, seeds + 1),
        lambda seed: rows_of(support_accuracy(model_of(table, mechanism, seed), truth, sets, 0.02)),
    )
    for figure in by_length(runs):
        if figure.length >= 3:
            what, reach = f"planted xor, length {figure.length},", 2 * figure.covered_spread
            judge.most(f"{what} error ± {figure.error_spread:.2f}", figure.error, 10, " %")
            judge.least(f"{what} coverage", figure.covered + reach, 90, " %")
    pairs = Questionnaire.promising(PROMISE, table.domain, questions="pairs:1")
    answer = model_of(table, pairs, 1, 2).marginal(names[:4]).dot(1.0)
    judge.least("pairs alone say what they assume", float(bool(answer.assumes)), 1)


def classifiers(judge: Judge, name: str, target: str, data: str | None, quick: bool) -> None:
    """Naive Bayes and a tree from one report a person, the class private."""
    table = load(name, data)
    designs = {
        "planned": Questionnaire.promising(PROMISE, table.domain, target=target),
        "usual": Questionnaire.promising(PROMISE, table.domain),
    }
    found: dict[str, list[tuple[float, float]]] = {}
    seeds = judge.number(1 if quick else CLASS_SEEDS)
    judge.say(f"{seeds} seeds")
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(table.rows)
        cut = 3 * table.rows // 4
        train, test = table.take(np.sort(order[:cut])), table.take(np.sort(order[cut:]))
        for kind, make in (("bayes", NaiveBayes), ("tree", DecisionTree)):
            found.setdefault(f"{kind}, truth", []).append(
                quality(make(target).fit(Exact(train)), test, target)
            )
        for label, mechanism in designs.items():
            model = fit_release(perturb(train, mechanism, seeded(100 + seed)))
            for kind, classifier in (
                ("bayes", NaiveBayes(target)),
                ("tree", DecisionTree(target)),
            ):
                result = quality(classifier.fit(model), test, target)
                found.setdefault(f"{kind}, {label}", []).append(result)
    means = {label: np.mean(each, axis=0) for label, each in found.items()}
    for label, (auc, right) in means.items():
        judge.say(f"{name}, {label}: AUC {auc:.4f}, accuracy {right:.4f}")
    majority = 1 - float(np.asarray(table.column(target)).mean())
    best = means["bayes, truth"][0]
    judge.most(f"{name}, bayes planned, AUC below", best - means["bayes, planned"][0], 0.02)
    judge.most(f"{name}, bayes usual, AUC below", best - means["bayes, usual"][0], 0.05)
    tree = means["tree, truth"][0] - means["tree, planned"][0]
    judge.most(f"{name}, tree planned, AUC below", tree, 0.05)
    if name == "adult-14":
        for label in ("planned", "usual"):
            above = 100 * (means[f"bayes, {label}"][1] - majority)
            judge.least(f"{name}, bayes {label}, points above the majority", above, 3)


def quality(classifier: Classifier, test: Table, target: str) -> tuple[float, float]:
    """Area under the curve and accuracy on test records."""
    truth = np.asarray(test.column(target)).astype(np.intp)
    chances = classifier.predict_proba(test)[:, 1]
    _, place, number = np.unique(chances, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2)[place]
    ones = int(truth.sum())
    area = (rank[truth == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(truth) - ones))
    return float(area), float(((chances > 0.5) == truth).mean())


def costs(judge: Judge, data: str | None, quick: bool) -> None:
    """CPU seconds of fits, records a second of perturbing, a query once everything is counted."""
    table = load("census", data)
    mechanism = Questionnaire.promising(PROMISE, table.domain)
    release = perturb(table, mechanism, seeded(1))
    pairs = perturb(
        table, Questionnaire.promising(PROMISE, table.domain, questions="pairs:1"), seeded(1)
    )
    spent = timed(partial(fitted, pairs, 2))
    judge.most("fit of order 2 on CENSUS, pairs asked", spent, 0.5, " s")
    spent = timed(partial(fitted, release, 2))
    judge.most("fit of order 2 on CENSUS, singles, pairs and triples asked", spent, 0.5, " s")
    spent = timed(partial(fitted, release, 3))
    judge.most("fit of order 3 on CENSUS", spent, 4.0, " s")
    if not quick:
        wide = load("health-17", data)
        model = model_of(wide, Questionnaire.promising(PROMISE, wide.domain), 1)
        sets = list(combinations(wide.domain.names, 4))
        spent = timed(lambda: [model.marginal(names).value for names in sets])
        judge.most(f"{len(sets):,} sets of four of 17 columns", spent, 40, " s")
    times = 20 if quick else 200
    columns = tuple(np.tile(np.asarray(column), times) for column in table.columns)
    spent = timed(lambda: mechanism.perturb(columns, secure()))
    judge.least("records perturbed a second", len(columns[0]) / spent / 1e6, 10, " million")
    large = perturb(Table(table.domain, columns), mechanism, seeded(2))
    with tempfile.TemporaryDirectory() as folder:
        address = f"duckdb://{folder}/large.duckdb#reports"
        save_release(large, address)
        for label, source in (("in memory", large), ("in DuckDB", open_source(address))):
            source.marginal(("age", "sex")).stderr  # noqa: B018  (the first scan)
            asked = [("age", "sex"), ("race", "age"), ("sex",), ("age", "race", "sex")]
            spent = max(timed(partial(stated_errors, source, names)) for names in asked)
            what = f"a query of {len(columns[0]):,} reports {label}, counted before"
            judge.most(what, 1000 * spent, 20, " ms")


def stated_errors(source: Source, names: Sequence[str]) -> object:
    return source.marginal(names).stderr


def fitted(source: Source, order: int) -> object:
    assert not isinstance(source, Exact)
    return fit_release(source, order).law.fit  # type: ignore[arg-type]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", default=None)
    parser.add_argument("--quick", action="store_true", help="a few seeds, to try it out")
    parser.add_argument("--seeds", type=int, default=None, metavar="N")
    parser.add_argument("--keep", type=Path, default=None, metavar="DIR")
    parser.add_argument("--write", type=Path, default=None, metavar="FILE")
    asked = parser.parse_args(arguments)
    data, quick, judge = (
        str(data_directory(asked.data)),
        asked.quick,
        Judge(asked.seeds, Kept(asked.keep)),
    )
    warnings.simplefilter("ignore", ConvergenceWarning)
    parts: dict[str, Callable[[], None]] = {
        "census": lambda: census_errors(judge, data, quick),
        **{name: lambda name=name: wide_errors(judge, name, data, quick) for name in WIDE},  # type: ignore[misc]
        "unbiased": lambda: unbiased(judge, data, quick),
        "planted": lambda: planted(judge, data, quick),
        "income": lambda: classifiers(judge, "adult-14", "income", data, quick),
        "diabetes": lambda: classifiers(judge, "health-12", "Diabetes_binary", data, quick),
        "costs": lambda: costs(judge, data, quick),
    }
    for name in asked.names or parts:
        print(f"-- {name}", flush=True)
        judge.lines.clear()
        parts[name]()
        if asked.write is not None:
            write_section(asked.write, HEADING, name, judge.lines)
    return int(judge.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
