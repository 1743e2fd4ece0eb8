"""Hiding with few losses: removals chosen by what the frequent itemsets around them can still
afford.

Each restriction needs its items separated in so many baskets; each removal of an item from a basket
takes one from the count of every itemset of the basket that has the item. A lawful itemset F can
lose count(F) − min_count before a miner misses it; that slack is its budget. The search starts from
what the simple rules would remove, less what hiding does not need. Then removals are chosen in
rounds by the price Σ_F m_F / (slack_F + 1) of what they take, per restriction they serve, so that
prices rise as budgets run out; an itemset already lost costs nothing more. This is done for all
items of the restrictions, and for a few of them at a time (where data are dense, itemsets that
share one item are best lost together); then again with the lost itemsets given up from the outset,
and with dearer ones. The best outcome within the time is kept, so it is never worse than the best
of the rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.errors import EstimationError
from sfumato.progress import Progress, silent
from sfumato.publish.limits import MOST_CHOICES, MOST_TRIED
from sfumato.publish.restriction import Entries, Restriction
from sfumato.randomness import Keystream

CountedItems = tuple[tuple[int, ...], int]  # an itemset and its count


@dataclass(frozen=True, eq=False)
class _Links:
    """Which moves touch which pairs of basket and itemset (or restriction)."""

    move: NDArray[np.int64]  # one entry per move and pair
    pair: NDArray[np.int64]
    owner: NDArray[np.int64]  # of each pair: the itemset or restriction
    owners: int


@dataclass(frozen=True, eq=False)
class _Covering:
    """Moves (basket, item), what they take from lawful itemsets, and what they do for
    restrictions.
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    lawful: _Links
    secret: _Links
    slack: NDArray[np.int64]
    need: NDArray[np.int64]

    def moves(self, entries: Entries) -> NDArray[np.int64]:
        """The numbers of the moves that take these entries out."""
        size = int(self.items.max(initial=0)) + 1
        own = self.rows * size + self.items
        order = np.argsort(own)
        wanted = entries.rows * size + entries.items
        return order[np.searchsorted(own[order], wanted)]


@dataclass(frozen=True, eq=False)
class _Outcome:
    chosen: NDArray[np.int64]  # moves
    lost: NDArray[np.bool_]  # lawful itemsets

    @property
    def losses(self) -> tuple[int, int]:
        """Itemsets lost; of equal numbers the one with fewer removals is better."""
        return int(self.lost.sum()), len(self.chosen)


def cover(
    bits: Bits,
    restrictions: Sequence[Restriction],
    most_left: Sequence[int],
    lawful: Sequence[CountedItems],
    min_count: int,
    rng: Keystream,
    *,
    starts: Sequence[Entries] = (),
    seconds: float = 5.0,
    progress: Progress = silent,
) -> Entries:
    """Removals after which no restriction is held by more than its `most_left` baskets, losing few
    lawful itemsets, and never more than any of the `starts` that does the same.
    """
    progress(f"weighing {len(lawful):,} itemsets", None)
    problem = _covering(bits, restrictions, most_left, lawful, min_count, rng)
    best = _searched(problem, restrictions, starts, seconds, progress)
    return Entries.of(problem.rows[best.chosen], problem.items[best.chosen])


def _searched(
    problem: _Covering,
    restrictions: Sequence[Restriction],
    starts: Sequence[Entries],
    seconds: float,
    progress: Progress,
) -> _Outcome:
    """The best outcome found: from the starts, then by prices until the time is up."""
    started = time.monotonic()

    def left() -> bool:
        gone = (time.monotonic() - started) / max(seconds, 1e-9)
        progress(f"{len(best.chosen):,} removals lose {best.losses[0]:,} itemsets", min(gone, 1.0))
        return gone < 1 and bool(best.lost.any())

    best = _choose(problem, np.ones(len(problem.slack)))
    if not best.lost.any():
        return best
    found = [_pruned(problem, problem.moves(entries)) for entries in starts]
    best = min([*found, best], key=lambda outcome: outcome.losses)
    for allowed in islice(_few_items(problem, restrictions), MOST_TRIED):
        if not left():
            return best
        tried = _choose(problem, np.ones(len(problem.slack)), allowed)
        best = min(best, tried, key=lambda outcome: outcome.losses)
    price, stale = np.where(best.lost, 0.0, 1.0), 0
    while stale < 4 and left():
        tried = _choose(problem, price)
        if tried.losses[0] < best.losses[0]:
            best, stale = tried, 0
            price = np.where(best.lost, 0.0, 1.0)
        else:
            # Give up what was lost before for good, but make what was newly lost dear.
            stale += 1
            price = np.where(best.lost, 0.0, price + tried.lost * 2.0**stale)
    return best


