"""Client programs that nobody would write, as JSON data: about half of them can be run and are
small enough to be gone through, the others are bent until something should give.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.mechanisms.enumerated import Shape, count_of, reads, writes

WORD = 1 << 32
MOST_RECORDS, MOST_REPORTS = 60, 3_000

Step = dict[str, Any]

# --- steps that can be run, without their places


def _sizes(rng: random.Random, most: int = 6) -> list[int]:
    """Columns of at most so many cells in all."""
    found = [rng.choice((1, 2, 2, 3, 3, 4, 5, 6)) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    while math.prod(found) > most:
        found[found.index(max(found))] -= 1
    return found


def _weights(rng: random.Random) -> dict[str, int]:
    """The weights a and b of own reports and others."""
    pairs = [(1, 1), (2, 1), (3, 1), (19, 1), (7, 2), (5, 5), (1 << 40, 1), (1 << 40, 1 << 39)]
    a, b = rng.choice([*pairs, (rng.randint(2, 1000), rng.randint(1, 2)), ((1 << 49) - 1, 3)])
    return {"a": a, "b": b}


def _summing(rng: random.Random, count: int, zeros: bool = True) -> list[int]:
    """Weights of sum 2^32: even, wild, or with zeros among them."""
    style = rng.randrange(4 if zeros else 3)
    if style == 0:
        found = [WORD // count] * count
    elif style == 1:
        found = [rng.randint(1, WORD // count) for _ in range(count)]
    elif style == 2:
        found = [1] * count
    else:
        found = [rng.choice((0, WORD // count // 2)) for _ in range(count)]
    found[rng.randrange(count)] += WORD - sum(found)
    return found


def _keeps(rng: random.Random, items: int) -> list[int]:
    count = rng.choice((1, items))
    return [
        rng.choice((0, 1, 32_768, 32_768, 65_535, 65_536, *rng.choices(range(65_537), k=8)))
        for _ in range(count)
    ]


def _answered(rng: random.Random) -> Step:
    sizes = _sizes(rng)
    step: Step = {"sizes": sizes}
    cells = math.prod(sizes)
    if rng.random() < 0.25:
        step["starts"] = [
            [0, *sorted(rng.sample(range(1, size), rng.randrange(size)))] for size in sizes
        ]
        cells = math.prod(map(len, step["starts"]))
    step["answers"] = cells
    if rng.random() < 0.4:
        step["answers"] = rng.randint(1, 5)
        highest = rng.randint(1, step["answers"])
        step["map"] = [rng.randrange(highest) for _ in range(cells)]
    return step


def _public(rng: random.Random) -> Step:
    return {rng.choice(("size", "size", "items")): rng.randint(1, 3)}


def _diagonal(rng: random.Random) -> Step:
    sizes, scale = _sizes(rng), rng.choice((1, 2, 5, 1000))
    least = scale * math.prod(sizes)
    total = rng.choice((least, least + 1, least + scale, 3 * least, WORD))
    return {"sizes": sizes, "scale": scale, "total": total}


def _diagonal64(rng: random.Random) -> Step:
    keep = rng.choice((1, 1 << 63, (1 << 64) - 1, rng.randrange(1, 1 << 64)))
    return {"sizes": _sizes(rng), "keep": str(keep)}


def _spread(rng: random.Random) -> Step:
    sizes = _sizes(rng)
    if math.prod(sizes) == 1:
        sizes = [2]
    total = rng.choice((2, 9, 1000, 1 << 40, 1 << 62))
    mean = rng.randrange(1, total)
    reach = rng.choice((0, 1, min(mean, total - mean), min(mean, total - mean) // 2))
    reach = min(reach, mean, total - mean)
    return {"sizes": sizes, "mean": str(mean), "total": str(total), "reach": str(reach)}


def _retain(rng: random.Random) -> Step:
    size = rng.randint(1, 6)
    step = {"size": size, "keep": rng.choice((0, 1, WORD - 1, WORD, rng.randrange(WORD)))}
    return step | ({"weights": _summing(rng, size)} if rng.random() < 0.5 else {})


def _table(rng: random.Random) -> Step:
    sizes = _sizes(rng, most=4)
    cells = math.prod(sizes)
    rows = [_summing(rng, cells, zeros=rng.random() < 0.3) for _ in range(cells)]
    return {"sizes": sizes, "weights": rng.choice((rows, [rows[0]] * cells))}


def _basket(rng: random.Random) -> tuple[Step, int]:
    """A basket or a record as one, and how many items there are."""
    if rng.random() < 0.5:
        sizes = _sizes(rng, most=8)
        return {"sizes": sizes}, sum(sizes)
    items = rng.randint(1, 4)
    return {"items": items}, items


def _flip(rng: random.Random) -> Step:
    step, items = _basket(rng)
    return step | {"ones": _keeps(rng, items), "zeros": _keeps(rng, items)}


def _cut(rng: random.Random) -> Step:
    step, _ = _basket(rng)
    insert = rng.choice((1, 32_768, 65_535, rng.randrange(1, 65_536)))
    return step | {"cutoff": rng.choice((1, 1, 2, 3, 5, 60)), "insert": insert}


def _kary(rng: random.Random) -> Step:
    return _answered(rng) | _weights(rng)


def _own(rng: random.Random) -> Step:
    step, symbols = _answered(rng), rng.randint(1, 5)
    many = rng.randint(1, symbols)
    own = [sorted(rng.sample(range(symbols), many)) for _ in range(step["answers"])]
    if rng.random() < 0.3:
        own = [own[0]] * len(own)
    return step | {"symbols": symbols, "own": own} | _weights(rng)


def _candidates(rng: random.Random, items: int) -> list[list[int]]:
    sets = {
        tuple(sorted(rng.sample(range(items), rng.randint(1, items))))
        for _ in range(rng.randint(1, 5))
    }
    return [list(each) for each in sorted(sets, key=lambda _: rng.random())]


def _tiers(rng: random.Random, cap: int) -> dict[str, list[int]]:
    if cap < 2 or rng.random() < 0.6:
        return {}
    return {"tiers": [cap + 1, *sorted(rng.sample(range(cap + 2, cap + 9), rng.randrange(3)))]}


def _symbol(rng: random.Random) -> Step:
    items, cap = rng.randint(1, 4), rng.randint(1, 4)
    step = {"items": items, "candidates": _candidates(rng, items), "cap": cap}
    return step | _weights(rng) | _tiers(rng, cap)


def _collide(rng: random.Random) -> Step:
    items, buckets = rng.randint(1, 3), rng.randint(2, 5)
    cap = rng.randint(1, buckets - 1)
    step = {"items": items, "buckets": buckets, "cap": cap, "pool": rng.choice(("", "a", "p/0/0"))}
    step |= {"seeds": rng.choice((1, 1, 2, 3))} | _weights(rng) | _tiers(rng, cap)
    return step | ({"candidates": _candidates(rng, items)} if rng.random() < 0.4 else {})


def _window(rng: random.Random) -> Step:
    step = {"values": rng.randint(1, 5), "length": rng.choice((1, 1, 2, 3, 7))}
    if step["values"] > 1 and rng.random() < 0.4:
        step["round"] = rng.choice((2, 3, 5, 8))
    if step.get("round", 3) > 2 and rng.random() < 0.4:
        step["zero"] = 1
    return step | _weights(rng)


def _subset(rng: random.Random) -> Step:
    step = _answered(rng)
    chosen = rng.randint(1, max(step["answers"] - 1, 1))
    return step | {"chosen": chosen} | _weights(rng)


def _unary(rng: random.Random) -> Step:
    step = _answered(rng)
    return step | {"ones": _keeps(rng, step["answers"]), "zeros": _keeps(rng, step["answers"])}


MAKERS: dict[str, Callable[[random.Random], Step]] = {
    maker.__name__[1:]: maker
    for maker in (_public, _diagonal, _diagonal64, _spread, _retain, _table, _flip, _cut, _kary)
} | {maker.__name__[1:]: maker for maker in (_own, _symbol, _collide, _window, _subset, _unary)}
ASKED = [kind for kind in MAKERS if kind != "public"]


def _made(rng: random.Random, kinds: list[str]) -> Step:
    kind = rng.choice(kinds)
    return {"step": kind} | MAKERS[kind](rng)


# --- programs that can be run


def _placed(rng: random.Random, step: Step, found: dict[str, list[Shape]], taken: bool) -> Step:
    """The step on new columns; in a deal some are shared with the questions before it."""
    places: dict[str, list[int]] = {}
    for name, shapes in (("columns", reads(step)), ("reports", writes(step))):
        known, own = found[name], []
        for shape in shapes:
            alike = [
                place
                for place, other in enumerate(known)
                if place not in own
                and (other == shape or (name == "reports" and other[0] == shape[0]))
            ]
            if taken and alike and rng.random() < 0.7:
                own.append(rng.choice(alike))
                known[own[-1]] = max(known[own[-1]], shape)
            else:
                own.append(len(known))
                known.append(shape)
        places[name] = own
    return step | places


def _dealt(rng: random.Random, found: dict[str, list[Shape]]) -> Step:
    """A deal of one to three questions, on columns behind those found so far."""
    count = rng.randint(1, 3)
    own: dict[str, list[Shape]] = {"columns": [], "reports": []}
    questions = [_placed(rng, _made(rng, ASKED), own, taken=True) for _ in range(count)]
    before = {name: len(shapes) for name, shapes in found.items()}
    before["reports"] += 1
    for question in questions:
        for name in own:
            question[name] = [place + before[name] for place in question[name]]
    step = {"step": "deal", "weights": _summing(rng, count, zeros=False), "questions": questions}
    step["columns"] = [before["columns"] + place for place in range(len(own["columns"]))]
    step["reports"] = [before["reports"] + place for place in range(-1, len(own["reports"]))]
    found["columns"] += own["columns"]
    found["reports"] += [("code", count), *own["reports"]]
    return step


def _mixed_up(rng: random.Random, program: Any, found: dict[str, list[Shape]]) -> None:
    """Columns and steps in another order."""
    for name, shapes in found.items():
        order = rng.sample(range(len(shapes)), len(shapes))
        for step in list(_steps(program)):
            step[name] = [order[place] for place in step[name]]
    for step in program["steps"]:
        if step["step"] == "deal":
            rng.shuffle(step["columns"])
    rng.shuffle(program["steps"])


def _steps(program: Any) -> Iterator[Step]:
    for step in program["steps"]:
        yield step
        yield from step.get("questions", ())


def runnable(rng: random.Random) -> Any:
    """A program that can be run and gone through."""
    while True:
        found: dict[str, list[Shape]] = {"columns": [], "reports": []}
        count = rng.choice((1, 1, 2, 2, 3))
        dealing = rng.randrange(count) if rng.random() < 0.45 else -1
        steps = [
            _dealt(rng, found)
            if place == dealing
            else _placed(rng, _made(rng, list(MAKERS)), found, taken=False)
            for place in range(count)
        ]
        sizes = {name: math.prod(map(count_of, shapes)) for name, shapes in found.items()}
        if not found["columns"] or sizes["columns"] > MOST_RECORDS:
            continue
        if sizes["reports"] > MOST_REPORTS or sizes["columns"] * sizes["reports"] > 20_000:
            continue
        program = {"version": 1, "steps": steps}
        _mixed_up(rng, program, found)
        return program


# --- programs that are bent

NUMBERS: list[Any] = [
    *(-1, 0, 1, 2, 3, 5, 7, 255, 256, 257, 65_535, 65_536, 65_537, (1 << 24) - 1, 1 << 24),
    *((1 << 24) + 1, (1 << 31) - 1, 1 << 31, WORD - 1, WORD, WORD + 1, 1 << 40, (1 << 53) - 1),
    *(1 << 53, (1 << 53) + 1, 1 << 62, (1 << 63), (1 << 64) - 1, 1 << 64, (1 << 64) + 1, 10**400),
]
OTHERS: list[Any] = [
    *(1.5, 2.0, -0.0, 1e300, math.nan, math.inf, -math.inf, True, False, None, "", "1", "x", "-1"),
    *("0", "00000000000000000000000000000007", "1" * 5_000, "1.0", "0x10", " 1", "1\n", "٣", "²"),
    *([], {}, [[]], [None], {"step": "kary"}),
]
KINDS: list[Any] = [
    *("quantum", "constructor", "__proto__", "hasOwnProperty", "toString", "", "Kary", "kary ", 0),
    *(None, True, ["kary"], {"kary": 1}, "deal", "public", "cut", "\ud800", "k\0"),
]
FIELDS = [
    *("step", "columns", "reports", "sizes", "answers", "map", "starts", "a", "b", "items", "size"),
    *("weights", "keep", "chosen", "ones", "zeros", "cutoff", "insert", "round", "tiers"),
    *("candidates", "cap", "questions", "__proto__", "constructor", "prototype", "gamma", "kind"),
    *("open", "tells", "0", "", "toString", "length"),
]
VERSIONS: list[Any] = [0, 2, "1", True, 1.0, None, [1], -1, 1.5, math.nan, 1 << 60, {}, 10**400]
WHOLES: list[Any] = [None, 5, "", "steps", [], [[1]], [1], {}, True, 1.5, {"version": 1}]


def _inside(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in the data where something else could stand."""
    places = list(data.items() if isinstance(data, dict) else enumerate(data))
    for key, value in places:
        yield data, key
        if isinstance(value, dict | list):
            yield from _inside(value)


