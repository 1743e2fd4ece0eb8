"""Counting where the rows are: one SQL statement a question."""

from sfumato.counting.sql.counter import ItemsetCounter, Relation, SqlCounter
from sfumato.counting.sql.writing import Writer

__all__ = ["ItemsetCounter", "Relation", "SqlCounter", "Writer"]
