"""The SQL that can be answered from counts: one SELECT of aggregates over one table, or over a
filter of it by WITH; everything else is refused by name, so that nothing is passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sfumato.errors import QueryError, listing
from sfumato.mine import limits
from sfumato.mine.cube.aggregates import AGGREGATES, KINDS, QUANTILES, WORDS, is_aggregate
from sfumato.mine.cube.numbers import bare

PAIR, ALONE = ("this", "expression"), ("this",)
# Every kind of node and every argument of it that is understood, by name.
ACCEPTED: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Select: (
        *("expressions", "from_", "from", "with_", "with", "where", "group", "having"),
        *("order", "limit", "offset"),
    ),
    exp.With: ("expressions",),
    exp.CTE: ("this", "alias"),
    exp.Table: ("this", "db", "alias"),
    exp.Group: ("expressions", "rollup", "cube", "grouping_sets", "all"),
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets), ("expressions",)),
    **dict.fromkeys((exp.Order, exp.Tuple), ("expressions",)),
    exp.Ordered: ("this", "desc", "nulls_first"),
    **dict.fromkeys((exp.Limit, exp.Offset), ("expression",)),
    exp.Alias: ("this", "alias"),
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    **dict.fromkeys((exp.Star, exp.Null), ()),
    **dict.fromkeys((exp.From, exp.TableAlias, exp.Where, exp.Having), ALONE),
    **dict.fromkeys((exp.Var, exp.Boolean, exp.Paren, exp.Not, exp.DataTypeParam), ALONE),
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape, exp.Filter, exp.WithinGroup), PAIR),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), PAIR),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions"),
    **dict.fromkeys((exp.Like, exp.ILike), ("this", "expression", "negate")),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Cast: ("this", "to"),
    exp.DataType: ("this", "expressions"),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Pow, exp.Nullif), PAIR),
    exp.Div: ("this", "expression", "safe"),  # a quotient by 0 is NULL here in any case
    **dict.fromkeys((exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Sqrt), ALONE),
    exp.Round: ("this", "decimals"),
    exp.WidthBucket: ("this", "min_value", "max_value", "num_buckets"),
    exp.Window: ("this", "partition_by", "over"),
    exp.Anonymous: ("this", "expressions"),
    **{kind: aggregate.arguments for kind, aggregate in AGGREGATES.items()},
}
# Functions that are known though the parser does not know them, with what they stand for and how
# many arguments it takes.
ANONYMOUS: dict[str, tuple[type[exp.Expression], int]] = {
    "MEAN": (exp.Avg, 1),
    "PERCENTILE": (exp.PercentileCont, 2),
}

ONE_SELECT = "ask one SELECT of aggregates at a time"
EXTREME = "an extreme is one person's value; use PERCENTILE_CONT"
NAMES: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Join: (
        "a join",
        "put the columns into one table before they are perturbed, or join releases on a key in "
        "Python",
    ),
    exp.Subquery: (
        "a subquery",
        "write its condition in WHERE, or WITH s AS (SELECT * FROM t WHERE …) SELECT … FROM s",
    ),
    exp.Union: ("a UNION", "ask one SELECT at a time"),
    exp.Values: ("VALUES", "the rows are those of the release; write FROM t"),
    exp.Window: ("a window function", "use GROUP BY, CUBE, ROLLUP, or SUM(COUNT(*)) OVER ()"),
    exp.Distinct: ("DISTINCT", "use GROUP BY and COUNT(*)"),
    exp.Max: ("MAX", EXTREME),
    exp.Min: ("MIN", EXTREME),
    exp.TableSample: ("a sample", "all reports are counted at once; leave it out"),
    exp.LimitOptions: ("LIMIT with a percentage or ties", "LIMIT takes a whole number"),
    exp.Fetch: ("FETCH", "use LIMIT"),
    exp.TryCast: ("TRY_CAST", "use CAST where it leaves the values as they are"),
    exp.Trunc: ("TRUNC", "use FLOOR or CEIL"),
    exp.Null: (
        "NULL",
        "perturbed records have no nulls: ask for the value that stands for a missing one "
        "(describe lists them)",
    ),
}
FILE_NAME = re.compile(r"[/\\.:*?]")  # a name with one of these is that of a file
SCHEMAS = ("main", "public")
FILTER_CLAUSES = {"expressions", "from_", "where"}
WITH_HINT = "WITH is answered around one filter: WITH s AS (SELECT * FROM t WHERE …)"
# Where a CASE may result in NULL, which is how SQL leaves records out of an aggregate.
RESULTS = ((exp.Case, "default"), (exp.If, "true"), (exp.If, "false"))
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
    answer. Names of outputs are replaced by what they stand for, and so are their numbers.
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
    A question is remembered, since to read it costs as much as to answer it from counts that are
    known; nobody changes a tree once it is read.

    >>> parsed = parse("SELECT SEX, COUNT(*) FROM t GROUP BY sex", ["sex"])
    >>> [output.name for output in parsed.outputs]
    ['sex', 'count']
    """
    short = len(sql) <= limits.REMEMBERED_LETTERS
    return (_read if short else _read.__wrapped__)(sql, tuple(names))


