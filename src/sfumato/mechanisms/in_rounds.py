"""In rounds: how a mechanism asks people one group after the other, each person in one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.domain import Domain
from sfumato.errors import Unanswerable
from sfumato.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Mechanism

SHARES = (0.4, 0.3, 0.3)  # of the people, round by round
ROUNDS = len(SHARES)
NUMBER_SHARES = (0.4, 0.6)  # the same where numbers are asked about
IN_ROUNDS = ("item-set", "ranges")  # the mechanisms by which people ask for a series


@dataclass(frozen=True, eq=False)
class Asking:
    """What the next group is asked about its baskets: candidates, how many of them a basket may
    keep, and the buckets that they are hashed into, none where they are asked directly; or one of
    them each.
    """

    candidates: tuple[tuple[int, ...], ...]
    cap: int
    buckets: int = 0
    dealt: bool = False


class SeriesSoFar(Protocol):
    """The rounds that were asked, as the next one is chosen by them."""

    @property
    def domain(self) -> Domain: ...

    @property
    def mechanism(self) -> Any:
        """What the first group was asked by."""

    def marginal(self, columns: Sequence[Any]) -> Any:
        """The estimated counts of the cells of some columns."""

    def asking(self, wanted: int, people: float, most: int) -> Asking:
        """What to ask so many further people about their baskets, of which each keeps at most so
        many candidates.
        """


class RoundDesign(ABC):
    """How a series of rounds is asked: a sequential design, in which each group's reports choose
    what the next is asked.
    """

    asked_by: ClassVar[str]  # the mechanism that people name for it
    shares: ClassVar[tuple[float, ...]]  # of the people, round by round
    joins_by_model: ClassVar[bool]  # whether a model joins what the rounds say; else it is mined
    about: ClassVar[str]  # what its domain is made of
    after_next: ClassVar[str] = ""  # what is said of the next round
    at_last: ClassVar[str]  # what to do once all were asked

    @abstractmethod
    def first(self, guarantee: Guarantee, domain: Domain, **given: Any) -> Mechanism:
        """What the first group is asked."""

    @abstractmethod
    def following(self, series: SeriesSoFar, people: float, wanted: int) -> Mechanism:
        """What so many further people are asked, by what those before them said; `wanted` is how
        many itemsets of largest support are looked for.
        """

    def predicted(self, guarantee: Guarantee, domain: Domain) -> Mechanism:
        """All rounds as a plan sees them."""
        raise Unanswerable(f"no plan predicts the errors of {self.asked_by} in rounds")

    @abstractmethod
    def asks(self, mechanism: Any, number: int) -> str:
        """What the round of this number asks its people, in plain words."""
