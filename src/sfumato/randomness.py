"""Where chance comes from: an AES-256-CTR keystream, keyed by the operating system for people, by a
number for experiments.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.errors import ParameterError

CHUNK = (
    1 << 15
)  # bytes drawn at a time: the zeros, the keystream and the result stay in the first-level cache
_ZEROS = bytes(CHUNK)


class Process:
    """Which process this is: its id, and how many forks of the interpreter lie behind it."""

    forks = 0
    lock = threading.Lock()  # held while a stream that came through a fork is given a new key

    @classmethod
    def forked(cls) -> None:
        """Note that this is a child; whichever thread held the lock is not in it."""
        cls.forks += 1
        cls.lock = threading.Lock()

    @classmethod
    def current(cls) -> tuple[int, int]:
        """The id alone sees forks that Python was not told of; the count alone sees an id used
        again.
        """
        return os.getpid(), cls.forks


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=Process.forked)


class Unrepeated:
    """What must not be there twice, since it draws the noise that hides somebody."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy` and `pickle`."""
        raise ParameterError(
            f"{type(self).__name__} cannot be copied or sent to another process: two that draw the "
            "same noise give away what it hides",
            hint="call secure() where it is needed, or derive(part) for each piece of work",
        )


class Keystream(Unrepeated):
    """A stream of uniform random bits from AES-256 in counter mode, and exact integer draws from
    it.

    Every draw is exact: an integer below a bound comes from rejection, a probability is an integer
    threshold. The only state is the position in the stream; `derive` gives an independent stream
    that depends on the key and a part number alone, so a retried piece of work repeats its draw.

    No two records may share their noise. So threads may share a stream, each getting bytes of its
    own (a seeded stream then depends on their order); a secure stream that came into a process by
    a fork has a new key there (a seeded one, which promises nothing, goes on where it stood, in
    every child alike); and a stream cannot be copied, replaced or pickled.

    Only `secure()` makes a secure one, and what is derived from it is secure too: a key that is
    handed over gives a stream that whoever knows the key can repeat.

    >>> seeded(1).below(6, 5).tolist() == seeded(1).below(6, 5).tolist()
    True
    >>> secure().secure, seeded(1).secure
    (True, False)
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ParameterError(f"a key of {len(key)} bytes; a keystream needs one of 32")
        self._secure = False
        self._start(key)

    @staticmethod
    def _keyed(key: bytes, secure: bool) -> Keystream:
        stream = Keystream(key)
        stream._secure = secure
        return stream

    def _start(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._key = key
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._lock = threading.Lock()
        self._process = Process.current()

    @property
    def secure(self) -> bool:
        """Whether nobody can know the key."""
        return self._secure

    @property
    def key(self) -> bytes:
        """The 256 bits that decide the whole stream: a secret."""
        self._check_process()
        return self._key

    def _check_process(self) -> None:
        """Make the stream this process's own: a secure one that came by a fork gets a new key, a
        seeded one, which promises nothing, goes on where it stood.
        """
        if self._process == Process.current():
            return
        with Process.lock:
            if self._process == Process.current():  # another thread was faster
                return
            if self.secure:
                self._start(os.urandom(32))
            else:
                self._lock, self._process = threading.Lock(), Process.current()

    def __repr__(self) -> str:
        return f"Keystream(secure={self.secure})"

    def fill(self, buffer: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array with keystream bytes."""
        self._check_process()
        view = memoryview(buffer.reshape(-1).view(np.uint8).data)
        with self._lock:
            for start in range(0, len(view), CHUNK):
                piece = view[start : start + CHUNK]
                self._encryptor.update_into(
                    _ZEROS[: len(piece)] if len(piece) < CHUNK else _ZEROS, piece
                )

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words."""
        return self._draw(count, np.uint64)

    def uint32(self, count: int) -> NDArray[np.uint32]:
        """Uniform 32-bit integers."""
        return self._draw(count, np.uint32)

    def uint16(self, count: int) -> NDArray[np.uint16]:
        """Uniform 16-bit integers."""
        return self._draw(count, np.uint16)

    def below(self, bound: int, count: int) -> NDArray[Any]:
        """Integers uniform on 0..bound-1, exact by rejection; uint16, uint32 or uint64, as the
        bound needs.

        A word w of b bits gives floor(w·bound / 2^b); those of the first 2^b mod bound low parts
        are drawn again (Lemire 2019), which makes every value come from the same number of words.
        """
        if not 1 <= bound <= 1 << 64:
            raise ParameterError(
                f"cannot draw an integer below {bound}; the bound must lie between 1 and 2^64"
            )
        if bound <= 1 << 8:
            return _multiply_shift(
                self, int(bound), count, np.dtype(np.uint16), np.dtype(np.uint32)
            )
        if bound <= 1 << 24:
            return _multiply_shift(
                self, int(bound), count, np.dtype(np.uint32), np.dtype(np.uint64)
            )
        return _reject_words(self, int(bound), count)

    def below_each(self, bounds: NDArray[Any]) -> NDArray[np.int64]:
        """One integer uniform on 0..bound-1 for each bound up to 2^32, exact by rejection."""
        wide = np.asarray(bounds).astype(np.uint64)
        if wide.size and not 1 <= int(wide.min()) <= int(wide.max()) <= 1 << 32:
            raise ParameterError("every bound must lie between 1 and 2^32")
        draws = np.empty(len(wide), dtype=np.int64)
        waiting = np.arange(len(wide))
        while waiting.size:
            bound = wide[waiting]
            product = self.uint32(waiting.size) * bound
            draws[waiting] = product >> np.uint64(32)
            waiting = waiting[(product & np.uint64(0xFFFF_FFFF)) < np.uint64(1 << 32) % bound]
        return draws

    def chance(self, threshold: int, bits: int, count: int) -> NDArray[np.bool_]:
        """True with probability threshold / 2^bits, for 16, 32 or 64 bits."""
        if threshold >= 1 << bits:
            return np.ones(count, dtype=bool)
        dtype = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
        return self._draw(count, dtype) < dtype(threshold)

    def random(self, count: int) -> NDArray[Any]:
        """Floats uniform on [0, 1) with 53 bits: for experiments and ties, never where a guarantee
        is at stake.
        """
        return (self.words(count) >> np.uint64(11)) * 2.0**-53

    def permutation(self, count: int) -> NDArray[np.intp]:
        """A uniformly random order of 0..count-1: 64-bit sort keys, all of them drawn again should
        two be equal.
        """
        while True:
            keys = self.words(count)
            order = np.argsort(keys, kind="stable")
            if count < 2 or bool((np.diff(keys[order]) > 0).all()):
                return order

    def derive(self, part: int) -> Keystream:
        """An independent stream that depends on this stream's key and the part number alone.

        In a forked child the key is a new one. Where a retry in another process must draw the same,
        draw a key once (`words(4).tobytes()`) and give every process that: as Spark's workers do.
        """
        key = hmac.digest(self.key, b"sfumato part %d" % part, "sha256")
        return Keystream._keyed(key, self.secure)

    def branch(self) -> Keystream:
        """A stream of its own, keyed by the next 256 bits of this one: no two are alike."""
        return Keystream._keyed(self.words(4).tobytes(), self.secure)

    def _draw(self, count: int, dtype: Any) -> NDArray[Any]:
        out = np.empty(count, dtype=dtype)
        self.fill(out)
        return out


def secure() -> Keystream:
    """A keystream keyed with 256 bits from the operating system: the default wherever a person's
    record is perturbed.
    """
    return Keystream._keyed(os.urandom(32), secure=True)


@checked
def seeded(seed: int) -> Keystream:
    """A keystream that anyone who knows the seed can repeat: for experiments; what it perturbs is
    marked as not private.
    """
    return Keystream(hashlib.sha256(b"sfumato experiment %d" % seed).digest())


def drawing(rng: Keystream | None) -> Keystream:
    """The stream that was given, or a secure one; a seed or another library's generator is none."""
    if rng is None:
        return secure()
    if not isinstance(rng, Keystream):
        raise ParameterError(
            f"rng={shown(rng)} is no source of randomness",
            hint="leave it out for secure noise, or use sf.seeded(1) for an experiment",
        )
    return rng


