"""Plan: the mechanisms that can meet a wish, side by side, with what each promises and how well it
would answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from os import fspath
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple
from warnings import warn

from sfumato.arguments import checked
from sfumato.domain import Items
from sfumato.errors import listing
from sfumato.mechanisms.base import Mechanism
from sfumato.model.fitted import order_for
from sfumato.plan.prediction import Item, itemset_variance
from sfumato.plan.sample_sizes import SampleSizes
from sfumato.plan.workload import ASSUMPTIONS, USELESS
from sfumato.printable import json_number, upwards
from sfumato.privacy.guarantee import Gamma, Guarantee, rounded_up
from sfumato.renderers.frames import json_value
from sfumato.result import Result, Shown
from sfumato.view import Chart, ColumnView, Panel, Series, TableView, View

EMPTY_PROMISE = 0.95  # a worst posterior above this is as good as knowing


@dataclass(frozen=True, repr=False)
class Candidate(Shown):
    """One mechanism: its parameters, its promise, and the errors to be expected from a number of
    people.
    """

    name: str
    mechanism: Mechanism
    rows: int
    supports: tuple[float, ...]  # standard error of an itemset's support, by length from 1
    conditions: tuple[float, ...]  # worst condition number of the reconstruction, by length from 1
    count: float  # standard error of a range count, in people
    means: Mapping[str, float]  # standard error of each number's mean, in its unit
    error: float  # of what is asked for, as a share
    people: float  # how many it takes for the wanted error
    options: Mapping[str, str] = field(default_factory=dict)  # that the mechanism was made with
    by_model: bool = False  # whether what is asked for is a model's answer, not the reports' own
    by_assumption: bool = False  # whether that model can know nothing of some columns together
    modelled: tuple[bool, ...] = ()  # the same of supports, by length from 1

    @property
    def guarantee(self) -> Guarantee:
        """What it promises each respondent."""
        return self.mechanism.guarantee

    @checked
    def command(
        self,
        promise: Guarantee | None = None,
        *,
        data: str | Path = "DATA",
        schema: str | Path | None = "SCHEMA",
        items: str | Path | None = None,
        output: str | Path = "perturbed.parquet",
    ) -> str:
        """What to type to get it, under the promise asked for; no schema where it is the data's
        own, or where baskets are read by the file of their items.
        """
        stated = f"--gamma {_decimal((promise or self.guarantee).gamma)}"
        by = ("--schema", schema) if items is None else ("--items", items)
        read = "" if by[1] is None else f" {by[0]} {quote(fspath(by[1]))}"
        if self.mechanism.in_rounds:
            return _commands(quote(fspath(data)), read, stated)
        given = "".join(f" --{name} {quote(value)}" for name, value in self.options.items())
        return (
            f"sfumato perturb {quote(fspath(data))}{read} --mechanism {self.mechanism.name}{given} "
            f"{stated} -o {quote(fspath(output))}"
        )

    @checked
    def calls(
        self, promise: Guarantee | None = None, *, data: str = "data", schema: str | None = "schema"
    ) -> tuple[str, ...]:
        """The same in Python, by the same schema: what is public is not to be asked about; rounds
        one after the other. Both are as they stand in the call; no schema where it is proposed.
        """
        gamma = _decimal((promise or self.guarantee).gamma)
        by = "" if schema is None else f", schema={schema}"
        if self.mechanism.in_rounds:
            return _calls(f"{data}{by}", f"gamma={gamma}")
        if not self.options:
            return (f'sf.perturb({data}, "{self.mechanism.name}", gamma={gamma}{by})',)
        domain = f"sf.propose_schema({data})" if schema is None else schema
        domain = f"sf.Domain.load({domain})" if domain.startswith('"') else domain
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        kind = type(self.mechanism).__name__
        made = f"sf.{kind}.promising(sf.Guarantee({gamma}), {domain}{given})"
        return (f"sf.perturb({data}, {made}{by})",)

    def view(self) -> View:
        """What it promises, how well it would answer, and what to type for it."""
        return View(
            f"{self.name} for {self.rows:,} people: {self.guarantee}, relative error "
            f"{_percent(self.error)}",
            facts=[("people for the wanted error", _people(self.people) if self.people else None)],
            command=self.command(),
            notes=self.mechanism.caveats,
        )

    def warning(self) -> str | None:
        """What is said before noise is drawn where the answer would be useless; else None."""
        if self.error <= USELESS:
            return None
        if self.mechanism.in_rounds:
            return basket_warning(self.mechanism, self.rows)
        together = len(self.supports) > 1
        off = _figures(100 * self.supports[together])
        what, about = (
            ("two values together", " about columns together") if together else ("a value", "")
        )
        least = self.supports[together] / USELESS  # what is told to within half of itself
        below = f" below {_percent(least)} of the people" if least < 1 else ""
        needed = self.rows * (self.error / USELESS) ** 2
        known = needed < 1e12 and not self.by_model
        people = f"; {_people(needed)} people would do" if known else ""
        return (
            f"with {self.rows:,} people the support of {what} is off by {off} points: "
            f"no answer{about}{below} will be usable"
            f"{people}; drop columns, make cells coarser, or promise less (a larger gamma)"
        )

    @checked
    def to_dict(self, rho1: float = 0.05, command: str | None = None) -> dict[str, Any]:
        """The option as JSON data; what cannot be had is null."""
        said: dict[str, Any] = json_value(
            {
                "name": self.name,
                "mechanism": self.mechanism.name,
                "parameters": self.mechanism.parameters(),
                "gamma": rounded_up(self.guarantee.gamma),
                "epsilon": self.guarantee.epsilon,
                "worst_posterior": {"rho1": rho1, "rho2": self.guarantee.worst_posterior(rho1)},
                "condition": self.conditions,
                "stderr": {"support": self.supports, "count": self.count, "mean": self.means},
                "error": self.error,
                "answered_by": {
                    "asked": _answered(self.by_model, self.by_assumption),
                    "support": [_answered(modelled) for modelled in self.modelled],
                },
                "people": self.people,
                "command": command or self.command(),
                "caveats": self.mechanism.caveats,
            }
        )
        return said


def _commands(data: str, read: str, promise: str) -> str:
    """What to type for all rounds, in the shell's words."""
    start = f"sfumato perturb {data}{read} --round"
    return (
        f"{start} 1 {promise} -o round1.parquet && "
        f"{start} 2 --after round1.parquet -o round2.parquet && "
        f"{start} 3 --after round1.parquet --after round2.parquet -o round3.parquet"
    )


