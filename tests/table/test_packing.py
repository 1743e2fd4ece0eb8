"""Packed reports: what goes in comes out, in rows of one length, and nothing else goes in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import DataError
from sfumato.table.packing import Packing

MIXED = Domain(
    (
        Category("a", tuple(map(str, range(256)))),
        Numeric("b", 0, 256),
        Items("c", tuple(map(str, range(11)))),
        Numeric("d", 0, 70_000),
    )
)
REPORTS = st.tuples(
    st.integers(0, 255),
    st.integers(0, 256),
    st.sets(st.integers(0, 10)).map(sorted),
    st.integers(0, 70_000),
).map(list)


@given(st.lists(REPORTS, min_size=1, max_size=20))
def test_reports_come_back_one_by_one_and_all_at_once(reports):
    packing = Packing(MIXED)
    bodies = [packing.pack(report) for report in reports]
    assert {len(body) for body in bodies} == {packing.width} == {1 + 2 + 2 + 4}
    assert [packing.values(body) for body in bodies] == reports
    columns = packing.unpack(b"".join(bodies))
    assert packing.pack_columns(columns) == b"".join(bodies)
    for place in (0, 1, 3):
        assert np.asarray(columns[place]).tolist() == [report[place] for report in reports]
    assert isinstance(columns[2], Bits)
    held = columns[2].to_dense()
    assert [np.flatnonzero(row).tolist() for row in held] == [report[2] for report in reports]


@pytest.mark.parametrize(
    "report",
    [
        [0, 0, []],
        [256, 0, [], 0],
        [0, -1, [], 0],
        [0, 0, [11], 0],
        [0, 0, [1, 1], 0],
        [0, 0, [-1], 0],
        [0, 0, 3, 0],
        [0, [0], [], 0],
        [True, 0, [], 0],
        [0, 0, [True], 0],
        [0, 0, [], 70_001],
        [0, 0, [], 2**70],
    ],
)
def test_what_is_no_report_is_refused_and_not_repeated(report):
    with pytest.raises(DataError) as raised:
        Packing(MIXED).pack(report)
    assert not any(str(value) in str(raised.value) for value in (256, 70_001, 2**70))


def test_plain_columns_are_checked_as_well():
    packing = Packing(Domain((Category("a", ("x", "y")), Category("b", ("x", "y", "z")))))
    assert packing.plain and packing.pack([1, 2]) == b"\1\2"
    for bad in ([2, 0], [0, 3], [-1, 0], [0], [0, 0, 0], [2**80, 0]):
        with pytest.raises(DataError):
            packing.pack(bad)
