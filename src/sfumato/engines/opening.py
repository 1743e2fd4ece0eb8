"""Opening and saving releases: a file, a table of a database by its URL, or a campaign in one of
the collector's stores.

Reports are packed in a store, and in the order of their random ids, so they are read into memory;
ten million of them take some seconds. A store that is being served can be read at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sfumato.address import SPECIAL, redacted, well_formed
from sfumato.arguments import checked
from sfumato.counting.sql import SqlCounter
from sfumato.counting.sql.database import Database
from sfumato.counting.sql.kept import KeptCounts, state_of
from sfumato.domain import Domain
from sfumato.engines.duckdb import DuckDatabase, file_relation, files_of
from sfumato.engines.postgres import PostgresDatabase
from sfumato.engines.spark import is_spark, spark_session
from sfumato.engines.spark.spark_counter import open_with_spark
from sfumato.engines.sqlite import SqliteDatabase
from sfumato.errors import DataError, FileError, ParameterError, SfumatoError, near_miss
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream
from sfumato.release import Release, source_of
from sfumato.source import Source
from sfumato.table import Provenance, Reader, Table, Written, perturb_table, reader_of
from sfumato.table.limits import BATCH_ROWS
from sfumato.table.packing import Packing
from sfumato.table.perturbing import check_order, shuffled
from sfumato.table.proposal import read_truth
from sfumato.table.shuffling import order_to
from sfumato.table.table import join_columns
from sfumato.untrusted import MOST_JSON_BYTES, parsed_json

FILE_ENGINES = ("memory", "duckdb")
DATABASES: dict[str, type[Database]] = {  # by the scheme of their addresses
    "duckdb": DuckDatabase,
    "postgresql": PostgresDatabase,
    "postgres": PostgresDatabase,
    "sqlite": SqliteDatabase,
}

LIVE = "a store takes reports and withdrawals: asked again, it may hold others"
LEFT_BY_POSTGRES = (
    "PostgreSQL's own files keep the order in which reports came until the table is clustered, "
    "every hour and when the server stops: until then whoever holds them sees it"
)

Known = Sequence[tuple[str, int, int, str]]  # name, round, number and description of each campaign


@dataclass(frozen=True)
class Location:
    """A table of a database: duckdb://PATH#TABLE, sqlite://PATH#TABLE or
    postgresql://user:password@host:port/database#TABLE; or a campaign of the collector's,
    sqlite://PATH#NAME or postgresql://…#NAME.

    >>> Location.parse("duckdb://census.db#adult")
    Location(scheme='duckdb', address='census.db', table='adult')
    """

    scheme: str
    address: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Location | None:
        """The location that a URL names; None for the name of a file."""
        scheme, mark, rest = text.partition("://")
        if not mark:
            return None
        if scheme not in DATABASES:
            hint = (
                near_miss(scheme, tuple(DATABASES))
                or "use a file, duckdb://PATH#TABLE, sqlite://PATH#TABLE or "
                "postgresql://host/database#TABLE"
            )
            raise ParameterError(f"'{scheme}://' is no database that Sfumato reads", hint=hint)
        # The last #: one in a password should be %23, and is none of the table's business.
        address, mark, table = rest.rpartition("#")
        if not mark or not table:
            raise ParameterError(
                "the address names no table", hint=f"write it behind a #, as in {scheme}://…#TABLE"
            )
        in_file = DATABASES[scheme].in_file
        if not in_file and not well_formed(text):
            raise ParameterError(
                f"'{redacted(text)}' is no address that can be read without a guess",
                hint=f"{SPECIAL}, or leave the password to PGPASSWORD or ~/.pgpass",
            )
        return cls(scheme, address if in_file else f"{scheme}://{address}", unquote(table))

    def database(self, *, writable: bool = False) -> Database:
        """A connection to the database."""
        kind = DATABASES[self.scheme]
        address = unquote(self.address) if kind.in_file else self.address
        return kind.connect(address, writable=writable)


@checked
def open_source(
    place: str | Path,
    engine: str | None = None,
    *,
    schema: Domain | None = None,
    cache: bool = True,
) -> Source:
    """The release in a file or a database's table, its rows left where they are; a file without a
    mechanism is the truth.

    `engine` is memory or duckdb for files (duckdb where it can read the file), or a
    Spark master (local[2], spark://host:7077) for what Spark can reach; a database is its own
    engine, and may be given as one: then `place` is a table. What an engine counts is kept in the
    user's cache, so that asking again reads no rows, unless `cache` is False.
    """
    if engine is not None and is_spark(engine):
        return open_with_spark(spark_session(engine), str(place), cache=cache)
    if engine is not None and "://" in engine:
        place, engine = engine if "#" in engine else f"{engine}#{quote(str(place))}", None
    location = Location.parse(str(place))
    if location is not None:
        _check_engine(engine, (location.scheme,))
        return _release_at(location, cache)
    reader = reader_of(place)
    if reader.provenance is not None:
        return release_in(reader, engine, cache=cache)
    if engine == "duckdb":
        raise FileError(
            f"{reader.where} carries no mechanism; true records are counted in memory",
            hint="use --engine memory",
        )
    _check_engine(engine, FILE_ENGINES)
    return source_of(read_truth(reader, schema))


def _release_at(location: Location, cache: bool) -> Release:
    """The release in a table; a database that does not hold it is let go of at once."""
    database = location.database()
    try:
        campaign = campaign_in(database, location.table)
        if campaign is not None:
            database.close()
            return campaign
        return Release(*database.counter(location.table, keep=cache))
    except BaseException:
        database.close()
        raise


def release_in(reader: Reader, engine: str | None = None, *, cache: bool = True) -> Release:
    """The release in a perturbed file, counted by this engine."""
    provenance = reader.provenance
    if provenance is None:
        raise FileError(
            f"{reader.where} carries no mechanism, so how it was perturbed, or whether, is not "
            "known"
        )
    _check_engine(engine, FILE_ENGINES)
    reports = provenance.mechanism.reports
    if engine == "memory" or (engine is None and not files_of(reader)):
        return Release.of(reader.table(reports))
    relation = file_relation(reader, reports)
    kept = KeptCounts.of(provenance.release, reports, state_of(files_of(reader))) if cache else None
    return Release(SqlCounter(reports, relation, reader.described_rows, kept), provenance)


@checked
def save_release(release: Release | Table, url: str, *, force: bool = False) -> None:
    """Write a release into a table of a database, together with its mechanism, in one
    transaction.
    """
    location = Location.parse(url)
    if location is None:
        raise ParameterError(
            f"'{redacted(url)}' is no database",
            hint="use duckdb://PATH#TABLE, sqlite://PATH#TABLE or postgresql://host/database#TABLE",
        )
    table = release.table if isinstance(release, Release) else release
    turn = release.provenance.turn if isinstance(release, Release) else None
    if turn is not None and turn.round > 1:  # beside the one before it is said that it was asked
        raise ParameterError("a round is written to a file", hint="save it as .parquet or .csv")
    with location.database(writable=True) as database:
        if database.stores_alone and database.is_store():
            raise ParameterError(
                "a store of campaigns takes reports from respondents only",
                hint="write releases to another file, or to duckdb://PATH#TABLE",
            )
        database.save(table, location.table, force=force)


def perturb_into(
    source: Reader,
    url: str,
    mechanism: Mechanism,
    rng: Keystream,
    *,
    schema: Domain,
    copies: int = 1,
    keep_order: bool = False,
    order: str | Path | None = None,
    force: bool = False,
) -> Written:
    """Perturb a file into a table of a database; the noise is drawn once, and the table is there
    whole or not at all.
    """
    check_order(order, url, keep_order=keep_order, force=force)
    records = source.table(schema.project(mechanism.domain.names))
    table = perturb_table(records, mechanism, rng, copies=copies, keep_order=True)
    if not keep_order:
        table, places = shuffled(table, rng)
        if order is not None:
            with order_to(order, len(places), force=force) as keep:
                keep(places)
    save_release(table, url, force=force)
    assert table.provenance is not None
    return Written(table.rows, table.provenance, table.notes)


def _check_engine(engine: str | None, known: tuple[str, ...]) -> None:
    if engine is not None and engine not in known:
        shown = engine.partition("://")[0]  # an address may hold a password
        raise ParameterError(
            f"no engine '{shown}' for this ({', '.join(known)})",
            hint=near_miss(engine, (*FILE_ENGINES, *DATABASES)),
        )


def chosen(known: Known, name: str, where: str) -> tuple[int, str]:
    """The number and the description of a campaign, its latest round unless one is named."""
    if not all(isinstance(each[0], str) and isinstance(each[1], int) for each in known):
        raise FileError(f"{where} names its campaigns and rounds as no store does")
    plain, _, wanted = name.partition("/")
    found = [each for each in known if each[0] == plain and wanted in ("", str(each[1]))]
    if not found:
        names = [f"{each[0]}/{each[1]}" if wanted else each[0] for each in known]
        raise FileError(f"no campaign '{name}' in {where}", hint=near_miss(name, names))
    _, _, number, spec = max(found, key=lambda each: each[1])
    return number, spec


def provenance_of(spec: str, name: str, where: str, told: tuple[str, ...] = ()) -> Provenance:
    """How the reports of a campaign came about; they stand in the order of random ids."""
    try:
        found = Provenance.from_description(parsed_json(spec, "it"))
    except SfumatoError as error:
        raise FileError(
            f"campaign '{name}' of {where} has no description: {error.message}"
        ) from None
    return replace(found, shuffled=True, told=(LIVE, *told))


def release_of(provenance: Provenance, chunks: Iterable[Sequence[Any]], where: str) -> Release:
    """The reports of a campaign, of which the store hands out some bodies at a time."""
    reports = provenance.mechanism.reports
    packing = Packing(reports)
    parts = []
    for bodies in chunks:
        if any(type(body) is not bytes or len(body) != packing.width for body in bodies):
            raise DataError(f"a report in {where} is not of the length that its campaign has")
        parts.append(packing.unpack(b"".join(bodies)))
    return Release.of(Table(reports, join_columns(reports, parts), provenance))


def campaign_in(database: Database, name: str) -> Release | None:
    """The reports of a campaign in a store; None where the database is none, or has no such
    campaign but may hold a release of this name.
    """
    if not database.is_store():
        return None
    with database.transaction():  # one moment for all that is read
        cut = f"substr(spec, 1, {MOST_JSON_BYTES + 1}) AS spec"  # no more than would be read
        rows = database.fetch(f"SELECT name, round, number, {cut} FROM campaign").to_pylist()
        known = [(row["name"], row["round"], row["number"], row["spec"]) for row in rows]
        if not database.stores_alone and name.partition("/")[0] not in [each[0] for each in known]:
            return None
        number, spec = chosen(known, name, database.where)
        told = () if database.in_file else (LEFT_BY_POSTGRES,)
        provenance = provenance_of(spec, name, database.where, told)
        found = f"SELECT body FROM report WHERE campaign = {number:d} ORDER BY id"
        pieces = database.pieces(found, BATCH_ROWS)
        bodies = ([body for (body,) in rows] for rows in pieces)
        return release_of(provenance, bodies, database.where)
