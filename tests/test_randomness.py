"""The keystream: uniform bits, and integers that are exact, not merely close."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.domain import Category, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.randomness import CHUNK, Keystream, Process, secure, seeded

REJECT = 1e-6
BOUNDS = [
    2,
    3,
    5,
    6,
    7,
    10,
    100,
    255,
    256,
    257,
    1000,
    65_535,
    65_536,
    65_537,
    1 << 24,
    (1 << 24) + 1,
    3 << 30,
    1 << 32,
]
LARGE = [(1 << 32) + 1, 10**10, 1 << 40, (1 << 40) - 1, (1 << 63) + 1, (1 << 64) - 1, 1 << 64]


class Scripted(Keystream):
    """A keystream whose bytes are chosen: the first draw gives these words, later ones the largest
    word there is.
    """

    def __init__(self, words: np.ndarray) -> None:
        super().__init__(bytes(32))
        self.script = [words]

    def fill(self, buffer: np.ndarray) -> None:
        buffer[:] = self.script.pop() if self.script else np.iinfo(buffer.dtype).max


def uniformity(draws: np.ndarray, bound: int, cells: int = 64) -> float:
    """Chi-square p-value of "uniform below the bound", in at most so many equal cells."""
    cells = min(cells, bound)
    edges = [-(-bound * cell // cells) for cell in range(cells + 1)]
    places = np.searchsorted(
        np.array(edges[1:-1], dtype=np.uint64), draws.astype(np.uint64), side="right"
    )
    means = np.diff(np.array(edges, dtype=object)).astype(float) / bound * len(draws)
    counts = np.bincount(places, minlength=cells)
    return float(stats.chi2.sf(((counts - means) ** 2 / means).sum(), cells - 1))


@pytest.mark.parametrize("bound", BOUNDS + LARGE)
def test_integers_below_a_bound_are_uniform(bound: int) -> None:
    draws = seeded(bound).below(bound, 200_000)
    assert int(draws.max()) < bound
    assert uniformity(draws, bound) > REJECT


def test_the_judge_rejects_what_is_five_per_cent_off() -> None:
    draws = seeded(1).below(10, 200_000)
    assert (
        uniformity(np.where(draws == 3, 3 + (seeded(2).random(200_000) < 0.05), draws), 10) < REJECT
    )


@pytest.mark.parametrize("bound", range(1, 257))
def test_every_value_comes_of_equally_many_16_bit_words(bound: int) -> None:
    """All 2^16 words once; those drawn again come out as bound-1 here."""
    counts = np.bincount(Scripted(np.arange(1 << 16)).below(bound, 1 << 16), minlength=bound)
    share, rejected = divmod(1 << 16, bound)
    assert (counts[:-1] == share).all()
    assert counts[-1] == share + rejected


@given(
    bound=st.integers(257, 1 << 24),
    words=st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
)
def test_32_bit_words_become_what_exact_arithmetic_says(bound: int, words: list[int]) -> None:
    """Words at the edges of each value's share included: w·bound / 2^32, drawn again below 2^32 mod
    bound.
    """
    edges = [-(-value * (1 << 32) // bound) for value in (0, 1, bound // 2, bound - 1)]
    words += [word for edge in edges for word in (edge - 1, edge, edge + 1) if 0 <= word < 1 << 32]
    expected = []
    for word in words:
        value, low = divmod(word * bound, 1 << 32)
        expected.append(bound - 1 if low < (1 << 32) % bound else value)
    assert Scripted(np.array(words, dtype=np.uint32)).below(bound, len(words)).tolist() == expected


@given(
    bound=st.integers((1 << 24) + 1, (1 << 32) - 1),
    words=st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
)
def test_large_bounds_are_masked_and_rejected(bound: int, words: list[int]) -> None:
    class Counted(Scripted):
        def fill(self, buffer: np.ndarray) -> None:
            buffer[:] = self.script.pop() if self.script else 7

    mask = (1 << (bound - 1).bit_length()) - 1
    words += [bound - 1, bound & mask]
    expected = [word & mask if word & mask < bound else 7 for word in words]
    assert Counted(np.array(words, dtype=np.uint32)).below(bound, len(words)).tolist() == expected


@pytest.mark.parametrize("bound", [0, -1, (1 << 64) + 1])
def test_a_bound_out_of_range_is_refused(bound: int) -> None:
    with pytest.raises(ParameterError, match="between 1 and 2\\^64"):
        seeded(1).below(bound, 3)


def test_below_one_is_always_nought() -> None:
    assert not seeded(1).below(1, 1000).any()


def test_no_draws_are_no_draws() -> None:
    assert all(len(seeded(1).below(bound, 0)) == 0 for bound in (1, 200, 70_000, 1 << 40))
    assert len(seeded(1).chance(5, 16, 0)) == 0


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.9, 0.999])
def test_chance_is_its_threshold(bits: int, share: float) -> None:
    threshold, rows = int(share * 2**bits), 400_000
    hits = int(seeded(bits).chance(threshold, bits, rows).sum())
    assert stats.binomtest(hits, rows, threshold / 2**bits).pvalue > REJECT
    assert stats.binomtest(hits, rows, min(1, 1.05 * threshold / 2**bits)).pvalue < REJECT


def test_a_rare_chance_five_per_cent_off_is_rejected_too() -> None:
    hits = int(seeded(3).chance(int(0.01 * 2**32), 32, 4_000_000).sum())
    assert stats.binomtest(hits, 4_000_000, 0.01).pvalue > REJECT
    assert stats.binomtest(hits, 4_000_000, 0.0105).pvalue < REJECT


def test_exactly_threshold_many_16_bit_words_hit() -> None:
    for threshold in (0, 1, 12_345, 65_535):
        assert int(Scripted(np.arange(1 << 16)).chance(threshold, 16, 1 << 16).sum()) == threshold
    for bits in (16, 32, 64):
        assert seeded(1).chance(1 << bits, bits, 100).all()
        assert not seeded(1).chance(0, bits, 100).any()


DRAWS: list[Callable[[Keystream], Any]] = [
    lambda rng: rng.words(1000),
    lambda rng: rng.uint32(1000),
    lambda rng: rng.uint16(1000),
    lambda rng: rng.below(19, 1000),
    lambda rng: rng.below(10**6, 1000),
    lambda rng: rng.below(10**12, 1000),
    lambda rng: rng.chance(1 << 15, 16, 1000),
    lambda rng: rng.random(1000),
    lambda rng: rng.permutation(1000),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_repeats_itself_and_no_other(draw: Callable[[Keystream], Any]) -> None:
    assert (draw(seeded(5)) == draw(seeded(5))).all()
    assert (draw(seeded(5)) != draw(seeded(6))).any()
    stream = seeded(5)
    assert (draw(stream) != draw(stream)).any(), "the stream must move on"


@pytest.mark.parametrize("draw", DRAWS)
def test_secure_streams_differ(draw: Callable[[Keystream], Any]) -> None:
    assert (draw(secure()) != draw(secure())).any()


def test_what_a_seed_gives_does_not_change_between_versions() -> None:
    assert seeded(1).words(2).tolist() == [17018220867035624573, 2053882796255905830]
    assert seeded(1).below(6, 8).tolist() == seeded(1).below(6, 9).tolist()[:8]


def test_the_key_is_not_shown() -> None:
    stream = secure()
    assert repr(stream.key)[2:-1] not in repr(stream) and "key" not in repr(stream)


@pytest.mark.parametrize(
    "length", [0, 1, 3, 7, 15, 17, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]
)
def test_filling_in_pieces_is_filling_at_once(length: int) -> None:
    whole = np.empty(length, dtype=np.uint8)
    seeded(4).fill(whole)
    stream, cut = seeded(4), length // 3
    left, right = np.empty(cut, dtype=np.uint8), np.empty(length - cut, dtype=np.uint8)
    stream.fill(left)
    stream.fill(right)
    assert (np.concatenate([left, right]) == whole).all()


def test_the_keystream_is_aes_256_in_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5: the cipher is the standard one; here with the counter that starts at
    0.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = b"".join(block.update(counter.to_bytes(16, "big")) for counter in range(4))
    assert Keystream(key).words(8).tobytes() == expected


def test_filling_a_table_fills_every_byte() -> None:
    table = np.zeros((300, 700), dtype=np.uint16)
    seeded(8).fill(table)
    counts = np.bincount(table.view(np.uint8).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > REJECT


def test_parts_are_independent_of_each_other_and_of_their_parent() -> None:
    parent = seeded(1)
    streams = [parent, *(parent.derive(part) for part in range(3)), parent.derive(0).derive(0)]
    draws = np.stack([stream.below(16, 100_000) for stream in streams]).astype(np.int64)
    for i in range(len(draws)):
        for j in range(i):
            table = np.bincount(draws[i] * 16 + draws[j], minlength=256).reshape(16, 16)
            assert stats.chi2_contingency(table).pvalue > REJECT
    same = np.bincount(draws[0] * 17, minlength=256).reshape(16, 16)
    assert stats.chi2_contingency(same + 1).pvalue < REJECT


def test_a_part_depends_on_key_and_number_alone() -> None:
    moved = seeded(1)
    moved.words(1000)
    assert (moved.derive(3).words(5) == seeded(1).derive(3).words(5)).all()
    assert (seeded(1).derive(3).words(5) != seeded(1).derive(4).words(5)).any()
    assert (seeded(2).derive(3).words(5) != seeded(1).derive(3).words(5)).any()
    assert secure().derive(0).secure and not seeded(1).derive(0).secure


def test_permutations_are_uniform() -> None:
    stream = seeded(6)
    places = np.array([stream.permutation(4) for _ in range(24_000)])
    assert (np.sort(places, axis=1) == np.arange(4)).all()
    codes = places @ np.array([64, 16, 4, 1])
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > REJECT
    assert stream.permutation(0).tolist() == [] and stream.permutation(1).tolist() == [0]


def test_equal_sort_keys_are_drawn_again() -> None:
    class Repeating(Keystream):
        turns = 0

        def words(self, count: int) -> Any:
            self.turns += 1
            return np.zeros(count, dtype=np.uint64) if self.turns == 1 else super().words(count)

    stream = Repeating(bytes(32))
    assert sorted(stream.permutation(5).tolist()) == [0, 1, 2, 3, 4] and stream.turns == 2


def test_floats_lie_in_the_unit_interval() -> None:
    draws = seeded(2).random(200_000)
    assert draws.min() >= 0 and draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > REJECT


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
KILOBYTES = 1 << 16


def in_child(work: Callable[[], bytes]) -> bytes:
    """What a forked child computes from what it inherited."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(work())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return found