def _calls(data: str, promise: str) -> tuple[str, ...]:
    """The same in Python."""
    return (
        f"one = sf.perturb({data}, round=1, {promise})",
        f"two = sf.perturb({data}, round=2, after=one)",
        f"three = sf.perturb({data}, round=3, after=[one, two])",
    )


def basket_warning(mechanism: Mechanism, rows: int, at_support: float = 0.02) -> str | None:
    """What is said before noise is drawn where reports of baskets would tell nothing of an itemset
    of this support: of two items in rounds, and of one where everyone is asked once; else None.
    """
    in_rounds, law = mechanism.in_rounds, mechanism.symbol_law
    assert law is not None
    attribute = next(each for each in mechanism.domain.private if isinstance(each, Items))
    length = min(1 + in_rounds, attribute.size)
    items = [Item(attribute.name, place) for place in range(length)]
    each = itemset_variance(mechanism, items, [at_support ** (1 / length)] * length)
    off = math.sqrt(each / rows)
    if off / at_support <= USELESS:
        return None
    what = "an item" if length == 1 else "two items together"
    what = "a candidate" if any(len(each) > 1 for each in law.itemsets) else what
    below = f" below {_percent(off / USELESS)} of the people" if off < USELESS else ""
    return (
        f"with {rows:,} people the support of {what} is off by {_figures(100 * off)} points"
        f"{' even in rounds' if in_rounds else ''}: no answer{below} will be usable; "
        f"{_people(rows * (off / at_support / USELESS) ** 2)} people would do for "
        f"{_percent(at_support)}, or promise less (a larger gamma)"
    )


