"""Choosing: the mechanism that answers a campaign's questions best under its promise."""

from __future__ import annotations

from sfumato.domain import Domain, Numeric
from sfumato.errors import CampaignError, SchemaError, SfumatoError, listing
from sfumato.mechanisms.base import Mechanism, spec_of
from sfumato.mechanisms.registry import mechanism_class, round_design
from sfumato.plan import plan_release
from sfumato.privacy.guarantee import Guarantee

ROUNDS_BY = "item-set"  # how a campaign asks in rounds
PEOPLE = 10_000  # for whom the plan is made; the order of mechanisms hardly depends on it


def best_mechanism(domain: Domain, promise: Guarantee) -> Mechanism:
    """The planner's best mechanism under this promise that a respondent can run alone, and that
    its name and the promise say in full.
    """
    _check_cut(domain, "mechanisms are compared by cells")
    refused = ""
    for option in plan_release(domain, PEOPLE, guarantee=promise).options:
        try:
            found = mechanism_class(option.mechanism.name).promising(promise, domain)
            found.program()
        except SfumatoError as error:
            refused = refused or error.message
            continue
        if spec_of(found) == spec_of(option.mechanism):
            return found
    raise CampaignError(
        f"no mechanism can be run by a respondent alone under {promise}: {refused}",
        hint="name one under [mechanism], or promise less (a larger gamma)",
    )


def _check_cut(domain: Domain, why: str) -> None:
    """Refuse numbers without cuts where there must be cells, and say what a campaign can have."""
    whole = [a.name for a in domain.private if isinstance(a, Numeric) and not a.cuts]
    if whole:
        has = f"'{whole[0]}' has" if len(whole) == 1 else f"{listing(whole)} have"
        raise SchemaError(
            f"{has} no cuts, and {why}",
            hint="give cuts = […] in the schema, or name a mechanism for whole numbers, such as "
            "square-wave or piecewise: init --mechanism NAME, name = … under [mechanism]",
        )


def named_mechanism(name: str, domain: Domain, promise: Guarantee) -> Mechanism:
    """The mechanism of this name under the promise, where a respondent can run it alone."""
    kind = mechanism_class(name)
    try:
        found = kind.promising(promise, domain)
    except SchemaError:
        _check_cut(domain, f"{kind.name} asks for cells")
        raise
    found.program()
    return found


def first_round(domain: Domain, promise: Guarantee) -> Mechanism:
    """What the first of several rounds asks of baskets: any item."""
    return round_design(ROUNDS_BY).first(promise, domain)
