"""Verbs: the commands as Python functions, in the same words, on files, frames and sources alike.

Each reads what it is given, calls one function of the layers below, and returns its result.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.audit.audit_result import Audit
from sfumato.audit.auditing import audit_release
from sfumato.domain import Domain
from sfumato.engines import open_source
from sfumato.engines.several import RoundSeries
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import mechanism_class
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.classifier import Classifier
from sfumato.mine.comparison import Comparison
from sfumato.mine.comparison import compare as compare_on
from sfumato.mine.cube.cube_result import CubeResult
from sfumato.mine.cube.query import query as ask
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.mine.regression import Regression
from sfumato.mine.regression import regress as regress_on
from sfumato.mine.tree import DecisionTree
from sfumato.model.fitted import fit_release, fit_rounds
from sfumato.model.format import is_model
from sfumato.model.model import Model
from sfumato.model.model_file import open_model
from sfumato.plan.candidates import Plan
from sfumato.plan.planning import plan_release
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.publish.owned import framed
from sfumato.randomness import Keystream, drawing
from sfumato.release import Exact, Release, source_of
from sfumato.release import open as open_release
from sfumato.release import perturb as perturb_records
from sfumato.rounds import MarkedRound, RoundWanted, Spelling
from sfumato.source import Source
from sfumato.table import (
    Table,
    check_named,
    perturb_table,
    propose_schema,
    read,
    read_items,
    read_names,
    read_perturbed,
    reader_of,
)
from sfumato.table.baskets import BasketReader
from sfumato.table.formats import SUFFIXES
from sfumato.table.reblurring import reblur as blur_again
from sfumato.table.shuffling import read_order

Schema = Domain | str | Path | None
MODELS: Mapping[str, Callable[..., Classifier]] = {"tree": DecisionTree, "bayes": NaiveBayes}
WAYS = "give gamma=19, epsilon=2.944 or rho1=0.05 with rho2=0.5"


@checked
def plan(
    data: Any,
    rows: int | None = None,
    *,
    gamma: Gamma | None = None,
    epsilon: float | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    purpose: str | None = None,
    wanted_error: float | None = None,
    at_support: float = 0.02,
    length: int | None = None,
    target: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> Plan:
    """The mechanisms for these columns and people, best first: under a guarantee (one way), for a
    wanted error, or both. `data` is a schema (a `Domain` or its .toml file) or data whose schema is
    proposed; `rows` is how many people will report, unless said as many as the data hold. They are
    judged by itemsets unless a `purpose` is given, or a `target`, which is for classes.

    >>> coins = {"first": ["heads", "tails"], "second": ["tails", "heads"]}
    >>> plan(coins, 10_000, gamma=9).best.name
    'gamma-diagonal'
    """
    domain = _domain(data)
    if rows is None:
        if isinstance(data, Domain) or _is_schema(data):
            raise ParameterError("a schema does not say how many people report", hint="give rows")
        rows = as_truth(data, domain).rows
    found = plan_release(
        domain,
        rows,
        guarantee=promised(gamma, epsilon, rho1, rho2),
        purpose=_purpose(purpose, target),
        wanted_error=wanted_error,
        at_support=at_support,
        length=length,
        target=target,
        pairs=pairs,
        rho1=0.05 if rho1 is None else rho1,
    )
    file = str(data) if isinstance(data, str | Path) else None
    return replace(found, file=file, called=_called(data))


def _called(data: Any) -> tuple[str, str | None]:
    """What was planned for as it stands in a call: the data, and their schema if it was given."""
    if isinstance(data, Domain):
        return "data", "schema"
    if isinstance(data, str | Path):
        named = json.dumps(str(data), ensure_ascii=False)
        return ("data", named) if _is_schema(data) else (named, None)
    return "data", "data.domain" if isinstance(data, Table | Source) else None


@checked
def perturb(
    records: Any,
    mechanism: Mechanism | str | None = None,
    rng: Keystream | None = None,
    *,
    schema: Schema = None,
    gamma: Gamma | None = None,
    epsilon: float | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    purpose: str | None = None,
    target: str | None = None,
    copies: int = 1,
    keep_order: bool = False,
    items: str | Path | None = None,
    round: int | None = None,
    after: Any = (),
    find: int | None = None,
) -> Release:
    """A release of records (a file, a frame or a table), perturbed by a mechanism, by one that is
    named and given a guarantee or, where only a guarantee is given, by the plan's best for the
    purpose: itemsets, or classes where a target to be predicted is given. `items` is a file of the
    items that baskets may hold.

    The noise is drawn once, from secure randomness unless `rng` is given.

    With `round=1` 40 % of the people are asked, for any item of their baskets, or by `"ranges"`
    about one number; `round=2, after=` the release of round 1, best its file, asks others by what
    those said, and `round=3, after=[…, …]` the rest of the baskets' people. `find` is how many
    itemsets of largest support the rounds look for. A round that was saved is not asked again of
    the people of the same file.

    >>> from sfumato.randomness import seeded
    >>> people = {"smoker": ["no", "no", "yes", "no"] * 50}
    >>> perturb(people, gamma=19, rng=seeded(1)).mechanism.guarantee.gamma <= 19
    True
    >>> perturb({"age": [*range(18, 90)] * 3}, "square-wave", gamma=19).mechanism.name
    'square-wave'
    """
    guarantee = promised(gamma, epsilon, rho1, rho2)
    wanted = _wanted_round(round, after, find, mechanism, guarantee, copies, records)
    if wanted is not None:
        _check_unplanned(purpose, target)
        truth = as_truth(_given(records, schema, items)).table
        return _perturb_round(truth, wanted, _where(records), drawing(rng), keep_order)
    _check_mechanism(mechanism, guarantee)
    if mechanism is not None and target is not None:
        raise ParameterError(
            "a mechanism is given, so that no plan is asked for a target",
            hint="give a guarantee in place of the mechanism, or leave the target out",
        )
    purpose = _purpose(purpose, target)
    rng = drawing(rng)
    given = _given(records, schema, items)
    if not isinstance(mechanism, Mechanism):
        assert guarantee is not None
        guarantee.check_finite()
        given = as_truth(given).table
        if mechanism is None:
            rows = max(given.rows, 1)
            planned = plan_release(
                given.domain, rows, guarantee=guarantee, purpose=purpose, target=target
            )
            mechanism = planned.best.mechanism
        else:
            mechanism = mechanism_class(mechanism).promising(guarantee, given.domain)
    return perturb_records(given, mechanism, rng, copies=copies, keep_order=keep_order)


@checked
def reblur(
    release: Any,
    *,
    gamma: Gamma | None = None,
    epsilon: float | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    rng: Keystream | None = None,
) -> Release:
    """A blurrier copy of a release (its file, or the release itself): for further readers, without
    true records and without new budget. For readers who may see less still, blur the copy.

    >>> from sfumato.randomness import seeded
    >>> people = {"smoker": ["no", "no", "yes", "no"] * 50}
    >>> reblur(perturb(people, "gamma-diagonal", gamma=19, rng=seeded(1)), gamma=5).mechanism.gamma
    Fraction(5, 1)
    """
    guarantee = promised(gamma, epsilon, rho1, rho2)
    if guarantee is None:
        raise ParameterError("no privacy level given for the copy", hint=WAYS)
    reports = release.table if isinstance(release, Release) else read_perturbed(release)
    return Release.of(blur_again(reports, guarantee, rng))


def _given(records: Any, schema: Schema, items: str | Path | None) -> Any:
    """The records, read where a schema or their items are named."""
    given: Any = records.table if isinstance(records, Exact) else as_frame(records)
    if schema is not None and items is not None:
        raise ParameterError(
            "schema and items both say what baskets may hold", hint="give one of them"
        )
    if isinstance(given, Table) or (schema is None and items is None):
        return given
    return read(given, _domain(schema) if items is None else _universe(given, items))


def _universe(records: Any, items: str | Path) -> Domain:
    """The items that a file names, for baskets in a file."""
    reader = reader_of(records) if isinstance(records, str | Path) else None
    if reader is None or not reader.baskets:
        raise ParameterError("items is for basket files", hint="use schema for other records")
    return read_items(items, named=not isinstance(reader, BasketReader))


def _wanted_round(
    number: int | None,
    after: Any,
    find: int | None,
    mechanism: Any,
    guarantee: Guarantee | None,
    copies: int,
    records: Any,
) -> RoundWanted | None:
    """The round that is asked for, if any."""
    if number is not None and isinstance(mechanism, Mechanism):
        raise ParameterError(
            f"rounds make their own mechanisms, and {mechanism.name} is given",
            hint="name it, as in mechanism='ranges', or leave it out for baskets; give gamma=19",
        )
    return RoundWanted.of(
        number,
        after=tuple(after) if isinstance(after, list | tuple) else (after,),
        find=find,
        mechanism=mechanism,
        guarantee=guarantee,
        copies=copies,
        spell=Spelling(),
        data=records,
    )


def _check_unplanned(purpose: str | None, target: str | None) -> None:
    if purpose is not None or target is not None:
        raise ParameterError(
            "what a round asks is for itemsets, or for ranges: no plan is asked",
            hint="leave the purpose and the target out",
        )


def _perturb_round(
    truth: Table, wanted: RoundWanted, where: str, rng: Keystream, keep_order: bool
) -> Release:
    """One round: what its people are asked follows from those before it."""
    mechanism, turn = wanted.asked(truth.domain, lambda: truth.rows, where, rng)
    release = Release.of(perturb_table(truth, mechanism, rng, keep_order=keep_order, turn=turn))
    if wanted.marked is None:
        return release
    return MarkedRound(release.counter, release.provenance, wanted.marked)


def _where(records: Any) -> str:
    """How messages call these records."""
    return f"'{records}'" if isinstance(records, str | Path) else "this table"


@checked
def fit(data: Any, *, order: int = 3) -> Model:
    """One joint model fitted to all reports of a release (a file, a URL or a `Release`). Both
    rounds of ranges are listed: `fit(["round1.parquet", "round2.parquet"])`, or the releases.

    >>> from sfumato.randomness import seeded
    >>> people = {"smoker": ["no", "no", "yes", "no"] * 50, "sex": ["f", "m"] * 100}
    >>> fit(perturb(people, gamma=19, rng=seeded(1))).marginal(["smoker", "sex"]).value.shape
    (2, 2)
    """
    if _are_several(data):
        return fit_rounds([as_release(each) for each in data])
    return fit_release(as_release(data), order)


@checked
def mine(
    data: Any,
    min_support: float | None = None,
    *,
    schema: Schema = None,
    names: str | Path | Mapping[Any, str] | None = None,
    **options: Any,
) -> Itemsets:
    """The frequent itemsets of a release or of true data: a file, a URL, a frame, lists of items or
    a source. Rounds of one series are listed: `mine(["round1.parquet", "round2.parquet"], top=30)`,
    or the releases themselves. `names` calls items by name: a file of lines such as `24,milk`, or a
    dictionary. The options are those of `frequent_itemsets`; `association_rules` goes on from here.

    >>> found = mine([["tea", "milk"], ["tea"], ["tea", "jam"]], 0.9)
    >>> found.items
    [('tea',)]
    >>> mine([[24, 7], [24]], 0.9, names={24: "milk"}).items
    [('milk',)]
    """
    _check_options("mine", frequent_itemsets, options)
    source = as_rounds(data, schema) if _are_several(data) else as_source(data, schema)
    called = None if names is None else _names(names)
    found = frequent_itemsets(source, min_support, **options)
    if called is None:
        return found
    check_named("names", source.domain, called)
    return found.named(called)


def _names(names: str | Path | Mapping[Any, str]) -> dict[str, str]:
    if not isinstance(names, Mapping):
        return read_names(names)
    return {str(item): str(name) for item, name in names.items()}


@checked
def query(data: Any, sql: str, *, method: str = "invert", schema: Schema = None) -> CubeResult:
    """The answer to one SELECT of aggregates over a release or true data: a file, a URL, a frame or
    a source. Each number comes with its standard error; see `sfumato.mine.cube.query` for the SQL.

    >>> people = {"smoker": ["no", "no", "yes", "no"]}
    >>> query(people, "SELECT COUNT(*) AS n FROM t WHERE smoker = 'yes'").to_pandas()["n"].item()
    1
    """
    if not isinstance(sql, str):
        raise ParameterError(
            f"a question is SQL text, not a {type(sql).__name__}",
            hint='as in "SELECT smoker, COUNT(*) FROM t GROUP BY smoker"',
        )
    return ask(as_source(data, schema), sql, method=method)


@checked
def regress(
    data: Any,
    formula: str,
    *,
    family: str | None = None,
    reference: Mapping[str, str] | None = None,
    rows_fixed: bool = False,
    schema: Schema = None,
) -> Regression:
    """A regression over a release, a model or true data: `"y ~ a + b + a:b"`, logit for a yes/no,
    linear for a number, or as the `family` says; `"y=value ~ …"` names what counts as yes. C(x)
    takes a number by contrasts of its bins, score(x) a category by ascending numbers; `reference`
    names the value that a column's others are compared with. The errors include that the people
    are a sample, unless `rows_fixed`.

    >>> people = {"ill": ["no", "yes"] * 40, "smoker": ["no", "no", "no", "yes", "yes"] * 16}
    >>> regress(people, "ill ~ smoker").names
    ('intercept', 'smoker=yes')
    """
    source = as_source(data, schema)
    return regress_on(source, formula, family=family, reference=reference, rows_fixed=rows_fixed)


@checked
def compare(
    data: Any,
    by: str,
    of: str,
    *,
    power: float | None = None,
    level: float = 0.95,
    rows_fixed: bool = False,
    schema: Schema = None,
) -> Comparison:
    """Groups compared over a release, a model or true data: shares of the values of a column, or
    the means of a number, with tests of independence, differences (Holm's correction for many),
    ratios and odds ratios. `power` is a difference: in how many campaigns like this one it would
    have been seen. The errors include that the people are a sample, unless `rows_fixed`.

    >>> people = {"sex": ["f", "m"] * 50, "smoker": ["no", "no", "no", "yes"] * 25}
    >>> compare(people, "sex", "smoker").independence.df
    1
    """
    source = as_source(data, schema)
    return compare_on(source, by, of, power=power, level=level, rows_fixed=rows_fixed)


@checked
def classify(
    data: Any,
    target: str,
    *,
    model: str = "tree",
    features: Sequence[str] | None = None,
    schema: Schema = None,
    **options: Any,
) -> Classifier:
    """A classifier of the target from reconstructed counts: a tree or naive Bayes, fitted to a
    release or true data; its `predict` and `quality` take records.

    >>> days = {"rain": ["no", "yes", "no", "yes"] * 50, "umbrella": ["no", "yes"] * 100}
    >>> classify(days, "umbrella").predict({"rain": ["yes", "no"]}).tolist()
    ['yes', 'no']
    """
    if not isinstance(model, str) or model not in MODELS:
        raise ParameterError(
            f"no model {shown(model)} ({listing(MODELS)})", hint=near_miss(model, MODELS)
        )
    _check_options("classify", MODELS[model], options)
    return MODELS[model](target, features=features, **options).fit(as_source(data, schema))


@checked
def audit(
    release: Any,
    truth: Any,
    *,
    order: str | Path | NDArray[np.int64] | None = None,
    rng: Keystream | None = None,
    rho1: float = 0.05,
    rho2: float = 0.50,
    false_alarm: float = 1e-3,
) -> Audit:
    """What attackers learn from a release, and whether its mechanism kept its word: the release and
    the very records it was made from, as files, frames or sources, and the secret order in which
    the reports were shuffled, where it was kept.

    >>> from sfumato.randomness import seeded
    >>> people = {"smoker": ["no", "no", "yes", "no"] * 50}
    >>> audit(perturb(people, gamma=19, rng=seeded(1)), people, rng=seeded(1)).violations
    ()
    """
    release = _only(release)
    reports = open_release(release) if _is_file(release) else as_release(release)
    records = truth if isinstance(truth, Table | Exact) else as_truth(truth, reports.domain)
    table = reports.table
    if isinstance(order, str | Path):
        order = read_order(Path(order), table.rows, table.copies)
    return audit_release(
        table, records, order=order, rng=rng, rho1=rho1, rho2=rho2, false_alarm=false_alarm
    )


def promised(
    gamma: Gamma | None, epsilon: float | None, rho1: float | None, rho2: float | None
) -> Guarantee | None:
    """The guarantee that was asked for, one way."""
    if (rho1 is None) != (rho2 is None):
        raise ParameterError("rho1 and rho2 belong together", hint="as in rho1=0.05, rho2=0.5")
    ways = {"gamma": gamma, "epsilon": epsilon, "rho1 and rho2": rho1}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise ParameterError(
            f"the guarantee is given in more than one way ({listing(given)})",
            hint="give one of them",
        )
    return Guarantee.stated(gamma, epsilon, rho1, rho2)


def as_source(data: Any, schema: Schema = None) -> Source:
    """What is asked: a source as it is, a model's or a release's file or address, else true data,
    read by the schema or a proposed one. A list of one of these is that one.
    """
    data = _only(data)
    if isinstance(data, Source):
        return data
    if isinstance(data, Table):
        return source_of(data)
    domain = None if schema is None else _domain(schema)
    if isinstance(data, str | Path):
        return open_model(data) if is_model(data) else open_source(data, schema=domain)
    frame = as_frame(data)
    return source_of(frame if isinstance(frame, Table) else read(frame, domain))


def as_rounds(releases: Sequence[Any], schema: Schema = None) -> RoundSeries:
    """The rounds of one series, from their releases or the files of these."""
    if schema is not None:
        raise ParameterError("rounds carry their own items", hint="leave the schema out")
    return RoundSeries.of([as_release(each) for each in releases])


def _only(data: Any) -> Any:
    """The one source that a list holds; several are refused where one is asked, and anything else
    is as it is.
    """
    if not _is_listed(data):
        return data
    if len(data) > 1:
        raise ParameterError(
            f"{len(data)} releases are listed, and one is asked at a time",
            hint="rounds go together: sf.mine takes those of baskets, sf.fit those of ranges",
        )
    return data[0]


def _are_several(data: Any) -> bool:
    return _is_listed(data) and len(data) > 1


def _is_listed(data: Any) -> bool:
    """Whether sources are listed, not the items of baskets."""
    return isinstance(data, list | tuple) and bool(data) and all(map(_names_source, data))


def _names_source(each: Any) -> bool:
    """Whether this is a source or the name of a file or table that may hold one."""
    named = isinstance(each, str) and ("://" in each or each.endswith(SUFFIXES))
    return named or isinstance(each, Source | Table | Path)


def as_release(data: Any) -> Release:
    """The release that a file, an address, a table or a frame is; truth is refused."""
    if isinstance(data, list | tuple) and not data:
        raise ParameterError(
            "the list is empty, so there is no release",
            hint="give a perturbed file, or what sf.perturb returned",
        )
    found = as_source(data)
    if not isinstance(found, Release):
        raise ParameterError(
            "this carries no mechanism, so it is no release",
            hint="give a perturbed file, or what sf.perturb returned",
        )
    return found


def as_truth(data: Any, schema: Domain | None = None) -> Exact:
    """True records, read by the schema; a release is refused."""
    if isinstance(data, Exact):
        return data
    if not isinstance(data, Source):
        framed_data = as_frame(data)
        table = framed_data if isinstance(framed_data, Table) else read(framed_data, schema)
        if table.provenance is None:
            return Exact(table)
    raise ParameterError("these records were perturbed", hint="give the true records")


def as_frame(data: Any) -> Any:
    """Plain baskets (lists of items) as a table; anything else as it is."""
    return framed(data) if isinstance(data, list | tuple) else data


def _purpose(purpose: str | None, target: str | None) -> str:
    """What a plan is for: itemsets unless stated, classes where a target is named."""
    if target is None:
        return "itemsets" if purpose is None else purpose
    if purpose not in (None, "classes"):
        raise ParameterError(
            f"target={shown(target)} is for classes, and purpose={shown(purpose)} predicts none",
            hint="leave one of them out",
        )
    return "classes"


def _check_mechanism(mechanism: Any, guarantee: Guarantee | None) -> None:
    if mechanism is None and guarantee is None:
        raise ParameterError(
            "it is not said what should be promised",
            hint=f"{WAYS}, and the plan chooses; or give a mechanism",
        )
    if isinstance(mechanism, str):
        named = mechanism_class(mechanism).name
        if guarantee is None:
            raise ParameterError(
                f"{named} is named, and it is not said what it should promise", hint=WAYS
            )
        return
    if mechanism is not None and guarantee is not None:
        raise ParameterError(
            "a mechanism and a guarantee contradict each other: either decides how much is kept",
            hint="give one of them, or the mechanism by its name, as in mechanism='retention'",
        )
    if mechanism is not None and not isinstance(mechanism, Mechanism):
        raise ParameterError(
            f"{shown(mechanism)} is no mechanism",
            hint="as in sf.Retention(schema, 0.5), or give gamma=19",
        )


def _check_options(verb: str, work: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse an option that the work does not know, in our words."""
    known = [
        name
        for name, each in inspect.signature(work).parameters.items()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            raise ParameterError(
                f"{verb} has no option '{name}' ({listing(known)})", hint=near_miss(name, known)
            )


def _is_file(data: Any) -> bool:
    return isinstance(data, str | Path) and "://" not in str(data)


def _is_schema(data: Any) -> bool:
    return isinstance(data, str | Path) and str(data).endswith(".toml")


def _domain(data: Any) -> Domain:
    """The domain that this is, that a .toml file holds, or that is proposed for data."""
    if isinstance(data, Domain):
        return data
    if isinstance(data, Table | Source):
        return data.domain
    if _is_schema(data):
        return Domain.load(data)
    frame = as_frame(data)
    return frame.domain if isinstance(frame, Table) else propose_schema(frame)
