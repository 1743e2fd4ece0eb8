"""Planning: which mechanisms can meet a guarantee or reach an accuracy, their parameters, and what
is to be expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato import plots
from sfumato.arguments import checked, shown
from sfumato.domain import Domain, Items, Numeric
from sfumato.errors import (
    EstimationError,
    ParameterError,
    PrivacyError,
    SfumatoError,
    Unanswerable,
    listing,
    near_miss,
)
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.item_set import ItemSet
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class
from sfumato.mechanisms.windows import is_asked
from sfumato.plan.options import USELESS, Aside, Offer, Plan
from sfumato.plan.outlook import Outlook
from sfumato.plan.questions import Demand, has_mean
from sfumato.plan.rounds import NAME as IN_ROUNDS
from sfumato.plan.rounds import InRounds
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_count, check_strictly_between

OF_NUMBERS = ("ranges", "means", "quantiles")
PURPOSES = ("itemsets", "pairs", "counts", "ranges", "means", "quantiles", "classes")
LENGTHS = 6  # itemset lengths shown at most
USUAL_ERROR = 0.05  # the error for which people are counted where none is wanted
MOST_EPSILON = 40.0  # beyond this a report is the truth for all purposes
LEAST_EPSILON = 0.01
HOPELESS = 1e5  # times the least error drawn: a line that never comes below is left out
STEPS = 12  # of the search for the least epsilon, at most

Make = Callable[[Guarantee], Mechanism]


@checked
def plan_release(
    domain: Domain,
    rows: int,
    *,
    guarantee: Guarantee | None = None,
    wanted_error: float | None = None,
    at_support: float = 0.02,
    purpose: str = "itemsets",
    length: int | None = None,
    target: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    rho1: float = 0.05,
) -> Plan:
    """The mechanisms for these columns and people: under a guarantee, for a wanted error, or both,
    best first.

    The error that is wanted and sorted by is relative: to `at_support` for itemsets of one length
    (2 unless stated), to half of the people for range counts (`counts`: that end at the schema's
    cuts, `ranges`: anywhere), to the column's range for means and quartiles, to its share for a
    cell of the tables a classifier reads. With a wanted error alone, each mechanism
    is tuned to the least gamma that reaches it. A questionnaire asks what the purpose needs: the
    target with every other column, the named pairs, single columns.

    >>> from sfumato.domain import Category
    >>> sides = ("heads", "tails")
    >>> coins = Domain((Category("first", sides), Category("second", sides)))
    >>> plan_release(coins, 10_000, guarantee=Guarantee(9)).best.name
    'gamma-diagonal'
    """
    _check(domain, rows, guarantee, wanted_error, at_support, purpose, rho1)
    _check_pairs(pairs)
    questions = Demand(domain, at_support, target, tuple(pairs))
    asking = _Asking(questions, purpose, _length(questions, length))
    wanted = USUAL_ERROR if wanted_error is None else wanted_error
    suited = questions.suited(purpose, length)
    options, refused = [], {}
    for name, make in candidates(domain, suited):
        try:
            mechanism = (
                make(guarantee) if guarantee is not None else _least(make, asking, rows, wanted)
            )
        except SfumatoError as error:
            refused[name] = str(error)
            continue
        try:
            options.append(asking.option(name, mechanism, rows, wanted, suited.get(name, {})))
        except EstimationError as error:  # it can be made, and not answer this
            refused[name] = str(error)
    if not options:
        raise _nothing_fits(domain, guarantee, wanted, asking, refused)
    options.sort(key=lambda o: o.error if guarantee is not None else float(o.guarantee.epsilon))
    return Plan(
        tuple(options),
        refused,
        rows,
        purpose,
        asking.words,
        at_support,
        wanted,
        guarantee,
        wanted_error is not None,
        rho1,
        _outlook(options[0], asking),
        _once(options[0], asking),
        _aside(options[0], domain, purpose, guarantee),
    )


def _aside(best: Offer, domain: Domain, purpose: str, guarantee: Guarantee | None) -> Aside | None:
    """What the numbers would get without the columns that nothing can be asked about beside them,
    or else alone, where no answer is usable.
    """
    if purpose not in OF_NUMBERS or guarantee is None or best.error <= USELESS:
        return None
    words = tuple(a.name for a in domain.private if not isinstance(a, Numeric))
    unasked = tuple(a.name for a in domain.private if not is_asked(a))
    for others in filter(None, dict.fromkeys((unasked, words))):
        rest = Domain(tuple(a for a in domain if a.name not in others))
        if not any(isinstance(a, Numeric) for a in rest.private):
            continue
        found = plan_release(rest, best.rows, guarantee=guarantee, purpose=purpose).best
        if found.error <= USELESS:
            return Aside(others, found)
    return None


def _once(best: Offer, asking: _Asking) -> Offer | None:
    """What asking everyone once would tell of single items, where itemsets are best asked for in
    rounds.
    """
    if not isinstance(best.mechanism, InRounds) or asking.purpose != "itemsets":
        return None
    if asking.length == 1:  # then both are compared
        return None
    once = ItemSet.promising(best.guarantee, best.mechanism.domain)
    return replace(asking, length=1).option(once.name, once, best.rows, USUAL_ERROR)


def _outlook(best: Offer, asking: _Asking) -> Outlook | None:
    """What to expect of the best option, where people are dealt what they are asked about and
    supports are what is wanted.
    """
    if best.mechanism.together is None or asking.purpose in OF_NUMBERS:
        return None
    sets = asking.questions.sets(asking.purpose)
    length = asking.length if asking.purpose in ("itemsets", "pairs", "classes") else 1
    return Outlook(best.mechanism, asking.questions, best.rows, length, sets, best.options)


@dataclass(frozen=True)
class PrivacyCurve:
    """Errors against epsilon, one line a mechanism; NaN where the mechanism cannot be had."""

    epsilon: tuple[float, ...]
    errors: dict[str, tuple[float, ...]]
    asked: str

    @property
    def drawn(self) -> dict[str, tuple[float, ...]]:
        """The lines worth drawing: mechanisms that come out the same share one, and the hopeless
        would flatten the others.
        """
        least = min(value for line in self.errors.values() for value in line if value == value)
        alike: dict[str, list[str]] = {}
        for name, line in self.errors.items():
            if any(value < HOPELESS * least for value in line):
                alike.setdefault(" ".join(f"{value:.3g}" for value in line), []).append(name)
        return {", ".join(names): self.errors[names[0]] for names in alike.values()}

    def plot(self, best: Offer | None = None, *, axes: Any = None) -> Any:
        """Error against privacy, the best option first and ringed; the axes they were drawn on."""
        drawn, chosen = self.drawn, "" if best is None else best.name
        lines = sorted(drawn, key=lambda names: chosen not in names.split(", "))
        return plots.error_by_privacy(
            self.epsilon,
            [plots.Series(name, drawn[name]) for name in lines],
            error="relative standard error",
            chosen=None if best is None else (best.guarantee.epsilon, best.error),
            axes=axes,
        )


def privacy_curve(
    domain: Domain,
    rows: int,
    *,
    epsilon: Sequence[float] = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
    at_support: float = 0.02,
    purpose: str = "itemsets",
    length: int | None = None,
    target: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> PrivacyCurve:
    """How the error of what is asked falls as epsilon grows, for every mechanism: what
    `plots.error_by_privacy` draws.
    """
    _check(domain, rows, Guarantee.from_epsilon(min(epsilon)), None, at_support, purpose, 0.05)
    questions = Demand(domain, at_support, target, tuple(pairs))
    asking = _Asking(questions, purpose, _length(questions, length))
    errors = {
        name: tuple(_error_at(make, asking, rows, value) for value in epsilon)
        for name, make in candidates(domain, questions.suited(purpose, length))
    }
    drawn = {
        name: line for name, line in errors.items() if any(math.isfinite(value) for value in line)
    }
    return PrivacyCurve(tuple(epsilon), drawn, asking.words)


def _error_at(make: Make, asking: _Asking, rows: int, epsilon: float) -> float:
    try:
        error = asking.error(make(Guarantee.from_epsilon(epsilon)), rows)
    except SfumatoError:
        return math.nan
    return error if math.isfinite(error) else math.nan


def candidates(
    domain: Domain, suited: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[tuple[str, Make]]:
    """Every mechanism by name, with the options suited to what is asked; `combined` is retention of
    every binned column, which pays where a fine grid costs retention much of the guarantee.
    """
    mixed = not domain.private.baskets and any(
        isinstance(attribute, Items) for attribute in domain.private
    )
    for name in MECHANISMS:
        # On records the combination is retention of each binned column: shown once.
        if name != "combined" or mixed:
            yield name, _maker(name, domain, (suited or {}).get(name, {}))
    if not mixed and any(
        isinstance(attribute, Numeric) and attribute.cuts for attribute in domain.private
    ):
        yield "combined", _maker("combined", domain)
    if domain.private.baskets:
        yield IN_ROUNDS, lambda guarantee: InRounds.promising(guarantee, domain)


def _maker(name: str, domain: Domain, options: Mapping[str, str] | None = None) -> Make:
    # A domain that cannot be binned is refused when the mechanism is made, with the others still
    # planned.
    return lambda guarantee: mechanism_class(name).promising(guarantee, domain, **(options or {}))


@dataclass(frozen=True)
class _Asking:
    """What the error is an error of."""

    questions: Demand
    purpose: str
    length: int

    @property
    def words(self) -> str:
        return {
            "itemsets": (
                f"an itemset of length {self.length} and support "
                f"{100 * self.questions.at_support:.3g} %"
            ),
            "pairs": (
                "a support of "
                f"{100 * self.questions.at_support:.3g} % in the pairs of columns named"
            ),
            "counts": "the count of a range that holds half of the people",
            "ranges": "the count of half of two numbers' ranges at once, wherever they end,"
            if self._joined
            else "the count of a range that holds half of the people, wherever it ends,",
            "means": "a mean, as a share of its column's range,",
            "quantiles": "a quartile, as a share of its column's range,",
            "classes": "a cell of the table of the class and another column",
        }[self.purpose]

    def spread(self, mechanism: Mechanism) -> float:
        """√N times the relative error."""
        questions = self.questions
        if self._together > 1 and mechanism.joins_by_model:
            raise Unanswerable("says of columns together what a model makes of it: plan for ranges")
        if self.purpose == "itemsets":
            return questions.support_spread(mechanism, self.length) / questions.at_support
        if self.purpose == "pairs":
            return questions.pair_spread(mechanism) / questions.at_support
        ways = {
            "counts": lambda: questions.range_spread(mechanism) / 0.5,
            "ranges": lambda: (
                questions.anywhere_spread(mechanism) / (0.25 if self._joined else 0.5)
            ),
            "means": lambda: questions.relative_mean_spread(mechanism),
            "quantiles": lambda: questions.quartile_spread(mechanism),
            "classes": lambda: questions.class_spread(mechanism),
        }
        return ways[self.purpose]()

    @property
    def _joined(self) -> bool:
        return self.questions.joins_numbers

    @property
    def _together(self) -> int:
        """How many columns an answer is about that is not one of numbers."""
        return {"itemsets": self.length, "pairs": 2, "classes": 2}.get(self.purpose, 1)

    def error(self, mechanism: Mechanism, rows: int) -> float:
        return self.spread(mechanism) / math.sqrt(rows)

    def option(
        self,
        name: str,
        mechanism: Mechanism,
        rows: int,
        wanted: float,
        options: Mapping[str, str] | None = None,
    ) -> Offer:
        questions, root = self.questions, math.sqrt(rows)
        spread = self.spread(mechanism)
        if not math.isfinite(spread):
            raise Unanswerable(f"tells nothing of {self.words.rstrip(',')}")
        lengths = range(1, min(LENGTHS, questions.longest) + 1)
        figures = [questions.itemset_figures(mechanism, length) for length in lengths]
        return Offer(
            name,
            mechanism,
            rows,
            supports=tuple(each / root for each, _ in figures),
            conditions=tuple(condition for _, condition in figures),
            count=questions.range_spread(mechanism) * root,
            means={
                column.name: questions.mean_spread(mechanism, column) / root
                for column in questions.numbers
                if has_mean(mechanism, column)
            },
            error=spread / root,
            people=float(math.ceil((spread / wanted) ** 2)),
            options=options or {},
            by_model=not self.unaided(mechanism, rows),
            modelled=tuple(not questions.unaided(mechanism, each, rows) for each in lengths),
        )

    def unaided(self, mechanism: Mechanism, rows: int) -> bool:
        """Whether the reports tell what is asked for by themselves, without a model."""
        sets = self.questions.sets(self.purpose) or None
        return self.questions.unaided(mechanism, self._together, rows, sets)


def _least(make: Make, asking: _Asking, rows: int, wanted: float) -> Mechanism:
    """The mechanism of the least epsilon whose error is within the wanted one, to within one per
    cent of epsilon.

    On logarithmic scales the error is nearly straight in epsilon, so the search follows the line
    through both ends.
    """
    mechanism = make(Guarantee.from_epsilon(MOST_EPSILON))
    above, below = math.inf, asking.error(mechanism, rows) / wanted
    if below > 1:
        raise PrivacyError(
            f"an error of {100 * wanted:.3g} % cannot be reached from {rows:,} people at any gamma"
        )
    low, high = LEAST_EPSILON, MOST_EPSILON
    for step in range(STEPS):
        if high <= low * 1.01:
            break
        middle = _between(low, high, above, below, halve=step % 3 == 0)
        found, ratio = _tried(make, asking, rows, wanted, middle)
        if found is not None and ratio <= 1:
            high, below, mechanism = middle, ratio, found
        else:
            low, above = middle, ratio
    return mechanism


def _between(low: float, high: float, above: float, below: float, *, halve: bool) -> float:
    """Where the line through both errors, on logarithmic scales, meets 1; the middle where there is
    no line.
    """
    if halve or not math.isfinite(above) or below <= 0:
        return math.sqrt(low * high)
    # Aim a little to the safe side: an end that just reaches the error closes the bracket from
    # above.
    part = min(0.98, max(0.02, math.log(above) / (math.log(above) - math.log(below)) + 0.002))
    return low * (high / low) ** part


def _tried(
    make: Make, asking: _Asking, rows: int, wanted: float, epsilon: float
) -> tuple[Mechanism | None, float]:
    try:
        mechanism = make(Guarantee.from_epsilon(epsilon))
    except SfumatoError:
        return None, math.inf
    return mechanism, asking.error(mechanism, rows) / wanted


def _nothing_fits(
    domain: Domain,
    guarantee: Guarantee | None,
    wanted: float,
    asking: _Asking,
    refused: dict[str, str],
) -> SfumatoError:
    """The one line that says which mechanism comes nearest and what would do."""
    if guarantee is None:
        return PrivacyError(
            f"no mechanism gives {asking.words} to within {100 * wanted:.3g} % from these people",
            hint="ask for a larger error, a larger support or more people",
            refused=refused,
        )
    nearest = _nearest(list(candidates(domain)), guarantee)
    if nearest is None:
        return PrivacyError(
            f"no mechanism can promise anything for this schema: {_reasons(refused)}",
            refused=refused,
        )
    name, found = nearest
    return PrivacyError(
        f"no mechanism can meet {guarantee} on this domain of {len(domain.axes)} columns",
        hint=f"{name} comes nearest, with {found}; use that, or fewer columns or items",
        refused=refused,
    )


def _nearest(
    makers: Sequence[tuple[str, Make]], guarantee: Guarantee
) -> tuple[str, Guarantee] | None:
    """The mechanism that exists at the smallest gamma above the one asked for."""
    for factor in (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0):
        for name, make in makers:
            try:
                return name, make(Guarantee.from_epsilon(guarantee.epsilon * factor)).guarantee
            except SfumatoError:
                continue
    return None


def _reasons(refused: dict[str, str]) -> str:
    return listing((f"{name}: {reason}" for name, reason in refused.items()), most=2)


def _length(questions: Demand, length: int | None) -> int:
    longest = questions.longest
    if length is not None:
        check_count("length", length, least=1)
    if length is not None and not 1 <= length <= longest:
        raise ParameterError(f"length={length} is no itemset of this schema; use 1 to {longest}")
    return min(2, longest) if length is None else length


def _check_pairs(pairs: Any) -> None:
    """Refuse what is no list of pairs of names."""
    listed = isinstance(pairs, list | tuple)
    if not listed or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise ParameterError(
            f"pairs={shown(pairs)} is no list of pairs of columns",
            hint='as in pairs=[("age", "smoker")]',
        )


def _check(
    domain: Domain,
    rows: int,
    guarantee: Guarantee | None,
    wanted_error: float | None,
    at_support: float,
    purpose: str,
    rho1: float,
) -> None:
    check_count("rows", rows, least=1)
    check_strictly_between("at_support", at_support)
    check_strictly_between("rho1", rho1)
    if wanted_error is not None:
        check_strictly_between("wanted_error", wanted_error)
    if not isinstance(purpose, str) or purpose not in PURPOSES:
        raise ParameterError(
            f"cannot plan for {shown(purpose)} ({listing(PURPOSES)})",
            hint=near_miss(purpose, PURPOSES),
        )
    if guarantee is None and wanted_error is None:
        raise ParameterError(
            "nothing is asked for",
            hint="give a guarantee (gamma, epsilon, or rho1 and rho2), a wanted error, or both",
        )
    if guarantee is not None and guarantee.gamma == 1:
        raise ParameterError(
            "gamma=1 lets nothing through: every report is equally likely whatever the truth; "
            "use gamma > 1"
        )
