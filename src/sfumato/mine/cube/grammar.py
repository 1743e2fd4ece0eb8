"""The SQL that can be answered from counts: one SELECT of aggregates over one table; everything else is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sfumato.errors import QueryError

AGGREGATES: tuple[type[exp.Expression], ...] = (
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevSamp,
    exp.StddevPop,
    exp.Median,
    exp.PercentileCont,
    exp.PercentileDisc,
    exp.Quantile,
)
REFUSED: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Join: ("a join", "put the columns into one table before they are perturbed, or join releases on a key in Python"),
    exp.Subquery: ("a subquery", "ask one SELECT of aggregates at a time"),
    exp.With: ("a WITH clause", "ask one SELECT of aggregates at a time"),
    exp.Union: ("a UNION", "ask one SELECT at a time"),
    exp.Window: ("a window function", "use GROUP BY, CUBE or ROLLUP"),
    exp.Distinct: ("DISTINCT", "use GROUP BY and COUNT(*)"),
    exp.Max: ("MAX", "an extreme is one person's value; use PERCENTILE_CONT"),
    exp.Min: ("MIN", "an extreme is one person's value; use PERCENTILE_CONT"),
    exp.Like: ("LIKE", "use = or IN with the values themselves"),
    exp.Null: ("NULL", "perturbed records have no nulls"),
}


@dataclass(frozen=True)
class Output:
    """One column of the result."""

    name: str
    expression: exp.Expression


@dataclass(frozen=True)
class Query:
    """A parsed question: what to compute, for which rows, by which groups, and how to list the answer."""

    outputs: tuple[Output, ...]
    where: exp.Expression | None
    keys: tuple[exp.Expression, ...]
    sets: tuple[tuple[int, ...], ...]  # the groupings: positions of the keys of each
    having: exp.Expression | None
    order: tuple[tuple[exp.Expression, bool], ...]  # with whether it descends
    limit: int | None
    offset: int


def parse(sql: str) -> Query:
    """The question that a SELECT asks; what does not parse is shown where, what cannot be answered is named.

    >>> parse("SELECT sex, COUNT(*) FROM t GROUP BY sex").outputs[1].name
    'count'
    """
    select = _parsed(sql)
    _check(select)
    outputs = _outputs(select)
    keys, sets = _groups(select, outputs)
    if not any(is_aggregate(output.expression) for output in outputs) and not keys:
        raise QueryError(
            "this selects rows, and a perturbed table has none to show", hint="ask for COUNT(*), SUM, AVG, … instead"
        )
    where, having = select.args.get("where"), select.args.get("having")
    order = tuple((ordered.this, bool(ordered.args.get("desc"))) for ordered in _listed(select.args.get("order")))
    return Query(
        outputs,
        where.this if where else None,
        keys,
        sets,
        having.this if having else None,
        order,
        _number(select.args.get("limit")),
        _number(select.args.get("offset")) or 0,
    )


def is_aggregate(expression: exp.Expression) -> bool:
    """Whether an expression holds an aggregate."""
    return expression.find(*AGGREGATES) is not None


def _parsed(sql: str) -> exp.Select:
    try:
        statements = sqlglot.parse(sql, read="duckdb")
    except (ParseError, TokenError) as error:
        raise QueryError(_where(sql, error)) from None
    if len(statements) != 1 or statements[0] is None:
        raise QueryError(f"one SELECT is answered at a time; found {len(statements)} statements")
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        raise QueryError("a UNION cannot be answered", hint=REFUSED[exp.Union][1])
    if not isinstance(statement, exp.Select):
        raise QueryError(f"only SELECT is answered; found {statement.key.upper()}")
    return statement


def _where(sql: str, error: Any) -> str:
    facts = (getattr(error, "errors", None) or [{}])[0]
    line, column, near = facts.get("line"), facts.get("col"), facts.get("highlight")
    if line is None:
        return f"this SQL does not parse: {str(error).splitlines()[0]}"
    reason = str(facts.get("description") or "").split(".")[0].strip()
    return f"this SQL does not parse at line {line}, column {column}, near '{near}'" + (f": {reason}" if reason else "")


def _check(select: exp.Select) -> None:
    for kind, (name, hint) in REFUSED.items():
        if select.find(kind) is not None:
            raise QueryError(f"{name} cannot be answered from perturbed counts", hint=hint)
    tables = [table for table in select.find_all(exp.Table)]
    if len(tables) > 1:
        raise QueryError("a join cannot be answered from perturbed counts", hint=REFUSED[exp.Join][1])
    if any(isinstance(entry, exp.Star) for entry in select.expressions):
        raise QueryError(
            "SELECT * selects rows, and a perturbed table has none to show", hint="ask for COUNT(*), SUM, AVG, … instead"
        )


def _outputs(select: exp.Select) -> tuple[Output, ...]:
    outputs: list[Output] = []
    for entry in select.expressions:
        name = entry.alias if isinstance(entry, exp.Alias) else _default_name(entry)
        taken = [output.name for output in outputs]
        number = 2
        while name in taken:
            name, number = f"{name.rstrip('0123456789').rstrip('_')}_{number}", number + 1
        outputs.append(Output(name, entry.this if isinstance(entry, exp.Alias) else entry))
    return tuple(outputs)


def _default_name(expression: exp.Expression) -> str:
    if isinstance(expression, exp.Column):
        return expression.name
    aggregate = expression.find(*AGGREGATES)
    if aggregate is None or (
        aggregate.parent is not None and not isinstance(aggregate.parent, exp.Select | exp.Filter | exp.WithinGroup)
    ):
        return expression.sql(dialect="duckdb").lower()
    column = expression.find(exp.Column)
    word = aggregate.key.replace("variance", "var").replace("percentilecont", "percentile")
    star = isinstance(aggregate, exp.Count | exp.CountIf) or column is None
    return word if star else f"{word}_{column.name}" if column is not None else word


def _groups(select: exp.Select, outputs: tuple[Output, ...]) -> tuple[tuple[exp.Expression, ...], tuple[tuple[int, ...], ...]]:
    """The keys and the groupings: GROUP BY is one grouping, ROLLUP, CUBE and GROUPING SETS are several, crossed."""
    group = select.args.get("group")
    if group is None:
        return (), ((),)
    keys: list[exp.Expression] = []
    crossed: list[tuple[int, ...]] = [()]
    parts = [*group.expressions, *(part for word in ("rollup", "cube", "grouping_sets") for part in group.args.get(word) or [])]
    for part in parts:
        choices = _choices(part, keys, outputs)
        crossed = [(*chosen, *more) for chosen in crossed for more in choices]
    return tuple(keys), tuple(dict.fromkeys(tuple(sorted(set(chosen))) for chosen in crossed))


def _choices(part: exp.Expression, keys: list[exp.Expression], outputs: tuple[Output, ...]) -> list[tuple[int, ...]]:
    if isinstance(part, exp.GroupingSets):
        return [tuple(_key(key, keys, outputs) for key in _members(entry)) for entry in part.expressions]
    if isinstance(part, exp.Rollup | exp.Cube):
        places = [_key(entry, keys, outputs) for entry in part.expressions]
        if isinstance(part, exp.Rollup):
            return [tuple(places[:length]) for length in range(len(places), -1, -1)]
        return [chosen for length in range(len(places), -1, -1) for chosen in combinations(places, length)]
    return [(_key(part, keys, outputs),)]


def _members(entry: exp.Expression) -> list[exp.Expression]:
    if isinstance(entry, exp.Tuple):
        return list(entry.expressions)
    return [entry.this if isinstance(entry, exp.Paren) else entry]


def _key(entry: exp.Expression, keys: list[exp.Expression], outputs: tuple[Output, ...]) -> int:
    """The position of a key: a column, an expression, an output's name or its number."""
    if isinstance(entry, exp.Literal) and not entry.is_string:
        place = int(entry.name) - 1
        if not 0 <= place < len(outputs):
            raise QueryError(f"GROUP BY {entry.name} names no output; there are {len(outputs)}")
        entry = outputs[place].expression
    named = [output.expression for output in outputs if isinstance(entry, exp.Column) and output.name == entry.name]
    entry = named[0] if named else entry
    if is_aggregate(entry):
        raise QueryError(f"GROUP BY {entry.sql()} groups by an aggregate", hint="use HAVING or ORDER BY")
    if entry not in keys:
        keys.append(entry)
    return keys.index(entry)


def _listed(order: Any) -> list[exp.Ordered]:
    return list(order.expressions) if order is not None else []


def _number(clause: Any) -> int | None:
    if clause is None:
        return None
    try:
        return int(clause.expression.name)
    except (AttributeError, ValueError):
        raise QueryError(f"{clause.sql()} needs a whole number") from None
