"""Untrusted: what comes out of a file, checked before anything is computed from it.

A description, schema, campaign, ledger or report may come from a stranger. What is no file, and may
never end, is not read; text is bounded before it is parsed, and every value by kind, length and
digits before any arithmetic, so that no file can hang a program, fill its memory, or end it in a
way that nobody foresaw. The bounds are stated here, each with what it protects.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

from sfumato.errors import FileError, SchemaError, SfumatoError, listing, near_miss

if TYPE_CHECKING:
    import sqlite3

# Bytes of one small file, read before anything is made of them: what a file may take of memory.
MOST_JSON_BYTES = 12 << 20  # a description, model or report: the largest matrix takes so much
MOST_TOML_BYTES = 1 << 21  # a schema or a campaign: 100,000 values take 1 MB
MOST_MATRIX_BYTES = 1 << 25  # the probabilities of 1024 × 1024 cells, as text
MOST_NAMES_BYTES = 1 << 25  # what items are called
MOST_LIST_BYTES = 1 << 22  # a universe of items, itemsets that may be reported, patterns to hide
MOST_LEDGER_BYTES = 1 << 25  # a ledger of version 0.1.0: 100,000 entries take 20 MB
# Seconds that a pipe is waited for, which may have nobody at its other end.
LONGEST_WAIT = 0.5  # until somebody opens it
LONGEST_SILENCE = 30.0  # of somebody who has
# What a text holds, counted before it is parsed: time and memory of a parser, and its stack.
MOST_VALUES = 1 << 21  # in one JSON text, braces counted four times for the memory they take
MOST_KEYS = 1 << 15  # in one TOML text, a line each
MOST_DEPTH = 32  # of lists and objects inside each other
# One value, before it is computed with: digits make arithmetic slow, letters fill a message.
MOST_DIGITS = 128  # of a numerator or denominator
MOST_LETTERS = 4096  # of one word
MOST_NUMBER = 1e30  # of a number, in size
MOST_READ_DIGITS = 4300  # in a row, of a TOML text: Python reads no longer number
MOST_WHOLE = 1 << 53  # of a whole number, in size: floats hold them exactly
# How many there may be of something: tables and channels are made for each.
MOST_LABELS = 100_000  # values of one attribute, or items of a universe
MOST_DOMAIN_LABELS = 200_000  # values of all attributes together
MOST_ATTRIBUTES = 2000
MOST_CUTS = 4096
MOST_COPIES = 10_000
MOST_CUTOFF = 64

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_DEPTH}}}")
_KEY = re.compile(rf"^[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*+[ \t]*+=", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*+\[", re.MULTILINE)
_LONG_NUMBER = re.compile(rf"[0-9_]{{{MOST_READ_DIGITS + 1}}}")
_DIGITS = f"[0-9]{{1,{MOST_DIGITS}}}"
_FRACTION = re.compile(rf"{_DIGITS}(?:/0*[1-9][0-9]{{0,{MOST_DIGITS}}}|\.{_DIGITS})?")
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(octet for octet in range(256) if octet not in b"[]{}")
_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True)
class Untrusted:
    """A value out of a file and what messages call it; each method checks it and gives it back.

    >>> given = Untrusted({"gamma": "19", "parts": [1, 2]}, "parameters")
    >>> given["gamma"].fraction(), [part.whole(most=9) for part in given["parts"].entries()]
    (Fraction(19, 1), [1, 2])
    >>> Untrusted("1e1000000000", "gamma").fraction()
    Traceback (most recent call last):
    sfumato.errors.FileError: gamma should be a fraction of at most 128 digits, ...
    """

    value: Any
    name: str
    error: type[SfumatoError] = FileError

    def refuse(self, wanted: str) -> NoReturn:
        """Say what should have stood here, and what was found."""
        raise self.error(f"{self.name} should be {wanted}; found {shown(self.value)}")

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value

    def whole(self, least: int = 0, most: int = MOST_WHOLE) -> int:
        """A whole number within these bounds."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.refuse("a whole number")
        if not least <= self.value <= most:
            self.refuse(f"a whole number from {least} to {most}")
        return self.value

    def number(self, least: float = -MOST_NUMBER, most: float = MOST_NUMBER) -> float:
        """A number within these bounds, whole where it was written so."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self.refuse("a number")
        if not least <= self.value <= most:
            self.refuse(f"a number from {least:g} to {most:g}")
        return self.value

    def fraction(self) -> Fraction:
        """A fraction that is not negative, written as digits with at most one slash or point."""
        plain = isinstance(self.value, float) or (
            isinstance(self.value, int) and abs(self.value) <= MOST_WHOLE
        )
        text = str(self.value) if plain else self.value
        if (
            isinstance(self.value, bool)
            or not isinstance(text, str)
            or len(text) > 2 * MOST_DIGITS
            or not _FRACTION.fullmatch(text)
        ):
            self.refuse(f"a fraction of at most {MOST_DIGITS} digits, like 19 or 3/2")
        return Fraction(text)

    def word(self) -> str:
        """A word, which may be empty."""
        if not isinstance(self.value, str):
            self.refuse("a word")
        if len(self.value) > MOST_LETTERS:
            self.refuse(f"a word of at most {MOST_LETTERS} letters")
        return self.value

    def entries(self, most: int = MOST_VALUES) -> tuple[Untrusted, ...]:
        """The entries of a list."""
        return tuple(
            Untrusted(entry, f"entry {place} of {self.name}", self.error)
            for place, entry in enumerate(self._listed(most), 1)
        )

    def words(self, most: int = MOST_LABELS) -> tuple[str, ...]:
        """A list of words, checked all at once."""
        found = self._listed(most)
        if not all(isinstance(word, str) for word in found):
            self.refuse("a list of words")
        if max(map(len, found), default=0) > MOST_LETTERS:
            self.refuse(f"a list of words of at most {MOST_LETTERS} letters")
        return tuple(found)

    def numbers(
        self, most: int = MOST_LABELS, *, least: float = -MOST_NUMBER, highest: float = MOST_NUMBER
    ) -> tuple[float, ...]:
        """A list of numbers within these bounds, checked all at once."""
        found = self._listed(most)
        if not set(map(type, found)) <= {int, float}:
            self.refuse("a list of numbers")
        if not all(least <= number <= highest for number in found):
            self.refuse(f"a list of numbers from {least:g} to {highest:g}")
        return tuple(found)

    def fields(self, most: int = MOST_ATTRIBUTES) -> dict[str, Untrusted]:
        """The fields of an object, by their names."""
        if not isinstance(self.value, Mapping) or not all(
            isinstance(key, str) for key in self.value
        ):
            self.refuse("an object of named values")
        if len(self.value) > most:
            self.refuse(f"an object of at most {most:,} named values")
        return {
            key: Untrusted(value, f"'{_cut(key)}' of {self.name}", self.error)
            for key, value in self.value.items()
        }

    def __getitem__(self, key: str) -> Untrusted:
        """A field that has to be there."""
        if not isinstance(self.value, Mapping):
            self.refuse("an object of named values")
        if key not in self.value:
            raise self.error(f"{self.name} says no '{key}'", hint=near_miss(key, self.value))
        return Untrusted(self.value[key], f"'{key}' of {self.name}", self.error)

    def only(self, *known: str) -> None:
        """Refuse a field that is not known."""
        for key in self.fields():
            if key not in known:
                raise self.error(
                    f"{self.name} does not know the key '{_cut(key)}' ({listing(known)})",
                    hint=near_miss(key, known),
                )

    def _listed(self, most: int) -> Sequence[Any]:
        if not isinstance(self.value, list | tuple):
            self.refuse("a list")
        if len(self.value) > most:
            self.refuse(f"a list of at most {most:,}")
        return self.value


Kind = TypeVar("Kind", dict[str, Any], list[Any])


def parsed_json(text: str | bytes, where: str, most: int = MOST_JSON_BYTES) -> dict[str, Any]:
    """The JSON object in a text that stays within the bounds above.

    >>> parsed_json('{"format": 1}', "this file")
    {'format': 1}
    """
    return _parsed(text, where, dict, most)


def parsed_list(text: str | bytes, where: str, most: int = MOST_JSON_BYTES) -> list[Any]:
    """The JSON list in a text that stays within the bounds above.

    >>> parsed_list("[1, 2]", "this file")
    [1, 2]
    """
    return _parsed(text, where, list, most)


def _parsed(text: str | bytes, where: str, kind: type[Kind], most: int) -> Kind:
    if not isinstance(text, str | bytes):  # out of a database, whose columns take anything
        raise FileError(f"{where} is no text")
    octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(octets) > most:
        raise FileError(f"{where} holds {len(octets):,} bytes; at most {most:,} are read")
    if _values(octets) > MOST_VALUES:
        raise FileError(f"{where} holds more than the {MOST_VALUES:,} values that are read")
    if not _shallow(octets):
        raise FileError(
            f"{where} was changed or cut short, or is nested more than {MOST_DEPTH} deep"
        )
    try:
        found = json.loads(octets, parse_constant=_no_constant, object_pairs_hook=_said_once)
        if b"\\ud" in octets.lower():  # half a letter, which no file or terminal takes
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise FileError(f"{where} is not the JSON that Sfumato writes; it was changed or cut short")
    return found


def parsed_toml(text: str, where: str) -> dict[str, Any]:
    """The tables in a TOML text that stays within the bounds above."""
    check_toml(text, where)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SchemaError(f"{where} is nested too deep") from None
    except ValueError as error:
        raise SchemaError(f"{where} is not valid TOML: {error}") from None


def check_toml(text: str, where: str) -> None:
    """Refuse a TOML text that would keep a parser busy."""
    if len(text) > MOST_TOML_BYTES:
        raise SchemaError(
            f"{where} holds {len(text):,} letters; at most {MOST_TOML_BYTES:,} are read"
        )
    if _DOTTED.search(text):  # each part of a key is looked up by all those before it
        raise SchemaError(f"{where} has a name of more than {MOST_DEPTH} parts with dots between")
    if _LONG_NUMBER.search(text):
        raise SchemaError(f"{where} has a number of more than {MOST_READ_DIGITS:,} digits")
    if sum(1 for _ in _KEY.finditer(text)) > MOST_KEYS:
        raise SchemaError(f"{where} has more than {MOST_KEYS:,} keys")
    if sum(1 for _ in _TABLE.finditer(text)) > 2 * MOST_ATTRIBUTES:
        raise SchemaError(f"{where} has more than {2 * MOST_ATTRIBUTES:,} tables")


def read_text(path: Path, what: str, most: int = MOST_JSON_BYTES) -> str:
    """The text of a small file, without the mark that some editors begin it with; `what` is how
    messages call it.
    """
    octets = read_octets(path, what, most)
    if len(octets) > most:
        raise FileError(f"{what} is larger than the {most:,} bytes that are read")
    try:
        return octets.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"cannot read {what}: it is not UTF-8 text") from None


def read_octets(path: Path, what: str, most: int) -> bytes:
    """The first bytes of a file, one more than `most` where it holds more; nobody is waited for who
    never comes.

    What a pipe holds is read too, as a shell's <(…) is one, once somebody is there who writes.
    """
    try:
        with _unwaiting(path) as file:
            kind = os.fstat(file.fileno()).st_mode
            if stat.S_ISFIFO(kind):
                return _piped(file.fileno(), what, most)
            _check_regular(kind, what)
            return file.read(most + 1)
    except FileNotFoundError:
        raise FileError(f"no {what}") from None
    except SfumatoError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {what}: {reason}") from None


def check_file(path: Path, what: str) -> None:
    """Refuse a device, folder or pipe, which may never end; what is not there is seen elsewhere."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    _check_regular(mode, what)


