"""Releases in a PostgreSQL server: counts are pushed down, rows are written by COPY."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.bits import Bits
from sfumato.counting.sql import Dialect
from sfumato.counting.sql.database import Database, TableName, fetched
from sfumato.counting.sql.statements import whole_items
from sfumato.domain import Attribute, Codes, Items, Numeric
from sfumato.engines.limits import CONNECT_SECONDS
from sfumato.errors import MissingExtraError, ServerError, first_line
from sfumato.table import Table
from sfumato.table.delimited import csv_fields
from sfumato.table.limits import BATCH_ROWS

if TYPE_CHECKING:
    from psycopg import Connection

POSTGRES = Dialect(
    "postgres",
    double="DOUBLE PRECISION",
    grouping="GROUPING",
    unnest="UNNEST",
    any_of_list=True,
    listed_cells=4,
    listed_beside=1,
)


@dataclass(frozen=True, eq=False)
class PostgresDatabase(Database):
    """A database of a PostgreSQL server."""

    connection: Connection[Any]
    where: str
    dialect: ClassVar[Dialect] = POSTGRES

    @classmethod
    def connect(cls, address: str, *, writable: bool = True) -> PostgresDatabase:
        """A connection by its URL, postgresql://user:password@host:port/database."""
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError(
                "PostgreSQL needs the package psycopg", extra="postgres"
            ) from None
        try:
            facts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.Error:
            # Its own message may show the address, and so the password.
            raise ServerError(
                "this is no PostgreSQL address",
                hint="use postgresql://user:password@host:port/database",
            ) from None
        where = _where(facts)
        try:
            found = psycopg.connect(
                address,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name="sfumato",
            )
        except psycopg.OperationalError as error:
            raise _refused(error, where, facts) from None
        return cls(found, where)

    def spelled(self, schema: str, table: str) -> tuple[str, str]:
        # PostgreSQL cuts a name that is too long, and says so to nobody but its log.
        names = (f"CAST({POSTGRES.word(name)} AS name)" for name in (schema, table))
        found = self.fetch("SELECT {} AS s, {} AS t".format(*names))
        return found.column("s")[0].as_py(), found.column("t")[0].as_py()

    def comment(self, table: TableName) -> str | None:
        found = self.fetch(
            "SELECT obj_description(c.oid, 'pg_class') AS note FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE {_called(table)}"
        )
        return found.column("note")[0].as_py() if found.num_rows else None

    def state(self, table: TableName) -> str | None:
        """What changes when anything is written on the server: which transactions are over.

        A row changes by a transaction alone, and none begins or ends without the snapshot saying
        so. None where this does not hold: a standby does not list its transactions; unlogged rows
        go with a crash; of a table with heirs others' rows are counted too, and with row security
        what is seen depends on more than the rows.
        """
        found = self.fetch(
            "SELECT pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), d.oid, c.oid,"
            " pg_catalog.pg_relation_filenode(c.oid), pg_catalog.quote_ident(current_user),"
            " pg_catalog.txid_current_snapshot())"
            " AS state FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()"
            f" WHERE {_called(table)}"
            " AND c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhassubclass"
            " AND NOT c.relrowsecurity AND NOT pg_catalog.pg_is_in_recovery()"
        )
        return found.column("state")[0].as_py() if found.num_rows else None

    def fetch(self, statement: str) -> pa.Table:
        with _clear(self.where):
            return fetched(self.connection.execute(statement))

    def is_store(self) -> bool:
        found = self.fetch("SELECT to_regclass('sfumato_meta')::text AS found")
        return found["found"][0].as_py() is not None

    def pieces(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """What a statement finds, so many rows at a time, as it stood at one moment."""
        with (
            _clear(self.where),
            self.connection.transaction(),
            self.connection.cursor(name="pieces") as cursor,
        ):
            cursor.execute(statement)
            while found := cursor.fetchmany(rows):
                yield found

    def execute(self, statement: str) -> None:
        with _clear(self.where):
            self.connection.execute(statement)

    def type_of(self, attribute: Attribute) -> str:
        if isinstance(attribute, Numeric):
            return "BIGINT" if attribute.whole else "DOUBLE PRECISION"
        if not isinstance(attribute, Items):
            return "TEXT"
        return "BIGINT[]" if whole_items(attribute) else "TEXT[]"

    def fill(self, name: TableName, table: Table) -> None:
        target = name.text(POSTGRES)
        with _clear(self.where), self.connection.cursor() as cursor:
            with cursor.copy(f"COPY {target} FROM STDIN WITH (FORMAT csv)") as copy:
                for start in range(0, table.rows, BATCH_ROWS):
                    copy.write(_lines(table.slice(start, start + BATCH_ROWS)))
            cursor.execute(f"ANALYZE {target}")


def _called(table: TableName) -> str:
    """Whether the table c in the schema n is this one."""
    schema, name = POSTGRES.word(table.schema), POSTGRES.word(table.table)
    return f"n.nspname = {schema} AND c.relname = {name}"


def _lines(table: Table) -> bytes:
    """Rows as COPY takes them: CSV, baskets as array literals."""
    fields = [
        field for pair in zip(table.domain, table.columns, strict=True) for field in _fields(*pair)
    ]
    ended = pc.binary_join_element_wise(fields[-1], "\n", "")
    return bytes(pc.binary_join_element_wise(*fields[:-1], ended, ",").buffers()[2])


def _fields(attribute: Attribute, column: Codes | Bits) -> list[pa.Array]:
    if not isinstance(column, Bits):
        return csv_fields(attribute, column)
    offsets, items = column.to_csr()
    words = pa.array([_element(label) for label in attribute.labels], pa.string()).take(
        pa.array(items)
    )
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words)
    return [pc.binary_join_element_wise('"{', pc.binary_join(lists, ","), '}"', "")]


def _element(word: str) -> str:
    """One element of an array literal inside a quoted CSV field."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace('"', '""')


def _where(facts: dict[str, Any]) -> str:
    """The server and database without user or password."""
    host = facts.get("host") or facts.get("hostaddr") or "localhost"
    return (
        "PostgreSQL at "
        f"{host}:{facts.get('port') or 5432}/{facts.get('dbname') or facts.get('user') or ''}"
    )


def _refused(error: Exception, where: str, facts: dict[str, Any]) -> ServerError:
    text, user = str(error), facts.get("user") or "this account"
    if "password" in text:
        return ServerError(
            f"{where} refuses the password of '{user}'",
            hint="check user and password in the address",
        )
    if "does not exist" in text:
        return ServerError(f"{where}: {_reason(error)}")
    return ServerError(
        f"cannot reach {where}: {_reason(error)}",
        hint="is the server running, and is this its address?",
    )


def _reason(error: Exception) -> str:
    """What the server said, in its own last words."""
    return first_line(error).rpartition("failed: ")[2].removeprefix("FATAL:").strip()


@contextmanager
def _clear(where: str) -> Iterator[None]:
    """PostgreSQL's complaints as one line of ours."""
    import psycopg

    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        # Its own words quote the value, which may be someone's true one.
        raise ServerError(f"{where}: a value is refused ({type(error).__name__})") from None
    except psycopg.Error as error:
        raise ServerError(f"{where}: {_reason(error)}") from None
