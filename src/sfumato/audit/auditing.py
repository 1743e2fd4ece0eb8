"""Auditing: a release attacked and checked against the truth it was made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.audit.agreement import Agreements
from sfumato.audit.amplification import empirical_gamma
from sfumato.audit.attack import Attack, attacks
from sfumato.audit.baskets import BasketFit
from sfumato.audit.breaches import breaches
from sfumato.audit.check import Check
from sfumato.audit.coins import coin_checks
from sfumato.audit.fitting import fit_checks
from sfumato.audit.independence import fresh_noise_check, keystream_check
from sfumato.audit.lags import lag_check, mirror_check
from sfumato.audit.linkage import linkage
from sfumato.audit.neighbours import neighbour_check
from sfumato.audit.observed import observed_checks
from sfumato.audit.order import permutation_check, report_order_check
from sfumato.audit.paired import Paired
from sfumato.audit.position import position_checks
from sfumato.audit.result import CHECKS_SHARE, OTHER_SHARE, Audit
from sfumato.audit.sight import Sight, sight
from sfumato.audit.twins import Twins
from sfumato.audit.unpaired import LEFT_OUT, unpaired_checks
from sfumato.errors import ParameterError, Unanswerable
from sfumato.privacy.probability import check_breach, check_strictly_between
from sfumato.privacy.siblings import SiblingAccount, record_account
from sfumato.randomness import Keystream, drawing
from sfumato.source import Exact, Release
from sfumato.table import Table

Progress = Callable[
    [str, float], None
]  # what is being done, and the share of the whole audit that is done

STAGES = {"reports": 0.0, "independence": 0.35, "gamma": 0.5, "attacks": 0.75, "breaches": 0.95}


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
    of reports. They are brought beside their reports by `order` (see `sfumato.table.order`);
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
    paired = Paired.of(_table_of(release), _table_of(truth), order)
    tell = _teller(progress)
    tell("reports", 0.0)
    checks, seen = _checks(paired, rng, tell)
    checks += _order_checks(paired, order)
    gamma = empirical_gamma(
        paired,
        rng,
        false_alarm=false_alarm * OTHER_SHARE,
        progress=lambda share: tell("gamma", share),
    )
    found, left_out = _attacks(paired, rng, tell)
    tell("breaches", 0.0)
    level = false_alarm * OTHER_SHARE
    beliefs = breaches(paired, rho1, rho2, false_alarm=level) if paired.in_order else None
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
        _sight(seen, false_alarm * CHECKS_SHARE / len(checks)),
        left_out,
    )
    tell("breaches", 1.0)
    return audit


def _checks(
    paired: Paired, rng: Keystream, tell: Progress
) -> tuple[list[Check], Agreements | None]:
    """The checks of the reports beside the records, and the agreement they look at."""
    found = None
    if paired.in_order:
        checks, found = _paired_checks(paired, rng, tell)
    else:
        checks = unpaired_checks(paired, rng)
        tell("independence", 0.0)
    if not paired.mechanism.needs_all_rows:
        checks.append(fresh_noise_check(paired.mechanism, paired.truth.slice(0, 1).columns, rng))
    return checks, found


def _paired_checks(
    paired: Paired, rng: Keystream, tell: Progress
) -> tuple[list[Check], Agreements | None]:
    checks, residuals, found = _fit(paired, rng)
    tell("independence", 0.0)
    checks.append(keystream_check(residuals))
    if found is not None:
        checks += [lag_check(found.series), mirror_check(found.series), *position_checks(found)]
    return [*checks, *coin_checks(paired), neighbour_check(paired, found)], found


def _fit(
    paired: Paired, rng: Keystream
) -> tuple[list[Check], NDArray[np.float64], Agreements | None]:
    """Whether reports follow the mechanism's law, what chance left of each, and their agreement."""
    if paired.in_baskets:
        return *BasketFit(paired).checks(rng), Agreements.of(paired)
    if paired.in_place:
        return *fit_checks(paired, rng), Agreements.of(paired)
    twins = Twins(paired, rng)
    return observed_checks(paired), twins.residuals(), twins.agreements()


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


def _order_checks(paired: Paired, order: NDArray[np.int64] | None) -> list[Check]:
    checks = [report_order_check(paired)]
    if order is None:
        return checks
    each = order[:: paired.copies] if len(order) == paired.release.rows else order
    return [*checks, permutation_check(each)]


def _sight(found: Agreements | None, threshold: float) -> Sight | None:
    return None if found is None else sight(found, threshold)


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
