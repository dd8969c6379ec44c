"""Fences in messages, records and requests: strict readers, and forms that an older release refuses (FENCE-6)."""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import DecodeError, RequestError
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import FENCE_MAX, NO_FENCE, NO_GRANT, Fence, GrantNumber, is_token_name, read_fence_text
from distkv.model.path import Path
from distkv.wire.events import event_map, read_asked_fence, read_event, read_fence_list, read_shown_fence, shown_fence
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.message import EventRecord
from distkv.wire.packing import pack, unpack
from distkv.wire.records import decode_record, encode_record, unpack_events
from distkv.wire.states import decode_entry, encode_entry, entry_of_record
from distkv.wire.token_fields import read_grant_number
from distkv.wire.token_messages import AboutToken, TellLoss, decode_question, encode_question
from distkv.wire.token_replies import TokenGranted
from distkv.wire.token_requests import TokenRelease

FENCE = Fence(1, 7, 2, "night")
LIFTED = Fence(3, 0, 0, "")
BAD_FENCES: list[Any] = [
    None, "night:7.2", [], [0, 7, 2], [0, 7, 2, "night", 1], [0, 7, 2, ""], [0, 0, 0, ""], [-1, 7, 2, "night"],
    [0, FENCE_MAX + 1, 2, "night"], [0, 7, 2**63, "night"], [0, True, 2, "night"], [0, 7, 2, "a\nb"], [0, 7, 2, b"n"],
    [0, 7.0, 2, "night"], [0, 7, 2, "n" * 256],
]  # fmt: skip


def fenced(fence: Fence = FENCE, ttl: float | None = None, path: tuple[str | None, ...] = ("p",)) -> Event:
    chain = ((NodeName("a"), Tick(5)), (NodeName("b"), Tick(3)))
    return new_event(Path(path), Kind.SET, b"\x15", chain, Tock(9), 1.5, True, ttl, fence)


@pytest.mark.parametrize("ttl", [None, 2.5])
@pytest.mark.parametrize("fence", [FENCE, LIFTED], ids=repr)
def test_a_fence_travels_and_is_logged_whole(fence: Fence, ttl: float | None) -> None:
    event = fenced(fence, ttl)
    travelled = read_event(unpack(pack(event_map(event))))
    record = decode_record(encode_record(EventRecord(event, 2.0)))
    assert isinstance(record, EventRecord)
    archived = decode_entry(encode_entry(Entry(event))).head
    for found in (travelled, record.event, archived):
        assert (found.fence, found.ttl, found.chain, found.truncated, found.tock) == (
            fence, ttl, event.chain, True, event.tock
        )  # fmt: skip


def test_the_record_of_a_fenced_event_is_its_entry() -> None:
    event = fenced()
    assert entry_of_record(encode_record(EventRecord(event, 2.0))) == encode_entry(Entry(event))


def test_records_of_events_show_their_fences() -> None:
    plain = new_event(Path(("q",)), Kind.SET, b"\x01", ((NodeName("a"), Tick(1)),), Tock(1), 1.0)
    rows, ttls, fences = unpack_events(
        b"".join(encode_record(EventRecord(event, 2.0)) for event in (plain, fenced(), fenced(LIFTED, 2.5)))
    )
    assert (list(map(len, rows)), ttls, fences) == ([9, 9, 9], [None, None, 2.5], [NO_FENCE, FENCE, LIFTED])


def test_a_fenced_event_has_a_form_that_others_cannot_take_for_a_plain_one() -> None:
    """Before fences an event was a map with a `chain`, and its record had the number 1 or 8."""
    assert "chain" not in event_map(fenced())
    record = unpack(encode_record(EventRecord(fenced(), 2.0)))
    assert isinstance(record, list)
    assert record[0] == 11


def test_an_event_without_a_fence_has_the_form_that_it_always_had() -> None:
    plain = new_event(Path(("q",)), Kind.SET, b"\x01", ((NodeName("a"), Tick(1)),), Tock(1), 1.0)
    assert event_map(plain).keys() == {"path", "value", "chain", "tock", "time"}


