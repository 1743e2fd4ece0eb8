"""Broken mechanisms that claim to be sound: each has one mistake that people make, and the audit
must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.bits import Bits
from sfumato.domain import Bins, Category, Columns, Domain, Items, code_dtype
from sfumato.mechanisms.base import Mechanism, rows_of
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
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
        for column, own in zip(columns, self.columns, strict=True):
            kept = rng.chance(int(own.keep * (1 << 32)), 32, len(column))
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
            own.randomise(np.asarray(column), rng.derive(0))
            for own, column in zip(self.columns, columns, strict=True)
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
    return tuple(columns)  # type: ignore[arg-type]
