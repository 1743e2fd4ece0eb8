"""Audit: attacks on a release with the truth at hand, and checks that its mechanism
kept its word.
"""

from sfumato.audit.auditing import audit_release
from sfumato.audit.result import Audit

__all__ = ["Audit", "audit_release"]
