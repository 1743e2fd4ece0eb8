"""Releases: what a store holds of a campaign, as a table that every task can read, and the rounds
of one: people are asked in the order in which they come, each in one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sfumato.collect.campaign import Campaign
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.store import Enrolled, Store
from sfumato.collect.store.store import no_campaign
from sfumato.domain import Columns
from sfumato.engines.several import RoundSeries
from sfumato.errors import CampaignError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import ROUNDS, SHARES
from sfumato.release import Release
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


def export(
    store: Store, number: int, provenance: Provenance, target: str | Path, *, force: bool = False
) -> int:
    """Write a campaign's reports to a file that carries their mechanism, without ids; how many."""
    with writer_to(target, provenance.mechanism.reports, provenance, force=force) as writer:
        for columns in report_batches(provenance, store.bodies(number)):
            writer.write(columns)
        return writer.rows


# Rounds: what one asks is chosen by what the rounds before it said.


def at_present(store: Store, file: CampaignFile) -> CampaignFile:
    """A campaign at the round that its store has come to: the file states the first alone."""
    known = _rounds_in(store, file.campaign)
    if len(known) < 2:
        return file
    return _at(file, known[-1].provenance.mechanism, known[-1].round)


def is_due(campaign: Campaign, reports: int) -> bool:
    """Whether the people of this round have answered, and another comes after it."""
    if campaign.people is None or campaign.round >= ROUNDS:
        return False
    return reports >= campaign.people * SHARES[campaign.round - 1]


def begin_next(store: Store, file: CampaignFile) -> CampaignFile:
    """Close the round that a campaign is at, and enter the next into its store, which asks what the
    rounds so far make probable.
    """
    if file.campaign.people is None:
        raise CampaignError(
            f"'{file.campaign.name}' asks everyone at once and has no rounds",
            hint="give [rounds] people = … in its file before anybody answers",
        )
    known = _rounds_in(store, file.campaign)
    if not known:
        raise CampaignError(
            f"nobody has answered '{file.campaign.name}' in {store.where}: there is no round to "
            "close",
            hint="sfumato serve begins the first",
        )
    releases = [release_of(store, each.number, each.provenance) for each in known]
    if not releases[-1].rows:
        raise CampaignError(
            f"nobody has answered round {known[-1].round} of '{file.campaign.name}' yet",
            hint="wait for answers",
        )
    following = _at(file, RoundSeries.of(releases).next_round(), known[-1].round + 1)
    store.enrol(following)
    return following


def _rounds_in(store: Store, campaign: Campaign) -> list[Enrolled]:
    """The rounds of a campaign that its store knows, the first one first."""
    if campaign.turn is None:
        return []
    found = [each for each in store.enrolled() if each.name == campaign.name]
    own = [
        each
        for each in found
        if each.provenance.turn and each.provenance.turn.series == campaign.turn.series
    ]
    return sorted(own, key=lambda each: each.round)


def _at(file: CampaignFile, mechanism: Mechanism, number: int) -> CampaignFile:
    return replace(file, campaign=replace(file.campaign, mechanism=mechanism, round=number))
