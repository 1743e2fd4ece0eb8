"""Classifiers from counts beside scikit-learn's on the truth, in one run: `python -m bench.classify
[--data DIR] [--quick]`.

Accuracy, balanced accuracy and AUC are measured on records that were not trained on; the figures of
one line come from the same records. Times are CPU seconds of one process on one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.data_sets import data_directory, salary
from sfumato.counting.in_memory import TableCounter
from sfumato.datasets.survey import survey
from sfumato.domain import Category, Domain
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.classifier import Classifier
from sfumato.mine.quality import Quality
from sfumato.mine.reconstructed import Reconstructed
from sfumato.mine.tree import DecisionTree
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.source import Source
from sfumato.table import Table, read

EIGHT = (
    "age",
    "workclass",
    "education_num",
    "marital_status",
    "occupation",
    "race",
    "sex",
    "hours_per_week",
)
DEPTH = 6


@dataclass(frozen=True)
class Line:
    """One measurement: ours, what it is held against, and whether the target is met."""

    what: str
    ours: str
    against: str
    target: str
    met: bool | None = None  # None where nothing was asked

    def __str__(self) -> str:
        verdict = "" if self.met is None else "yes" if self.met else "NO"
        return f"{self.what:<86}{self.ours:>22}{self.against:>22}  {self.target:<28}{verdict}"


def main() -> None:
    """Print every measurement in one table."""
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="fewer seeds and rows")
    options = parser.parse_args()
    data = data_directory(options.data)
    with threadpool_limits(1):
        measure(data, options.quick)


def measure(data: Path, quick: bool) -> None:
    """Every measurement, a line at a time."""
    print(f"{'':<86}{'ours':>22}{'against':>22}  {'target':<28}met")
    for line in frapp(data, seeds=3 if quick else 20):
        print(line, flush=True)
    for line in retention(data, seeds=1 if quick else 5):
        print(line, flush=True)
    for line in exact(data):
        print(line, flush=True)
    for line in large(200_000 if quick else 5_000_000):
        print(line, flush=True)


def split(table: Table, seed: int, share: float = 0.75) -> tuple[Table, Table]:
    """Training and test records."""
    order = np.random.default_rng(seed).permutation(table.rows)
    cut = int(share * table.rows)
    return table.take(order[:cut]), table.take(order[cut:])


def with_target(domain: Domain, target: str, public: bool) -> Domain:
    """The domain with its target public or not."""
    return replace(
        domain, attributes=tuple(replace(a, public=public and a.name == target) for a in domain)
    )


def means(qualities: list[Quality]) -> NDArray[np.float64]:
    """Accuracy, balanced accuracy, AUC and the majority's accuracy, averaged."""
    return np.mean(
        [(q.accuracy, q.balanced_accuracy, q.auc, q.baseline) for q in qualities], axis=0
    )


def frapp(data: Path, seeds: int) -> Iterator[Line]:
    """FRAPP table 4 at γ = 19, one version: the class public (ByClass), and perturbed with the
    rest.
    """
    people, domain = salary(data)
    table, binned = Table.from_arrow(people, domain), domain.binned()
    models: dict[str, Callable[[], Classifier]] = {
        "tree": lambda: DecisionTree("income"),
        "bayes": lambda: NaiveBayes("income"),
        "cells + sklearn tree": lambda: Reconstructed("income"),
    }
    found: dict[tuple[str, str], list[Quality]] = {}
    for seed in range(seeds):
        train, test = split(table, seed)
        train = train.recode(binned)
        sources: dict[str, Source] = {"direct": Exact(train)}
        for name, public in (("class public", True), ("class perturbed", False)):
            sources[name] = perturb(
                train, GammaDiagonal(with_target(binned, "income", public), 19), seeded(seed)
            )
        for model, make in models.items():
            for source, counts in sources.items():
                found.setdefault((model, source), []).append(make().fit(counts).quality(test))
    for model in models:
        direct = means(found[model, "direct"])
        for source in ("class public", "class perturbed"):
            ours, what = (
                means(found[model, source]),
                f"FRAPP table 4, γ=19, {seeds} seeds, {model}, {source}",
            )
            asked = model == "tree"
            near, major = ours[0] >= direct[0] - 0.015, ours[0] >= ours[3] - 1e-9
            yield Line(
                f"{what}: accuracy",
                f"{ours[0]:.4f}",
                f"direct {direct[0]:.4f}",
                "within 0.015",
                near if asked else None,
            )
            yield Line(
                f"{what}: accuracy",
                f"{ours[0]:.4f}",
                f"majority {ours[3]:.4f}",
                "no worse",
                major if asked else None,
            )
            yield Line(f"{what}: balanced", f"{ours[1]:.4f}", f"direct {direct[1]:.4f}", "")
            yield Line(f"{what}: AUC", f"{ours[2]:.4f}", f"direct {direct[2]:.4f}", "")
            pairs = zip(found[model, source], found[model, "direct"], strict=True)
            same = np.mean([first.agreement(second)["same_label"] for first, second in pairs])
            yield Line(f"{what}: same label", f"{same:.4f}", "", "")


