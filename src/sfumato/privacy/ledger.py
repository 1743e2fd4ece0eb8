"""The ledger: what each person, or a whole campaign, has already given away, and a budget that
refuses to give more.

It is an SQLite file that several processes may use. Each spending is one transaction: the budget is
looked at, the report drawn and written down, and only when that is safely on disk is it handed out
to be sent. So no interruption leads to a second draw, and no two spenders both get the last of a
budget.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sfumato.arguments import checked
from sfumato.errors import ParameterError, PrivacyError
from sfumato.privacy.account import (
    ROUNDING,
    Account,
    Entry,
    check_affordable,
    left_of,
    left_words,
    spent_words,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger_file import (
    connected,
    create_file,
    ensure_file,
    entries_in,
    insert,
    keys_in,
    opened,
    real_place,
    rename,
    spent_in,
    take_in,
)
from sfumato.untrusted import refuse_malformed

__all__ = ["Account", "Book", "Entry", "Ledger", "pseudonym"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Book:
    """A ledger opened for one transaction: what it changes is changed together, or not at all."""

    connection: sqlite3.Connection
    budget: float

    def charge(
        self, key: str, release: str, guarantee: Guarantee, attributes: Collection[str] = ()
    ) -> Entry:
        """Enter the cost of one more release, or refuse it with the figures; the same release again
        costs again.
        """
        self._check(key, guarantee, None)
        return self._enter(_entry(key, release, guarantee, attributes))

    def answer(
        self,
        key: str,
        release: str,
        guarantee: Guarantee,
        draw: Callable[[], Any],
        attributes: Collection[str] = (),
        *,
        budget: Guarantee | None = None,
    ) -> Any:
        """The report of this key in this release: drawn and paid for once, repeated for nothing
        ever after.

        `draw` perturbs the record and returns the report as JSON values. It runs only if the budget
        allows, the ledger's and the one given here, and its report is on disk, as "pending", before
        it is sent, so no interruption leads to a second draw. A person whose truth has changed
        repeats the old report too, until they are asked in a new release: a new round of a campaign
        is one, and costs again.
        """
        known = self._known(key, release)
        if known is not None:
            return _repeated(known, guarantee)
        self._check(key, guarantee, budget)
        report = _as_json(draw(), "report")
        return self._enter(_entry(key, release, guarantee, attributes, report)).report

    def report(self, key: str, release: str) -> Any:
        """The report of this key in this release; None where none was drawn, or it is forgotten."""
        known = self._known(key, release)
        return None if known is None else known.report

    def deal(self, key: str, release: str, draw: Callable[[], Any]) -> Any:
        """What this key was dealt in this release, a question say: drawn once, before anything is
        asked, and the same ever after; it costs nothing, for it does not depend on the record.
        """
        found = self.connection.execute(
            "SELECT value FROM dealt WHERE key = ? AND release = ?", (key, release)
        ).fetchone()
        if found is not None:
            return json.loads(found[0])
        value = _as_json(draw(), "dealt value")
        self.connection.execute(
            "INSERT INTO dealt VALUES (?, ?, ?)", (key, release, json.dumps(value))
        )
        return value

    def spent(self, key: str) -> tuple[float, int]:
        """The epsilon that all reports of this key compose to, and how many they are."""
        return spent_in(self.connection, key)

    def rename(self, name: Callable[[str], str]) -> None:
        """Call every key by the name it has now. Keys that become one have spent what they spent
        together, and repeat one of the reports that they have in one release.
        """
        with refuse_malformed("a key of this ledger"):
            for key in keys_in(self.connection):
                if name(key) != key:
                    rename(self.connection, key, name(key))

    def mark_sent(self, key: str, release: str) -> None:
        """Note that the report has arrived, so it is no longer pending."""
        self._set_state(key, release, "sent", "report")

    def forget(self, key: str, release: str) -> None:
        """Delete the report and keep its cost: an answer to the same release is drawn again and
        costs again.
        """
        self._set_state(key, release, "forgotten", "NULL")

    def _set_state(self, key: str, release: str, state: str, report: str) -> None:
        changed = self.connection.execute(
            f"UPDATE entry SET state = ?, report = {report} "
            "WHERE key = ? AND release = ? AND state IN ('pending', 'sent')",
            (state, key, release),
        ).rowcount
        if not changed:
            raise ParameterError(f"the ledger holds no report of this key in release '{release}'")

    def _known(self, key: str, release: str) -> Entry | None:
        """The entry that answers for this release: its report, or a charge that took its place."""
        found = entries_in(
            self.connection,
            "key = :key AND release = :release AND state != 'forgotten'",
            {"key": key, "release": release},
        )
        return max(found, key=lambda entry: entry.report is not None, default=None)

    def _check(self, key: str, guarantee: Guarantee, budget: Guarantee | None) -> None:
        spent, entries = spent_in(self.connection, key)
        least = self.budget if budget is None else min(self.budget, budget.epsilon)
        check_affordable(guarantee.epsilon, spent, least, entries)

    def _enter(self, entry: Entry) -> Entry:
        insert(self.connection, [entry])
        return entry


def _alone(change: Callable[Concatenate[Book, P], R]) -> Callable[Concatenate[Ledger, P], R]:
    """A change of a book as a method of the ledger: a transaction of its own."""

    @wraps(change)
    def alone(ledger: Ledger, /, *given: P.args, **named: P.kwargs) -> R:
        with ledger.changing() as book:
            return change(book, *given, **named)

    return alone


@checked
class Ledger:
    """A ledger in an SQLite file, made once by `Ledger.create` and opened by its path ever after.

    The key is whatever `pseudonym` made, or the name of a campaign whose respondents are not told
    apart: then every release counts against all. A path where there is no ledger is refused, for a
    new one would forget what was spent. A ledger of version 0.1.0 (JSON) becomes an SQLite file
    under its name when it is opened.
    """

    def __init__(self, path: str | Path, budget: Guarantee | None = None) -> None:
        self.path = real_place(path)
        self.budget = opened(self.path)
        if budget is not None and not math.isclose(self.budget, budget.epsilon, rel_tol=ROUNDING):
            raise ParameterError(
                f"the ledger {self.path.name} has a budget of epsilon {left_words(self.budget)}, "
                f"not {left_words(budget.epsilon)}",
                hint="open it without a budget, or start a new ledger",
                budget=self.budget,
            )

    @classmethod
    def create(cls, path: str | Path, budget: Guarantee | None) -> Self:
        """A new ledger where there is none, for its owner's eyes alone; None writes down what is
        spent without a limit.
        """
        epsilon = math.inf if budget is None else budget.epsilon
        if budget is not None and math.isinf(epsilon):
            raise ParameterError(
                "a budget without bound limits nothing", hint="give None to keep a record only"
            )
        return cls(create_file(path, Account(budget=epsilon)))

    @classmethod
    def ensure(cls, path: str | Path) -> Self:
        """The ledger at a place that is its own; made, without a limit, where there is none yet."""
        return cls(ensure_file(path, Account()))

    charge = _alone(Book.charge)
    answer = _alone(Book.answer)
    deal = _alone(Book.deal)
    mark_sent = _alone(Book.mark_sent)
    forget = _alone(Book.forget)
    rename = _alone(Book.rename)

    def pending(self, key: str | None = None) -> tuple[Entry, ...]:
        """The entries whose reports were drawn and not yet seen to arrive: send the same again."""
        with connected(self.path) as connection:
            return entries_in(
                connection, "state = 'pending' AND (:key IS NULL OR key = :key)", {"key": key}
            )

    def spent(self, key: str) -> float:
        """The epsilon that all reports of this key compose to."""
        with connected(self.path) as connection:
            return spent_in(connection, key)[0]

    def left(self, key: str) -> float:
        """The epsilon that this key may still spend."""
        return left_of(self.budget, self.spent(key))

    def of(self, key: str) -> tuple[Entry, ...]:
        """The entries of one key, oldest first."""
        with connected(self.path) as connection:
            return entries_in(connection, "key = :key", {"key": key})

    @property
    def account(self) -> Account:
        """Everything the ledger holds now, as one value."""
        with connected(self.path) as connection:
            return Account(entries_in(connection, "1", {}), self.budget)

    def take_in(self, other: Ledger) -> None:
        """Write down all that another ledger holds and this one does not."""
        if self.path.samefile(other.path):
            return
        with connected(self.path) as connection:
            take_in(connection, other.path)

    @contextmanager
    def changing(self) -> Iterator[Book]:
        """One transaction, for several changes that are made together or not at all."""
        with connected(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Book(connection, self.budget)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")


def pseudonym(secret: bytes, scope: str) -> str:
    """The key under which a person appears in one scope, from a secret that stays at their side.

    HMAC-SHA-256 of the scope under the secret: stable within a scope, and unlinkable between scopes
    without the secret.

    >>> pseudonym(b"a secret of at least 16 bytes", "spring survey")
    '22d49eb755a9941de9fa6f691ac37ef9'
    """
    if len(secret) < 16:
        raise ParameterError(
            f"a secret of {len(secret)} bytes can be guessed; use at least 16 random bytes"
        )
    return hmac.new(secret, scope.encode(), hashlib.sha256).hexdigest()[:32]


def _entry(
    key: str,
    release: str,
    guarantee: Guarantee,
    attributes: Collection[str],
    report: Any = None,
) -> Entry:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    state = "charged" if report is None else "pending"
    return Entry(key, release, guarantee.epsilon, tuple(sorted(attributes)), now, report, state)


def _repeated(known: Entry, guarantee: Guarantee) -> Any:
    if known.report is None:
        raise PrivacyError(
            f"release '{known.release}' was charged without its report, so it cannot be repeated",
            hint="ask in a release of its own",
        )
    if not math.isclose(known.epsilon, guarantee.epsilon, rel_tol=1e-9):
        raise PrivacyError(
            f"release '{known.release}' was answered at epsilon {spent_words(known.epsilon)} and "
            f"is now asked at {guarantee.epsilon_words}",
            hint="a different question needs a release of its own",
        )
    return known.report


def _as_json(value: Any, what: str) -> Any:
    """The value as it will be read back, so that the first answer and every repetition are the
    same.
    """
    if value is None:
        raise ParameterError(f"a {what} cannot be None; return what is to be kept")
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"a {what} must be made of JSON values",
            hint="turn arrays into lists of numbers or labels",
        ) from error
