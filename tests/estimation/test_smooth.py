"""Laws of numbers behind windows: their derivatives and errors, and where people round."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels.window import Shape
from sfumato.domain import Domain, Numeric
from sfumato.estimation import grid_law, smooth
from sfumato.estimation.heaping import Heaping
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.table import Table

PAY = Numeric("pay", 0, 500_000)


def law(values: int = 30, **changed: object) -> grid_law._Penalised:
    shape = Shape(values=values, length=6, a=19, b=1)
    truth = np.exp(-(((np.arange(values) - values / 2) / 6) ** 2) / 2)
    counts = np.random.default_rng(1).multinomial(4000, shape.matrix @ (truth / truth.sum()))
    return grid_law._Penalised(counts.astype(float), shape, 3, **changed)  # type: ignore[arg-type]


def test_how_the_law_moves_is_its_derivative() -> None:
    found = law(spikes=(7,), heapings=(Heaping(4.0, 5.0), Heaping(0.3, 2.5)))
    at = np.random.default_rng(2).normal(0, 0.7, 33)
    design = found._design(at)
    for place, small in product(range(33), [1e-6]):
        moved = at.copy()
        moved[place] += small
        slope = (found._theta(moved) - found._theta(at)) / small
        assert np.allclose(slope, design[:, place], atol=1e-4), place


def test_people_who_round_are_a_share_of_all() -> None:
    """Half of them, where the coefficient is 0: the law is that of as many moved by hand."""
    found = law(heapings=(Heaping(4.0, 5.0),))
    masses = np.exp(found._theta(np.zeros(31)))
    inside = Heaping(4.0, 5.0).inside(30)
    assert inside.all()
    round_ = np.arange(30) % 5 == 4
    assert np.allclose(masses[inside & round_], 0.5 + 0.5 * 5)
    assert np.allclose(masses[inside & ~round_], 0.5)
    assert np.allclose(found._at_heapings(np.zeros(31))[inside & round_, 0], 2.5 / 3)


def test_errors_of_a_rougher_law_are_those_of_repeated_reports_and_what_is_smoothed_away() -> None:
    """H⁻¹(I + P·Σ·P)H⁻¹, written down densely."""
    found, taken = law(), grid_law._Held(50.0)
    squares, waves = grid_law._waves(30, 3)
    prior = found._prior(taken)
    told = np.random.default_rng(3).normal(size=(30, 60))
    told = told @ told.T
    spread = np.linalg.inv(told + prior)
    inverse = np.divide(1.0, squares, out=np.zeros(30), where=squares > 0)
    covariance = (waves * (inverse * grid_law.UNEVEN / (50.0 * grid_law.ROUGHER))) @ waves.T
    judged = spread @ (told + prior @ covariance @ prior) @ spread
    assert np.allclose(found._rougher(spread, taken), judged, rtol=1e-6, atol=1e-12)
    assert (np.diag(judged) < np.diag(spread)).all()


def asked_of(codes: np.ndarray, ends: list[int], seed: int) -> list[sf.Answer]:
    truth = Table(Domain((PAY,)), (codes.astype(np.uint32),))
    release = sf.perturb(truth, SquareWave.promising(Guarantee(19), truth.domain), seeded(seed))
    parts = [f"COUNT(*) FILTER (WHERE pay <= {end}) AS n{at}" for at, end in enumerate(ends)]
    (row,) = sf.query(release, f"SELECT {', '.join(parts)} FROM t")
    return [row[f"n{at}"] for at in range(len(ends))]


def pay(people: int, seed: int = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).lognormal(np.log(120_000), 0.6, people)
    return np.minimum(drawn, 500_000)


def test_who_rounds_to_ten_thousand_is_counted_there() -> None:
    """A tooth lies between two values of the grid: its people were spread over both steps, so that
    shares which end at a round number were too low, one and all, and their errors had to cover it.
    """
    codes = np.rint(pay(30_000) / 10_000) * 10_000
    ends, off, errors = [60_000, 90_000, 120_000, 150_000, 200_000], [], []
    for seed in range(5):
        found = asked_of(codes, ends, seed)
        errors += [answer.stderr for answer in found]
        true = [(codes <= end).sum() for end in ends]
        off += [(a.value - t) / a.stderr for a, t in zip(found, true, strict=True)]
    assert np.abs(off).max() < 3 and abs(np.mean(off)) < 0.8
    assert np.mean(errors) < 0.015 * 30_000  # 0.019 as they were


def test_whole_thousands_are_held_though_no_grid_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """400,000 people have whole thousands, the grid has 1,961: a share that ends at one counts
    everyone there, and the smooth law half of them.
    """
    codes = np.rint(pay(400_000) / 1000) * 1000
    ends = [80_000, 100_000, 120_000, 140_000]

    def off() -> list[float]:
        found = asked_of(codes, ends, 2)
        return [(a.value - (codes <= e).sum()) / a.stderr for a, e in zip(found, ends, strict=True)]

    assert np.abs(off()).max() < 2
    monkeypatch.setattr(smooth, "ROUNDED", 0.0)
    assert np.abs(off()).max() > 2


def test_smooth_numbers_are_as_sure_as_their_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut far from any round number: what may be between two values of the grid is small beside
    the noise (and was as large, since it might have been heaps).
    """
    codes = np.rint(pay(48_842, 4))
    (found,) = asked_of(codes, [87_263], 3)
    assert abs(found.value - (codes <= 87_263).sum()) < 3 * found.stderr
    monkeypatch.setattr(smooth, "ROUNDED", 0.0)
    monkeypatch.setattr(smooth, "OPEN", 0.0)
    (noise,) = asked_of(codes, [87_263], 3)
    assert found.stderr < 1.25 * noise.stderr
