"""One report is enough: FRAPP's fifty versions of each record beside one small question a person,
under the same γ = 19.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from papers.accuracy import Accuracy, support_accuracy
from papers.base import LENGTH, Cell, Reproduction, Row, Runs, Settings
from papers.data_sets import census
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.model.fitted import fit_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.source import Source
from sfumato.table import Table

NAME = "one-report"
PROMISE = Guarantee(19)
MIN_SUPPORT = 0.02
VERSIONS, QUICK_VERSIONS = 50, 5
SHORT = 2  # the longest itemsets of MASK and C&P that are worth their time
TARGETS = (3.4, 6.1, 7.3, 7.3, 7.5, 7.8)  # errors at most, by length, of the first way
QUANTITIES = ("relative error (%)", "95 % intervals that cover (%)")


@dataclass(frozen=True)
class Way:
    """A line of the table: a mechanism, how many reports of each person, and whether a law is
    fitted.
    """

    label: str
    mechanism: Mechanism
    versions: int = 1
    order: int | None = None  # of the model that is fitted
    longest: int | None = None

    def source(self, table: Table, seed: int) -> Source:
        """What is asked: the release, or the model fitted to it."""
        release = perturb(table, self.mechanism, seeded(seed), copies=self.versions)
        return release if self.order is None else fit_release(release, self.order)


def reproduce(names: Sequence[str], settings: Settings) -> Iterator[Reproduction]:
    """The table, with its picture."""
    if NAME in names:
        yield table_of(settings)


def table_of(settings: Settings) -> Reproduction:
    """Errors of supports over all truly frequent itemsets of CENSUS, by length and mechanism."""
    versions = QUICK_VERSIONS if settings.quick else VERSIONS
    truth = Table.from_arrow(*census(settings.data))
    rows = [row for way in ways(truth, versions) for row in _rows(way, truth, settings)]
    title = f"One report is enough: CENSUS at 2 %, γ = 19 ({settings.counted})"
    notes = (
        "errors are means over all truly frequent itemsets of a length, found or not",
        f"{versions} versions of a record that can be linked have γ = 19^{versions}: "
        f"{PROMISE.repeated(versions)}",
        "intervals hold the people fixed; a model's at lengths 4 to 6 count them as a sample",
        *(("quick run: fewer versions than FRAPP's 50",) if settings.quick else ()),
    )
    return Reproduction(
        NAME,
        title,
        ("mechanism", LENGTH),
        QUANTITIES,
        tuple(rows),
        notes,
        logarithmic=QUANTITIES[:1],
        unprinted=judged(rows),
    )


def judged(rows: Sequence[Row]) -> str:
    """Whether the questionnaire's model errs by no more than it is meant to, in words: this table
    is ours, so no paper says what it should hold.
    """
    first = [row for row in rows if row.labels[0] == rows[0].labels[0]]
    found = [row.cells[0].value or 0.0 for row in first]
    missed = [
        f"length {row.labels[1]} has {error:.1f} %"
        for row, error, target in zip(first, found, TARGETS, strict=False)
        if error > target
    ]
    wanted = " ".join(f"{target:g}" for target in TARGETS)
    stands = "; ".join(missed) if missed else "met at every length"
    return f"the model's errors are to be at most {wanted} %: {stands}"


def ways(table: Table, versions: int = VERSIONS) -> list[Way]:
    """The mechanisms that are compared, all at γ = 19 for one report."""
    domain = table.domain
    questions = Questionnaire.promising(PROMISE, domain)
    pairs = Questionnaire.promising(PROMISE, domain, questions="pairs:1")
    return [
        Way("questionnaire, model", questions, order=3),
        Way("questionnaire, pairs, model", pairs, order=2),
        Way("questionnaire, unbiased", questions),
        Way("DET-GD", GammaDiagonal.promising(PROMISE, domain)),
        Way("retention", Combined.promising(PROMISE, domain)),
        Way("MASK", BitFlip.promising(PROMISE, domain), longest=SHORT),
        Way("C&P", CutAndPaste(domain, 3, 0.494), longest=SHORT),
        Way(f"DET-GD × {versions}", GammaDiagonal.promising(PROMISE, domain), versions),
    ]


def accuracy(way: Way, table: Table, seed: int) -> list[Accuracy]:
    """The errors of one release, by length."""
    names, longest = table.domain.names, way.longest or len(table.domain)
    sets = [part for length in range(1, longest + 1) for part in combinations(names, length)]
    return support_accuracy(way.source(table, seed), Exact(table), sets, MIN_SUPPORT)


def _rows(way: Way, table: Table, settings: Settings) -> Iterator[Row]:
    runs = [accuracy(way, table, seed) for seed in settings.runs]
    for place, first in enumerate(runs[0]):
        errors = Runs(tuple(run[place].error for run in runs))
        covered = Runs(tuple(run[place].covered for run in runs))
        yield Row((way.label, first.length), (Cell(None, errors), Cell(None, covered)))
