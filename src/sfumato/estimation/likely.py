"""Likely: a law near reconstructed counts, at which their errors can be worked out."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel
from sfumato.estimation.adjust import clip_and_scale
from sfumato.estimation.evidence import CountEvidence

Floats = NDArray[np.float64]


def expected_tally(counts: NDArray[Any], channel: Channel) -> Floats:
    """The tally to be expected where people are as likely spread as these counts make them: its
    errors are those of some law, which those of counts below 0 are not.
    """
    evidence = CountEvidence(counts, channel)
    chance = float(np.mean(evidence.squares + np.maximum(evidence.total, 0.0)))
    return np.asarray(channel.settle(counts).apply(likely(evidence.total, chance)))


def likely(counts: NDArray[Any], variance: float) -> Floats:
    """Counts drawn towards those of columns that have nothing to do with one another, as far as
    chance alone explains how they differ; none below 0, everyone in all.

    >>> likely(np.array([[30.0, 10.0], [-2.0, 22.0]]), 1e9).round(1)
    array([[18.7, 21.3],
           [ 9.3, 10.7]])
    """
    people, every = counts.sum(), range(counts.ndim)
    alone = [counts.sum(axis=tuple(a for a in every if a != axis)) for axis in every]
    apart = reduce(np.multiply.outer, [clip_and_scale(margin, 1.0) for margin in alone]) * people
    beyond = float(np.mean((counts - apart) ** 2))
    part = max(0.0, 1 - variance / beyond) if beyond else 0.0
    return clip_and_scale(part * counts + (1 - part) * apart, float(people))
