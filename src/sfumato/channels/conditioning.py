"""Figures of a channel: how much a report can tell, and how far undoing it multiplies noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel
from sfumato.channels.dense import Dense
from sfumato.channels.product import Product
from sfumato.channels.questionnaire_channel import Questions
from sfumato.channels.retain import Retain


def amplification(channel: Channel) -> float:
    """γ, the largest ratio of one report's probabilities under two truths (Evfimievski, Gehrke and
    Srikant 2003).
    """
    if isinstance(channel, Product):
        return math.prod(map(amplification, channel.factors))
    if isinstance(channel, Retain):
        return _retained_ratio(channel)
    return largest_ratio(channel.to_dense())


def largest_ratio(matrix: NDArray[Any]) -> float:
    """The largest ratio between two entries of one row; rows that never occur do not count."""
    rows = matrix[matrix.max(axis=1) > 0]
    least = rows.min(axis=1)
    return math.inf if (least <= 0).any() else float((rows.max(axis=1) / least).max())


def _retained_ratio(channel: Retain) -> float:
    """(keep + (1-keep)·b) / ((1-keep)·b) at the least b; its inverse where keep is negative."""
    keep = channel.keep
    if math.prod(channel.inputs) == 1:
        return 1.0
    if keep < 0:
        rest = keep / (1 - keep) + channel.replacement
        return math.inf if rest.min() <= 0 else float((channel.replacement / rest).max())
    off = (1 - keep) * math.prod(law.least for law in channel.laws)
    return math.inf if off == 0 else 1 + keep / off


def condition(channel: Channel) -> float:
    """The 2-norm condition number; infinite for a questionnaire, whose answers are weighed and not
    inverted one by one.
    """
    if isinstance(channel, Product):
        return math.prod(map(condition, channel.factors))
    if isinstance(channel, Retain):
        return _retained_condition(channel)
    if isinstance(channel, Questions):
        return math.inf
    if isinstance(channel, Dense):
        return channel.condition
    values = np.linalg.svd(channel.to_dense(), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else math.inf


def _retained_condition(channel: Retain) -> float:
    """1/|keep| where b is uniform; else from the plane of b and 1, outside of which the matrix is
    keep·I.
    """
    keep, size = channel.keep, math.prod(channel.inputs)
    if size == 1:
        return 1.0
    square = math.prod(law.square for law in channel.laws)
    tilt = math.sqrt(max(0.0, square - 1 / size))
    plane = keep * np.eye(2) + (1 - keep) * np.array([[1.0, 0.0], [tilt * math.sqrt(size), 0.0]])
    values = [*np.linalg.svd(plane, compute_uv=False).tolist(), *([abs(keep)] if size > 2 else [])]
    return float(max(values) / min(values))
