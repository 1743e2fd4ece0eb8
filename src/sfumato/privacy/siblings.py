"""What several reports of the same record give away: the composed guarantee, and FRAPP's guessing
bound beside it.

Source: FRAPP (Agrawal, Haritsa and Prakash 2008) section 5.1.1. The guessing bound speaks of one
attacker who names the most frequent report; the composed guarantee speaks of every attacker. Show
both, never the bound alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_count, check_probability


@dataclass(frozen=True)
class SiblingAccount:
    """Both accounts of reporting the same record several times with a gamma-diagonal matrix."""

    copies: int
    guarantee: Guarantee
    guess_bound: float

    def __str__(self) -> str:
        return (
            f"{self.copies} reports of one record together promise epsilon "
            f"{self.guarantee.epsilon:.3g}; "
            f"naming the most frequent one is right with probability at most {self.guess_bound:.2f}"
        )


def record_account(guarantee: Guarantee, cells: int, copies: int) -> SiblingAccount:
    """Both accounts for guessing the whole record from its copies.

    >>> print(record_account(Guarantee(19), cells=2000, copies=50))
    50 reports of one record together promise epsilon 147;
    naming the most frequent one is right with probability at most 0.38
    """
    bound = guess_bound(record_stays(guarantee, cells), cells, copies)
    return SiblingAccount(copies, guarantee.repeated(copies), bound)


def attribute_account(guarantee: Guarantee, cells: int, values: int, copies: int) -> SiblingAccount:
    """Both accounts for guessing one attribute of `values` values from copies of the whole record.

    >>> round(attribute_account(Guarantee(19), cells=2000, values=2, copies=50).guess_bound, 2)
    0.47
    """
    bound = guess_bound(attribute_stays(guarantee, cells, values), values, copies)
    return SiblingAccount(copies, guarantee.repeated(copies), bound)


def record_stays(guarantee: Guarantee, cells: int) -> float:
    """The probability that the gamma-diagonal matrix reports a record as it is: γ / (γ + n - 1)
    (FRAPP eq. 12).

    >>> round(record_stays(Guarantee(19), cells=2000), 6)
    0.009415
    """
    check_count("cells", cells, least=2)
    return 1 / (1 + (cells - 1) / float(guarantee.gamma))


def attribute_stays(guarantee: Guarantee, cells: int, values: int) -> float:
    """The probability that the gamma-diagonal matrix reports one attribute as it is.

    γx + (n/n_1 - 1)x with x = 1/(γ + n - 1), n cells and n_1 values of the attribute  (FRAPP
    section 5.1.1).

    >>> round(attribute_stays(Guarantee(19), cells=2000, values=2), 6)
    0.50446
    """
    check_count("values", values, least=2)
    stays = record_stays(guarantee, cells)
    return stays + (cells / values - 1) * (1 - stays) / (cells - 1)


def guess_bound(stays: float, values: int, copies: int) -> float:
    """An upper bound on the chance that the most frequent of m reports is the truth.

    1 - Σ_{k=0}^{L} C(m,k) p^k (1-p)^{m-k}, L = ⌊m/n⌋, with p the probability to stay and n values.
    FRAPP's eq. 17 starts the sum at k = 1; P(n_u <= L) includes k = 0, as its own eq. 18 does.

    >>> round(guess_bound(stays=19 / 2018, values=2000, copies=50), 4)
    0.3769
    """
    return 1 - _at_most(copies // values, stays, values, copies)


def guess_bound_as_printed(stays: float, values: int, copies: int) -> float:
    """FRAPP's eq. 17 to the letter, which leaves out k = 0 and so is needlessly weak.

    >>> guess_bound_as_printed(stays=19 / 2018, values=2000, copies=50)
    1.0
    """
    return guess_bound(stays, values, copies) + (1 - stays) ** copies


def outright_guess_bound(stays: float, values: int, copies: int) -> float:
    """An upper bound on the chance that the truth is more frequent than every other report; FRAPP's
    figure 1 draws it.

    As `guess_bound`, with L the largest k that some other value must equal or exceed: k <=
    ⌈(m-k)/(n-1)⌉. A truth seen once among two or more reports is only tied, so this bound is
    sharper; it holds for an attacker who passes on a tie.

    >>> [round(outright_guess_bound(19 / 2018, 2000, copies), 3) for copies in (50, 100)]
    [0.081, 0.243]
    """
    return 1 - _at_most(_most_hopeless(values, copies), stays, values, copies)


def _most_hopeless(values: int, copies: int) -> int:
    """The largest k with k <= ⌈(copies-k)/(values-1)⌉: so many sightings leave room for a tie or
    worse, always.
    """
    others = values - 1
    start = copies // values
    return max(k for k in range(start, start + 2) if k <= -((k - copies) // others))


def _at_most(limit: int, stays: float, values: int, copies: int) -> float:
    """P(n_u <= limit) for n_u binomial over the copies."""
    check_probability("stays", stays)
    check_count("values", values, least=2)
    check_count("copies", copies, least=1)
    from scipy.special import bdtr

    return float(bdtr(limit, copies, stays))
