"""The path from a plan to what is found: random schemas and wishes, the command that a plan prints,
and the errors of the release that it makes beside those foretold.

People are drawn as a plan takes them: columns independent; for itemsets one value of each column at
the share that makes the support asked about, the others even; else all values even.
"""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.domain import Attribute, Category, Domain, Numeric
from sfumato.mine.cube import query
from sfumato.plan.workload import _halves
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, perturb
from sfumato.release import open as open_release
from sfumato.table import Table

SUPPORT = 0.02
SETS = 6  # sets of columns that each release is asked about
GAMMAS = (3, 5, 9, 19, 50, 100)


@dataclass(frozen=True)
class Wish:
    """A schema, people, a promise and what will be asked."""

    domain: Domain
    rows: int
    gamma: float
    purpose: str
    length: int
    seed: int

    @classmethod
    def drawn(cls, seed: int, purpose: str, most_rows: int = 200_000) -> Wish:
        """A random wish: words, numbers in even bins, now and then a public column."""
        rng = np.random.default_rng(seed)
        several = purpose in ("itemsets", "pairs", "classes")
        numbers = purpose in ("means", "quantiles", "ranges")
        count = int(rng.integers(2 if several else 1, 6))
        columns: list[Attribute] = [
            _word(f"w{place}", int(rng.integers(2, rng.choice([4, 9])))) for place in range(count)
        ]
        for place in range(int(rng.integers(1 if numbers else 0, 3))):
            columns.append(_number(f"n{place}", int(2 ** rng.integers(1, 4))))
        if rng.random() < 0.3:
            columns.append(Category("known", ("no", "yes"), public=True))
        rows = int(np.exp(rng.uniform(np.log(500), np.log(most_rows))))
        length = int(rng.integers(1, min(3, len(columns) - 1, count) + 1))
        return cls(Domain(tuple(columns)), rows, float(rng.choice(GAMMAS)), purpose, length, seed)

    @property
    def words(self) -> str:
        """What is typed after the schema."""
        line = f"--rows {self.rows} --gamma {self.gamma:g} --for {self.purpose}"
        if self.purpose == "itemsets":
            line += f" --length {self.length}"
        if self.purpose == "pairs":
            (a, b), *_ = combinations(self.domain.private.names, 2)
            line += f" --pairs {a}+{b}"
        return line

    def people(self, special: dict[str, int]) -> Table:
        """So many people; with a special value, of this column each has it with the share that the
        support asked about takes.
        """
        rng, rare = np.random.default_rng(self.seed), SUPPORT ** (1 / self.together)
        return Table(
            self.domain,
            tuple(self._column(a, special.get(a.name), rare, rng) for a in self.domain),
        )

    def _column(
        self, column: Attribute, special: int | None, rare: float, rng: np.random.Generator
    ) -> np.ndarray:
        cells = _cells(column)
        shares = np.full(cells, 1 / cells)
        if special is not None:
            shares = np.full(cells, (1 - rare) / (cells - 1))
            shares[special] = rare
        elif self.purpose == "counts":  # half of the people above the middle
            above = np.arange(cells) >= cells // 2
            shares = np.where(above, 0.5 / above.sum(), 0.5 / (~above).sum())
        ends = np.rint(np.cumsum(shares) * self.rows).astype(int)
        codes = rng.permutation(np.repeat(np.arange(cells), np.diff(ends, prepend=0)))
        fine = column.size // cells
        return (codes * fine + rng.permutation(self.rows) % fine).astype(np.uint8)

    @property
    def together(self) -> int:
        """How many columns an answer is about."""
        return {"itemsets": self.length, "pairs": 2}.get(self.purpose, 1)


def _word(name: str, values: int) -> Category:
    return Category(name, tuple(f"v{place}" for place in range(values)))


def _number(name: str, bins: int) -> Numeric:
    """A number from 0 up in so many bins of eight values."""
    return Numeric(name, 0, 8 * bins - 1, cuts=tuple(range(8, 8 * bins, 8)))


def _cells(column: Attribute) -> int:
    return len(column.cuts or ()) + 1 if isinstance(column, Numeric) else column.size