def retention(data: Path, seeds: int) -> Iterator[Line]:
    """Adult with every column kept with probability 0.5, on the parts that UCI publishes."""
    people = read(data / "adult.csv.gz")
    part = people.column("split") == people.domain["split"].code("train")
    train, test = people.take(np.flatnonzero(part)), people.take(np.flatnonzero(~np.asarray(part)))
    without_race = tuple(name for name in EIGHT if name != "race")
    for what, names, public in (
        ("eight attributes, income public", EIGHT, True),
        ("seven attributes and income, all perturbed", without_race, False),
        ("eight attributes and income, all perturbed", EIGHT, False),
    ):
        domain = with_target(people.domain.project([*names, "income"]), "income", public)
        records = train.recode(domain)
        direct = DecisionTree("income").fit(Exact(records)).quality(test).auc
        releases = [perturb(records, Retention(domain, 0.5), seeded(seed)) for seed in range(seeds)]
        auc = float(
            np.mean([DecisionTree("income").fit(release).quality(test).auc for release in releases])
        )
        what = f"Adult, keep 0.5, {what}, {seeds} seeds"
        yield Line(
            f"{what}: AUC", f"{auc:.4f}", f"truth {direct:.4f}", "within 0.05", auc >= direct - 0.05
        )
        bayes = float(
            np.mean([NaiveBayes("income").fit(release).quality(test).auc for release in releases])
        )
        truth = NaiveBayes("income").fit(Exact(records)).quality(test).auc
        yield Line(f"{what}, bayes: AUC", f"{bayes:.4f}", f"truth {truth:.4f}", "")


def one_hot(table: Table, names: list[str]) -> NDArray[np.float32]:
    """What scikit-learn is given: one column a value of each category, numbers as they are."""
    columns = []
    for name in names:
        attribute, codes = table.domain[name], np.asarray(table.column(name))
        if isinstance(attribute, Category):
            columns.append(np.eye(attribute.size, dtype=np.float32)[codes])
        else:
            numbers: Any = attribute
            columns.append(numbers.numbers(codes)[:, None].astype(np.float32))
    return np.hstack(columns)


def exact(data: Path) -> Iterator[Line]:
    """The truth, beside scikit-learn's tree of the same depth."""
    from sklearn.tree import DecisionTreeClassifier

    for file, target in (("adult", "income"), ("health", "Diabetes_binary")):
        table = read(data / f"{file}.csv.gz")
        names = [name for name in table.domain.names if name not in (target, "split")]
        train, test = split(table, 0)
        theirs = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(
            one_hot(train, names), train.column(target)
        )
        score = float(theirs.score(one_hot(test, names), test.column(target)))
        ours = DecisionTree(target, features=names, max_depth=DEPTH).fit(Exact(train)).quality(test)
        what = f"{file}, all {len(names)} attributes, exact, depth {DEPTH}: accuracy"
        yield Line(
            what,
            f"{ours.accuracy:.4f}",
            f"scikit-learn {score:.4f}",
            "within 0.01",
            ours.accuracy >= score - 0.01,
        )


def large(rows: int) -> Iterator[Line]:
    """Scans of the data and CPU seconds of a deep tree on a synthetic survey, exact and
    perturbed.
    """
    from sklearn.tree import DecisionTreeClassifier

    records, domain = survey(rows, seeded(1))
    table, target = Table.from_arrow(records, domain), "depression"
    names = [name for name in domain.names if name != target]
    release = perturb(table, Retention(with_target(domain, target, True), 0.8), seeded(2))
    seconds = {}
    for kind, source in (("exact", Exact(table)), ("release", release)):
        scans, start = count_scans(), time.process_time()
        tree = DecisionTree(target, max_depth=DEPTH).fit(source).tree_
        seconds[kind] = time.process_time() - start
        what = f"{rows:,} rows, {kind}: depth {tree.depth}, {len(tree.leaves)} leaves: scans"
        yield Line(what, f"{len(scans)}", "", "at most 5", len(scans) <= 5 and tree.depth <= DEPTH)
    matrix, labels = one_hot(table, names), np.asarray(table.column(target))
    start = time.process_time()
    DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(matrix, labels)
    theirs = time.process_time() - start
    for kind, ours in seconds.items():
        what = f"{rows:,} rows, {kind}: CPU seconds"
        yield Line(what, f"{ours:.1f} s", f"scikit-learn {theirs:.1f} s", "less", ours < theirs)


_SCAN = TableCounter._scan


def count_scans() -> list[int]:
    """A list that grows whenever the rows are scanned, by the number of tables counted in that
    scan.
    """
    scans: list[int] = []

    def scan(self: TableCounter, questions: Any) -> Any:
        scans.append(len(questions))
        return _SCAN(self, questions)

    TableCounter._scan = scan  # type: ignore[method-assign]
    return scans


if __name__ == "__main__":
    main()
