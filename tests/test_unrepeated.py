"""Nothing that draws noise draws it twice: every class of the package that holds a keystream or
draws is found by itself, then forked, threaded, copied and pickled.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.test_randomness import in_child, needs_fork

import sfumato
from sfumato.collect.canonical import digest
from sfumato.collect.client import Client
from sfumato.domain import Category, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.steps import Draws
from sfumato.randomness import Keystream, Process, secure, seeded

PACKAGE = Path(sfumato.__file__).parent
# What draws, and what it is in a test: a stream that has been used, so that what it keeps is there.
SOURCES: dict[str, Callable[[], Any]] = {
    "Keystream": lambda: used(secure()),
    "Draws": lambda: used(Draws.of(secure())),
}
MAKERS = {"secure", "seeded", "drawing"}  # functions that give a stream
# What a stream gives; a class that keeps it has a second place where noise waits to be used.
DRAWING = {"words", "uint32", "uint16", "below", "below_each", "random", "fill", "_draw", "_refill"}


@dataclass(frozen=True)
class Holder:
    """A class and its attributes that hold what draws, by the class each of them holds."""

    module: str
    name: str
    held: tuple[tuple[str, str], ...]

    def made(self) -> Any:
        """An instance of which only these attributes are there, each used before."""
        if self.name in SOURCES:
            return SOURCES[self.name]()
        kind = getattr(importlib.import_module(self.module), self.name)
        instance = object.__new__(kind)
        for attribute, held in self.held:
            object.__setattr__(instance, attribute, by_name()[held].made())
        return instance


def used(source: Any) -> Any:
    noise_of(source, 1)
    return source


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("sfumato", *path.relative_to(PACKAGE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def names_in(node: ast.AST | None) -> set[str]:
    """Every name that an expression or annotation uses, those in a quoted annotation too."""
    found = set()
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found |= set(each.value.replace("|", " ").replace(".", " ").split())
    return found


def held_by(kind: ast.ClassDef, known: set[str]) -> dict[str, str]:
    """The attributes of a class that hold one of the known ones: annotated in its body, or set from
    an argument annotated so, from the class itself, or from a function that makes a stream.
    """
    found: dict[str, str] = {}
    for line in kind.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            for name in names_in(line.annotation) & known:
                found[line.target.id] = name
    for method in (line for line in kind.body if isinstance(line, ast.FunctionDef)):
        given = {
            argument.arg: name
            for argument in (*method.args.args, *method.args.kwonlyargs)
            for name in names_in(argument.annotation) & known
        }
        for line in ast.walk(method):
            targets = line.targets if isinstance(line, ast.Assign) else ()
            if isinstance(line, ast.AnnAssign):
                targets = (line.target,)
            for target in targets:
                if not isinstance(target, ast.Attribute) or names_in(target.value) != {"self"}:
                    continue
                said = names_in(line.value) | names_in(getattr(line, "annotation", None))
                for name in (said & known) or {given[n] for n in said & given.keys()}:
                    found[target.attr] = name
                if said & MAKERS and target.attr not in found:
                    found[target.attr] = "Keystream"
    return found


@cache
def by_name() -> dict[str, Holder]:
    """Every class that holds what draws, itself or through another class that does."""
    classes = [
        (module, each)
        for module, tree in modules()
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
    ]
    found = {
        each.name: Holder(module, each.name, ()) for module, each in classes if each.name in SOURCES
    }
    while True:
        before = len(found)
        for module, each in classes:
            held = {} if each.name in SOURCES else held_by(each, set(found))
            if held:
                found[each.name] = Holder(module, each.name, tuple(sorted(held.items())))
        if len(found) == before:
            return found


HOLDERS = sorted(by_name().values(), key=lambda holder: (holder.module, holder.name))


def noise_of(thing: Any, words: int = 2000) -> list[int]:
    """What comes out of everything that draws in a thing, as 64-bit words: none comes twice by
    chance.
    """
    if isinstance(thing, Keystream):
        return [int(word) for word in thing.words(words)]
    if isinstance(thing, Draws):
        return [thing.word(64) for _ in range(words)]
    return [word for held in vars(thing).values() for word in noise_of(held, words)]


def apart(*noises: list[int]) -> None:
    every = [word for noise in noises for word in noise]
    assert every and len(set(every)) == len(every), "the same noise was drawn twice"


def as_bytes(noise: list[int]) -> bytes:
    return np.array(noise, dtype=np.uint64).tobytes()


def from_bytes(octets: bytes) -> list[int]:
    return [int(word) for word in np.frombuffer(octets, dtype=np.uint64)]


each_holder = pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.name)


def test_the_classes_are_found_that_are_known_to_draw() -> None:
    """The search can fail: one that found nothing would pass every other test."""
    assert {"Keystream", "Draws", "Client", "Shuffle", "Story", "Resampled"} <= {*by_name()}


def test_a_new_class_is_found_however_it_holds_its_stream() -> None:
    text = (
        "class A:\n    rng: Keystream\n"
        "class B:\n    def __init__(self, rng: Keystream | None = None):\n        self.own = rng\n"
        "class C:\n    def __init__(self):\n        self.own = secure()\n"
        "class D:\n    def __init__(self, rng):\n        self.own = Draws.of(rng)\n"
        "class E:\n    def __init__(self, rng: Keystream):\n        self.rows = 3\n"
    )
    classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    assert [held_by(each, {*SOURCES}) for each in classes] == [
        {"rng": "Keystream"},
        {"own": "Keystream"},
        {"own": "Keystream"},
        {"own": "Draws"},
        {},
    ]


@needs_fork
@each_holder
def test_forked_children_and_their_parent_share_no_noise(holder: Holder) -> None:
    thing = holder.made()
    children = [from_bytes(in_child(lambda: as_bytes(noise_of(thing)))) for _ in range(2)]
    nested = from_bytes(in_child(lambda: in_child(lambda: as_bytes(noise_of(thing)))))
    apart(noise_of(thing), *children, nested)


@needs_fork
@each_holder
def test_workers_of_multiprocessing_share_no_noise(holder: Holder) -> None:
    thing, context = holder.made(), multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [
        context.Process(target=lambda: queue.put(as_bytes(noise_of(thing, 200)))) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    found = [from_bytes(queue.get()) for _ in workers]
    for worker in workers:
        worker.join()
    apart(noise_of(thing, 200), *found)


@each_holder
def test_threads_share_no_noise(holder: Holder) -> None:
    thing, found, start = holder.made(), [], threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.append(noise_of(thing))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    apart(*found)


@each_holder
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_refused_or_shares_no_noise(holder: Holder, again: Callable[[Any], Any]) -> None:
    """A shallow copy holds the same stream, which gives no byte twice."""
    thing = holder.made()
    try:
        second = again(thing)
    except ParameterError as error:
        assert "cannot be copied or sent to another process" in error.message
    else:
        apart(noise_of(thing), noise_of(second))


def test_no_class_but_draws_keeps_what_it_drew() -> None:
    """Noise that waits in an attribute would be in two processes after a fork."""
    kept = {
        (each.name, target.attr)
        for _, tree in modules()
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and each.name in by_name()
        for line in ast.walk(each)
        if isinstance(line, ast.Assign) and drawn_in(line.value)
        for target in line.targets
        if isinstance(target, ast.Attribute)
    }
    assert kept == set()


def drawn_in(value: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in DRAWING
        for each in ast.walk(value)
    )


def test_what_was_drawn_and_kept_would_be_seen() -> None:
    line = ast.parse("self.kept = self.rng.words(100)").body[0]
    assert isinstance(line, ast.Assign) and drawn_in(line.value)


@needs_fork
def test_noise_kept_over_a_fork_would_be_seen() -> None:
    """The judge can fail: without the count of forks two children take the same bytes."""
    draws = used(Draws.of(secure()))
    take, process = draws._chunk

    def child() -> bytes:
        draws._chunk = (take, Process.current())  # as if this process had fetched it
        return as_bytes(noise_of(draws, 50))

    assert process == Process.current()
    with pytest.raises(AssertionError, match="drawn twice"):
        apart(*(from_bytes(in_child(child)) for _ in range(2)))


def test_a_fork_that_python_was_not_told_of_is_seen_before_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it fetched is dropped: of the chunk the next words never come."""
    draws = used(Draws.of(secure()))
    chunk, _ = draws._chunk
    monkeypatch.setattr(os, "getpid", lambda: -1)
    draws.begin()
    assert draws._chunk[0] is not chunk and draws._chunk[1] == Process.current()


