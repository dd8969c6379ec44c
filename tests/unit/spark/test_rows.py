"""Records as rows: paths as text, clocks that show nonsense, batches that are too large.

Knows: Arrow.  Does not know hosts or Spark; pages that are nonsense are in `test_reading`.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.client.changes import ChangePage
from distkv.model.event import Event, ExpiringEvent, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.spark.nodes.rows import BATCH_BYTES, ValueForm, gap_rows, rows_of, shown_paths, small, timestamps
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record
from tests.property.strategies import paths

A, B = NodeName("a"), NodeName("b")


@given(st.lists(paths))
def test_paths_are_shown_as_people_write_them(some: list[Path]) -> None:
    shown = shown_paths(path.names for path in some)
    assert shown.whole == [str(path) for path in some]
    assert shown.names == [[str(Path([name])) for name in path.names] for path in some]
    assert shown.roots == [names[0] if names else None for names in shown.names]
    assert shown.system == [path.is_reserved for path in some]


def test_chains_of_different_length_stand_with_their_events() -> None:
    where = Path(["x"])
    events = [
        Event(where, Kind.SET, b"\1", ((A, Tick(1)),), Tock(1), 1.5),
        Event(where, Kind.DELETE, b"", ((A, Tick(2)), (B, Tick(9))), Tock(2), 1.5, True),
        ExpiringEvent(where, b"\3", ((A, Tick(3)),), Tock(3), 1.5, False, 60.0),
    ]
    records = b"".join(encode_record(EventRecord(event, 0.0)) for event in events)
    rows = rows_of(ChangePage(A, b"\1\1\2", records), Ranges([(1, 4)]), ValueForm.BOTH, "h").batch.to_pylist()
    assert [[(link["node"], link["tick"]) for link in row["chain"]] for row in rows] == [
        [("a", 1)], [("a", 2), ("b", 9)], [("a", 3)],
    ]  # fmt: skip
    assert [(row["kind"], row["truncated"], row["ttl"], row["value"]) for row in rows] == [
        ("set", False, None, "1"), ("delete", True, None, None), ("set", False, 60.0, "3"),
    ]  # fmt: skip
    assert {row["arrived"] for row in rows} == {None}


def test_fence_of_an_event_stands_in_four_columns_that_are_null_where_there_is_none() -> None:
    fences = (Fence(3, FENCE_MAX, 2, "t\u00fc:1.2"), NO_FENCE, Fence(1, 0, 0, ""))
    events = [
        new_event(Path(["x"]), Kind.SET, b"\1", ((A, Tick(tick)),), Tock(1), 1.5, ttl=ttl, fence=fence)
        for tick, (fence, ttl) in enumerate(zip(fences, (60.0, 60.0, None), strict=True), 1)
    ]
    records = b"".join(encode_record(EventRecord(event, 0.0)) for event in events)
    rows = rows_of(ChangePage(A, b"\1\1\1", records), Ranges([(1, 4)]), ValueForm.BOTH, "h").batch.to_pylist()
    names = ("fence_base", "fence_epoch", "fence_counter", "fence_token")
    assert [tuple(row[name] for name in names) for row in rows] == [
        fences[0], (None, None, None, None), fences[2],
    ]  # fmt: skip
    assert [row["ttl"] for row in rows] == [60.0, 60.0, None]


@pytest.mark.parametrize("seconds", [1e300, -1e300, 9.1e12, None])
def test_time_that_no_timestamp_can_hold_is_null(seconds: float | None) -> None:
    assert timestamps(pa.array([seconds, 1.5], pa.float64())).is_null().to_pylist() == [True, False]


def test_large_batch_is_split_and_loses_no_row() -> None:
    value = bytes(BATCH_BYTES // 3)
    batch = pa.RecordBatch.from_pydict({"value": [value] * 7 + [value * 4]})
    parts = list(small(batch))
    assert all(part.nbytes <= BATCH_BYTES or part.num_rows == 1 for part in parts)
    assert [row for part in parts for row in part.column("value").to_pylist()] == batch.column("value").to_pylist()


def test_gap_is_a_row_for_each_range() -> None:
    rows = gap_rows({B: Ranges([(5, 6)]), A: Ranges([(1, 3), (7, 9)])}).to_pylist()
    assert [(row["kind"], row["node"], row["tick"], row["tick_end"]) for row in rows] == [
        ("gap", "a", 1, 3), ("gap", "a", 7, 9), ("gap", "b", 5, 6),
    ]  # fmt: skip
    assert {row["path"] for row in rows} == {None}
