"""One thread for small linear algebra, and as many as before afterwards."""

from __future__ import annotations

import pytest

from sfumato import one_thread


def test_threads_come_back_even_after_an_error() -> None:
    pools = one_thread._pools()
    if not pools:
        pytest.skip("NumPy has another BLAS than its wheels bring")
    for _, write in pools:
        write(2)
    with pytest.raises(ValueError), one_thread.one_thread():
        assert {read() for read, _ in pools} == {1}
        raise ValueError
    assert {read() for read, _ in pools} == {2}
    for _, write in pools:
        write(1)
