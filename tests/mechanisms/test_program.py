"""Client programs: their exact law is the mechanism's channel, their γ is that of the law, and what
does not fit is refused.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.examples import EXAMPLES
from tests.mechanisms.outcomes import WIDEST, every_record, exact_gamma, report_law
from tests.mechanisms.programs import CASES, QUESTIONNAIRE, STEPS, Case

from sfumato.bits import Bits
from sfumato.domain import Category, Columns, Domain, Items, Numeric
from sfumato.errors import FileError, ParameterError, PrivacyError, SfumatoError
from sfumato.mechanisms.base import axis_codes
from sfumato.mechanisms.bitflip import BitFlip, ItemFlips
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.item_set import ItemSet
from sfumato.mechanisms.joint import UnaryEncoding
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Deal, Diagonal, Draws, Flip, Kary, Spread, Step
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.testing import REJECT, fit


def can_be_counted(program: Program) -> bool:
    """Whether every outcome can be gone through: no rejection loop, no bound beyond some
    thousand.
    """
    return not any(
        step.kind in ("spread", "collide", "diagonal64") or getattr(step, "total", 0) > WIDEST
        for step in program.steps
    )


COUNTED = [case for case in CASES if can_be_counted(case.program)]
names = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
counted = pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.name)


def bit_sliced(mechanism: Any) -> bool:
    """Whether the library draws many records of this mechanism at once."""
    parts = mechanism.parts if isinstance(mechanism, Combined) else (mechanism,)
    many = ItemFlips | CutAndPaste | ItemSet | UnaryEncoding
    return any(isinstance(part, many) for part in parts)


def as_values(domain: Domain, columns: Columns, row: int) -> list[Any]:
    return [
        np.flatnonzero(column.slice(row, row + 1).to_dense()[0]).tolist()
        if isinstance(column, Bits)
        else int(column[row])
        for column in columns
    ]


def as_columns(domain: Domain, record: Any) -> Columns:
    return tuple(
        Bits.from_dense(np.isin(np.arange(attribute.size), value)[None, :])
        if isinstance(attribute, Items)
        else np.array([value])
        for attribute, value in zip(domain, record, strict=True)
    )


# --- γ and the law, by going through every outcome


def blurred_gamma(program: Program) -> Any:
    """The γ of what is drawn, all that is sent as it is being named."""
    return program.gamma_beside(program.sent_as_is)


@counted
def test_gamma_is_that_of_the_exact_law(case: Case) -> None:
    assert blurred_gamma(case.program) == exact_gamma(case.program)


@counted
def test_the_exact_law_is_the_channel_of_the_mechanism(case: Case) -> None:
    if case.mechanism is None:
        return
    mechanism = case.mechanism
    example = next(found for found in EXAMPLES if found.mechanism is mechanism)
    matrix = example.matrix(np.zeros(mechanism.domain.shape))
    for record in every_record(case.program):
        column = np.zeros(matrix.shape[0])
        for report, chance in report_law(case.program, record).items():
            codes = axis_codes(as_columns(mechanism.reports, report))
            place = np.ravel_multi_index([int(code[0]) for code in codes], mechanism.reports.shape)
            column[place] += float(chance)
        codes = axis_codes(as_columns(mechanism.domain, record))
        truth = np.ravel_multi_index([int(code[0]) for code in codes], mechanism.domain.shape)
        np.testing.assert_allclose(column, matrix[:, truth], atol=1e-9)


@counted
def test_the_probability_of_the_truth_is_that_of_the_exact_law(case: Case) -> None:
    program = case.program
    if program.dealt is not None or any(
        step.kind in ("kary", "own", "symbol", "window", "subset", "cut", "flip", "unary")
        for step in program.steps
    ):
        return
    for record in every_record(program):
        assert program.truthful(record) == report_law(program, record)[tuple(record)]


def test_the_probability_that_an_item_a_window_or_a_set_is_true() -> None:
    held = {
        "kary": lambda report, record: report[0] == 3 * record[0] + record[1],
        "own": lambda report, record: (
            report[0] in ((0, 2), (1, 2), (3, 4))[(0, 1, 1, 2)[2 * record[0] + record[1]]]
        ),
        "symbol": lambda report, record: set((0, 1, 3, None)) and _holds(record[0], report[0]),
        "symbol, tiers": lambda report, record: _holds(record[0], report[0], (3, 5)),
        "window": lambda report, record: 0 <= report[0] - record[0] < 3,
        "window, zero": lambda report, record: (
            0 <= report[0] - (record[0] - 1) < 3 if record[0] else report[0] == 6
        ),
        "subset": lambda report, record: record[0] in report[0],
        "unary, folded": lambda report, record: report[0] == ((0, 1, 1, 2)[record[0]],),
        "flip, each its own": lambda report, record: report[0] == record[0],
        "cut, baskets": lambda report, record: report[0] == record[0],
    }
    assert held.keys() <= {case.name for case in STEPS}
    for case in (case for case in STEPS if case.name in held):
        for record in every_record(case.program):
            found = report_law(case.program, record).items()
            true = sum((p for report, p in found if held[case.name](report, record)), Fraction(0))
            assert case.program.truthful(record) == true, case.name


def _holds(basket: tuple[int, ...], symbol: int, tiers: tuple[int, ...] = ()) -> bool:
    candidates = ((0,), (1,), (3,), (0, 1), (1, 2, 3))
    own = [set(candidate) <= set(basket) for candidate in candidates]
    tier = sum(start <= sum(own) for start in tiers)
    every = [*own, *(place + 1 == tier for place in range(len(tiers)))]
    return every[symbol] if symbol < len(every) else not any(own)


@names
def test_gamma_is_the_guarantee_of_the_mechanism(case: Case) -> None:
    if case.mechanism is not None:
        assert blurred_gamma(case.program) == case.mechanism.guarantee.gamma
        case.program.check_reads(case.mechanism.domain)
        written = [(column.size, column.basket) for column in case.program.outputs]
        reports = case.mechanism.reports
        assert written == [(each.size, isinstance(each, Items)) for each in reports]


@pytest.mark.parametrize("sizes", [(2, 3), (70_000, 70_000, 9)])
def test_gamma_of_many_cells_is_that_of_the_mechanism(sizes: tuple[int, ...]) -> None:
    domain = Domain(tuple(Numeric(f"n{i}", 0, size - 1) for i, size in enumerate(sizes)))
    for gamma in (Fraction(19), Fraction("13.28"), Fraction(2.718281828)):
        mechanism = GammaDiagonal(domain, gamma)
        assert mechanism.program().gamma == mechanism.guarantee.gamma <= gamma


def test_a_gamma_too_large_for_a_float_is_still_exact() -> None:
    shop = Domain((Items("items", tuple(map(str, range(2000)))),))
    mechanism = BitFlip(shop, 0.9, 0.9)
    assert mechanism.program().gamma == Fraction(58_982, 65_536 - 58_982) ** 2000


# --- what cannot be gone through follows its law


def frequencies(program: Program, record: Any, rows: int) -> Counter[Any]:
    draws = Draws.of(seeded(5))
    return Counter(str(program.randomise_one(record, draws)) for _ in range(rows))


def test_a_spread_weight_moves_to_all_other_records_alike() -> None:
    program = next(case.program for case in STEPS if case.name == "spread, small numbers")
    found = frequencies(program, [1], 60_000)
    counts = np.array([[found[f"[{code}]"]] for code in range(3)])
    expected = np.array([[2 / 9], [5 / 9], [2 / 9]]) * 60_000
    assert fit(counts, expected) > REJECT
    assert fit(counts, np.array([[2 / 9 + 0.02], [5 / 9 - 0.02], [2 / 9]]) * 60_000) < REJECT


def test_a_bucket_of_an_own_item_is_gamma_times_as_likely_as_any_other() -> None:
    """Whatever the seed: own buckets have weight a of Ω, and what remains is shared alike."""
    from sfumato.mechanisms.steps.symbol_steps import buckets_of

    program = next(case.program for case in STEPS if case.name == "collide")
    draws, record, rows = Draws.of(seeded(6)), [[5, 77, 900]], 20_000
    own = 0
    for _ in range(rows):
        seed, bucket = program.randomise_one(record, draws)
        buckets = buckets_of("health-2027", seed, record[0], 4, 60)
        own += bucket in buckets and len(set(buckets)) == 3
    distinct = (59 / 60) * (58 / 60)
    expected = distinct * float(program.truthful(record))
    assert abs(own / rows - expected) < 5 * (expected * (1 - expected) / rows) ** 0.5
    assert abs(own / rows - expected * 0.9) > 5 * (expected * (1 - expected) / rows) ** 0.5


def test_the_pool_spreads_items_evenly_and_pairs_independently() -> None:
    from sfumato.mechanisms.steps.symbol_steps import buckets_of

    pairs = Counter(tuple(buckets_of("pool", seed, (3, 4711), 9, 8)) for seed in range(20_000))
    counts = np.array([[pairs[pair]] for pair in product(range(8), repeat=2)])
    assert fit(counts, np.full((64, 1), 20_000 / 64)) > REJECT


# --- byte for byte


@names
def test_the_library_draws_the_same_report_from_the_same_bytes(case: Case) -> None:
    mechanism = case.mechanism
    if mechanism is None or bit_sliced(mechanism):
        return
    example = next(found for found in EXAMPLES if found.mechanism is mechanism)
    records, rng, draws = example.records(300), seeded(1), Draws.of(seeded(1), chunk=7)
    for row in range(300):
        record = as_values(mechanism.domain, records, row)
        batch = mechanism.perturb(as_columns(mechanism.domain, record), rng)
        assert case.program.randomise_one(record, draws) == as_values(mechanism.reports, batch, 0)


@names
@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_buffers_of_any_size_give_the_same_reports(case: Case, chunk: int) -> None:
    records = first_records(case.program, 20)
    usual, tiny = Draws.of(seeded(2)), Draws.of(seeded(2), chunk=chunk)
    for record in records:
        assert case.program.randomise_one(record, usual) == case.program.randomise_one(record, tiny)


def first_records(program: Program, count: int) -> list[Any]:
    """Some records, spread over what the columns may hold."""
    rng = np.random.default_rng(3)
    return [
        [
            np.flatnonzero(rng.random(column.size) < 4 / (column.size + 4)).tolist()
            if column.basket
            else int(rng.integers(column.size))
            for column in program.inputs
        ]
        for _ in range(count)
    ]


def test_integers_are_those_of_the_keystream() -> None:
    for bound in (1, 2, 3, 255, 256, 257, 1000, 1 << 24, (1 << 24) + 1, 3 << 30, 1 << 32, 1 << 40,
                  (1 << 62) + 5, 1 << 64):  # fmt: skip
        rng, draws = seeded(4), Draws.of(seeded(4), chunk=5)
        drawn = [draws.below(bound) for _ in range(50)]
        assert drawn == [int(rng.below(bound, 1)[0]) for _ in range(50)]


def test_a_bound_that_cannot_be_drawn_below_is_refused() -> None:
    with pytest.raises(ParameterError, match="between 1 and 2\\^64"):
        Draws.of(seeded(1)).below(0)


# --- planted bugs


def off_by_one(data: Any) -> Iterator[Any]:
    """The JSON data with one integer larger or smaller by one, once for each."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in ("columns", "reports"):
                yield from ({**data, key: changed} for changed in off_by_one(value))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from (
                [*data[:place], changed, *data[place + 1 :]] for changed in off_by_one(value)
            )
    elif isinstance(data, int):
        yield from (data + 1, data - 1)
    elif isinstance(data, str) and data.isdigit():
        yield from (str(int(data) + 1), str(int(data) - 1))


