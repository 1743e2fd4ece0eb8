"""What a client program sends, with exact probabilities: written from the specification and apart
from the product, of which nothing is imported here, so that each can judge the other.

A program comes as JSON data. Nothing is presumed of its integers but that the draws can be made: a
uniform integer below a bound, a chance of 2^16, 2^32 or 2^64, a place by weights of sum 2^32, and a
uniform choice of some of a list. What is drawn is followed in fractions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, product
from typing import Any

Report = tuple[Any, ...]
Law = dict[Any, Fraction]
Ratio = Fraction | float
Shape = tuple[str, int]  # "code" below a number, or "basket" of that many items

BIT, WORD, LONG = 1 << 16, 1 << 32, 1 << 64
CHOICES = 1_000  # of some out of a list that are gone through


class NoDrawError(Exception):
    """The program asks for a draw that cannot be made, or would never end."""


class TooManyError(Exception):
    """The program has more records or reports than can be gone through."""


# --- draws


def below(bound: int, ranges: Iterable[tuple[int, Any]]) -> Law:
    """The law of what a uniform integer below the bound falls on: ranges of so many integers."""
    found: Law = defaultdict(Fraction)
    left = bound
    for count, value in ranges:
        if count < 0:
            raise NoDrawError(f"a range of {count} integers")
        found[value] += Fraction(count, max(bound, 1))
        left -= count
    if bound < 1 or left != 0:
        raise NoDrawError(f"ranges that leave {left} of {bound} integers")
    return {value: share for value, share in found.items() if share}


def chance(threshold: int, of: int) -> Fraction:
    """The probability that a word lies below the threshold."""
    if threshold < 0:
        raise NoDrawError(f"a threshold of {threshold}")
    return Fraction(min(threshold, of), of)


def pick(weights: Sequence[int]) -> Law:
    """The law of a place by weights."""
    return below(WORD, ((weight, place) for place, weight in enumerate(weights)))


def some(of: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """Every choice of so many, all as likely as each other."""
    if not 0 <= count <= len(of):
        raise NoDrawError(f"{count} of {len(of)}")
    if math.comb(len(of), count) > CHOICES:
        raise TooManyError("choices")
    return list(combinations(of, count))


def mixed(parts: Iterable[tuple[Fraction, Law]]) -> Law:
    """A law drawn by chance, and then by it."""
    found: Law = defaultdict(Fraction)
    for share, law in parts:
        for value, inner in law.items():
            found[value] += share * inner
    return {value: share for value, share in found.items() if share}


def evenly(laws: Sequence[Law]) -> Law:
    """One of these laws, each as likely."""
    if not laws:
        raise NoDrawError("none of none")
    return mixed((Fraction(1, len(laws)), law) for law in laws)


# --- what steps have in common


def cell_of(sizes: Sequence[int], codes: Sequence[int]) -> int:
    cell = 0
    for size, code in zip(sizes, codes, strict=True):
        cell = cell * size + code
    return cell


def codes_of(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """All records of such columns, in the order of their cells."""
    return list(product(*map(range, sizes)))


def answer_of(step: Any, codes: Sequence[int]) -> int:
    """The true answer: the cell, or what the public map makes of it."""
    sizes = step["sizes"]
    if "starts" in step:
        rows = step["starts"]
        codes = [
            max(place for place, start in enumerate(row) if start <= code)
            for row, code in zip(rows, codes, strict=True)
        ]
        sizes = [len(row) for row in rows]
    cell = cell_of(sizes, codes)
    return step["map"][cell] if "map" in step else cell


def items_of(step: Any, values: Sequence[Any]) -> tuple[int, ...]:
    """A basket, or a record as one: an item for each value of each column."""
    if "sizes" not in step:
        return tuple(values[0])
    return tuple(sum(step["sizes"][:place]) + code for place, code in enumerate(values))


def universe_of(step: Any) -> int:
    return sum(step["sizes"]) if "sizes" in step else step["items"]


def flipped(held: Iterable[int], ones: Sequence[int], zeros: Sequence[int], items: int) -> Law:
    """Every item kept or flipped on its own."""
    law: Law = {(): Fraction(1)}
    own = set(held)
    for item in range(items):
        kept = ones if item in own else zeros
        flip = chance(BIT - kept[item if len(kept) > 1 else 0], BIT)
        there = 1 - flip if item in own else flip
        law = {
            (*report, item) if reported else report: share * part
            for report, share in law.items()
            for reported, part in ((False, 1 - there), (True, there))
            if part
        }
    return law


def capped(step: Any, held: Sequence[int], many: int) -> list[tuple[int, ...]]:
    """The own symbols of a basket that holds these, every choice as likely."""
    cap = step["cap"]
    if len(held) <= cap:
        return [tuple(held)]
    if "tiers" not in step:
        return some(held, cap)
    tier = many + sum(low <= len(held) for low in step["tiers"]) - 1
    return [(tier, *chosen) for chosen in some(held, cap - 1)]


def candidates_of(step: Any, basket: Sequence[int]) -> list[int]:
    return [place for place, each in enumerate(step["candidates"]) if set(each) <= set(basket)]


def lifted(step: Any, total: int, own: Sequence[int], symbols: int, beyond: int) -> Law:
    """a for each own symbol, b for every other, the rest of the integers for what lies beyond."""
    a, b = step["a"], step["b"]
    rest = total - len(own) * (a - b) - symbols * b
    ranges = [(a - b, symbol) for symbol in own] + [(b, symbol) for symbol in range(symbols)]
    return below(total, [*ranges, (rest, beyond)])


# --- the steps: the law of the columns that each writes, given those that it reads


def public(step: Any, values: Sequence[Any]) -> Law:
    return {tuple(values): Fraction(1)}


def diagonal(step: Any, values: Sequence[Any]) -> Law:
    cells = codes_of(step["sizes"])
    total, scale = step["total"], step["scale"]
    if scale < 1:
        raise NoDrawError("a scale of 0")
    if total < scale * len(cells):  # the last integers name no cell
        whole, part = divmod(total, scale)
        return below(total, [*((scale, cell) for cell in cells[:whole]), (part, cells[whole])])
    return below(
        total, [*((scale, cell) for cell in cells), (total - scale * len(cells), tuple(values))]
    )


def diagonal64(step: Any, values: Sequence[Any]) -> Law:
    keep, cells = chance(int(step["keep"]), LONG), codes_of(step["sizes"])
    anew = {cell: Fraction(1, len(cells)) for cell in cells}
    return mixed([(keep, {tuple(values): Fraction(1)}), (1 - keep, anew)])


def spread(step: Any, values: Sequence[Any]) -> Law:
    mean, total, reach = (int(step[name]) for name in ("mean", "total", "reach"))
    if total < 1:
        raise NoDrawError("a total of 0")
    if mean - reach >= 0 and mean + reach <= total:
        stay = Fraction(mean, total)  # the mean over a range that nothing cuts off
    elif reach <= 1000:
        weights = range(mean - reach, mean + reach + 1)
        stay = sum((chance(max(w, 0), total) for w in weights), Fraction(0)) / len(weights)
    else:
        raise TooManyError("weights")
    others = [cell for cell in codes_of(step["sizes"]) if cell != tuple(values)]
    if stay < 1 and not others:
        raise NoDrawError("another record where there is only one")
    moved = {cell: Fraction(1, len(others)) for cell in others}
    return mixed([(stay, {tuple(values): Fraction(1)}), (1 - stay, moved)])


def retain(step: Any, values: Sequence[Any]) -> Law:
    keep, size = chance(step["keep"], WORD), step["size"]
    anew = (
        pick(step["weights"]) if "weights" in step else below(size, ((1, n) for n in range(size)))
    )
    law = mixed([(keep, {values[0]: Fraction(1)}), (1 - keep, anew)])
    return {(code,): share for code, share in law.items()}


def table(step: Any, values: Sequence[Any]) -> Law:
    cells = codes_of(step["sizes"])
    law = pick(step["weights"][cell_of(step["sizes"], values)])
    return {cells[cell]: share for cell, share in law.items()}


def flip(step: Any, values: Sequence[Any]) -> Law:
    law = flipped(items_of(step, values), step["ones"], step["zeros"], universe_of(step))
    return {(report,): share for report, share in law.items()}


def cut(step: Any, values: Sequence[Any]) -> Law:
    held, cutoff, items = items_of(step, values), step["cutoff"], universe_of(step)
    size = () if "sizes" in step else (len(held),)
    kept = below(
        cutoff + 1,
        [
            *((1, count) for count in range(min(cutoff, len(held)) + 1)),
            (max(0, cutoff - len(held)), min(cutoff, len(held))),
        ],
    )
    pasted = cache(lambda own: flipped(own, [BIT], [BIT - step["insert"]], items))
    law = mixed(
        (share, evenly([pasted(own) for own in some(held, count)])) for count, share in kept.items()
    )
    return {(report, *size): share for report, share in law.items()}


def kary(step: Any, values: Sequence[Any]) -> Law:
    a, b, answers = step["a"], step["b"], step["answers"]
    true = answer_of(step, values)
    others = ((b, ((true + 1 + turn) % answers,)) for turn in range(answers - 1))
    return below(a + b * (answers - 1), chain([(a, (true,))], others))


def own(step: Any, values: Sequence[Any]) -> Law:
    symbols = step["own"][answer_of(step, values)]
    total = len(step["own"][0]) * (step["a"] - step["b"]) + step["symbols"] * step["b"]
    law = lifted(step, total, symbols, step["symbols"], -1)
    return {(symbol,): share for symbol, share in law.items()}


def symbol(step: Any, values: Sequence[Any]) -> Law:
    many = len(step["candidates"])
    symbols = many + len(step.get("tiers", ()))
    total = step["cap"] * step["a"] + symbols * step["b"]
    choices = capped(step, candidates_of(step, values[0]), many)
    law = evenly([lifted(step, total, mine, symbols, symbols) for mine in choices])
    return {(code,): share for code, share in law.items()}


def collide(step: Any, values: Sequence[Any]) -> Law:
    buckets, cap, seeds = step["buckets"], step["cap"], step["seeds"]
    hashed = candidates_of(step, values[0]) if "candidates" in step else values[0]
    many = len(step["candidates"]) if "candidates" in step else step["items"]
    total = cap * step["a"] + (buckets - cap) * step["b"]
    if cap > buckets:
        raise NoDrawError(f"{cap} of {buckets} buckets")
    choices = capped(step, hashed, many)
    laws = []
    for seed in range(seeds):
        for mine in choices:
            held = {bucket_of(step["pool"], seed, cap, buckets, item) for item in mine}
            free = [bucket for bucket in range(buckets) if bucket not in held]
            filled = some(free, max(cap - len(held), 0))
            if len(filled) * buckets > 10 * CHOICES:
                raise TooManyError("buckets")
            inner = evenly([lifted(step, total, (*held, *more), buckets, -1) for more in filled])
            laws.append({(seed, bucket): share for bucket, share in inner.items()})
    return evenly(laws)


def window(step: Any, values: Sequence[Any]) -> Law:
    length, count, a, b = (step[name] for name in ("length", "values", "a", "b"))
    zero = step.get("zero", 0)
    value, codes = values[0] - zero, step.get("round", count + zero) - zero
    starts: Law = {value: Fraction(1)}
    if value < 0:  # the window after all others
        starts = {count + length - 1: Fraction(1)}
    elif "round" in step:
        low, part = divmod(value * (count - 1), codes - 1)
        starts = below(codes - 1, [(part, low + 1), (codes - 1 - part, low)])
    outputs = count + length - 1 + zero * length
    total, last = length * a + (outputs - length) * b, count + length - 2 + zero
    law = mixed(
        (share, lifted(step, total, range(start, start + length), outputs, -1))
        for start, share in starts.items()
    )
    found: Law = {}
    for code, share in law.items():
        found[(min(code, last),)] = found.get((min(code, last),), Fraction(0)) + share
    return found


def subset(step: Any, values: Sequence[Any]) -> Law:
    a, b, answers, chosen = (step[name] for name in ("a", "b", "answers", "chosen"))
    true = answer_of(step, values)
    others = [answer for answer in range(answers) if answer != true]
    total = chosen * a + (answers - chosen) * b
    told = below(total, [(chosen * a, True), ((answers - chosen) * b, False)])

    def sets(within: bool) -> Law:
        found = some(others, chosen - within)
        more = (true,) if within else ()
        return {(tuple(sorted((*more, *each))),): Fraction(1, len(found)) for each in found}

    return mixed((share, sets(within)) for within, share in told.items())


def unary(step: Any, values: Sequence[Any]) -> Law:
    law = flipped((answer_of(step, values),), step["ones"], step["zeros"], step["answers"])
    return {(report,): share for report, share in law.items()}


LAWS: dict[str, Callable[[Any, Sequence[Any]], Law]] = {
    law.__name__: law
    for law in (public, diagonal, diagonal64, spread, retain, table, flip, cut, kary, own, symbol)
} | {law.__name__: law for law in (collide, window, subset, unary)}


# --- the public hash


def murmur3(text: bytes) -> int:
    """MurmurHash3 for 32-bit machines with seed 0, from its published description."""

    def turned(word: int, by: int) -> int:
        return ((word << by) | (word >> (32 - by))) % WORD

    def scrambled(block: bytes) -> int:
        word = sum(byte << 8 * place for place, byte in enumerate(block))
        return turned(word * 0xCC9E2D51 % WORD, 15) * 0x1B873593 % WORD

    state, whole = 0, len(text) // 4 * 4
    for start in range(0, whole, 4):
        state = (turned(state ^ scrambled(text[start : start + 4]), 13) * 5 + 0xE6546B64) % WORD
    state ^= scrambled(text[whole:]) ^ len(text)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor % WORD
    return state ^ state >> 16


@cache
def bucket_of(pool: str, seed: int, cap: int, buckets: int, item: int) -> int:
    """A polynomial of degree cap over GF(2^31 - 1), modulo the buckets."""
    prime = 2**31 - 1
    terms = (
        murmur3(f"{pool}/{seed}/{power}".encode("ascii")) * pow(item, power, prime)
        for power in range(cap + 1)
    )
    return sum(terms) % prime % buckets


# --- what is read and written


def reads(step: Any) -> list[Shape]:
    """What the columns of a step may hold."""
    kind = step["step"]
    if kind in ("public", "retain"):
        return [("basket", step["items"])] if "items" in step else [("code", step["size"])]
    if kind == "window":
        return [("code", step.get("round", step["values"] + step.get("zero", 0)))]
    if kind in ("symbol", "collide") or (kind in ("flip", "cut") and "sizes" not in step):
        return [("basket", step["items"])]
    return [("code", size) for size in step["sizes"]]


def writes(step: Any) -> list[Shape]:
    """What the columns of the report that a step writes may hold."""
    kind = step["step"]
    if kind in ("public", "retain", "diagonal", "diagonal64", "spread", "table"):
        return reads(step)
    if kind == "cut" and "sizes" not in step:
        return [("basket", step["items"]), ("code", step["items"] + 1)]
    if kind in ("flip", "cut"):
        return [("basket", universe_of(step))]
    if kind in ("subset", "unary"):
        return [("basket", step["answers"])]
    if kind == "collide":
        return [("code", step["seeds"]), ("code", step["buckets"])]
    if kind == "symbol":
        return [("code", len(step["candidates"]) + len(step.get("tiers", ())) + 1)]
    sizes = {"kary": "answers", "own": "symbols"}
    if kind in sizes:
        return [("code", step[sizes[kind]])]
    return [("code", step["values"] + step["length"] - 1 + step.get("zero", 0))]


def count_of(shape: Shape) -> int:
    return 1 << min(shape[1], 64) if shape[0] == "basket" else shape[1]


def all_of(shape: Shape) -> list[Any]:
    """Everything that such a column may hold."""
    kind, size = shape
    if kind == "code":
        return list(range(size))
    return [each for count in range(size + 1) for each in combinations(range(size), count)]


def branches(program: Any) -> list[tuple[int, list[Any]]]:
    """What is done, by the weight of 2^32 with which it is: one branch for each question dealt."""
    deals = [step for step in program["steps"] if step["step"] == "deal"]
    if not deals:
        return [(WORD, list(program["steps"]))]
    (deal,) = deals
    pick(deal["weights"])
    return [
        (weight, [question if step is deal else step for step in program["steps"]])
        for weight, question in zip(deal["weights"], deal["questions"], strict=True)
    ]


def laid_out(program: Any, places: str, shapes: Callable[[Any], list[Shape]]) -> list[Shape]:
    """The columns of the records, or of the reports: where questions share one, the widest."""
    found: dict[int, Shape] = {}
    for _, actions in branches(program):
        for action in actions:
            for place, shape in zip(action[places], shapes(action), strict=True):
                found[place] = max(found.get(place, shape), shape)
    if places == "reports":
        for step in program["steps"]:
            if step["step"] == "deal":
                found[step["reports"][0]] = ("code", len(step["questions"]))
    if list(found) and sorted(found) == list(range(len(found))):
        return [found[place] for place in sorted(found)]
    raise NoDrawError(f"{places} {sorted(found)}")


def records_of(program: Any) -> list[Shape]:
    return laid_out(program, "columns", reads)


def reports_of(program: Any) -> list[Shape]:
    return laid_out(program, "reports", writes)


def sent_as_is(program: Any) -> set[tuple[int, str]]:
    """The columns of the record of which something is sent as it is: its value, or a basket's
    size.
    """
    actions = [action for _, actions in branches(program) for action in actions]
    return {(action["columns"][0], "value") for action in actions if action["step"] == "public"} | {
        (action["columns"][0], "size")
        for action in actions
        if action["step"] == "cut" and "sizes" not in action
    }


# --- the whole


@dataclass(frozen=True)
class Enumerated:
    """Every record, and the weight of each report that it can give; the weights of a record sum to
    the same total.
    """

    records: list[Report]
    weights: list[dict[Report, int]]
    shapes: list[Shape]  # of the report

    @property
    def reports(self) -> set[Report]:
        """All that can be sent."""
        return set().union(*self.weights)

    def worst(self, named: Iterable[tuple[int, str]] = ()) -> Ratio:
        """The most that a report can be likelier under one record than under another that agrees
        with it in what the campaign names as sent as it is.
        """
        groups: dict[Any, list[dict[Report, int]]] = defaultdict(list)
        wanted = sorted(named)
        for record, weights in zip(self.records, self.weights, strict=True):
            shown = tuple(
                record[place] if what == "value" else len(record[place]) for place, what in wanted
            )
            groups[shown].append(weights)
        most, least = 1, 1
        for group in groups.values():
            for report in set().union(*group):
                seen = [weights.get(report, 0) for weights in group]
                high, low = max(seen), min(seen)
                if not low:
                    return math.inf
                if high * least > most * low:
                    most, least = high, low
        return Fraction(most, least)


def enumerated(program: Any, records: int = 64, reports: int = 3_000) -> Enumerated:
    """Go through all records and reports of a program, at most so many."""
    shapes, written = records_of(program), reports_of(program)
    if min(size for _, size in (*shapes, *written)) < 1:
        raise NoDrawError("a column without values")
    if math.prod(map(count_of, shapes)) > records:
        raise TooManyError("records")
    if math.prod(map(count_of, (*shapes, *written))) > 20 * reports:
        raise TooManyError("reports")
    every = list(product(*map(all_of, shapes)))
    blank = [() if kind == "basket" else 0 for kind, _ in written]
    numbers = [step["reports"][0] for step in program["steps"] if step["step"] == "deal"]
    parts = []
    for number, (weight, actions) in enumerate(branches(program)):
        laws = [_in_integers(action, every) for action in actions]
        parts.append((number, weight, actions, laws, math.prod(total for total, _ in laws)))
    common = math.lcm(*(whole for *_, whole in parts))
    weights: list[dict[Report, int]] = []
    for record in every:
        found: dict[Report, int] = defaultdict(int)
        for number, weight, actions, laws, whole in parts:
            begun = list(blank)
            for place in numbers:
                begun[place] = number
            sent = {tuple(begun): weight * (common // whole)}
            for action, (_, law) in zip(actions, laws, strict=True):
                sent = _written(sent, action["reports"], law[_read(action, record)])
            for report, share in sent.items():
                found[report] += share
        weights.append({report: share for report, share in found.items() if share})
    return Enumerated(every, weights, written)


def _read(action: Any, record: Report) -> Report:
    return tuple(record[place] for place in action["columns"])


def _in_integers(action: Any, every: Sequence[Report]) -> tuple[int, dict[Report, dict[Any, int]]]:
    """The laws of an action for all that it can read, over one denominator."""
    law = LAWS[action["step"]]
    found = {values: law(action, values) for values in {_read(action, record) for record in every}}
    total = math.lcm(*(share.denominator for each in found.values() for share in each.values()))
    return total, {
        values: {
            drawn: share.numerator * (total // share.denominator) for drawn, share in each.items()
        }
        for values, each in found.items()
    }


def _written(sent: Mapping[Report, int], places: Sequence[int], law: Mapping[Any, int]) -> Any:
    found: dict[Report, int] = defaultdict(int)
    for report, weight in sent.items():
        for drawn, share in law.items():
            whole = list(report)
            for place, value in zip(places, drawn, strict=True):
                whole[place] = value
            found[tuple(whole)] += weight * share
    return found
