"""How often 95 % intervals hold the truth, over random queries: `python -m bench.coverage [--data
DIR] [--quick]`.

Every query is asked of a release of its own (uniform retention, keep 0.3 a column), so that no two
share their noise. A query is a conjunction of one to three predicates on different columns, BETWEEN
two random ends of a number or IN a random list of some of a category's values, and asks COUNT(*) or
AVG of a random number, half and half. The schema is the proposed one, all columns in it. Nothing is
left out but averages over nobody, which have no truth. Target: 93 to 97 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from papers.data_sets import data_directory
from sfumato.domain import Attribute, Domain, Numeric
from sfumato.estimation.answer import Answer
from sfumato.mechanisms.retention import Retention
from sfumato.mine.cube import query
from sfumato.randomness import Keystream, seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table, read

KEEP, LEVEL, QUERIES, QUICK_QUERIES = 0.3, 0.95, 1000, 200
TARGET = (0.93, 0.97)
SIZES = (0, 10, 100, 1_000, 10_000, 10**9)  # of the group that is asked about, in people
CLEAR = (
    0.0,
    1.0,
    2.0,
    4.0,
    8.0,
    float("inf"),
)  # standard errors that the estimated group stands above 0


@dataclass(frozen=True)
class Question:
    """A random query: what it asks, of whom, and which columns it needs."""

    average: str | None  # None for COUNT(*)
    where: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """Its SQL: the answer, then the size of the group."""
        asked = "" if self.average is None else f'AVG("{self.average}") AS answer, '
        return f"SELECT {asked}COUNT(*) AS people FROM t WHERE {self.where}"


@dataclass(frozen=True)
class Outcome:
    """A query and its answer beside the truth."""

    question: Question
    truth: float
    people: float  # truly in the group
    answer: Answer
    group: Answer  # the estimated people in the group

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth; an answer without a value does not."""
        low, high = self.answer.interval(LEVEL)
        return bool(low <= self.truth <= high)

    @property
    def clear(self) -> float:
        """How many standard errors the estimated group stands above 0."""
        return max(0.0, self.group.value / self.group.stderr)


def random_question(domain: Domain, rng: Keystream) -> Question:
    """One query of the kind described above."""
    chosen = rng.permutation(len(domain))[: 1 + int(rng.below(3, 1)[0])]
    attributes = [domain.attributes[int(place)] for place in chosen]
    numbers = [attribute.name for attribute in domain if isinstance(attribute, Numeric)]
    average = numbers[int(rng.below(len(numbers), 1)[0])] if int(rng.below(2, 1)[0]) else None
    columns = dict.fromkeys(
        [attribute.name for attribute in attributes] + ([average] if average else [])
    )
    return Question(
        average,
        " AND ".join(_predicate(attribute, rng) for attribute in attributes),
        tuple(columns),
    )


def _predicate(attribute: Attribute, rng: Keystream) -> str:
    if isinstance(attribute, Numeric):
        low, high = sorted(attribute.numbers(rng.below(attribute.size, 2)).tolist())
        return f'"{attribute.name}" BETWEEN {low} AND {high}'
    count = 1 + int(rng.below(max(1, attribute.size - 1), 1)[0])
    labels = [
        attribute.labels[int(code)].replace("'", "''")
        for code in rng.permutation(attribute.size)[:count]
    ]
    listed = ", ".join(f"'{label}'" for label in labels)
    return f'"{attribute.name}" IN ({listed})'


def outcomes(table: Table, number: int, seed: int) -> Iterator[Outcome]:
    """The answers to so many random queries, those over nobody's average left out."""
    rng = seeded(seed)
    for _ in range(number):
        question = random_question(table.domain, rng)
        needed = table.recode(
            table.domain.project(question.columns)
        )  # columns are perturbed independently, so the others do not matter
        truth = next(iter(query(Exact(needed), question.sql)))
        people = truth["people"].value
        if question.average is not None and people == 0:
            continue
        found = next(
            iter(query(perturb(needed, Retention(needed.domain, KEEP), rng), question.sql))
        )
        asked = "people" if question.average is None else "answer"
        yield Outcome(question, truth[asked].value, people, found[asked], found["people"])


def coverage(results: Sequence[Outcome]) -> float:
    """The share of intervals that hold the truth, of answers that have one: what may be divided by
    nothing has none.
    """
    found = [each.covered for each in results if np.isfinite(each.answer.value)]
    return float(np.mean(found)) if found else float("nan")


def report(name: str, results: Sequence[Outcome], asked: int) -> None:
    """Print coverage: all, by kind, by how many people were asked about, by how clearly they were
    seen.
    """
    share = coverage(results)
    met = "yes" if TARGET[0] <= share <= TARGET[1] else "NO"
    nobody = (
        f", {asked - len(results)} averages over nobody left out" if asked > len(results) else ""
    )
    print(
        f"\n{name}: {share:.1%} of {len(results):,} intervals hold the truth; target 93-97 %: "
        f"{met}{nobody}"
    )
    counts = [one for one in results if one.question.average is None]
    averages = [one for one in results if one.question.average is not None]
    for kind, some in (("COUNT", counts), ("AVG", averages)):
        print(f"  {kind:<6} {_cell(some)}")
        _by("people", SIZES, some, lambda one: one.people)
        _by("group / stderr", CLEAR, some, lambda one: one.clear)


def _by(
    what: str, ends: Sequence[float], results: Sequence[Outcome], key: Callable[[Outcome], float]
) -> None:
    parts = []
    for low, high in pairwise(ends):
        some = [one for one in results if low <= key(one) < high]
        parts.append(f"{low:,g}+ {_cell(some)}")
    print(f"    by {what}: " + "; ".join(parts))


def _cell(results: Sequence[Outcome]) -> str:
    return f"{coverage(results):.1%} of {len(results)}" if results else "–"


def main() -> None:
    """Ask both data sets."""
    parser = argparse.ArgumentParser(prog="python -m bench.coverage")
    parser.add_argument("--data", type=Path, help="the folder of the public data sets")
    parser.add_argument("--quick", action="store_true", help="200 queries each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    number = QUICK_QUERIES if options.quick else QUERIES
    for name in ("adult", "health"):
        table = read(data_directory(options.data) / f"{name}.csv.gz")
        report(f"{name}, keep {KEEP}", list(outcomes(table, number, options.seed)), number)


if __name__ == "__main__":
    main()