def _somewhere(rng: random.Random, program: Any, wanted: Any) -> tuple[Any, Any] | None:
    found = [
        (data, key) for data, key in _inside(program["steps"]) if isinstance(data[key], wanted)
    ]
    return rng.choice(found) if found else None


def _another_number(rng: random.Random, program: Any) -> Any:
    where = _somewhere(rng, program, int)
    if where:
        data, key = where
        near = [data[key] + 1, data[key] - 1, data[key] * 2] * 5
        data[key] = rng.choice(near + NUMBERS + [rng.choice(OTHERS)])
    return program


def _another_digits(rng: random.Random, program: Any) -> Any:
    where = _somewhere(rng, program, str)
    if where and where[1] != "step":
        where[0][where[1]] = rng.choice([*(str(n) for n in NUMBERS), *OTHERS, *NUMBERS[:20]])
    return program


def _another_value(rng: random.Random, program: Any) -> Any:
    data, key = rng.choice(list(_inside(program["steps"])))
    data[key] = copy.deepcopy(rng.choice(OTHERS + NUMBERS))
    return program


def _without(rng: random.Random, program: Any) -> Any:
    data, key = rng.choice(list(_inside(program["steps"])))
    del data[key]
    return program


def _more(rng: random.Random, program: Any) -> Any:
    step = rng.choice(list(_steps(program)))
    step[rng.choice(FIELDS)] = copy.deepcopy(rng.choice([*OTHERS, *NUMBERS[:12], [0], [[0]], [2]]))
    return program