@names
def test_an_integer_off_by_one_is_refused_or_seen_in_gamma_or_law(case: Case) -> None:
    """Whatever integer is wrong: the program is refused, is another one to the hash of the
    campaign, and has its own γ again by brute force.
    """
    data = case.program.to_dict()
    changed = 0
    for wrong in list(off_by_one(data["steps"]))[:40]:
        try:
            program = Program.from_dict({"version": 1, "steps": wrong})
        except SfumatoError:
            changed += 1
            continue
        changed += program != case.program
        if case in COUNTED and changed <= 12 and len(every_record(program)) <= 24:
            assert blurred_gamma(program) == exact_gamma(program)
    assert changed == min(40, len(list(off_by_one(data["steps"])))) > 0


def test_a_threshold_off_by_one_exceeds_the_promise() -> None:
    program = GammaDiagonal(Domain((Category("pet", ("cat", "dog", "eel")),)), 19).program()
    (step,) = program.to_dict()["steps"]
    assert Program.from_dict({"version": 1, "steps": [step]}).gamma == 19
    assert (
        Program.from_dict({"version": 1, "steps": [step | {"total": step["total"] + 1}]}).gamma > 19
    )


def test_a_column_left_out_is_refused() -> None:
    domain = Domain(tuple(Category(name, ("a", "b", "c")) for name in "xyz"))
    whole = Combined.promising(Guarantee(19), domain)
    for left_out in range(3):
        steps = [step for place, step in enumerate(whole.program().steps) if place != left_out]
        with pytest.raises(ParameterError, match=r"each once|does not fit"):
            Program(tuple(steps)).check_reads(whole.domain)


