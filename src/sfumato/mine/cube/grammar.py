"""The SQL that can be answered from counts: one SELECT of aggregates over one table; everything
else is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sfumato.errors import QueryError
from sfumato.mine.cube.accepted import NAMES, check, known_as
from sfumato.mine.cube.aggregates import AGGREGATES, KINDS, QUANTILES, is_aggregate
from sfumato.mine.cube.constants import bare
from sfumato.mine.cube.filters import flattened

LONGEST = 1_000_000  # letters of a question
REMEMBERED_QUESTIONS, REMEMBERED_LETTERS = 64, 5_000  # that were read, and how long at most
DEEPEST = 2000  # expressions inside each other, or one after the other with OR between
MOST_CUBED = 12  # columns: 4,096 groupings
TOO_DEEP = "this SQL is nested too deep"
MANY = "write col IN (…) for many comparisons of a column"
ROWS = "ask for COUNT(*), SUM, AVG, … instead"


@dataclass(frozen=True)
class Output:
    """One column of the result."""

    name: str
    expression: exp.Expression


@dataclass(frozen=True)
class Order:
    """One entry of ORDER BY."""

    expression: exp.Expression
    descends: bool
    nulls_first: bool


@dataclass(frozen=True)
class Query:
    """A parsed question: what to compute, for which rows, by which groups, and how to list the
    answer.
    """

    outputs: tuple[Output, ...]
    where: exp.Expression | None
    keys: tuple[exp.Expression, ...]
    sets: tuple[tuple[int, ...], ...]  # the groupings: positions of the keys of each
    having: exp.Expression | None
    order: tuple[Order, ...]
    limit: int | None
    offset: int


def parse(sql: str, names: Sequence[str] = ()) -> Query:
    """The question that a SELECT asks; what does not parse is shown where, what cannot be answered
    is named.

    `names` are the columns as the domain spells them; the question may spell them in other cases.

    >>> parsed = parse("SELECT SEX, COUNT(*) FROM t GROUP BY sex", ["sex"])
    >>> [output.name for output in parsed.outputs]
    ['sex', 'count']
    """
    short = len(sql) <= REMEMBERED_LETTERS
    return (_read if short else _read.__wrapped__)(sql, tuple(names))


@lru_cache(REMEMBERED_QUESTIONS)
def _read(sql: str, names: tuple[str, ...]) -> Query:
    """The question of a text: remembered, since to read it costs as much as to answer it from
    counts that are known. Nobody changes a tree once it is read.
    """
    select = _spelt(flattened(_parsed(sql), names), names)
    _check_clauses(select)
    outputs = _outputs(select)
    keys, sets = _groups(select, outputs, names)
    if not any(is_aggregate(output.expression) for output in outputs) and not keys:
        raise QueryError("this selects rows, and a perturbed table has none to show", hint=ROWS)
    where, having = select.args.get("where"), select.args.get("having")
    return Query(
        outputs,
        where.this if where else None,
        keys,
        sets,
        _unnamed(having.this, outputs) if having else None,
        tuple(_orders(select.args.get("order"), outputs)),
        _number(select.args.get("limit")),
        _number(select.args.get("offset")) or 0,
    )


def _parsed(sql: str) -> exp.Select:
    if len(sql) > LONGEST:
        raise QueryError(f"this SQL has {len(sql):,} letters; at most {LONGEST:,} are read")
    try:
        statements = [
            statement for statement in sqlglot.parse(sql, read="duckdb") if statement is not None
        ]
    except (ParseError, TokenError) as error:
        raise QueryError(_where(sql, error)) from None
    if len(statements) != 1:
        raise QueryError(f"one SELECT is answered at a time; found {len(statements)} statements")
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        raise QueryError("a UNION cannot be answered", hint=NAMES[exp.Union][1])
    if not isinstance(statement, exp.Select):
        raise QueryError(f"only SELECT is answered; found {statement.key.upper()}")
    check(_nodes(statement))
    return statement


def _nodes(statement: exp.Expression) -> list[Any]:
    """All nodes, outer ones first; refuse what is nested so deep that walking through it would take
    for ever.
    """
    nodes: list[Any] = []
    level, depth = [statement], 0
    while level:
        nodes += level
        level = [inner for each in level for inner in each.iter_expressions()]
        depth += 1
        if depth > DEEPEST:
            raise QueryError(TOO_DEEP, hint=MANY)
    return nodes


def _spelt(select: exp.Select, names: Sequence[str]) -> exp.Select:
    """The same SELECT with its columns spelt as the domain spells them, IF written as CASE, and
    MEAN as AVG or PERCENTILE as PERCENTILE_CONT.
    """
    for node in list(select.find_all(exp.If, exp.Anonymous, exp.Column)):
        if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
            branch = exp.If(this=node.this, true=node.args["true"])
            node.replace(exp.Case(ifs=[branch], default=node.args.get("false")))
        elif isinstance(node, exp.Anonymous) and (known := known_as(node)) is not None:
            node.replace(known)
        elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            name = exp.to_identifier(_alike(node.name, names) or node.name, quoted=False)
            node.replace(exp.column(name, copy=False))
    return select


def _alike(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that is meant: the same, or the only one that differs just in case."""
    alike = [known for known in names if known.casefold() == name.casefold()]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def _where(sql: str, error: Any) -> str:
    facts = (getattr(error, "errors", None) or [{}])[0]
    line, column, near = facts.get("line"), facts.get("col"), facts.get("highlight")
    if line is None:
        return f"this SQL does not parse: {str(error).splitlines()[0]}"
    reason = str(facts.get("description") or "").split(".")[0].strip()
    return f"this SQL does not parse at line {line}, column {column}, near '{near}'" + (
        f": {reason}" if reason else ""
    )


