"""Synthetic data with known structure, and the public data sets in the recodings of the papers."""

from sfumato.datasets.dataset import Records
from sfumato.datasets.loaders import basket_path, census, health, salary, salary_split
from sfumato.datasets.quest import Baskets, Quest
from sfumato.datasets.survey import survey

__all__ = [
    "Baskets",
    "Quest",
    "Records",
    "basket_path",
    "census",
    "health",
    "salary",
    "salary_split",
    "survey",
]
