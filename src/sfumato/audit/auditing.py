"""Auditing: a release attacked and checked against the truth it was made from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.amplification import empirical_gamma
from sfumato.audit.attack import attacks
from sfumato.audit.baskets import BasketFit
from sfumato.audit.breaches import breaches
from sfumato.audit.check import Check
from sfumato.audit.fitting import fit_checks
from sfumato.audit.independence import fresh_noise_check, keystream_check
from sfumato.audit.linkage import linkage
from sfumato.audit.observed import observed_checks
from sfumato.audit.paired import Paired
from sfumato.audit.result import Audit
from sfumato.privacy.probability import check_breach, check_strictly_between
from sfumato.privacy.siblings import SiblingAccount, record_account
from sfumato.randomness import Keystream, secure
from sfumato.table import Table

Progress = Callable[
    [str, float], None
]  # what is being done, and the share of the whole audit that is done

STAGES = {"reports": 0.0, "independence": 0.35, "gamma": 0.5, "attacks": 0.75, "breaches": 0.95}


def audit_release(
    release: Table,
    truth: Table,
    *,
    rng: Keystream | None = None,
    rho1: float = 0.05,
    rho2: float = 0.50,
    false_alarm: float = 1e-3,
    progress: Progress | None = None,
) -> Audit:
    """What attackers learn from a release, and whether the mechanism that made it kept its word.

    The truth must be the very records that were perturbed, in their order; with copies, one record
    for each group of reports. A mechanism that keeps its word is flagged with probability at most
    `false_alarm` by the checks, by the empirical gamma and by the breaches each. `rng` draws the
    perturbations of chosen records and the random scores; secure unless given.

    >>> from sfumato.domain import Category, Domain
    >>> from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    >>> from sfumato.randomness import seeded
    >>> from sfumato.table import perturb_table
    >>> import numpy as np
    >>> coin = Domain((Category("coin", ("heads", "tails")),))
    >>> truth = Table(coin, (np.arange(5000) % 2,))
    >>> audit_release(perturb_table(truth, GammaDiagonal(coin, 3), seeded(1)), truth, rng=seeded(2)).clean
    True
    """
    check_breach(rho1, rho2)
    check_strictly_between("false_alarm", false_alarm)
    rng = secure() if rng is None else rng
    paired = Paired.of(release, truth)
    tell = _teller(progress)
    tell("reports", 0.0)
    checks = _checks(paired, rng, tell)
    gamma = empirical_gamma(
        paired, rng, false_alarm=false_alarm, progress=lambda share: tell("gamma", share)
    )
    found = attacks(paired, rng, lambda share: tell("attacks", share))
    tell("breaches", 0.0)
    beliefs = breaches(paired, rho1, rho2, false_alarm=false_alarm)
    audit = Audit(
        paired.mechanism.name,
        paired.people,
        paired.copies,
        paired.mechanism.guarantee,
        tuple(found),
        _siblings(paired),
        gamma,
        beliefs,
        linkage(paired),
        tuple(checks),
        false_alarm,
    )
    tell("breaches", 1.0)
    return audit


def _checks(paired: Paired, rng: Keystream, tell: Progress) -> list[Check]:
    checks, residuals = _fitted(paired, rng)
    tell("independence", 0.0)
    checks.append(keystream_check(residuals))
    if not paired.mechanism.needs_all_rows:
        checks.append(fresh_noise_check(paired.mechanism, paired.truth.slice(0, 1).columns, rng))
    return checks


def _fitted(paired: Paired, rng: Keystream) -> tuple[list[Check], NDArray[np.float64]]:
    """Whether the reports are distributed as they should be, and a residual of each."""
    if paired.in_baskets:
        return BasketFit(paired).checks(rng)
    return fit_checks(paired, rng) if paired.in_place else observed_checks(paired, rng)


def _siblings(paired: Paired) -> SiblingAccount | None:
    """Both accounts of several reports a person, where a whole record can be guessed at all."""
    cells = paired.private.cells
    if paired.copies == 1 or cells < 2 or paired.private.baskets:
        return None
    return record_account(paired.mechanism.guarantee, cells, paired.copies)


def _teller(progress: Progress | None) -> Progress:
    """Progress within a stage as progress of the whole."""
    starts = list(STAGES.values())

    def tell(stage: str, share: float) -> None:
        if progress is not None:
            place = list(STAGES).index(stage)
            end = starts[place + 1] if place + 1 < len(starts) else 1.0
            progress(stage, starts[place] + share * (end - starts[place]))

    return tell
