"""FRAPP's table 5: who earns more than 50,000 dollars, learnt from records perturbed at γ = 19."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from papers.base import Cell, Reproduction, Row, Settings, over_runs
from papers.data_sets import salary
from sfumato.domain import Domain
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mine.classifier import Classifier
from sfumato.mine.quality import Quality
from sfumato.mine.reconstructed import Reconstructed
from sfumato.mine.tree import DecisionTree
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, perturb
from sfumato.table import Table

TARGET, GAMMA, TRAINING = "income", 19, 0.75
QUICK_PEOPLE = 12_000
QUANTITIES = ("correct (%)", "incorrect (%)", "balanced (%)", "AUC (%)")
PRINTED: dict[str, tuple[float | None, float | None]] = {
    "FRAPP": (72.88, 27.12),
    "DIRECT": (75.34, 24.66),
    "BOTH": (71.34, 23.12),
    "majority class": (None, None),
}
OWN, CELLS = "tree from counts", "ByClass cells, then a tree"
NOTES = (
    "attributes of table 4, γ = 19, one version, the class public; 75 % of the people for "
    "training, drawn anew each run",
    f"{OWN}: our tree, which splits only where chance is no explanation; {CELLS}: FRAPP's way "
    "(zeroed and rescaled cells), "
    "with scikit-learn's tree in place of Weka's C4.5",
    "BOTH: both classifiers right (or both wrong) on the same record",
    "accuracy says little here: giving everyone the same label is hardly beaten even by DIRECT; "
    "look at balanced accuracy "
    "(50 % is chance) and AUC (50 % is chance) beside it",
)


def table_5(settings: Settings) -> Reproduction:
    """Accuracy of classifiers learnt from perturbed and from true records, and where the two
    concur.
    """
    table = Table.from_arrow(*salary(settings.data))
    table = table.slice(0, QUICK_PEOPLE) if settings.quick else table
    ways = [OWN, CELLS] if _learnable() else [OWN]
    runs = over_runs(lambda seed: _figures(table, ways, seed), settings.runs)
    labels = [(way, part) for way in ways for part in PRINTED]
    rows = [
        Row(
            label,
            tuple(
                Cell(printed, run)
                for printed, run in zip((*PRINTED[label[1]], None, None), figures, strict=True)
            ),
        )
        for label, figures in zip(labels, runs, strict=True)
    ]
    title = f"FRAPP table 5: classification accuracy, γ = {GAMMA}, {settings.counted}"
    return Reproduction(
        "frapp-table-5", title, ("classifier", "technique"), QUANTITIES, tuple(rows), NOTES
    )


def _learnable() -> bool:
    """Whether scikit-learn is here."""
    return find_spec("sklearn") is not None


def _figures(table: Table, ways: Sequence[str], seed: int) -> list[list[float | None]]:
    """One run: for each way the four lines of the table."""
    order = np.random.default_rng(seed).permutation(table.rows)
    cut = int(TRAINING * table.rows)
    domain = _public_class(table.domain.binned())
    train, test = table.take(order[:cut]).recode(domain), table.take(order[cut:])
    release = perturb(train, GammaDiagonal.promising(Guarantee(GAMMA), domain), seeded(seed))
    return [line for way in ways for line in _lines(way, Exact(train), release, test)]


def _public_class(domain: Domain) -> Domain:
    return replace(domain, attributes=tuple(replace(a, public=a.name == TARGET) for a in domain))


def _lines(way: str, truth: Exact, release: Release, test: Table) -> list[list[float | None]]:
    private, direct = (
        _classifier(way).fit(release).quality(test),
        _classifier(way).fit(truth).quality(test),
    )
    both = private.agreement(direct)
    majority: list[float | None] = [
        100 * private.baseline,
        100 * (1 - private.baseline),
        50.0,
        50.0,
    ]
    return [
        _line(private),
        _line(direct),
        [100 * both["both_right"], 100 * both["both_wrong"], None, None],
        majority,
    ]


def _line(quality: Quality) -> list[float | None]:
    shares = (quality.accuracy, 1 - quality.accuracy, quality.balanced_accuracy, quality.auc)
    return [100 * share for share in shares]


def _classifier(way: str) -> Classifier:
    return DecisionTree(TARGET) if way == OWN else Reconstructed(TARGET)
