"""Plan: which mechanism answers these questions best under this guarantee, and how many people it
takes.

Loads nothing until it is asked: `sfumato.plan` is also the name of a function (see
`sfumato.api`), so that this package is loaded with Sfumato itself.
"""

from typing import TYPE_CHECKING, Any
from warnings import warn

from sfumato.lazy import loading

if TYPE_CHECKING:
    from sfumato.plan.candidates import Candidate, Plan
    from sfumato.plan.planning import PrivacyCurve, plan_release, privacy_curve
    from sfumato.plan.workload import PURPOSES

__all__ = ["PURPOSES", "Candidate", "Plan", "PrivacyCurve", "plan_release", "privacy_curve"]

_load = loading(
    __name__,
    {
        "PURPOSES": "workload:PURPOSES",
        "Candidate": "candidates:Candidate",
        "Plan": "candidates:Plan",
        "PrivacyCurve": "planning:PrivacyCurve",
        "plan_release": "planning:plan_release",
        "privacy_curve": "planning:privacy_curve",
    },
)


def __getattr__(name: str) -> Any:
    if name == "Offer":
        warn("sfumato.plan.Offer is now sfumato.plan.Candidate", DeprecationWarning, stacklevel=2)
        return _load("Candidate")
    return _load(name)
