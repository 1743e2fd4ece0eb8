"""What wide questions cost: the first COUNT where hardly anybody answered each question, a COUNT of
five conditions where every value has its bit, a classifier of 43 columns from their model.
"""

from __future__ import annotations

import time

import numpy as np

from sfumato import classify, fit
from sfumato.domain import Category, Domain
from sfumato.errors import SfumatoError
from sfumato.mechanisms.registry import mechanism_class
from sfumato.mine.cube import query
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Release, perturb
from sfumato.table import Table

FEW = (2, 3, 4, 5, 2, 2, 3, 6, 4, 2, 2, 5, 3, 2)
LARGE = (8, 12, 40, 25, 30, 16, 9, 2)
MANY = tuple(int(size) for size in np.random.default_rng(0).choice([2, 2, 3, 4, 5, 6, 8, 10], 43))


def released(sizes: tuple[int, ...], people: int, mechanism: str, gamma: float) -> Release:
    """Columns that hang together a little, perturbed."""
    rng = np.random.default_rng(0)
    words = [Category(f"c{at}", tuple(f"v{v}" for v in range(s))) for at, s in enumerate(sizes)]
    own, rest = rng.random(people), rng.random((len(sizes), people))
    places = np.where(rng.random((len(sizes), people)) < 0.4, own, rest)
    columns = tuple((p * s).astype(np.uint8) for p, s in zip(places, sizes, strict=True))
    domain = Domain(tuple(words))
    kind = mechanism_class(mechanism).promising(Guarantee(gamma), domain)
    return perturb(Table(domain, columns), kind, seeded(1))


def seconds(release: Release, conditions: int) -> float:
    """CPU seconds of one COUNT, answered or refused in one line."""
    asked = " AND ".join(f"c{at} = 'v1'" for at in range(conditions))
    start = time.process_time()
    try:
        list(query(release, f"SELECT COUNT(*) AS people FROM t WHERE {asked}"))
    except SfumatoError as refused:
        print(f"  refused: {refused}")
    return time.process_time() - start


def main() -> None:
    """Print CPU seconds."""
    found = seconds(released(FEW, 356, "questionnaire", 19), 2)
    print(f"first COUNT of 2 of 14 columns, 356 people, questionnaire: {found:.2f} s")
    for mechanism, gamma in (("mask", 19.0), ("mask", 1000.0), ("cut-and-paste", 19.0)):
        found = seconds(released(LARGE, 20_000, mechanism, gamma), 5)
        print(f"COUNT of 5 conditions, {mechanism}, gamma {gamma:g}: {found:.2f} s")
    wide = released(MANY, 20_000, "questionnaire", 19)
    for kind in ("bayes", "tree"):
        start = time.process_time()
        classify(fit(wide), "c0", model=kind)
        print(f"classify --fit of 43 columns, {kind}: {time.process_time() - start:.1f} s")


if __name__ == "__main__":
    main()