def _another_list(rng: random.Random, program: Any) -> Any:
    where = _somewhere(rng, program, list)
    if where:
        data, key = where
        old = data[key]
        extra = rng.choice([0, 1, 2, *old[:1]])
        longer = [1000, 1000, 70_000, 200_000]
        long = [extra] * rng.choice(longer) if rng.random() < 0.05 else [extra] * 3
        choices = [[], old[:-1], [*old, extra], old[::-1], old + old, [old], long, old[1:]]
        data[key] = copy.deepcopy(rng.choice(choices))
    return program


def _places_moved(rng: random.Random, program: Any) -> Any:
    """Two steps on one column, two that write one report, gaps, a column read twice."""
    step = rng.choice(list(_steps(program)))
    name = rng.choice(("columns", "reports"))
    if step[name]:
        place = rng.randrange(len(step[name]))
        step[name][place] = rng.choice([0, 0, 1, 2, *step[name], -1, WORD, (1 << 53) - 1, 1 << 31])
    return program


def _wrapped(rng: random.Random, program: Any) -> Any:
    """A deal around a step, whatever it is: another deal, a cut, a public column."""
    place = rng.randrange(len(program["steps"]))
    step = program["steps"][place]
    highest = max([-1, *(report for other in _steps(program) for report in other["reports"])])
    program["steps"][place] = {
        "step": "deal",
        "columns": list(step["columns"]),
        "reports": [highest + 1, *step["reports"]],
        "weights": [WORD],
        "questions": [step],
    }
    return program


