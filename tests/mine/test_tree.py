"""Decision trees: as good as scikit-learn's on the truth, honest about noise on a release, polite
about bad input.
"""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from papers.data_sets import salary, salary_split
from sfumato.channels import Retain
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Bins, Category, Domain, Numeric
from sfumato.errors import DataError, EstimationError, ParameterError, SchemaError
from sfumato.mechanisms.base import channel_over
from sfumato.mine import limits
from sfumato.mine.features import Problem
from sfumato.mine.quality import roc_area
from sfumato.mine.splits import Split, cut_deviations, deviation, entropy, gini, shrunken
from sfumato.mine.tree import DecisionTree
from sfumato.mine.tree_questions import NodeCounts, TreeQuestions
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table

PEOPLE = Domain(
    (
        Numeric("age", 0, 99),
        Category("city", ("Rome", "Oslo", "Lima")),
        Category("pet", ("cat", "dog")),
        Category("ill", ("no", "yes")),
    )
)


def people(rows: int = 8000, seed: int = 1, told: bool = True) -> Table:
    """The ill are old, or young in Lima; pets have nothing to do with it. With told=False nothing
    has.
    """
    rng = np.random.default_rng(seed)
    age, city, pet = rng.integers(0, 100, rows), rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    odds = (
        np.where(age >= 60, 0.8, np.where((age < 30) & (city == 2), 0.7, 0.1))
        if told
        else np.full(rows, 0.3)
    )
    ill = rng.random(rows) < odds
    return Table(PEOPLE, tuple(column.astype(np.uint8) for column in (age, city, pet, ill)))


def public_target(domain: Domain) -> Domain:
    return replace(
        domain, attributes=tuple(replace(a, public=a.name == domain.names[-1]) for a in domain)
    )


# The tree itself.


def test_the_tree_finds_how_the_data_were_made():
    tree = DecisionTree("ill", max_depth=3, most_cells=10).fit(Exact(people()))
    assert tree.tree_.root.split.feature == 0
    assert tree.text().splitlines()[0] == "age < 60"
    assert "city = Lima\n    age < 30: yes" in tree.text()
    assert "pet" not in tree.text()
    assert tree.predict(
        {"age": [70, 20, 20], "city": ["Oslo", "Lima", "Rome"], "pet": ["cat"] * 3}
    ).tolist() == [
        "yes",
        "yes",
        "no",
    ]


@pytest.mark.parametrize("criterion", ["gini", "entropy", "gain-ratio"])
def test_every_criterion_learns(criterion):
    tree = DecisionTree("ill", criterion=criterion).fit(Exact(people()))
    quality = tree.quality(people(4000, seed=2))
    assert quality.accuracy > 0.8 and quality.auc > 0.82


def test_a_number_split_twice_is_one_column():
    asked = TreeQuestions(Problem.of(Exact(people()), "ill", ["age", "pet"], 10))
    young = {0: np.arange(10) < 6}
    asked.prepare([young], 1)
    middle = asked.counts(young, 0)
    assert middle.cells.tolist() == list(range(6))
    assert frozenset([0]) in asked._answers and all(len(key) <= 2 for key in asked._answers)
    again = DecisionTree(
        "ill", features=["age"], max_depth=2, most_cells=10, significance=None
    ).fit(Exact(people()))
    assert again.tree_.depth == 2 and again.tree_.used == (0,)


def test_questions_of_nodes_are_the_counts_of_their_records(monkeypatch):
    table = people()
    age, city, pet, ill = table.columns
    for cells in (limits.WHOLE_CELLS, 0):
        monkeypatch.setattr(limits, "WHOLE_CELLS", cells)
        asked = TreeQuestions(Problem.of(Exact(table), "ill", None, 10))
        problem = asked.problem.features[0].cells
        region = {0: np.arange(10) >= 4, 1: np.array([True, False, True])}
        asked.prepare([region, {0: np.arange(10) < 4}], 1)
        inside = (problem.assign(age) >= 4) & (city != 1)
        counts = asked.counts(region, 2)
        assert counts.value.tolist() == [
            [int((inside & (pet == p) & (ill == y)).sum()) for y in (0, 1)] for p in (0, 1)
        ]
        own = asked.counts(region, 0)
        assert own.value.sum() == inside.sum() and own.value.shape == (6, 2)


