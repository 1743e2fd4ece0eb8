"""Mechanisms: each a way to randomise one record and the channel this amounts to; each a file."""

from sfumato.mechanisms.base import Mechanism

__all__ = ["Mechanism"]