def test_a_column_of_another_size_is_refused() -> None:
    narrow = Domain((Category("x", ("a", "b")),))
    with pytest.raises(ParameterError, match=r"\[2\] values, theirs \[3\]"):
        GammaDiagonal(narrow, 5).program().check_reads(Domain((Category("x", ("a", "b", "c")),)))


def test_a_private_column_sent_as_it_is_is_refused() -> None:
    domain = Domain((Category("x", ("a", "b")),))
    step = {"step": "public", "columns": [0], "reports": [0], "size": 2}
    program = Program.from_dict({"version": 1, "steps": [step]})
    with pytest.raises(PrivacyError, match="sends 'x' as it is"):
        program.guarantee(domain)
    assert program.guarantee(Domain((Category("x", ("a", "b"), public=True),))).gamma == 1


def test_the_size_of_a_basket_in_a_dealt_question_is_seen() -> None:
    """A dishonest server asked for a cut inside a deal: γ was shown as 2, and the size was sent."""
    basket = Domain((Items("illnesses", ("hiv",)),))
    cut = {"step": "cut", "columns": [0], "reports": [1, 2], "items": 1, "cutoff": 1}
    deal = {"step": "deal", "columns": [0], "reports": [0, 1, 2], "weights": [1 << 32]}
    program = Program.from_dict(
        {"version": 1, "steps": [deal | {"questions": [cut | {"insert": 32768}]}]}
    )
    assert program.sent_as_is == ((0, "size"),) and program.gamma == math.inf
    with pytest.raises(PrivacyError, match="the size of 'illnesses' as it is"):
        program.guarantee(basket)
    assert program.guarantee(basket, ("illnesses",)).gamma == 2


