"""Databases that hold releases: a table of reports each, and in `sfumato_release` how each of them
was perturbed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import pyarrow as pa
from sqlglot import exp

from sfumato.counting.sql.counter import Relation, SqlCounter
from sfumato.counting.sql.writing import Tree
from sfumato.errors import EstimationError, ServerError, SfumatoError, near_miss
from sfumato.received import MOST_JSON_BYTES, Received, parsed_json
from sfumato.table import Provenance, Table

DESCRIPTIONS = "sfumato_release"


class Database(ABC):
    """A database that releases are read from and written to."""

    where: str  # how messages call it, without user or password
    dialect: ClassVar[str]

    # What every database must say.

    @abstractmethod
    def relation(self, name: str) -> Relation:
        """The rows of a table."""

    @abstractmethod
    def fetch(self, statement: str) -> pa.Table:
        """The rows that a SELECT gives."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement that gives no rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A block whose changes are there together, or not at all."""

    @abstractmethod
    def create(self, name: str, table: Table) -> None:
        """Make a table that holds these reports."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    # What follows.

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def counter(self, name: str) -> tuple[SqlCounter, Provenance]:
        """The counter of a release, and how it was perturbed."""
        description = self.description(name)
        try:
            provenance = Provenance.from_description(description)
        except SfumatoError as error:
            raise ServerError(
                f"table '{name}' of {self.where}: {error.message}", hint=error.hint
            ) from None
        rows = Received(description, f"the description of '{name}'")["rows"].whole()
        return SqlCounter(provenance.mechanism.reports, self.relation(name), rows), provenance

    def description(self, name: str) -> dict[str, Any]:
        """What a release says about itself."""
        known = self.tables()
        if name not in known:
            # A view is no table: whoever made the database decides what it runs.
            raise ServerError(f"no table '{name}' in {self.where}", hint=near_miss(name, known))
        found = self._descriptions(name) if DESCRIPTIONS in known else []
        if not found:
            raise ServerError(
                f"table '{name}' of {self.where} carries no mechanism, so how it was perturbed, "
                "or whether, is not known",
                hint=(
                    f"write releases with save_release, which notes it in the table {DESCRIPTIONS}"
                ),
            )
        return parsed_json(found[0], f"the description of '{name}' in {self.where}")

    def _descriptions(self, name: str) -> list[str]:
        same = exp.EQ(
            this=exp.column("table_name", quoted=True), expression=exp.Literal.string(name)
        )
        # No more is fetched than will be read: whoever made the database chose what stands there.
        whole = exp.Cast(this=exp.column("description", quoted=True), to=exp.DataType.build("text"))
        few = exp.Substring(
            this=whole,
            start=exp.Literal.number(1),
            length=exp.Literal.number(MOST_JSON_BYTES + 1),
        )
        statement = (
            exp.select(exp.alias_(few, "description", quoted=True))
            .from_(table_of(DESCRIPTIONS))
            .where(same)
            .limit(1)
        )
        return list(
            self.fetch(statement.sql(dialect=self.dialect)).column("description").to_pylist()
        )

    def tables(self) -> list[str]:
        """The names of the tables, those of other schemas than the current one with
        their schema.
        """
        found = self.fetch(
            "SELECT CASE WHEN table_schema = current_schema() THEN CAST(table_name AS VARCHAR)"
            " ELSE table_schema || '.' || table_name END AS name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
            " AND table_type = 'BASE TABLE'"
        )
        return list(found.column("name").to_pylist())

    def save(self, table: Table, name: str, *, force: bool = False) -> None:
        """Write a release, with how it was perturbed, in one transaction."""
        if table.provenance is None:
            raise EstimationError(
                "this table carries no mechanism, so it is not a release", hint="perturb it first"
            )
        if name == DESCRIPTIONS:
            raise ServerError(
                f"the table {DESCRIPTIONS} notes how the others were perturbed; choose another name"
            )
        description = json.dumps({**table.provenance.describe(), "rows": table.rows})
        with self.transaction():
            self._clear(name, force)
            self.create(name, table)
            self._run(exp.insert(exp.values([(name, description)]), table_of(DESCRIPTIONS)))

    def _clear(self, name: str, force: bool) -> None:
        """Make way for a table, where that is allowed."""
        if name in self.tables() and not force:
            raise ServerError(
                f"{self.where} has a table '{name}' already", hint="use --force to overwrite it"
            )
        self.execute(f"DROP TABLE IF EXISTS {table_of(name).sql(dialect=self.dialect)}")
        self.execute(
            f'CREATE TABLE IF NOT EXISTS "{DESCRIPTIONS}" ("table_name" VARCHAR(255) PRIMARY KEY, "description" TEXT NOT NULL)'
        )
        same = exp.EQ(
            this=exp.column("table_name", quoted=True), expression=exp.Literal.string(name)
        )
        self._run(exp.delete(table_of(DESCRIPTIONS)).where(same))

    def _run(self, statement: Tree) -> None:
        self.execute(statement.sql(dialect=self.dialect))


def table_of(name: str) -> Tree:
    """A table by its name, or by its schema and name with a dot between them."""
    schema, dot, plain = name.partition(".")
    return exp.table_(plain, db=schema, quoted=True) if dot else exp.table_(name, quoted=True)