def _check_clauses(select: exp.Select) -> None:
    """Refuse what is known, but not where it stands."""
    for node in _nodes(select):
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise QueryError(
                "SELECT * selects rows, and a perturbed table has none to show", hint=ROWS
            )
        if isinstance(node, exp.Null) and not _is_result(node):
            raise QueryError("NULL cannot be answered from counts", hint=NAMES[exp.Null][1])
        if isinstance(node, exp.Rollup) and not node.expressions:
            raise QueryError("WITH ROLLUP is not understood", hint="write GROUP BY ROLLUP (…)")
    for clause in ("where", "group", "having"):
        found = select.args.get(clause)
        held = () if found is None else _nodes(found)
        if any(isinstance(node, exp.Window) for node in held):
            raise QueryError(f"{clause.upper()} cannot use a window function")
        if clause == "where" and any(isinstance(node, KINDS) for node in held):
            raise QueryError("WHERE cannot use an aggregate", hint="use HAVING")


def _is_result(expression: Any) -> bool:
    """Whether this is a NULL that a CASE results in, which is how SQL leaves records out of an
    aggregate.
    """
    place = (type(expression.parent), expression.arg_key)
    return place in ((exp.Case, "default"), (exp.If, "true"), (exp.If, "false"))


def _outputs(select: exp.Select) -> tuple[Output, ...]:
    """What is selected, each under a name of its own; what has none leaves others theirs."""
    outputs: list[Output] = []
    named = {e.alias_or_name for e in select.expressions if isinstance(e, exp.Alias | exp.Column)}
    for entry in select.expressions:
        own = entry.alias_or_name if isinstance(entry, exp.Alias | exp.Column) else None
        name = wanted = _default_name(entry) if own is None else own
        taken = {output.name for output in outputs} | (named - {own})
        number = 2
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        outputs.append(Output(name, entry.this if isinstance(entry, exp.Alias) else entry))
    return tuple(outputs)


def _default_name(expression: exp.Expression) -> str:
    if isinstance(expression, exp.Column):
        return expression.name
    aggregate = expression.find(*KINDS)
    if aggregate is None or (
        aggregate.parent is not None
        and not isinstance(aggregate.parent, exp.Select | exp.Filter | exp.WithinGroup)
    ):
        return expression.sql(dialect="duckdb").lower()
    word = AGGREGATES[type(aggregate)].word.lower()
    columns = dict.fromkeys(column.name for column in aggregate.find_all(exp.Column))
    if isinstance(aggregate.parent, exp.WithinGroup):
        columns = dict.fromkeys(column.name for column in aggregate.parent.find_all(exp.Column))
    if isinstance(aggregate, exp.Count | exp.CountIf):
        return word
    shares = [each.name for each in aggregate.find_all(exp.Literal)]
    return "_".join((word, *(shares if isinstance(aggregate, QUANTILES) else ()), *columns))