# --- what is refused


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("retention, identity", "all records at once"),
        ("permuting", "all records at once"),
        ("matrix, with a zero", "promises nothing"),
        ("fp-nfp", "promises nothing"),
    ],
)
def test_what_a_respondent_cannot_run_is_refused_in_one_line(name: str, words: str) -> None:
    mechanism = next(example.mechanism for example in EXAMPLES if example.name == name)
    with pytest.raises(PrivacyError, match=words) as refusal:
        mechanism.program()
    assert "\n" not in str(refusal.value)


@names
def test_a_program_survives_json(case: Case) -> None:
    data = json.loads(json.dumps(case.program.to_dict()))
    assert Program.from_dict(data) == case.program
    assert data["version"] == 1


DIAGONAL = {
    "step": "diagonal", "columns": [0], "reports": [0], "sizes": [3], "scale": 1, "total": 21
}  # fmt: skip
CHANGES: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
    lambda data: data | {"version": 2},
    lambda data: data | {"version": "1"},
    lambda data: data | {"note": "x"},
    lambda data: {"steps": data["steps"]},
    lambda data: data | {"steps": []},
    lambda data: data | {"steps": ["diagonal"]},
    lambda data: data | {"steps": [{**DIAGONAL, "step": "triangle"}]},
    lambda data: data | {"steps": [{**DIAGONAL, "step": ["diagonal"]}]},
    lambda data: data | {"steps": [{**DIAGONAL, "shift": 1}]},
    lambda data: data | {"steps": [{k: v for k, v in DIAGONAL.items() if k != "total"}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": 21.5}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": True}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": -21}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": "21"}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": 2}]},
    lambda data: data | {"steps": [{**DIAGONAL, "total": 1 << 60}]},
    lambda data: data | {"steps": [{**DIAGONAL, "scale": 0}]},
    lambda data: data | {"steps": [{**DIAGONAL, "sizes": [0]}]},
    lambda data: data | {"steps": [{**DIAGONAL, "sizes": [3, 3]}]},
    lambda data: data | {"steps": [{**DIAGONAL, "sizes": 3}]},
    lambda data: data | {"steps": [{**DIAGONAL, "columns": [1]}]},
    lambda data: data | {"steps": [{**DIAGONAL, "reports": [1]}]},
    lambda data: data | {"steps": [DIAGONAL, DIAGONAL]},
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_a_program_that_is_not_understood_is_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    good = {"version": 1, "steps": [DIAGONAL]}
    assert Program.from_dict(good).gamma == 19
    with pytest.raises((FileError, ParameterError)) as refusal:
        Program.from_dict(change(good))
    assert "\n" not in str(refusal.value)


