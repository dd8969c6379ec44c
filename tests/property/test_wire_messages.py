"""Messages, payloads and records come back as they were; any bytes decode, or fail in one way."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError
from distkv.wire import packing
from distkv.wire.codec import Payload, encode_payload, read_payload
from distkv.wire.gossip import decode_message, encode_message
from distkv.wire.message import Message, Record
from distkv.wire.records import decode_record, decode_records, encode_record
from distkv.wire.replies import decode_reply
from tests.profiles import examples
from tests.property.strategies import messages, mutated, odd_objects, payloads, records, seqs

pytestmark = pytest.mark.slow

kinds = st.sampled_from(["update", "info", "ping"])


def _kind(message: Message) -> str:
    return type(message).__name__.lower()


@given(messages)
def test_message_comes_back_as_it_was(message: Message) -> None:
    assert repr(decode_message(_kind(message), encode_message(message))) == repr(message)


@given(payloads, seqs)
def test_payload_comes_back_as_it_was(payload: Payload, seq: int) -> None:
    fields = decode_reply(encode_payload(seq, payload))
    assert fields["seq"] == seq
    assert repr(read_payload(fields)) == repr(payload)


@given(st.lists(records, max_size=5))
def test_records_come_back_as_they_were(log: list[Record]) -> None:
    encoded = [encode_record(record) for record in log]
    assert repr([decode_record(one) for one in encoded]) == repr(log)
    assert repr(decode_records(b"".join(encoded))) == repr(log)


def _check_stable(kind: str, data: bytes) -> None:
    """Whatever decodes is well-formed: it survives being sent on."""
    with contextlib.suppress(DecodeError):
        message = decode_message(kind, data)
        assert repr(decode_message(kind, encode_message(message))) == repr(message)


@given(kinds, st.binary(max_size=100))
def test_any_bytes_are_a_message_or_a_decode_error(kind: str, data: bytes) -> None:
    _check_stable(kind, data)


@examples(75)
@given(kinds, mutated(messages.map(encode_message)))
def test_damaged_message_is_another_message_or_a_decode_error(kind: str, data: bytes) -> None:
    _check_stable(kind, data)


@given(messages, st.data())
def test_message_with_anything_in_one_field_is_a_message_or_a_decode_error(
    message: Message, data: st.DataObject
) -> None:
    fields = packing.unpack(encode_message(message))
    assert isinstance(fields, dict)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(odd_objects)
    _check_stable(_kind(message), packing.pack(fields))


@given(payloads, st.data())
def test_payload_with_anything_in_one_field_is_a_payload_or_a_decode_error(
    payload: Payload, data: st.DataObject
) -> None:
    fields = decode_reply(encode_payload(1, payload))
    (name,) = fields.keys() - {"seq"}
    inner = fields[name]
    if isinstance(inner, dict):
        inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(odd_objects)
    else:
        fields[name] = data.draw(odd_objects)
    with contextlib.suppress(DecodeError):
        assert read_payload(fields) is not None


@given(mutated(records.map(encode_record)) | st.binary(max_size=60))
def test_damaged_record_is_another_record_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        record = decode_record(data)
        assert repr(decode_record(encode_record(record))) == repr(record)
    with contextlib.suppress(DecodeError):
        assert len(decode_records(data)) >= (1 if data else 0)
