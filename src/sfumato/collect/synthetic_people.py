"""Synthetic people: answers to a campaign that hang together, drawn from nobody."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.datasets.nonuniform import choice
from sfumato.domain import Attribute, Codes, Columns, Domain, Items, code_dtype
from sfumato.errors import ParameterError
from sfumato.randomness import Keystream
from sfumato.table import Table

CLASSES = 3  # kinds of people; each has its own law for every question
CONTRAST = 1.2  # how far these laws lie apart, on the scale of log odds


def people(domain: Domain, rows: int, rng: Keystream) -> Table:
    """So many people of a few kinds: within a kind the answers are independent, over all kinds they
    are not.

    >>> from sfumato.domain import Category
    >>> from sfumato.randomness import seeded
    >>> people(Domain((Category("pet", ("cat", "dog")),)), 100, seeded(1)).rows
    100
    """
    if rows < 1:
        raise ParameterError(f"a crowd needs at least one person, found {rows}")
    kinds = choice(rng, np.array([0.5, 0.3, 0.2]), rows)
    columns: Columns = tuple(_column(attribute, kinds, rng) for attribute in domain)
    return Table(domain, columns)


def _column(attribute: Attribute, kinds: Codes, rng: Keystream) -> Codes | Bits:
    if isinstance(attribute, Items):
        odds = _spread(rng, CLASSES * attribute.size).reshape(CLASSES, -1) - 1.5
        chances = 1 / (1 + np.exp(-odds))
        draws = rng.random(len(kinds) * attribute.size).reshape(len(kinds), -1)
        return Bits.from_dense(draws < chances[kinds])
    column = np.empty(len(kinds), dtype=code_dtype(attribute.size))
    for kind in range(CLASSES):
        members = np.flatnonzero(kinds == kind)
        column[members] = choice(rng, _law(attribute.size, rng), len(members))
    return column


def _law(size: int, rng: Keystream) -> NDArray[np.float64]:
    """A law over a column's values, smooth where there are many."""
    knots = _spread(rng, min(size, 8))
    at = np.linspace(0, len(knots) - 1, size)
    weights = np.exp(np.interp(at, np.arange(len(knots)), knots))
    return np.asarray(weights / weights.sum())


def _spread(rng: Keystream, count: int) -> NDArray[np.float64]:
    return np.asarray(CONTRAST * 2 * (rng.random(count) - 0.5) * 1.7)
