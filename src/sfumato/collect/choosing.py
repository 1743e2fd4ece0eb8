"""Choosing: the mechanism that answers a campaign's questions best under its promise."""

from __future__ import annotations

from sfumato.domain import Domain
from sfumato.errors import CampaignError, SfumatoError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.item_set import ItemSet
from sfumato.mechanisms.registry import mechanism_class
from sfumato.plan import plan_release
from sfumato.privacy.guarantee import Guarantee

PEOPLE = 10_000  # for whom the plan is made; the order of mechanisms hardly depends on it


def best_mechanism(domain: Domain, promise: Guarantee) -> Mechanism:
    """The planner's best mechanism under this promise that a respondent can run alone, and that
    its name and the promise say in full.
    """
    refused = ""
    for option in plan_release(domain, PEOPLE, guarantee=promise).options:
        try:
            found = mechanism_class(option.mechanism.name).promising(promise, domain)
            found.program()
        except SfumatoError as error:
            refused = refused or error.message
            continue
        if found.spec() == option.mechanism.spec():
            return found
    raise CampaignError(
        f"no mechanism can be run by a respondent alone under {promise}: {refused}",
        hint="name one under [mechanism], or promise less (a larger gamma)",
    )


def first_round(domain: Domain, promise: Guarantee) -> Mechanism:
    """What the first of several rounds asks of baskets: any item."""
    return ItemSet.promising(promise, domain)
