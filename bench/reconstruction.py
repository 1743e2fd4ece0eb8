"""What an answer costs once its cells are counted, for k predicate columns: `python -m
bench.reconstruction`.

The whole path of `sfumato.query` is timed on counts that are there already: parsing, cutting the
columns, the channel of the cells, its inverse, the standard error, and the look at cells below 0.
Least CPU milliseconds on one core. Target for twelve columns: 50 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.foundation import cpu_seconds, one_core
from sfumato.domain import Category, Cells, Domain, Numeric
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import CountEvidence
from sfumato.estimation.supports.supports import Supports
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.retention import Permuting, Retention
from sfumato.mine.cube import query
from sfumato.randomness import seeded
from sfumato.release import Release, perturb
from sfumato.source import Source
from sfumato.table import Table

ROWS = 200_000
COLUMNS = (2, 4, 8, 12)
KEEP = 0.9
TARGET = 0.050  # seconds for twelve columns


@dataclass(frozen=True, eq=False)
class Counted(Source):
    """A release that counts the cells of a question once; every answer is then reconstructed anew
    from the same counts.
    """

    release: Release
    known: dict[Any, NDArray[Any]] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        return self.release.domain

    @property
    def rows(self) -> int:
        return self.release.rows

    def supports(self) -> Supports:
        return self.release.supports()

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        return self._estimates([cells])[0]

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        return [
            Estimate(cells, self.rows, CountEvidence(self._count(cells), self._channel(cells)))
            for cells in questions
        ]

    def _channel(self, cells: tuple[Cells, ...]) -> Any:
        return self.release.observe(cells).channel

    def _count(self, cells: tuple[Cells, ...]) -> NDArray[Any]:
        key = tuple(part.key for part in cells)
        if key not in self.known:
            self.known[key] = self.release.counter.count(cells)
        return self.known[key]


def people(columns: int) -> Table:
    """Columns of numbers and of words in turn."""
    draw = np.random.default_rng(0)
    attributes = [
        Numeric(f"c{place}", 0, 99)
        if place % 2
        else Category(f"c{place}", ("a", "b", "c", "d", "e"))
        for place in range(columns)
    ]
    return Table(
        Domain(tuple(attributes)),
        tuple(draw.integers(0, each.size, ROWS).astype(np.uint8) for each in attributes),
    )


def question(columns: int) -> str:
    """A conjunction of one predicate a column."""
    predicates = (
        f"c{place} BETWEEN 10 AND 89" if place % 2 else f"c{place} IN ('a', 'b', 'c', 'd')"
        for place in range(columns)
    )
    return f"SELECT COUNT(*) FROM t WHERE {' AND '.join(predicates)}"


def mechanisms(domain: Domain) -> Iterator[tuple[str, Mechanism]]:
    """Laws that are known, read off the reports, and kept exactly."""
    yield "uniform", Retention(domain, KEEP)
    yield "identity", Retention(domain, KEEP, "identity")
    yield "permuting", Permuting(domain, KEEP)


def main() -> None:
    """Print the milliseconds of each number of columns and kind of replacement."""
    one_core()
    print(f"{'columns':>8}{'cells':>8}  {'replacement':<12}{'ms':>8}   count ± error")
    for columns in COLUMNS:
        truth = people(columns)
        for name, mechanism in mechanisms(truth.domain):
            print(_line(columns, name, perturb(truth, mechanism, seeded(1))), flush=True)


def _line(columns: int, name: str, release: Release) -> str:
    source, sql = Counted(release), question(columns)
    answer = next(iter(query(source, sql)))["count"]  # counted here
    seconds = cpu_seconds(lambda: query(source, sql), 15)
    verdict = (
        "" if columns < COLUMNS[-1] else "  target 50 ms: " + ("yes" if seconds <= TARGET else "NO")
    )
    return (
        f"{columns:>8}{2**columns:>8,}  {name:<12}{1000 * seconds:>8.1f}   {answer.value:,.0f} "
        f"± {answer.stderr:,.0f}{verdict}"
    )


if __name__ == "__main__":
    main()
