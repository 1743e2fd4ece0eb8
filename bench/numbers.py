"""Means and quartiles of Adult's numbers at γ = 19 from one report a person, retention against
windows, and whether their intervals cover: `python -m bench.numbers [SEEDS [FILE]]`.

Every release goes through the real client's integers and every answer through SQL. Errors are root
mean squares over the seeds; `held` counts intervals of 95 % that hold the truth. The peer is
retention replacement on the same grid (256 values where the column has more), the whole guarantee
on one column. Targets: means at most 0.5 times, quartiles (geometric mean) at most 0.7 times.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.csv

from sfumato.domain import Domain, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.piecewise import Piecewise
from sfumato.mechanisms.retention import Retention
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.mechanisms.windows import FINEST
from sfumato.mine.cube import query
from sfumato.plan import plan_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.source import perturb
from sfumato.table import Table

SEEDS = 10
COLUMNS = {
    "age": (17, 90),
    "fnlwgt": (0, 500_000),
    "hours_per_week": (1, 99),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
}
QUARTILES = (0.25, 0.5, 0.75)
PEOPLE = 48_842
HEADING = """# Means and quartiles of numbers: the figures

Written by `python -m bench.numbers 40 docs/figures/numbers.md`: Adult's numbers, one report a
person at gamma 19, the whole guarantee on one column. Ratios are to retention on the same grid;
that of the quartiles is a geometric mean, an error below a tenth of a step of the grid being that.
Goals: means at most 0.5 times and quartiles at most 0.7 times on age, fnlwgt and hours; what the
plan picks at most 1.1 times on education_num and capital_gain.
"""
DATA = Path(os.environ.get("SFUMATO_DATA", "../shared/data")) / "adult.csv.gz"


def truth_of(name: str) -> Table:
    """One column of Adult, clipped to its range."""
    low, high = COLUMNS[name]
    numbers = pyarrow.csv.read_csv(DATA).column(name).to_numpy()
    codes = np.clip(numbers, low, high) - low
    return Table(Domain((Numeric(name, low, high),)), (codes.astype(np.uint32),))


def on_grid(truth: Table) -> Table:
    """The same on at most 256 values, as the peer takes it."""
    number, codes = truth.domain.attributes[0], truth.columns[0]
    assert isinstance(number, Numeric) and isinstance(codes, np.ndarray)
    if number.size <= FINEST:
        return truth
    step = (number.max - number.min) / (FINEST - 1)
    coarse = Numeric(number.name, float(number.min), float(number.max), step=step)
    rounded = np.rint(codes / step).astype(np.uint32)
    return Table(Domain((coarse,)), (rounded,))


def judged(truth: Table, mechanism: Mechanism, wanted: np.ndarray, seeds: int) -> np.ndarray:
    """(seeds, 4, 2): the error of the mean and of each quartile, and whether its interval held."""
    name = truth.domain.names[0]
    shares = ", ".join(
        f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {name}) AS q{place}"
        for place, share in enumerate(QUARTILES)
    )
    sql = f"SELECT AVG({name}) AS mean, {shares} FROM t"
    found = np.zeros((seeds, 4, 2))
    for seed in range(seeds):
        row = next(iter(query(perturb(truth, mechanism, seeded(seed)), sql)))
        for place, key in enumerate(("mean", "q0", "q1", "q2")):
            low, high = row[key].interval(0.95)
            found[seed, place] = row[key].value - wanted[place], low <= wanted[place] <= high
    return found


def main() -> None:
    """Print a line for each column and mechanism."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    head = f"γ = 19, {seeds} seeds; root mean square error (intervals that held the truth)"
    lines = [head, f"{'':27}{'mean':>16}" + "".join(f"{q:>16}" for q in QUARTILES)]
    print("\n".join(lines))
    for name in COLUMNS:
        lines += _compared(name, seeds)
        if len(sys.argv) > 2:
            body = "\n".join([HEADING, "```", *lines, "```", ""])
            Path(sys.argv[2]).write_text(body, encoding="utf-8")


def _compared(name: str, seeds: int) -> list[str]:
    """The lines of one column; what the plan picks is marked."""
    lines = []
    truth = truth_of(name)
    number, codes = truth.domain.attributes[0], np.asarray(truth.columns[0])
    assert isinstance(number, Numeric)
    numbers = number.numbers(codes).astype(np.float64)
    wanted = np.array([numbers.mean(), *np.quantile(numbers, QUARTILES)])
    base = None
    for kind in (Retention, Piecewise, SquareWave):
        records = on_grid(truth) if kind is Retention else truth
        mechanism = kind.promising(Guarantee(19), records.domain)
        found = judged(records, mechanism, wanted, seeds)
        errors = np.sqrt((found[..., 0] ** 2).mean(axis=0))
        base = errors if base is None else base
        least = (number.max - number.min) / min(number.size - 1, FINEST - 1) / 10
        ratios = errors[0] / base[0], _geometric(errors[1:], base[1:], least)
        picked = [p for p in ("means", "quantiles") if _picked(truth.domain, p) == kind.name]
        marks = f"  the plan's for {' and '.join(picked)}" if picked else ""
        held = found[..., 1].sum(axis=0)
        lines.append(_line(name, kind.name, errors, held, ratios) + marks)
        print(lines[-1], flush=True)
    return lines


def _picked(domain: Domain, purpose: str) -> str:
    return plan_release(domain, PEOPLE, guarantee=Guarantee(19), purpose=purpose).best.name


def _geometric(errors: np.ndarray, base: np.ndarray, least: float) -> float:
    """The geometric mean of the ratios; an error below a tenth of a step of the grid is that."""
    ratios = np.maximum(errors, least) / np.maximum(base, least)
    return math.exp(float(np.log(ratios).mean()))


def _line(
    name: str, kind: str, errors: np.ndarray, held: np.ndarray, ratios: tuple[float, float]
) -> str:
    shown = "".join(f"{e:>11.4g} ({int(h):>2})" for e, h in zip(errors, held, strict=True))
    return f"{name:<15}{kind:<12}{shown}   mean ×{ratios[0]:.2f}  quartiles ×{ratios[1]:.2f}"


if __name__ == "__main__":
    main()
