"""Counting where the rows are: one SQL statement a question."""

from sfumato.counting.sql.dialect import Dialect
from sfumato.counting.sql.sql_counter import Relation, RelationItemsets, SqlCounter
from sfumato.counting.sql.writing import StatementWriter

__all__ = ["Dialect", "Relation", "RelationItemsets", "SqlCounter", "StatementWriter"]