def shared_blocks(*streams: bytes) -> int:
    """How many of the aligned 16-byte blocks of AES's counter mode occur more than once."""
    blocks = [stream[at : at + 16] for stream in streams for at in range(0, len(stream) - 15, 16)]
    return len(blocks) - len(set(blocks))


@needs_fork
@pytest.mark.parametrize("drawn_before", [0, 1, 1000])
def test_parent_and_forked_children_share_no_noise(drawn_before: int) -> None:
    """And a child draws something else from it twice: the new key is kept."""
    stream = secure()
    stream.words(drawn_before)

    def work() -> bytes:
        return b"".join(stream.words(1000).tobytes() for _ in range(4))

    children = [in_child(work) for _ in range(3)]
    grandchild = in_child(lambda: stream.words(1).tobytes() + in_child(work))
    assert [len(child) for child in children] == [32_000] * 3 and len(grandchild) == 32_008
    assert shared_blocks(work(), *children, grandchild[8:]) == 0


@needs_fork
def test_shared_noise_would_be_seen() -> None:
    """The judge can fail: two streams of one key share every block."""
    key = os.urandom(32)
    child = in_child(lambda: Keystream(key).words(1000).tobytes())
    assert shared_blocks(child, Keystream(key).words(1000).tobytes()) == 500


