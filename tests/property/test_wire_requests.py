"""The client socket: requests come back as they were, frames do not depend on how the stream was cut, no bytes hurt."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from distkv.errors import DecodeError, RequestError, TooLargeError
from distkv.wire import packing
from distkv.wire.asking import encode_request
from distkv.wire.frames import ROWS, BadRequest, decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.request import Request
from distkv.wire.token_requests import TOKEN_ROWS
from tests.profiles import examples
from tests.property.strategies import mutated, odd_objects, request_kinds, requests

pytestmark = pytest.mark.slow

encoded = requests.map(encode_request)
WITH_VALUES = {"value", "prev", "data", "ops"}
"""Fields that hold stored values, in which much is allowed."""
cuts = st.lists(st.integers(0, 400), max_size=12)


def _pieces(stream: bytes, lengths: list[int]) -> list[bytes]:
    pieces = []
    for length in lengths:
        pieces.append(stream[:length])
        stream = stream[length:]
    return [*pieces, stream]


def _read(pieces: list[bytes], limit: int = 1 << 20) -> tuple[list[bytes], str]:
    """The frames, and how the stream ended."""
    reader = FrameReader(limit)
    frames: list[bytes] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            frames.extend(reader)
    except (DecodeError, TooLargeError) as error:
        while (frame := _next_or_none(reader)) is not None:
            frames.append(frame)
        return frames, type(error).__name__
    return frames, "open"


def _next_or_none(reader: FrameReader) -> bytes | None:
    with contextlib.suppress(DecodeError, TooLargeError):
        return reader.next_frame()
    return None


@pytest.mark.parametrize("kind", request_kinds, ids=map(str, range(len(request_kinds))))
@given(data=st.data())
@examples(8)
def test_request_comes_back_as_it_was(kind: st.SearchStrategy[Request], data: st.DataObject) -> None:
    request = data.draw(kind)
    assert repr(decode_request(encode_request(request))) == repr(request)


def test_each_request_is_drawn() -> None:
    once = settings(max_examples=1, phases=[Phase.generate], database=None)
    drawn = {type(find(kind, lambda _: True, settings=once)) for kind in request_kinds}
    of_tokens = {row.type for row in TOKEN_ROWS}
    assert {row.type for row in ROWS if row.write is not None} - of_tokens <= drawn


@given(st.lists(encoded, max_size=6), cuts)
def test_frames_do_not_depend_on_how_the_stream_is_cut(frames: list[bytes], lengths: list[int]) -> None:
    assert _read(_pieces(b"".join(frames), lengths)) == (frames, "open")


@given(st.lists(encoded | mutated(encoded), max_size=6), cuts, st.integers(1, 300))
def test_damage_and_size_end_a_stream_at_the_same_frame_however_it_is_cut(
    frames: list[bytes], lengths: list[int], limit: int
) -> None:
    stream = b"".join(frames)
    whole, cut = _read([stream], limit), _read(_pieces(stream, lengths), limit)
    # Cut up, a frame may be seen to be too large before its damage is seen.
    assert whole[0] == cut[0]
    assert (whole[1] == "open") == (cut[1] == "open")


def _check_answerable(frame: bytes) -> None:
    """A request, or an error with one line and a seq to answer to; or the frame is no map at all."""
    try:
        found = decode_request(frame)
    except DecodeError:
        assert not packing.is_map(frame)
        return
    if isinstance(found, BadRequest):
        assert isinstance(found.error, RequestError)
        assert "\n" not in str(found.error)
        assert len(str(found.error)) < 400
    else:
        assert repr(decode_request(encode_request(found))) == repr(found)


@examples(75)
@given(mutated(encoded) | st.binary(max_size=80))
def test_any_frame_is_a_request_or_an_error_to_answer_with(stream: bytes) -> None:
    for frame in _read([stream])[0]:
        _check_answerable(frame)


@given(encoded, st.data())
def test_request_with_anything_in_one_field_is_a_request_or_an_error_to_answer_with(
    frame: bytes, data: st.DataObject
) -> None:
    fields = packing.unpack(frame)
    assert isinstance(fields, dict)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(odd_objects)
    _check_answerable(packing.pack(fields))


@pytest.mark.parametrize("kind", request_kinds, ids=map(str, range(len(request_kinds))))
@given(data=st.data())
@examples(8)
def test_field_with_what_no_kind_takes_is_refused_by_its_name(
    kind: st.SearchStrategy[Request], data: st.DataObject
) -> None:
    fields = packing.unpack(encode_request(data.draw(kind)))
    assert isinstance(fields, dict)
    name = data.draw(st.sampled_from(sorted(fields.keys() - {"seq"} - WITH_VALUES) or ["action"]))
    fields[name] = packing.ExtType(77, b"")
    found = decode_request(packing.pack(fields))
    assert isinstance(found, BadRequest)
    assert name in str(found.error)