def _asked_too(rng: random.Random, program: Any) -> Any:
    """One more question in a deal: a cut, a public column or a deal of the same columns."""
    deals = [step for step in program["steps"] if step["step"] == "deal"]
    if not deals:
        return _asked_too(rng, _wrapped(rng, program))
    deal = deals[0]
    question = copy.deepcopy(rng.choice([*_steps(program)]))
    deal["questions"].append(question)
    deal["weights"] = _summing(rng, len(deal["questions"]), zeros=False)
    return program


def _doubled(rng: random.Random, program: Any) -> Any:
    program["steps"].append(copy.deepcopy(rng.choice(list(_steps(program)))))
    return program


def _renamed(rng: random.Random, program: Any) -> Any:
    rng.choice(list(_steps(program)))["step"] = rng.choice([*KINDS, *MAKERS])
    return program


def _swapped(rng: random.Random, program: Any) -> Any:
    weighed = [step for step in _steps(program) if "a" in step]
    if weighed:
        step = rng.choice(weighed)
        edges = [(step["b"], step["a"]), (step["a"], 0), (0, 0), (1 << 53, 1), ((1 << 53) - 1, 1)]
        step["a"], step["b"] = rng.choice([*edges, ((1 << 53) - 2, 1), (1 << 52, 1 << 52)])
    return program


