"""A blurrier copy of a release, made of its reports alone: no true record, no further budget.

A report that is one of g answers by k-ary response at γ stays with probability λ, else an answer is
drawn evenly. That is k-ary response at γ′ exactly, for λ = (γ′−1)(γ+g−1) / ((γ−1)(γ′+g−1)); public
columns and the question that was dealt stay as they are. It is post-processing, so whoever sees the
copy learns no more than γ′ allows, and whoever sees copies of copies no more than from the first.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.domain import Columns
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, check_kept
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.randomness import Keystream, drawing
from sfumato.table.table import Table, new_release

MOST_DRAWN = 1 << 64  # what one integer of a keystream lies below


def reblur(release: Table, guarantee: Guarantee, rng: Keystream | None = None) -> Table:
    """A copy of these reports with a smaller gamma, its draws made once. A copy of a release that
    was made with a seed carries that mark on.
    """
    rng = drawing(rng)
    provenance = release.provenance
    if provenance is None:
        raise ParameterError(
            "these are true records, and only reports are blurred again", hint="perturb them"
        )
    if provenance.copies > 1 or provenance.turn is not None:
        raise ParameterError(
            "only a release with one report of each person, who were all asked at once, is blurred "
            "again",
            hint="perturb the true records at the smaller gamma instead",
        )
    weaker = weakened(provenance.mechanism, guarantee)
    columns = _blurred(provenance.mechanism, weaker, release.columns, rng)
    secure = provenance.secure and rng.secure
    stated = replace(provenance, mechanism=weaker, secure=secure, release=new_release())
    return Table(weaker.reports, columns, stated, release.notes)


def weakened(mechanism: Mechanism, guarantee: Guarantee) -> Mechanism:
    """The same mechanism at a smaller gamma, where its answers are k-ary."""
    if mechanism.needs_all_rows or not mechanism.program().kary:
        raise ParameterError(
            f"reports of {mechanism.name} cannot be blurred again: they are no k-ary answers",
            hint="questionnaire and gamma-diagonal make reports that can",
        )
    if not guarantee.gamma > 1 or not mechanism.guarantee.gamma > guarantee.gamma:
        raise ParameterError(
            f"a copy has a smaller gamma than its release's {mechanism.guarantee.gamma_words}, and "
            f"{guarantee.gamma_words} was asked for",
            hint="no blurring can be undone; give a gamma above 1 and below that",
        )
    parameters = mechanism.parameters() | {"gamma": str(Fraction(guarantee.gamma))}
    return check_kept(type(mechanism).from_parameters(mechanism.domain, parameters), guarantee)


def staying(before: Gamma, after: Gamma, answers: int) -> Fraction:
    """The probability that a report of so many answers stays, from one gamma to a smaller one.

    >>> staying(19, 5, 2)
    Fraction(20, 27)
    """
    gamma, other = Fraction(before), Fraction(after)
    return (other - 1) * (gamma + answers - 1) / ((gamma - 1) * (other + answers - 1))


def _blurred(
    mechanism: Mechanism, weaker: Mechanism, columns: Columns, rng: Keystream
) -> tuple[np.ndarray, ...]:
    """The reports, those of one number of answers at a time."""
    program = mechanism.program()
    before, after = mechanism.guarantee.gamma, weaker.guarantee.gamma
    drawn = [place for place, own in enumerate(program.outputs) if own.shows == "answer"]
    found = [np.array(column) for column in columns]
    rows = len(found[0])
    dealt = np.zeros(rows, dtype=np.intp)
    if program.dealt is not None:
        number, *drawn = program.dealt.reports
        dealt = found[number].astype(np.intp)
    sizes = np.array([answers for _, answers in program.kary])[dealt]
    for answers in map(int, np.unique(sizes)):
        own = np.flatnonzero(sizes == answers)
        stays = staying(before, after, answers)
        if stays.denominator > MOST_DRAWN:
            raise ParameterError(
                f"a copy of gamma {weaker.guarantee.gamma_words} takes integers that are too large",
                hint="ask for a whole number",
            )
        moved = own[rng.below(stays.denominator, len(own)) >= stays.numerator]
        for place in drawn:
            size = answers if len(drawn) == 1 else program.outputs[place].size
            found[place][moved] = rng.below(size, len(moved)).astype(found[place].dtype)
    return tuple(found)