@lru_cache(limits.REMEMBERED)
def _read(sql: str, names: tuple[str, ...]) -> Query:
    select = _spelt(_flattened(_parsed(sql), names), names)
    _check_clauses(select)
    outputs = _outputs(select)
    keys, sets = _groups(select, outputs, names)
    if not any(is_aggregate(output.expression) for output in outputs) and not keys:
        raise QueryError("this selects rows, and a perturbed table has none to show", hint=ROWS)
    where, having = select.args.get("where"), select.args.get("having")
    counts = []
    for word in ("limit", "offset"):
        clause: Any = select.args.get(word)
        value = None if clause is None else clause.expression
        if value is not None and not (value.is_int and value.name.isdigit()):
            raise QueryError(f"{clause.sql().strip()} needs a whole number")
        counts.append(None if value is None else int(value.name))
    return Query(
        outputs,
        where.this if where else None,
        keys,
        sets,
        _unnamed(having.this, outputs) if having else None,
        tuple(_orders(select.args.get("order"), outputs)),
        counts[0],
        counts[1] or 0,
    )


# What is understood.


def check(nodes: Iterable[Any]) -> None:
    """Refuse a statement among whose nodes is anything which is not understood, by name."""
    for node in nodes:
        unknown = isinstance(node, exp.Anonymous) and known_as(node) is None
        if type(node) not in ACCEPTED or unknown:
            raise refusal(node)
        for argument, value in node.args.items():
            empty = value is None or value is False or value == "" or value == []
            if empty or argument in ACCEPTED[type(node)]:
                continue
            inner = value[0] if isinstance(value, list) else value
            if isinstance(inner, exp.Expression) and type(inner) not in ACCEPTED:
                raise refusal(inner)
            if isinstance(node, exp.Window):
                raise refusal(node)
            word = argument.strip("_").replace("_", " ").upper()
            owner = "" if isinstance(node, exp.Select) else f" in {_name(node)}"
            raise QueryError(f"{word}{owner} cannot be answered from counts", hint="leave it out")


def refusal(node: exp.Expression) -> QueryError:
    """The error for a node that is not understood where it stands."""
    name, hint = NAMES.get(type(node), (None, None))
    if name is None and isinstance(node, exp.Query):
        name, hint = "a query within a query", ONE_SELECT
    if name is None and isinstance(node, exp.AggFunc | exp.Anonymous):
        hint = f"the aggregates that are answered: {WORDS}"
    return QueryError(f"{name or _name(node)} cannot be answered from counts", hint=hint)


