"""Identifiable records and risk measures against the slow obvious count."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import DataError, ParameterError, SchemaError
from sfumato.publish.identify import identify, risk_of
from sfumato.publish.owned import Keyed, binning, columns_of, cut, patterns, records_of


def people(rows: int = 500, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = rng.integers(18, 90, rows)
    return pa.table(
        {
            "age": ages,
            "town": rng.choice(["Ghent", "Lyon", "Turin", "Utrecht", "York"], rows),
            "sex": rng.choice(["f", "m"], rows),
            "illness": rng.choice(["none", "flu", "gout"], rows, p=[0.7, 0.2, 0.1]),
            "income": rng.choice(["low", "high"], rows),
        }
    )


def slow_counts(table: pa.Table, keys: list[str], confidential: list[str]) -> tuple[int, int, int]:
    """Unique, collective and groups, by dictionaries."""
    rows = table.to_pylist()
    groups: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in keys), []).append(
            tuple(row[c] for c in confidential)
        )
    pure = [values for values in groups.values() if len(set(values)) == 1]
    return (
        sum(len(v) == 1 for v in pure),
        sum(len(v) for v in pure if len(v) > 1),
        sum(len(v) > 1 for v in pure),
    )


def test_counts_agree_with_the_slow_answer() -> None:
    table, keys = people(), ["age", "town", "sex"]
    found = identify(table, confidential=["illness", "income"])
    assert found.confidential == ("illness", "income", "illness × income")
    for risk, columns in zip(
        found.risks, (["illness"], ["income"], ["illness", "income"]), strict=True
    ):
        assert (risk.unique, risk.collective, risk.groups) == slow_counts(table, keys, columns)
        assert risk.unidentifiable == 500 - risk.identifiable


def test_dropping_a_column_saves_what_recounting_says() -> None:
    table = people()
    found = identify(table.drop(["income"]), confidential="illness")
    for role in found.columns:
        kept = [name for name in ("age", "town", "sex") if name != role.name]
        unique, collective, _ = slow_counts(table, kept, ["illness"])
        assert role.identifiable_if_dropped == unique + collective
        assert role.saved_by_dropping == found.risk.identifiable - unique - collective
    assert found.columns[0].name == "age" and (found.columns[0].saved_by_binning or 0) > 0


def test_risk_measures_of_a_table_made_for_them() -> None:
    table = pa.table({"key": list("aaabbbb"), "secret": [0, 0, 1, 0, 1, 2, 2]})
    data = records_of(table)
    risk = risk_of(patterns(columns_of(data, ["key"])), data.column("secret"))
    assert (risk.k_anonymity, risk.l_diversity, risk.sample_uniques, risk.mean_group) == (
        3,
        2,
        0,
        3.5,
    )
    share = np.array([2 / 3, 1 / 3])
    assert risk.entropy_l_diversity == pytest.approx(np.exp(-(share * np.log(share)).sum()))


def test_pattern_numbers_survive_more_combinations_than_a_word_holds() -> None:
    rng = np.random.default_rng(1)
    columns = [99_999 * rng.integers(0, 2, 50) for _ in range(12)]
    rows = [tuple(column[row] for column in columns) for row in range(50)]
    numbers = patterns(columns)
    assert len(set(numbers.tolist())) == len(Counter(rows))
    assert all(
        (numbers[i] == numbers[j]) == (rows[i] == rows[j]) for i in range(50) for j in range(50)
    )


@pytest.mark.parametrize(
    ("text", "labels"),
    [("40,60", ("[18,40)", "[40,60)", "[60,89]")), ("width:2", ("[18,53.5)", "[53.5,89]"))],
)
def test_numbers_are_binned_on_request(text: str, labels: tuple[str, ...]) -> None:
    table = people(2000)
    assert cut(records_of(table), {"age": text}).domain["age"].labels == labels


def test_equal_frequency_bins_hold_equal_shares() -> None:
    ages = cut(records_of(people(5000)), {"age": "frequency:4"}).column("age")
    assert np.abs(np.bincount(ages) / 5000 - 0.25).max() < 0.02


def test_nulls_are_a_value_of_their_own() -> None:
    table = pa.table(
        {"age": [30, 40, None, None], "town": ["a", None, "a", "a"], "secret": ["x", "y", "x", "y"]}
    )
    data = Keyed.of(table, "secret", bins={"age": "35"})
    assert data.table.domain["age"].values == ("[30,35)", "[35,40]", None)
    assert risk_of(data.pattern, data.table.column("secret")).unique == 2


def test_bad_input_is_refused_in_the_callers_words() -> None:
    table = people()
    with pytest.raises(SchemaError, match=r"no column 'ilness'.*did you mean 'illness'"):
        identify(table, confidential="ilness")
    with pytest.raises(DataError, match=r"'town' has 1 value"):
        identify(pa.table({"a": [1, 2], "town": ["x", "x"]}), confidential="town")
    with pytest.raises(ParameterError, match="every column is confidential"):
        identify(pa.table({"a": [1, 2]}), confidential="a")
    with pytest.raises(DataError, match="does not hold numbers only"):
        identify(table, confidential="illness", bins={"town": "width:3"})
    for text in ("width:1", "magic:3", "3,2", "width:x"):
        with pytest.raises(ParameterError):
            binning(text)


def test_words_have_no_bins_to_try_and_nulls_are_in_one_of_their_own() -> None:
    table = people(200).drop(["income"])
    ages = [None if row % 9 == 0 else age for row, age in enumerate(table["age"].to_pylist())]
    table = table.set_column(0, "age", pa.array(ages))
    roles = {role.name: role for role in identify(table, confidential="illness").columns}
    town, age = roles["town"], roles["age"]
    assert town.values > 4  # more than the bins that are tried
    assert (town.bins, town.saved_by_binning, town.identifiable_if_binned) == (None, None, None)
    cut = identify(table, confidential="illness", bins={"age": "frequency:4"})
    assert age.identifiable_if_binned == cut.risk.identifiable
    assert age.bins == next(role.values for role in cut.columns if role.name == "age") == 5


@pytest.mark.parametrize(("beside", "role"), [((), "confidential"), (("town",), "a weight")])
def test_a_column_is_not_a_key_and_something_else_as_well(
    beside: tuple[str, ...], role: str
) -> None:
    """It was left out of the keys without a word, and the dossier named it among them no more."""
    keys = ["age", *(beside or ("illness",))]
    with pytest.raises(ParameterError, match=f"is named a key and {role}"):
        Keyed.of(people(), "illness", keys=keys, beside=beside)
