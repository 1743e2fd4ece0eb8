"""95 % intervals over random queries on Adult at keep 0.3: a short run of `python -m
bench.coverage`, seed fixed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.coverage import QUICK_QUERIES, Outcome, coverage, outcomes

from sfumato.table import read

LEAST = 0.85  # of some 190 intervals at 95 %, fewer hold the truth less than once in a million runs


@pytest.fixture(scope="module")
def results(data_dir: Path) -> list[Outcome]:
    return list(outcomes(read(data_dir / "adult.csv.gz"), QUICK_QUERIES, seed=11))


def with_errors_scaled(results: list[Outcome], factor: float) -> list[Outcome]:
    return [
        replace(one, answer=replace(one.answer, stderr=factor * one.answer.stderr))
        for one in results
    ]


def mean_square(results: list[Outcome]) -> float:
    """Of the errors of counts in units of their standard errors: about 1 where these are right."""
    counts = [one for one in results if one.question.average is None]
    return float(
        np.mean([((one.answer.value - one.truth) / one.answer.stderr) ** 2 for one in counts])
    )


def test_intervals_hold_the_truth_as_often_as_they_say(results: list[Outcome]) -> None:
    assert len(results) > 170
    assert coverage(results) >= LEAST
    assert 0.5 < mean_square(results) < 1.9


def test_wrong_standard_errors_would_be_noticed(results: list[Outcome]) -> None:
    assert coverage(with_errors_scaled(results, 0.5)) < LEAST
    assert not 0.5 < mean_square(with_errors_scaled(results, 0.6)) < 1.9
    assert not 0.5 < mean_square(with_errors_scaled(results, 1.6)) < 1.9
