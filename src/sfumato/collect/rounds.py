"""Rounds of a campaign: people are asked in the order in which they come, each in one of them, and
what a round asks is chosen by what the rounds before it said.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.collect.campaign import Campaign
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.releases import release_of
from sfumato.collect.store import Enrolled, Store
from sfumato.engines.rounds import RoundsSource
from sfumato.errors import CampaignError
from sfumato.mechanisms.base import Mechanism
from sfumato.table.turns import ROUNDS, SHARES


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
    following = _at(file, RoundsSource.of(releases).following(), known[-1].round + 1)
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
