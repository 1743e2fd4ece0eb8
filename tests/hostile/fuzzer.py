"""A fuzzer: honest files, changed a little in many ways, and what is done with each."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.mechanisms.examples import EXAMPLES
from typer.testing import CliRunner

from sfumato.bits import Bits
from sfumato.cli import app
from sfumato.cli.errors import complaint
from sfumato.cli.summary import facts, summarise
from sfumato.domain import Domain, Items
from sfumato.errors import SfumatoError
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.privacy.json_ledger import read_json_ledger
from sfumato.release import Release
from sfumato.table import Provenance, Table
from sfumato.table.baskets import BasketReader
from sfumato.table.delimited import CsvReader
from sfumato.table.proposal import propose
from sfumato.untrusted import parsed_json

SECONDS = 4.0  # of CPU that one input may take here, where other tests run beside
FEW_CELLS = 200  # of an attribute that is asked about

NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e-320,
    5e-324,
    1e308,
    -1e308,
    float("inf"),
    float("nan"),
    10**18,
    1 << 53,
    1 << 63,
    10**400,
    "",
    "0",
    "1/0",
    "-1/3",
    "1/3",
    "1e1000000000",
    "9" * 5000,
    "٣",
    "\ud800",
    "\x00",
    "\x1b[31m",
    "a" * 10_000,
    "category",
    "retention",
    "combined",
    [],
    {},
    [[]],
    [None],
    [0, 0],
    [1, 2, 3],
    ["a", "a"],
    [0.1] * 1000,
    {"a": 1},
    {"": []},
)


@dataclass(frozen=True)
class Kind:
    """A kind of file: honest examples, and everything that is done with one."""

    name: str
    honest: tuple[bytes, ...]
    use: Callable[[bytes], None]
    structured: bool = True  # whether it is JSON that can be changed by its parts


class TooLongError(BaseException):
    """An input that took more CPU than one may take."""


def try_inputs(kind: Kind, seed: int, count: int) -> None:
    """Change honest files and use them: SfumatoError and ValueError's kin of ours are fine, nothing
    else is.
    """
    rng = random.Random(f"{kind.name} {seed}")
    for number in range(count):
        text = mutated(rng, rng.choice(kind.honest), structured=kind.structured)
        try:
            with limited(SECONDS):
                kind.use(text)
        except SfumatoError as error:
            line = complaint(error.message, error.hint)
            assert "\n" not in line and 20 < len(line) < 1100, (line, text[:500])
        except BaseException as fault:
            raise AssertionError(
                f"{kind.name}, seed {seed}, input {number}: {type(fault).__name__}: {fault}\n"
                f"{text[:2000]!r}"
            ) from fault


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A block that may take so much CPU."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"more than {seconds} s of CPU")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# --- changes


def mutated(rng: random.Random, honest: bytes, *, structured: bool) -> bytes:
    """The file after one to four changes, of its parts or of its bytes."""
    text = honest
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = _changed_value(rng, text) if structured and rng.random() < 0.8 else _bytes(rng, text)
    return text


def _changed_value(rng: random.Random, text: bytes) -> bytes:
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return _bytes(rng, text)
    places = list(_places(root)) if isinstance(root, dict | list) else []
    if not places:
        return json.dumps(rng.choice(NASTY)).encode()
    holder, key = rng.choice(places)
    change = rng.randrange(7)
    if change == 0:
        del holder[key]
    elif change == 1:
        holder[key] = [holder[key]]
    elif change == 2:
        holder[key] = {"a": holder[key]}
    elif change == 3:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    elif change == 4:
        holder[key] = _near(rng, holder[key])
    else:
        holder[key] = rng.choice(NASTY)
    return json.dumps(root).encode()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside, as its holder and key."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(entries):
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _near(rng: random.Random, value: Any) -> Any:
    """A value of the same kind that is a little off."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return rng.choice((-value, value + 1, value * 2, value * 1000))
    if isinstance(value, str):
        return rng.choice((value + "x", value[:-1], value * 3, value.upper(), f" {value}"))
    if isinstance(value, list):
        return rng.choice((value * 2, value[:-1], value[::-1], [*value, rng.choice(NASTY)]))
    return {**value, "unknown": rng.choice(NASTY)}