def test_a_leaf_of_nobody_has_no_share():
    rng = np.random.default_rng(1)
    city = rng.integers(0, 2, 4000)
    ill = rng.random(4000) < np.where(city == 1, 0.8, 0.1)
    none = np.zeros(4000)
    table = Table(PEOPLE, tuple(each.astype(np.uint8) for each in (none, city, none, ill)))
    text = DecisionTree("ill", max_depth=1).fit(Exact(table)).text()
    empty = [line for line in text.splitlines() if "nobody seen: no estimate of its own" in line]
    assert len(empty) == 1 and "% of 0" not in text and text.count(" % of ") == 2


def test_one_table_or_one_scan_a_level_give_the_same_tree(monkeypatch):
    release = sf.perturb(people(), sf.Retention(PEOPLE, 0.7), seeded(4))
    once = DecisionTree("ill", most_cells=8).fit(release).text()
    monkeypatch.setattr(limits, "WHOLE_CELLS", 0)
    assert DecisionTree("ill", most_cells=8).fit(release).text() == once
    monkeypatch.setattr(limits, "SHARED_CELLS", 8)
    assert DecisionTree("ill", most_cells=8).fit(release).text() == once


def test_a_deep_tree_takes_at_most_five_scans(monkeypatch):
    scans = []
    scan = TableCounter._scan
    monkeypatch.setattr(
        TableCounter,
        "_scan",
        lambda self, asked: scans.append(len(asked)) or scan(self, asked),
    )
    monkeypatch.setattr(limits, "WHOLE_CELLS", 0)
    rng = np.random.default_rng(3)
    domain = Domain((*(Numeric(name, 0, 4000) for name in "abcdefgh"), Category("y", ("0", "1"))))
    columns = [rng.integers(0, 4001, 40_000).astype(np.uint16) for _ in range(8)]
    target = (sum(column > 2000 for column in columns) + rng.integers(0, 2, 40_000)) % 3 == 0
    table = Table(domain, (*columns, target.astype(np.uint8)))
    tree = DecisionTree("y", max_depth=6, significance=None, min_rows=50).fit(Exact(table))
    assert tree.tree_.depth == 6 and len(tree.tree_.leaves) > 40
    assert 3 <= len(scans) <= 5 and 1 not in scans


def test_pruning_keeps_what_changes_labels():
    grown = DecisionTree("ill").fit(Exact(people()))
    cut = DecisionTree("ill", prune=True).fit(Exact(people()))
    assert 3 <= len(cut.tree_.leaves) < len(grown.tree_.leaves)
    test = people(4000, seed=5)
    assert cut.score(test) > grown.score(test) - 0.005


def test_rare_values_share_a_branch():
    rng = np.random.default_rng(1)
    domain = Domain((Category("size", tuple("abcdef")), Category("y", ("0", "1"))))
    size = rng.choice(6, 5000, p=[0.5, 0.49, 0.004, 0.003, 0.002, 0.001])
    table = Table(
        domain,
        (size.astype(np.uint8), (rng.random(5000) < 0.2 + 0.5 * (size == 1)).astype(np.uint8)),
    )
    tree = DecisionTree("y", min_rows=100).fit(Exact(table))
    assert [line.split(":")[0] for line in tree.text().splitlines()] == [
        "size = a",
        "size = b",
        "size = c, d, e, f",
    ]


# Significance.


