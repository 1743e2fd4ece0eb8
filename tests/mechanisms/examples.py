"""The mechanisms that go through the contract of `sfumato.testing`: append yours to EXAMPLES, and
`test_contract.py` judges it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
from tests.mechanisms.added.sampled_pairs import SampledPairs
from tests.mechanisms.added.unary_joint import UnaryJoint

from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip, FrequencyFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal, RandomizedGamma
from sfumato.mechanisms.item_set import ItemSet
from sfumato.mechanisms.joint import HadamardResponse, SubsetSelection, UnaryEncoding
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.mechanisms.piecewise import Piecewise
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.ranges import Ranges
from sfumato.mechanisms.retention import Permuting, Retention
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.mechanisms.steps import Deal
from sfumato.mechanisms.steps.symbol_steps import buckets_of
from sfumato.mechanisms.windows import Windows
from sfumato.privacy.guarantee import Guarantee
from sfumato.testing import USES, Example

# What mechanisms that only the tests know are called in files.
ADDED = {
    "sampled-pairs": "tests.mechanisms.added.sampled_pairs:SampledPairs",
    "unary-joint": "tests.mechanisms.added.unary_joint:UnaryJoint",
}


SEX = Category("sex", ("female", "male"))
PET = Category("pet", ("cat", "dog", "eel"))
AGE = Bins("age", (0, 20, 40, 60, 99))
HOURS = Numeric("hours", 0, 9, cuts=(3, 6))
INCOME = Category("income", ("low", "high"), public=True)
BASKET = Items("items", ("bread", "milk", "salt"))

RECORD = Domain((SEX, PET))
MIXED = Domain((SEX, INCOME, AGE))
BASKETS = Domain((BASKET,))
RANDOM_MATRIX = np.random.default_rng(2).dirichlet(np.full(6, 2.0), 6).T + np.eye(6)
RANDOM_MATRIX /= RANDOM_MATRIX.sum(axis=0)

EXAMPLES: list[Example] = [
    Example("gamma-diagonal", GammaDiagonal(RECORD, 5), 5),
    Example(
        "gamma-diagonal, fractional", GammaDiagonal(RECORD, Fraction("13.28")), Fraction("13.28")
    ),
    Example("gamma-diagonal, public column", GammaDiagonal(MIXED, 19), 19),
    Example("randomized-gamma", RandomizedGamma(RECORD, 5), 5),
    Example(
        "randomized-gamma, widest",
        RandomizedGamma(RECORD, Fraction("2.5"), spread=1.0),
        Fraction("2.5"),
    ),
    Example("randomized-gamma, public column", RandomizedGamma.promising(Guarantee(19), MIXED), 19),
    Example("retention, uniform", Retention(RECORD, keep=0.4)),
    Example(
        "retention, promising", Retention.promising(Guarantee(19), Domain((SEX, INCOME, HOURS))), 19
    ),
    Example(
        "retention, each its own", Retention(RECORD, {"sex": 0.3, "pet": 0.7}, {"pet": [1, 2, 5]})
    ),
    Example("retention, identity", Retention(MIXED, keep=0.5, replace="identity")),
    Example(
        "retention, mixed laws",
        Retention(RECORD, (0.5, 0.25), {"sex": "identity", "pet": "uniform"}),
    ),
    Example("permuting", Permuting(RECORD, keep=0.5)),
    Example("permuting, each its own", Permuting(MIXED, keep={"sex": 0.7, "age": 0.3})),
    Example("matrix", UserMatrix(RECORD, RANDOM_MATRIX)),
    Example(
        "matrix, with a zero",
        UserMatrix(Domain((PET, INCOME)), [[0.8, 0.1, 0.2], [0.2, 0.9, 0.2], [0, 0, 0.6]]),
    ),
    Example(
        "combined",
        Combined(MIXED, (GammaDiagonal(Domain((AGE,)), 4), Retention(Domain((SEX,)), 0.5))),
    ),
    Example("combined, promising", Combined.promising(Guarantee(19), RECORD), 19),
    Example(
        "combined, interleaved groups",
        Combined(
            Domain((SEX, HOURS, PET)), (GammaDiagonal(RECORD, 6), Retention(Domain((HOURS,)), 0.6))
        ),
    ),
    Example("mask", BitFlip(BASKETS, 0.8, 0.8)),
    Example("mask, promising", BitFlip.promising(Guarantee(19), BASKETS), 19),
    Example("mask, an item each its own", BitFlip(BASKETS, [0.9, 0.6, 0.3], [0.7, 0.95, 0.2])),
    Example("mask, records", BitFlip(RECORD, 0.8, 0.7)),
    Example("mask, records, promising", BitFlip.promising(Guarantee(19), RECORD), 19),
    Example("fp-nfp", FrequencyFlip(BASKETS, ("milk",), fp=0.9, nfp=0.7)),
    Example("cut-and-paste, records", CutAndPaste(RECORD, 2, 0.25)),
    Example("cut-and-paste, records, promising", CutAndPaste.promising(Guarantee(19), RECORD), 19),
    Example("mask, records with a public column", BitFlip(Domain((SEX, INCOME, PET)), 0.8, 0.7)),
    Example(
        "cut-and-paste, records with a public column",
        CutAndPaste(Domain((SEX, INCOME, PET)), 2, 0.25),
    ),
    Example(
        "combined, baskets and records",
        Combined.promising(Guarantee(16), Domain((SEX, BASKET, INCOME))),
        16,
    ),
    Example("questionnaire", Questionnaire.promising(Guarantee(5), RECORD), 5),
    Example(
        "questionnaire, folded, with a public column",
        Questionnaire.promising(Guarantee(Fraction("3.5")), Domain((PET, INCOME, AGE))),
        Fraction("3.5"),
    ),
    Example(
        "questionnaire, pairs",
        Questionnaire.promising(Guarantee(19), Domain((SEX, PET, AGE)), questions="pairs:1"),
        19,
        answers=USES - {"all"},
    ),
]


def pairs_oracle(mechanism: Mechanism) -> np.ndarray:
    """One pair of three, then k-ary response, written down cell by cell."""
    assert isinstance(mechanism, SampledPairs)
    shape, gamma = mechanism.domain.shape, mechanism.gamma
    blocks = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        size = shape[a] * shape[b]
        block = np.full((size, math.prod(shape)), 1 / (gamma + size - 1) / 3)
        for place, cell in enumerate(np.ndindex(*shape)):
            block[cell[a] * shape[b] + cell[b], place] *= gamma
        blocks.append(block)
    return np.vstack(blocks)


def bits_oracle(mechanism: Mechanism) -> np.ndarray:
    """Every pattern of bits, one a record."""
    assert isinstance(mechanism, UnaryJoint | UnaryEncoding)
    cells, false = mechanism.domain.cells, mechanism.false / 65536
    patterns = np.array(list(np.ndindex(*(2,) * cells)))
    columns = []
    for truth in range(cells):
        chance = np.where(np.arange(cells) == truth, 0.5, false)
        columns.append(np.where(patterns == 1, chance, 1 - chance).prod(axis=1))
    return np.stack(columns, axis=1)


def sets_oracle(mechanism: Mechanism) -> np.ndarray:
    """Every set of records: of those of the size chosen, the ones that hold the truth are γ times
    likelier.
    """
    assert isinstance(mechanism, SubsetSelection)
    cells = mechanism.domain.private.cells
    patterns = np.array(list(np.ndindex(*(2,) * cells)))
    fit = patterns.sum(axis=1, keepdims=True) == mechanism.chosen
    weights = fit * np.where(patterns == 1, float(mechanism.gamma), 1.0)
    return weights / weights.sum(axis=0)


def symbols_oracle(mechanism: Mechanism, width: int) -> np.ndarray:
    """Sylvester's matrix by parity: record x owns the symbols s of its block at which the row
    x mod (width−1) + 1 and s have an even number of ones in common.
    """
    assert isinstance(mechanism, HadamardResponse)
    cells, symbols = mechanism.domain.private.cells, mechanism.private_reports.cells
    weights = np.ones((symbols, cells))
    for symbol, truth in np.ndindex(symbols, cells):
        own = symbol // width == truth // (width - 1)
        common = (symbol % width) & (truth % (width - 1) + 1)
        if own and common.bit_count() % 2 == 0:
            weights[symbol, truth] = float(mechanism.gamma)
    return weights / weights.sum(axis=0)


OPEN_RECORD = Domain((SEX, INCOME, PET))


def window_oracle(mechanism: Mechanism) -> np.ndarray:
    """One of the numbers, dealt by chance, in its window."""
    assert isinstance(mechanism, Windows)
    shape, gamma = mechanism.domain.shape, float(mechanism.gamma)
    most = max(size + length - 1 for size, length in zip(shape, mechanism.lengths, strict=True))
    matrix = np.zeros((len(shape), most, math.prod(shape)))
    for place, cell in enumerate(np.ndindex(*shape)):
        for number, (size, length) in enumerate(zip(shape, mechanism.lengths, strict=True)):
            weights = np.ones(size + length - 1)
            weights[cell[number] : cell[number] + length] = gamma
            matrix[number, : len(weights), place] = weights / weights.sum() / len(shape)
    return matrix.reshape(-1, math.prod(shape))


def zero_oracle(mechanism: Mechanism) -> np.ndarray:
    """A number above zero in its window, zero in one of as many reports that are sent as one."""
    assert isinstance(mechanism, Windows)
    (size,), (length,), gamma = mechanism.domain.shape, mechanism.lengths, float(mechanism.gamma)
    weights = np.ones((size + 2 * length - 2, size))
    for number in range(1, size):
        weights[number - 1 : number - 1 + length, number] = gamma
    weights[size + length - 2 :, 0] = gamma
    sent = weights[: size + length - 1].copy()
    sent[-1] = weights[size + length - 2 :].sum(axis=0)
    return sent / sent.sum(axis=0)


def ranges_oracle(mechanism: Mechanism) -> np.ndarray:
    """One number in its window, or the answer to a question about two, dealt by the weights of the
    client program.
    """
    assert isinstance(mechanism, Ranges)
    shape, gamma = mechanism.domain.shape, float(mechanism.gamma)
    (deal,) = mechanism.steps()
    assert isinstance(deal, Deal)
    matrix = np.zeros((*mechanism.private_reports.shape, math.prod(shape)))
    for place, record in enumerate(np.ndindex(*shape)):
        for number, weight in enumerate(deal.weights):
            if number < len(shape):
                chances = np.ones(shape[number] + mechanism.lengths[number] - 1)
                chances[record[number] : record[number] + mechanism.lengths[number]] = gamma
            else:
                question = mechanism.pairs[number - len(shape)]
                cells = [
                    sum(start <= record[axis] for start in mechanism.starts[axis]) - 1
                    for axis in question.columns
                ]
                cell = cells[0] * len(mechanism.starts[question.columns[1]]) + cells[1]
                chances = np.ones(question.answers)
                chances[cell if question.map is None else question.map[cell]] = gamma
            share = weight / (1 << 32) / chances.sum()
            matrix[number, : len(chances), place] = share * chances
    return matrix.reshape(-1, math.prod(shape))


def symbol_oracle(mechanism: Mechanism) -> np.ndarray:
    """Own candidates, all subsets of at most the cap alike, or any symbol."""
    assert isinstance(mechanism, ItemSet)
    items, number, gamma = len(mechanism.domain.axes), len(mechanism.candidates), mechanism.gamma
    tiers, columns = mechanism.tiers, []
    for basket in np.ndindex(*(2,) * items):
        held = [c for c, each in enumerate(mechanism.candidates) if all(basket[i] for i in each)]
        kept = min(len(held), mechanism.cap)
        weights = np.ones(number + len(tiers) + 1)
        weights[-1] = float(gamma) * mechanism.cap - (float(gamma) - 1) * kept
        if tiers and len(held) > mechanism.cap:  # one own symbol for how much it holds
            tier = max(place for place, start in enumerate(tiers) if start <= len(held))
            weights[number + tier] = float(gamma)
            kept -= 1
        for candidate in held:
            weights[candidate] += (float(gamma) - 1) * kept / len(held)
        columns.append(weights / (mechanism.cap * float(gamma) + number + len(tiers)))
    return np.array(columns).T


def dealt_oracle(mechanism: Mechanism) -> np.ndarray:
    """One candidate each, evenly, and yes or no by randomised response."""
    assert isinstance(mechanism, ItemSet)
    number, gamma = len(mechanism.candidates), float(mechanism.gamma)
    columns = []
    for basket in np.ndindex(*(2,) * len(mechanism.domain.axes)):
        yes = [gamma if all(basket[i] for i in each) else 1.0 for each in mechanism.candidates]
        each = np.array([[y, gamma + 1 - y] for y in yes]) / (gamma + 1) / number
        columns.append(each.ravel())
    return np.stack(columns, axis=1)


def bucket_oracle(mechanism: Mechanism) -> np.ndarray:
    """Every hash of the pool; own buckets, filled up at random to the cap."""
    assert isinstance(mechanism, ItemSet)
    items, cap, buckets = len(mechanism.domain.axes), mechanism.cap, mechanism.buckets
    gamma, total = float(mechanism.gamma), cap * float(mechanism.gamma) + buckets - cap
    columns = []
    for basket in np.ndindex(*(2,) * items):
        held = [item for item in range(items) if basket[item]]
        chosen = list(combinations(held, min(len(held), cap)))
        if mechanism.tiers and len(held) > cap:
            tier = items + sum(start <= len(held) for start in mechanism.tiers) - 1
            chosen = [(tier, *some) for some in combinations(held, cap - 1)]
        column = np.zeros((mechanism.seeds, buckets))
        for seed in range(mechanism.seeds):
            for some in chosen:
                own = set(buckets_of(mechanism.pool, seed, some, cap + 1, buckets))
                filled = (cap - len(own)) / (buckets - len(own))
                for bucket in range(buckets):
                    part = 1.0 if bucket in own else filled
                    column[seed, bucket] += (1 + (gamma - 1) * part) / total / len(chosen)
        columns.append(column.ravel() / mechanism.seeds)
    return np.array(columns).T


KIDS = Numeric("kids", 0, 4, cuts=(1, 3))
# Of three items one is in nearly all large baskets: a cap leaves .59 of it, of all .79. While large
# baskets were said to hold 5.3 of 4 symbols, that made up for it.
LARGE = 1.5

EXAMPLES += [
    Example("unary", UnaryEncoding.promising(Guarantee(5), RECORD), 5, oracle=bits_oracle),
    Example(
        "subset-selection",
        SubsetSelection.promising(Guarantee(2), RECORD),
        2,
        oracle=sets_oracle,
    ),
    Example(
        "subset-selection, public column",
        SubsetSelection.promising(Guarantee(Fraction("2.5")), OPEN_RECORD),
        Fraction("2.5"),
        oracle=sets_oracle,
    ),
    Example(
        "hadamard",
        HadamardResponse.promising(Guarantee(5), Domain((PET, AGE))),
        5,
        oracle=partial(symbols_oracle, width=4),
    ),
    Example(
        "hadamard, public column",
        HadamardResponse.promising(Guarantee(Fraction("2.5")), MIXED),
        Fraction("2.5"),
        oracle=partial(symbols_oracle, width=8),
    ),
    Example(
        "item-set, every item",
        ItemSet.promising(Guarantee(19), BASKETS),
        19,
        oracle=symbol_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "item-set, candidates beyond the cap",
        ItemSet(BASKETS, Fraction("7.5"), 2, ((0,), (1,), (2,), (0, 2))),
        Fraction("7.5"),
        oracle=symbol_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "item-set, by collision",
        ItemSet(BASKETS, 9, 3, buckets=11, seeds=32, pool="contract"),
        9,
        bias=1.0,  # what 32 public hashes add is the same in every run
        rows=2_000_000,  # a report says little: a channel five per cent off takes many to show
        oracle=bucket_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "item-set, tiers beyond the cap",
        ItemSet(BASKETS, Fraction("7.5"), 2, ((0,), (1,), (2,), (0, 2)), tiers=(3, 4)),
        Fraction("7.5"),
        bias=LARGE,
        oracle=symbol_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "item-set, one candidate each",
        ItemSet(BASKETS, Fraction("7.5"), 1, ((0,), (1,), (2,), (0, 2)), dealt=True),
        Fraction("7.5"),
        oracle=dealt_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "item-set, by collision with tiers",
        ItemSet(BASKETS, 9, 2, buckets=9, seeds=32, pool="contract", tiers=(3,)),
        9,
        bias=LARGE,
        rows=2_000_000,  # a report says little: a channel five per cent off takes many to show
        oracle=bucket_oracle,
        answers=USES - {"two", "all", "likelihood", "classify"},
    ),
    Example(
        "square-wave, with a public column",
        SquareWave.promising(Guarantee(19), Domain((HOURS, INCOME))),
        19,
        answers=USES - {"itemsets", "classify"},
    ),
    Example(
        "piecewise, two numbers",
        Piecewise.promising(Guarantee(Fraction("7.5")), Domain((HOURS, KIDS))),
        Fraction("7.5"),
        oracle=window_oracle,
        answers=USES - {"two", "all", "itemsets", "likelihood", "classify"},
    ),
    Example(
        "square-wave, a zero of its own",
        SquareWave.promising(Guarantee(5), Domain((Numeric("cars", 0, 6, zero=True),))),
        5,
        oracle=zero_oracle,
        answers=USES - {"two", "all", "itemsets", "classify"},
    ),
    Example(
        "square-wave, a number and words",
        SquareWave.promising(Guarantee(4), Domain((PET, HOURS))),
        4,
        oracle=window_oracle,
        answers=USES - {"two", "all", "itemsets", "likelihood", "classify"},
    ),
    Example(
        "ranges, a number and words",
        Ranges.promising(Guarantee(5), Domain((KIDS, SEX, PET))),
        5,
        oracle=ranges_oracle,
        answers=USES - {"two", "all", "itemsets", "classify"},
    ),
    Example(
        "ranges",
        Ranges.promising(Guarantee(4), Domain((KIDS, Numeric("cars", 0, 5, cuts=(1, 2, 4))))),
        4,
        oracle=ranges_oracle,
        answers=USES - {"two", "all", "itemsets", "classify"},
    ),
    Example(
        "added: sampled pairs",
        SampledPairs(Domain((SEX, PET, AGE)), 6),
        6,
        oracle=pairs_oracle,
        answers=USES - {"all"},
    ),
    Example(
        "added: unary over the joint domain",
        UnaryJoint.promising(Guarantee(7), RECORD),
        7,
        oracle=bits_oracle,
    ),
]
