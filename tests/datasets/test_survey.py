"""The synthetic survey: inside its domain, repeatable, and with the dependencies it promises."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sfumato.datasets.survey import survey
from sfumato.domain import Domain, Numeric
from sfumato.errors import ParameterError
from sfumato.memory import memory
from sfumato.randomness import seeded

ROWS = 50_000


@pytest.fixture(scope="module")
def people() -> dict[str, NDArray[np.float64]]:
    """Codes of the categories and the numbers themselves."""
    table, domain = survey(ROWS, seeded(7))
    return {
        attribute.name: table[attribute.name].to_numpy()
        if isinstance(attribute, Numeric)
        else attribute.encode(table[attribute.name]).astype(float)
        for attribute in domain
    }


def log_odds_ratio(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, float]:
    """The log odds ratio of two yes/no columns and its standard error (Woolf)."""
    cells = np.bincount(2 * first.astype(int) + second, minlength=4)
    return float(np.log(cells) @ [1, -1, -1, 1]), float(np.sqrt((1 / cells).sum()))


def g_statistic(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """2 N times the mutual information: chi-squared when the columns are independent."""
    table = np.histogram2d(first, second, bins=(int(first.max()) + 1, int(second.max()) + 1))[0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(2 * (table * np.log(np.where(table > 0, table / expected, 1))).sum())


def test_every_row_fits_its_domain_and_survives_coding() -> None:
    table, domain = survey(2_000, seeded(1))
    for attribute in domain:
        codes = attribute.encode(table[attribute.name])
        assert attribute.decode(codes).to_pylist() == table[attribute.name].to_pylist()
    assert Domain.from_toml(domain.to_toml()) == domain


def test_whole_numbers_are_whole() -> None:
    table, _ = survey(10, seeded(1))
    assert pa.types.is_integer(table.schema.field("age").type)
    assert pa.types.is_integer(table.schema.field("systolic").type)
    assert pa.types.is_floating(table.schema.field("bmi").type)


def test_same_seed_same_people_other_seed_other_people() -> None:
    first, again, other = (survey(500, seeded(seed)).table for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize(
    ("cause", "effect", "size"),
    [
        (("bmi", 30), ("diabetes", 1), 0.8),
        (("age", 60), ("diabetes", 1), 0.8),
        (("age", 60), ("systolic", 140), 2.0),
        (("bmi", 30), ("systolic", 140), 1.2),
        (("exercise", 1), ("bmi", 30), -1.2),
        (("income", 1), ("smoker", 1), -1.0),
        (("income", 2), ("depression", 1), -1.5),
        (("sex", 1), ("depression", 1), -1.0),
        (("diabetes", 1), ("depression", 1), 0.8),
        (("smoker", 1), ("exercise", 1), -1.3),
    ],
)
def test_dependencies_are_there(
    people: dict[str, NDArray[np.float64]],
    cause: tuple[str, float],
    effect: tuple[str, float],
    size: float,
) -> None:
    """The odds ratio has the stated sign by many standard errors and is of the stated size, half to
    twice.
    """
    ratio, stderr = log_odds_ratio(people[cause[0]] >= cause[1], people[effect[0]] >= effect[1])
    assert abs(ratio) > 5 * stderr
    assert 0.5 < ratio / size < 2


def test_what_has_no_arrow_is_independent(people: dict[str, NDArray[np.float64]]) -> None:
    """Sex and region have no common ancestor: G is chi-squared with 3 degrees of freedom, above 32
    once in 2 million.
    """
    assert g_statistic(people["sex"], people["region"]) < 32
    assert g_statistic(people["income"], people["region"]) > 500


def test_shares_are_those_of_a_population(people: dict[str, NDArray[np.float64]]) -> None:
    shares = {name: people[name].mean() for name in ("sex", "smoker", "diabetes", "depression")}
    low, high = (
        {"sex": 0.48, "smoker": 0.2, "diabetes": 0.05, "depression": 0.1},
        {"sex": 0.5, "smoker": 0.3},
    )
    assert all(low[name] < share < high.get(name, 0.2) for name, share in shares.items())
    assert 0.15 < (people["bmi"] >= 30).mean() < 0.3


def test_no_rows_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 1 row"):
        survey(0, seeded(1))


def test_the_survey_of_a_seed_stays_what_it_is() -> None:
    """The README and the demo tell its figures: whoever changes it changes them."""
    table, _ = survey(2000, seeded(11))
    text = repr(table.to_pydict()).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "e2dc510f4b46a880"


def test_more_people_than_memory_holds_are_refused_with_how_many_fit() -> None:
    """Once: 'there is not enough memory for this', or the machine killed the command."""
    if memory() is None:
        pytest.skip("this system does not say how much memory it has")
    with pytest.raises(ParameterError, match=r"100,000,000,000 people take .* GB") as refused:
        survey(100_000_000_000, seeded(1))
    assert "fit; make several files" in (refused.value.hint or "")