def _groups(
    select: exp.Select, outputs: tuple[Output, ...], names: Sequence[str]
) -> tuple[tuple[exp.Expression, ...], tuple[tuple[int, ...], ...]]:
    """The keys and the groupings: GROUP BY is one grouping, ROLLUP, CUBE and GROUPING SETS are
    several, crossed.
    """
    if select.args.get("group") is None:
        return (), ((),)
    group = _unnamed(
        select.args["group"], [output for output in outputs if output.name not in names]
    )
    keys: list[exp.Expression] = []
    crossed: list[tuple[int, ...]] = [()]
    parts = [
        *group.expressions,
        *(
            part
            for word in ("rollup", "cube", "grouping_sets")
            for part in group.args.get(word) or []
        ),
    ]
    if group.args.get("all"):
        parts = [output.expression for output in outputs if not is_aggregate(output.expression)]
    for part in parts:
        choices = _choices(part, keys, outputs)
        crossed = [(*chosen, *more) for chosen in crossed for more in choices]
    return tuple(keys), tuple(tuple(sorted(set(chosen))) for chosen in crossed)


def _choices(
    part: exp.Expression, keys: list[exp.Expression], outputs: tuple[Output, ...]
) -> list[tuple[int, ...]]:
    if isinstance(part, exp.GroupingSets):
        return [
            tuple(_key(key, keys, outputs) for key in _members(entry)) for entry in part.expressions
        ]
    if isinstance(part, exp.Rollup | exp.Cube):
        places = [_key(entry, keys, outputs) for entry in part.expressions]
        if isinstance(part, exp.Rollup):
            return [tuple(places[:length]) for length in range(len(places), -1, -1)]
        if len(places) > MOST_CUBED:
            raise QueryError(
                f"CUBE of {len(places)} columns asks for 2^{len(places)} groupings; at most "
                f"{MOST_CUBED} columns are taken",
                hint="write the groupings that you need as GROUPING SETS (…)",
            )
        return [
            chosen
            for length in range(len(places), -1, -1)
            for chosen in combinations(places, length)
        ]
    return [(_key(part, keys, outputs),)]


def _members(entry: exp.Expression) -> list[exp.Expression]:
    if isinstance(entry, exp.Tuple):
        return list(entry.expressions)
    return [entry.this if isinstance(entry, exp.Paren) else entry]


def _key(entry: exp.Expression, keys: list[exp.Expression], outputs: tuple[Output, ...]) -> int:
    """The position of a key: a column, an expression, or the number of an output."""
    entry = bare(_numbered(entry, outputs, "GROUP BY"))
    if is_aggregate(entry):
        raise QueryError(
            f"GROUP BY {entry.sql()} groups by an aggregate", hint="use HAVING or ORDER BY"
        )
    if entry not in keys:
        keys.append(entry)
    return keys.index(entry)


def _orders(order: Any, outputs: tuple[Output, ...]) -> Iterable[Order]:
    for ordered in order.expressions if order is not None else []:
        entries = [_unnamed(_numbered(ordered.this, outputs, "ORDER BY"), outputs)]
        if isinstance(ordered.this, exp.Var) and ordered.this.name.upper() == "ALL":
            entries = [output.expression for output in outputs]
        for entry in entries:
            yield Order(
                entry, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
            )


def _numbered(entry: exp.Expression, outputs: tuple[Output, ...], clause: str) -> exp.Expression:
    """The output that a number stands for; anything else stands for itself."""
    if not isinstance(entry, exp.Literal) or entry.is_string:
        return entry
    if not entry.name.isdigit() or not 1 <= int(entry.name) <= len(outputs):
        raise QueryError(f"{clause} {entry.name} names no output; there are {len(outputs)}")
    return outputs[int(entry.name) - 1].expression


def _unnamed(expression: exp.Expression, outputs: Sequence[Output]) -> exp.Expression:
    """The expression with the names of outputs replaced by what they stand for; inside an aggregate
    a name is a column.
    """
    meant = {output.name: output.expression for output in reversed(outputs)}

    def replaced(node: exp.Expression) -> exp.Expression:
        name = _alike(node.name, meant) if isinstance(node, exp.Column) else None
        if (
            name is None
            or node == meant[name]
            or node.find_ancestor(*KINDS, exp.Filter, exp.WithinGroup) is not None
        ):
            return node
        return exp.paren(meant[name].copy()) if node.parent is not None else meant[name].copy()

    return expression.transform(replaced)


def _number(clause: Any) -> int | None:
    if clause is None:
        return None
    number = clause.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise QueryError(f"{clause.sql().strip()} needs a whole number")
    return int(number.name)
