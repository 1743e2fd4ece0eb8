"""How many of a sample's records are alone in the population it was drawn from, and how often a
match would be right.

A record that is unique in the sample need not be so in the population: whoever knows the keys of a
person cannot know that it is this person who was sampled. Three answers, from less and more
assumed:

* Skinner and Elliot (2002): if someone's keys match one record of the sample, that is the right
  person with probability θ, estimated by π·n1 / (π·n1 + 2(1 − π)·n2); π is the sampling fraction,
  n1 and n2 are the patterns held by one and by two records. It needs no model.
* Skinner and Holmes (1998): the number of people with a pattern is Poisson with mean Λ = N·∏ p_j,
  the (weighted) shares of the key values multiplied as if keys were independent. Then a unique
  record with weight w = 1/π is unique in the population with probability exp(−Λ(1 − π)), and the
  expected chance of a right match is (1 − exp(−Λ(1 − π))) / (Λ(1 − π)).
* Benedetti and Franconi (1998), as μ-ARGUS and sdcMicro print it: given f records of summed weight
  F, the people with the pattern are negative binomial with success p = f/F; the chance of a right
  match is E[1/F | f]. It knows nothing of how rare the values are, and mostly says too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.errors import DataError, ParameterError
from sfumato.estimation.answer import Answer
from sfumato.printable import percent
from sfumato.privacy.probability import check_number
from sfumato.publish.limits import MOST_PEOPLE
from sfumato.publish.owned import patterns
from sfumato.renderers.frames import json_fields
from sfumato.table import Table
from sfumato.view import View


@dataclass(frozen=True)
class PopulationRisk:
    """What the sample's keys say of the people it was drawn from.

    `right_matches` is θ; `population_uniques` and `expected_matches` (both of the sample's unique
    records) and `risky` (those with a chance above a tenth) are by the model of independent keys;
    `weighted_matches` is the sum over all records of the risk by weights alone.
    """

    size: float
    fraction: float
    sample_uniques: int
    right_matches: Answer | None
    population_uniques: float
    expected_matches: float
    risky: int
    weighted_matches: float

    apart = ("right_matches",)  # in JSON as `to_dict` has it

    def __str__(self) -> str:
        """The sample, and how often a match would be right, in a sentence."""
        right = self.right_matches
        match = (
            "no record is unique"
            if right is None
            else f"a unique match is right with {right.value:.3f} ± {right.stderr:.3f}"
        )
        return f"as a sample of {self.size:,.0f} people: {match}"

    def view(self) -> View:
        """How many are alone in the population, and how often a match would be right."""
        alone = f"about {self.population_uniques:,.0f} of {self.sample_uniques:,}"
        return View(
            "In the population",
            (
                "The expected numbers assume that keys are independent of each other, which mostly "
                "overstates them; those by the weights alone understate.",
            ),
            [
                ("people in the population", round(self.size)),
                ("sampling fraction", percent(self.fraction, 3)),
                ("a unique match is right with", self.right_matches),
                ("unique in the population", f"{alone} (were keys independent)"),
                ("right matches expected", f"about {self.expected_matches:,.0f}"),
                ("chance above a tenth", f"{self.risky:,} records"),
                ("right matches by weights alone", f"{self.weighted_matches:,.1f}"),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; what rests on a model says so."""
        right = self.right_matches
        known = None if right is None else {"value": right.value, "stderr": right.stderr}
        assumed = "keys are independent of each other"
        return json_fields(self) | {"right_matches": known, "assumes": assumed}


def sampling_weights(
    records: Table, name: str | None, population: float | None
) -> NDArray[np.float64] | None:
    """How many people each record stands for: a column of weights, scaled to the population where
    that is given; or the same for all; None where neither is.
    """
    rows = records.rows
    if population is not None:
        check_number("population", population)
        if not 0 < population <= MOST_PEOPLE:
            raise ParameterError(f"population={population:g} is no number of people")
        if population < rows:
            raise ParameterError(
                f"a population of {population:,.0f} is smaller than the {rows:,} records drawn "
                "from it"
            )
    if name is None:
        return None if population is None else np.full(rows, population / rows)
    column = records.domain[name].decode(records.column(name))
    try:
        weights = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"weights column '{name}' does not hold numbers only") from None
    if weights.null_count:
        raise DataError(f"weights column '{name}' has {weights.null_count} nulls")
    found = np.asarray(weights.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(found).all() or found.min() <= 0:
        raise DataError(f"weights column '{name}' holds a weight that is not above 0")
    if found.sum() > MOST_PEOPLE:
        raise DataError(f"the weights in column '{name}' come to {found.sum():g} people")
    if population is not None:
        found = np.maximum(found * (population / found.sum()), 1.0)
    if found.min() < 1:
        raise DataError(
            f"weights column '{name}' has a weight of {pc.min(weights).as_py():g}: a record stands "
            "for itself at least",
            hint="give the size of the population, and weights are scaled to it",
        )
    return found


def population_risk(keys: Sequence[Codes], weights: NDArray[np.float64]) -> PopulationRisk:
    """The risk of these records as a sample whose weights say how many people each stands for."""
    pattern = patterns(keys)
    held = np.bincount(pattern)
    alone = (held == 1)[pattern]
    size, rows = float(weights.sum()), len(weights)
    chance, matched = _by_independent_keys(keys, weights, alone)
    return PopulationRisk(
        size=size,
        fraction=rows / size,
        sample_uniques=int(alone.sum()),
        right_matches=_right_matches(held, rows / size),
        population_uniques=float(chance.sum()),
        expected_matches=float(matched.sum()),
        risky=int((matched > 0.1).sum()),
        weighted_matches=float(_by_weights(pattern, held, weights).sum()),
    )


def _right_matches(held: NDArray[np.int64], fraction: float) -> Answer | None:
    """θ with its standard error, n1 and n2 counting as independent Poisson numbers (which is never
    too small: they vary less).
    """
    ones, twos = int((held == 1).sum()), int((held == 2).sum())
    if not ones:
        return None
    a, b = fraction, 2 * (1 - fraction)
    whole = a * ones + b * twos
    slope = a * b / whole**2
    stderr = slope * np.sqrt(twos**2 * ones + ones**2 * max(twos, 1))
    return Answer(a * ones / whole, float(stderr))


def _by_independent_keys(
    keys: Sequence[Codes], weights: NDArray[np.float64], alone: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each unique record the chance that it is unique in the population, and that a match is
    right.
    """
    expected = np.full(len(weights), np.log(weights.sum()))
    for codes in keys:
        share = np.bincount(codes, weights=weights) / weights.sum()
        expected += np.log(share)[codes]
    others = np.exp(expected[alone]) * (1 - 1 / weights[alone])
    chance = np.exp(-others)
    right = np.divide(-np.expm1(-others), others, out=np.ones_like(others), where=others > 0)
    return chance, right


def _by_weights(
    pattern: NDArray[np.int64], held: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """E[1/F | f] of every record: p^f / f · ₂F₁(f, f; f + 1; 1 − p)."""
    from scipy.special import hyp2f1

    success = np.minimum(held / np.bincount(pattern, weights=weights), 1.0)
    # Beyond forty records the first two moments give it to a thousandth, and the series is slow.
    small = np.minimum(held, 40)
    risk = success**small / small * hyp2f1(small, small, small + 1, 1 - success)
    risk = np.where(held > 40, success / held * (1 + (1 - success) / held), risk)
    found: NDArray[np.float64] = risk[pattern]
    return found