def test_the_gini_gain_is_the_quadratic_form():
    counts = np.array([[30.0, 10.0, 5.0], [5.0, 25.0, 10.0]])
    covariance = np.zeros((2, 3, 2, 3))
    quantity, _, _ = deviation(counts, covariance, np.array([True, True]))
    rows = counts.sum(axis=1)
    gain = gini(counts.sum(axis=0)) - rows @ gini(counts) / rows.sum()
    assert math.isclose(quantity / rows.sum(), gain)
    assert math.isclose(entropy(np.array([1.0, 1.0])), 1.0)
    table = NodeCounts(0, np.arange(2), counts, covariance)
    assert math.isclose(cut_deviations(np.array([[1.0, 0.0]]), table)[0][0], quantity)


def test_a_cut_in_two_deviates_as_two_branches_do():
    """Quantity, mean and variance, with any covariance of the counts."""
    rng = np.random.default_rng(3)
    counts = rng.uniform(5, 40, (4, 3))
    root = rng.normal(size=(12, 12))
    covariance = (root @ root.T).reshape(4, 3, 4, 3)
    below = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]])
    table = NodeCounts(0, np.arange(4), counts, covariance)
    found = np.array(cut_deviations(below, table))
    for cut, members in enumerate(below):
        both = np.stack([members, 1 - members])
        spread = np.einsum("ga,akbl,hb->gkhl", both, covariance, both)
        stated = deviation(both @ counts, spread, np.array([True, True]))
        assert found[:, cut] == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("perturbed", [False, True])
def test_independent_data_are_hardly_ever_split(perturbed):
    """At 5 % at most 1 in 20 independent data sets may be split: 200 of them would exceed 28 by
    chance once in a million.
    """
    splits, careless = 0, 0
    for seed in range(200):
        truth = people(1500, seed, told=False)
        source = (
            sf.perturb(truth, sf.Retention(PEOPLE, 0.5), seeded(seed))
            if perturbed
            else Exact(truth)
        )
        splits += DecisionTree("ill", max_depth=1, most_cells=8).fit(source).tree_.depth
        careless += (
            DecisionTree("ill", max_depth=1, most_cells=8, significance=None)
            .fit(source)
            .tree_.depth
        )
    assert splits <= 28
    assert careless > 100


def test_the_mean_and_variance_of_chance_are_those_of_repeated_perturbation():
    """Q of an independent feature over 400 perturbations: its mean within 5 standard errors of what
    the covariance says.
    """
    truth = people(4000, 7, told=False)
    quantities, means = [], []
    for seed in range(400):
        release = sf.perturb(truth, sf.Retention(PEOPLE, 0.5), seeded(seed))
        problem = Problem.of(release, "ill", ["city"], 8)
        counts = TreeQuestions(problem).counts({}, 0)
        # The truth is held fixed here, so sampling error is taken out again.
        fixed = problem.tables[0].cell_covariance(np.arange(6)).reshape(3, 2, 3, 2)
        quantity, mean, _ = deviation(counts.value, fixed, np.ones(3, dtype=bool))
        quantities.append(quantity)
        means.append(mean)
    exact, _, _ = deviation(
        Exact(truth).marginal(["city", "ill"]).value, fixed, np.ones(3, dtype=bool)
    )
    error = np.std(quantities) / math.sqrt(400)
    assert abs(np.mean(quantities) - np.mean(means) - exact) < 5 * error
    assert abs(np.mean(quantities) - 1.5 * np.mean(means) - exact) > 5 * error


def test_noise_that_hides_everything_gives_the_majority_and_says_so():
    release = sf.perturb(people(300), sf.Retention(PEOPLE, 0.05), seeded(1))
    tree = DecisionTree("ill").fit(release)
    assert tree.tree_.depth == 0
    assert "no split is significant in 300 rows" in tree.notes_[0]
    assert len(set(tree.predict(people(50)).tolist())) == 1
    assert len(tree.predict({"age": [1, 2]})) == 2


