"""HadamardResponse: report one of the true record's own symbols a little oftener than any other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Dense
from sfumato.domain import Category, Columns, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import check_kept
from sfumato.mechanisms.joint import JointMechanism, check_joint, joint_gamma
from sfumato.mechanisms.steps import Own, Step
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.untrusted import Untrusted


@dataclass(frozen=True)
class HadamardSets:
    """The public symbols of each of `truths` values: blocks of `width` symbols, half of them own
    (Acharya, Sun and Zhang 2019).

    Truth x lies in block x // (width−1); its own symbols are those of the block at which row
    x mod (width−1) + 1 of the Hadamard matrix is +1. Two truths of one block share a quarter of it.

    >>> HadamardSets.suited(5, 19.0)
    HadamardSets(truths=5, blocks=5, width=2)
    """

    truths: int
    blocks: int
    width: int  # a power of 2

    @classmethod
    def suited(cls, truths: int, gamma: float) -> HadamardSets:
        """As many blocks as the paper takes: 2^(⌈log₂ min(γ, 2·truths)⌉ − 1), or what is needed."""
        wanted = 2 ** max(0, math.ceil(math.log2(max(1.0, min(gamma, 2 * truths)))) - 1)
        width = 2
        while width - 1 < truths / wanted:
            width *= 2
        return cls(truths, math.ceil(truths / (width - 1)), width)

    @property
    def symbols(self) -> int:
        """How many symbols there are."""
        return self.blocks * self.width

    @property
    def own(self) -> int:
        """How many symbols each truth has."""
        return self.width // 2

    def sets(self) -> NDArray[np.intp]:  # (truths, own)
        """The symbols of each truth, ascending."""
        signs = hadamard(self.width)
        block, row = np.divmod(np.arange(self.truths), self.width - 1)
        inside = np.stack([np.flatnonzero(signs[place + 1] > 0) for place in row])
        return inside + (block * self.width)[:, None]

    def matrix(self, gamma: float) -> NDArray[np.float64]:  # (symbols, truths)
        """P(symbol | truth)."""
        weights = np.ones((self.symbols, self.truths))
        weights[self.sets().T, np.arange(self.truths)] = gamma
        return weights / (self.own * gamma + self.symbols - self.own)


def hadamard(size: int) -> NDArray[np.int64]:
    """Sylvester's matrix of a power of 2: entries ±1, rows orthogonal, the first all 1.

    >>> hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    result = np.ones((1, 1), dtype=np.int64)
    while len(result) < size:
        result = np.block([[result, result], [result, -result]])
    return result


@checked
@dataclass(frozen=True, repr=False)
class HadamardResponse(JointMechanism):
    """Every own symbol has weight a and any other b, of the same total for every record: γ = a/b.

    One integer below own·(a−b) + symbols·b decides: below own·(a−b) it names an own symbol, else
    any.

    >>> from sfumato.domain import Category
    >>> dice = Domain((Category("dice", tuple("123456")),))
    >>> HadamardResponse.promising(Guarantee(3), dice).guarantee
    Guarantee(gamma=3)
    """

    name = "hadamard"
    summary = "one symbol, own symbols likelier (Hadamard response); few records"
    domain: Domain
    gamma: Gamma

    def __post_init__(self) -> None:
        check_joint(self.name, self.domain)
        if not 1 < self.gamma < math.inf:
            raise ParameterError(f"gamma={float(self.gamma):g}; use a finite gamma > 1")

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        gamma = joint_gamma(guarantee)
        mechanism = cls(domain.binned(), gamma)
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        return {"gamma": str(Fraction(self.gamma))}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        return cls(domain, Untrusted(parameters, "the parameters")["gamma"].fraction())

    @cached_property
    def _sets(self) -> HadamardSets:
        return HadamardSets.suited(self.domain.private.cells, float(self.gamma))

    @cached_property
    def private_reports(self) -> Domain:
        return Domain((Category("symbol", tuple(map(str, range(self._sets.symbols)))),))

    @cached_property
    def _own(self) -> NDArray[np.intp]:
        return self._sets.sets()

    def steps(self) -> tuple[Step, ...]:
        gamma, sets, shape = Fraction(self.gamma), self._sets, self.domain.private.shape
        return (
            Own(
                columns=tuple(range(len(shape))),
                reports=(0,),
                sizes=shape,
                answers=sets.truths,
                symbols=sets.symbols,
                own=tuple(tuple(row) for row in self._own.tolist()),
                a=gamma.numerator,
                b=gamma.denominator,
            ),
        )

    @cached_property
    def joint_channel(self) -> Dense:
        matrix = self._sets.matrix(float(self.gamma))
        return Dense(matrix, self.domain.private.shape, (self._sets.symbols,))

    @property
    def private_channel(self) -> Dense:
        return self.joint_channel

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        symbols = np.asarray(reports[self.reports.index("symbol")]).astype(np.intp)
        return np.asarray(self.joint_channel.matrix @ shares.T)[symbols]
