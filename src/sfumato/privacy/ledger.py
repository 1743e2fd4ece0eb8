"""The ledger: what each person, or a whole campaign, has already given away, and a budget that
refuses to give more.

Every release that depends on a person's record counts in full: guarantees of reports about the same
record multiply, so epsilons add, whether the same question is asked again, two questions share an
attribute, or they share none (an attribute may betray another). People are independent, so a ledger
of many keys is as bad as its worst key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sfumato.errors import FileError, ParameterError, PrivacyError, listing
from sfumato.privacy.guarantee import Guarantee

VERSION = 1

# Sums of rounded logarithms differ from the exact sum by a few units in the last place; three times
# 0.1 must fit in 0.3.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Entry:
    """One release about one key: what was asked, of which attributes, what it cost, and the report
    that was sent.
    """

    key: str
    release: str
    epsilon: float
    attributes: tuple[str, ...]
    at: str
    report: Any = None


@dataclass(frozen=True)
class Account:
    """What a ledger holds: its entries, and the budget of epsilon that no key may exceed (infinite
    when none is set).

    >>> seen = Account((Entry("k", "spring", 1.25, ("age",), ""), Entry("k", "autumn", 0.4, ("age", "sex"), "")), budget=2.0)
    >>> round(seen.spent("k"), 2), round(seen.left("k"), 2), round(seen.spent_on("k", ["sex"]), 2)
    (1.65, 0.35, 0.4)
    """

    entries: tuple[Entry, ...] = ()
    budget: float = math.inf

    def of(self, key: str) -> tuple[Entry, ...]:
        """The entries of one key, oldest first."""
        return tuple(entry for entry in self.entries if entry.key == key)

    def find(self, key: str, release: str) -> Entry | None:
        """The entry of this key in this release, if it has answered."""
        return next(
            (entry for entry in self.entries if (entry.key, entry.release) == (key, release)), None
        )

    def spent(self, key: str) -> float:
        """The epsilon that all reports of this key compose to: their sum."""
        return math.fsum(entry.epsilon for entry in self.of(key))

    def spent_on(self, key: str, attributes: Collection[str]) -> float:
        """The epsilon of the reports that any of these attributes entered.

        It bounds what is learned about these attributes by someone who already knows all the
        others; for everyone else only `spent` does, because the others may betray them.
        """
        wanted = set(attributes)
        return math.fsum(entry.epsilon for entry in self.of(key) if wanted & set(entry.attributes))

    def left(self, key: str) -> float:
        """The epsilon that this key may still spend."""
        return max(self.budget - self.spent(key), 0.0) if math.isfinite(self.budget) else math.inf

    def worst(self) -> float:
        """The largest epsilon that any one key has spent: the guarantee of the whole ledger."""
        return max((self.spent(key) for key in {entry.key for entry in self.entries}), default=0.0)

    def check(self, key: str, cost: float) -> None:
        """Raise, with the figures, if this key cannot afford the cost."""
        if cost <= self.left(key) + ROUNDING:
            return
        count = len(self.of(key))
        raise PrivacyError(
            f"this release costs epsilon {cost:.2f}, but {self.left(key):.2f} is left of "
            f"{self.budget:.2f} "
            f"({count} {'entry' if count == 1 else 'entries'} in the ledger)",
            cost=cost,
            left=self.left(key),
            budget=self.budget,
            entries=count,
        )

    def with_entry(self, entry: Entry) -> Account:
        """The account after one more entry, if the budget allows it."""
        self.check(entry.key, entry.epsilon)
        return replace(self, entries=(*self.entries, entry))


class Ledger:
    """A ledger in a JSON file that several processes may use: each change is made under a lock and
    replaces the file whole.

    A budget given at creation is kept in the file; opening it later with another one is refused.
    The key is whatever `pseudonym` made, or the name of a campaign whose respondents are not told
    apart: then every release counts against all.
    """

    def __init__(self, path: str | Path, budget: Guarantee | None = None) -> None:
        self.path = Path(path)
        self._budget = math.inf if budget is None else budget.epsilon
        with self._locked():
            self._check_budget(given=budget is not None)

    @property
    def account(self) -> Account:
        """What the file holds now."""
        return _read(self.path) if self.path.exists() else Account(budget=self._budget)

    def charge(
        self, key: str, release: str, guarantee: Guarantee, attributes: Collection[str] = ()
    ) -> Entry:
        """Enter the cost of one more release, or refuse it with the figures; the same release again
        costs again.
        """
        with self._locked():
            entry = _entry(key, release, guarantee, attributes, report=None)
            self._write(self.account.with_entry(entry))
        return entry

    def answer(
        self,
        key: str,
        release: str,
        guarantee: Guarantee,
        draw: Callable[[], Any],
        attributes: Collection[str] = (),
    ) -> Any:
        """The report of this key in this release: drawn and paid for once, repeated for nothing
        ever after.

        `draw` perturbs the record and returns the report as JSON values. It runs only if the budget
        allows, and its report is on disk before it is returned, so no interruption leads to a
        second draw. A person whose truth has changed repeats the old report too, until they are
        asked in a new release.
        """
        with self._locked():
            account = self.account
            known = account.find(key, release)
            if known is not None:
                return _repeated(known, guarantee)
            account.check(key, guarantee.epsilon)
            entry = _entry(key, release, guarantee, attributes, report=_as_json(draw()))
            self._write(account.with_entry(entry))
        return entry.report

    def _check_budget(self, given: bool) -> None:
        if not self.path.exists():
            self._write(Account(budget=self._budget))
        elif given and not math.isclose(self.account.budget, self._budget, rel_tol=ROUNDING):
            raise ParameterError(
                f"the ledger {self.path.name} has a budget of epsilon {self.account.budget:.2f}, "
                f"not {self._budget:.2f}",
                hint="open it without a budget, or start a new ledger",
                budget=self.account.budget,
            )

    def _write(self, account: Account) -> None:
        text = json.dumps(_to_dict(account), indent=1, allow_nan=False)
        with _replacing(self.path) as file:
            file.write(text)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock file beside the ledger; the ledger itself is replaced, so it cannot carry
        the lock.
        """
        try:
            file = self.path.with_name(self.path.name + ".lock").open("a+")
        except OSError as error:
            raise FileError(
                f"the ledger cannot be kept in {self.path.parent}: {error.strerror}"
            ) from error
        with file:
            _lock(file)
            yield


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
    key: str, release: str, guarantee: Guarantee, attributes: Collection[str], report: Any
) -> Entry:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Entry(key, release, guarantee.epsilon, tuple(sorted(attributes)), now, report)


