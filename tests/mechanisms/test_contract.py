"""Every example is put through the contract of `sfumato.testing`; and the judges themselves: what
they must reject, they reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanisms.examples import EXAMPLES

from sfumato.domain import Category, Cells, Columns, Domain
from sfumato.errors import Unanswerable
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, seeded
from sfumato.release import Exact
from sfumato.testing import REJECT, MechanismContract, lag_correlation


class TestContract(MechanismContract):
    examples = EXAMPLES


def test_every_registered_mechanism_has_an_example() -> None:
    missing = set(MECHANISMS) - {example.mechanism.name for example in EXAMPLES}
    assert not missing, f"add an example of {sorted(missing)} to tests/mechanisms/examples.py"


@dataclass(frozen=True)
class Paired(GammaDiagonal):
    """A broken mechanism: two neighbours share one draw."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        kept = np.repeat(rng.chance(1 << 15, 16, (len(columns[0]) + 1) // 2), 2)[: len(columns[0])]
        return (np.where(kept, columns[0], rng.below(2, len(columns[0]))).astype(np.uint8),)


def test_rows_that_share_a_draw_are_found() -> None:
    coin = Domain((Category("coin", ("heads", "tails")),))
    truths = np.random.default_rng(1).integers(0, 2, 100_000).astype(np.uint8)
    (reports,) = Paired(coin, Fraction(3)).randomise((truths,), seeded(1))
    assert lag_correlation((reports != truths).astype(float), 1) < REJECT


def test_a_guarantee_above_the_promise_is_found() -> None:
    assert not Guarantee(19).allows(Guarantee(Fraction(19) + Fraction(1, 10**30)))


def test_what_a_sampled_pair_cannot_say_is_said() -> None:
    example = next(e for e in EXAMPLES if e.name == "added: sampled pairs")
    with pytest.raises(Unanswerable, match=r"nothing of 3 columns at once; fit a model, or ask"):
        example.release.marginal(example.columns)


def test_a_cell_that_is_wrong_would_be_noticed() -> None:
    """The judge itself: an estimate five errors off is refused."""
    example = EXAMPLES[0]
    found = example.release.marginal(example.columns)
    assert isinstance(found.cells[0], Cells)
    wrong = found.value + 6 * found.stderr
    true = Exact(example.truth).marginal(example.columns).value
    assert not np.all(np.abs(wrong - true) <= 5.5 * found.stderr)