def wrong_steps() -> list[Step]:
    """Steps whose numbers are right, to be changed into wrong ones."""
    return [step for case in STEPS for step in case.program.steps]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("diagonal64", {"keep": 0}),
        ("diagonal64", {"keep": 1 << 64}),
        ("spread", {"reach": 6}),
        ("spread", {"total": (1 << 62) + 1}),
        ("retain", {"weights": (1, 2, 3)}),
        ("retain", {"keep": (1 << 32) + 1}),
        ("table", {"weights": ((1 << 32, 0), (5, 5))}),
        ("flip", {"ones": (1, 2)}),
        ("flip", {"zeros": (65_537,)}),
        ("flip", {"items": None}),
        ("flip", {"sizes": (4,)}),
        ("cut", {"insert": 65_536}),
        ("cut", {"cutoff": 0}),
        ("kary", {"answers": 5}),
        ("kary", {"map": (0, 1, 2, 3, 4, 6)}),
        ("kary", {"a": 0}),
        ("own", {"own": ((0, 2), (1, 2), (3,))}),
        ("own", {"own": ((0, 2), (2, 1), (3, 4))}),
        ("own", {"own": ((0, 2), (1, 2))}),
        ("own", {"symbols": 4}),
        ("own", {"own": ((), (), ())}),
        ("own", {"b": 8}),
        ("symbol", {"candidates": ((1, 0),)}),
        ("symbol", {"candidates": ((4,),)}),
        ("symbol", {"cap": 0}),
        ("symbol", {"tiers": (4, 5)}),
        ("symbol", {"tiers": (3, 3)}),
        ("symbol", {"tiers": ()}),
        ("symbol", {"cap": 1, "tiers": (2,)}),
        ("collide", {"tiers": (9, 3)}),
        ("collide", {"cap": 60}),
        ("collide", {"a": 1 << 53}),
        ("collide", {"pool": "säule"}),
        ("collide", {"candidates": ((1, 0),)}),
        ("collide", {"candidates": ((1000,),)}),
        ("window", {"length": 0}),
        ("window", {"round": 1}),
        ("window", {"round": 2, "zero": 1}),
        ("window", {"zero": 0}),
        ("subset", {"chosen": 5}),
        ("unary", {"ones": (1, 2)}),
        ("deal", {"weights": (1 << 32,)}),
        ("deal", {"weights": (0, 1 << 31, 1 << 31)}),
        ("deal", {"columns": (0, 1)}),
        ("deal", {"reports": (0,)}),
    ],
)
def test_a_step_whose_numbers_do_not_fit_is_refused(kind: str, change: dict[str, Any]) -> None:
    step = next(step for step in wrong_steps() if step.kind == kind)
    with pytest.raises(ParameterError, match=f"step '{kind}'"):
        replace(step, **change)


