"""Databases that hold releases: a table of reports each, and in `sfumato_release` how each of them
was perturbed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from sfumato.counting.sql.kept import KeptCounts, state_of
from sfumato.counting.sql.sql_counter import Relation, SqlCounter
from sfumato.counting.sql.statements import Dialect
from sfumato.domain import Attribute, Domain
from sfumato.errors import EstimationError, FileError, ServerError, SfumatoError, near_miss
from sfumato.files import OVERWRITE
from sfumato.table import Provenance, Table
from sfumato.table.readers import flat_names
from sfumato.untrusted import MOST_JSON_BYTES, Untrusted, parsed_json

DESCRIPTIONS = "sfumato_release"
COPIED = "copy the release's tables into a new database file"
RELEASE_MARK = "sfumato release"  # what stands before the release id in a table's comment


@dataclass(frozen=True)
class TableName:
    """A table as the catalogue spells it."""

    schema: str
    table: str
    current: str  # the schema of names without one

    @property
    def key(self) -> str:
        """What it is called here: its name, with its schema before it if that is another than the
        current one.
        """
        return self.table if self.schema == self.current else f"{self.schema}.{self.table}"

    def text(self, dialect: Dialect) -> str:
        """The table in a statement."""
        return f"{dialect.quoted(self.schema)}.{dialect.quoted(self.table)}"

    @property
    def descriptions(self) -> TableName:
        """The table that notes how this one was perturbed."""
        return TableName(self.current, DESCRIPTIONS, self.current)


class Database(ABC):
    """A database that releases are read from and written to."""

    dialect: ClassVar[Dialect]
    in_file: ClassVar[bool] = False  # whether its address is the name of a file
    stores_alone: ClassVar[bool] = False  # whether a store of campaigns holds nothing else
    connection: Any
    where: str  # how messages call it, without user or password

    # What every database must say.

    @classmethod
    @abstractmethod
    def connect(cls, address: str, *, writable: bool = False) -> Self:
        """A connection by the address."""

    @abstractmethod
    def fetch(self, statement: str) -> pa.Table:
        """The rows that a SELECT gives."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement that gives no rows."""

    @abstractmethod
    def comment(self, table: TableName) -> str | None:
        """What is noted with a table in the catalogue."""

    @abstractmethod
    def type_of(self, attribute: Attribute) -> str:
        """The type of a column that holds the values of an attribute."""

    @abstractmethod
    def fill(self, name: TableName, table: Table) -> None:
        """Put reports into their table, which is empty."""

    # What may be overridden.

    def relation(self, table: TableName) -> Relation:
        """The rows of a table."""
        rows_from = table.text(self.dialect)
        return TableRelation(self, rows_from, self.dialect, self.dialect.unnest is None)

    def state(self, table: TableName) -> str | None:
        """What changes when the rows of a table do: counts that are kept are those of one state.
        None where the database cannot tell.
        """
        return None

    def current_schema(self) -> str | None:
        """The schema of names without one."""
        found = self.fetch("SELECT current_schema() AS name").column("name")[0].as_py()
        return None if found is None else str(found)

    def catalogue(self) -> list[tuple[str, str, bool]]:
        """Schema and name of every table and view, and whether it is a table."""
        found = self.fetch(
            "SELECT CAST(table_schema AS VARCHAR) AS s, CAST(table_name AS VARCHAR) AS t,"
            " table_type = 'BASE TABLE' AS plain FROM information_schema.tables"
            " WHERE table_catalog = current_database()"
            " AND table_schema NOT IN ('pg_catalog', 'information_schema')"
        )
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def spelled(self, schema: str, table: str) -> tuple[str, str]:
        """A table's schema and name as the catalogue has them, or would have them: A to Z are taken
        for a to z, and no other letters.
        """
        pairs = [(its_schema, its_name) for its_schema, its_name, _ in self.catalogue()]
        alike = [pair for pair in pairs if _folded(*pair) == _folded(schema, table)]
        if (schema, table) in alike or not alike:
            schemas = [pair[0] for pair in pairs if _folded(pair[0]) == _folded(schema)]
            return (schema if schema in schemas or not schemas else schemas[0]), table
        return alike[0]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A block whose changes are there together, or not at all."""
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def create(self, name: TableName, table: Table, note: str) -> None:
        """Make a table that holds these reports, with a note in the catalogue."""
        target = name.text(self.dialect)
        self.execute(f"CREATE TABLE {target} ({self.columns_of(table.domain)})")
        self.fill(name, table)
        self.execute(f"COMMENT ON TABLE {target} IS {self.dialect.word(note)}")

    def is_store(self) -> bool:
        """Whether it is a collector's store of campaigns."""
        return False

    def pieces(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """What a statement finds, so many rows at a time."""
        raise NotImplementedError

    # What follows.

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def columns_of(self, domain: Domain) -> str:
        """The definitions of the columns that hold these attributes."""
        lists = self.dialect.unnest is not None
        return ", ".join(
            f"{self.dialect.quoted(name)} {self.type_of(attribute)}"
            for attribute in domain
            for name in ((attribute.name,) if lists else flat_names(attribute))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def counter(self, name: str, *, keep: bool = False) -> tuple[SqlCounter, Provenance]:
        """The counter of a release, and how it was perturbed; `keep` has its counts kept."""
        table = self.resolve(name)
        description = self.description(table)
        where = f"table '{table.key}' of {self.where}"
        try:
            provenance = Provenance.from_description(description)
            provenance.check_rows(self._release_of(table), where)
        except SfumatoError as error:
            raise ServerError(f"{where}: {error.message}", hint=error.hint) from None
        rows = Untrusted(description, f"the description of '{table.key}'")["rows"].whole()
        reports, kept = provenance.mechanism.reports, None
        if keep and (state := self.state(table)) is not None:
            kept = KeptCounts.of(provenance.release, reports, state)
        return SqlCounter(reports, self.relation(table), rows, kept), provenance

    def _release_of(self, table: TableName) -> str | None:
        """The release id that stands with a table's rows."""
        mark, _, release = (self.comment(table) or "").partition(": ")
        return release if mark == RELEASE_MARK else None

    def resolve(self, name: str) -> TableName:
        """The table that a name means, spelled as the catalogue spells it: a schema may stand
        before it with a dot between them.
        """
        schema, dot, table = name.rpartition(".")
        if not table or (dot and not schema) or "." in schema or "\0" in name:
            raise ServerError(
                f"{name!r} is no name of a table",
                hint="write TABLE, or SCHEMA.TABLE for one of another schema",
            )
        current = self.current_schema()
        if current is None:
            raise ServerError(f"{self.where} has no schema to look for tables in")
        return TableName(*self.spelled(schema or current, table), current)

    def description(self, table: TableName) -> dict[str, Any]:
        """What a release says about itself."""
        known = self.tables()
        if table.key not in known:
            # A view is no table: whoever made the database decides what it runs.
            raise ServerError(
                f"no table '{table.key}' in {self.where}", hint=near_miss(table.key, known)
            )
        found = self._descriptions(table) if DESCRIPTIONS in known else []
        if not found:
            raise ServerError(
                f"table '{table.key}' of {self.where} carries no mechanism, so how it was "
                "perturbed, or whether, is not known",
                hint=(
                    f"write releases with save_release, which notes it in the table {DESCRIPTIONS}"
                ),
            )
        return parsed_json(found[0], f"the description of '{table.key}' in {self.where}")

    def _descriptions(self, table: TableName) -> list[str]:
        # No more is fetched than will be read: whoever made the database chose what stands there.
        whole = f"CAST({self.dialect.quoted('description')} AS TEXT)"
        found = self.fetch(
            f"SELECT substr({whole}, 1, {MOST_JSON_BYTES + 1}) AS found"
            f" FROM {table.descriptions.text(self.dialect)} WHERE {self._described(table)} LIMIT 1"
        )
        return list(found.column("found").to_pylist())

    def _described(self, table: TableName) -> str:
        """Whether a line of the descriptions speaks of this table."""
        return f"{self.dialect.quoted('table_name')} = {self.dialect.word(table.key)}"

    def tables(self) -> list[str]:
        """The names of the tables, those of other schemas than the current one with
        their schema.
        """
        return self._names(tables_only=True)

    def _names(self, *, tables_only: bool = False) -> list[str]:
        current, found = self.current_schema() or "", self.catalogue()
        return [
            TableName(schema, table, current).key
            for schema, table, plain in found
            if plain or not tables_only
        ]

    def save(self, table: Table, name: str, *, force: bool = False) -> None:
        """Write a release, with how it was perturbed, in one transaction."""
        if table.provenance is None:
            raise EstimationError(
                "this table carries no mechanism, so it is not a release", hint="perturb it first"
            )
        provenance = table.provenance.named
        description = json.dumps({**provenance.describe(), "rows": table.rows})
        with self.transaction():
            place = self.resolve(name)
            self._clear(place, force)
            self.create(place, table, f"{RELEASE_MARK}: {provenance.release}")
            values = f"{self.dialect.word(place.key)}, {self.dialect.word(description)}"
            target = place.descriptions.text(self.dialect)
            self.execute(f"INSERT INTO {target} VALUES ({values})")

    def _clear(self, table: TableName, force: bool) -> None:
        """Make way for a table, where that is allowed."""
        if table.key.casefold() == DESCRIPTIONS:
            raise ServerError(
                f"the table {DESCRIPTIONS} notes how the others were perturbed; choose another name"
            )
        known = self._names()
        there = table.key in known
        if there and not force:
            raise ServerError(
                f"{self.where} has a table '{table.key}' already",
                hint=OVERWRITE,
            )
        if there:
            described = DESCRIPTIONS in known and self._descriptions(table)
            if not described and self._release_of(table) is None:
                raise ServerError(
                    f"table '{table.key}' of {self.where} is no release, and only a release is "
                    "replaced",
                    hint="choose another name",
                )
            self.execute(f"DROP TABLE {table.text(self.dialect)}")
        target = table.descriptions.text(self.dialect)
        self.execute(
            f"CREATE TABLE IF NOT EXISTS {target}"
            ' ("table_name" VARCHAR(255) PRIMARY KEY, "description" TEXT NOT NULL)'
        )
        self.execute(f"DELETE FROM {target} WHERE {self._described(table)}")


@dataclass(frozen=True, eq=False)
class FileDatabase(Database):
    """A database that is a file, which may come from someone else."""

    in_file: ClassVar[bool] = True
    journal: ClassVar[str]  # what stands behind the file's name in that of its log
    connection: Any
    where: str
    path: Path

    @classmethod
    def connect(cls, address: str | Path, *, writable: bool = False) -> Self:
        """The database in a file; to be written, it is made if it is not there."""
        path = Path(address)
        if not writable and not path.is_file():
            raise FileError(f"no database file '{path}'")
        database = cls(cls.opened(path, writable=writable), f"'{path}'", path)
        if not writable:
            try:
                database.check_plain()
            except BaseException:
                database.close()
                raise
        return database

    @staticmethod
    @abstractmethod
    def opened(path: Path, *, writable: bool) -> Any:
        """A connection to a file, which is made if it is to be written and is not there."""

    @abstractmethod
    def computed(self) -> pa.Table:
        """Table and name of every column that is computed by an expression."""

    def check_plain(self) -> None:
        """Refuse a file that brings code: a generated column computes what it likes."""
        found = self.computed()
        if found.num_rows:
            table, column = (str(each[0]) for each in found.columns)
            raise FileError(
                f"{self.where} computes the column '{column}' of '{table}' by an expression",
                hint=COPIED,
            )

    def state(self, table: TableName) -> str:
        journal = self.path.with_name(self.path.name + self.journal)
        return f"{table.key}: {state_of(p for p in (self.path, journal) if p.exists())}"


@dataclass(frozen=True, eq=False)
class TableRelation(Relation):
    """A table of a database that fetches what it is asked for over its connection."""

    database: Database
    rows_from: str
    dialect: Dialect
    flags: bool = False

    def fetch(self, statement: str) -> pa.Table:
        return self.database.fetch(statement)

    def beside(self, other: Relation, reports: Domain) -> Relation | None:
        same = isinstance(other, TableRelation) and other.database.where == self.database.where
        return self if same else None


def fetched(cursor: Any) -> pa.Table:
    """All rows that a cursor of Python's database interface has found."""
    names = [column[0] for column in cursor.description or ()]
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})


def _folded(*names: str) -> tuple[str, ...]:
    """Names as engines compare them that take A to Z for a to z.

    >>> _folded("Survey", "ÉTÉ")
    ('survey', 'ÉtÉ')
    """
    return tuple("".join(c.lower() if c.isascii() else c for c in name) for name in names)
