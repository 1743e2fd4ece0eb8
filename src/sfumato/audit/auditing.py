"""Auditing: a release attacked and checked against the truth it was made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.audit.amplification import empirical_gamma
from sfumato.audit.attack import Attack, attacks, linkage
from sfumato.audit.audit_result import CHECKS_SHARE, OTHER_SHARE, Audit
from sfumato.audit.breaches import breaches
from sfumato.audit.paired import Paired
from sfumato.audit.places import (
    fresh_noise_check,
    keystream_check,
    permutation_check,
    place_checks,
    report_order_check,
)
from sfumato.audit.power import Power
from sfumato.audit.reported_baskets import BasketFit
from sfumato.audit.reported_records import RecordFit
from sfumato.audit.resampled import Resampled
from sfumato.audit.score import Agreements, Check
from sfumato.errors import ParameterError, Unanswerable
from sfumato.privacy.probability import check_breach, check_strictly_between
from sfumato.privacy.siblings import SiblingAccount, record_account
from sfumato.randomness import Keystream, drawing
from sfumato.release import Exact, Release
from sfumato.table import Table

Progress = Callable[[str, float], None]  # the stage, and the share of the whole audit that is done

# Where in the whole audit each stage starts and ends.
STAGES = {
    "reports": (0.0, 0.35),
    "independence": (0.35, 0.5),
    "gamma": (0.5, 0.75),
    "attacks": (0.75, 0.95),
    "breaches": (0.95, 1.0),
}

LEFT_OUT = (
    "which record a report came from is secret, and the order was not given (--order), so this "
    "audit leaves out: attacks and breaches, whether reports follow the channel record by record, "
    "and whether rows, neighbours and coins are independent"
)


def _table_of(records: Any) -> Table:
    """The rows of a release or of true records; an audit reads them one by one."""
    if isinstance(records, Release | Exact):
        return records.table
    if not isinstance(records, Table):
        raise ParameterError(
            f"an audit reads a release and its truth, not a {type(records).__name__}",
            hint="give sf.open(FILE) and sf.read(FILE)",
        )
    return records


@checked
def audit_release(
    release: Table | Release,
    truth: Table | Exact,
    *,
    order: NDArray[np.int64] | None = None,
    rng: Keystream | None = None,
    rho1: float = 0.05,
    rho2: float = 0.50,
    false_alarm: float = 1e-3,
    progress: Progress | None = None,
) -> Audit:
    """What attackers learn from a release, and whether the mechanism that made it kept its word.

    The truth must be the very records that were perturbed; with copies, one record for each group
    of reports. They are brought beside their reports by `order` (see `sfumato.table.shuffling`);
    without it, reports that were not shuffled stand in the order of the truth, and of shuffled ones
    only what needs no pairing is judged. A mechanism that keeps its word is accused with
    probability at most `false_alarm`. `rng` draws the perturbations of chosen records and the
    random scores; secure unless given.

    >>> from sfumato.domain import Category, Domain
    >>> from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    >>> from sfumato.randomness import seeded
    >>> from sfumato.table import perturb_table
    >>> import numpy as np
    >>> coin = Domain((Category("coin", ("heads", "tails")),))
    >>> truth = Table(coin, (np.random.default_rng(1).integers(0, 2, 5000),))
    >>> release = perturb_table(truth, GammaDiagonal(coin, 3), seeded(1), keep_order=True)
    >>> audit_release(release, truth, rng=seeded(2)).clean
    True
    """
    check_breach(rho1, rho2)
    check_strictly_between("false_alarm", false_alarm)
    rng = drawing(rng)

    def tell(stage: str, share: float) -> None:
        if progress is not None:
            start, end = STAGES[stage]
            progress(stage, start + share * (end - start))

    paired = Paired.of(_table_of(release), _table_of(truth), order)
    tell("reports", 0.0)
    checks, agreements = _checks(paired, rng, tell)
    checks.append(report_order_check(paired))
    if order is not None:
        own = order[:: paired.copies] if len(order) == paired.release.rows else order
        checks.append(permutation_check(own))
    other = false_alarm * OTHER_SHARE
    gamma = empirical_gamma(
        paired, rng, false_alarm=other, progress=lambda share: tell("gamma", share)
    )
    found, left_out = _attacks(paired, rng, tell)
    tell("breaches", 0.0)
    level = false_alarm * CHECKS_SHARE / len(checks)
    audit = Audit(
        paired.mechanism.name,
        paired.people,
        paired.copies,
        paired.mechanism.guarantee,
        tuple(found),
        _siblings(paired),
        gamma,
        breaches(paired, rho1, rho2, false_alarm=other) if paired.in_order else None,
        linkage(paired),
        tuple(checks),
        false_alarm,
        None if agreements is None else Power.of(agreements, level),
        left_out,
    )
    tell("breaches", 1.0)
    return audit


def _checks(
    paired: Paired, rng: Keystream, tell: Progress
) -> tuple[list[Check], Agreements | None]:
    """The checks of the reports beside the records, and the agreement they look at.

    Whether reports follow the mechanism's channel, and what chance left of them is independent of
    everything else. Of a release whose order is secret only the counts are judged: each report is
    drawn by its own record, so the number of reports of a kind is a sum of independent events whose
    probabilities the truth gives, whichever report belongs to whom.
    """
    fit: RecordFit | BasketFit | Resampled = Resampled(paired, rng)
    if paired.in_baskets:
        fit = BasketFit(paired, rng)
    elif paired.in_place:
        fit = RecordFit(paired, rng)
    agreements = None
    if paired.in_order:
        checks, residuals = fit.checks()
        agreements, coins = fit.agreements(), fit.coin_checks()
        tell("independence", 0.0)
        checks.append(keystream_check(residuals))
        if agreements is not None:
            checks += place_checks(agreements)
        name = "what is reported of a person depends on no other person's record"
        checks += [*coins, Check.of(name, fit.neighbour_tests(agreements))]
    else:
        checks = fit.count_checks()
        tell("independence", 0.0)
    if not paired.mechanism.needs_all_rows:
        checks.append(fresh_noise_check(paired.mechanism, paired.truth.slice(0, 1).columns, rng))
    return checks, agreements


def _attacks(
    paired: Paired, rng: Keystream, tell: Progress
) -> tuple[list[Attack], tuple[str, ...]]:
    """The attacks, and what had to be left out of the audit."""
    if not paired.in_order:
        return [], (LEFT_OUT,)
    if paired.private.baskets and not paired.in_baskets:
        return [], ("attacks are left out: a report speaks of one symbol of a whole basket",)
    try:
        return attacks(paired, rng, lambda share: tell("attacks", share)), ()
    except Unanswerable as limit:
        return [], (f"attacks are left out: {limit.message}",)


def _siblings(paired: Paired) -> SiblingAccount | None:
    """Both accounts of several reports a person, where a whole record can be guessed at all."""
    cells = paired.private.cells
    if paired.copies == 1 or cells < 2 or paired.private.baskets:
        return None
    return record_account(paired.mechanism.guarantee, cells, paired.copies)
