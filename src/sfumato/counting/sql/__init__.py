"""Counting where the rows are: one SQL statement a question."""

from sfumato.counting.sql.counter import Relation, RelationItemsets, SqlCounter, row_of
from sfumato.counting.sql.writing import StatementWriter

__all__ = ["Relation", "RelationItemsets", "SqlCounter", "StatementWriter", "row_of"]
