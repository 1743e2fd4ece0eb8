"""Domains: what goes in comes out, what does not fit is named, and cells are merged as counting by
hand would.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.bits import Bits
from sfumato.domain import (
    FINE_GRID,
    Attribute,
    Bins,
    Category,
    Cells,
    Domain,
    Items,
    Numeric,
    code_dtype,
)
from sfumato.domain.attributes import _check_cuts
from sfumato.errors import (
    DataError,
    FileError,
    ParameterError,
    SchemaError,
    SfumatoError,
    near_miss,
)
from sfumato.untrusted import MOST_NUMBER

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
labels = st.lists(words, min_size=1, max_size=6, unique=True).map(tuple)
SEX = Category("sex", ("Female", "Male"))
AGE = Numeric("age", 15, 95, cuts=(35, 55, 75))


@st.composite
def categories(draw: st.DrawFn, name: str = "c") -> Category:
    values = draw(labels)
    some = st.none() | st.sampled_from(values)
    return Category(name, values, draw(some), draw(some), public=draw(st.booleans()))


@st.composite
def numerics(draw: st.DrawFn, name: str = "n") -> Numeric:
    low = draw(st.integers(-1000, 1000))
    high = low + draw(st.integers(1, 500))
    step = draw(st.none() | st.sampled_from([1, 0.5, 0.25, 0.1]))
    cuts = tuple(sorted(draw(st.sets(st.integers(low + 1, high), max_size=4))))
    missing = draw(st.none() | st.integers(low, high))
    return Numeric(
        name, low, high, cuts, step, draw(st.booleans()), missing, public=draw(st.booleans())
    )


@st.composite
def bins(draw: st.DrawFn, name: str = "b") -> Bins:
    edges = draw(
        st.lists(st.integers(-100, 100) | st.floats(-100, 100), min_size=2, max_size=6, unique=True)
    )
    return Bins(
        name, tuple(sorted(edges)), draw(st.sampled_from([0.0, 0.5])), public=draw(st.booleans())
    )


def items(name: str) -> st.SearchStrategy[Items]:
    """Items that no other attribute has, and that are no attribute."""
    return labels.map(lambda values: Items(name, tuple(f"{name}: {value}" for value in values)))


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    kinds = [categories, numerics, bins, items]
    return Domain(
        tuple(draw(draw(st.sampled_from(kinds))(name)) for name in names), draw(st.none() | words)
    )


# Round trips


@given(categories(), st.data())
def test_categories_survive_encoding(attribute: Category, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from(attribute.values)))
    codes = attribute.encode(pa.array(values, pa.string()))
    assert codes.dtype == code_dtype(attribute.size)
    assert attribute.decode(codes).to_pylist() == values


@given(numerics(), st.data())
def test_numbers_survive_encoding(attribute: Numeric, data: st.DataObject) -> None:
    codes = np.array(
        data.draw(st.lists(st.integers(0, attribute.size - 1))), dtype=code_dtype(attribute.size)
    )
    decoded = attribute.decode(codes)
    assert (attribute.encode(decoded) == codes).all()
    assert pa.types.is_integer(decoded.type) == attribute.whole
    assert all(attribute.min <= number <= attribute.max + 1e-9 for number in decoded.to_pylist())


@pytest.mark.parametrize(
    "attribute",
    [
        Numeric("x", 0.0, 1.0),
        Numeric("x", -1e9, 1e9),
        Numeric("x", 0, 1, step=2.0**-31),
        Numeric("x", 0.1, 0.7, step=1 / 7),
    ],
)
def test_fine_grids_survive_encoding(attribute: Numeric) -> None:
    codes = np.unique(np.linspace(0, attribute.size - 1, 5000).astype(code_dtype(attribute.size)))
    codes = np.union1d(codes, np.arange(min(50, attribute.size))).astype(code_dtype(attribute.size))
    assert (attribute.encode(attribute.decode(codes)) == codes).all()


@given(labels, st.data())
def test_baskets_survive_encoding(values: tuple[str, ...], data: st.DataObject) -> None:
    baskets = data.draw(st.lists(st.lists(st.sampled_from(values), unique=True)))
    attribute = Items("items", values)
    bits = attribute.encode(pa.array(baskets, pa.list_(pa.string())))
    assert isinstance(bits, Bits) and bits.rows == len(baskets)
    assert [set(map(str, basket)) for basket in attribute.decode(bits).to_pylist()] == [
        set(basket) for basket in baskets
    ]


def test_item_ids_stay_numbers() -> None:
    attribute = Items("items", ("7", "10307"))
    decoded = attribute.decode(attribute.encode(pa.array([[10307], [7, 10307], []])))
    assert decoded.to_pylist() == [[10307], [7, 10307], []]
    assert Items("items", ("07", "7")).decode(
        Bits.from_dense(np.eye(2, dtype=bool))
    ).to_pylist() == [["07"], ["7"]]


@given(bins(), st.data())
def test_bins_survive_encoding(attribute: Bins, data: st.DataObject) -> None:
    codes = np.array(data.draw(st.lists(st.integers(0, attribute.size - 1))), dtype=np.uint8)
    if len(set(attribute.labels)) == attribute.size:
        assert (attribute.encode(attribute.decode(codes)) == codes).all()
    low = np.array(attribute.edges)[codes]
    assert (attribute.encode(pa.array(low, pa.float64())) == codes).all(), (
        "a lower edge belongs to its bin"
    )


@given(domains())
def test_schemas_survive_toml_and_json(domain: Domain) -> None:
    again = Domain.from_toml(domain.to_toml())
    assert again == domain and again.title == domain.title
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain


def test_schemas_survive_a_file(tmp_path: Path) -> None:
    domain = Domain((SEX, AGE, Category("naïve", ("é", '"', "\\", "\n", "\x7f"))), "A title")
    domain.save(tmp_path / "schema.toml")
    assert Domain.load(tmp_path / "schema.toml") == domain


def test_the_schema_of_the_interface_is_read() -> None:
    domain = Domain.from_toml(
        """
        title = "Census"
        [[attribute]]
        name = "age"
        type = "numeric"
        min = 15
        max = 95
        cuts = [35, 55, 75]
        [[attribute]]
        name = "country"
        type = "category"
        values = ["United-States", "Other"]
        other = "Other"
        [[attribute]]
        name = "income"
        type = "category"
        values = ["<=50K", ">50K"]
        public = true
        """
    )
    assert domain.title == "Census" and domain.names == ("age", "country", "income")
    assert domain["age"].bins().labels == ("[15,35)", "[35,55)", "[55,75)", "[75,95]")
    assert domain.private.names == ("age", "country") and domain.binned().private.shape == (4, 2)


def test_values_of_a_schema_are_words_as_arrow_writes_them() -> None:
    text = '[[attribute]]\nname = "a"\ntype = "category"\nvalues = [1, 2.5, 3.0, true]\n'
    attribute = Domain.from_toml(text)["a"]
    assert attribute.labels == ("1", "2.5", "3", "true")
    for column in (pa.array([1, 3]), pa.array([2.5, 3.0]), pa.array([True])):
        attribute.encode(column)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    domain = Domain((Numeric("x", 0.0, 1.0, cuts=tuple(np.linspace(0.25, 0.75, 3))),))
    assert Domain.from_toml(domain.to_toml()) == domain


# What does not fit


@pytest.mark.parametrize(
    ("attribute", "column", "message"),
    [
        (
            SEX,
            ["Male", "male"],
            "row 2, column 'sex': 'male' is not one of its values (Female, Male); did you mean "
            "'Male'?",
        ),
        (
            SEX,
            ["Male", None],
            "row 2, column 'sex' is empty; say missing = \"…\" in the schema to give nulls a value",
        ),
        (
            SEX,
            ["zebra"],
            "row 1, column 'sex': 'zebra' is not one of its values (Female, Male); list it in "
            "the schema",
        ),
        (
            AGE,
            [20, 14],
            "row 2, column 'age': 14 lies outside [15, 95]; widen the range, or say clip = true "
            "in the schema",
        ),
        (AGE, [20, 96], "row 2, column 'age': 96 lies outside [15, 95]"),
        (AGE, [20, None], "row 2, column 'age' is empty"),
        (
            AGE,
            [20.0, 20.5],
            "row 2, column 'age': 20.5 is not a whole number; state a step (step = 0.5) in the "
            "schema",
        ),
        (AGE, ["20", "twenty"], "row 2, column 'age': 'twenty' is not a number"),
        (AGE, [20.0, float("nan")], "row 2, column 'age' is empty"),
        (AGE, [20.0, float("inf")], "row 2, column 'age': inf lies outside [15, 95]"),
        (AGE.bins(), [20, 14], "row 2, column 'age': 14 lies outside [15, 95]"),
        (
            AGE.bins(),
            ["[15,35)", "[15,36)"],
            "row 2, column 'age': '[15,36)' is not one of its values",
        ),
        (AGE.bins(), [20, None], "row 2, column 'age' is empty"),
        (
            Items("items", ("a", "b")),
            [["a"], ["b", "c"]],
            "row 2: item 'c' is not in the universe of 2 items",
        ),
        (
            Items("items", ("a", "b")),
            [["a"], None],
            "row 2, column 'items' is null; an empty basket is an empty list",
        ),
    ],
)
def test_a_value_outside_the_domain_is_named_with_its_row(
    attribute: Attribute, column: list[Any], message: str
) -> None:
    with pytest.raises(DataError) as error:
        attribute.encode(pa.array(column))
    assert str(error.value).startswith(message)
    with pytest.raises(DataError, match=r"row 10\d\d"):
        attribute.encode(pa.array(column), first_row=1001)


def test_the_error_keeps_its_facts() -> None:
    with pytest.raises(DataError) as error:
        SEX.encode(pa.array(["Male", "Mail"]))
    assert error.value.facts == {"row": 2, "column": "sex", "value": "Mail"}
    assert error.value.to_dict()["hint"] == "did you mean 'Male'?"


def test_other_takes_the_unlisted_and_missing_the_nulls() -> None:
    attribute = Category("pet", ("cat", "none", "other"), other="other", missing="none")
    assert attribute.encode(pa.array(["cat", None, "eel"])).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="row 2, column 'pet' is empty"):
        Category("pet", ("cat", "other"), other="other").encode(pa.array(["cat", None]))
    with pytest.raises(DataError, match="'eel' is not one"):
        Category("pet", ("cat", "none"), missing="none").encode(pa.array([None, "eel"]))


def test_clip_moves_to_the_ends_and_missing_fills() -> None:
    attribute = Numeric("age", 15, 95, cuts=(35,), clip=True, missing=40)
    assert attribute.encode(pa.array([3, 15, None, 300])).tolist() == [0, 0, 25, 80]
    assert attribute.bins().encode(pa.array([3, 15, None, 300])).tolist() == [0, 0, 1, 1]


def test_numbers_off_the_grid_go_to_the_nearest_point() -> None:
    attribute = Numeric("x", 0, 10, step=0.5)
    assert attribute.numbers(attribute.encode(pa.array([0.2, 0.3, 9.99, 10.0]))).tolist() == [
        0.0,
        0.5,
        10.0,
        10.0,
    ]
    odd = Numeric("x", 0, 10, step=3)
    assert odd.labels == ("0", "3", "6", "9")
    assert odd.encode(pa.array([9.4, 10.0])).tolist() == [3, 3]


def test_an_unstated_step_is_fine_and_whole_numbers_have_step_one() -> None:
    assert Numeric("x", 0.0, 1.0).size == FINE_GRID + 1
    assert Numeric("x", 0, 1).size == 2
    assert [
        Numeric("x", 0, 9).whole,
        Numeric("x", 0.0, 9.0).whole,
        Numeric("x", 0, 9, step=0.5).whole,
    ] == [True, False, False]


def test_columns_of_any_arrow_kind_are_read() -> None:
    plain = pa.array(["Male", "Female", "Male"])
    for column in (
        plain,
        plain.dictionary_encode(),
        pa.chunked_array([plain[:1], plain[1:]]),
        plain.cast(pa.large_string()),
    ):
        assert SEX.encode(column).tolist() == [1, 0, 1]
    whole = pa.array([15, 95], pa.int8())
    for column in (
        whole,
        whole.cast(pa.float64()),
        whole.cast(pa.string()),
        pa.chunked_array([whole[:1], whole[1:]]),
    ):
        assert AGE.encode(column).tolist() == [0, 80]
    assert SEX.encode(pa.array([], pa.string())).tolist() == []
    part = pa.array([["a"], ["b"], ["a"]])[1:]
    assert Items("i", ("a", "b")).encode(part).to_dense().tolist() == [[False, True], [True, False]]


# Schemas that contradict themselves


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a schema needs at least one [[attribute]] table"),
        ("attribute = 3", "a schema needs at least one [[attribute]] table"),
        (
            "[[atribute]]\nname='a'",
            "schema does not know the key 'atribute' (title, attribute); did you mean 'attribute'?",
        ),
        ("[[attribute]]\ntype='category'", "attribute 1 of the schema has no name"),
        (
            "[[attribute]]\nname='a'",
            "attribute 'a' has no type; it must be one of category, numeric, bins, items",
        ),
        ("[[attribute]]\nname='a'\ntype='categorical'", "did you mean 'category'?"),
        ("[[attribute]]\nname='a'\ntype='category'", "attribute 'a' of type category needs values"),
        ("[[attribute]]\nname='a'\ntype='category'\nvalues=[]", "attribute 'a' has no values"),
        (
            "[[attribute]]\nname='a'\ntype='category'\nvalues='x'",
            "'values' of attribute 'a' should be a list; found 'x'",
        ),
        (
            "[[attribute]]\nname='a'\ntype='category'\nvalues=['x','x']",
            "attribute 'a' lists the value 'x' twice",
        ),
        (
            "[[attribute]]\nname='a'\ntype='category'\nvalues=['x']\nvalue=['y']",
            "did you mean 'values'?",
        ),
        (
            "[[attribute]]\nname='a'\ntype='category'\nvalues=['other']\nother='othr'",
            "did you mean 'other'?",
        ),
        (
            "[[attribute]]\nname='a'\ntype='category'\nvalues=['x']\npublic='yes'",
            "'public' of attribute 'a' should be true or false; found 'yes'",
        ),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0",
            "attribute 'a' of type numeric needs max",
        ),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax='9'",
            "'max' of attribute 'a' should be a number; found '9'",
        ),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=true",
            "'max' of attribute 'a' should be a number; found true",
        ),
        ("[[attribute]]\nname='a'\ntype='numeric'\nmin=9\nmax=0", "min = 9 must be below max = 0"),
        ("[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=inf", "should be a number from"),
        ("[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\ncuts=[5,3]", "must ascend"),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\ncuts=[0]",
            "must ascend between min",
        ),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\ncuts=['5']",
            "should be a list of numbers",
        ),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\nstep=0",
            "step = 0 must be above 0",
        ),
        ("[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\nstep=1e-12", "use a larger step"),
        (
            "[[attribute]]\nname='a'\ntype='numeric'\nmin=0\nmax=9\nmissing=10",
            "missing = 10 lies outside [0, 9]",
        ),
        (
            "[[attribute]]\nname='a'\ntype='bins'\nedges=[1]",
            "edges must ascend and be at least two",
        ),
        (
            2 * "[[attribute]]\nname='a'\ntype='category'\nvalues=['x']\n",
            "attribute 'a' is named twice",
        ),
        ("[[attribute", "is not valid TOML"),
    ],
)
def test_a_schema_with_a_mistake_says_which(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        Domain.from_toml(text)
    assert message in str(error.value)


def test_a_schema_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no schema file"):
        Domain.load(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="cannot read schema"):
        Domain.load(tmp_path / "binary.toml")
    with pytest.raises(FileError, match="cannot read schema"):
        Domain.load(tmp_path)


def test_unknown_names_show_the_near_miss() -> None:
    domain = Domain((SEX, AGE))
    for ask in (
        lambda: domain["sx"],
        lambda: domain.index("sx"),
        lambda: domain.axis("sx"),
        lambda: domain.project(["sx"]),
    ):
        with pytest.raises(SchemaError) as error:
            ask()
        assert (
            str(error.value) == "no attribute 'sx' in this domain (sex, age); did you mean 'sex'?"
        )
    with pytest.raises(SchemaError, match="did you mean 'Male'"):
        SEX.cells_by_values(["Mal"])
    with pytest.raises(SchemaError, match=r"no cell 'mail' in 'sex' .*did you mean 'Male'"):
        SEX.cells().code("mail")
    assert near_miss("zzz", domain.names) is None


def test_a_domain_of_public_attributes_has_nothing_to_perturb() -> None:
    with pytest.raises(SchemaError, match="nothing to perturb"):
        _ = Domain((Category("a", ("x",), public=True),)).private


def test_every_error_can_be_caught_as_one() -> None:
    for kind in (DataError, FileError, ParameterError, SchemaError):
        assert issubclass(kind, SfumatoError)


# Cells


def brute_sum(cells: Cells, masses: np.ndarray) -> np.ndarray:
    """Masses summed code by code."""
    sums = np.zeros(cells.size)
    for code, mass in enumerate(masses):
        sums[int(cells.assign(np.array([code]))[0])] += mass
    return sums


@given(numerics(), st.data())
def test_cuts_put_each_number_where_comparing_would(
    attribute: Numeric, data: st.DataObject
) -> None:
    span = st.floats(attribute.min - 5, attribute.max + 5) | st.integers(
        int(attribute.min), int(attribute.max)
    )
    cuts = data.draw(st.lists(span, max_size=5))
    cells = attribute.cells_by_cuts(cuts)
    inner = sorted({cut for cut in cuts if attribute.min < cut <= attribute.max})
    assert cells.size == len(inner) + 1
    numbers = attribute.numbers(np.arange(attribute.size))
    near = [
        abs(number - cut) < 1e-6 * attribute.grid_step
        for number in numbers
        for cut in inner
        if number != cut
    ]
    if not any(near):
        assert cells.assign(np.arange(attribute.size)).tolist() == [
            sum(cut <= number for cut in inner) for number in numbers
        ]
    masses = np.random.default_rng(0).random(attribute.size)
    np.testing.assert_allclose(cells.sum(masses), brute_sum(cells, masses))
    np.testing.assert_allclose(cells.counts(), brute_sum(cells, np.ones(attribute.size)))


def test_two_cuts_between_neighbouring_numbers_leave_an_empty_cell() -> None:
    cells = Numeric("x", 0, 9).cells_by_cuts([3.2, 3.7])
    assert cells.labels == ("[0,3.2)", "[3.2,3.7)", "[3.7,9]")
    assert cells.sum(np.ones(10)).tolist() == cells.counts().tolist() == [4, 0, 6]
    beyond = Numeric("x", 0, 10, step=3).cells_by_cuts([9.5])
    assert beyond.sum(np.ones(4)).tolist() == [4, 0]


@given(categories(), st.data())
def test_sets_of_values_are_merged_and_the_rest_kept_together(
    attribute: Category, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(attribute.values))
    cut = data.draw(st.integers(1, len(order)))
    chosen = [order[:cut]] if cut == 1 else [order[:1], order[1:cut]]
    cells = attribute.cells_by_values(*chosen)
    assert cells.size == len(chosen) + (cut < len(order))
    for code, value in enumerate(attribute.values):
        expected = next(
            (place for place, values in enumerate(chosen) if value in values), len(chosen)
        )
        assert cells.assign(np.array([code])).tolist() == [expected]
    masses = np.arange(1.0, attribute.size + 1)
    np.testing.assert_allclose(cells.sum(masses), brute_sum(cells, masses))
    np.testing.assert_allclose(cells.counts(), brute_sum(cells, np.ones(attribute.size)))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5, unique=True), st.data())
def test_bins_are_merged_at_their_edges(widths: list[int], data: st.DataObject) -> None:
    attribute = Bins("b", tuple(np.cumsum([0, *widths]).tolist()))
    inner = attribute.edges[1:-1]
    cuts = data.draw(st.lists(st.sampled_from(inner), unique=True)) if inner else []
    cells = attribute.cells_by_cuts(cuts)
    assert cells.assign(np.arange(attribute.size)).tolist() == [
        sum(c <= low for c in cuts) for low in attribute.edges[:-1]
    ]
    if 0.5 not in inner:
        with pytest.raises(DataError, match=r"0\.5 does not fall on the cuts of 'b'"):
            attribute.cells_by_cuts([0.5])


def test_a_question_between_two_grid_points_falls_on_the_edge_above() -> None:
    """hours > 40 on whole numbers is hours >= 40.5 or >= 41: both are the cut at 41."""
    attribute = Numeric("hours", 0, 99, cuts=(41,)).bins()
    assert (
        attribute.cells_by_cuts([40.5]).group.tolist()
        == attribute.cells_by_cuts([41]).group.tolist()
        == [0, 1]
    )
    with pytest.raises(DataError):
        attribute.cells_by_cuts([40])


@given(numerics(), st.data())
def test_bins_and_cuts_agree(attribute: Numeric, data: st.DataObject) -> None:
    if not attribute.cuts:
        with pytest.raises(SchemaError, match="has no cuts"):
            attribute.bins()
        return
    codes = np.array(
        data.draw(st.lists(st.integers(0, attribute.size - 1))), dtype=code_dtype(attribute.size)
    )
    by_number = attribute.cells_by_cuts(attribute.cuts)
    binned = attribute.bins()
    assert by_number.labels == binned.labels
    numbers = pa.array(attribute.numbers(codes).astype(float))
    assert (by_number.assign(codes) == binned.encode(numbers)).all()


def test_the_finest_cells_are_the_values() -> None:
    cells = SEX.cells()
    assert cells.trivial and cells.labels == SEX.values and cells.name == "sex"
    assert cells.assign(np.array([1, 0])).tolist() == [1, 0]


def test_one_item_has_two_cells() -> None:
    attribute = Items("items", ("bread", "milk"))
    bits = attribute.encode(pa.array([["milk"], ["bread", "milk"], []]))
    cells = attribute.item_cells("bread")
    assert (cells.name, cells.labels, cells.assign(bits).tolist()) == (
        "bread",
        ("no bread", "bread"),
        [0, 1, 0],
    )
    with pytest.raises(ParameterError, match="one by one"):
        attribute.cells()


def test_a_domain_has_an_axis_for_each_attribute_and_each_item() -> None:
    domain = Domain((SEX, Items("items", ("bread", "milk"))))
    assert domain.shape == (2, 2, 2) and domain.cells == 8
    assert [axis.name for axis in domain.axes] == ["sex", "bread", "milk"]
    assert domain.cells_of("milk").item == 1 and domain.cells_of("sex").trivial
    assert not domain.baskets and Domain((Items("items", ("a",)),)).baskets


@given(domains(), st.data())
def test_a_projection_keeps_the_attributes_named(domain: Domain, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(domain.names), min_size=1, unique=True))
    assert domain.project(names).names == tuple(names)
    assert domain.project(names).attributes == tuple(domain[name] for name in names)


def test_binning_leaves_public_numbers_alone() -> None:
    domain = Domain((AGE, Numeric("year", 2000, 2020, public=True)))
    assert isinstance(domain.binned()["age"], Bins) and isinstance(domain.binned()["year"], Numeric)


@pytest.mark.parametrize(
    ("size", "bits"),
    [(2, 8), (256, 8), (257, 16), (1 << 16, 16), ((1 << 16) + 1, 32), (1 << 32, 32)],
)
def test_codes_take_the_least_room(size: int, bits: int) -> None:
    assert code_dtype(size) == np.dtype(f"uint{bits}")


def test_an_item_and_an_attribute_of_one_name_are_refused():
    with pytest.raises(SchemaError, match="'10' is an item and an attribute"):
        Domain((Category("10", ("x", "y")), Items("items", ("10", "20"))))


def test_a_step_may_be_the_whole_range_and_no_more() -> None:
    assert Numeric("x", 0.0, 2.0, step=2.0).size == 2
    for step in (0.0, -1.0, 2.1):
        with pytest.raises(SchemaError, match="step"):
            Numeric("x", 0.0, 2.0, step=step)


def test_edges_that_stand_still_are_refused() -> None:
    for edges in ((0.0, 1.0, 1.0), (0.0,), (2.0, 1.0)):
        with pytest.raises(SchemaError, match="must ascend"):
            Bins("x", edges)


def test_cuts_lie_within_what_numbers_may_be() -> None:
    _check_cuts("x", "cuts", (-MOST_NUMBER, MOST_NUMBER))
    for cut in (-2 * MOST_NUMBER, 2 * MOST_NUMBER, float("nan")):
        with pytest.raises(SchemaError, match="must be numbers within"):
            _check_cuts("x", "cuts", (cut,))


def test_cells_inside_of_a_finer_cell_are_refused_wherever_they_begin() -> None:
    """[40,46) begins where [40,50) does, and is not all of it."""
    age = Numeric("age", 0, 99)
    tens = age.cells_by_cuts(range(10, 100, 10))
    inside = Cells(age, ("other", "asked"), np.array([0, 1, 0]), np.array([0, 40, 46]))
    with pytest.raises(ParameterError, match="split cells"):
        inside.within(tens)
    whole = Cells(age, ("other", "asked"), np.array([0, 1, 0]), np.array([0, 40, 50]))
    assert whole.within(tens).group.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
