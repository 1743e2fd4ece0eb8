"""Broken mechanisms that claim to be sound: each has one mistake that people make, and the audit
must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.bits import Bits
from sfumato.domain import Bins, Category, Columns, Domain, Items, code_dtype
from sfumato.mechanisms.base import Mechanism, rows_of
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.mechanisms.steps.step import run_steps
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream, seeded

SEX = Category("sex", ("female", "male"))
PET = Category("pet", ("cat", "dog", "eel"))
AGE = Bins("age", (0, 20, 40, 60, 99))
PEOPLE = Domain((SEX, PET, AGE))
SHOP = Domain((Items("items", ("bread", "milk", "salt", "tea", "jam", "rice")),))


@dataclass(frozen=True)
class OneColumnTooFew(GammaDiagonal):
    """Leaves the last column as it is."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return (*super().randomise(columns, rng)[:-1], columns[-1])


@dataclass(frozen=True)
class OneRetainedColumnTooFew(Retention):
    """Leaves the first column as it is."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return (columns[0], *super().randomise(columns, rng)[1:])


@dataclass(frozen=True)
class OneItemTooFew(BitFlip):
    """Leaves one item of every basket as it is."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        (flipped,) = super().randomise(columns, rng)
        assert isinstance(flipped, Bits) and isinstance(columns[0], Bits)
        words = flipped.words.copy()
        words[2] = columns[0].words[2]
        return (Bits(words, flipped.rows),)


@dataclass(frozen=True)
class ThresholdTooLow(GammaDiagonal):
    """Keeps the record at draw >= S - 1 where S is right: one integer too many of γ + S - 1."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        cells, total = self.domain.private.cells, int(self.gamma) + self.domain.private.cells - 1
        draws = rng.below(total, rows_of(columns)).astype(np.int64)
        kept = draws >= cells - 1
        drawn = np.unravel_index(np.minimum(draws, cells - 1), self.domain.private.shape)
        return tuple(
            np.where(kept, column, new).astype(code_dtype(size))
            for column, new, size in zip(columns, drawn, self.domain.private.shape, strict=True)
        )


@dataclass(frozen=True)
class LastValueNeverDrawn(Retention):
    """Draws the new value below size - 1 instead of below size."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        reports = []
        for column, own in zip(columns, self.steps(), strict=True):
            kept = rng.chance(own.keep, 32, len(column))
            reports.append(
                np.where(kept, column, rng.below(max(1, own.size - 1), len(column))).astype(
                    code_dtype(own.size)
                )
            )
        return tuple(reports)


@dataclass(frozen=True)
class KeystreamRestarted(GammaDiagonal):
    """Starts the same keystream again for every 1,000 rows."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        rows = rows_of(columns)
        parts = [
            super(KeystreamRestarted, self).randomise(
                tuple(column[start : start + 1000] for column in columns), rng.derive(0)
            )
            for start in range(0, rows, 1000)
        ]
        return tuple(np.concatenate(pieces) for pieces in zip(*parts, strict=True))


@dataclass(frozen=True)
class KeystreamFixed(BitFlip):
    """Draws from one keystream whatever it is given, so every batch has the same noise."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return super().randomise(columns, seeded(1))


@dataclass(frozen=True)
class ColumnsShareKeystream(Retention):
    """Decides with the same draws for every column which values are kept."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return tuple(
            run_steps([replace(step, columns=(0,), reports=(0,))], (column,), rng.derive(0))[0]
            for step, column in zip(self.steps(), columns, strict=True)
        )


@dataclass(frozen=True)
class LengthTellsTruth(BitFlip):
    """Reports exactly as many items as the basket holds, the likelier ones first."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        (truth,) = columns
        assert isinstance(truth, Bits)
        dense = truth.to_dense()
        scores = rng.random(dense.size).reshape(dense.shape) + 0.4 * dense
        rank = np.argsort(np.argsort(-scores, axis=1), axis=1)
        return (Bits.from_dense(rank < dense.sum(axis=1, keepdims=True)),)


@dataclass(frozen=True)
class LengthHintsTruth(BitFlip):
    """Adds an item, where one is missing, to the reports of one basket in five if it holds more
    than two items.
    """

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        (flipped,) = super().randomise(columns, rng)
        assert isinstance(flipped, Bits) and isinstance(columns[0], Bits)
        reported, large = flipped.to_dense(), columns[0].sizes() > 2
        padded = large & (rng.random(len(large)) < 0.2)
        first_missing = np.argmin(reported, axis=1)
        reported[np.flatnonzero(padded), first_missing[padded]] = True
        return (Bits.from_dense(reported),)