@pytest.mark.parametrize("bad", BAD_FENCES, ids=repr)
def test_a_bad_fence_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(DecodeError) as refused:
        read_fence_list(bad, "fence")
    assert refused.value.reason == "bad_fence"
    fields = event_map(fenced())
    with pytest.raises(DecodeError):
        read_event({**fields, "fenced": {**fields["fenced"], "fence": bad}})  # type: ignore[dict-item]


@pytest.mark.parametrize("path", [(None,), (None, "node", "a"), (None, "service", "x"), (None, "other", "x", "y")])
def test_a_fence_on_a_path_of_the_system_is_refused(path: tuple[str | None, ...]) -> None:
    with pytest.raises(DecodeError, match="system"):
        read_event(event_map(fenced(path=path)))


def test_a_fence_on_an_entry_of_a_service_travels() -> None:
    event = fenced(path=(None, "service", "x", "key"))
    assert read_event(unpack(pack(event_map(event)))).fence == FENCE


@pytest.mark.parametrize("fence", [NO_FENCE, FENCE, LIFTED], ids=repr)
def test_what_clients_are_shown_is_read_back(fence: Fence) -> None:
    assert read_shown_fence(shown_fence(fence)) == fence


def test_a_client_gives_a_fence_as_it_got_it() -> None:
    assert read_asked_fence(["night", 7, 2]) == Fence(0, 7, 2, "night")


@pytest.mark.parametrize("bad", [None, "night:7.2", ["night", 7], ["night", 7, -1], ["night", 7, 2**62], [7, 2, "n"]])
def test_a_fence_that_a_client_made_up_wrongly_is_refused(bad: Any) -> None:
    with pytest.raises(RequestError, match="'fence' must be"):
        read_asked_fence(bad)


# -- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [Fence(0, 7, 2, "night"), Fence(0, 0, FENCE_MAX, "a:1.2 b")], ids=str)
def test_the_text_of_a_fence_is_read_back(fence: Fence) -> None:
    assert read_fence_text(str(fence)) == fence


@pytest.mark.parametrize("text", ["", "night", "night:7", ":7.2", "night:7.2.1x", "night:-7.2", f"night:{2**62}.1"])
def test_text_that_is_no_fence_is_none(text: str) -> None:
    assert read_fence_text(text) is None


@pytest.mark.parametrize("name", ["n", "a b", "é" * 127, "日本", "a:b"])
def test_names_of_tokens(name: str) -> None:
    assert is_token_name(name)


@pytest.mark.parametrize("name", ["", "a\tb", "a\x7f", "a\x85", "é" * 128, "\ud800"])
def test_no_names_of_tokens(name: str) -> None:
    assert not is_token_name(name)


def test_the_number_of_a_grant_is_one_value_in_every_form() -> None:
    number = GrantNumber(7, 2)
    release, held = TokenRelease(0, "1-a", "night", number), (*number, "night")
    holder = TokenHolder("1-a", False, *number, 1.5)
    granted = TokenGranted("night", *number, 9, False)
    assert FENCE.number == holder.number == granted.number == read_grant_number({"epoch": 7, "counter": 2}) == number
    asked, told = (decode_question(encode_question(one)) for one in (AboutToken(release), TellLoss("1-a", held)))
    assert isinstance(asked, AboutToken)
    assert isinstance(asked.request, TokenRelease)
    assert isinstance(told, TellLoss)
    assert (asked.request.fence, told.fence.number) == (number, number)
    assert str(number) == "7.2"


def test_later_grants_have_higher_numbers() -> None:
    assert NO_GRANT < GrantNumber(1, 9) < GrantNumber(2, 1) < GrantNumber(2, 2)


@pytest.mark.parametrize(
    "bad", [{"epoch": 1}, {"counter": 1}, {"epoch": -1, "counter": 1}, {"epoch": 1, "counter": FENCE_MAX + 1}]
)
def test_half_a_number_is_none(bad: Any) -> None:
    with pytest.raises(DecodeError):
        read_grant_number(bad)
