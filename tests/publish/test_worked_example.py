"""The worked example of Li and Sarkar (2004), tables 1–3, step by step."""

import numpy as np
import pytest

from papers.li_sarkar import insurance, worked_example
from sfumato.publish.greedy import plan_flows
from sfumato.publish.identify import identify, status_of
from sfumato.publish.owned import columns_of, patterns, records_of
from sfumato.publish.swap import swap
from sfumato.randomness import seeded

TABLE_3 = """
.2269 .7563 .0168
.2842 .1895 .5263
.1698 .7547 .0755
.0476 .6349 .3175
.6090 .0902 .3008
.1130 .0502 .8368
.7431 .1651 .0917
.0826 .8257 .0917
.0769 .0684 .8547
"""


def test_table_1_status() -> None:
    data = records_of(insurance())
    keys = patterns(columns_of(data, ["Age", "Gender", "Location"]))
    status = status_of(keys, data.column("Amount"))
    assert (np.flatnonzero(status.unique) + 1).tolist() == [1, 6, 7, 10, 13, 16]
    assert (np.flatnonzero(status.collective) + 1).tolist() == [2, 3, 4, 5, 11, 12]
    assert status.groups == 3


def test_identify_has_the_documented_shape() -> None:
    found = identify(insurance(), confidential="Amount").to_dict()
    wanted = {"records": 16, "unique": 6, "collective": 6, "groups": 3, "unidentifiable": 4}
    assert {name: found[name] for name in wanted} == wanted
    assert found["k_anonymity"] == 1 and found["l_diversity"] == 1 and found["sample_uniques"] == 6
    assert [role["name"] for role in found["columns"]] == ["Location", "Gender", "Age"]


def test_phase_one_moves_three_and_no_total() -> None:
    flows = worked_example().flows
    assert flows.drift == 0
    assert flows.flows.sum() == 3
    assert (flows.flows.sum(axis=0) == flows.flows.sum(axis=1)).all()
    # The paper's own solution, one record round the circle, is one of the two optimal ones.
    circle = np.roll(np.eye(3, dtype=int), 1, axis=1)
    assert (flows.flows == circle).all() or (flows.flows == circle.T).all()


def test_phase_one_drifts_when_one_value_holds_nearly_all() -> None:
    assert plan_flows(np.array([9, 1]), 8).drift == 12


def test_table_3_posteriors() -> None:
    found = worked_example()
    table = np.array(
        [[float(cell) for cell in line.split()] for line in TABLE_3.split("\n") if line]
    )
    assert np.abs(found.posterior - table).max() < 6e-5


def test_the_three_objectives() -> None:
    found = worked_example()
    assert found.phase_one == pytest.approx(4.0718, abs=5e-4)  # the paper adds rounded figures
    assert found.phase_two == pytest.approx(2.4237, abs=5e-4)
    assert found.optimum_apart == pytest.approx(2.4238, abs=5e-5)
    assert found.optimum == pytest.approx(2.1353, abs=5e-5)


@pytest.mark.parametrize("seed", range(5))
def test_swap_reaches_the_optimum_whatever_the_seed(seed: int) -> None:
    release = swap(insurance(), 0.5, confidential="Amount", rng=seeded(seed))
    found = release.to_dict()
    assert found["objective"] == pytest.approx(2.1353, abs=5e-5)
    assert (found["changed"], found["marginal_drift"], found["optimal"]) == (6, 0, True)
    assert found["gap"] < 1e-9
    assert found["attack"]["after"]["identifiable"] == pytest.approx(0.5)
    assert found["after"]["collective"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_never_below_the_optimum(seed: int) -> None:
    how = {"confidential": "Amount", "method": "greedy"}
    found = swap(insurance(), 0.5, rng=seeded(seed), **how).to_dict()
    assert found["objective"] > 2.1353 - 1e-4
    assert (found["changed"], found["marginal_drift"], found["optimal"]) == (6, 0, False)