# Releases.


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    "mechanism",
    [
        lambda domain: sf.Retention(domain, 0.6),
        lambda domain: sf.Permuting(domain, 0.6),
        lambda domain: sf.GammaDiagonal(
            replace(domain, attributes=(Bins("age", (0, 30, 60, 99)), *domain.attributes[1:])), 60
        ),
        lambda domain: sf.BitFlip(
            replace(domain, attributes=(Bins("age", (0, 30, 60, 99)), *domain.attributes[1:])),
            0.9,
            0.9,
        ),
    ],
)
def test_a_release_teaches_nearly_what_the_truth_teaches(mechanism, public):
    domain = public_target(PEOPLE) if public else PEOPLE
    release = sf.perturb(people(20_000), mechanism(domain), seeded(2))
    test = people(4000, seed=3)
    tree = DecisionTree("ill", max_depth=3, most_cells=10).fit(release)
    direct = DecisionTree("ill", max_depth=3, most_cells=10).fit(Exact(people(20_000)))
    assert tree.quality(test).auc > direct.quality(test).auc - 0.05
    assert tree.quality(test).agreement(direct.quality(test))["same_label"] > 0.85


def test_the_tree_asks_for_marginals_and_nothing_else():
    class OnlyMarginals(sf.source.Source):
        domain, rows = PEOPLE, 8000
        inner = Exact(people())

        def supports(self):
            raise AssertionError

        def _estimates(self, questions):
            return [self.inner.marginal(cells) for cells in questions]

    assert (
        DecisionTree("ill").fit(OnlyMarginals()).text()
        == DecisionTree("ill").fit(Exact(people())).text()
    )


def test_reports_are_integrated_over_the_truth():
    """P(class | report) by Bayes' rule over all records, each leaf's columns independent: the slow
    obvious answer.
    """
    domain = Domain(
        (Category("a", tuple("xyz")), Category("b", tuple("pq")), Category("y", ("0", "1")))
    )
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, 5000), rng.integers(0, 2, 5000)
    y = rng.random(5000) < np.where(a == 0, 0.9, np.where(b == 0, 0.5, 0.1))
    truth = Table(domain, tuple(column.astype(np.uint8) for column in (a, b, y)))
    tree = DecisionTree("y").fit(Exact(truth))
    assert tree.tree_.used == (0, 1)
    for mechanism in (
        sf.Retention(public_target(domain), 0.5),
        sf.GammaDiagonal(public_target(domain), 7),
    ):
        reports = sf.perturb(truth, mechanism, seeded(1)).table
        channel = channel_over(mechanism, [0, 1]).to_dense().reshape(3, 2, 3, 2)
        joint = np.zeros((3, 2, 2))
        margins = [np.bincount(column, minlength=size) / 5000 for column, size in ((a, 3), (b, 2))]
        for leaf in tree.tree_.leaves:
            own = [margin * leaf.region.get(place, True) for place, margin in enumerate(margins)]
            density = np.multiply.outer(*(column / column.sum() for column in own))
            joint += leaf.rows / 5000 * density[..., None] * leaf.shares
        expected = np.einsum("vwab,aby->vwy", channel, joint)
        expected /= expected.sum(axis=2, keepdims=True)
        found = tree.predict_proba(reports)
        assert np.allclose(found, expected[reports.columns[0], reports.columns[1]])
        assert tree.quality(reports).auc > 0.55


def test_copies_of_a_record_are_taken_together():
    domain = public_target(PEOPLE)
    reports = sf.perturb(people(2000), sf.Retention(domain, 0.4), seeded(1), copies=5).table
    tree = DecisionTree("ill", max_depth=3, most_cells=10).fit(Exact(people()))
    assert len(tree.predict(reports)) == 2000
    single = sf.perturb(people(2000), sf.Retention(domain, 0.4), seeded(1)).table
    assert tree.quality(reports).auc > tree.quality(single).auc + 0.05


# Public data.


def test_as_good_as_scikit_learn_on_the_truth(data_dir):
    from sklearn.tree import DecisionTreeClassifier

    train, test = (Table.from_arrow(*part) for part in salary_split(data_dir))
    names = [name for name in train.domain.names if name != "income"]

    def one_hot(table):
        parts = [
            np.eye(table.domain[name].size)[table.column(name)]
            for name in ("native_country", "workclass")
        ]
        return np.hstack(
            [*parts, *(table.column(name)[:, None] for name in ("age", "hours_per_week"))]
        )

    theirs = DecisionTreeClassifier(max_depth=6, random_state=0).fit(
        one_hot(train), train.column("income")
    )
    tree = DecisionTree("income", max_depth=6).fit(Exact(train))
    assert len(names) == 4
    assert tree.score(test) > theirs.score(one_hot(test), test.column("income")) - 0.01


