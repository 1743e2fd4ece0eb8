"""One thread for linear algebra: matrices of a few hundred rows are faster so, since the threads of
a BLAS wait for each other by spinning (a law of 256 values: 1 second of CPU for 15 to 27).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Whatever NumPy and SciPy compute inside has one thread; as many as before afterwards.

    >>> with one_thread():
    ...     found = [read() for read, _ in _pools()]
    >>> set(found) <= {1}
    True
    """
    before = [read() for read, _ in _pools()]
    try:
        for _, write in _pools():
            write(1)
        yield
    finally:
        for (_, write), threads in zip(_pools(), before, strict=True):
            write(threads)


@cache
def _pools() -> list[tuple[Callable[[], int], Callable[[int], Any]]]:
    """How many threads each OpenBLAS that came with NumPy and SciPy has, read and written; none
    where they came with another BLAS, which is left as it is.
    """
    found: list[tuple[Callable[[], int], Callable[[int], Any]]] = []
    for package, ending in (("numpy", "64_"), ("scipy", "")):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        home = Path(spec.origin).parent
        folders = home.parent / f"{package}.libs", home / ".dylibs"
        for path in (each for folder in folders for each in sorted(folder.glob("*openblas*"))):
            name = "scipy_openblas_{}_num_threads" + ending
            try:
                library = ctypes.CDLL(str(path))
                found.append((library[name.format("get")], library[name.format("set")]))
            except (OSError, AttributeError):
                continue
    return found