@needs_fork
def test_parts_derived_after_a_fork_share_no_noise_either() -> None:
    stream = secure()
    children = [in_child(lambda: stream.derive(0).words(1000).tobytes()) for _ in range(2)]
    keys = [in_child(lambda: stream.key) for _ in range(2)]
    assert shared_blocks(*children, stream.derive(0).words(1000).tobytes()) == 0
    assert len({*keys, stream.key}) == 3


@needs_fork
def test_a_key_handed_over_gives_a_retry_the_same_part() -> None:
    """As Spark's workers do: the key was drawn once, the part number says which piece of work."""
    key = secure().words(4).tobytes()

    def work() -> bytes:
        return Keystream(key).derive(7).words(100).tobytes()

    assert in_child(work) == in_child(work) == work()


@needs_fork
def test_a_seeded_stream_stays_repeatable_in_a_child() -> None:
    stream = seeded(4)
    stream.words(3)
    assert in_child(lambda: stream.words(5).tobytes()) == seeded(4).words(8)[3:].tobytes()
    assert in_child(lambda: stream.derive(2).words(5).tobytes()) == (
        seeded(4).derive(2).words(5).tobytes()
    )


@needs_fork
def test_a_lock_that_was_held_at_the_fork_does_not_hold_up_the_child() -> None:
    for stream in (secure(), seeded(1)):
        with stream._lock, Process.lock:
            assert len(in_child(lambda own=stream: own.words(2).tobytes())) == 16