def test_a_deal_among_questions_and_a_second_deal_are_refused() -> None:
    (deal, _) = QUESTIONNAIRE.steps
    assert isinstance(deal, Deal)
    with pytest.raises(ParameterError, match="among its questions"):
        replace(deal, questions=(deal, *deal.questions[1:]))
    other = Kary(columns=(3,), reports=(3,), sizes=(2,), answers=2, a=2, b=1)
    second = Deal(columns=(3,), reports=(2, 3), weights=(1 << 32,), questions=(other,))
    with pytest.raises(ParameterError, match="deals twice"):
        Program((deal, second))


# --- a questionnaire


def test_a_question_is_dealt_first_and_only_its_columns_are_read() -> None:
    program = QUESTIONNAIRE
    for seed in range(20):
        number = program.deal(Draws.of(seeded(seed)))
        record = [value if place in program.asked(number) else None
                  for place, value in enumerate([1, 2, 3, 0])]  # fmt: skip
        at_once = program.randomise_one([1, 2, 3, 0], Draws.of(seeded(seed)))
        draws = Draws.of(seeded(seed))
        assert program.randomise_one(record, draws, program.deal(draws)) == at_once
        assert at_once[0] == number and at_once[2] == 0
        assert 3 in program.asked(number)


def test_questions_may_write_baskets_of_two_sizes_to_one_column() -> None:
    """One record was drawn so, and many at once were refused."""
    few = Flip(columns=(0,), reports=(1,), items=2, ones=(50_000,), zeros=(50_000,))
    more = Flip(columns=(1,), reports=(1,), items=70, ones=(1 << 16,), zeros=(1 << 16,))
    deal = Deal(columns=(0, 1), reports=(0, 1), weights=(1 << 31, 1 << 31), questions=(few, more))
    rows = 500
    held = Bits.from_dense(np.ones((rows, 70), dtype=bool))
    dealt, reported = deal.run_many((held.select([0, 1]), held), seeded(3))
    assert isinstance(reported, Bits) and reported.shape == (rows, 70)
    found = reported.to_dense()
    assert found[dealt == 1].all() and not found[dealt == 0][:, 2:].any()
    report = Program((deal,)).randomise_one([[0], [5, 69]], Draws.of(seeded(1)), 1)
    assert report == [1, [5, 69]]


def test_gamma_of_a_deal_is_the_largest_of_its_questions() -> None:
    assert QUESTIONNAIRE.sent_as_is == ((3, "value"),)
    assert blurred_gamma(QUESTIONNAIRE) == 19
    assert QUESTIONNAIRE.gamma == QUESTIONNAIRE.gamma_beside([(2, "value")]) == math.inf


def test_a_record_that_does_not_fit_is_refused_without_its_value() -> None:
    program = next(case.program for case in STEPS if case.name == "kary")
    for record in ([1], [1, 3], [1, -1], [True, 0], [1, None], [1, [0]]):
        with pytest.raises(SfumatoError) as refusal:
            program.randomise_one(record, Draws.of(seeded(1)))
        assert "\n" not in str(refusal.value)


@names
def test_no_report_is_longer_than_the_longest(case: Case) -> None:
    draws, longest = Draws.of(seeded(8)), 0
    for record in first_records(case.program, 50):
        report = case.program.randomise_one(record, draws)
        longest = max(longest, len(json.dumps(report, separators=(",", ":"))))
        assert all(
            column.holds(tuple(value) if isinstance(value, list) else value)
            for column, value in zip(case.program.outputs, report, strict=True)
        )
    assert longest <= case.program.longest


def test_the_longest_report_is_reached() -> None:
    coin = Program((Diagonal(columns=(0,), reports=(0,), sizes=(12,), scale=1, total=12),))
    assert coin.longest == len("[11]")
    shop = next(case.program for case in STEPS if case.name == "cut, baskets")
    assert shop.longest == len("[[0,1,2,3],4]")


def test_a_spread_of_one_record_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least two cells"):
        Spread(columns=(0,), reports=(0,), sizes=(1,), mean=1, total=2, reach=0)
