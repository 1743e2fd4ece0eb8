"""Proposed schemas: the data they come from always fit them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import SchemaError
from sfumato.table import propose, propose_schema, read, save


def proposed(**columns) -> Domain:
    return propose_schema(pa.table(columns))


def test_words_and_few_numbers_are_categories():
    domain = proposed(
        sex=["F", "M", "F"], flag=[0, 1, 1], yes=[True, False, True], health=[10, 9, 2]
    )
    assert domain["sex"] == Category("sex", ("F", "M"))
    assert domain["flag"] == Category("flag", ("0", "1"))
    assert domain["yes"].labels == ("false", "true")
    assert domain["health"].labels == ("2", "9", "10")


def test_numbers_get_bounds_and_round_cuts():
    age = proposed(age=np.arange(17, 91))["age"]
    assert (age.min, age.max, age.whole) == (17, 90, True)
    assert len(age.cuts) == 4 and all(cut % 5 == 0 or cut % 2 == 0 for cut in age.cuts)


def test_decimals_become_a_step():
    price = proposed(price=np.arange(0, 100) / 4)["price"]
    assert (price.min, price.max, price.step) == (0.0, 24.75, 0.01)
    assert proposed(x=np.sqrt(np.arange(100)))["x"].step is None


def test_mostly_equal_numbers_still_get_cuts():
    gain = proposed(gain=[0] * 900 + list(range(100, 1100, 10)))["gain"]
    assert isinstance(gain, Numeric) and len(gain.cuts) >= 2


def test_many_words_keep_the_most_frequent():
    words = [f"town {number % 40:02}" for number in range(2000)] + ["Rome"] * 500
    proposal = propose(pa.table({"town": words}))
    town = proposal.domain["town"]
    assert town.other == "other" and "Rome" in town.values and town.size == 13
    assert "41 different values" in proposal.notes[0]


def test_nulls_get_a_place():
    domain = proposed(word=["a", None, "b"] * 7, number=[*range(20), None])
    assert domain["word"] == Category("word", ("a", "b", "missing"), missing="missing")
    assert domain["number"].missing == 10


def test_what_cannot_be_perturbed_is_left_out_and_said():
    frame = pa.table(
        {
            "id": [f"p{number}" for number in range(100)],
            "one": ["x"] * 100,
            "none": pa.nulls(100, pa.string()),
        }
    )
    proposal = propose(frame)
    assert proposal.domain.names == ("one",)
    assert [note.split("'")[1] for note in proposal.notes] == ["id", "none"]
    (said,) = [note for note in proposal.told if "nothing to ask" in note]
    assert said.startswith("'one' holds one value only")
    with pytest.raises(SchemaError, match="no column"):
        propose(frame.select(["id"]))


def test_strange_columns_are_left_out():
    frame = pa.table(
        {
            "sex": ["F"],
            "both": [{"a": 1}],
            "bytes": [b"x"],
            "deep": [[["x"]]],
            "day": pa.array([1], pa.date32()),
        }
    )
    proposal = propose(frame)
    assert (
        proposal.domain.names == ("sex", "day")
        and len([note for note in proposal.notes if "left out" in note]) == 3
    )


def test_lists_are_baskets():
    assert proposed(items=[[10, 9], [2]])["items"] == Items("items", ("2", "9", "10"))


def test_basket_files(tmp_path):
    path = tmp_path / "b.dat"
    path.write_text("10 9\n\n2\n")
    assert propose_schema(path) == Domain((Items("items", ("2", "9", "10")),))


def test_a_perturbed_file_has_its_own_domain(tmp_path):
    from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    from sfumato.table import perturb_table

    truth = read(pa.table({"sex": ["F", "M"]}))
    save(perturb_table(truth, GammaDiagonal(truth.domain, 3)), tmp_path / "p.parquet")
    assert propose_schema(tmp_path / "p.parquet") == truth.domain


cells = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(10**6), 10**6)), min_size=30, max_size=30),
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=30, max_size=30),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=30, max_size=30),
    st.lists(st.sampled_from(["0.5", "1", "7", "NA"]), min_size=30, max_size=30),
)


@given(st.lists(cells, min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_data_fit_the_schema_proposed_from_them(columns):
    frame = pa.table({f"column {place}": values for place, values in enumerate(columns)})
    try:
        domain = propose_schema(frame)
    except SchemaError:
        return  # nothing but empty columns
    table = read(frame, domain)
    assert table.rows == 30
    assert Domain.from_toml(domain.to_toml()) == domain
    table.recode(domain.binned())


def test_public_data(data_dir):
    adult = propose_schema(data_dir / "adult.csv.gz")
    assert adult["age"] == Numeric("age", 17, 90, cuts=adult["age"].cuts)
    assert adult["native_country"].other == "other"
    assert read(data_dir / "adult.csv.gz", adult).rows == 48_842


def test_numbers_a_hair_beyond_their_decimals_still_fit():
    values = [0.1 - 1e-13, 0.3 + 1e-13, 2.0000000001, *(place / 10 for place in range(2, 20))]
    frame = pa.table({"x": values, "y": [-value for value in values]})
    assert read(frame, propose_schema(frame)).rows == len(values)
    whole = pa.table({"x": [*range(20), 5.0000000001]})
    assert read(whole, propose_schema(whole)).rows == 21


def test_zeros_are_parted_from_what_is_above_them():
    rng = np.random.default_rng(3)
    gain = np.where(rng.random(2000) < 0.9, 0, rng.integers(114, 9999, 2000))
    column = proposed(gain=gain)["gain"]
    least = int(gain[gain > 0].min())
    assert column.cuts[0] == least and len(column.cuts) >= 2
    held = np.histogram(gain, [0, *column.cuts, gain.max() + 1])[0]
    assert held.min() > 0 and held[0] == (gain == 0).sum()


def test_identifiers_are_named_and_left_out():
    rows = 2000
    rng = np.random.default_rng(5)
    frame = pa.table(
        {
            "encounter": rng.permutation(rows) + 10**6,
            "patient_nbr": rng.integers(0, rows * 2, rows),
            "customerId": [f"C{number % 1500}" for number in range(rows)],
            "income": rng.integers(0, 300, rows) * 100,
            "weight": rng.random(rows),
        }
    )
    proposal = propose(frame)
    assert proposal.domain.names == ("income", "weight")
    said = [note.split("'")[1] for note in proposal.notes if "an identifier" in note]
    assert said == ["encounter", "patient_nbr", "customerId"]


def test_words_for_nothing_are_missing_in_categories_and_numbers():
    frame = pa.table(
        {
            "job": ["?", "cook", " NA", "smith", "cook", "cook"] * 5,
            "age": ["?", *map(str, range(20, 49))],
        }
    )
    proposal = propose(frame)
    assert proposal.domain["job"] == Category("job", ("cook", "smith", "missing"), None, "missing")
    assert isinstance(proposal.domain["age"], Numeric) and proposal.domain["age"].missing == 34
    assert any("'job' has 10 fields of '?', 'NA'" in note for note in proposal.notes)
    assert any("'age' has 1 field of '?', read" in note for note in proposal.notes)
    assert any("'age' has 1 missing field, read as 34" in note for note in proposal.notes)
    table = read(frame, proposal.domain)
    assert np.bincount(table.columns[0]).tolist() == [15, 5, 10]


def test_a_listed_word_is_a_value_even_if_others_use_it_for_nothing():
    column = Category("country", ("NA", "FR", "?"), missing="?")
    assert column.encode(pa.array(["NA", "?", None, "n/a"])).tolist() == [0, 2, 2, 2]


def test_half_as_many_words_as_rows_are_still_a_category():
    words = [f"word {place}" for place in range(30)]
    assert "c" in proposed(c=words * 2, d=["x", "y"] * 30).names
    fewer = propose(pa.table({"c": (words * 2)[1:], "d": (["x", "y"] * 30)[1:]}))
    assert fewer.domain.names == ("d",)
    assert any("too many different values to be a category" in note for note in fewer.notes)


@pytest.mark.parametrize("day", ["2026-11-{:02}", "{}.11.2026", "11/{}/26", "2026-11-{:02} 08:15"])
def test_days_are_left_out_with_what_would_do(day):
    words = [day.format(1 + row % 28) for row in range(900)]
    proposal = propose(pa.table({"sex": ["f", "m", "f"] * 300, "seen": words}))
    assert proposal.domain.names == ("sex",)
    assert any("'seen' holds dates" in note and "the year" in note for note in proposal.notes)


def test_versions_are_no_days():
    words = [f"1.{row % 30}" for row in range(900)]
    assert "v" in proposed(v=words, sex=["f", "m"] * 450).names


@pytest.mark.parametrize(("days", "kept"), [(20, True), (21, False)])
def test_a_few_days_are_a_category(days, kept):
    words = [f"2026-11-{1 + row % days:02}" for row in range(900)]
    assert ("seen" in proposed(seen=words, sex=["f", "m"] * 450).names) == kept


def test_what_a_schema_tells_of_single_people_is_said() -> None:
    """The ends of a number are someone's, and a rare word is that of few; round ends are not."""
    rows = 400
    data = {
        "cost": [5.25 + 61.5 * (row % 300) for row in range(rows)],
        "age": [row % 100 for row in range(rows)],
        "share": [row % 51 / 100 for row in range(rows)],
        "ward": ["cardiology" if row else "leprosy" for row in range(rows)],
        "sex": ["f" if row % 2 else "m" for row in range(rows)],
    }
    ends, rare = propose(data).told
    assert "least and the largest value of 'cost', which" in ends
    assert "all values of 'ward', some of them those of fewer than 5 rows" in rare
    assert propose({"age": data["age"], "sex": data["sex"]}).told == ()


def test_a_cut_at_the_least_value_above_zero_is_somebodys_own():
    gains, kids = [0] * 70 + list(range(113, 143)), [0] * 70 + list(range(1, 31))
    found = propose(pa.table({"gain": gains, "kids": kids}))
    assert [found.domain[name].cuts[0] for name in ("gain", "kids")] == [113, 1]
    (said,) = [note for note in found.told if "least value above zero" in note]
    assert "'gain'" in said and "'kids'" not in said


def test_a_value_that_is_spelt_in_several_ways_is_noted():
    spelt = {"smoker": ["yes", "Yes", " yes", "no"] * 9, "town": ["Linz", "Graz"] * 18}
    (note,) = (each for each in propose(pa.table(spelt)).notes if "capitals" in each)
    assert note.startswith("column 'smoker' has values that differ in capitals or blanks only (")
    assert "' yes', 'Yes', 'yes'" in note and "'no'" not in note
