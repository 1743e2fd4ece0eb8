"""A query over perturbed rows beside the plain COUNT with the same WHERE and GROUP BY, on DuckDB:
`python -m bench.cube`.

Ours is the whole of `sfumato.query`: parsing, one counting statement, reconstruction and standard
errors. Plain is the engine's own answer to the same text, which is what the perturbed table says,
not what is true. Both run over the same connection with the same threads, turn by turn, and are
timed in CPU seconds, the best of a few turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.counting.sql import SqlCounter
from sfumato.domain import Category, Cells, Domain, Numeric
from sfumato.engines import save_release
from sfumato.engines.duckdb import DuckDatabase, DuckRelation, file_relation
from sfumato.mechanisms.retention import Retention
from sfumato.mine.cube import query
from sfumato.mine.cube.statement import _read
from sfumato.randomness import secure
from sfumato.release import Release
from sfumato.table import Table, perturb_table, reader_of

ROWS = 10_000_000
TURNS = 15
TARGETS = {1: 1.5, 2: 1.5, 4: 1.5, 8: 3.0}
NUMBERS = tuple(Numeric(f"n{place}", 0, 99) for place in range(8))
GROUPS = Category("town", ("Aachen", "Bonn", "Cologne", "Dortmund"))
DOMAIN = Domain((*NUMBERS, GROUPS))


@dataclass(frozen=True)
class Line:
    """One query: its CPU milliseconds, asked first, again in other words (its conditions in another
    order, its text read anew) and again in the same words, and those of the plain count.
    """

    what: str
    columns: int
    ours: float
    reworded: float
    again: float
    plain: float

    def __str__(self) -> str:
        ratio, target = self.ours / self.plain, TARGETS[self.columns]
        met = "yes" if ratio <= target else "NO"
        return (
            f"{self.what:<38}{self.ours:>9.0f} ms{self.plain:>9.0f} ms{ratio:>8.2f}  "
            f"{target:<8}{met:<5}{self.reworded:>6.1f} ms{self.reworded / self.plain:>8.2f}"
            f"{self.again:>6.1f} ms{self.again / self.plain:>8.2f}"
        )


def released(rows: int) -> Release:
    """Records whose columns are unevenly spread, perturbed at keep 0.3."""
    rng = np.random.default_rng(1)
    columns = [np.minimum(rng.gamma(3.0, 12.0, rows), 99).astype(np.uint8) for _ in NUMBERS]
    return Release.of(
        perturb_table(
            Table(DOMAIN, (*columns, rng.integers(0, 4, rows))), Retention(DOMAIN, 0.3), secure()
        )
    )


@dataclass(frozen=True)
class Question:
    """k ranges, or k - 1 ranges grouped by town."""

    k: int
    by_town: bool

    @property
    def what(self) -> str:
        return f"{self.k - 1} ranges by town" if self.by_town else f"{self.k} ranges"

    @property
    def sql(self) -> str:
        return self._text(list(range(self.by_town, self.k)))

    @property
    def reworded(self) -> str:
        """The same, its conditions from the last to the first."""
        return self._text(list(range(self.by_town, self.k))[::-1]).replace("SELECT", "select")

    def _text(self, places: list[int]) -> str:
        ranges = " AND ".join(f"n{place} BETWEEN 20 AND 55" for place in places)
        where = f" WHERE {ranges}" if places else ""
        if self.by_town:
            return f"SELECT town, COUNT(*) FROM release{where} GROUP BY town"
        return f"SELECT COUNT(*) FROM release{where}"


def questions() -> Iterator[Question]:
    """What is asked."""
    for k in TARGETS:
        yield from (Question(k, False), Question(k, True))


def compared(where: str, relation: DuckRelation, release: Release) -> Iterator[Line]:
    """Every question, asked of this relation, whose rows were looked at when it was opened."""
    counter = SqlCounter(release.mechanism.reports, relation, release.table.rows)
    counter.count([])
    for question in questions():
        asked = Release(counter, release.provenance)  # whoever asks twice holds it

        def ours(question: Question = question) -> None:
            _read.cache_clear()
            query(Release(counter, release.provenance), question.sql)

        def reworded(question: Question = question, asked: Release = asked) -> None:
            _read.cache_clear()
            query(asked, question.reworded)

        def again(question: Question = question, asked: Release = asked) -> None:
            query(asked, question.reworded)

        def plain(question: Question = question) -> None:
            # Handed out as ours is: one row sooner than a table.
            (relation.fetch if question.by_town else relation.row)(question.sql)

        query(asked, question.sql)
        yield Line(f"{where}, {question.what}", question.k, *best_of(ours, reworded, again, plain))


def best_of(*works: Callable[[], None]) -> list[float]:
    """The least CPU milliseconds of each, run in turns so that a busy machine slows them alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS):
        for work, spent in zip(works, times, strict=True):
            start = time.process_time()
            work()
            spent.append(1000 * (time.process_time() - start))
    return [min(spent) for spent in times]


def many_cells(relation: DuckRelation, release: Release) -> str:
    """Twelve questions at once beside one at a time."""
    pairs: list[list[Cells]] = [
        [
            NUMBERS[i].cells_by_cuts((25, 50, 75)),
            NUMBERS[i + 1].cells_by_cuts((25, 50, 75)),
            GROUPS.cells(),
        ]
        for i in range(6)
    ]
    counter = SqlCounter(release.mechanism.reports, relation, release.table.rows)
    together, apart = best_of(
        lambda: _drop(counter.count_many(pairs)),
        lambda: _drop([counter.count(cells) for cells in pairs]),
    )
    return f"6 tables of 64 cells: {together:.0f} ms in one statement, {apart:.0f} ms one by one"


def looked_at(where: str, relation: DuckRelation, release: Release) -> str:
    """What the first question pays once for a look at all columns of all rows."""
    (spent,) = best_of(
        lambda: _drop(SqlCounter(release.mechanism.reports, relation, release.table.rows).rows)
    )
    return f"{where}, a look at all columns, once: {spent:.0f} ms"


def _drop(result: object) -> None:
    """A result that nobody wants."""


def run(rows: int) -> None:
    """Print every comparison in one table."""
    print(
        f"{f'{rows:,} rows':<38}{'ours':>12}{'plain':>12}{'ratio':>8}  {'at most':<8}{'met':<5}"
        f"{'reworded':>9}{'ratio':>8}{'again':>9}{'ratio':>8}"
    )
    release = released(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        release.save(path)
        save_release(release, f"duckdb://{folder}/release.db#release")
        database = DuckDatabase.connect(Path(folder) / "release.db")
        parquet = file_relation(reader_of(path), release.mechanism.reports)
        for where, relation in (
            ("Parquet", parquet),
            ("DuckDB table", database.relation(database.resolve("release"))),
        ):
            print(looked_at(where, relation, release), flush=True)
            for line in compared(where, relation, release):
                print(line, flush=True)
        print(many_cells(parquet, release))
        database.close()


if __name__ == "__main__":
    run(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else ROWS)
