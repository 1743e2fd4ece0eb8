"""A synthetic health survey: people whose age, habits, measurements and illnesses depend on one
another as in real life.

The model is a small Bayesian network, drawn parent before child:

    age, sex, region -> income -> smoker, exercise -> bmi -> systolic, diabetes -> depression

Its coefficients are round numbers of the size that population surveys report; nobody's record is
behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.datasets.nonuniform import choice, happens, normal, pick
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import ParameterError
from sfumato.memory import check_room
from sfumato.randomness import Keystream

Floats = NDArray[np.float64]


class Records(NamedTuple):
    """True records and their schema: `table, domain = survey(1000, rng)`."""

    table: pa.Table
    domain: Domain


People = dict[str, NDArray[Any]]  # by attribute: codes of a category, or the numbers themselves

SURVEY = Domain(
    (
        Numeric("age", 18, 90, cuts=(30, 45, 60, 75)),
        Category("sex", ("female", "male")),
        Category("region", ("north", "east", "south", "west")),
        Category("income", ("low", "middle", "high")),
        Category("smoker", ("no", "yes")),
        Category("exercise", ("none", "some", "regular")),
        Numeric("bmi", 15.0, 50.0, cuts=(18.5, 25.0, 30.0), step=0.1),
        Numeric("systolic", 80, 220, cuts=(120, 140, 160)),
        Category("diabetes", ("no", "yes")),
        Category("depression", ("no", "yes")),
    ),
    title="Synthetic health survey",
)

DRAWN = 256  # bytes of one person while all are drawn
_REGION_SHARES = np.array([0.22, 0.18, 0.35, 0.25])
_REGION_WEALTH = np.array(
    [-0.3, -0.1, 0.4, 0.0]
)  # what a region adds to the log odds of a higher income


def survey(rows: int, rng: Keystream) -> Records:
    """A population of that many people with the dependencies of a health survey; a seeded keystream
    repeats it.

    >>> from sfumato.randomness import seeded
    >>> table, domain = survey(1000, seeded(1))
    >>> table.num_rows, domain.names[:3]
    (1000, ('age', 'sex', 'region'))
    """
    if rows < 1:
        raise ParameterError(f"a survey needs at least 1 row, found {rows}")
    check_room(rows, DRAWN, "people")
    people = _origins(rows, rng)
    people |= _habits(people, rng)
    people |= _measurements(people, rng)
    people |= _illnesses(people, rng)
    return Records(
        pa.table([_column(name, people[name]) for name in SURVEY.names], names=list(SURVEY.names)),
        SURVEY,
    )


def _origins(rows: int, rng: Keystream) -> People:
    ages = np.arange(18, 91)
    age = ages[
        choice(rng, 1 / (1 + np.exp((ages - 72) / 8)), rows)
    ]  # a flat pyramid that thins out from 60 on
    sex = happens(rng, np.full(rows, 0.49)).astype(np.int64)
    region = choice(rng, _REGION_SHARES, rows)
    working = np.exp(-(((age - 48) / 22) ** 2))
    wealth = -0.6 + 1.1 * working + 0.35 * sex + _REGION_WEALTH[region]
    income = pick(rng, np.exp(np.outer(wealth, [0, 1, 2]) - [0, 0, 0.9]))
    return {"age": age, "sex": sex, "region": region, "income": income}


def _habits(people: People, rng: Keystream) -> People:
    age, sex, income = people["age"], people["sex"], people["income"]
    smoker = happens(rng, _logistic(-0.5 + 0.4 * sex - 0.65 * income - 0.0009 * (age - 45) ** 2))
    effort = 0.5 + 0.45 * income - 0.022 * (age - 45) - 0.7 * smoker
    exercise = pick(rng, np.exp(np.outer(effort, [0, 1, 2]) - [0, 0.1, 1.1]))
    return {"smoker": smoker.astype(np.int64), "exercise": exercise}


def _measurements(people: People, rng: Keystream) -> People:
    age, sex, smoker, exercise = people["age"], people["sex"], people["smoker"], people["exercise"]
    mean = (
        25.6
        + 3.4 * np.exp(-(((age - 60) / 25) ** 2))
        + 0.5 * sex
        - 0.9 * people["income"]
        - 1.7 * exercise
        - smoker
    )
    bmi = (
        mean + 4.1 * normal(rng, len(age)) + 1.6 * np.abs(normal(rng, len(age)))
    )  # a longer tail to the heavy side
    bmi = np.round(bmi.clip(15, 50), 1)
    pressure = (
        84 + 0.5 * age + 0.95 * (bmi - 15) + 5 * sex + 4 * smoker + 12 * normal(rng, len(age))
    )
    return {"bmi": bmi, "systolic": np.rint(pressure.clip(80, 220)).astype(np.int64)}


def _illnesses(people: People, rng: Keystream) -> People:
    age, bmi, exercise = people["age"], people["bmi"], people["exercise"]
    diabetes = happens(
        rng, _logistic(-2.7 + 0.045 * (age - 45) + 0.13 * (bmi - 25) - 0.35 * exercise)
    )
    burden = -0.9 - 0.7 * people["sex"] - 0.5 * people["income"] - 0.35 * exercise + 0.7 * diabetes
    depression = happens(rng, _logistic(burden + 0.5 * people["smoker"]))
    return {"diabetes": diabetes.astype(np.int64), "depression": depression.astype(np.int64)}


def _logistic(log_odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-log_odds))


def _column(name: str, values: NDArray[Any]) -> pa.Array:
    attribute = SURVEY[name]
    return attribute.decode(values) if isinstance(attribute, Category) else pa.array(values)
