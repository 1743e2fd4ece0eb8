"""Refusals that nothing else asks for: numbers that are none in every parameter of every mechanism,
releases of nobody through every miner, and joins over two databases with a namesake between them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.examples import EXAMPLES

import sfumato as sf
from sfumato.domain import Category, Domain, Numeric
from sfumato.engines import open_source, save_release
from sfumato.engines.joining import join
from sfumato.errors import EstimationError, SfumatoError
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.registry import MECHANISMS, from_spec
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.rules import association_rules
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table
from sfumato.testing import Example

NO_NUMBERS = (float("nan"), float("inf"), float("-inf"), "nan", "inf", "-inf", "1/0")


def numbers(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers stand in parameters, those written as words too."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from numbers(part, (*place, name))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value[:2]):
            yield from numbers(part, (*place, number))
    elif is_number(value):
        yield place


def is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.replace("/", "").replace(".", "").isdigit()
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_value(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    changed = copy.deepcopy(value)
    inner = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = new
    return changed


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.mechanism.name in MECHANISMS],
    ids=lambda example: example.name,
)
def test_a_number_that_is_none_is_refused_in_every_parameter(example: Example) -> None:
    spec = spec_of(example.mechanism)
    parameters = spec["parameters"]
    assert from_spec(spec).guarantee == example.mechanism.guarantee
    for place in numbers(parameters):
        for wrong in NO_NUMBERS:
            spoilt = {**spec, "parameters": with_value(parameters, place, wrong)}
            with pytest.raises(SfumatoError):
                raise AssertionError(f"{place} = {wrong}: {from_spec(spoilt)}")


PEOPLE = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 0, 49, cuts=(20,)),
        Category("ill", ("no", "yes")),
    )
)


def nobody(place: str, folder: Path) -> Release:
    """A release of no records, in memory or counted by DuckDB."""
    table = Table(PEOPLE, tuple(np.zeros(0, np.uint8) for _ in PEOPLE))
    release = sf.perturb(table, sf.Retention(PEOPLE, 0.5), seeded(1))
    if place == "memory":
        return release
    release.save(folder / "nobody.parquet")
    opened = open_source(folder / "nobody.parquet", place)
    assert isinstance(opened, Release)
    return opened


@pytest.mark.parametrize("place", ["memory", "duckdb"])
def test_a_release_of_nobody_passes_every_miner(place: str, tmp_path: Path) -> None:
    release = nobody(place, tmp_path)
    assert release.rows == 0 and not release.marginal(["sex", "ill"]).value.any()
    itemsets = frequent_itemsets(release, 0.1)
    assert len(itemsets) == 0 and len(association_rules(itemsets)) == 0
    (counted,) = sf.query(release, "SELECT COUNT(*) AS n FROM t WHERE age > 20")
    assert counted["n"].value == 0
    for model in (sf.DecisionTree, sf.NaiveBayes):
        with pytest.raises(SfumatoError):
            model("ill").fit(release)


def people(seed: int, ages: int) -> Release:
    key = Numeric("person", 0, 99, public=True)
    domain = Domain((key, Numeric("age", 0, 99)))
    table = Table(domain, (np.arange(100), np.full(100, ages)))
    return sf.perturb(table, sf.Retention(domain, 0.9), seeded(seed))


def other(seed: int) -> Release:
    domain = Domain((Numeric("person", 0, 99, public=True), Category("ill", ("no", "yes"))))
    table = Table(domain, (np.arange(100), np.arange(100) % 2))
    return sf.perturb(table, sf.Retention(domain, 0.9), seeded(seed))


def test_a_join_over_two_databases_is_refused_and_reads_no_namesake(tmp_path: Path) -> None:
    """A table of the right name stands in the wrong database, and must not be read."""
    for name, aged in (("one", 10), ("two", 90)):
        save_release(people(1, aged), f"duckdb://{tmp_path / name}.db#people")
        save_release(other(2), f"duckdb://{tmp_path / name}.db#health")
    left = open_source(f"duckdb://{tmp_path / 'one'}.db#people")
    right = open_source(f"duckdb://{tmp_path / 'two'}.db#health")
    assert isinstance(left, Release) and isinstance(right, Release)
    with pytest.raises(EstimationError, match="no statement reaches both releases"):
        join(left, right, "person")
