"""Release baskets from which chosen patterns can no longer be mined, and say what that cost the
others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.errors import DataError, ParameterError
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.publish.cover import Itemset, cover
from sfumato.publish.lift import lift
from sfumato.publish.removal import RULES_OF_REMOVAL, Cells, Sensitive, remove
from sfumato.publish.restriction import Limits, Restriction
from sfumato.randomness import Keystream, secure

__all__ = ["HIDING_METHODS", "Hidden", "HideRelease", "HideReport", "hide", "largest_disclosure"]

Progress = Callable[[str], None]
HIDING_METHODS = ("cover", *RULES_OF_REMOVAL)
_REPAIRS = 5


@dataclass(frozen=True)
class Hidden:
    """One restriction before and after."""

    pattern: str
    count_before: int
    count_after: int
    found_before: bool
    found_after: bool
    confidence_before: float | None = None
    confidence_after: float | None = None
    reverse_before: float | None = None
    reverse_after: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; the confidences only of a rule."""
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True)
class HideReport:
    """What hiding reached and what it cost (measures of Oliveira and Zaïane 2002).

    `hiding_failure` |RP(D′)|/|RP(D)|, `misses_cost` |~RP(D) ∖ ~RP(D′)|/|~RP(D)|, `artifactual` |P′
    ∖ P|/|P′|, `dissimilarity` the item occurrences taken out or put in, as a share of all. A
    frequent itemset that contains a secret one cannot stay and is no miss.
    """

    method: str
    disclosure: float | None
    rows: int
    min_count: int
    hiding_failure: float
    misses_cost: float
    artifactual: float
    dissimilarity: float
    changed_transactions: int
    removed: int
    added: int
    frequent_before: int
    frequent_after: int
    lawful: int
    patterns: tuple[Hidden, ...]
    lost: tuple[tuple[str, ...], ...]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("patterns", "lost", "notes")
        }
        patterns = [pattern.to_dict() for pattern in self.patterns]
        return {
            **plain,
            "patterns": patterns,
            "lost": [list(items) for items in self.lost],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class HideRelease:
    """The baskets to hand out, and the report; `removed` and `added` say from and to whom and are
    for the owner alone.
    """

    bits: Bits
    report: HideReport
    removed: Cells = field(repr=False)
    added: Cells = field(repr=False)


def hide(
    bits: Bits,
    names: Sequence[str],
    restrictions: Sequence[Restriction],
    min_count: int,
    *,
    min_confidence: float | None = None,
    method: str = "cover",
    disclosure: float | None = None,
    seconds: float = 5.0,
    rng: Keystream | None = None,
    progress: Progress | None = None,
) -> HideRelease:
    """A copy of the baskets in which the restrictions are not found at `min_count` (and
    `min_confidence` for rules).

    `naive`, `minfia`, `maxfia` and `iga` sanitise a share 1 − ψ of each restriction's baskets, ψ =
    `disclosure` (0 unless given); they hide for certain only if ψ is small enough. `cover` removes
    no more than hiding needs, from where it hurts least; given ψ, it also leaves at most that share
    of the sensitive baskets alone. Where removals would hide the reverse of a rule as well, it puts
    the antecedent into other baskets instead.
    """
    _check(restrictions, method, disclosure, min_confidence)
    rng = rng or secure()
    limits = Limits(min_count, min_confidence)
    _check_occurring(bits, names, restrictions)
    found = [restriction.holds(bits, limits) for restriction in restrictions]
    notes = tuple(
        f"'{restriction.named(names)}' is not found even in the true baskets"
        for restriction, held in zip(restrictions, found, strict=True)
        if not held
    )
    active = [restriction for restriction, held in zip(restrictions, found, strict=True) if held]
    before = _frequent(bits, names, min_count, progress, "the true baskets")
    lawful = _lawful(before, active)
    started = time.perf_counter()
    released, removed, added = bits, Cells.joined([]), Cells.joined([])
    if active:
        if progress:
            progress(f"hiding {len(active)} patterns by {method}")
        released, removed, added = _hidden(
            bits, active, limits, lawful, (method, disclosure, seconds), rng
        )
    elapsed = time.perf_counter() - started
    after = _frequent(released, names, min_count, progress, "the released baskets")
    outcomes = tuple(
        _outcome(restriction, bits, released, limits, names) for restriction in restrictions
    )
    changes = (removed, added)
    report = _report(
        bits,
        changes,
        before,
        after,
        lawful,
        outcomes,
        names,
        limits,
        (method, disclosure, elapsed, notes),
    )
    return HideRelease(released, report, removed, added)


def largest_disclosure(bits: Bits, restrictions: Sequence[Restriction], limits: Limits) -> float:
    """The largest ψ at which every restriction is surely hidden: min over them of what may stay /
    what there is.
    """
    shares = [r.most_left(bits, limits) / max(1, len(r.holders(bits))) for r in restrictions]
    return min(1.0, *shares) if shares else 1.0


def _check(
    restrictions: Sequence[Restriction],
    method: str,
    disclosure: float | None,
    min_confidence: float | None,
) -> None:
    if method not in HIDING_METHODS:
        raise ParameterError(
            f"no hiding method '{method}'", hint=f"use one of {', '.join(HIDING_METHODS)}"
        )
    if disclosure is not None and not 0 <= disclosure <= 1:
        raise ParameterError(
            f"disclosure={disclosure:g} lies outside [0, 1]; it is the share ψ left alone"
        )
    if min_confidence is None and any(restriction.consequent for restriction in restrictions):
        raise ParameterError(
            "to hide a rule, say from which confidence on it holds", hint="give min_confidence"
        )


def _check_occurring(bits: Bits, names: Sequence[str], restrictions: Sequence[Restriction]) -> None:
    never = [
        restriction.named(names)
        for restriction in restrictions
        if not len(restriction.holders(bits))
    ]
    if never:
        listed = "; ".join(never)
        raise DataError(
            f"{len(never)} pattern(s) never occur in these baskets: {listed}",
            hint="remove them from the file",
        )


def _hidden(
    bits: Bits,
    active: Sequence[Restriction],
    limits: Limits,
    lawful: dict[tuple[int, ...], int],
    how: tuple[str, float | None, float],
    rng: Keystream,
) -> tuple[Bits, Cells, Cells]:
    method, disclosure, seconds = how
    if method != "cover":
        sensitive = Sensitive.find(bits, active, rng)
        removed = RULES_OF_REMOVAL[method](bits, sensitive, disclosure or 0.0)
        return remove(bits, removed), removed, Cells.joined([])
    return _covered(bits, active, limits, list(lawful.items()), disclosure, seconds, rng)


def _covered(
    bits: Bits,
    active: Sequence[Restriction],
    limits: Limits,
    lawful: Sequence[Itemset],
    disclosure: float | None,
    seconds: float,
    rng: Keystream,
) -> tuple[Bits, Cells, Cells]:
    """Repeated where hiding one restriction took antecedents away from a rule and so raised its
    confidence again.
    """
    share = 1.0 if disclosure is None else disclosure
    caps = [math.floor(share * len(restriction.holders(bits)) + 1e-9) for restriction in active]
    released, added = (
        lift(bits, active, limits, rng) if disclosure is None else (bits, Cells.joined([]))
    )
    parts: list[Cells] = []
    for _ in range(_REPAIRS):
        left = [
            min(r.most_left(released, limits), cap) for r, cap in zip(active, caps, strict=True)
        ]
        if all(len(r.holders(released)) <= most for r, most in zip(active, left, strict=True)):
            break
        parts.append(cover(released, active, left, lawful, limits.min_count, rng, seconds=seconds))
        released = remove(released, parts[-1])
    return released, Cells.joined(parts), added


def _frequent(
    bits: Bits, names: Sequence[str], min_count: int, progress: Progress | None, what: str
) -> dict[tuple[int, ...], int]:
    """Every frequent itemset and its count."""
    if progress:
        progress(f"mining {what}")
    supports = FlippedSupports(bits, tuple(names))
    if bits.rows < min_count:
        return {}
    found = frequent_itemsets(supports, min_count=min_count)
    counts: dict[tuple[int, ...], int] = {}
    for tier, rows in zip(found.tiers, found.chosen, strict=True):
        itemsets: NDArray[np.int32] = tier.itemsets[rows]
        counts.update(
            zip(
                map(tuple, itemsets.tolist()),
                np.rint(tier.measured.count[rows]).astype(int).tolist(),
                strict=True,
            )
        )
    return counts


def _lawful(
    frequent: dict[tuple[int, ...], int], restrictions: Sequence[Restriction]
) -> dict[tuple[int, ...], int]:
    """The frequent itemsets that contain no secret itemset."""
    secret = [set(restriction.items) for restriction in restrictions if not restriction.consequent]
    return {
        items: count
        for items, count in frequent.items()
        if not any(part <= set(items) for part in secret)
    }


def _outcome(
    restriction: Restriction, true: Bits, released: Bits, limits: Limits, names: Sequence[str]
) -> Hidden:
    return Hidden(
        restriction.named(names),
        len(restriction.holders(true)),
        len(restriction.holders(released)),
        restriction.holds(true, limits),
        restriction.holds(released, limits),
        restriction.confidence(true),
        restriction.confidence(released),
        restriction.reverse_confidence(true),
        restriction.reverse_confidence(released),
    )


def _report(
    bits: Bits,
    changes: tuple[Cells, Cells],
    before: dict[tuple[int, ...], int],
    after: dict[tuple[int, ...], int],
    lawful: dict[tuple[int, ...], int],
    outcomes: tuple[Hidden, ...],
    names: Sequence[str],
    limits: Limits,
    how: tuple[str, float | None, float, tuple[str, ...]],
) -> HideReport:
    method, disclosure, elapsed, notes = how
    lost = [items for items in lawful if items not in after]
    secrets = sum(outcome.found_before for outcome in outcomes)
    return HideReport(
        method=method,
        disclosure=disclosure,
        rows=bits.rows,
        min_count=limits.min_count,
        hiding_failure=sum(o.found_after and o.found_before for o in outcomes) / max(1, secrets),
        misses_cost=len(lost) / max(1, len(lawful)),
        artifactual=sum(items not in before for items in after) / max(1, len(after)),
        dissimilarity=sum(map(len, changes)) / max(1, int(bits.counts().sum())),
        changed_transactions=len(np.unique(np.concatenate([cells.rows for cells in changes]))),
        removed=len(changes[0]),
        added=len(changes[1]),
        frequent_before=len(before),
        frequent_after=len(after),
        lawful=len(lawful),
        patterns=outcomes,
        lost=tuple(tuple(names[item] for item in items) for items in lost),
        seconds=elapsed,
        notes=notes,
    )
