"""How far undoing a channel multiplies noise."""

from __future__ import annotations

import math

import numpy as np

from sfumato.channels.channel import Channel
from sfumato.channels.dense import Dense
from sfumato.channels.product import Product
from sfumato.channels.questionnaire_channel import Questions
from sfumato.channels.retain import Retain


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
    square = math.prod(
        1 / part.size if part.uniform else float(part.vector() @ part.vector())
        for part in channel.drawn
    )
    tilt = math.sqrt(max(0.0, square - 1 / size))
    plane = keep * np.eye(2) + (1 - keep) * np.array([[1.0, 0.0], [tilt * math.sqrt(size), 0.0]])
    values = [*np.linalg.svd(plane, compute_uv=False).tolist(), *([abs(keep)] if size > 2 else [])]
    return float(max(values) / min(values))
