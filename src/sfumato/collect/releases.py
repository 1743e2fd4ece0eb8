"""Releases: what a store holds of a campaign, as a table that every task can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sfumato.collect.store import Enrolled, Store
from sfumato.collect.store.base import no_campaign
from sfumato.domain import Columns
from sfumato.source import Release
from sfumato.table import Provenance, Table, writer_to
from sfumato.table.packing import Packing
from sfumato.table.table import join_columns


def find_campaign(store: Store, name: str) -> Enrolled:
    """A campaign of a store by its name, its latest round; or by its name and round, as in
    health-2027/1.
    """
    plain, _, wanted = name.partition("/")
    known = store.enrolled()
    found = [each for each in known if each.name == plain and wanted in ("", str(each.round))]
    if not found:
        raise no_campaign(name, store.where, [each.name for each in known])
    return max(found, key=lambda each: each.round)


def report_batches(provenance: Provenance, bodies: Iterable[bytes]) -> Iterator[Columns]:
    """The reports of a campaign, a batch after the other, in the order of their random ids."""
    return map(Packing(provenance.mechanism.reports).unpack, bodies)


def release_of(store: Store, number: int, provenance: Provenance) -> Release:
    """The reports of a campaign as a release in memory."""
    reports = provenance.mechanism.reports
    columns = join_columns(reports, list(report_batches(provenance, store.bodies(number))))
    return Release.of(Table(reports, columns, provenance))


def export(store: Store, campaign: Enrolled, target: str | Path, *, force: bool = False) -> int:
    """Write a campaign's reports to a file that carries their mechanism, without ids; how many."""
    provenance = campaign.provenance
    with writer_to(target, provenance.mechanism.reports, provenance, force=force) as writer:
        for columns in report_batches(provenance, store.bodies(campaign.number)):
            writer.write(columns)
        return writer.rows