def _check_regular(mode: int, what: str) -> None:
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise FileError(
            f"{what} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file", hint="name a file"
        )


def _unwaiting(path: Path) -> BinaryIO:
    """A file opened at once: a pipe that nobody writes to would be waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return open(path, "rb", opener=lambda name, _: os.open(name, flags))


def _piped(handle: int, what: str, most: int) -> bytes:
    """What somebody writes into a pipe until they close it, and at most so many bytes and one."""
    arriving, found = select.poll(), bytearray()
    arriving.register(handle, select.POLLIN)
    while len(found) <= most:
        arriving.poll(LONGEST_WAIT * 1000)
        try:
            octets = os.read(handle, min(most + 1 - len(found), 1 << 16))
        except BlockingIOError:  # somebody is there, and silent
            if arriving.poll(LONGEST_SILENCE * 1000):
                continue
            raise FileError(
                f"{what} is a pipe that nobody wrote to for {LONGEST_SILENCE:g} seconds"
            ) from None
        if not octets:
            break
        found += octets
    if not found:
        raise FileError(f"{what} is a pipe that nobody writes to", hint="name a file")
    return bytes(found)


def has_tables(connection: sqlite3.Connection, schema: str) -> bool:
    """Whether an SQLite file has the tables, indexes and triggers of a schema, word for word, and
    nothing else: behind a view, a trigger, an index or a computed column may stand work without
    end, or a refusal of what is to be kept.
    """
    import sqlite3

    def made(connection: sqlite3.Connection) -> set[tuple[str, str]]:
        ours = "sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
        statement = f"SELECT type, sql FROM sqlite_master WHERE {ours}"
        return set(connection.execute(statement).fetchall())

    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(schema)
        return made(connection) == made(empty)


@contextmanager
def refuse_malformed(where: str) -> Iterator[None]:
    """A block in which what no check foresaw becomes one clear error: the file is at fault."""
    try:
        yield
    except SfumatoError:
        raise
    except _MALFORMED as error:
        raise FileError(
            f"{where} cannot be made sense of ({type(error).__name__}); it was changed or cut short"
        ) from error


def _shallow(octets: bytes) -> bool:
    """Whether brackets close, at most so deep: the innermost pairs are taken away, depth by
    depth.
    """
    plain = octets.replace(b"\\\\", b"").replace(b'\\"', b"")  # no quote inside a word is left
    outside = b"".join(plain.split(b'"')[::2])
    left = outside.translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(MOST_DEPTH):
        if not left:
            break
        left = left.replace(b"[]", b"")
    return not left


def _values(octets: bytes) -> int:
    return octets.count(b",") + octets.count(b"[") + 4 * octets.count(b"{")


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("one name has two values")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def shown(value: Any) -> str:
    """What was found, short: a long value by its kind."""
    if isinstance(value, str):
        return f"'{_cut(value)}'"
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "nothing"
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    length = f" of {len(value):,}" if isinstance(value, list | tuple | Mapping) else ""
    return f"{'an object' if isinstance(value, Mapping) else f'a {type(value).__name__}'}{length}"


def _cut(word: str) -> str:
    return word if len(word) <= 60 else word[:60] + "…"
