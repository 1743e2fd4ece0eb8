"""The public data sets in the recodings of the papers: each loader gives the table and the domain
that goes with it.

The files are looked for in the directory given, else in the one that SFUMATO_DATA names, else in
../shared/data.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.datasets import Records
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import FileError, ParameterError, listing, near_miss

BASKETS = (
    "bms-webview-1",
    "bms-webview-2",
    "chess",
    "kosarak-25k",
    "mushroom",
    "retail",
    "t10i4d100k",
)

_AGE = Numeric("age", 15, 95, cuts=(35, 55, 75))
_HOURS = Numeric("hours_per_week", 0, 99, cuts=(20, 40, 60, 80))
_COUNTRY = Category("native_country", ("United-States", "Other"), other="Other")

CENSUS = Domain(
    (
        _AGE,
        Numeric("fnlwgt", 0, 1_500_000, cuts=(100_000, 200_000, 300_000, 400_000)),
        _HOURS,
        Category("race", ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")),
        Category("sex", ("Female", "Male")),
        _COUNTRY,
    ),
    title="CENSUS (FRAPP, table 1)",
)

EMPLOYMENTS = (
    "Private",
    "Self-emp-not-inc",
    "Self-emp-inc",
    "Federal-gov",
    "Local-gov",
    "State-gov",
    "Without-pay",
    "Never-worked",
)

SALARY = Domain(
    (
        _COUNTRY,
        _AGE,
        Category("workclass", EMPLOYMENTS),
        _HOURS,
        Category("income", ("<=50K", ">50K")),
    ),
    title="US CENSUS for classification (FRAPP, table 4)",
)

HEALTH = Domain(
    (
        Category("age", ("18-24", "25-39", "40-59", "60-79", "80+")),
        Numeric("physical_days", 0, 30, cuts=(1, 7, 15, 30)),
        Numeric("mental_days", 0, 30, cuts=(1, 7, 15, 30)),
        Category("access", ("no cover", "cost barrier", "no barrier")),
        Category("sex", ("female", "male")),
        Category("income", ("under 20,000", "20,000 or more")),
        Category("health", ("excellent", "very good", "good", "fair", "poor")),
    ),
    title="HEALTH (BRFSS 2015 in the shape of FRAPP, table 2)",
)


def data_directory(directory: str | Path | None = None) -> Path:
    """Where the data files are: as given, or SFUMATO_DATA, or ../shared/data."""
    return Path(directory or os.environ.get("SFUMATO_DATA") or Path("..", "shared", "data"))


def census(directory: str | Path | None = None) -> Records:
    """FRAPP's CENSUS: 48,842 people, six attributes, 2,000 cells once binned.

    Intervals are closed on the left as table 1 prints them ([15,35) …), which gives the frequent
    itemsets of its table 3. The numbers stay numbers, so other cuts can be asked for.
    """
    return _select(read_table("adult.csv.gz", directory), CENSUS)


def salary(directory: str | Path | None = None) -> Records:
    """FRAPP's classification data (table 4): who earns more than 50,000 dollars a year.

    The 2,799 people whose employment is unknown ('?') are left out: the paper lists eight
    employments and no unknown.
    """
    return _select(_with_employment(read_table("adult.csv.gz", directory)), SALARY)


def salary_split(directory: str | Path | None = None) -> tuple[Records, Records]:
    """The same people as `salary`, in the training and the test part that UCI publishes (two
    thirds, one third).
    """
    people = _with_employment(read_table("adult.csv.gz", directory))
    train, test = (people.filter(pc.equal(people["split"], part)) for part in ("train", "test"))
    return _select(train, SALARY), _select(test, SALARY)


def health(directory: str | Path | None = None) -> Records:
    """A health survey in the shape of FRAPP's HEALTH: 253,680 people, seven attributes, 7,500 cells
    once binned.

    A stand-in (BRFSS 2015): days of bad physical health for bed days (BDDAY12), of bad mental
    health for doctor visits (DV12), access to care for telephone (PHONE); age, sex, income and
    health mean what they mean in the paper.
    """
    survey = read_table("health.csv.gz", directory)
    code = {name: survey[name].to_numpy() for name in survey.column_names}
    columns = {
        "age": np.searchsorted([1, 4, 8, 12], code["Age"]),
        "physical_days": code["PhysHlth"],
        "mental_days": code["MentHlth"],
        "access": np.where(code["AnyHealthcare"] == 0, 0, np.where(code["NoDocbcCost"] == 1, 1, 2)),
        "sex": code["Sex"],
        "income": code["Income"] > 3,
        "health": code["GenHlth"] - 1,
    }
    return Records(
        pa.table({name: _decoded(name, values) for name, values in columns.items()}), HEALTH
    )


def basket_path(name: str, directory: str | Path | None = None) -> Path:
    """The FIMI file of a public basket data set, such as 'bms-webview-1'."""
    if name not in BASKETS:
        raise ParameterError(
            f"no basket data set '{name}' ({listing(BASKETS)})", hint=near_miss(name, BASKETS)
        )
    return _find(f"{name}.dat.gz", directory)


def _find(file: str, directory: str | Path | None) -> Path:
    path = data_directory(directory) / file
    if not path.is_file():
        raise FileError(
            f"no file '{file}' in '{path.parent}'",
            hint="set SFUMATO_DATA to the directory that holds the data sets",
        )
    return path


def read_table(file: str, directory: str | Path | None = None) -> pa.Table:
    """The columns of a public file, as they are."""
    from pyarrow import csv

    path = _find(file, directory)
    try:
        return csv.read_csv(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileError(f"cannot read '{path}' as CSV: {str(error).splitlines()[0]}") from None


def _select(table: pa.Table, domain: Domain) -> Records:
    return Records(table.select(list(domain.names)), domain)


def _with_employment(people: pa.Table) -> pa.Table:
    return people.filter(pc.not_equal(people["workclass"], "?"))


def _decoded(name: str, values: NDArray[Any]) -> pa.Array:
    attribute = HEALTH[name]
    return attribute.decode(values) if isinstance(attribute, Category) else pa.array(values)
