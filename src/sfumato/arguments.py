"""Arguments: where a public function, class or method was given something of a kind that its
annotation does not name, one line of ours says so.

Functions check what they are given themselves, in words of their own. What no check foresaw ends in
an exception from somewhere inside: then the annotations are read, and the argument that is at fault
is named. So nothing is slower, and nothing refused that would have worked; only what a dataclass
holds as a number, a word, True or False is looked at at once: "no" would count as True.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cache, wraps
from numbers import Integral, Number, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from sfumato.errors import LONG_WORD, ParameterError, SfumatoError, listing, near_miss

T = TypeVar("T", bound=Callable[..., Any])

SELF = ("self", "cls")  # what a method is given before its arguments
# What makes those of our classes that are asked for most.
MADE = {
    "Domain": "sf.Domain.load reads one from a file",
    "Exact": "as in sf.Exact(sf.read(path))",
    "Guarantee": "as in sf.Guarantee(19)",
    "Itemsets": "what sf.mine returns",
    "Keystream": "sf.secure() for secure noise, sf.seeded(1) for an experiment",
    "Mechanism": "as in sf.Retention(domain, 0.5)",
    "Model": "what sf.fit returns",
    "Release": "what sf.perturb and sf.open return",
    "Table": "what sf.read returns",
}


@dataclass(frozen=True)
class Allowed:
    """What an argument may be: a test, and how the line that refuses a value calls what would do.
    Values of the `plain` types pass without the test.
    """

    takes: Callable[[Any], bool]
    wanted: str
    plain: frozenset[type] = frozenset()


def _anything(value: Any) -> bool:
    return True


ANYTHING = Allowed(_anything, "anything")
NOTHING = Allowed(lambda value: value is None, "None", frozenset({type(None)}))
PLAIN = {
    float: Allowed(
        lambda value: isinstance(value, Real) and not isinstance(value, bool),
        "a number",
        frozenset({float, int}),
    ),
    int: Allowed(
        lambda value: isinstance(value, Integral) and not isinstance(value, bool),
        "a whole number",
        frozenset({int}),
    ),
    bool: Allowed(lambda value: isinstance(value, np.bool_), "True or False", frozenset({bool})),
    str: Allowed(lambda value: isinstance(value, str), "a word", frozenset({str})),
    Path: Allowed(lambda value: isinstance(value, os.PathLike), "the name of a file"),
}
AT_ONCE = {"float": PLAIN[float], "int": PLAIN[int], "bool": PLAIN[bool], "str": PLAIN[str]}


def checked(thing: T) -> T:
    """The function, or the class with its constructor and public methods, which refuses an argument
    that is called as none of its own is, or is of a kind that its annotation does not name.

    >>> @checked
    ... def drawn(rows: int, *, seed: int | None = None) -> list[int]:
    ...     return [seed or 0] * rows
    >>> drawn("many")
    Traceback (most recent call last):
    sfumato.errors.ParameterError: rows='many' will not do; give a whole number
    >>> drawn(3, sed=1)
    Traceback (most recent call last):
    sfumato.errors.ParameterError: drawn has no option 'sed' (rows, seed); did you mean 'seed'?
    >>> drawn(3, 1)
    Traceback (most recent call last):
    sfumato.errors.ParameterError: drawn takes rows without a name, not 2 arguments; name the
    others: seed=
    """
    if not isinstance(thing, type):
        return _checked(thing, thing.__name__)
    for name, found in list(vars(thing).items()):
        if name == "__init__":
            wrapped = _checked(found, thing.__name__, at_once=is_dataclass(thing))
        elif name == "__getitem__" or not name.startswith("_"):
            wrapped = _method(found, name)
        else:
            continue
        if wrapped is not None:
            setattr(thing, name, wrapped)
    return thing


def _method(found: Any, name: str) -> Any:
    if isinstance(found, classmethod | staticmethod):
        return type(found)(_checked(found.__func__, name))
    return _checked(found, name) if isinstance(found, types.FunctionType) else None


@contextmanager
def blaming(make: Any, given: Mapping[str, Any]) -> Iterator[None]:
    """A block that uses what something was made with, unchecked then; if it falls, what was given
    is held to the annotations.
    """
    try:
        yield
    except SfumatoError:
        raise
    except Exception as slip:
        fault = _asked(inspect.unwrap(make.__init__)).fault(make.__name__, (), given)
        if fault is None:
            raise
        raise fault from slip


def _checked(function: Any, called: str, *, at_once: bool = False) -> Any:
    annotations = function.__annotations__.items() if at_once else ()
    plain = [(name, AT_ONCE[hint]) for name, hint in annotations if hint in AT_ONCE]

    @wraps(function)
    def checking(*given: Any, **named: Any) -> Any:
        try:
            made = function(*given, **named)
        except SfumatoError:
            raise
        except Exception as slip:
            fault = _asked(function).fault(called, given, named)
            if fault is None:
                raise
            raise fault from slip
        for name, kind in plain:
            value = getattr(given[0], name)
            if type(value) not in kind.plain and not kind.takes(value):
                raise _refusal(name, value, kind)
        return made

    return checking


@dataclass(frozen=True)
class _Asked:
    """The kinds of a function's parameters: by place, by name, and of those that are left over."""

    places: tuple[tuple[str, Allowed], ...]
    names: Mapping[str, Allowed]
    more: tuple[str, Allowed]
    free: bool
    needed: frozenset[str]

    def fault(
        self, called: str, given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> ParameterError | None:
        """The first argument that is called or is what it should not be, in a line of ours."""
        for (name, kind), value in zip(self.places, given, strict=False):
            if type(value) not in kind.plain and not kind.takes(value):
                return _refusal(name, value, kind)
        for value in given[len(self.places) :]:
            name, kind = self.more
            if not kind.takes(value):
                return _refusal(name, value, kind)
        for name, value in named.items():
            kind = self.names.get(name, ANYTHING)
            if kind is ANYTHING and name not in self.names and not self.free:
                known = f"({listing(self.names, most=20)})"
                hint = near_miss(name, self.names)
                return ParameterError(f"{called} has no option '{name}' {known}", hint=hint)
            if type(value) not in kind.plain and not kind.takes(value):
                return _refusal(name, value, kind)
        return self._number(called, len(given), named)

    def _number(self, called: str, given: int, named: Mapping[str, Any]) -> ParameterError | None:
        """More arguments than there are places, or fewer than are needed, in a line of ours."""
        places = [name for name, _ in self.places]
        if given > len(places) and not self.more[0]:
            own = [name for name in places if name not in SELF]
            others = [name for name in self.names if name not in places]
            takes = f"{called} takes {' and '.join(own) or 'nothing'} without a name"
            return ParameterError(
                f"{takes}, not {given - len(places) + len(own)} arguments",
                hint=f"name the others: {listing(f'{name}=' for name in others)}"
                if others
                else "leave the others out",
            )
        lacking = [name for name in self.needed if name not in {*places[:given], *named}]
        if not lacking:
            return None
        order = [name for name in self.names if name in lacking]
        return ParameterError(f"{called} needs {' and '.join(order)}, which was not given")


def _refusal(name: str, value: Any, kind: Allowed) -> ParameterError:
    """What was wrong, what was found and what would do."""
    return ParameterError(
        f"{name}={shown(value)} will not do",
        hint=f"give {kind.wanted}",
        parameter=name,
        found=type(value).__name__,
    )


@cache
def _asked(function: Any) -> _Asked:
    hints = get_type_hints(function)
    known = inspect.signature(function).parameters.values()
    kinds = {each.name: kind_of(hints.get(each.name, Any), each.default) for each in known}
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    more = [each.name for each in known if each.kind is each.VAR_POSITIONAL]
    return _Asked(
        tuple((each.name, kinds[each.name]) for each in known if each.kind in by_place),
        {
            each.name: kinds[each.name]
            for each in known
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name != "self"
        },
        (more[0], kinds[more[0]]) if more else ("", ANYTHING),
        any(each.kind is each.VAR_KEYWORD for each in known),
        frozenset(
            each.name
            for each in known
            if each.default is each.empty
            and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            and each.name not in SELF
        ),
    )


def kind_of(hint: Any, default: Any = inspect.Parameter.empty) -> Allowed:
    """What an annotation lets through.

    >>> kind_of(float | None).wanted, kind_of(tuple[str, ...]).wanted
    ('a number or None', 'a list of words')
    """
    if default is None:
        return _either([kind_of(hint), NOTHING])
    origin, inside = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return NOTHING
    if origin is Union or origin is types.UnionType:
        return _either([kind_of(part) for part in inside])
    if origin is Literal:
        return Allowed(lambda value: _among(value, inside), f"one of {listing(inside)}")
    base = hint if origin is None else origin
    if base in PLAIN:
        return PLAIN[base]
    known = isinstance(base, type) and base.__name__ not in ("Any", "object")
    return _of_class(base, inside) if known else ANYTHING


def _of_class(base: type, inside: tuple[Any, ...]) -> Allowed:
    if base is np.ndarray:
        return Allowed(_is_numeric, "an array of numbers", frozenset({np.ndarray}))
    if issubclass(base, Mapping):
        return _mapping(base, [kind_of(part) for part in inside])
    if base.__name__ == "Callable":
        return Allowed(callable, "a function")
    if issubclass(base, Iterable) and (base.__module__ in ("collections.abc", "builtins")):
        return _many(kind_of(inside[0]) if inside else ANYTHING)
    if getattr(base, "_is_protocol", False):
        members = _members(base)
        return Allowed(lambda value: all(_has(value, name) for name in members), _made(base))
    return Allowed(lambda value: isinstance(value, base), _made(base), frozenset({base}))


def _either(kinds: list[Allowed]) -> Allowed:
    words = dict.fromkeys(word for kind in kinds for word in kind.wanted.split(" or "))
    return Allowed(
        lambda value: any(type(value) in kind.plain or kind.takes(value) for kind in kinds),
        " or ".join(words),
        frozenset().union(*(kind.plain for kind in kinds)),
    )


def _many(entry: Allowed) -> Allowed:
    """Several of a kind; a word, which is a list of letters to Python, is not several."""

    def takes(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        entries = value.tolist() if isinstance(value, np.ndarray) else value
        return not isinstance(value, Sized) or all(  # looking at an iterator would use it up
            type(each) in entry.plain or entry.takes(each) for each in entries
        )

    return Allowed(takes, f"a list of {_several(entry.wanted)}")


def _mapping(base: type[Mapping[Any, Any]], inside: list[Allowed]) -> Allowed:
    key, entry = inside or (ANYTHING, ANYTHING)

    def takes(value: Any) -> bool:
        return isinstance(value, base) and all(
            (type(name) in key.plain or key.takes(name))
            and (type(each) in entry.plain or entry.takes(each))
            for name, each in value.items()
        )

    of = "" if entry is ANYTHING else f" to {_several(entry.wanted)}"
    return Allowed(takes, f"a dictionary of {_several(key.wanted)}{of}")


def _is_numeric(value: Any) -> bool:
    """Whether this is an array, or lists that make one of numbers."""
    if isinstance(value, np.ndarray):
        return True
    try:
        return isinstance(value, list | tuple) and np.asarray(value).dtype.kind in "biuf"
    except ValueError:  # rows of several lengths
        return False


def _among(value: Any, known: tuple[Any, ...]) -> bool:
    return isinstance(value, str | int | bool | None) and value in known


def _members(protocol: type) -> set[str]:
    own = (base for base in protocol.__mro__ if getattr(base, "_is_protocol", False))
    found = {name for base in own for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in found if not name.startswith("_")}


def _has(value: Any, name: str) -> bool:
    missing = object()
    return inspect.getattr_static(value, name, missing) is not missing


def _named(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def _made(kind: type) -> str:
    """A class as the line calls it that asks for one: with what makes it, where that is ours."""
    made = MADE.get(kind.__name__) if kind.__module__.startswith("sfumato.") else None
    return _named(kind) + (f" ({made})" if made else "")


def _several(wanted: str) -> str:
    """What one is called, for more than one: 'a number or a list of words' -> 'numbers or lists of
    words'.
    """
    words = []
    for word in wanted.split(" or "):
        article, _, noun = word.partition(" ")
        noun, of, rest = noun.partition(" of ")
        several = noun if noun.endswith("s") else f"{noun}s"
        words.append(f"{several}{of}{rest}" if article in ("a", "an") else word)
    return " or ".join(words)


def shown(value: Any) -> str:
    """An argument in a message: plain values as they are typed, anything else by its kind and size,
    for what it holds may be somebody's.

    >>> shown("nonsense"), shown(["age", 3]), shown({"age": [41, 17]}), shown(np.zeros((4, 2)))
    ("'nonsense'", "['age', 3]", 'a dict', 'a ndarray of 4 × 2')
    """
    if isinstance(value, str) and len(value) > LONG_WORD:
        return f"'{value[:LONG_WORD]}…'"
    if isinstance(value, list | tuple | dict) and len(value) <= 3:
        inside = value.values() if isinstance(value, dict) else value
        text = repr(value) if all(map(_is_plain, inside)) else ""
        return text if 0 < len(text) <= LONG_WORD else _named(type(value))
    return repr(value) if _is_plain(value) else f"{_named(type(value))}{_size(value)}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | Number | np.generic | os.PathLike | None)


def _size(value: Any) -> str:
    """How large a frame, an array, a table or a source is, in words."""
    shape, rows = getattr(value, "shape", None), getattr(value, "rows", None)
    if isinstance(shape, tuple) and shape:
        return f" of {' × '.join(map(str, shape))}"
    return f" of {rows:,} rows" if isinstance(rows, int) else ""
