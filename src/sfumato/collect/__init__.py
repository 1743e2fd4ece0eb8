"""The collector: respondents answer, only blurred reports leave them, owners watch the crowd."""

from sfumato.collect.client import Client, Receipt, Sent

__all__ = ["Client", "Receipt", "Sent"]
