"""Counting where the rows are: one SQL statement a question."""

from sfumato.counting.sql.sql_counter import Relation, RelationItemsets, SqlCounter
from sfumato.counting.sql.statements import Dialect, StatementWriter

__all__ = ["Dialect", "Relation", "RelationItemsets", "SqlCounter", "StatementWriter"]
