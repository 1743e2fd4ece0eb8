"""Plan: which mechanism answers these questions best under this guarantee, and how many people it
takes.

Loads nothing until it is asked: `sfumato.plan` is also the name of a function (see
`sfumato.verbs`), so that this package is loaded with Sfumato itself.
"""

from typing import TYPE_CHECKING

from sfumato.lazy import loading

if TYPE_CHECKING:
    from sfumato.plan.options import Offer, Plan
    from sfumato.plan.planning import PURPOSES, PrivacyCurve, plan_release, privacy_curve

__all__ = ["PURPOSES", "Offer", "Plan", "PrivacyCurve", "plan_release", "privacy_curve"]

__getattr__ = loading(
    __name__,
    {
        "PURPOSES": "planning:PURPOSES",
        "Offer": "options:Offer",
        "Plan": "options:Plan",
        "PrivacyCurve": "planning:PrivacyCurve",
        "plan_release": "planning:plan_release",
        "privacy_curve": "planning:privacy_curve",
    },
)
