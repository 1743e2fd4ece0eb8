"""The judge of client programs: what both clients show and send, against what is true."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.mechanisms.enumerated import (
    Enumerated,
    NoDrawError,
    Ratio,
    Shape,
    TooManyError,
    branches,
    enumerated,
    records_of,
    sent_as_is,
)
from tests.mechanisms.hostile_sides import Answer, Job, javascript_side, python_side

SLOW = 2.0  # seconds that a client may take for a program and a few reports
ASKED = 12  # reports that the server's check is asked about
STREAMS = [
    {"byte": 0, "count": 0, "seed": 7},
    {"byte": 0x00, "count": 400, "seed": 1},
    {"byte": 0xFF, "count": 400, "seed": 2},
    {"byte": 0x80, "count": 20, "seed": 3},
]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a program's treatment; the more dangerous come first in KINDS."""

    kind: str
    place: int
    program: Any
    what: str


KINDS = [
    "shows less than is true",
    "names what is sent as it is wrongly",
    "sends what cannot be sent",
    "sides send differently",
    "sides show differently",
    "shows more than is true",
    "one refuses, one accepts",
    "hangs",
    "breaks",
    "slow",
    "the server refuses what can be sent",
    "the server accepts what cannot be sent",
    "cannot be followed",
]


@dataclass
class Judgement:
    """All faults, and how much was looked at."""

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    loose: list[tuple[float, Any]] = field(default_factory=list)  # shown / true where only bounded

    def of(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind in kinds]

    def lines(self, most: int = 5) -> str:
        """The worst faults of each kind, shortest programs first."""
        found = []
        for kind in KINDS:
            mine = sorted(self.of(kind), key=lambda fault: len(str(fault.program)))
            if mine:
                found.append(f"{kind}: {len(mine)}")
            for fault in mine[:most]:
                found.append(f"   {fault.place}: {fault.what[:300]}\n      {_short(fault.program)}")
        return "\n".join(found)


def judged(programs: Sequence[Any], folder: Path) -> Judgement:
    """Ask both clients about each program, and compare what they say with what is true."""
    known = [_known(program) for program in programs]
    jobs = [_job(program, each) for program, each in zip(programs, known, strict=True)]
    answers = zip(python_side(jobs), javascript_side(jobs, folder), strict=True)
    found = Judgement()
    for place, (job, each, (python, javascript)) in enumerate(
        zip(jobs, known, answers, strict=True)
    ):
        found.counts["programs"] += 1
        for kind, what in _faults(job, each, python, javascript, found):
            found.faults.append(Fault(kind, place, job["program"], what))
    return found


def _known(program: Any) -> Enumerated | str:
    """What is true of a program, or why it cannot be said."""
    try:
        return enumerated(_whole(program))
    except TooManyError:
        return "too many"
    except NoDrawError as error:
        return f"no draw: {error}"
    except Exception as error:  # the data of a bent program may hold anything
        return f"{type(error).__name__}: {error}"


def _whole(data: Any) -> Any:
    """The data with 2.0 as 2: JSON does not tell them apart."""
    if isinstance(data, dict):
        return {name: _whole(part) for name, part in data.items()}
    if isinstance(data, list):
        return [_whole(part) for part in data]
    return int(data) if isinstance(data, float) and data.is_integer() else data


def _job(program: Any, known: Enumerated | str) -> Job:
    rng = random.Random(repr(program)[:10_000])
    if isinstance(known, Enumerated):
        records = rng.choices(known.records, k=3)
        asked = _asked(known, rng)
    else:
        records, asked = _unknown_records(program), []
    streams = STREAMS if asked else STREAMS[:1]
    job = {"program": program, "streams": streams, "asked": asked}
    return job | {"records": [_plain(record) for record in records]}


def _asked(known: Enumerated, rng: random.Random) -> list[Any]:
    """Reports of the right shape, possible or not, and some beyond it."""
    possible = sorted(known.reports, key=repr)
    found = [_plain(report) for report in rng.choices(possible, k=3)]
    for _ in range(ASKED - len(found)):
        report = [_any_of(shape, rng) for shape in known.shapes]
        if rng.random() < 0.2:
            place = rng.randrange(len(report))
            kind, size = known.shapes[place]
            report[place] = [size] if kind == "basket" else size
        found.append(report)
    return found


def _any_of(shape: Shape, rng: random.Random) -> Any:
    kind, size = shape
    if kind == "code":
        return rng.randrange(size)
    return sorted(rng.sample(range(size), rng.randint(0, size)))


def _unknown_records(program: Any) -> list[Any]:
    """The highest record of a program that is too large to go through."""
    try:
        shapes = records_of(_whole(program))
        if sum(size for _, size in shapes) < 1 or len(shapes) > 1000:
            return []
        return [[[size - 1] if kind == "basket" else size - 1 for kind, size in shapes]]
    except Exception:  # the data of a bent program may hold anything
        return []