def _name(node: exp.Expression) -> str:
    """What SQL calls a node."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    if isinstance(node, exp.Func) and type(node) is not exp.Func:
        return node.sql_name()
    return node.key.upper()


def known_as(node: exp.Anonymous) -> exp.Expression | None:
    """What stands for a function that the parser does not know; None for one that nobody knows."""
    kind, arguments = ANONYMOUS.get(str(node.this).upper(), (exp.Anonymous, -1))
    if len(node.expressions) != arguments:
        return None
    return kind(**dict(zip(AGGREGATES[kind].arguments, node.expressions, strict=True)))


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
        if depth > limits.DEPTH:
            raise QueryError(TOO_DEEP, hint=MANY)
    return nodes


def _parsed(sql: str) -> exp.Select:
    """The one SELECT of a text, made of what is understood alone."""
    if len(sql) > limits.LETTERS:
        raise QueryError(f"this SQL has {len(sql):,} letters; at most {limits.LETTERS:,} are read")
    try:
        statements = [each for each in sqlglot.parse(sql, read="duckdb") if each is not None]
    except (ParseError, TokenError) as error:
        facts = (getattr(error, "errors", None) or [{}])[0]
        where = f": {str(error).splitlines()[0]}"
        if facts.get("line") is not None:
            reason = str(facts.get("description") or "").split(".")[0].strip()
            where = f" at line {facts['line']}, column {facts['col']}, near '{facts['highlight']}'"
            where += f": {reason}" if reason else ""
        raise QueryError(f"this SQL does not parse{where}") from None
    if len(statements) != 1:
        raise QueryError(f"one SELECT is answered at a time; found {len(statements)} statements")
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        raise QueryError("a UNION cannot be answered", hint=NAMES[exp.Union][1])
    if not isinstance(statement, exp.Select):
        raise QueryError(f"only SELECT is answered; found {statement.key.upper()}")
    check(_nodes(statement))
    return statement


def _check_clauses(select: exp.Select) -> None:
    """Refuse what is known, but not where it stands."""
    for node in _nodes(select):
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise QueryError(
                "SELECT * selects rows, and a perturbed table has none to show", hint=ROWS
            )
        place = (type(node.parent), node.arg_key)
        if isinstance(node, exp.Null) and place not in RESULTS:
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


# One table, and its columns as the domain spells them.


def _flattened(select: exp.Select, names: Sequence[str]) -> exp.Select:
    """The SELECT with the filters of its WITH in its own WHERE."""
    filters: dict[str, exp.Select] = {}
    for each in select.ctes:
        inner, name = each.this, each.alias.casefold()
        clauses = {name for name, content in inner.args.items() if content}
        plain = all(isinstance(entry, exp.Star | exp.Column) for entry in inner.expressions)
        filtering = isinstance(inner, exp.Select) and clauses <= FILTER_CLAUSES and plain
        if not filtering or name in filters:
            raise QueryError(f"WITH {each.alias} is not a filter of a table", hint=WITH_HINT)
        filters[name] = inner
    select.args.pop("with_", None)
    chain = [select]
    while (inner := filters.pop(_source(chain[-1]).casefold(), None)) is not None:
        if not any(isinstance(entry, exp.Star) for entry in inner.expressions):
            left = {name.casefold() for name in names}
            left -= {entry.name.casefold() for entry in inner.expressions}
            for column in (column for each in chain for column in each.find_all(exp.Column)):
                if column.name.casefold() in left:
                    raise QueryError(f"column '{column.name}' is not selected by WITH")
        chain.append(inner)
    if filters:
        raise QueryError(f"WITH names {listing(filters)}, which is not read", hint=WITH_HINT)
    conditions = [each.args["where"].this for each in chain if each.args.get("where")]
    if len(chain) > 1 and conditions:
        joined = exp.and_(*(exp.paren(each, copy=False) for each in conditions), copy=False)
        select.set("where", exp.Where(this=joined))
    return select


def _source(select: exp.Select) -> str:
    """The name of the one table that a SELECT reads; a column of another is refused."""
    clause = select.args.get("from_")
    if clause is None:
        raise QueryError("this SELECT reads no table", hint="write FROM t")
    table = clause.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise QueryError(f"FROM {table.sql()} is not a table", hint="write FROM t")
    schema = table.args.get("db")
    foreign = schema is not None and schema.name.casefold() not in SCHEMAS
    if foreign or FILE_NAME.search(table.name):
        raise QueryError(
            f"FROM {table.sql()} names a file or a schema, and the rows are those of the release",
            hint="write FROM t",
        )
    for column in select.find_all(exp.Column):
        if column.table and column.table.casefold() != table.alias_or_name.casefold():
            raise QueryError(f"{column.sql()} is of no table here ({table.alias_or_name})")
    return str(table.name)


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


# What is selected, grouped and sorted by.


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
    """An aggregate with its columns (avg_age), count, or the expression itself."""
    aggregate = expression.find(*KINDS)
    around = None if aggregate is None else aggregate.parent
    if aggregate is None or not isinstance(
        around, exp.Select | exp.Filter | exp.WithinGroup | None
    ):
        return str(expression.sql(dialect="duckdb").lower())
    word = AGGREGATES[type(aggregate)].word.lower()
    if isinstance(aggregate, exp.Count | exp.CountIf):
        return word
    held = around if isinstance(around, exp.WithinGroup) else aggregate
    columns = dict.fromkeys(column.name for column in held.find_all(exp.Column))
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
    group = _unnamed(select.args["group"], [each for each in outputs if each.name not in names])
    parts = list(group.expressions)
    for word in ("rollup", "cube", "grouping_sets"):
        parts += group.args.get(word) or []
    if group.args.get("all"):
        parts = [output.expression for output in outputs if not is_aggregate(output.expression)]
    keys: list[exp.Expression] = []

    def place(entry: exp.Expression) -> int:
        """The position of a key: a column, an expression, or the number of an output."""
        entry = bare(_numbered(entry, outputs, "GROUP BY"))
        if is_aggregate(entry):
            raise QueryError(
                f"GROUP BY {entry.sql()} groups by an aggregate", hint="use HAVING or ORDER BY"
            )
        if entry not in keys:
            keys.append(entry)
        return keys.index(entry)

    crossed: list[tuple[int, ...]] = [()]
    for part in parts:
        if isinstance(part, exp.GroupingSets):
            sets = (e.expressions if isinstance(e, exp.Tuple) else [e] for e in part.expressions)
            choices = [tuple(map(place, each)) for each in sets]
        elif isinstance(part, exp.Rollup | exp.Cube):
            places = [place(entry) for entry in part.expressions]
            lengths = range(len(places), -1, -1)
            choices = [tuple(places[:length]) for length in lengths]
            if isinstance(part, exp.Cube):
                _check_cube(len(places))
                choices = [each for length in lengths for each in combinations(places, length)]
        else:
            choices = [(place(part),)]
        crossed = [(*chosen, *more) for chosen in crossed for more in choices]
    return tuple(keys), tuple(tuple(sorted(set(chosen))) for chosen in crossed)


def _check_cube(columns: int) -> None:
    if columns > limits.CUBED:
        raise QueryError(
            f"CUBE of {columns} columns asks for 2^{columns} groupings; at most {limits.CUBED} "
            "columns are taken",
            hint="write the groupings that you need as GROUPING SETS (…)",
        )


def _orders(order: Any, outputs: tuple[Output, ...]) -> Iterator[Order]:
    for ordered in order.expressions if order is not None else []:
        entries = [_unnamed(_numbered(ordered.this, outputs, "ORDER BY"), outputs)]
        if isinstance(ordered.this, exp.Var) and ordered.this.name.upper() == "ALL":
            entries = [output.expression for output in outputs]
        descends, nulls_first = (bool(ordered.args.get(word)) for word in ("desc", "nulls_first"))
        yield from (Order(entry, descends, nulls_first) for entry in entries)


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