@needs_fork
def test_draws_from_a_seed_go_on_at_the_next_chunk_in_every_child_alike() -> None:
    draws = Draws.of(seeded(3))
    first = noise_of(draws, 3)
    whole = seeded(3).words(300).tolist()
    children = [from_bytes(in_child(lambda: as_bytes(noise_of(draws, 5)))) for _ in range(2)]
    assert children[0] == children[1] == whole[128:133]
    assert first + noise_of(draws, 200) == whole[:203], "where it was made nothing is left out"


def client(rng: Keystream | None = None) -> Client:
    """A client of a campaign that no server has."""
    domain = Domain((Category("smoker", ("yes", "no")), Category("age", ("18-39", "40-64", "65+"))))
    mechanism = GammaDiagonal(domain, 3)
    program = json.loads(json.dumps(mechanism.program().to_dict()))
    stated = {"domain": domain.to_dict(), "program": program, "round": 1}
    said = {"name": "c", "hash": digest(stated), "open": True, "promise": {"gamma": "3/1"}}
    document = stated | said
    made = Client("http://127.0.0.1:1/c", rng=rng)
    made.transport.get = lambda path: document  # type: ignore[method-assign]
    return made


@needs_fork
def test_two_workers_of_one_client_do_not_betray_the_difference_of_their_answers() -> None:
    """With shared noise the reports of the same answer were the same, in 170 of 170."""
    one = client()
    record = {"smoker": "yes", "age": "65+"}
    one._drawn(record, one._deal())  # from here on there is a chunk

    def work() -> bytes:
        return json.dumps([one._drawn(record, one._deal())["values"] for _ in range(300)]).encode()

    first, second = (json.loads(in_child(work)) for _ in range(2))
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert same < 150  # about 300 · (9 + 5) / 64


def test_nobody_calls_a_key_secure_that_was_handed_over() -> None:
    for key in (bytes(32), os.urandom(32)):
        with pytest.raises(TypeError):
            Keystream(key, secure=True)  # type: ignore[call-arg]
        assert not Keystream(key).secure and not Keystream(key).derive(1).secure
    with pytest.raises(AttributeError):
        Keystream(bytes(32)).secure = True  # type: ignore[misc]
    assert secure().secure and secure().derive(1).secure and secure().branch().secure
    assert not seeded(1).branch().secure
