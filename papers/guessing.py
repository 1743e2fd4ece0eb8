"""What FRAPP says of guessing beside what an audit shows: one attribute, the bound as printed, and
that of its figure 1.

Source: FRAPP (Agrawal, Haritsa and Prakash 2008) section 5.1.1.
"""

from __future__ import annotations

from scipy.special import bdtr

from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_count, check_probability
from sfumato.privacy.siblings import SiblingAccount, guess_bound, record_stays


def attribute_account(guarantee: Guarantee, cells: int, values: int, copies: int) -> SiblingAccount:
    """Both accounts for guessing one attribute of `values` values from copies of the whole record.

    >>> round(attribute_account(Guarantee(19), cells=2000, values=2, copies=50).guess_bound, 2)
    0.47
    """
    bound = guess_bound(attribute_stays(guarantee, cells, values), values, copies)
    return SiblingAccount(copies, guarantee.repeated(copies), bound)


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
    check_probability("stays", stays)
    check_count("values", values, least=2)
    check_count("copies", copies, least=1)
    return 1 - float(bdtr(_most_hopeless(values, copies), copies, stays))


def _most_hopeless(values: int, copies: int) -> int:
    """The largest k with k <= ⌈(copies-k)/(values-1)⌉: so many sightings leave room for a tie or
    worse, always.
    """
    others = values - 1
    start = copies // values
    return max(k for k in range(start, start + 2) if k <= -((k - copies) // others))