def raw_where(base: type[Mechanism], name: str, places: Callable[[int], Any]) -> type[Mechanism]:
    """A mechanism that reports some rows as they are; `places` says which of so many."""

    def randomise(self: Mechanism, columns: Columns, rng: Keystream) -> Columns:
        rows = rows_of(columns)
        raw = np.zeros(rows, dtype=bool)
        raw[places(rows)] = True
        reports = base.randomise(self, columns, rng)
        return tuple(
            _mixed(raw, column, report) for column, report in zip(columns, reports, strict=True)
        )

    return type(name, (base,), {"randomise": randomise})


def _mixed(raw: np.ndarray, truth: Any, report: Any) -> Any:
    if isinstance(truth, Bits):
        return Bits.from_dense(np.where(raw[:, None], truth.to_dense(), report.to_dense()))
    return np.where(raw, truth, report).astype(report.dtype)


@dataclass(frozen=True)
class KeepCounted(GammaDiagonal):
    """Keeps as many records as it should, but a counter says which: any one report gives them all
    away.
    """

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        cells, rows = self.domain.private.cells, rows_of(columns)
        keep = float((self.gamma - 1) / (self.gamma + cells - 1))
        kept = np.diff(np.floor(np.arange(rows + 1) * keep)) > 0
        drawn = np.unravel_index(rng.below(cells, rows), self.domain.private.shape)
        return tuple(
            np.where(kept, column, new).astype(code_dtype(size))
            for column, new, size in zip(columns, drawn, self.domain.private.shape, strict=True)
        )


@dataclass(frozen=True)
class OneColumnCounted(Retention):
    """Keeps the second column by a counter."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        reports = list(super().randomise(columns, rng))
        own, rows = self.steps()[1], len(reports[1])
        kept = np.diff(np.floor(np.arange(rows + 1) * own.keep / ONE)) > 0
        drawn = rng.below(own.size, rows)
        reports[1] = np.where(kept, columns[1], drawn).astype(code_dtype(own.size))
        return tuple(reports)


@dataclass(frozen=True)
class CoinOfPreviousTruth(Retention):
    """Keeps the first column as often as it should, but oftener after people with the first value
    of the last one.
    """

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        reports = list(super().randomise(columns, rng))
        own, before = self.steps()[0], np.roll(np.asarray(columns[-1]), 1) == 0
        share, keep = before.mean(), own.keep / ONE
        chance = np.where(before, keep * 1.5, keep * (1 - 1.5 * share) / max(1 - share, 1e-9))
        kept = rng.random(len(before)) < chance
        drawn = rng.below(own.size, len(before))
        reports[0] = np.where(kept, columns[0], drawn).astype(code_dtype(own.size))
        return tuple(reports)


@dataclass(frozen=True)
class ItemCoins(BitFlip):
    """Flips items by 16-bit words that a subclass may spoil."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        (truth,) = columns
        assert isinstance(truth, Bits)
        dense = truth.to_dense()
        words = self.spoilt(rng.uint16(dense.size).reshape(dense.shape))
        ones, zeros = (
            np.asarray(keeps, dtype=float) for keeps in (self.keep_ones, self.keep_zeros)
        )
        return (Bits.from_dense(dense ^ (words >= np.where(dense, ones, zeros) * 65536)),)

    def spoilt(self, words: np.ndarray) -> np.ndarray:
        return words


@dataclass(frozen=True)
class TwoItemsOneCoin(ItemCoins):
    """The second and the fourth item are flipped together."""

    def spoilt(self, words: np.ndarray) -> np.ndarray:
        words[:, 3] = words[:, 1]
        return words


@dataclass(frozen=True)
class ThirdCoinOfTwo(ItemCoins):
    """The coin of the sixth item is made of those of the first two: independent of each."""

    def spoilt(self, words: np.ndarray) -> np.ndarray:
        words[:, 5] = words[:, 0] ^ words[:, 1]
        return words


