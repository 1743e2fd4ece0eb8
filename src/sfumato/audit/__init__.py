"""Audit: attacks on a release with the truth at hand, and checks that its mechanism
kept its word.

Loads nothing until it is asked: `sfumato.audit` is also the name of a function (see
`sfumato.api`), so that this package is loaded with Sfumato itself.
"""

from typing import TYPE_CHECKING

from sfumato.lazy import loading

if TYPE_CHECKING:
    from sfumato.audit.audit_result import Audit
    from sfumato.audit.auditing import audit_release

__all__ = ["Audit", "audit_release"]

__getattr__ = loading(
    __name__, {"Audit": "audit_result:Audit", "audit_release": "auditing:audit_release"}
)