def test_a_fork_that_python_was_not_told_of_is_seen_by_the_process_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, key = secure(), b""
    key = stream.key
    first = stream.words(4)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert stream.key != key and (stream.words(4) != first).any()


@needs_fork
def test_two_workers_that_perturb_from_one_stream_do_not_betray_their_records() -> None:
    """With shared noise every difference between the workers' reports is a record kept by both."""
    coin = Domain((Category("coin", ("heads", "tails")),))
    mechanism, stream = GammaDiagonal(coin, 3), secure()
    heads, tails = (np.full(5000, side, dtype=np.uint8) for side in (0, 1))

    def work(truth: Any) -> Callable[[], bytes]:
        return lambda: np.asarray(mechanism.perturb((truth,), stream)[0]).tobytes()

    one, other = (np.frombuffer(in_child(work(truth)), np.uint8) for truth in (heads, tails))
    # Independent reports are (heads, tails) with probability 9/16 and (tails, heads) with 1/16;
    # under shared noise the latter cannot happen.
    assert stats.binomtest(int((one > other).sum()), 5000, 1 / 16).pvalue > REJECT
    shared = [np.asarray(mechanism.perturb((truth,), seeded(1))[0]) for truth in (heads, tails)]
    assert not (shared[0] > shared[1]).any()


def _first_words(queue: Any) -> None:
    queue.put(secure().words(1000).tobytes())


def test_spawned_processes_make_their_own() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_first_words, args=(queue,)) for _ in range(2)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    assert shared_blocks(*found) == 0 and all(len(words) == 8000 for words in found)


@pytest.mark.parametrize("stream", [secure(), seeded(1)], ids=["secure", "seeded"])
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
def test_a_stream_is_not_copied(again: Callable[[Keystream], Any], stream: Keystream) -> None:
    with pytest.raises(ParameterError, match="cannot be copied or sent to another process"):
        again(stream)


def test_a_stream_is_not_replaced() -> None:
    with pytest.raises(TypeError):
        replace(secure(), secure=False)


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ParameterError, match=f"a key of {length} bytes"):
        Keystream(bytes(length))


def test_threads_share_a_stream_and_get_bytes_of_their_own() -> None:
    """Eight threads together draw exactly the stream's bytes, each byte once."""
    stream, drawn = seeded(9), []
    ready = threading.Barrier(8)

    def work() -> None:
        ready.wait()
        for _ in range(20):
            piece = np.empty(KILOBYTES, dtype=np.uint8)
            stream.fill(piece)
            drawn.append(piece.tobytes())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = seeded(9).words(160 * KILOBYTES // 8).tobytes()
    expected = {whole[at : at + KILOBYTES] for at in range(0, len(whole), KILOBYTES)}
    assert len(drawn) == 160 and set(drawn) == expected


@pytest.mark.parametrize("bounds", [[1, (1 << 32) + 1], [0, 5], [1 << 33]])
def test_a_bound_that_no_word_reaches_is_refused(bounds: list[int]) -> None:
    with pytest.raises(ParameterError, match=r"between 1 and 2\^32"):
        seeded(1).below_each(np.array(bounds))


def test_the_widest_bound_is_drawn() -> None:
    assert seeded(1).below_each(np.array([1 << 32] * 100)).max() > 1 << 31
