"""PostgresStore: reports in a PostgreSQL database, for several workers that know nothing of each
other.

PostgreSQL keeps the order of arrival in its own files, and with every row, until `tidy` writes the
tables anew in the order of the ids; until then whoever holds those files sees it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.collect.store.store import (
    CONFLICT,
    VERSION,
    WITHDRAWN,
    Added,
    Batch,
    Done,
    Receipt,
    SqlStore,
    Work,
    tallied,
)
from sfumato.engines.postgres import PostgresDatabase
from sfumato.errors import ServerError, StoreError

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

# psycopg's types take literal statements only (so "type: ignore" below); ours are put together from
# constants of this file, and values go beside them.
PATIENCE = "5s"  # for a lock that another worker holds
CHUNK = 1 << 14  # bodies read at a time
SPACE = 0x5F_0A70  # of our advisory locks, so that they are nobody else's

SCHEMA = """
CREATE TABLE sfumato_meta(key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE campaign(number serial PRIMARY KEY, name text NOT NULL, round integer NOT NULL,
    hash text NOT NULL, frozen text NOT NULL, spec text NOT NULL, shown text, UNIQUE(name, round));
CREATE TABLE report(campaign integer, id bytea, body bytea NOT NULL,
    CONSTRAINT report_key PRIMARY KEY(campaign, id));
CREATE TABLE withdrawn(campaign integer, id bytea,
    CONSTRAINT withdrawn_key PRIMARY KEY(campaign, id));
CREATE TABLE daily(campaign integer, day date, outcome text, count bigint NOT NULL,
    PRIMARY KEY(campaign, day, outcome));
CREATE TABLE token(hash bytea PRIMARY KEY, role text NOT NULL, label text NOT NULL, expires date);
"""
# In a table that stores of earlier versions do not have: they remembered such ids for ever.
UNSEEN = """CREATE TABLE unseen(campaign integer, id bytea, day date NOT NULL,
    CONSTRAINT unseen_key PRIMARY KEY(campaign, id))"""

# Behind a view may stand work without end, behind a trigger, a rule, a default, a constraint or an
# index anything; an unlogged table is emptied by a crash, and one more column may keep when a
# report came. So a table is ours if all of it is.
SHAPES = """SELECT ours, concat_ws('; ',
    concat(relkind, relpersistence, relhastriggers, relhasrules, relrowsecurity, relhassubclass),
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod),
        CASE WHEN attnotnull THEN 'NOT NULL' END, pg_get_expr(adbin, adrelid)),
        ', ' ORDER BY attnum)
        FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), ', ' ORDER BY conname)
        FROM pg_constraint WHERE conrelid = c.oid AND contype <> 'n'),
    (SELECT count(*) FROM pg_index WHERE indrelid = c.oid))
    FROM unnest(%s::text[]) AS ours JOIN pg_class AS c ON c.oid = to_regclass(ours)"""
SHAPE = {
    "sfumato_meta": "rpffff; key text NOT NULL, value text NOT NULL;"
    " sfumato_meta_pkey PRIMARY KEY (key); 1",
    "campaign": "rpffff; number integer NOT NULL nextval('campaign_number_seq'::regclass),"
    " name text NOT NULL, round integer NOT NULL, hash text NOT NULL, frozen text NOT NULL,"
    " spec text NOT NULL, shown text; campaign_name_round_key UNIQUE (name, round),"
    " campaign_pkey PRIMARY KEY (number); 2",
    "report": "rpffff; campaign integer NOT NULL, id bytea NOT NULL, body bytea NOT NULL;"
    " report_key PRIMARY KEY (campaign, id); 1",
    "withdrawn": "rpffff; campaign integer NOT NULL, id bytea NOT NULL;"
    " withdrawn_key PRIMARY KEY (campaign, id); 1",
    "daily": "rpffff; campaign integer NOT NULL, day date NOT NULL, outcome text NOT NULL,"
    " count bigint NOT NULL; daily_pkey PRIMARY KEY (campaign, day, outcome); 1",
    "token": "rpffff; hash bytea NOT NULL, role text NOT NULL, label text NOT NULL, expires date;"
    " token_pkey PRIMARY KEY (hash); 1",
    "unseen": "rpffff; campaign integer NOT NULL, id bytea NOT NULL, day date NOT NULL;"
    " unseen_key PRIMARY KEY (campaign, id); 1",
}


class PostgresStore(SqlStore):
    """A database that several workers share; each has its own connections."""

    shared = True
    meta, octets = "sfumato_meta", "bytea"

    def __init__(self, address: str, where: str) -> None:
        self.where = where
        self._address = address
        self._lock, self._read_lock = threading.Lock(), threading.Lock()
        self._writing: Connection[Any] | None = None
        self._reading: Connection[Any] | None = None

    @classmethod
    def open(cls, address: str, *, create: bool = False) -> PostgresStore:
        """The store in a database, by its address."""
        with PostgresDatabase.connect(address) as database:
            store = cls(address, database.where)
        store._prepare(create)
        return store

    def _prepare(self, create: bool) -> None:
        with self._transaction() as cursor:
            self._alone(cursor)
            cursor.execute("SELECT to_regclass('sfumato_meta') IS NOT NULL")
            if not _one(cursor)[0]:
                if not create:
                    raise StoreError(
                        f"{self.where} is no store of campaigns", hint="sfumato serve makes one"
                    )
                cursor.execute(SCHEMA)
                cursor.execute("INSERT INTO sfumato_meta VALUES ('version', %s)", (str(VERSION),))
            cursor.execute("SELECT to_regclass('unseen') IS NULL")
            if _one(cursor)[0] and create:
                cursor.execute(UNSEEN)
            cursor.execute(SHAPES, (list(SHAPE),))
            shapes = {"unseen": SHAPE["unseen"], **dict(cursor.fetchall())}
            if other := [name for name in SHAPE if shapes.get(name) != SHAPE[name]]:
                raise StoreError(
                    f"{self.where} is no store of campaigns: its table '{other[0]}' is not as "
                    "Sfumato's is"
                )
            cursor.execute("SELECT max(value) FROM sfumato_meta WHERE key = 'version'")
            version = _one(cursor)[0]
            if version is None:
                raise StoreError(f"{self.where} is no store of campaigns")
            if version != str(VERSION):
                raise StoreError(f"{self.where} is a store of version {version}, not {VERSION}")
            cursor.execute("SHOW track_commit_timestamp")
            if _one(cursor)[0] != "off":
                raise StoreError(
                    f"{self.where} keeps the time of every commit",
                    hint="set track_commit_timestamp = off: when reports came is not to be kept",
                )

    # Reports.

    def _written(self, work: Work) -> Done:
        with self._transaction() as cursor:
            self._settle_order(cursor, work)
            added = [self._add(cursor, batch) for batch in work.adds]
            gone = [self._withdraw(cursor, *each) for each in work.withdrawals]
            self._count_day(cursor, tallied(work, added, gone))
        return Done(added, gone)

    def _settle_order(self, cursor: Cursor[Any], work: Work) -> None:
        """Let reports be added side by side, but none beside a withdrawal: neither would see the
        other, and what was withdrawn would be back.
        """
        withdrawing = {campaign for campaign, _ in work.withdrawals}
        for campaign in sorted(withdrawing | {batch.campaign for batch in work.adds}):
            shared = "" if campaign in withdrawing else "_shared"
            cursor.execute(
                f"SELECT pg_advisory_xact_lock{shared}(%s, %s)",
                (SPACE, campaign),
            )

    def _add(self, cursor: Cursor[Any], batch: Batch) -> Added:
        first: dict[bytes, tuple[int, bytes]] = {}
        for place, (identity, body) in enumerate(batch.reports):
            first.setdefault(identity, (place, body))
        ids = sorted(first)  # in one order for all workers, so that none waits for another in turn
        cursor.execute(
            "INSERT INTO report SELECT %s, i, b FROM unnest(%s::bytea[], %s::bytea[]) AS r(i, b)"
            " WHERE NOT EXISTS (SELECT 1 FROM withdrawn w WHERE w.campaign = %s AND w.id = i)"
            " AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.campaign = %s AND u.id = i)"
            " ON CONFLICT DO NOTHING RETURNING id",
            (batch.campaign, ids, [first[key][1] for key in ids], batch.campaign, batch.campaign),
        )
        new = {bytes(found) for (found,) in cursor.fetchall()}
        if len(new) == len(batch.reports):
            return Added([body for _, body in batch.reports])
        return self._explained(cursor, batch, new)

    def _explained(self, cursor: Cursor[Any], batch: Batch, new: set[bytes]) -> Added:
        """What became of each report of a batch of which some had come before."""
        ids = [identity for identity, _ in batch.reports]
        cursor.execute(
            "SELECT id, body FROM report WHERE campaign = %s AND id = ANY(%s)",
            (batch.campaign, ids),
        )
        there = {bytes(identity): bytes(body) for identity, body in cursor.fetchall()}
        bodies, repeated, refused = [], 0, []
        for place, (identity, body) in enumerate(batch.reports):
            if identity not in there:
                refused.append((place, WITHDRAWN))
            elif there[identity] != body:
                refused.append((place, CONFLICT))
            elif identity in new:
                new.discard(identity)
                bodies.append(body)
            else:
                repeated += 1
        return Added(bodies, repeated, refused)

    def receipts(self, campaign: int, ids: Sequence[bytes]) -> list[Receipt]:
        found = self._rows(
            "SELECT id, 'stored' FROM report WHERE campaign = %(n)s AND id = ANY(%(ids)s) UNION ALL"
            " SELECT id, 'withdrawn' FROM withdrawn WHERE campaign = %(n)s AND id = ANY(%(ids)s)"
            " UNION ALL SELECT id, 'withdrawn' FROM unseen WHERE campaign = %(n)s"
            " AND id = ANY(%(ids)s)",
            {"n": campaign, "ids": list(ids)},
        )
        states: dict[bytes, Receipt] = {bytes(identity): state for identity, state in found}
        return [states.get(identity, "unknown") for identity in ids]

    def bodies(self, campaign: int) -> Iterator[bytes]:
        with (
            self._store_errors(),
            self._connection() as connection,
            connection.transaction(),
            connection.cursor("sfumato_bodies") as cursor,
        ):
            cursor.execute("SELECT body FROM report WHERE campaign = %s ORDER BY id", (campaign,))
            while rows := cursor.fetchmany(CHUNK):
                yield b"".join([body for (body,) in rows])

    # Keeping house.

    def cut_log(self) -> None:
        """The log is the database server's own."""

    def tidy(self) -> None:
        """Write the tables in the order of their ids, every row by one and the same transaction:
        the number of the one that wrote it (`xmin`) stays with a row, whatever is done to the table
        as a whole, and numbers are given in the order of arrival.
        """
        with self._tidying() as cursor:
            if cursor is not None:
                self._forget_unseen(cursor)
                cursor.execute("UPDATE report SET id = id")
                cursor.execute("UPDATE withdrawn SET id = id")
                cursor.execute("UPDATE unseen SET id = id")
        with self._tidying() as cursor:  # which leaves out the rows that were there before
            if cursor is not None:
                cursor.execute("CLUSTER report USING report_key")
                cursor.execute("CLUSTER withdrawn USING withdrawn_key")
                cursor.execute("CLUSTER unseen USING unseen_key")

    @contextmanager
    def _tidying(self) -> Iterator[Cursor[Any] | None]:
        """A transaction that tidies up; None where another worker is at it."""
        with self._transaction() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, -1)", (SPACE,))
            free = _one(cursor)[0]
            cursor.execute("SET LOCAL lock_timeout = 0")
            yield cursor if free else None

    def size(self) -> int:
        tables = "pg_total_relation_size('report') + pg_total_relation_size('withdrawn')"
        return int(self._rows(f"SELECT {tables}")[0][0])

    def close(self) -> None:
        with suppress(StoreError):
            self.tidy()
        with self._lock, self._read_lock:
            for connection in (self._writing, self._reading):
                if connection is not None:
                    connection.close()

    # Connections: a server that was away is there again at the next call.

    def _connected(self, connection: Connection[Any] | None) -> Connection[Any]:
        if connection is not None and not connection.closed and not connection.broken:
            return connection
        made = PostgresDatabase.connect(self._address).connection
        made.execute(f"SET lock_timeout = '{PATIENCE}'")
        made.execute("SET synchronous_commit = on")
        return made

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        connection = self._connected(None)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Cursor[Any]]:
        with self._lock, self._store_errors():
            self._writing = self._connected(self._writing)
            with self._writing.transaction(), self._writing.cursor() as cursor:
                yield cursor

    def _alone(self, cursor: Cursor[Any]) -> None:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", (SPACE,))

    def _do(self, cursor: Cursor[Any], statement: str, values: Sequence[Any]) -> Any:
        return cursor.execute(statement.replace("?", "%s"), values)

    def _rows(self, statement: str, values: Any = ()) -> list[Any]:
        with self._read_lock, self._store_errors():
            self._reading = self._connected(self._reading)
            return self._reading.execute(statement.replace("?", "%s"), values).fetchall()

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """PostgreSQL's complaints as one line of ours."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise StoreError(f"{self.where}: {line.strip()}") from None
        except ServerError as error:
            raise StoreError(error.message, hint=error.hint) from None


def _one(cursor: Cursor[Any]) -> Any:
    found = cursor.fetchone()
    assert found is not None
    return found
