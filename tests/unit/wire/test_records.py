"""Log records: their form is fixed for ever, and what is not one is refused."""

from __future__ import annotations

import pytest

from distkv.errors import DecodeError
from distkv.model.event import Event, ExpiringEvent, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire import packing
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    StaleRecord,
)
from distkv.wire.records import decode_record, decode_records, encode_record

A, B = NodeName("a"), NodeName("b")
CHAIN = ((A, Tick(7)), (B, Tick(3)))
SET = Event(Path(["p", 1]), Kind.SET, b"\x15", CHAIN, Tock(9), 1.5)
FLEETING = ExpiringEvent(Path(["p", 1]), b"\x15", CHAIN, Tock(9), 1.5, False, 0.5)
DELETE = Event(Path(), Kind.DELETE, b"", CHAIN[:1], Tock(9), 1.5, True)
EXPIRE = Event(Path(), Kind.EXPIRE, b"", CHAIN[:1], Tock(9), 1.5)

FORMS: list[tuple[Record, list[object]]] = [
    (EventRecord(SET, 2.5), [1, 2.5, 0, ["p", 1], b"\x15", ["a", 7, "b", 3], 9, 1.5, False]),
    (EventRecord(DELETE, 2.5), [1, 2.5, 1, [], None, ["a", 7], 9, 1.5, True]),
    (EventRecord(EXPIRE, 2.5), [1, 2.5, 2, [], None, ["a", 7], 9, 1.5, False]),
    (KnownRecord({A: Ranges([(1, 5)])}), [2, {"a": [[1, 5]]}]),
    (LostRecord({A: Ranges([(1, 2)])}), [3, {"a": [1]}]),
    (LifeRecord(A, 77), [4, "a", 77]),
    (ResetRecord(), [5]),
    (CeilingRecord(Tock(9)), [6, 9]),
    (EventRecord(FLEETING, 2.5), [8, 2.5, 0, ["p", 1], b"\x15", ["a", 7, "b", 3], 9, 1.5, False, 0.5]),
    (PurgeRecord(Path(["p", 1]), CHAIN), [7, ["p", 1], ["a", 7, "b", 3]]),
    (ReleaseRecord({A: Ranges([(1, 5)])}), [9, {"a": [[1, 5]]}]),
    (StaleRecord(True), [10, True]),
    (SlotRecord("s", "k", b"v"), [12, "s", "k", b"v"]),
    (SlotRecord("s", "k", None), [12, "s", "k", None]),
    (DataRecord("s", "k", b"v"), [13, "s", "k", b"v"]),
    (DataRecord("s", "k", None), [13, "s", "k", None]),
]


@pytest.mark.parametrize(("record", "form"), FORMS)
def test_record_has_its_documented_form(record: Record, form: list[object]) -> None:
    assert packing.unpack(encode_record(record)) == form


@pytest.mark.parametrize(("record", "form"), FORMS)
def test_documented_form_is_read(record: Record, form: list[object]) -> None:
    assert repr(decode_record(packing.pack(form))) == repr(record)


def test_records_one_after_another_are_read_in_order() -> None:
    data = b"".join(encode_record(record) for record, _ in FORMS)
    assert repr(decode_records(data)) == repr([record for record, _ in FORMS])


def test_nothing_is_no_records() -> None:
    assert decode_records(b"") == []


@pytest.mark.parametrize("cut", [1, 4])
def test_records_of_which_the_last_is_cut_short_are_refused(cut: int) -> None:
    data = encode_record(FORMS[5][0]) * 2
    with pytest.raises(DecodeError):
        decode_records(data[:-cut])


def _event_form(at: int, wrong: object) -> list[object]:
    form = list(FORMS[0][1])
    form[at] = wrong
    return form


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (1, "bad_record"),
        ({}, "bad_record"),
        ([], "bad_record"),
        ([0], "bad_record"),
        ([7, 1], "bad_record"),
        ([True], "bad_record"),
        ([[]], "bad_record"),
        (["5"], "bad_record"),
        ([5, 1], "bad_record"),
        (FORMS[0][1][:8], "bad_record"),
        ([2, []], "bad_known"),
        ([2, {"a": [0]}], "bad_known"),
        ([3, {"a": 1}], "bad_lost"),
        ([4, "ä", 1], "bad_node"),
        ([4, "a", None], "bad_life"),
        ([4, "a", 2**31], "bad_life"),
        ([6, True], "bad_tock"),
        ([6, 2**63], "bad_tock"),
        (_event_form(1, 2), "bad_arrived"),
        (_event_form(2, 3), "bad_kind"),
        (_event_form(2, False), "bad_kind"),
        (_event_form(2, 1), "bad_value"),
        (_event_form(3, "p"), "bad_path"),
        (_event_form(4, None), "bad_value"),
        (_event_form(4, b"\xc0"), "bad_value"),
        (_event_form(5, []), "bad_chain"),
        (_event_form(5, ["a"]), "bad_chain"),
        (_event_form(5, [7, "a"]), "bad_chain"),
        (_event_form(5, ["a", 7, "a", 3]), "bad_chain"),
        (_event_form(5, {}), "bad_chain"),
        (_event_form(6, -1), "bad_tock"),
        (_event_form(7, 1), "bad_time"),
        (_event_form(8, 0), "bad_truncated"),
    ],
    ids=str,
)
def test_what_is_no_record_is_refused_with_a_reason(form: object, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_record(packing.pack(form))
    assert caught.value.reason == reason


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x05\x91\x05", b"\x92\x06"])
def test_bytes_that_are_not_one_record_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_record(data)
    assert caught.value.reason == "not_msgpack"
