"""Columns of numbers by a written-down generator, and what each part of the law of a number earns
on them: `python -m bench.number_laws [SEEDS] [--without PART] [--first SEED] [--keep DIR]`.

Five kinds of columns (smooth, heaped, zero-inflated, bimodal, spiked), each drawn anew for every
seed on a range of 100, 1,000 or 100,000 steps; 5,000 and 50,000 people; gamma 19 and epsilon 1;
piecewise and square-wave in turn. Judged by the shares at or below cuts between the 5th and the
95th percentile (half of them at round numbers, where people ask), by the quartiles, and by the
mean: root mean square error, width of the 95 % intervals, and how many held the truth. Errors and
widths are in hundredths of the column's own standard deviation (shares: of the people).

A part of the law is left out by name (`PARTS`). No constant was chosen on these columns. Figures:
docs/figures/number_laws.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.domain import Domain, Numeric, code_dtype
from sfumato.estimation import grid_law
from sfumato.mechanisms.piecewise import Piecewise
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.mine.cube import query
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import perturb
from sfumato.table import Table

SEEDS, CUTS = 12, 8
# What each part of the law is without it: constants of `estimation/grid_law`.
PARTS: dict[str, dict[str, object]] = {
    "orders": {"ORDERS": (2,)},  # second differences alone
    "heaps": {"UNLIKE": -1e9, "RARE": 1e9},  # every value's own amount
    "rougher": {"ROUGHER": 1.0, "UNEVEN": 1.0},  # the λ of the evidence as it is
    "hidden": {"HIDDEN": 1e-6, "FEW": 0.0},  # people whom the law leaves out
}
Key = tuple[str, int, str, str]  # kind, people, gamma, what is asked for
RANGES = (100, 1_000, 100_000)
PEOPLE = (5_000, 50_000)
GAMMAS = {"19": 19.0, "e": math.e}
QUARTILES = (0.25, 0.5, 0.75)
Draw = Callable[[np.random.Generator, int], np.ndarray]  # places in [0, 1]


def _bell(rng: np.random.Generator, people: int) -> np.ndarray:
    """One of five smooth shapes: normal, log-normal, gamma, beta, exponential."""
    kind = rng.integers(5)
    if kind == 0:
        return rng.normal(rng.uniform(0.3, 0.7), rng.uniform(0.06, 0.2), people)
    if kind == 1:
        return rng.lognormal(math.log(rng.uniform(0.08, 0.35)), rng.uniform(0.25, 0.8), people)
    if kind == 2:
        return rng.gamma(shape := rng.uniform(1.5, 8), rng.uniform(0.2, 0.4) / shape, people)
    if kind == 3:
        return rng.beta(rng.uniform(0.8, 5), rng.uniform(0.8, 5), people)
    return rng.exponential(rng.uniform(0.06, 0.25), people)


def smooth(rng: np.random.Generator, people: int) -> np.ndarray:
    return _bell(rng, people)


def heaped(rng: np.random.Generator, people: int) -> np.ndarray:
    """A share of the people state a round number: of 2, 5, 10 or 20 hundredths of the range."""
    own = _bell(rng, people)
    for _ in range(rng.integers(1, 3)):
        unit, share = rng.choice([0.02, 0.05, 0.1, 0.2]), rng.uniform(0.1, 0.8)
        own = np.where(rng.random(people) < share, np.rint(own / unit) * unit, own)
    return own


def zeros(rng: np.random.Generator, people: int) -> np.ndarray:
    """From 20 to 95 % have nothing."""
    own = _bell(rng, people)
    return np.where(rng.random(people) < rng.uniform(0.2, 0.95), 0.0, own)


def bimodal(rng: np.random.Generator, people: int) -> np.ndarray:
    low = rng.normal(rng.uniform(0.15, 0.35), rng.uniform(0.03, 0.1), people)
    high = rng.normal(rng.uniform(0.6, 0.85), rng.uniform(0.03, 0.1), people)
    return np.where(rng.random(people) < rng.uniform(0.25, 0.75), low, high)


def spiked(rng: np.random.Generator, people: int) -> np.ndarray:
    """One to four numbers, round or not, that 5 to 40 % have each, beside a smooth rest."""
    own, left = _bell(rng, people), rng.random(people)
    for _ in range(rng.integers(1, 5)):
        place = rng.uniform(0.05, 0.95)
        place = round(place, 1) if rng.random() < 0.5 else round(place, 2)
        share = rng.uniform(0.05, 0.4)
        own = np.where(left < share, place, own)
        left = np.where(left < share, 2, left - share)
    return own


COLUMNS: dict[str, Draw] = {
    "smooth": smooth,
    "heaped": heaped,
    "zeros": zeros,
    "bimodal": bimodal,
    "spiked": spiked,
}


@dataclass(frozen=True)
class World:
    """One column and how it is asked for."""

    kind: str
    people: int
    gamma: str
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """Another stream for each world."""
        parts = [[*COLUMNS].index(self.kind), self.people, [*GAMMAS].index(self.gamma), self.seed]
        return np.random.default_rng(parts)

    def table(self) -> Table:
        """The column, on a range that changes with the seed."""
        size, rng = RANGES[self.seed % len(RANGES)], self.rng
        codes = np.clip(np.rint(COLUMNS[self.kind](rng, self.people) * size), 0, size)
        column = codes.astype(code_dtype(size + 1))
        return Table(Domain((Numeric("x", 0, size),)), (column,))

    def judged(self) -> dict[str, np.ndarray]:  # (answers, 3) each
        """Error, width and whether it held, of the mean, the quartiles and the shares."""
        table = self.table()
        numbers = np.asarray(table.columns[0]).astype(np.float64)
        kind = (Piecewise, SquareWave)[self.seed // len(RANGES) % 2]
        mechanism = kind.promising(Guarantee(GAMMAS[self.gamma]), table.domain)
        release = perturb(table, mechanism, seeded(self.seed))
        cuts = self._cuts(numbers, table.domain.attributes[0].size - 1)
        asked = {
            "mean": ["AVG(x)"],
            "quartiles": [f"PERCENTILE_CONT({q}) WITHIN GROUP (ORDER BY x)" for q in QUARTILES],
            "shares": [f"COUNT(*) FILTER (WHERE x <= {cut})" for cut in cuts],
        }
        scale = max(float(numbers.std()), 1e-9)
        truth = {
            "mean": [numbers.mean()],
            "quartiles": np.quantile(numbers, QUARTILES),
            "shares": [(numbers <= cut).sum() for cut in cuts],
        }
        found = {}
        for name, parts in asked.items():
            listed = ", ".join(f"{part} AS a{place}" for place, part in enumerate(parts))
            row = next(iter(query(release, f"SELECT {listed} FROM t")))
            answers = [row[f"a{place}"] for place in range(len(parts))]
            low, high = np.transpose([answer.interval(0.95) for answer in answers])
            true = np.asarray(truth[name], dtype=np.float64)
            away = np.array([answer.value for answer in answers]) - true
            unit = 100 / (self.people if name == "shares" else scale)
            slack = 1e-9 * max(1.0, float(np.abs(true).max()))
            held = (low <= true + slack) & (true <= high + slack)
            found[name] = np.stack([away * unit, (high - low) * unit, held], axis=1)
        return found

    def _cuts(self, numbers: np.ndarray, size: int) -> list[int]:
        """Where shares are asked for: half at round numbers, half anywhere, none at an end."""
        low, high = np.quantile(numbers, [0.05, 0.95])
        rng = np.random.default_rng([7, self.seed])
        drawn = rng.uniform(low, high, CUTS)
        drawn[::2] = np.rint(drawn[::2] / size * 20) * size / 20
        return [int(cut) for cut in np.clip(np.rint(drawn), 0, size - 1)]


def measured(
    seeds: int, first: int, keep: Path | None
) -> dict[tuple[str, int, str, str], np.ndarray]:
    """Root mean square error, mean width and share held, for each kind, people, gamma and what is
    asked for; with a folder what was found of each world is kept there.
    """
    found: dict[Key, list[np.ndarray]] = {}
    for kind in COLUMNS:
        for people in PEOPLE:
            for gamma in GAMMAS:
                for seed in range(first, first + seeds):
                    for name, rows in _kept(World(kind, people, gamma, seed), keep).items():
                        found.setdefault((kind, people, gamma, name), []).append(rows)
    return {key: np.concatenate(rows) for key, rows in found.items()}


def _kept(world: World, folder: Path | None) -> dict[str, np.ndarray]:
    if folder is None:
        return world.judged()
    path = folder / f"{world.kind}-{world.people}-{world.gamma}-{world.seed}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, **world.judged())
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def summary(rows: np.ndarray) -> tuple[float, float, float]:
    """Root mean square error, mean width, per cent held."""
    return (
        float(np.sqrt((rows[:, 0] ** 2).mean())),
        float(rows[:, 1].mean()),
        100 * float(rows[:, 2].mean()),
    )


def lines(found: dict[Key, np.ndarray]) -> list[str]:
    """A line for each kind of column, people and gamma."""
    names = ("mean", "quartiles", "shares")
    shown = [f"{'':26}" + "".join(f"{name + ': error  width  held %':>32}" for name in names)]
    for kind, people, gamma in dict.fromkeys(key[:3] for key in found):
        parts = [summary(found[kind, people, gamma, name]) for name in names]
        row = "".join(f"{e:>18.3g}{w:>7.3g}{h:>7.1f}" for e, w, h in parts)
        shown.append(f"{kind:<9}{people:>7,}  γ {gamma:<5}{row}")
    every = {
        name: summary(np.concatenate([rows for key, rows in found.items() if key[3] == name]))
        for name in names
    }
    row = "".join(f"{e:>18.3g}{w:>7.3g}{h:>7.1f}" for e, w, h in every.values())
    return [*shown, f"{'all':<25}{row}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="laws of a number on generated columns")
    parser.add_argument("seeds", type=int, nargs="?", default=SEEDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for what was found of each world")
    parser.add_argument("--without", choices=sorted(PARTS), action="append", default=[])
    options = parser.parse_args()
    for part in options.without:
        for name, value in PARTS[part].items():
            setattr(grid_law, name, value)
    print("\n".join(lines(measured(options.seeds, options.first, options.keep))))


if __name__ == "__main__":
    main()