def _another_whole(rng: random.Random, program: Any) -> Any:
    style = rng.randrange(4)
    if style == 0:
        return copy.deepcopy(rng.choice(WHOLES))
    if style == 1:
        return program | {rng.choice(FIELDS): rng.choice((1, {}, "x", None))}
    if style == 2:
        steps = rng.choice(([], {}, None, "", 0, [None], [5], [[]], [program["steps"]], [{}]))
        return program | {"steps": steps}
    return program | {"version": rng.choice(VERSIONS)}


BENDS = [
    *(_another_number, _another_number, _another_number, _another_digits, _another_value),
    *(_without, _more, _another_list, _another_list, _places_moved, _places_moved, _wrapped),
    *(_asked_too, _doubled, _renamed, _swapped, _swapped),
]


def bent(rng: random.Random) -> Any:
    """A program in which something is not as it should be, or only looks so."""
    program = runnable(rng)
    if rng.random() < 0.06:
        return _another_whole(rng, program)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            program = rng.choice(BENDS)(rng, program)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            break  # bent so far that nothing more can be
    return program


# --- programs that are known to be hard


def _alone(kind: str, columns: int = 1, reports: int = 1, **fields: Any) -> Any:
    step = {"step": kind, "columns": list(range(columns)), "reports": list(range(reports))}
    return {"version": 1, "steps": [step | fields]}


def _nested(depth: int) -> Any:
    """Deals in deals in deals."""
    step: Any = _alone("kary", sizes=[2], answers=2, a=3, b=1)["steps"][0]
    for _ in range(depth):
        around = {"step": "deal", "columns": [0], "reports": [0, 1], "weights": [WORD]}
        step = around | {"questions": [step]}
    return {"version": 1, "steps": [step]}


