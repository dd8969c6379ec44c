"""What a follower is still to be told goes in batches, in order, and counts when all before it is answered."""

from __future__ import annotations

from distkv.core.topics.copy_stream import BATCH_BYTES, CopyPurpose, CopyStream
from distkv.model.event import NodeName
from distkv.wire.topic_messages import CopyBatch

NODE = NodeName("b")
IDS = ("00" * 8,)


def _next(stream: CopyStream) -> tuple[CopyPurpose, CopyBatch]:
    found = stream.next_batch()
    assert found is not None
    stream.check()
    return found


def test_rows_of_several_operations_go_in_one_batch() -> None:
    stream = CopyStream(NODE, 1)
    stream.add("t", IDS, {"m1": b"one"})
    stream.add("t", IDS, {"m2": b"two"})
    _, batch = _next(stream)
    (topic,) = batch.topics
    assert [row.key for row in topic.rows] == ["m1", "m2"]


def test_third_batch_waits_for_an_answer() -> None:
    """COPY-2."""
    stream = CopyStream(NODE, 1)
    for at in range(3):
        stream.add("t", IDS, {f"m{at}": bytes(BATCH_BYTES)})
    first, _ = _next(stream)
    _next(stream)
    assert stream.next_batch() is None
    stream.answered(first)
    _next(stream)


def test_batch_that_is_answered_before_an_earlier_one_does_not_count_yet() -> None:
    """COPY-2."""
    stream = CopyStream(NODE, 1)
    stream.add("t", IDS, {"m1": bytes(BATCH_BYTES)})
    place = stream.add("u", IDS, {"m2": b""})
    first, _ = _next(stream)
    second, _ = _next(stream)
    assert stream.answered(second) == frozenset()
    stream.check()
    assert stream.done < place
    assert stream.answered(first) == {"t", "u"}
    assert stream.done == place
    assert stream.size == 0


def test_row_that_is_gone_goes_when_all_before_it_is_answered() -> None:
    stream = CopyStream(NODE, 1)
    stream.add("t", IDS, {"m1": b"one"})
    stream.add("t", IDS, {"m1": None})
    stream.add("t", IDS, {"m2": b"two"})
    first, _ = _next(stream)
    assert stream.next_batch() is None
    stream.answered(first)
    second, batch = _next(stream)
    assert [row.key for topic in batch.topics for row in topic.rows] == ["m1"]
    assert stream.next_batch() is None
    stream.answered(second)
    _next(stream)


def test_answer_of_an_earlier_stream_does_not_count() -> None:
    stream = CopyStream(NODE, 2)
    place = stream.add("t", IDS, {"m1": b"one"})
    _next(stream)
    assert stream.answered(CopyPurpose(NODE, 1, place)) == frozenset()
    assert stream.done == 0
