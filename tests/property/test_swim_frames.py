"""Frames of the membership layer come back as they were; any bytes are a frame, or fail in one way."""

from __future__ import annotations

import contextlib

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from distkv.errors import FrameError
from distkv.wire import packing
from distkv.wire.swim_frames import Frame, GossipFrame, PingFrame, PongFrame, decode_frame, encode_frame, room_in
from distkv.wire.swim_records import (
    DATAGRAM_BYTES_MAX,
    Payload,
    key_change_bytes,
    message_bytes,
    record_bytes,
    rumour_bytes,
)
from tests.property.strategies import mutated, odd_objects
from tests.property.swim_strategies import frames, payloads

pytestmark = pytest.mark.slow


def _is_sent(frame: Frame) -> bool:
    return len(encode_frame(frame)) <= DATAGRAM_BYTES_MAX


@given(frames)
def test_frame_comes_back_as_it_was(frame: Frame) -> None:
    assume(_is_sent(frame))
    assert decode_frame(encode_frame(frame)) == frame


def _check_stable(data: bytes) -> None:
    """Whatever decodes is well-formed: it survives being sent on, and is not longer than it was."""
    found = _decoded(data)
    if isinstance(found, str):
        assert found in {"type", "body", "size"}
    else:
        again = encode_frame(found)
        assert len(again) <= len(data)
        assert decode_frame(again) == found


def _decoded(data: bytes) -> Frame | str:
    try:
        return decode_frame(data)
    except FrameError as error:
        return error.reason


@given(st.integers(0, 255), st.binary(max_size=100))
def test_any_bytes_are_a_frame_or_a_frame_error(kind: int, data: bytes) -> None:
    _check_stable(bytes((kind,)) + data)


@given(st.integers(0, 15), odd_objects)
def test_any_objects_are_a_frame_or_a_frame_error(kind: int, found: object) -> None:
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        _check_stable(bytes((kind,)) + packing.pack(found))


@given(mutated(frames.map(encode_frame)))
def test_changed_frames_are_a_frame_or_a_frame_error(data: bytes) -> None:
    _check_stable(data)


@given(frames, st.binary(min_size=1, max_size=10))
def test_bytes_behind_the_array_are_refused(frame: Frame, more: bytes) -> None:
    """docs/protocol, SWIM-2."""
    data = encode_frame(frame) + more
    assume(len(data) <= DATAGRAM_BYTES_MAX)
    with pytest.raises(FrameError, match="msgpack"):
        decode_frame(data)


@given(frames, st.lists(st.none() | st.integers(0, 9) | st.binary(max_size=9), max_size=3))
def test_elements_behind_the_known_ones_are_ignored(frame: Frame, more: list[object]) -> None:
    """docs/protocol, SWIM-2."""
    data = encode_frame(frame)
    parts = packing.unpack(data[1:])
    assert isinstance(parts, list)
    longer = data[:1] + packing.pack([*parts, *more])
    assume(len(longer) <= DATAGRAM_BYTES_MAX)
    assert decode_frame(longer) == frame


def _filled(frame: PingFrame | PongFrame | GossipFrame, payload: Payload) -> Frame:
    return attrs.evolve(frame, payload=payload)


@given(frames, payloads)
def test_payload_takes_as_many_bytes_as_told(frame: Frame, payload: Payload) -> None:
    assume(isinstance(frame, PingFrame | PongFrame | GossipFrame))
    assert isinstance(frame, PingFrame | PongFrame | GossipFrame)
    empty = attrs.evolve(frame, payload=Payload())
    told = sum(map(rumour_bytes, payload.rumours + payload.sample)) + sum(map(message_bytes, payload.messages))
    told += sum(map(key_change_bytes, payload.keys))
    left = room_in(empty, 42) - told
    assert len(encode_frame(_filled(empty, payload))) + 42 <= DATAGRAM_BYTES_MAX - left


@given(frames)
def test_record_takes_as_many_bytes_as_told(frame: Frame) -> None:
    record = getattr(frame, "record", None)
    assume(record is not None)
    assert record is not None
    assert len(encode_frame(frame)) >= record_bytes(record) + 2
