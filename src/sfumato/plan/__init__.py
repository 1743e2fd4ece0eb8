"""Plan: which mechanism answers these questions best under this guarantee, and how many people it
takes.
"""

from sfumato.plan.options import Option, Plan
from sfumato.plan.planning import PURPOSES, PrivacyCurve, plan_release, privacy_curve

__all__ = ["PURPOSES", "Option", "Plan", "PrivacyCurve", "plan_release", "privacy_curve"]