def test_frapp_classification_is_no_worse_than_the_majority(data_dir):
    everyone, domain = salary(data_dir)
    table = Table.from_arrow(everyone, domain)
    order = np.random.default_rng(1).permutation(table.rows)
    train, test = table.take(order[: 3 * table.rows // 4]), table.take(order[3 * table.rows // 4 :])
    release = sf.perturb(train, sf.GammaDiagonal(public_target(domain.binned()), 19), seeded(1))
    assert isinstance(channel_over(release.mechanism).factors[0], Retain)
    quality = DecisionTree("income").fit(release).quality(test)
    assert quality.accuracy >= quality.baseline - 0.003


# Bad input and conventions.


def test_bad_targets_are_named():
    with pytest.raises(SchemaError, match=r"no attribute 'il' to predict.*did you mean 'ill'"):
        DecisionTree("il").fit(Exact(people()))
    with pytest.raises(SchemaError, match="a number without cuts"):
        DecisionTree("age").fit(Exact(people()))
    healthy = people()
    healthy = replace(
        healthy, columns=(*healthy.columns[:3], np.zeros(healthy.rows, dtype=np.uint8))
    )
    with pytest.raises(DataError, match="every record has ill = 'no'"):
        DecisionTree("ill").fit(Exact(healthy))
    with pytest.raises(SchemaError, match="one class only"):
        DecisionTree("y").fit(
            Exact(
                Table(
                    Domain((Category("x", ("a", "b")), Category("y", ("c",)))),
                    (np.zeros(3, np.uint8),) * 2,
                )
            )
        )


def test_bad_parameters_say_what_would_do():
    for wrong, message in (
        ({"criterion": "ginni"}, "did you mean 'gini'"),
        ({"min_rows": 0}, "at least 1 row"),
        ({"significance": 2}, "not a probability"),
        ({"max_depth": 0}, "use max_depth >= 1"),
        ({"features": ["ill"]}, "is the target"),
        ({"features": "age"}, "must be a list"),
    ):
        with pytest.raises(ParameterError, match=message):
            DecisionTree("ill", **wrong).fit(Exact(people()))
    with pytest.raises(ParameterError, match="fitted on a source"):
        DecisionTree("ill").fit(pa.table({"ill": ["no"]}))
    with pytest.raises(EstimationError, match="learned nothing yet"):
        DecisionTree("ill").predict(people())


def test_unseen_values_are_named_or_go_to_other():
    tree = DecisionTree("ill", max_depth=3).fit(Exact(people()))
    strange = {"age": [20], "city": ["Limo"], "pet": ["cat"]}
    with pytest.raises(
        DataError,
        match=r"row 1, column 'city': 'Limo' is not one of its values.*did you mean 'Lima'",
    ):
        tree.predict(strange)
    attributes = tuple(replace(a, other="Rome") if a.name == "city" else a for a in PEOPLE)
    welcoming = Table(Domain(attributes), people().columns)
    assert DecisionTree("ill", max_depth=3).fit(Exact(welcoming)).predict(strange).tolist() == [
        "no"
    ]
    with pytest.raises(SchemaError, match="no column 'city'"):
        tree.predict({"age": [20]})


def test_perturbed_labels_do_not_judge():
    tree = DecisionTree("ill").fit(Exact(people()))
    with pytest.raises(EstimationError, match="'ill' is perturbed in these records"):
        tree.score(sf.perturb(people(), sf.Retention(PEOPLE, 0.5), seeded(1)))


def test_every_kind_of_table_is_predicted_alike():
    import pandas
    import polars

    tree = DecisionTree("ill", max_depth=3).fit(Exact(people()))
    table = people(200, seed=8)
    expected = tree.predict_proba(table)
    arrow = table.to_arrow()
    columns = arrow.to_pydict()
    matrix = np.array([columns[name] for name in ("age", "city", "pet")], dtype=object).T
    for data in (
        arrow,
        columns,
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
        Exact(table),
        matrix,
    ):
        assert np.array_equal(tree.predict_proba(data), expected)
    assert np.array_equal(tree.predict(columns), tree.classes_[expected.argmax(axis=1)])
    assert tree.score(columns, columns["ill"]) == tree.score(table)


def test_scikit_learn_conventions():
    from sklearn.base import clone, is_classifier
    from sklearn.pipeline import make_pipeline

    tree = DecisionTree("ill", max_depth=3, criterion="entropy")
    copy = clone(tree)
    assert copy.get_params() == tree.get_params() and not hasattr(copy, "classes_")
    assert is_classifier(tree)
    assert (
        repr(copy.set_params(max_depth=2))
        == "DecisionTree(target='ill', criterion='entropy', max_depth=2)"
    )
    with pytest.raises(ParameterError, match="did you mean 'max_depth'"):
        copy.set_params(max_dept=2)
    fitted = tree.fit(Exact(people()))
    frame = people(100, seed=2).to_arrow().to_pandas()
    assert np.array_equal(make_pipeline(fitted).predict(frame), fitted.predict(frame))


def test_areas_under_the_curve():
    rng = np.random.default_rng(1)
    positive, score = rng.random(300) < 0.4, rng.integers(0, 20, 300)
    pairs = np.sign(score[positive][:, None] - score[~positive][None, :])
    assert math.isclose(roc_area(positive, score), ((pairs + 1) / 2).mean())


def test_looking_ahead_never_refuses_a_tree() -> None:
    """Reports of three columns at once tell a node's splits, not those of its children's children:
    version 0.1.0 grew this tree.
    """
    columns = [Category(name, ("no", "yes")) for name in ("a", "b", "c", "d", "ill")]
    rng = np.random.default_rng(4)
    codes = [rng.integers(0, 2, 6000).astype(np.uint8) for _ in columns]
    codes[4] = (rng.random(6000) < np.where(codes[0] == 1, 0.9, 0.1)).astype(np.uint8)
    domain = Domain(tuple(columns))
    release = sf.perturb(Table(domain, tuple(codes)), sf.CutAndPaste(domain, 3, 0.05), seeded(3))
    assert DecisionTree("ill", max_depth=2).fit(release).text().startswith("a = no: no")


def test_leaves_of_bits_are_asked_about_their_own_columns() -> None:
    """A sum over columns that a leaf does not name would add their noise to it."""
    names = ("a", "b", "c", "d", "ill")
    domain = Domain(tuple(Category(name, ("no", "yes")) for name in names))
    rng = np.random.default_rng(9)
    codes = [rng.integers(0, 2, 6000).astype(np.uint8) for _ in names]
    ill = np.where(codes[0] == 0, 0.1, np.where(codes[1] == 1, 0.9, 0.4))
    codes[4] = (rng.random(6000) < ill).astype(np.uint8)
    release = sf.perturb(Table(domain, tuple(codes)), sf.BitFlip(domain, 0.9, 0.9), seeded(3))
    said = DecisionTree("ill", max_depth=2).fit(release).text()
    table = release.marginal(["a", "b", "ill"]).value
    assert f"of {table[1, 1].sum():,.0f})" in said, said
    assert f"of {table[1, 0].sum():,.0f})" in said, said


def test_a_branch_that_a_law_gives_nobody_has_the_shares_of_its_node() -> None:
    counts = np.array([[30.0, 10.0], [0.0, 0.0]])
    split = Split(0, np.array([0, 1]), counts, np.zeros((2, 2, 2, 2)), 0.1, 0.1, 0.0, shrunk=True)
    assert shrunken(split, np.array([0.6, 0.4])).tolist() == [[0.75, 0.25], [0.6, 0.4]]
