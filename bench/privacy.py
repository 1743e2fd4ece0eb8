"""Plan and audit against their time limits, and what a plan predicts against what happens: `python
-m bench.privacy`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np

from papers.data_sets import CENSUS
from sfumato.audit import audit_release
from sfumato.domain import Category, Columns, Domain, Numeric, code_dtype
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import mechanism_class
from sfumato.plan import plan_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table, perturb_table

NINETEEN = Guarantee(19)
AUDITED = 1_000_000
PLAN_LIMIT, AUDIT_LIMIT = 2.0, 60.0
NAMES = ("gamma-diagonal", "retention", "mask", "cut-and-paste")


def run() -> None:
    """Print every measurement, with the limit beside it."""
    print("plan for 12 attributes")
    for name, wish in (
        ("under a guarantee", {"guarantee": NINETEEN}),
        ("for an accuracy", {"wanted_error": 0.05}),
    ):
        seconds = _seconds(lambda wish=wish: plan_release(wide_schema(), 1_000_000, **wish))
        print(
            f"  {name:<28}{seconds:>8.2f} s   limit {PLAN_LIMIT:.0f} s   "
            f"{_verdict(seconds, PLAN_LIMIT)}"
        )
    print(
        "CENSUS at gamma 19, 48,842 people: predicted standard error of a support of 2 %, in per "
        "cent by length"
    )
    for option in plan_release(CENSUS, 48_842, guarantee=NINETEEN).options:
        print(
            f"  {option.name:<28}" + "".join(f"{100 * error:>10.3g}" for error in option.supports)
        )
    print("predicted and found standard error of a single count, 400 releases of 5,000 people")
    for name in NAMES:
        predicted, found = predicted_and_found(
            mechanism_class(name).promising(NINETEEN, CENSUS.binned())
        )
        print(f"  {name:<28}{predicted:>10.4g}{found:>10.4g}{predicted / found - 1:>+9.1%}")
    print(f"audit of {AUDITED:,} records")
    truth = Table(CENSUS.binned(), uneven(CENSUS.binned(), AUDITED))
    for name in NAMES:
        release = perturb_table(
            truth, mechanism_class(name).promising(NINETEEN, truth.domain), seeded(1)
        )
        clean: list[bool] = []
        seconds = _seconds(
            lambda release=release, clean=clean: clean.append(
                audit_release(release, truth, rng=seeded(2)).clean
            )
        )
        words = "clean" if clean[0] else "FLAGGED"
        print(
            f"  {name:<28}{seconds:>8.1f} s   limit {AUDIT_LIMIT:.0f} s   "
            f"{_verdict(seconds, AUDIT_LIMIT)}   {words}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


def wide_schema() -> Domain:
    """Two numbers and ten categories of two to seven values."""
    numbers = (
        Numeric("age", 15, 95, cuts=(35, 55, 75)),
        Numeric("income", 0, 200_000, cuts=(10_000, 20_000, 50_000)),
    )
    return Domain(
        (
            *numbers,
            *(Category(f"c{place}", tuple(map(str, range(2 + place % 6)))) for place in range(10)),
        )
    )


def uneven(domain: Domain, rows: int) -> Columns:
    """Independent records whose columns fall by half from the first value to the last."""
    rng = np.random.default_rng(1)
    masses = [np.linspace(2, 1, attribute.size) for attribute in domain]
    return tuple(
        rng.choice(len(mass), rows, p=mass / mass.sum()).astype(code_dtype(len(mass)))
        for mass in masses
    )


def predicted_and_found(
    mechanism: Mechanism, rows: int = 5000, repeats: int = 400
) -> tuple[float, float]:
    """The standard error of the count of men, as the plan predicts it and as it comes out."""
    from sfumato.plan.prediction import Item, itemset_variance

    truth = Table(mechanism.domain, uneven(mechanism.domain, rows))
    share = float((truth.column("sex") == 1).mean())
    release = perturb_table(truth, mechanism, seeded(3), copies=repeats)
    single = Table(
        release.domain, release.columns, type(release.provenance)(mechanism, secure=False)
    )
    parts = (single.take(np.arange(start, single.rows, repeats)) for start in range(repeats))
    counts = [Release.of(part).marginal(["sex"]).value[1] for part in parts]
    return float(np.sqrt(rows * itemset_variance(mechanism, (Item("sex", 1),), [share]))), float(
        np.std(counts, ddof=1)
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _verdict(seconds: float, limit: float) -> str:
    return "met" if seconds < limit else "MISSED"


if __name__ == "__main__":
    run()