class Excluded(NamedTuple):
    """What would do for the numbers of a schema, were some other columns not asked about."""

    others: tuple[str, ...]  # private columns that are in the way
    best: Candidate

    def __str__(self) -> str:
        it = "it" if len(self.others) == 1 else "them"
        return (
            f"of the rest {self.best.name} answers with an error of {_percent(self.best.error)}: "
            f"leave {listing(self.others)} out of the schema, or make {it} public, or ask other "
            f"people about {it}"
        )


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """The mechanisms that can meet a guarantee or reach an accuracy, best first, and why the others
    cannot.
    """

    options: tuple[Candidate, ...]
    refused: Mapping[str, str]  # mechanism -> why
    rows: int
    purpose: str
    asked: str  # what `error` is an error of
    at_support: float
    wanted_error: float
    guarantee: Guarantee | None
    accuracy_asked: bool
    rho1: float = 0.05
    sample_sizes: SampleSizes | None = None  # where a questionnaire is best
    once: Candidate | None = (
        None  # one question to everyone, of single items, where rounds are best
    )
    excluded: Excluded | None = None  # where numbers are asked about and nothing is usable
    file: str | None = None  # the data or the schema that was planned for, where it is a file
    items: Path | None = None  # the file of the items that baskets may hold
    # In Python; no schema where it is proposed. None where a shell asks.
    called: tuple[str, str | None] | None = ("data", "schema")

    @property
    def outlook(self) -> SampleSizes | None:
        """The former name of `sample_sizes`."""
        warn("Plan.outlook is now Plan.sample_sizes", DeprecationWarning, stacklevel=2)
        return self.sample_sizes

    @property
    def aside(self) -> Excluded | None:
        """The former name of `excluded`."""
        warn("Plan.aside is now Plan.excluded", DeprecationWarning, stacklevel=2)
        return self.excluded

    @property
    def best(self) -> Candidate:
        """The option with the smallest error, or the strongest promise where only an accuracy was
        asked for.
        """
        return self.options[0]

    @property
    def met(self) -> bool:
        """Whether these people suffice for the wanted error with the best option."""
        return self.best.error <= self.wanted_error

    def promise(self) -> str:
        """What the best option promises, in plain words."""
        after = self.best.guarantee.worst_posterior(self.rho1)
        return (
            f"under {self.best.guarantee} someone who believed {_percent(self.rho1)} before sees "
            f"at most {_percent(after, up=True)} after"
        )

    def sentences(self) -> tuple[str, ...]:
        """The plan in plain words: the best choice, its promise, and whether the wish is met."""
        best = self.best
        lines = [
            f"{best.name} answers best: {self.asked} comes with a relative standard error of "
            f"{_percent(best.error)} from {self.rows:,} people",
            self.promise(),
        ]
        left_out = (
            () if self.once else best.mechanism.beyond_prediction
        )  # of rounds it is predicted
        rough = (f"roughly: {said}" for said in left_out)
        said = (*self._usable(), *self._once(), *self._verdict(), *self._modelled())
        return (*lines, *said, *self._rounded(), *rough)

    def _rounded(self) -> tuple[str, ...]:
        """Why an option promises another gamma than the one asked for."""
        if self.guarantee is None or self._promised_alike:
            return ()
        asked = _figures_up(rounded_up(self.guarantee.gamma))
        below = [o.name for o in self.options if self._promised(o)[0] != asked]
        return (f"{listing(below)}: a smaller gamma than asked for is rounding towards privacy",)

    def _once(self) -> tuple[str, ...]:
        """What one question to everyone would tell of baskets, where rounds are listed and it is
        not.
        """
        if self.once is None:
            return ()
        rough = "".join(f"; {said}" for said in self.once.mechanism.beyond_prediction)
        return (
            f"asked once instead ({self.once.name}): single items to within "
            f"{_percent(self.once.error)}, and no pairs{rough}",
        )

    def _modelled(self) -> tuple[str, ...]:
        """What is said where the reports alone do not answer."""
        if not self.best.by_model:
            return ()
        if not self.best.by_assumption:
            return (
                "by model: few are asked about some of these columns together, so a model answers "
                "(--fit), which draws them towards independence",
            )
        few = order_for(self.best.mechanism.domain.private.shape, self.rows) == 1
        why = "people are too few for more than" if few else "no question joins some of"
        told = "single columns" if few else "these columns"
        return (
            f"by assumption: {why} {told}. A model answers (--fit) that takes the columns to be "
            "independent; the error holds if they depend on each other as in generated worlds",
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the figures rest on."""
        own = {
            f"{option.name}: {said}": None
            for option in self.options
            for said in option.mechanism.beyond_prediction
        }
        return (*ASSUMPTIONS, *own)

    def _usable(self) -> tuple[str, ...]:
        """What is said where even the best answer tells nothing."""
        if self.best.error <= USELESS or (self.accuracy_asked and self.guarantee is None):
            return ()
        useless = "not usable: an error above half of what is measured tells nothing"
        if self.sample_sizes is not None:
            remedies = "; or ".join(self.sample_sizes.remedies())
            return ("; ".join(filter(None, (useless, remedies))),)
        if self.excluded is not None:
            return (f"{useless}; {self.excluded}",)
        people = self.rows * (self.best.error / USELESS) ** 2
        baskets = self.best.mechanism.domain.private.baskets
        return (
            f"{useless}. What would do: {'' if baskets else 'fewer columns, coarser cells, '}"
            f"{_people(people)} people, or a weaker promise (a larger gamma)",
        )

    @checked
    def commands(
        self,
        *,
        data: str | Path = "DATA",
        schema: str | Path | None = "SCHEMA",
        items: str | Path | None = None,
    ) -> list[tuple[str, str]]:
        """What to type for each option, with the file that was planned for unless another is
        named.
        """
        named: dict[str, Any] = {"data": data, "schema": schema, "items": items}
        if self.file is not None and named == {"data": "DATA", "schema": "SCHEMA", "items": None}:
            own = self.file.endswith(".toml")
            read = {"data": self.file, "schema": None, "items": self.items}
            named |= {"schema": self.file} if own else read
        return [(option.name, option.command(self.guarantee, **named)) for option in self.options]

    def calls(self) -> tuple[str, ...]:
        """What to call for the best option, with what was planned for."""
        if self.called is None:
            return ()
        data, schema = self.called
        return self.best.calls(self.guarantee, data=data, schema=schema)

    def _verdict(self) -> tuple[str, ...]:
        if not self.accuracy_asked:
            return ()
        wish = f"an error of {_percent(self.wanted_error)}"
        if self.guarantee is None:
            takes = f"{wish} takes at least {self.best.guarantee} with {self.rows:,} people"
            empty = self.best.guarantee.worst_posterior(self.rho1) > EMPTY_PROMISE
            return (
                (takes, "that promises next to nothing: ask more people, or allow a larger error")
                if empty
                else (takes,)
            )
        if self.met:
            return (
                f"{wish} and {self.guarantee} can be had together: {_people(self.best.people)} "
                "suffice",
            )
        nearest = min(self.options, key=lambda option: option.people)
        return (
            f"{wish} and {self.guarantee} cannot be had together from {self.rows:,} people: "
            f"it takes {_people(nearest.people)} ({nearest.name})",
        )

    def _promised(self, option: Candidate) -> tuple[str, ...]:
        return (
            _figures_up(rounded_up(option.guarantee.gamma)),
            _figures_up(option.guarantee.epsilon),
            _percent(option.guarantee.worst_posterior(self.rho1), up=True),
        )

    @property
    def _promised_alike(self) -> bool:
        """Whether all options promise the same, which is then said once, in words."""
        return len({self._promised(option) for option in self.options}) == 1

    def view(self) -> View:
        """All of it: the options, what other columns and people would change, all errors and
        parameters, what to type, why the other mechanisms cannot, and what was assumed.
        """
        sizes = () if self.sample_sizes is None else self.sample_sizes.sentences()
        refused = TableView.of(("not possible", "why"), [*self.refused.items()])
        (best, command), *others = self.commands()
        differing = [(name, line) for name, line in others if line.replace(name, best) != command]
        return View(
            "Which mechanism?",
            self.sentences(),
            charts=(self._chart(),),
            tables=(self._table(self.options),),
            sections=(
                View(
                    words=("to use the first, or another by its name:",),
                    code="\n".join(self.calls()),
                    command=command,
                    tables=(TableView.of(("mechanism", "what to type"), differing),),
                ),
                View(words=sizes, detail=True),
                View(
                    words=(
                        "absolute standard errors: of supports of "
                        f"{100 * self.at_support:.3g} %, in percentage points by length; of a "
                        "range count, in people",
                    ),
                    tables=(self._errors(),),
                    detail=True,
                ),
                View(tables=(self._parameters(),), detail=True),
                View(tables=(refused,), detail=True),
                View(words=[f"assumed: {said}" for said in self.assumptions], detail=True),
            ),
        )

    def brief(self) -> View:
        """What was asked and is promised, the best options, and what to type for the first."""
        said = self.sentences()
        most = max(3, 7 - len(said))  # lines of the table that leave room for all else on a screen
        others = listing([option.name for option in self.options[most:]], most=len(self.options))
        return View(
            words=said,
            tables=(self._table(self.options[:most]),),
            sections=(
                View(
                    words=(*([f"also possible: {others}"] if others else []), "to use the first:"),
                    code="\n".join(self.calls()),
                    command=self.commands()[0][1],
                ),
            ),
        )

    def _table(self, options: Sequence[Candidate]) -> TableView:
        """One line for each option: its promise where they differ, the error of what is asked for,
        drawn on a logarithmic scale, and the people it takes.
        """
        heads = ("gamma", "epsilon", f"{_percent(self.rho1)} becomes")
        gamma, epsilon, becomes = ("", "", "") if self._promised_alike else heads
        promises = [option.guarantee for option in options]
        posteriors = [promise.worst_posterior(self.rho1) for promise in promises]
        promised: dict[str, tuple[str, list[float], Callable[[float], str]]] = {
            "gamma": (gamma, [rounded_up(promise.gamma) for promise in promises], _figures_up),
            "epsilon": (epsilon, [promise.epsilon for promise in promises], _figures_up),
            "worst_posterior": (becomes, posteriors, partial(_percent, up=True)),
        }
        errors = [math.log10(o.error) if o.error > 0 else -math.inf for o in options]
        by = [_answered(option.by_model, option.by_assumption) for option in options]
        people, wanted = [option.people for option in options], _percent(self.wanted_error)
        commands = [line for _, line in self.commands()[: len(options)]]
        return TableView(
            [
                ColumnView("mechanism", [option.name for option in options], field="mechanism"),
                *(
                    ColumnView(head, values, words=words, field=name)
                    for name, (head, values, words) in promised.items()
                ),
                ColumnView(
                    "relative error",
                    errors,
                    words=lambda place: _percent(10**place),
                    ends=[(place, place) for place in errors],
                    mark=math.log10(USELESS),
                ),
                *([ColumnView("answered by", by)] if {*by} - {"reports"} else []),
                ColumnView("", [option.error for option in options], field="error"),
                ColumnView("", [option.count for option in options], field="count_stderr"),
                ColumnView(f"people for {wanted}", people, words=_people, field="people"),
                ColumnView("", commands, field="command"),
            ]
        )

    def _errors(self) -> TableView:
        """Standard errors of supports by itemset length and of a range count; those of a model are
        marked.
        """
        longest = max(len(option.supports) for option in self.options)
        lines = [
            (
                o.name,
                *(
                    _figures(100 * value) + (" (model)" * (modelled and math.isfinite(value)))
                    for value, modelled in zip_longest(o.supports, o.modelled, fillvalue=False)
                ),
                _figures(o.count),
            )
            for o in self.options
        ]
        return TableView.of(("mechanism", *map(str, range(1, longest + 1)), "range"), lines)

    def _parameters(self) -> TableView:
        """The parameters of each option, the errors of means, and the condition numbers by itemset
        length.
        """
        lines = [
            (
                option.name,
                _parameters(option.mechanism.parameters()),
                ", ".join(f"{name} ±{_figures(value)}" for name, value in option.means.items())
                or "–",
                _conditions(option.conditions),
            )
            for option in self.options
        ]
        heads = ("mechanism", "parameters", "errors of means", "condition by length")
        return TableView.of(heads, lines)

    def _chart(self) -> Chart:
        """The options by their relative error, best first."""
        shown = [option for option in self.options if math.isfinite(option.error)]
        names, errors = [option.name for option in shown], [option.error for option in shown]
        relative = Panel(
            "points",
            names,
            [Series("relative error", errors)],
            quantity="relative standard error",
            mark=(USELESS, "of no use beyond"),
            sideways=True,
            log="x",
            percent=True,
        )
        return Chart(relative, "Relative errors")

    @checked
    def to_dict(
        self,
        *,
        data: str | Path = "DATA",
        schema: str | Path | None = "SCHEMA",
        items: str | Path | None = None,
    ) -> dict[str, Any]:
        """The plan as one JSON object."""
        commands = self.commands(data=data, schema=schema, items=items)
        return {
            "rows": self.rows,
            "for": self.purpose,
            "asked": self.asked,
            "at_support": self.at_support,
            "wanted_error": self.wanted_error if self.accuracy_asked else None,
            "people_for_error": self.wanted_error,
            "guarantee": self.guarantee
            and {
                "gamma": json_number(rounded_up(self.guarantee.gamma)),
                "epsilon": self.guarantee.epsilon,
            },
            "met": self.met if self.accuracy_asked else None,
            "mechanisms": [
                option.to_dict(self.rho1, command)
                for option, (_, command) in zip(self.options, commands, strict=True)
            ],
            "refused": dict(self.refused),
            "words": list(self.sentences()),
            "outlook": json_value(self.sample_sizes),
            "assumptions": list(self.assumptions),
        }


def _answered(modelled: bool, assumed: bool = False) -> str:
    return "assumption" if assumed else "model" if modelled else "reports"


def _decimal(gamma: Gamma) -> str:
    """A guarantee as it is typed, rounded towards privacy.

    >>> _decimal(Fraction(19)), _decimal(Fraction(40, 3))
    ('19', '13.333333')
    """
    if not math.isfinite(gamma):
        return "inf"
    scaled = math.floor(Fraction(gamma) * 10**6)
    return f"{scaled // 10**6}.{scaled % 10**6:06d}".rstrip("0").rstrip(".")


def _percent(share: float, *, up: bool = False) -> str:
    """A share in per cent with three figures; rounded up where rounding down would flatter."""
    if not math.isfinite(share):
        return "–"
    value = 100 * share
    if up and 1 <= value < 99.9:
        value = upwards(value, 3)
    return f"{_figures(value)} %"


def _figures_up(value: float) -> str:
    """A figure of a promise, which must not look better than it is."""
    return _figures(upwards(value, max(3, len(f"{value:.0f}")) if value < 1e6 else 2))


def _figures(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 1e6:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _conditions(found: Sequence[float]) -> str:
    """Condition numbers by length, said once where they are all alike or none is known."""
    words = [_figures(value) for value in found]
    return words[0] if len({*words}) == 1 else ", ".join(words)


def _parameters(given: Mapping[str, Any]) -> str:
    """The parameters of a mechanism by their names."""
    return ", ".join(f"{name} {_parameter(value)}" for name, value in given.items())


def _parameter(value: Any) -> str:
    """A parameter as people write it: fractions, which are exact, to four figures."""
    if isinstance(value, Mapping):
        same = {_parameter(entry) for entry in value.values()}
        if len(value) > 1 and len(same) == 1:
            return same.pop()
        return ", ".join(f"{name} {_parameter(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return str(len(value)) if len(value) > 3 else "; ".join(map(_parameter, value))
    if isinstance(value, str) and value.replace("/", "").isdigit():
        return f"{float(Fraction(value)):.4g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _people(count: float) -> str:
    if not math.isfinite(count):
        return "–"
    return f"{count:,.0f}" if count < 1e12 else f"{count:.1e}"