def _faults(
    job: Job, known: Enumerated | str, python: Answer, javascript: Answer, found: Judgement
) -> Iterable[tuple[str, str]]:
    sides = {"Python": python, "JavaScript": javascript}
    for name, answer in sides.items():
        for kind in ("hangs", "died", "broke"):
            if kind in answer:
                yield ("breaks" if kind == "broke" else "hangs"), f"{name} {kind} {answer[kind]}"
        if answer.get("seconds", 0) > SLOW:
            yield "slow", f"{name} took {answer['seconds']:.1f} s"
    accepted = {name: "gammas" in answer for name, answer in sides.items()}
    refused = {name: "refused" in answer for name, answer in sides.items()}
    if any(accepted.values()) and any(refused.values()):
        what = " ".join(
            f"{name}: {answer.get('refused', 'accepts')};" for name, answer in sides.items()
        )
        yield "one refuses, one accepts", what
    found.counts["refused by both"] += all(refused.values())
    found.counts["accepted by both"] += all(accepted.values())
    if isinstance(known, Enumerated):
        for name, answer in sides.items():
            if accepted[name]:
                yield from _less(name, answer, job, known, found)
                yield from _impossible(name, answer, job, known)
        if accepted["Python"]:
            yield from _checked(python, job, known)
    elif known != "too many" and any(accepted.values()):
        yield "cannot be followed", known
    if all(accepted.values()):
        found.counts["accepted and enumerated"] += isinstance(known, Enumerated)
        shown = [
            (answer["asIs"], [_ratio(gamma) for gamma in answer["gammas"]])
            for answer in sides.values()
        ]
        if shown[0] != shown[1]:
            yield "sides show differently", f"Python {shown[0]}, JavaScript {shown[1]}"
        if python["reports"] != javascript["reports"]:
            yield "sides send differently", _first_difference(python, javascript, job)
    for name, answer in sides.items():
        for row in answer.get("reports", ()):
            for report in row:
                if isinstance(report, dict):
                    yield "breaks", f"{name} accepted it and then: {report}"


def _less(
    name: str, answer: Answer, job: Job, known: Enumerated, found: Judgement
) -> Iterable[tuple[str, str]]:
    """Whether less is shown than is true, with nothing named, with all named, with one alone."""
    as_is = {(place, what) for place, what in answer["asIs"]}
    values = {(place, "value") for place, _ in as_is}
    if as_is != (actual := sent_as_is(_whole(job["program"]))):
        yield (
            "names what is sent as it is wrongly",
            f"{name} says {sorted(as_is)}; true is {sorted(actual)}",
        )
    named = [set(), as_is, values, *({(place, what)} for place, what in answer["asIs"])]
    tried: set[frozenset[Any]] = set()
    for each, gamma in zip(named, answer["gammas"], strict=True):
        if frozenset(each) in tried:
            continue
        shown, true = _ratio(gamma), known.worst(each)
        tried.add(frozenset(each))
        found.counts["ratios judged"] += 1
        if shown < true:
            yield (
                "shows less than is true",
                f"{name} shows {_told(shown)} with {sorted(each)} named; true is {_told(true)}",
            )
        elif shown > true and name == "Python":
            if not _only_bounded(_whole(job["program"])):
                yield (
                    "shows more than is true",
                    f"shows {_told(shown)} with {sorted(each)} named; true is {_told(true)}",
                )
            found.loose.append((float(shown / true), job["program"]))


def _only_bounded(program: Any) -> bool:
    """Whether the gamma of a step is stated for any hash and any two sizes of baskets, or a column
    of one value is called sent as it is: a bound and not more.
    """
    return any(
        step["step"] == "collide"
        or (step["step"] == "cut" and "sizes" not in step)
        or (step["step"] == "public" and step.get("size") == 1)
        for _, actions in branches(program)
        for step in actions
    )


def _impossible(
    name: str, answer: Answer, job: Job, known: Enumerated
) -> Iterable[tuple[str, str]]:
    """Whether something is sent that the record cannot give."""
    laws = {_frozen(record): law for record, law in zip(known.records, known.weights, strict=True)}
    for record, row in zip(job["records"], answer["reports"], strict=True):
        for report in row:
            if isinstance(report, list) and _frozen(report) not in laws[_frozen(record)]:
                yield "sends what cannot be sent", f"{name} sends {report} of {record}"


def _checked(answer: Answer, job: Job, known: Enumerated) -> Iterable[tuple[str, str]]:
    """Whether the server's check of reports takes what can be sent, and nothing else."""
    for row, said in zip(answer["reports"], answer["gives_own"], strict=True):
        if said != [True] * len(said):
            yield "the server refuses what can be sent", f"one of {row}: {said}"
    for report, said in zip(job["asked"], answer["gives"], strict=True):
        possible = _frozen(report) in known.reports
        if possible and said is not True:
            yield "the server refuses what can be sent", f"{report}: {said}"
        if not possible and said is not False:
            yield "the server accepts what cannot be sent", f"{report}: {said}"


def _first_difference(python: Answer, javascript: Answer, job: Job) -> str:
    for record, mine, others in zip(
        job["records"], python["reports"], javascript["reports"], strict=True
    ):
        for bytes_, one, other in zip(job["streams"], mine, others, strict=True):
            if one != other:
                return f"of {record} by {bytes_}: Python {one}, JavaScript {other}"
    return ""


def _ratio(gamma: Sequence[str]) -> Ratio:
    above, below = (int(part, 16) for part in gamma)
    return Fraction(above, below) if below else math.inf


def _told(gamma: Ratio) -> str:
    return "infinite" if gamma == math.inf else f"{float(gamma):.6g}"


def _plain(report: Iterable[Any]) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in report]


def _frozen(report: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in report)


def _short(program: Any) -> str:
    text = str(program)
    return text if len(text) < 600 else f"{text[:500]} … of {len(text)} letters"
