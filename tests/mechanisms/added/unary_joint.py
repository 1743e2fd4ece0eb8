"""UnaryJoint: one bit for every possible record, each flipped on its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.bits import Bits
from sfumato.channels import Unary
from sfumato.domain import Cells, Columns, Domain, Items
from sfumato.mechanisms.base import Mechanism, Within, every_cell, rows_of, safe_log
from sfumato.mechanisms.steps.basket_steps import SCALE, flip_bits
from sfumato.observation import Observation, item_tally
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream


@dataclass(frozen=True)
class UnaryJoint(Mechanism):
    """The true record's bit stays with 1/2, any other becomes a one with `false` / 65,536 (OUE)."""

    name = "unary-joint"
    domain: Domain
    false: int

    @property
    def _items(self) -> Items:
        attribute = self.private_reports.attributes[0]
        assert isinstance(attribute, Items)
        return attribute

    @cached_property
    def private_reports(self) -> Domain:
        return Domain((Items("bits", tuple(f"r{i}" for i in range(self.domain.private.cells))),))

    @property
    def guarantee(self) -> Guarantee:
        """Two records differ in two bits: (1/2)/f · (1-f)/(1/2)."""
        return Guarantee(Fraction(SCALE - self.false, self.false))

    def parameters(self) -> dict[str, Any]:
        return {"false": self.false}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        return cls(domain, parameters["false"])

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        return cls(domain.binned(), math.ceil(SCALE / (1 + Fraction(guarantee.gamma))))

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        codes = np.ravel_multi_index(
            tuple(np.asarray(column).astype(np.intp) for column in columns),
            self.domain.private.shape,
        )
        one = Bits.from_csr(
            np.arange(rows_of(columns) + 1), codes.astype(np.int32), self._items.size
        )
        return (flip_bits(one, ((SCALE // 2, SCALE - self.false),) * self._items.size, rng),)

    @cached_property
    def _channel(self) -> Unary:
        size = self.domain.private.cells
        zeros = np.full(size, 1 - self.false / SCALE)
        return Unary(np.full(size, 0.5), zeros, self.domain.private.shape)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        private = self.domain.private
        every = tuple(private.cells_of(axis.name) for axis in private.axes)
        return Observation(every, item_tally(self._items), self._channel)

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> np.ndarray:
        """Σ over records of what a shown or hidden bit says of it; other columns evenly spread."""
        groups, private = every_cell(cells) if within is None else within, self.domain.private
        bits = reports[self.reports.index("bits")]
        assert isinstance(bits, Bits)
        false = self.false / SCALE
        odds = np.where(bits.to_dense(), 0.5 / false, 0.5 / (1 - false))
        codes = np.unravel_index(np.arange(private.cells), private.shape)
        share = np.full((len(groups[0]), private.cells), 1 / private.cells)
        for part, column in zip(cells, groups, strict=True):
            own = part.assign(codes[private.index(part.attribute.name)]).astype(np.intp)
            share *= (column / part.counts() * part.attribute.size)[:, own]
        return safe_log(odds @ share.T)
