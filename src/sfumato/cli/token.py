"""`sfumato token`: who may look at figures, or send without limits."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from sfumato.cli.options import STORE, Json, argument, option
from sfumato.cli.printing import print_json, print_table
from sfumato.collect.store import new_token, open_store, utc_today
from sfumato.errors import ParameterError, near_miss

token = typer.Typer(
    help="Tokens of a store: read figures, send without limits, or both (admin).",
    rich_markup_mode="rich",
)

Store = Annotated[str, option("The store: a file, or postgresql://…", "--store", metavar="FILE")]


@token.command()
def add(
    role: Annotated[str, option("read, send or admin.")],
    label: Annotated[str, option("A word by which to revoke it.")] = "unnamed",
    expires: Annotated[
        str | None, option("Its last day, of UTC, as in 2027-12-31.", metavar="DAY")
    ] = None,
    store: Store = STORE,
    json: Json = False,
) -> None:
    """Add a token and show it, once: the store keeps its hash alone.

    Example: sfumato token add --role read --label anna --expires 2027-12-31
    """
    until = None if expires is None else _last_day(expires)
    secret, made = new_token(role, label, until)
    opened = open_store(store)
    opened.add_token(made)
    opened.close()
    if json:
        print_json({"token": secret, "role": role, "label": label, "expires": _day(until)})
        return
    print(secret)


def _last_day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"--expires {text} is no day", hint="as in 2027-12-31") from None
    if day < utc_today():
        raise ParameterError(
            f"--expires {text} has passed, and the token would let nobody in",
            hint="give its last day, or leave it out",
        )
    return day


@token.command("list")
def list_tokens(store: Store = STORE, json: Json = False) -> None:
    """List the tokens of a store by role, label and last day.

    Example: sfumato token list --store campaign.db
    """
    opened = open_store(store)
    found = [
        {"role": each.role, "label": each.label, "expires": _day(each.expires)}
        for each in opened.tokens()
    ]
    opened.close()
    if json:
        print_json({"tokens": found})
        return
    lines = [[str(each["role"]), str(each["label"]), each["expires"] or ""] for each in found]
    print_table(["role", "label", "expires"], lines)


@token.command()
def revoke(
    label: Annotated[str, argument("The label of the tokens.", metavar="LABEL")],
    store: Store = STORE,
    json: Json = False,
) -> None:
    """Turn away the bearers of all tokens with a label.

    Example: sfumato token revoke anna --store campaign.db
    """
    opened = open_store(store)
    known = [each.label for each in opened.tokens()]
    gone = opened.remove_tokens(label)
    opened.close()
    if not gone:
        raise ParameterError(f"no token '{label}'", hint=near_miss(label, known))
    if json:
        print_json({"revoked": gone})
        return
    print(f"{gone} revoked")


def _day(day: object) -> str | None:
    return None if day is None else str(day)
