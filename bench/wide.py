"""Public data with many columns, as the benchmark of one report asks about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from papers.data_sets import CENSUS, read_table
from sfumato.datasets import Records
from sfumato.domain import Attribute, Category, Domain, Numeric

_YES_NO = ("0", "1")

_HEALTH: tuple[Attribute, ...] = (
    *(
        Category(name, _YES_NO)
        for name in (
            "Diabetes_binary",
            "HighBP",
            "HighChol",
            "Smoker",
            "PhysActivity",
            "DiffWalk",
            "Sex",
        )
    ),
    Numeric("GenHlth", 1, 5, cuts=(2, 3, 4, 5)),
    Numeric("PhysHlth", 0, 30, cuts=(1, 7, 15, 30)),
    Numeric("Age", 1, 13, cuts=(2, 5, 9, 13)),
    Numeric("Income", 1, 8, cuts=(4, 6, 8)),
    Numeric("BMI", 12, 98, cuts=(22, 27, 32)),
)
HEALTH_12 = Domain(_HEALTH, title="health survey, 12 columns (BRFSS 2015)")
HEALTH_17 = Domain(
    (
        *_HEALTH,
        Numeric("MentHlth", 0, 30, cuts=(1, 7, 15, 30)),
        Numeric("Education", 1, 6, cuts=(4, 5, 6)),
        *(
            Category(name, _YES_NO)
            for name in ("Stroke", "HeartDiseaseorAttack", "HvyAlcoholConsump")
        ),
    ),
    title="health survey, 17 columns (BRFSS 2015)",
)

_GROUPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "workclass": {
        "private": ("Private",),
        "self-employed": ("Self-emp-not-inc", "Self-emp-inc"),
        "government": ("Federal-gov", "Local-gov", "State-gov"),
    },
    "marital_status": {
        "married": ("Married-civ-spouse",),
        "never": ("Never-married",),
        "divorced or separated": ("Divorced", "Separated"),
    },
    "occupation": {
        "professional": ("Prof-specialty",),
        "manager": ("Exec-managerial",),
        "manual": ("Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners"),
        "office": ("Adm-clerical", "Sales"),
    },
    "relationship": {
        "husband": ("Husband",),
        "not in family": ("Not-in-family",),
        "own child": ("Own-child",),
        "unmarried": ("Unmarried",),
    },
}
_REST = "rest"


def _grouped(name: str) -> Category:
    return Category(name, (*_GROUPS[name], _REST))


ADULT_14 = Domain(
    (
        CENSUS["age"],
        _grouped("workclass"),
        CENSUS["fnlwgt"],
        Numeric("education_num", 1, 16, cuts=(9, 10, 13, 14)),
        _grouped("marital_status"),
        _grouped("occupation"),
        _grouped("relationship"),
        CENSUS["race"],
        CENSUS["sex"],
        Category("capital_gain", ("none", "some")),
        Category("capital_loss", ("none", "some")),
        CENSUS["hours_per_week"],
        CENSUS["native_country"],
        Category("income", ("<=50K", ">50K")),
    ),
    title="Adult, 14 columns",
)


def health_wide(columns: int = 12, directory: str | Path | None = None) -> Records:
    """The health survey with 12 or 17 columns: 253,680 people."""
    domain = {12: HEALTH_12, 17: HEALTH_17}[columns]
    return Records(read_table("health.csv.gz", directory).select(list(domain.names)), domain)


def adult_wide(directory: str | Path | None = None) -> Records:
    """Adult with 14 columns in few values each: 48,842 people."""
    people = read_table("adult.csv.gz", directory)
    columns = {name: _column(people, name) for name in ADULT_14.names}
    return Records(pa.table(columns), ADULT_14)


def _column(people: pa.Table, name: str) -> Any:
    if name in _GROUPS:
        place = {value: group for group, values in _GROUPS[name].items() for value in values}
        return pa.array([place.get(value, _REST) for value in people[name].to_pylist()])
    if name in ("capital_gain", "capital_loss"):
        return pa.array(np.where(people[name].to_numpy() > 0, "some", "none"))
    return people[name]
