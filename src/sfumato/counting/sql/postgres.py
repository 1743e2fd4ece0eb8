"""Rows in a PostgreSQL server: counts are pushed down, a release is written by COPY."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from sfumato.errors import MissingExtraError, ParameterError, ServerError

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, eq=False)
class PostgresRelation:
    """A table of a PostgreSQL server."""

    connection: psycopg.Connection[Any]
    table: str
    where: str
    flags: ClassVar[bool] = False
    dialect: ClassVar[str] = "postgres"

    @property
    def rows_from(self) -> exp.Expression:
        return table_name(self.table)

    def fetch(self, statement: str) -> pa.Table:
        with clear_errors(self.where):
            found = self.connection.execute(statement)  # type: ignore[call-overload]
            names = [column.name for column in found.description or ()]
            rows = found.fetchall()
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})
