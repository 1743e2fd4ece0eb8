"""What of SQL is understood: every kind of node and every argument of it, by name. Whatever is not
listed here is refused, so that nothing can be passed over in silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.mine.cube.aggregates import AGGREGATES, WORDS

PAIR, ALONE = ("this", "expression"), ("this",)
ACCEPTED: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Select: (
        *("expressions", "from_", "from", "with_", "with", "where", "group", "having"),
        *("order", "limit", "offset"),
    ),
    exp.With: ("expressions",),
    exp.CTE: ("this", "alias"),
    exp.From: ALONE,
    exp.Table: ("this", "db", "alias"),
    exp.TableAlias: ALONE,
    exp.Where: ALONE,
    exp.Group: ("expressions", "rollup", "cube", "grouping_sets", "all"),
    exp.Rollup: ("expressions",),
    exp.Cube: ("expressions",),
    exp.GroupingSets: ("expressions",),
    exp.Having: ALONE,
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    exp.Alias: ("this", "alias"),
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Star: (),
    exp.Var: ALONE,
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ALONE,
    exp.Null: (),
    exp.Paren: ALONE,
    exp.Tuple: ("expressions",),
    exp.And: PAIR,
    exp.Or: PAIR,
    exp.Not: ALONE,
    exp.Is: PAIR,
    exp.EQ: PAIR,
    exp.NEQ: PAIR,
    exp.LT: PAIR,
    exp.LTE: PAIR,
    exp.GT: PAIR,
    exp.GTE: PAIR,
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions"),
    exp.Like: ("this", "expression", "negate"),
    exp.ILike: ("this", "expression", "negate"),
    exp.Escape: PAIR,
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Cast: ("this", "to"),
    exp.DataType: ("this", "expressions"),
    exp.DataTypeParam: ALONE,
    exp.Add: PAIR,
    exp.Sub: PAIR,
    exp.Mul: PAIR,
    exp.Div: ("this", "expression", "safe"),  # a quotient by 0 is NULL here in any case
    exp.IntDiv: PAIR,
    exp.Mod: PAIR,
    exp.Pow: PAIR,
    exp.Neg: ALONE,
    exp.Abs: ALONE,
    exp.Floor: ALONE,
    exp.Ceil: ALONE,
    exp.Sqrt: ALONE,
    exp.Round: ("this", "decimals"),
    exp.Nullif: PAIR,
    exp.WidthBucket: ("this", "min_value", "max_value", "num_buckets"),
    exp.Filter: PAIR,
    exp.WithinGroup: PAIR,
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


def check(nodes: Iterable[Any]) -> None:
    """Refuse a statement among whose nodes is anything which is not understood, by name."""
    for node in nodes:
        unknown = isinstance(node, exp.Anonymous) and known_as(node) is None
        if type(node) not in ACCEPTED or unknown:
            raise refusal(node)
        for argument, value in node.args.items():
            if not _is_empty(value) and argument not in ACCEPTED[type(node)]:
                raise _argument_refusal(node, argument, value)


def refusal(node: exp.Expression) -> QueryError:
    """The error for a node that is not understood where it stands."""
    name, hint = NAMES.get(type(node), (None, None))
    if name is None and isinstance(node, exp.Query):
        name, hint = "a query within a query", ONE_SELECT
    if name is None and isinstance(node, exp.Func):
        aggregates = isinstance(node, exp.AggFunc | exp.Anonymous)
        hint = f"the aggregates that are answered: {WORDS}" if aggregates else None
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


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value == "" or (isinstance(value, list) and not value)


def _argument_refusal(node: exp.Expression, argument: str, value: Any) -> QueryError:
    inner = value[0] if isinstance(value, list) else value
    if isinstance(inner, exp.Expression) and type(inner) not in ACCEPTED:
        return refusal(inner)
    if isinstance(node, exp.Window):
        return refusal(node)
    word = argument.strip("_").replace("_", " ").upper()
    owner = "" if isinstance(node, exp.Select) else f" in {_name(node)}"
    return QueryError(f"{word}{owner} cannot be answered from counts", hint="leave it out")