def _multiply_shift(
    rng: Keystream, bound: int, count: int, word: np.dtype[Any], wide: np.dtype[Any]
) -> NDArray[Any]:
    bits = word.itemsize * 8
    reject = (1 << bits) % bound
    draws = rng._draw(count, word)
    product = draws.astype(wide)
    product *= wide.type(bound)
    if reject:
        bad = np.flatnonzero(product.astype(word) < word.type(reject))
        while bad.size:
            again = rng._draw(bad.size, word).astype(wide) * wide.type(bound)
            product[bad] = again
            bad = bad[again.astype(word) < word.type(reject)]
    product >>= wide.type(bits)
    return product.astype(word)


def _reject_words(rng: Keystream, bound: int, count: int) -> NDArray[Any]:
    """Mask 32- or 64-bit words to the bits of the bound and draw again what is not below it."""
    small = bound <= 1 << 32
    dtype: Any = np.uint32 if small else np.uint64
    mask = dtype((1 << (bound - 1).bit_length()) - 1)
    draws = rng._draw(count, dtype) & mask
    bad = np.flatnonzero(draws > dtype(bound - 1))
    while bad.size:
        again = rng._draw(bad.size, dtype) & mask
        draws[bad] = again
        bad = bad[again > dtype(bound - 1)]
    return draws
