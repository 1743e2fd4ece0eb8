"""What a changed confidential column cost the analyst, and what it bought the people in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Distinct
from sfumato.publish.conditional import pair_counts
from sfumato.publish.identify import Risk, risk_of, status_of
from sfumato.publish.intruder import Believer, Intruder, believer_of, intruder_of
from sfumato.publish.owned import Keyed
from sfumato.renderers.frames import json_fields, json_value


@dataclass(frozen=True)
class Total:
    """How many records have a value, before and after."""

    value: Any
    before: int
    after: int


@dataclass(frozen=True)
class Cost:
    """What changed between the true and the released confidential column.

    `marginal_drift` counts each record once: Σ |N′ − N| / 2 over the values.
    """

    marginal_drift: int
    totals: tuple[Total, ...]
    i_divergence: float
    jensen_shannon: float
    two_way: dict[str, float]
    before: Risk
    after: Risk
    attack_before: Believer
    attack_after: Believer
    intruder: Intruder

    apart = ("two_way", "attack_before", "attack_after")  # in JSON as `to_dict` has them

    @property
    def mean_two_way(self) -> float:
        """Mean change of the two-way tables of the confidential column with each key."""
        return float(np.mean(list(self.two_way.values())))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            **json_fields(self),
            "two_way": {"mean": self.mean_two_way, "by_column": self.two_way},
            "attack": json_value({"before": self.attack_before, "after": self.attack_after}),
        }


def measure(keyed: Keyed, attribute: Distinct, truth: Codes, shown: Codes) -> Cost:
    """Compare the shown values of one confidential column with the true ones."""
    pattern = keyed.pattern
    status = status_of(pattern, truth)
    divergence, jensen_shannon = joint_divergence(pattern, truth, shown)
    before, after = (np.bincount(codes, minlength=attribute.size) for codes in (truth, shown))
    totals = zip(attribute.values, before.tolist(), after.tolist(), strict=True)
    return Cost(
        marginal_drift=int(np.abs(before - after).sum()) // 2,
        totals=tuple(Total(*each) for each in totals),
        i_divergence=divergence,
        jensen_shannon=jensen_shannon,
        two_way=two_way_changes(keyed, truth, shown),
        before=risk_of(pattern, truth),
        after=risk_of(pattern, shown),
        attack_before=believer_of(status, truth, truth),
        attack_after=believer_of(status, truth, shown),
        intruder=intruder_of(keyed.known, status, attribute, truth, shown),
    )


def joint_divergence(pattern: NDArray[np.int64], truth: Codes, shown: Codes) -> tuple[float, float]:
    """I-divergence Σ P log(P/P̃) of the joint distribution (eq. 2) and the Jensen–Shannon
    divergence, in nats.

    A changed unique record empties its cell, so eq. 2 as printed is infinite; half a record is
    therefore added to every cell that is occupied before or after. The Jensen–Shannon divergence
    needs no such help.
    """
    rows, values = len(pattern), int(max(truth.max(), shown.max())) + 1
    cells = np.concatenate([pattern * values + truth, pattern * values + shown])
    occupied, number = np.unique(cells, return_inverse=True)
    parts = np.split(number, 2)
    count = np.stack([np.bincount(part, minlength=len(occupied)) for part in parts])
    smooth = (count + 0.5) / (count + 0.5).sum(axis=1, keepdims=True)
    divergence = float((smooth[0] * np.log(smooth[0] / smooth[1])).sum())
    share, middle = count / rows, count.sum(axis=0) / (2 * rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(share > 0, share * np.log(share / middle), 0.0)
    return divergence, 0.5 * float(gain.sum())


def two_way_changes(keyed: Keyed, truth: Codes, shown: Codes) -> dict[str, float]:
    """Total variation distance between the true and the shown table of each key with the
    confidential column.
    """
    values, changes = int(max(truth.max(), shown.max())) + 1, {}
    for name, key in zip(keyed.keys, keyed.known, strict=True):
        size = keyed.table.domain[name].size
        before, after = (pair_counts(key, codes, size, values) for codes in (truth, shown))
        changes[name] = float(np.abs(before - after).sum()) / (2 * len(truth))
    return changes
