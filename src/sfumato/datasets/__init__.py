"""Synthetic data with known structure."""

from sfumato.datasets.quest import Baskets, Quest
from sfumato.datasets.survey import Records, survey

__all__ = ["Baskets", "Quest", "Records", "survey"]