def typed(line: str) -> str:
    """What a command line prints; it must succeed."""
    done = CliRunner().invoke(app, shlex.split(line.removeprefix("sfumato ")))
    assert done.exit_code == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Trial:
    """A plan in a folder, the release that its command makes, and what is found."""

    wish: Wish
    folder: Path

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as JSON; the data and their schema are written beside."""
        schema, table = self.folder / "schema.toml", self.wish.people({})
        table.domain.save(schema)
        labels = [
            column if isinstance(a, Numeric) else np.array(a.labels)[column]
            for a, column in zip(table.domain, table.columns, strict=True)
        ]
        rows = [",".join(map(str, row)) for row in zip(*labels, strict=True)]
        lines = [",".join(table.domain.names), *rows, ""]
        (self.folder / "data.csv").write_text("\n".join(lines))
        return dict(json.loads(typed(f"plan {schema} {self.wish.words} --json")))

    @property
    def best(self) -> dict[str, Any]:
        """What the plan recommends."""
        return dict(self.plan["mechanisms"][0])

    def released(self, command: str) -> Release:
        """What a printed command makes of the data."""
        output = self.folder / "perturbed.parquet"
        line = command.replace(" DATA ", f" {self.folder / 'data.csv'} ")
        typed(f"{line.replace('-o perturbed.parquet', f'-o {output}')} --force")
        return open_release(output)

    @cached_property
    def release(self) -> Release:
        """What the plan's best makes of the data."""
        return self.released(self.best["command"])

    def ratio(self, answers: int) -> float:
        """The root mean square error of so many answers, by the one foretold; people are perturbed
        thirty times at least.
        """
        mechanism, errors, repeat = self.release.mechanism, list[float](), 0
        rng = np.random.default_rng(self.wish.seed + 1)
        while repeat < 30 or len(errors) < answers:
            special = {
                a.name: int(rng.integers(_cells(a)))
                for a in self.wish.domain.private
                if self.wish.purpose in ("itemsets", "pairs")
            }
            table = self.wish.people(special)
            found = perturb(table.recode(mechanism.domain), mechanism, seeded(repeat))
            errors += ERRORS[self.wish.purpose](self.wish, found, Exact(table), special)
            repeat += 1
        return math.sqrt(np.mean(np.square(errors))) / float(self.best["error"])


def _supports(wish: Wish, found: Release, truth: Exact, special: dict[str, int]) -> list[float]:
    sets = list(combinations(special, wish.together))
    step = max(1, len(sets) // SETS)  # others in every release
    chosen = sets[:1] if wish.purpose == "pairs" else sets[sum(special.values()) % step :: step]
    cells = [(names, tuple(special[name] for name in names)) for names in chosen]
    off = [found.marginal(n).value[at] - truth.marginal(n).value[at] for n, at in cells]
    return [each / wish.rows / SUPPORT for each in off]


def _classes(wish: Wish, found: Release, truth: Exact, special: dict[str, int]) -> list[float]:
    *others, target = wish.domain.private.names
    off = list[float]()
    for other in others:
        names = [other, target]
        shares = truth.marginal(names).value / wish.rows
        estimates = found.marginal(names).value / wish.rows
        off.append(math.sqrt(np.mean(np.square((estimates - shares) * shares.size))))
    return off  # of each table one, for a plan counts them alike


def _counts(wish: Wish, found: Release, truth: Exact, special: dict[str, int]) -> list[float]:
    private, half = wish.domain.private, wish.rows / 2
    ordered = [a for a in private if isinstance(a, Numeric)] or list(private)
    halves = [_halves(found.mechanism.domain[a.name], a) for a in ordered]
    return [(float(found.marginal([part]).value[1]) - half) / half for part in halves]


def _means(wish: Wish, found: Release, truth: Exact, special: dict[str, int]) -> list[float]:
    numbers = [a for a in wish.domain.private if isinstance(a, Numeric)]
    asked = ", ".join(f"AVG({a.name}) AS {a.name}" for a in numbers)
    (row,), (true,) = (query(each, f"SELECT {asked} FROM t") for each in (found, truth))
    return [(row[a.name].value - true[a.name].value) / (a.max - a.min) for a in numbers]


ERRORS = {
    "itemsets": _supports,
    "pairs": _supports,
    "classes": _classes,
    "counts": _counts,
    "means": _means,
}