def _bytes(rng: random.Random, text: bytes) -> bytes:
    if not text:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(8)))
    place = rng.randrange(len(text))
    change = rng.randrange(5)
    if change == 0:
        return text[:place]
    if change == 1:
        return text[:place] + bytes([rng.randrange(256)]) + text[place + 1 :]
    if change == 2:
        return text[:place] + text[place + rng.randrange(1, 20) :]
    if change == 3:
        piece = text[place : place + rng.randrange(1, 40)]
        return text[:place] + piece * rng.randrange(2, 200) + text[place:]
    marks = rng.choice(
        (b"[", b"{", b'"', b"\\", b"\x00", b"\xff", b",", b"\n", b"9" * 400, b"-", b"=")
    )
    return text[:place] + marks * rng.choice((1, 1, 50)) + text[place:]


# --- uses


def use_description(text: bytes) -> None:
    """Read a description, say everything that can be said about it, and ask one question."""
    provenance = Provenance.from_description(parsed_json(text, "this text"))
    facts(summarise(provenance, 4))
    again = Provenance.from_description(json.loads(json.dumps(provenance.describe())))
    assert again.mechanism == provenance.mechanism
    reports = provenance.mechanism.reports
    rows = 4 * provenance.copies
    if sum(attribute.size for attribute in reports) > 5000 or rows > 1000:
        return
    columns = tuple(
        Bits.zeros(rows, attribute.size)
        if isinstance(attribute, Items)
        else np.zeros(rows, dtype=np.uint8)
        for attribute in reports
    )
    release = Release.of(Table(reports, columns, provenance))
    asked = next((a for a in provenance.mechanism.domain if a.size <= FEW_CELLS), None)
    if asked is not None and not isinstance(asked, Items):
        release.marginal([asked.name])


def use_domain(text: bytes) -> None:
    domain = Domain.from_dict(parsed_json(text, "this text"))
    assert Domain.from_toml(domain.to_toml()) == domain


def use_schema(text: bytes) -> None:
    domain = Domain.from_toml(text.decode("utf-8", "replace"))
    assert Domain.from_toml(domain.to_toml()) == domain


def use_ledger(text: bytes) -> None:
    with suppress(ValueError):  # how it says that this is none; whoever opens it tells the rest
        read_json_ledger(text.decode("utf-8", "replace"))


def use_file(text: bytes) -> None:
    """Give a file with this description to commands, as a person would."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/f.parquet"
        table = pa.table({"c": ["a", "b"], "items": [["a"], []]})
        pq.write_table(table.replace_schema_metadata({b"sfumato": text}), path)
        question = "SELECT COUNT(*) FROM t"
        for words in (["describe", path], ["query", path, question], ["mine", path]):
            done = CliRunner().invoke(app, [*words, *(["--json"] if words[0] == "mine" else [])])
            assert done.exit_code in (0, 2), (words[0], done.output)


def use_csv(text: bytes) -> None:
    reader = CsvReader(text, "this text")
    reader.table(propose(reader).domain)


def use_baskets(text: bytes) -> None:
    reader = BasketReader(text, "this text")
    reader.table(reader.found)


def _descriptions() -> tuple[bytes, ...]:
    known = [e.mechanism for e in EXAMPLES if e.mechanism.name in MECHANISMS]
    return tuple(json.dumps(Provenance(m, True).describe()).encode() for m in known)


def _domains() -> tuple[bytes, ...]:
    domains = {e.mechanism.domain for e in EXAMPLES}
    return tuple(sorted(json.dumps(domain.to_dict()).encode() for domain in domains))


def _schemas() -> tuple[bytes, ...]:
    domains = {e.mechanism.domain for e in EXAMPLES}
    return tuple(sorted(domain.to_toml().encode() for domain in domains))


LEDGER = {
    "version": 1,
    "budget": 2.5,
    "entries": [
        {
            "key": "k",
            "release": "spring",
            "epsilon": 1.0,
            "attributes": ["age"],
            "at": "2024-01-01",
            "report": [1],
        }
    ]
    * 2,
}
CSV = b"sex,age,town\nF,31,a\nM,42.5,b\nF,,c\n" + b"".join(b"M,%d,a\n" % n for n in range(20, 60))
KINDS = {
    kind.name: kind
    for kind in (
        Kind("description", _descriptions(), use_description),
        Kind("domain", _domains(), use_domain),
        Kind("schema", _schemas(), use_schema, structured=False),
        Kind("file", _descriptions(), use_file),
        Kind("ledger", (json.dumps(LEDGER).encode(),), use_ledger),
        Kind("csv", (CSV, b'"a b","c"\n"x, y",1\n"",2\n'), use_csv, structured=False),
        Kind("baskets", (b"1 2 3\n\n7 9\n3\n", b"10\n"), use_baskets, structured=False),
    )
}
