"""Weakening a rule without touching the one that reads backwards: its antecedent is put where the
consequent is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.bits import Bits
from sfumato.publish.removal import Entries, add
from sfumato.publish.restriction import Limits, Restriction
from sfumato.randomness import Keystream

__all__ = ["lift", "reverse_would_fall"]


def reverse_would_fall(restriction: Restriction, bits: Bits, limits: Limits) -> bool:
    """Whether removals alone would hide the reverse rule too, although it holds and is no secret.

    Taking the consequent C out of x of the s baskets with A∪C leaves C → A the confidence (s −
    x)/(count(C) − x).
    """
    before = restriction.reverse_confidence(bits)
    if before is None or limits.min_confidence is None or before < limits.min_confidence:
        return False
    together = len(restriction.holders(bits))
    removed = max(0, together - restriction.most_left(bits, limits))
    consequent = round(together / before)
    return (together - removed) < limits.min_confidence * (consequent - removed)


def lift(
    bits: Bits, restrictions: Sequence[Restriction], limits: Limits, rng: Keystream
) -> tuple[Bits, Entries]:
    """The baskets with the antecedents of such rules put into others, and what was put in.

    A → C has confidence s/count(A): it falls below the limit once count(A) > s/limit, while s,
    count(C) and so C → A stay as they are. The baskets that lack fewest items of A go first, then
    the smallest, where the fewest other patterns come about.
    """
    parts = []
    for restriction in restrictions:
        if restriction.consequent and reverse_would_fall(restriction, bits, limits):
            part = _additions(bits, restriction, limits, rng)
            parts.append(part)
            bits = add(bits, part)
    return bits, Entries.joined(parts)


def _additions(bits: Bits, restriction: Restriction, limits: Limits, rng: Keystream) -> Entries:
    antecedent = np.stack([bits.column(item) for item in restriction.antecedent])
    consequent = np.stack([bits.column(item) for item in restriction.consequent])
    lacking = (~antecedent).sum(axis=0)
    together = int((consequent.all(axis=0) & (lacking == 0)).sum())
    wanted = int(together / (limits.min_confidence or 1.0) + 1e-9) + 1 - int((lacking == 0).sum())
    candidates = np.flatnonzero((lacking > 0) & ~consequent.all(axis=0))
    candidates = candidates[rng.permutation(len(candidates))]
    order = np.lexsort((bits.sizes()[candidates], lacking[candidates]))
    chosen = candidates[order[:wanted]]
    position, place = np.nonzero(~antecedent[:, chosen])
    return Entries.of(chosen[place], np.asarray(restriction.antecedent)[position])
