"""A blurrier copy against the law that it states, worked out in fractions and by repeated draws."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.domain import Category, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.privacy.guarantee import Guarantee
from sfumato.table.reblurring import reblur, staying, weakened

DOMAIN = Domain(
    (
        Category("colour", ("red", "green", "blue")),
        Category("size", ("small", "large")),
        Category("region", ("north", "south"), public=True),
    )
)


def people(rows: int):
    return {
        "colour": ["red", "red", "blue", "green"] * (rows // 4),
        "size": ["small", "large"] * (rows // 2),
        "region": ["north", "north", "south", "north"] * (rows // 4),
    }


@pytest.mark.parametrize("before", [Fraction(19), Fraction(7, 2), Fraction(1000)])
@pytest.mark.parametrize("after", [Fraction(3), Fraction(5, 4)])
@pytest.mark.parametrize("answers", [2, 3, 21, 1000])
def test_what_stays_and_what_is_drawn_evenly_are_k_ary_response_again(before, after, answers):
    def law(gamma):
        return gamma / (gamma + answers - 1), 1 / (gamma + answers - 1)

    stays = staying(before, after, answers)
    true, other = (stays * each + (1 - stays) / answers for each in law(before))
    assert (true, other) == law(after)


@pytest.mark.parametrize("mechanism", ["gamma-diagonal", "questionnaire"])
def test_a_copy_is_as_if_it_had_been_made_at_its_own_gamma(mechanism):
    """Its answers are unbiased, and their errors are those of repeated copies of repeated
    releases.
    """
    found, stated = [], []
    for seed in range(60):
        release = sf.perturb(people(4000), mechanism, sf.seeded(seed), schema=DOMAIN, gamma=19)
        copy = sf.reblur(release, gamma=5, rng=sf.seeded(1000 + seed))
        answer = copy.marginal(["colour", "size"]).where(colour="red", size="large")
        found.append(answer.value)
        stated.append(answer.stderr)
        assert copy.marginal(["region"]).where(region="south").value == 1000
    error = np.mean(stated)
    assert abs(np.mean(found) - 1000) < 5 * error / np.sqrt(60)
    assert 0.65 < np.std(found) / error < 1.45


def test_every_report_of_one_answer_goes_to_the_others_evenly():
    mechanism = GammaDiagonal(DOMAIN, 19)
    release = sf.perturb(people(40_000), mechanism, sf.seeded(1), schema=DOMAIN, keep_order=True)
    copy = sf.reblur(release, gamma=3, rng=sf.seeded(2))
    first, after = (
        2 * each.table.columns[0].astype(int) + each.table.columns[1] for each in (release, copy)
    )
    stays = float(staying(19, copy.mechanism.gamma, 6))
    for cell in range(6):
        counts = np.bincount(after[first == cell], minlength=6)
        expected = np.full(6, (1 - stays) / 6) + stays * (np.arange(6) == cell)
        expected *= counts.sum()
        assert ((counts - expected) ** 2 / expected).sum() < 40  # χ² of 5: below 1 in 10^6


def test_a_chain_of_copies_states_each_gamma_and_carries_the_mark_of_a_seed(tmp_path):
    release = sf.perturb(people(400), "gamma-diagonal", schema=DOMAIN, gamma=19)
    first = sf.reblur(release, gamma=7)
    second = sf.reblur(first, gamma=2.5)
    assert [r.provenance.guarantee.gamma for r in (release, first, second)] == [19, 7, 2.5]
    assert second.provenance.secure
    assert len({r.provenance.release for r in (release, first, second)}) == 3
    experiment = sf.perturb(people(400), "gamma-diagonal", sf.seeded(1), schema=DOMAIN, gamma=19)
    assert not sf.reblur(experiment, gamma=7).provenance.secure


def test_the_command_writes_a_release_once_and_describes_it(tmp_path):
    sf.perturb(people(400), "questionnaire", schema=DOMAIN, gamma=19).save(tmp_path / "r.parquet")
    written = tmp_path / "copy.parquet"
    call = ["reblur", str(tmp_path / "r.parquet"), "--gamma", "5", "-o", str(written), "--json"]
    found = json.loads(CliRunner().invoke(app, call).stdout)
    assert found["gamma"] == 5 and found["secure"] and found["rows"] == 400
    described = CliRunner().invoke(app, ["describe", str(written), "--json"])
    assert json.loads(described.stdout)["gamma"] == 5
    again = CliRunner().invoke(app, call)
    assert again.exit_code == 2 and "--force" in again.stdout


@pytest.mark.parametrize("gamma", [19, 20, 1])
def test_no_blurring_is_undone(gamma):
    with pytest.raises(ParameterError, match="smaller gamma"):
        weakened(GammaDiagonal(DOMAIN, 19), Guarantee(gamma))


@pytest.mark.parametrize("mechanism", ["retention", "mask", "permuting", "subset-selection"])
def test_what_is_no_k_ary_answer_is_refused(mechanism):
    given = {"keep": 0.5} if mechanism == "permuting" else {}
    made = (
        sf.Permuting(DOMAIN, 0.5)
        if given
        else sf.perturb(people(40), mechanism, schema=DOMAIN, gamma=19).mechanism
    )
    with pytest.raises(ParameterError, match="cannot be blurred again"):
        weakened(made, Guarantee(5))


def test_true_records_and_several_reports_of_one_person_are_refused():
    truth = sf.read(people(40), DOMAIN)
    with pytest.raises(ParameterError, match="true records"):
        reblur(truth, Guarantee(5))
    several = sf.perturb(people(40), "gamma-diagonal", schema=DOMAIN, gamma=19, copies=2)
    with pytest.raises(ParameterError, match="one report of each person"):
        sf.reblur(several, gamma=5)
