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


def record_stays(guarantee: Guarantee, cells: int) -> float:
    """The probability that the gamma-diagonal matrix reports a record as it is: γ / (γ + n - 1)
    (FRAPP eq. 12).

    >>> round(record_stays(Guarantee(19), cells=2000), 6)
    0.009415
    """
    check_count("cells", cells, least=2)
    return 1 / (1 + (cells - 1) / float(guarantee.gamma))


def guess_bound(stays: float, values: int, copies: int) -> float:
    """An upper bound on the chance that the most frequent of m reports is the truth.

    1 - Σ_{k=0}^{L} C(m,k) p^k (1-p)^{m-k}, L = ⌊m/n⌋, with p the probability to stay and n values.
    FRAPP's eq. 17 starts the sum at k = 1; P(n_u <= L) includes k = 0, as its own eq. 18 does.

    >>> round(guess_bound(stays=19 / 2018, values=2000, copies=50), 4)
    0.3769
    """
    check_probability("stays", stays)
    check_count("values", values, least=2)
    check_count("copies", copies, least=1)
    from scipy.special import bdtr

    return 1 - float(bdtr(copies // values, copies, stays))