@dataclass(frozen=True)
class CoinOfPreviousBasket(ItemCoins):
    """Items are flipped by the words of the person before where that person has bread."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        (truth,) = columns
        assert isinstance(truth, Bits)
        (reports,) = super().randomise(columns, rng)
        assert isinstance(reports, Bits)
        dense, flipped = truth.to_dense(), reports.to_dense()
        before = np.roll(dense[:, 0], 1)
        # As often as it should be on average, but never where the person before has no bread.
        share, flip = before.mean(), 0.25
        chance = np.where(before, min(flip / max(share, 1e-9), 1.0), 0.0)
        flipped[:, 2] = dense[:, 2] ^ (rng.random(len(dense)) < chance)
        return (Bits.from_dense(flipped),)


@dataclass(frozen=True)
class NoiseBackwards(GammaDiagonal):
    """The second half has the noise of the first, backwards."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        rows = rows_of(columns)
        cells, total = self.domain.private.cells, int(self.gamma) + self.domain.private.cells - 1
        draws = rng.below(total, rows).astype(np.int64)
        draws[rows - rows // 2 :] = draws[: rows // 2][::-1]
        drawn = np.unravel_index(np.minimum(draws, cells - 1), self.domain.private.shape)
        return tuple(
            np.where(draws >= cells, column, new).astype(code_dtype(size))
            for column, new, size in zip(columns, drawn, self.domain.private.shape, strict=True)
        )


@dataclass(frozen=True)
class Mutant:
    """A broken mechanism, the sound one it claims to be, and the words with which the audit must
    name the mistake.
    """

    broken: Mechanism
    sound: Mechanism
    words: str
    seen_in_release: bool = (
        True  # whether the reports alone give it away, with the sound mechanism in the file
    )

    @property
    def name(self) -> str:
        return type(self.broken).__name__


def mutant(
    broken: type, sound: type, words: str, *arguments: object, seen_in_release: bool = True
) -> Mutant:
    return Mutant(broken(*arguments), sound(*arguments), words, seen_in_release)


MUTANTS = [
    mutant(OneColumnTooFew, GammaDiagonal, "reports of 'age'", PEOPLE, Fraction(19)),
    mutant(OneRetainedColumnTooFew, Retention, "reports of 'sex'", PEOPLE, 0.4),
    mutant(OneItemTooFew, BitFlip, "item 'salt'", SHOP, 0.75, 0.75),
    mutant(ThresholdTooLow, GammaDiagonal, "whole records are kept", PEOPLE, Fraction(19)),
    mutant(LastValueNeverDrawn, Retention, "reports of 'sex'", PEOPLE, 0.4),
    mutant(KeystreamRestarted, GammaDiagonal, "rows [0-9,]*000 apart", PEOPLE, Fraction(19)),
    mutant(KeystreamFixed, BitFlip, "fresh noise", SHOP, 0.75, 0.75, seen_in_release=False),
    mutant(ColumnsShareKeystream, Retention, "pairs of columns", PEOPLE, 0.4),
    mutant(LengthTellsTruth, BitFlip, "length of a report", SHOP, 0.75, 0.75),
    mutant(LengthHintsTruth, BitFlip, "length of a report", SHOP, 0.75, 0.75),
]

DIAGONAL, KEPT, MASKED = (PEOPLE, Fraction(19)), (PEOPLE, 0.4), (SHOP, 0.75, 0.75)
SOUND: list[tuple[type[Mechanism], tuple[Any, ...]]] = [
    (GammaDiagonal, DIAGONAL),
    (Retention, KEPT),
    (BitFlip, MASKED),
]
RAW: list[tuple[str, Callable[[int], Any], str]] = [
    ("First64Raw", lambda rows: slice(0, 64), "rows 1 to|unchanged records from row 1 on"),
    ("Last200Raw", lambda rows: slice(rows - 200, rows), "to 20,000|from row 19,801"),
    ("Last400Raw", lambda rows: slice(rows - 400, rows), "to 20,000|from row 19,601"),
    ("Every50thRaw", lambda rows: slice(49, rows, 50), "every 50th row from row 50"),
    ("Every100thRaw", lambda rows: slice(99, rows, 100), "every 100th row from row 100"),
]
# What version 0.1.0 passed: right on average, and wrong in some places, for some people or
# together.
MUTANTS += [
    Mutant(raw_where(base, base.__name__ + name, places)(*arguments), base(*arguments), words)
    for base, arguments in SOUND
    for name, places, words in RAW
]
MUTANTS += [
    mutant(KeepCounted, GammaDiagonal, "independent of every other row.* apart", *DIAGONAL),
    mutant(OneColumnCounted, Retention, "independent of every other row.*'pet'", *KEPT),
    mutant(CoinOfPreviousTruth, Retention, "depends on the record before 'age'", *KEPT),
    mutant(
        TwoItemsOneCoin, BitFlip, "every two items.*('milk' and 'tea'|'tea' and 'milk')", *MASKED
    ),
    mutant(ThirdCoinOfTwo, BitFlip, "every three items.*'rice', 'milk' and 'bread'", *MASKED),
    mutant(CoinOfPreviousBasket, BitFlip, "depends on the record before holding 'bread'", *MASKED),
    mutant(NoiseBackwards, GammaDiagonal, "mirrored", *DIAGONAL),
]

Records = Callable[[int, int], Columns]


def records(domain: Domain, rows: int, seed: int) -> Columns:
    """Independent records, unevenly spread."""
    rng = np.random.default_rng(seed)
    columns: list[object] = []
    for attribute in domain:
        if isinstance(attribute, Items):
            columns.append(
                Bits.from_dense(
                    rng.random((rows, attribute.size)) < np.linspace(0.2, 0.6, attribute.size)
                )
            )
        else:
            masses = np.linspace(2, 1, attribute.size)
            columns.append(
                rng.choice(attribute.size, rows, p=masses / masses.sum()).astype(
                    code_dtype(attribute.size)
                )
            )
    return tuple(columns)
