"""Planning: which mechanisms can meet a guarantee or reach an accuracy, their parameters, and what
is to be expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class, round_design
from sfumato.mechanisms.windows import is_asked
from sfumato.one_thread import one_thread
from sfumato.plan.candidates import Candidate, Excluded, Plan
from sfumato.plan.sample_sizes import SampleSizes
from sfumato.plan.workload import (
    OF_NUMBERS,
    PURPOSES,
    USELESS,
    PlanWorkload,
    has_mean,
    people_for,
    predict,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_count, check_strictly_between
from sfumato.view import Chart, Panel, Series

BASKETS = "item-set"  # by which rounds of baskets are asked
LENGTHS = 6  # itemset lengths shown at most
USUAL_ERROR = 0.05  # the error for which people are counted where none is wanted
MOST_EPSILON = 40.0  # beyond this a report is the truth for all purposes
LEAST_EPSILON = 0.01
HOPELESS = 1e5  # times the least error drawn: a line that never comes below is left out
STEPS = 12  # of the search for the least epsilon, at most

Make = Callable[[Guarantee], Mechanism]


@checked
@one_thread()
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
    workload = PlanWorkload(domain, at_support, target, tuple(pairs), purpose, length)
    _check_length(workload)
    wanted = USUAL_ERROR if wanted_error is None else wanted_error
    suited = workload.suited
    options, refused = [], {}
    for name, make in candidates(domain, suited):
        try:
            mechanism = (
                make(guarantee) if guarantee is not None else _least(make, workload, rows, wanted)
            )
        except SfumatoError as error:
            refused[name] = str(error)
            continue
        try:
            options.append(candidate(workload, name, mechanism, rows, wanted, suited.get(name, {})))
        except EstimationError as error:  # it can be made, and not answer this
            refused[name] = str(error)
    if not options:
        raise _nothing_fits(guarantee, wanted, workload, refused)
    options.sort(key=lambda o: o.error if guarantee is not None else float(o.guarantee.epsilon))
    return Plan(
        tuple(options),
        refused,
        rows,
        purpose,
        workload.words,
        at_support,
        wanted,
        guarantee,
        wanted_error is not None,
        rho1,
        _sample_sizes(options[0], workload),
        _once(options[0], workload),
        _excluded(options[0], workload, guarantee),
    )


def _excluded(
    best: Candidate, workload: PlanWorkload, guarantee: Guarantee | None
) -> Excluded | None:
    """What the numbers would get without the columns that nothing can be asked about beside them,
    or else alone, where no answer is usable.
    """
    domain, purpose = workload.domain, workload.purpose
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
            return Excluded(others, found)
    return None


def _once(best: Candidate, workload: PlanWorkload) -> Candidate | None:
    """What asking everyone once would tell of single items, where itemsets are best asked for in
    rounds.
    """
    if not best.mechanism.in_rounds or workload.purpose != "itemsets":
        return None
    if workload.together == 1:  # then both are compared
        return None
    once = mechanism_class(BASKETS).promising(best.guarantee, best.mechanism.domain)
    return candidate(replace(workload, length=1), once.name, once, best.rows, USUAL_ERROR)


def _sample_sizes(best: Candidate, workload: PlanWorkload) -> SampleSizes | None:
    """What to expect of the best option, where people are dealt what they are asked about and
    supports are what is wanted.
    """
    if best.mechanism.together is None or workload.purpose in OF_NUMBERS:
        return None
    return SampleSizes(
        best.mechanism, workload, best.rows, workload.together, workload.sets, best.options
    )


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

    def chart(self, best: Candidate, rows: int) -> Chart:
        """The picture on a page, for so many people."""
        caption = (
            f"The relative error of {self.asked} from {rows:,} people, against epsilon; the ring "
            f"is what was planned, {best.name}; lines that run together lie on one another, wider "
            "below"
        )
        alt = (
            f"Lines that fall as epsilon grows, for {'; '.join(self.drawn)}. {best.name} "
            f"{100 * best.error:.3g} % at epsilon {best.guarantee.epsilon:.3g}"
        )
        drawn = self.drawn
        lines = sorted(drawn, key=lambda names: best.name not in names.split(", "))
        errors = Panel(
            "lines",
            self.epsilon,
            [Series(name, drawn[name]) for name in lines],
            quantity="relative standard error",
            across="ε = ln γ   (smaller is more private)",
            ring=(best.guarantee.epsilon, best.error),
            log="xy",
            percent=True,
        )
        return Chart(errors, caption, alt)


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
    `chart` draws.
    """
    _check(domain, rows, Guarantee.from_epsilon(min(epsilon)), None, at_support, purpose, 0.05)
    workload = PlanWorkload(domain, at_support, target, tuple(pairs), purpose, length)
    _check_length(workload)
    errors = {
        name: tuple(_error_at(make, workload, rows, value) for value in epsilon)
        for name, make in candidates(domain, workload.suited)
    }
    drawn = {
        name: line for name, line in errors.items() if any(math.isfinite(value) for value in line)
    }
    return PrivacyCurve(tuple(epsilon), drawn, workload.words)


