"""Where the rows come from: FROM one table, or WITH around a filter of it, which
becomes a WHERE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import QueryError, listing

FILE_NAME = re.compile(r"[/\\.:*?]")  # a name with one of these is that of a file
SCHEMAS = ("main", "public")
WITH_HINT = "WITH is answered around one filter: WITH s AS (SELECT * FROM t WHERE …)"


@dataclass(frozen=True)
class FromClause:
    """What a SELECT reads: the name after FROM, and the names by which its columns may call it."""

    name: str
    called: tuple[str, ...]


def flattened(select: exp.Select, names: Sequence[str]) -> exp.Select:
    """The SELECT with the filters of its WITH put into its own WHERE, and its columns without the
    name of their table.
    """
    filters, chain = _filters(select), [select]
    while (source := _source(chain[-1])).name.casefold() in filters:
        _check_qualified(chain[-1], source)
        inner = filters.pop(source.name.casefold())
        for reader in chain:
            _check_selected(reader, inner, names)
        chain.append(inner)
    _check_qualified(chain[-1], source)
    if filters:
        raise QueryError(f"WITH names {listing(filters)}, which is not read", hint=WITH_HINT)
    if len(chain) == 1:
        return select
    return _with_where(
        select, [each.args["where"].this for each in chain if each.args.get("where")]
    )


def _filters(select: exp.Select) -> dict[str, exp.Select]:
    """The filters of a WITH, by name; taken off the SELECT."""
    clause = select.args.get("with_") or select.args.get("with")
    found: dict[str, exp.Select] = {}
    for each in clause.expressions if clause is not None else []:
        inner, name = each.this, each.alias.casefold()
        if not _is_filter(inner) or name in found:
            raise QueryError(f"WITH {each.alias} is not a filter of a table", hint=WITH_HINT)
        found[name] = inner
    return found


def _is_filter(inner: exp.Expression) -> bool:
    if not isinstance(inner, exp.Select):
        return False
    clauses = {name for name, content in inner.args.items() if content}
    plain = all(isinstance(entry, exp.Star | exp.Column) for entry in inner.expressions)
    return plain and clauses <= {"expressions", "from_", "from", "where"}


def _source(select: exp.Select) -> FromClause:
    clause = select.args.get("from_") or select.args.get("from")
    table = None if clause is None else clause.this
    if table is None:
        raise QueryError("this SELECT reads no table", hint="write FROM t")
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise QueryError(f"FROM {table.sql()} is not a table", hint="write FROM t")
    schema = table.args.get("db")
    if FILE_NAME.search(table.name) or (
        schema is not None and schema.name.casefold() not in SCHEMAS
    ):
        raise QueryError(
            f"FROM {table.sql()} names a file or a schema, and the rows are those of the release",
            hint="write FROM t",
        )
    return FromClause(table.name, (table.alias,) if table.alias else (table.name,))


def _check_qualified(select: exp.Select, source: FromClause) -> None:
    """Refuse a column of another table."""
    known = [name.casefold() for name in source.called]
    for column in select.find_all(exp.Column):
        if column.find_ancestor(exp.Select) is not select:
            continue
        table = column.args.get("table")
        if table is not None and table.name.casefold() not in known:
            raise QueryError(f"{column.sql()} is of no table here ({listing(source.called)})")


def _check_selected(select: exp.Select, inner: exp.Select, names: Sequence[str]) -> None:
    """Refuse a column that a filter left out."""
    if any(isinstance(entry, exp.Star) for entry in inner.expressions):
        return
    kept = {entry.name.casefold() for entry in inner.expressions}
    known = {name.casefold() for name in names}
    for column in select.find_all(exp.Column):
        if column.find_ancestor(exp.Select) is select:
            name = column.name.casefold()
            if name in known and name not in kept:
                raise QueryError(f"column '{column.name}' is not selected by WITH")


def _with_where(select: exp.Select, conditions: Sequence[exp.Expression]) -> exp.Select:
    result = select.copy()
    for clause in ("with_", "with"):
        result.args.pop(clause, None)
    if conditions:
        joined = exp.and_(*(exp.paren(each.copy()) for each in conditions), copy=False)
        result.set("where", exp.Where(this=joined))
    return result