def _few_items(
    problem: _Covering, restrictions: Sequence[Restriction]
) -> Iterator[NDArray[np.bool_]]:  # (moves,)
    """Moves that take few items: one of each restriction, choices that share items first."""
    choices = product(*(restriction.victims for restriction in restrictions))
    sets = {frozenset(choice) for choice in islice(choices, MOST_CHOICES)}
    for items in sorted(sets, key=lambda items: (len(items), sorted(items))):
        yield np.isin(problem.items, list(items))


def _pruned(problem: _Covering, moves: NDArray[np.int64]) -> _Outcome:
    """The moves without those that no restriction needs, dearest first."""
    secret, lawful = problem.secret, problem.lawful
    kept = np.zeros(len(problem.rows), dtype=bool)
    kept[moves] = True
    mine = kept[secret.move]
    times = np.bincount(secret.pair[mine], minlength=len(secret.owner))
    surplus = np.bincount(secret.owner[times > 0], minlength=secret.owners) - problem.need
    taken = np.bincount(lawful.move, minlength=len(kept))
    order = np.argsort(secret.move[mine], kind="stable")
    by_move, pairs = secret.move[mine][order], secret.pair[mine][order]
    starts, ends = (np.searchsorted(by_move, moves, side=side) for side in ("left", "right"))
    for place in np.argsort(-taken[moves], kind="stable").tolist():
        own = pairs[starts[place] : ends[place]]
        alone = secret.owner[own[times[own] == 1]]
        if all(surplus[owner] >= (alone == owner).sum() for owner in alone):
            np.subtract.at(surplus, alone, 1)
            times[own] -= 1
            kept[moves[place]] = False
    return _outcome(problem, np.flatnonzero(kept))


def _outcome(problem: _Covering, moves: NDArray[np.int64]) -> _Outcome:
    """What these moves lose."""
    slack, alive = problem.slack.copy(), np.ones(len(problem.lawful.owner), dtype=bool)
    _strike(problem.lawful, moves, alive, slack)
    return _Outcome(moves, slack < 0)


