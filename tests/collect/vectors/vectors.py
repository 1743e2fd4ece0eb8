"""The shared vectors: what every interpreter of client programs must send for given bytes."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from tests.mechanisms.programs import CASES, Case

from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Draws
from sfumato.randomness import Keystream

VECTORS = Path(__file__).parent / "vectors.json"
INTEGERS = Path(__file__).parent / "integers.json"
RECORDS = 200
BOUNDS = (
    1, 2, 3, 7, 19, 171, 213, 255, 256, 257, 1000, 65_537, (1 << 24) - 1, 1 << 24, (1 << 24) + 1,
    3 << 30, 1 << 32, (1 << 32) + 1, 1 << 40, (1 << 53) - 1, (1 << 62) + 5, 1 << 64,
)  # fmt: skip


def records(program: Program) -> list[list[Any]]:
    """Records spread over what the columns may hold; baskets of a few items."""
    rng = np.random.default_rng(20_270_101)
    return [
        [
            np.flatnonzero(rng.random(column.size) < 4 / (column.size + 4)).tolist()
            if column.basket
            else int(rng.integers(column.size))
            for column in program.inputs
        ]
        for _ in range(RECORDS)
    ]


def vector(case: Case) -> dict[str, Any]:
    """What the reference interpreter makes of a case."""
    key = hashlib.sha256(f"vectors of {case.name}".encode()).digest()
    draws = Draws.of(Keystream(key))
    gamma = Fraction(case.program.gamma_beside(case.program.sent_as_is))
    reports, shares, given = [], [], records(case.program)
    for record in given:
        question = case.program.deal(draws)
        reports.append(case.program.randomise_one(record, draws, question))
        shares.append(float(case.program.truthful(record, question)))
    return {
        "name": case.name,
        "key": key.hex(),
        "program": case.program.to_dict(),
        "gamma": f"{gamma.numerator}/{gamma.denominator}",
        "sent": list(map(list, case.program.sent_as_is)),
        "longest": case.program.longest,
        "records": given,
        "reports": reports,
        "shares": shares,
    }


def made() -> list[dict[str, Any]]:
    """The vectors of all cases."""
    return [vector(case) for case in CASES]


def integers() -> dict[str, Any]:
    """Integers below bounds of every kind, from bytes of which half are 0: a word of 0 is drawn
    again wherever words are, which chance alone would hardly ever show.
    """
    noise = np.empty(1 << 14, dtype=np.uint8)
    Keystream(hashlib.sha256(b"integers").digest()).fill(noise)
    noise.reshape(-1, 16)[:, :8] = 0
    draws, bounds = Draws(iter([noise.tobytes()]).__next__), list(BOUNDS) * 30
    drawn = [draws.below(bound) for bound in bounds]
    return {
        "bytes": noise.tobytes().hex(),
        "bounds": list(map(str, bounds)),
        "drawn": list(map(str, drawn)),
    }


def written(vectors: list[dict[str, Any]]) -> str:
    """The vectors as JSON, a line a case."""
    lines = (json.dumps(each, separators=(",", ":")) for each in vectors)
    return "[\n" + ",\n".join(lines) + "\n]\n"