def _repeated(known: Entry, guarantee: Guarantee) -> Any:
    if known.report is None:
        raise PrivacyError(
            f"release '{known.release}' was charged without its report, so it cannot be repeated",
            hint="ask in a release of its own",
        )
    if not math.isclose(known.epsilon, guarantee.epsilon, rel_tol=1e-9):
        raise PrivacyError(
            f"release '{known.release}' was answered at epsilon {known.epsilon:.2f} and is now "
            "asked at "
            f"{guarantee.epsilon:.2f}",
            hint="a different question needs a release of its own",
        )
    return known.report


def _as_json(report: Any) -> Any:
    """The report as it will be read back, so that the first answer and every repetition are the
    same value.
    """
    if report is None:
        raise ParameterError("a report cannot be None; return what is to be sent")
    try:
        return json.loads(json.dumps(report, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "a report must be made of JSON values",
            hint="turn arrays into lists of numbers or labels",
        ) from error


def _to_dict(account: Account) -> dict[str, Any]:
    entries = [{**asdict(entry), "epsilon": _written(entry.epsilon)} for entry in account.entries]
    return {"version": VERSION, "budget": _written(account.budget), "entries": entries}


def _written(epsilon: float) -> float | None:
    """JSON has no infinity: null stands for an epsilon without bound."""
    return epsilon if math.isfinite(epsilon) else None


def _read(path: Path) -> Account:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["version"] != VERSION:
            raise FileError(
                f"{path.name} is a ledger of version {stored['version']}; this program reads "
                f"version {VERSION}"
            )
        return Account(
            tuple(_entry_of(row) for row in stored["entries"]), _epsilon_of(stored["budget"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path.name} is not a ledger", hint="restore it from a copy: it says what was spent"
        ) from error


def _entry_of(row: dict[str, Any]) -> Entry:
    fields = Entry.__dataclass_fields__
    if unknown := set(row) - set(fields):
        raise FileError(
            "an entry of the ledger has fields this program does not know: "
            f"{listing(sorted(unknown))}"
        )
    return Entry(
        **{**row, "epsilon": _epsilon_of(row["epsilon"]), "attributes": tuple(row["attributes"])}
    )


def _epsilon_of(value: float | None) -> float:
    epsilon = math.inf if value is None else float(value)
    if not epsilon >= 0:
        raise ValueError(f"epsilon {epsilon}")
    return epsilon


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """A file to write that takes the place of `path` once it is safely on disk, or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Have the folder's new entry survive a power cut; Windows does so by itself."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(file: IO[str]) -> None:
    """Wait for the lock on an open file; closing it lets go."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