def _covering(
    bits: Bits,
    restrictions: Sequence[Restriction],
    most_left: Sequence[int],
    lawful: Sequence[CountedItems],
    min_count: int,
    rng: Keystream,
) -> _Covering:
    holders = [restriction.holders(bits) for restriction in restrictions]
    baskets = np.unique(np.concatenate(holders))
    baskets = baskets[rng.permutation(len(baskets))]
    place = np.full(bits.rows, -1, dtype=np.int64)
    place[baskets] = np.arange(len(baskets))
    victims = sorted({item for restriction in restrictions for item in restriction.victims})
    used = sorted(
        {item for items, _ in lawful for item in items if set(items) & set(victims)} | set(victims)
    )
    column = {item: bits.column(item)[baskets] for item in used}
    keys = [
        place[rows] * bits.items + item
        for restriction, rows in zip(restrictions, holders, strict=True)
        for item in restriction.victims
    ]
    moves = np.unique(np.concatenate(keys))
    secret = [
        (np.sort(place[rows]), restriction.victims)
        for restriction, rows in zip(restrictions, holders, strict=True)
    ]
    lawful_baskets = [(_held(column, items, victims), items) for items, _ in lawful]
    return _Covering(
        rows=baskets[moves // bits.items],
        items=moves % bits.items,
        lawful=_links(moves, bits.items, lawful_baskets, victims),
        secret=_links(moves, bits.items, secret, victims),
        slack=np.array([count - min_count for _, count in lawful], dtype=np.int64),
        need=np.array([len(rows) for rows in holders], dtype=np.int64)
        - np.asarray(most_left, dtype=np.int64),
    )


def _held(
    column: dict[int, NDArray[np.bool_]], items: tuple[int, ...], victims: Sequence[int]
) -> NDArray[np.intp]:
    """The sensitive baskets that hold an itemset; none matter if no victim is in it."""
    if not set(items) & set(victims):
        return np.zeros(0, dtype=np.intp)
    held = column[items[0]].copy()
    for item in items[1:]:
        held &= column[item]
    return np.flatnonzero(held)


def _links(
    moves: NDArray[np.int64],
    universe: int,
    owners: Sequence[tuple[NDArray[np.integer], tuple[int, ...]]],
    victims: Sequence[int],
) -> _Links:
    """Join moves with the pairs (basket, owner) whose item they remove."""
    possible = set(victims)
    move, pair, owner = [], [], []
    pairs = 0
    for number, (held, items) in enumerate(owners):
        numbers = pairs + np.arange(len(held))
        for item in set(items) & possible if len(held) else ():
            key = held * universe + item
            position = np.minimum(np.searchsorted(moves, key), len(moves) - 1)
            hit = moves[position] == key
            move.append(position[hit])
            pair.append(numbers[hit])
        owner.append(np.full(len(held), number))
        pairs += len(held)
    return _Links(_joined(move), _joined(pair), _joined(owner), len(owners))


def _joined(parts: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _choose(
    problem: _Covering,
    price: NDArray[np.float64],
    allowed: NDArray[np.bool_] | None = None,
    portions: int = 48,
) -> _Outcome:
    """Removals in about so many portions, cheapest per restriction served first, until every need
    is met.
    """
    lawful, secret = problem.lawful, problem.secret
    slack, need = problem.slack.copy(), problem.need.copy()
    lawful_alive, secret_alive = (
        np.ones(len(lawful.owner), dtype=bool),
        np.ones(len(secret.owner), dtype=bool),
    )
    free = np.ones(len(problem.rows), dtype=bool) if allowed is None else allowed.copy()
    portion = max(1, int(np.maximum(need, 0).sum()) // portions)
    chosen: list[NDArray[np.int64]] = []
    while (need > 0).any():
        rate = np.where(slack >= 0, price / (np.maximum(slack, 0) + 1.0), 0.0)
        cost = np.bincount(
            lawful.move,
            weights=(lawful_alive * rate[lawful.owner])[lawful.pair],
            minlength=len(free),
        )
        serves = secret_alive & (need > 0)[secret.owner]
        gain = np.bincount(secret.move, weights=serves[secret.pair], minlength=len(free)) * free
        able = np.flatnonzero(gain)
        ratio = (cost[able] + 1e-6) / gain[able]
        order = able[np.argsort(ratio, kind="stable")[: 4 * portion]]
        taken = _portion(problem, order, serves, need, portion)
        if not len(taken):
            raise EstimationError("no removal is left that would hide the patterns")
        chosen.append(taken)
        free[taken] = False
        _strike(lawful, taken, lawful_alive, slack)
        _strike(secret, taken, secret_alive, need)
    moves = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return _Outcome(moves, slack < 0)


def _portion(
    problem: _Covering,
    order: NDArray[np.int64],
    serves: NDArray[np.bool_],
    need: NDArray[np.int64],
    portion: int,
) -> NDArray[np.int64]:
    """The first moves of the order, one a basket, as long as they serve a need that the earlier
    ones left open.
    """
    _, first = np.unique(problem.rows[order], return_index=True)
    order = order[np.sort(first)][:portion]
    secret = problem.secret
    rank = np.full(len(problem.rows), -1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    entries = np.flatnonzero((rank[secret.move] >= 0) & serves[secret.pair])
    owner = secret.owner[secret.pair[entries]]
    entries = entries[np.lexsort((rank[secret.move[entries]], owner))]
    owner = secret.owner[secret.pair[entries]]
    start = np.searchsorted(owner, owner)
    useful = entries[np.arange(len(entries)) - start < need[owner]]
    return np.unique(secret.move[useful])


def _strike(
    links: _Links, taken: NDArray[np.int64], alive: NDArray[np.bool_], budget: NDArray[np.int64]
) -> None:
    """Separate the pairs that the moves touch and take them off the budgets of their owners."""
    marked = np.zeros(int(links.move.max(initial=-1)) + 1, dtype=bool)
    marked[taken[taken < len(marked)]] = True
    touched = np.unique(links.pair[marked[links.move]])
    touched = touched[alive[touched]]
    alive[touched] = False
    budget -= np.bincount(links.owner[touched], minlength=links.owners)
