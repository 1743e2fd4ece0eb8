"""How many people it takes: sample sizes for a wanted error, and the error a given number of people
leaves.

Sources: FRAPP section 5 (Hoeffding), OLAP theorem 1, MASK section 8, and the normal approximation.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_count, check_probability, check_strictly_between


def hoeffding_rows(deviation: float, level: float) -> int:
    """The rows that keep any reported share within `deviation` of its expectation with probability
    `level`.

    N >= ln(2/(1-ε)) / (2Δ²)  (FRAPP eq. 16; deviation Δ, level ε). It bounds the reports, before
    reconstruction.

    >>> hoeffding_rows(deviation=0.001, level=0.95)
    1844440
    """
    check_strictly_between("deviation", deviation)
    check_strictly_between("level", level)
    return math.ceil(math.log(2 / (1 - level)) / (2 * deviation**2))


def retention_rows(keep: float, deviation: float, failure: float) -> int:
    """The rows after which a reconstructed share is off by more than `deviation` with probability
    below `failure`.

    n >= 4 ln(2/δ) / (pε)²  (OLAP theorem 1; keep p, deviation ε, failure δ), one retention-replaced
    column.

    >>> retention_rows(keep=0.2, deviation=0.01, failure=0.05)
    3688880
    """
    _check_keep(keep)
    check_strictly_between("deviation", deviation)
    check_strictly_between("failure", failure)
    return math.ceil(4 * math.log(2 / failure) / (keep * deviation) ** 2)


def normal_rows(variance: float, deviation: float, level: float) -> int:
    """The rows that put an unbiased estimate within `deviation` of the truth with probability
    `level`, if it is normal.

    N >= z² σ² / Δ², z = Φ⁻¹((1+level)/2); variance σ² is what one row contributes, so that the
    standard error is σ/√N.

    >>> normal_rows(variance=retention_variance(share=0.02, keep=0.2, mass=0.1),
    ...     deviation=0.001, level=0.95)
    7389431
    """
    check_strictly_between("level", level)
    if not deviation > 0 or not variance >= 0:
        raise ParameterError(
            f"deviation={deviation} must be above 0 and variance={variance} not below 0"
        )
    return max(1, math.ceil((NormalDist().inv_cdf((1 + level) / 2) / deviation) ** 2 * variance))


def retention_variance(share: float, keep: float, mass: float) -> float:
    """What one row adds to the variance of a share reconstructed from a retention-replaced report,
    sampling included.

    y(1-y)/p² with y = p·f + (1-p)·b: true share f, keep p, mass b of the replacement law (OLAP
    section 4.1).

    >>> round(retention_variance(share=0.02, keep=0.2, mass=0.1), 4)
    1.9236
    """
    check_probability("share", share)
    check_probability("mass", mass)
    _check_keep(keep)
    reported = keep * share + (1 - keep) * mass
    return reported * (1 - reported) / keep**2


def binomial_within(trials: int, chance: float, deviation: float) -> float:
    """The probability that a binomial count lies within `deviation` of its mean, ends included.

    P^E(n, p, ε) = Σ_{r=⌈np-ε⌉}^{⌊np+ε⌋} C(n,r) p^r (1-p)^{n-r}  (MASK section 8).

    >>> round(binomial_within(trials=100, chance=0.9, deviation=3.5), 4)
    0.759
    """
    check_count("trials", trials, least=0)
    check_probability("chance", chance)
    if deviation < 0:
        raise ParameterError(
            f"deviation={deviation} is negative; use deviation >= 0", deviation=deviation
        )
    from scipy.special import bdtr

    lowest = max(math.ceil(trials * chance - deviation), 0)
    highest = min(math.floor(trials * chance + deviation), trials)
    if highest < lowest:
        return 0.0
    below = float(bdtr(lowest - 1, trials, chance)) if lowest else 0.0
    return float(bdtr(highest, trials, chance)) - below


def mask_level(ones: int, zeros: int, keep: float, error: float) -> float:
    """A lower bound on the probability that MASK reconstructs an item's count to within `error`
    rows.

    P^E(m, p, t)·P^E(n, p, t) with t = |2p-1|·ε/2, n ones and m zeros in the true column  (MASK
    section 8).

    >>> round(mask_level(ones=1000, zeros=9000, keep=0.9, error=150), 4)
    0.9665
    """
    half = _mask_slope(keep) * error / 2
    return binomial_within(zeros, keep, half) * binomial_within(ones, keep, half)


def mask_error(ones: int, zeros: int, keep: float, level: float) -> float:
    """An error, in rows, that MASK's reconstruction of an item's count stays within with
    probability at least `level`.

    The smallest 2t/|2p-1| for whole t at which `mask_level` reaches the level  (MASK section 8).

    >>> mask_error(ones=1000, zeros=9000, keep=0.9, level=0.95)
    140.0
    """
    check_strictly_between("level", level)
    slope = _mask_slope(keep)
    too_few, enough = -1, max(ones, zeros)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        reached = binomial_within(zeros, keep, middle) * binomial_within(ones, keep, middle)
        too_few, enough = (too_few, middle) if reached >= level else (middle, enough)
    return 2 * enough / slope


def _mask_slope(keep: float) -> float:
    check_probability("keep", keep)
    if keep == 0.5:
        raise ParameterError(
            "keep=0.5 makes every report a coin toss, so nothing can be reconstructed; use keep "
            "!= 0.5"
        )
    return abs(2 * keep - 1)


def _check_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise ParameterError(
            f"keep={keep} replaces every record, so nothing can be reconstructed; use 0 < keep <= "
            "1",
            keep=keep,
        )