def _in_deal(*questions: Step, columns: list[int], reports: list[int]) -> Any:
    count = len(questions)
    weights = [WORD - count + 1, *[1] * (count - 1)]
    return {
        "version": 1,
        "steps": [
            {"step": "deal", "columns": columns, "reports": reports, "weights": weights}
            | {"questions": list(questions)}
        ],
    }


def hard() -> list[Any]:
    """Programs that leaked, hung or broke a client at some time, and their like."""
    many = {"sizes": [2], "answers": 2, "a": 3, "b": 1}
    keeps = {"ones": [50_000], "zeros": [50_000]}
    cut = {"step": "cut", "columns": [0], "reports": [1, 2], "items": 1, "cutoff": 1}
    pair = {"step": "kary", "columns": [0, 0], "reports": [1], "sizes": [2, 2], "answers": 4}
    collide = {"items": 3, "a": 2, "b": 1, "pool": "p", "seeds": 3}
    one = {"sizes": [1], "answers": 1, "a": 1, "b": 1}
    found = [
        _in_deal(cut | {"insert": 32_768}, columns=[0], reports=[0, 1, 2]),
        _in_deal(
            cut | {"items": 2, "insert": 32_768},
            {"step": "flip", "columns": [0], "reports": [1], "items": 2, **keeps},
            columns=[0],
            reports=[0, 1, 2],
        ),
        _in_deal(
            {"step": "public", "columns": [0], "reports": [1], "size": 2},
            columns=[0],
            reports=[0, 1],
        ),
        _in_deal(pair | {"a": 3, "b": 1}, columns=[0], reports=[0, 1]),
        _in_deal(
            {"step": "collide", "columns": [0], "reports": [1, 1], "buckets": 3, "cap": 1}
            | collide,
            columns=[0],
            reports=[0, 1],
        ),
        *(_nested(depth) for depth in (1, 2, 3, 100, 300)),
        *(_alone("subset", **one, chosen=chosen) for chosen in (0, 1, 2, 5)),
        *(_alone("subset", sizes=[3], answers=3, a=2, b=1, chosen=n) for n in (0, 3, 4, 1 << 40)),
        *(_alone("kary", **many | {"sizes": [n], "answers": n}) for n in (1 << 31, 1 << 40)),
        *(_alone("kary", **many | {"answers": n, "map": [0, n - 1]}) for n in (1 << 31, 1 << 40)),
        *(
            _alone("subset", **many | {"sizes": [n], "answers": n}, chosen=2)
            for n in (1 << 20, 1 << 29, 1 << 40)
        ),
        *(
            _alone("unary", sizes=[n], answers=n, **keeps)
            for n in (3_000, 1 << 18, 1 << 29, 1 << 40)
        ),
        *(_alone("flip", items=n, **keeps) for n in (3_000, 1 << 18, 1 << 28, 1 << 40)),
        *(_alone("flip", sizes=[n], **keeps) for n in (3_000, 1 << 18, 1 << 28, 1 << 40)),
        *(_alone("public", items=n) for n in (3_000, 1 << 28, 1 << 40, (1 << 53) - 1, 1 << 53)),
        *(_alone("public", size=n) for n in (WORD, (1 << 53) - 1, 1 << 53, (1 << 53) + 1)),
        *(
            _alone("cut", reports=2, items=items, cutoff=cutoff, insert=30_000)
            for items, cutoff in (
                (1 << 40, 1 << 30),
                (1 << 40, 2),
                (50_000, 20_000),
                (500, 400),
                (40, 30),
                (9, 1 << 40),
                (1 << 18, 3),
            )
        ),
        *(
            _alone("cut", columns=n, sizes=[2] * n, cutoff=cutoff, insert=30_000)
            for n, cutoff in ((4, 1 << 40), (300, 200), (2_000, 1_000))
        ),
        *(
            _alone("collide", reports=2, buckets=buckets, cap=cap, **collide | {"a": 1})
            for buckets, cap in (
                (1 << 40, 1 << 39),
                (1 << 40, 3),
                (30_000, 29_999),
                (3, 3),
                (3, 4),
                (1, 1),
                (300, 299),
            )
        ),
        _alone("collide", reports=2, buckets=3, cap=1, **collide | {"seeds": 0}),
        _alone("collide", reports=2, buckets=3, cap=1, **collide | {"seeds": (1 << 53) - 1}),
        _alone("collide", reports=2, buckets=3, cap=1, **collide | {"items": 1 << 40}),
        _alone("symbol", items=1 << 40, candidates=[[(1 << 40) - 1]], cap=1, a=2, b=1),
        _alone("symbol", items=3, candidates=[[0]], cap=1 << 50, a=2, b=1),
        *(
            _alone("window", values=values, length=length, a=2, b=1)
            for values, length in ((3, 0), (3, 1 << 26), (3, 1 << 40), (1 << 40, 2), (0, 5), (1, 1))
        ),
        *(
            _alone("window", values=values, length=2, a=2, b=1, round=codes)
            for values, codes in (
                (3, 0),
                (3, 1),
                (1, 3),
                (3, 1 << 40),
                (1 << 40, 3),
                (1 << 26, 1 << 27),
                (1 << 40, (1 << 40) + 1),
            )
        ),
        _alone("retain", size=200_000, keep=5, weights=[20_000] * 199_999 + [WORD - 3_999_980_000]),
        _alone("retain", size=(1 << 53) - 1, keep=5),
        _alone("spread", sizes=[3], mean="0" * 29 + "5", total="9", reach="1"),
        _alone("spread", sizes=[3], mean="5" * 5_000, total="9", reach="1"),
        *(
            _alone("spread", sizes=[3], mean="5", total="9", reach=reach)
            for reach in ("5", "4", "0")
        ),
        *(_alone("spread", sizes=[n], mean="5", total="9", reach="1") for n in (1, 2, WORD)),
        *(
            _alone("diagonal64", columns=n, reports=n, sizes=[(1 << 53) - 1] * n, keep="5")
            for n in (2, 40, 2_000, 20_000)
        ),
        _alone("diagonal64", columns=70, reports=70, sizes=[2] * 70, keep=str((1 << 64) - 1)),
        *(_alone("diagonal64", sizes=[2], keep=keep) for keep in ("0", str(1 << 64), 5, "-1")),
        *(_alone("public", size=size, items=items) for size, items in ((0, 3), (2, 0), (0, 0))),
        _alone("flip", items=0, sizes=[3], ones=[5], zeros=[7]),
        _alone("cut", items=0, sizes=[3], cutoff=1, insert=7),
        *(
            _alone("kary", sizes=[3], answers=3, a=a, b=b)
            for a, b in (
                ((1 << 53) - 1, 1),
                ((1 << 53) - 2, 1),
                ((1 << 53) - 3, 1),
                (1 << 53, 1),
                (1, 2),
                (1, 0),
                (0, 0),
                (3_002_399_751_580_331, 3_002_399_751_580_330),
            )
        ),
        *(
            _alone("symbol", items=2, candidates=[[0], [1]], cap=3, a=(1 << 53) // 3 - more, b=1)
            for more in (0, 1, 2)
        ),
        *(_alone("kary", **many | {field: 2.0}) for field in ("answers", "a")),
        _alone("table", columns=0, reports=0, sizes=[], weights=[[WORD]]),
        *(_alone("kary", **many) | {"version": version} for version in VERSIONS),
        *WHOLES,
    ]
    empty = {"step": "table", "columns": [], "reports": [], "sizes": [], "weights": [[WORD]]}
    found.append({"version": 1, "steps": [empty, *_alone("kary", **many)["steps"]]})
    return found


def large(size: int) -> list[Any]:
    """A program of each kind in which something is of this size: what is done is bounded before it
    begins, or soon over.
    """
    weighed = {"a": 3, "b": 1}
    many = {"sizes": [size], "answers": size}
    keeps = {"ones": [50_000], "zeros": [60_000]}
    own_keeps = {"ones": [32_769 + n % 32_000 for n in range(size)], "zeros": [50_000]}
    root = max(math.isqrt(size), 2)
    lists = {"columns": size, "reports": size}
    twos = {"sizes": [2] * size, "answers": 1}
    question = {"step": "kary", "columns": [0], "reports": [1], "sizes": [2], "answers": 2}
    hashed = {"items": size, "pool": "p" * 100, "seeds": 3, **weighed}
    found = [
        _alone("public", items=size),
        _alone("kary", **many, **weighed),
        _alone("kary", sizes=[size], answers=2, map=[n % 2 for n in range(size)], **weighed),
        _alone("kary", sizes=[size], starts=[list(range(size))], answers=size, **weighed),
        _alone("kary", columns=size, **twos, starts=[[0]] * size, **weighed),
        _alone("subset", **many, **weighed, chosen=size // 2),
        _alone("unary", **many, **keeps),
        _alone("unary", **many, **own_keeps),
        _alone("own", **many, **weighed, symbols=size, own=[[n] for n in range(size)]),
        _alone("own", sizes=[2], answers=2, **weighed, symbols=size, own=[list(range(size))] * 2),
        _alone("flip", items=size, **keeps),
        _alone("flip", items=size, **own_keeps),
        _alone("flip", sizes=[size], **own_keeps),
        _alone("flip", columns=size, sizes=[2] * size, **keeps),
        _alone("flip", columns=root, sizes=[root] * root, **keeps),
        *(
            _alone("cut", reports=2, items=size, cutoff=cutoff, insert=30_001)
            for cutoff in (1, root, size // 3 + 1, size)
        ),
        _alone("cut", sizes=[size], cutoff=2, insert=30_001),
        _alone("cut", columns=size, sizes=[2] * size, cutoff=size, insert=30_001),
        _alone("cut", columns=size, sizes=[1] * size, cutoff=root, insert=30_001),
        _alone("symbol", items=size, candidates=[[n] for n in range(size)], cap=2, **weighed),
        _alone("symbol", items=size, candidates=[list(range(size))], cap=root, **weighed),
        _alone("symbol", items=2, candidates=[[0]], cap=size, **weighed),
        _alone("collide", reports=2, **hashed, buckets=5, cap=2),
        _alone("collide", reports=2, **hashed, buckets=2 * root, cap=root),
        _alone("collide", reports=2, **hashed | {"items": 2}, buckets=size + 1, cap=size),
        _alone("collide", reports=2, **hashed | {"seeds": size, "pool": ""}, buckets=size, cap=1),
        _alone("window", values=size, length=size, **weighed),
        _alone("window", values=size, length=3, round=size + 7, **weighed),
        _alone("retain", size=size, keep=5),
        _alone("retain", size=size, keep=5, weights=[1] * (size - 1) + [WORD - size + 1]),
        _alone("table", sizes=[root], weights=[[1] * (root - 1) + [WORD - root + 1]] * root),
        _alone("diagonal64", **lists, sizes=[2] * size, keep="5"),
        _alone("diagonal64", **lists, sizes=[(1 << 53) - 1] * size, keep=str(1 << 63)),
        _alone("spread", **lists, sizes=[3] * size, mean="5", total="9", reach="1"),
        _alone("diagonal", **lists, sizes=[1] * size, scale=1, total=5),
        _in_deal(*[question | weighed] * size, columns=[0], reports=[0, 1]),
        _in_deal(
            *({**question, **weighed, "columns": [n], "reports": [n + 1]} for n in range(root)),
            columns=list(range(root)),
            reports=list(range(root + 1)),
        ),
        {
            "version": 1,
            "steps": [{**question, **weighed, "columns": [n], "reports": [n]} for n in range(size)],
        },
    ]
    return found


def programs(count: int, seed: int) -> list[Any]:
    """So many programs: the hard ones first, then those that can be run and bent ones in turn."""
    rng = random.Random(seed)
    found = hard()[:count]
    while len(found) < count:
        found.append((runnable if len(found) % 2 else bent)(rng))
    return found
