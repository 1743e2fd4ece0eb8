"""What an engine's SQL can do: declared once by each engine, asked for wherever engines differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

Tree = Any  # an expression; sqlglot's name for their base class is not the same in all its versions


@dataclass(frozen=True)
class Dialect:
    """The capabilities of an engine, without which statements are written in another way.

    Quantiles are none of them: they are read off counts, which every engine gives. Nor are
    transactions: a database that has none holds no release.
    """

    name: str  # by which sqlglot knows the engine's SQL
    grouping: str | None = None  # what numbers the GROUPING SETS of a statement; None: it has none
    unnest: str | None = None  # what takes a list apart; None: a basket is a column for each item
    any_of_list: bool = False  # item = ANY(list), where ARRAY_CONTAINS is not known
    filters: bool = True  # COUNT(*) FILTER (WHERE …); else COUNT_IF
    variance: bool = True  # VAR_POP; else the squares about the mean that a window computes
    decimals: bool = True  # of 38 digits; else squares are summed in two halves of their bits
    typed: bool = True  # a column has one type; else every value may have its own
    finite: str | None = None  # what knows finite numbers, where comparisons pass over the others
    # Truth values are compared and packed as small numbers, the extremes of blocks of rows are
    # known without reading them, and every value is counted as soon as a few cells are.
    columnar: bool = False
    # A table of at most so many cells is counted cell by cell, without GROUP BY; of a larger one,
    # so many two-celled columns are counted beside the groups (bench/cube.py). Few where a
    # condition is computed again for every count that names it.
    listed_cells: int = 16
    listed_beside: int = 3

    def word(self, text: str) -> str:
        """A word as a value of a statement."""
        return self.text(exp.Literal.string(text))

    def text(self, statement: Tree, *, copy: bool = True) -> str:
        """A statement in this engine's words; a tree that is nobody else's need not be copied."""
        return str(statement.sql(dialect=self.name, copy=copy))
