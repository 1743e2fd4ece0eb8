"""Campaigns in the collector's stores, by the database that holds them: sqlite://campaign.db#NAME
or postgresql://host/database#NAME, or #NAME/ROUND.

Reports are packed in a store, and in the order of their random ids, so they are read into memory;
ten million of them take some seconds. A store that is being served can be read at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sfumato.counting.sql.database import Database
from sfumato.errors import DataError, FileError, SfumatoError, near_miss
from sfumato.source import Release
from sfumato.table import Provenance, Table
from sfumato.table.limits import BATCH_ROWS
from sfumato.table.packing import Packing
from sfumato.table.table import join_columns
from sfumato.untrusted import MOST_JSON_BYTES, parsed_json

LIVE = "a store takes reports and withdrawals: asked again, it may hold others"
LEFT_BY_POSTGRES = (
    "PostgreSQL's own files keep the order in which reports came until the table is clustered, "
    "every hour and when the server stops: until then whoever holds them sees it"
)

Known = Sequence[tuple[str, int, int, str]]  # name, round, number and description of each campaign


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
