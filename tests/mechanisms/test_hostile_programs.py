"""Programs that nobody would write, judged by going through all that they send: neither client
shows less than is true, and none can be made to hang.
"""

from __future__ import annotations

import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.mechanisms.enumerated import branches, enumerated, murmur3
from tests.mechanisms.hostile_programs import MAKERS, large, programs
from tests.mechanisms.judge import Judgement, judged
from tests.mechanisms.programs import CASES, Case

from sfumato.mechanisms.steps import (
    Column,
    CutStep,
    Deal,
    Diagonal,
    Flip,
    Kary,
    Step,
    Subset,
    Window,
)

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed"),
    pytest.mark.xdist_group("hostile programs"),  # judged once, for all tests
]
SEED = 30
COUNT = 2_000
ROUNDS = 25  # of 2,000 programs each, in the long trial


@pytest.fixture(scope="module")
def judgement(tmp_path_factory: pytest.TempPathFactory) -> Judgement:
    return judged(programs(COUNT, SEED), tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize(
    "kinds",
    [
        ["shows less than is true"],
        ["names what is sent as it is wrongly"],
        ["sends what cannot be sent"],
        ["sides send differently"],
        ["sides show differently"],
        ["shows more than is true"],
        ["one refuses, one accepts", "cannot be followed"],
        ["hangs", "slow"],
        ["breaks"],
        ["the server refuses what can be sent"],
        ["the server accepts what cannot be sent"],
    ],
    ids=lambda kinds: kinds[0],
)
def test_no_client_and_no_server_does_this_with_any_program(
    judgement: Judgement, kinds: list[str]
) -> None:
    assert not judgement.of(*kinds), judgement.lines()


def test_half_of_the_programs_are_run_and_followed_and_many_refused(judgement: Judgement) -> None:
    assert judgement.counts["programs"] == COUNT
    assert judgement.counts["accepted and enumerated"] > 0.45 * COUNT
    assert judgement.counts["refused by both"] > 0.3 * COUNT


def test_every_step_is_tried_alone_beside_others_and_in_a_deal() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for program in programs(COUNT, SEED)[1::2]:
        try:
            for step in program["steps"]:
                for each in step.get("questions", [step]):
                    where = "dealt" if each is not step else "beside"
                    found[
                        each["step"], where if program["steps"][1:] or each is not step else ""
                    ] += 1
        except (KeyError, TypeError, AttributeError):
            continue
    expected = {(kind, where) for kind in MAKERS for where in ("", "beside", "dealt")}
    assert all(found[each] >= 5 for each in expected - {("public", "dealt")}), found


@pytest.mark.parametrize("case", [case for case in CASES if case.mechanism], ids=lambda c: c.name)
def test_what_the_mechanisms_promise_is_what_is_true(case: Case) -> None:
    data = case.program.to_dict()
    kinds = {step["step"] for _, actions in branches(data) for step in actions}
    if "collide" not in kinds:  # of which the promise holds for any hash
        named = case.program.sent_as_is
        assert enumerated(data).worst(named) == case.program.gamma_beside(named)


def test_the_hash_is_the_published_one() -> None:
    assert [hex(murmur3(text)) for text in (b"", b"test", b"Hello, world!")] == [
        "0x0",
        "0xba6bd213",
        "0xc0363e43",
    ]


@pytest.mark.parametrize(
    "size", [40, 1_000, pytest.param(10_000, marks=pytest.mark.soak)], ids=lambda size: f"{size}"
)
def test_a_large_program_is_refused_by_both_or_soon_done(size: int, tmp_path: Path) -> None:
    found = judged(large(size), tmp_path)
    assert not found.faults, found.lines()


def _lowered(step: type[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step say that it gives away one per cent less than it does."""
    actual = step.gamma.fget  # type: ignore[attr-defined]

    def lower(self: Step) -> Any:
        gamma = actual(self)
        return max(Fraction(1), gamma * Fraction(99, 100)) if isinstance(gamma, Fraction) else gamma

    monkeypatch.setattr(step, "gamma", property(lower))


@pytest.mark.parametrize("step", [Diagonal, Flip, Kary, Subset, Window], ids=lambda s: s.kind)
def test_a_gamma_one_per_cent_too_low_is_noticed(
    step: type[Step], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _lowered(step, monkeypatch)
    found = judged(programs(600, SEED)[300:], tmp_path)
    assert any(fault.what.startswith("Python") for fault in found.of("shows less than is true"))


def _sizes_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = CutStep.outputs.fget  # type: ignore[attr-defined]
    drawn = property(lambda self: tuple(Column(c.size, c.basket) for c in columns(self)))
    monkeypatch.setattr(CutStep, "outputs", drawn)


def _questions_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deal, "sent_as_is", ())


@pytest.mark.parametrize("forget", [_sizes_forgotten, _questions_forgotten])
def test_a_size_that_nobody_names_is_noticed(
    forget: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget(monkeypatch)
    found = judged(programs(600, SEED)[300:], tmp_path)
    assert any("true is infinite" in fault.what for fault in found.of("shows less than is true"))
    assert found.of("sides show differently")


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_nor_with_any_of_many_more(turn: int, tmp_path: Path) -> None:
    found = judged(programs(COUNT, SEED + 1 + turn), tmp_path)
    assert not found.faults, found.lines()