def _error_at(make: Make, workload: PlanWorkload, rows: int, epsilon: float) -> float:
    try:
        error = workload.predict(make(Guarantee.from_epsilon(epsilon)), rows)
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
        yield (
            f"{BASKETS} in rounds",
            lambda promise: round_design(BASKETS).predicted(promise, domain),
        )


def _maker(name: str, domain: Domain, options: Mapping[str, str] | None = None) -> Make:
    # A domain that cannot be binned is refused when the mechanism is made, with the others still
    # planned.
    return lambda guarantee: mechanism_class(name).promising(guarantee, domain, **(options or {}))


def candidate(
    workload: PlanWorkload,
    name: str,
    mechanism: Mechanism,
    rows: int,
    wanted: float,
    options: Mapping[str, str] | None = None,
) -> Candidate:
    """One mechanism with the errors to be expected from so many people."""
    functionals = workload.functionals(mechanism, rows)
    error = predict(mechanism, functionals, rows) / workload.scale
    if not math.isfinite(error):
        raise Unanswerable(f"tells nothing of {workload.words.rstrip(',')}")
    lengths = range(1, min(LENGTHS, workload.longest) + 1)
    figures = [workload.itemset_figures(mechanism, length, rows) for length in lengths]
    unaided = workload.unaided(mechanism, workload.together, rows, workload.sets or None)
    return Candidate(
        name,
        mechanism,
        rows,
        supports=tuple(each for each, _ in figures),
        conditions=tuple(condition for _, condition in figures),
        count=predict(mechanism, workload.counts(mechanism), rows) * rows,
        means={
            column.name: predict(mechanism, [workload.mean(mechanism, column)], rows)
            for column in workload.numbers
            if has_mean(mechanism, column)
        },
        error=error,
        people=people_for(mechanism, functionals, rows, wanted * workload.scale),
        options=options or {},
        by_model=not unaided or any(each.modelled for each in functionals),
        by_assumption=any(each.is_assumed(mechanism, rows) for each in functionals),
        modelled=tuple(workload.is_modelled(mechanism, each, rows) for each in lengths),
    )


def _least(make: Make, workload: PlanWorkload, rows: int, wanted: float) -> Mechanism:
    """The mechanism of the least epsilon whose error is within the wanted one, to within one per
    cent of epsilon.

    On logarithmic scales the error is nearly straight in epsilon, so the search follows the line
    through both ends.
    """
    mechanism = make(Guarantee(math.exp(MOST_EPSILON)))
    above, below = math.inf, workload.predict(mechanism, rows) / wanted
    if below > 1:
        raise PrivacyError(
            f"an error of {100 * wanted:.3g} % cannot be reached from {rows:,} people at any gamma"
        )
    low, high = LEAST_EPSILON, MOST_EPSILON
    for step in range(STEPS):
        if high <= low * 1.01:
            break
        middle = _between(low, high, above, below, halve=step % 3 == 0)
        try:
            found = make(Guarantee(math.exp(middle)))
        except SfumatoError:
            low, above = middle, math.inf
            continue
        ratio = workload.predict(found, rows) / wanted
        if ratio <= 1:
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


def _nothing_fits(
    guarantee: Guarantee | None, wanted: float, workload: PlanWorkload, refused: dict[str, str]
) -> SfumatoError:
    """The one line that says which mechanism comes nearest and what would do."""
    if guarantee is None:
        return PrivacyError(
            f"no mechanism gives {workload.words} to within {100 * wanted:.3g} % from these people",
            hint="ask for a larger error, a larger support or more people",
            refused=refused,
        )
    domain = workload.domain
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


def _check_length(workload: PlanWorkload) -> None:
    length, longest = workload.length, workload.longest
    if length is None:
        return
    check_count("length", length, least=1)
    if length > longest:
        raise ParameterError(f"length={length} is no itemset of this schema; use 1 to {longest}")


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
