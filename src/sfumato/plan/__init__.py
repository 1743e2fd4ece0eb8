"""Plan: which mechanism answers these questions best under this guarantee, and how many people it
takes.
"""

from sfumato.plan.options import Offer, Plan
from sfumato.plan.planning import PURPOSES, PrivacyCurve, plan_release, privacy_curve

__all__ = ["PURPOSES", "Offer", "Plan", "PrivacyCurve", "plan_release", "privacy_curve"]
