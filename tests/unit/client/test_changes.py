"""How the content of ticks is asked for and read, without a server.

Knows: `client.changes`.  Does not know how questions travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distkv.client.changes import ChangePage, Located, events_wait, get_changes
from distkv.client.questions import Question
from distkv.errors import DecodeError, RequestError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire.frames import decode_request
from distkv.wire.message import EventRecord, ResetRecord
from distkv.wire.records import encode_record
from distkv.wire.request import EventsWait, GetChanges

A = NodeName("a")


def request(question: Question[Any]) -> object:
    return decode_request(question.encode(7))


@pytest.mark.parametrize("ticks", [[1, [5, 9]], Ranges([(1, 2), (5, 9)]), (1, (5, 9))])
def test_ticks_are_given_as_state_shows_them_or_as_ranges(ticks: Any) -> None:
    wanted = {A: Ranges([(1, 2), (5, 9)])}
    assert request(get_changes({"a": ticks}, path="x")) == GetChanges(7, wanted, Path(["x"]))
    assert request(events_wait({"a": ticks}, others=True, timeout_s=5)) == EventsWait(7, wanted, 5.0, True)


def test_wait_behind_a_tick_is_one_for_all_above_it() -> None:
    question = events_wait({"a": 5, "b": 0}, others=False, timeout_s=30)
    known = {A: Ranges([(0, 6)]), NodeName("b"): Ranges([(0, 1)])}
    assert (request(question), question.wait_s) == (EventsWait(7, known, 30.0), 30)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: get_changes([], path="x"),  # type: ignore[arg-type]
        lambda: get_changes({"a": 5}, path="x"),  # type: ignore[dict-item]
        lambda: get_changes({"a": [[9, 5]]}, path="x"),
        lambda: get_changes({"a": [[5, 9, 10]]}, path="x"),
        lambda: get_changes({"a b": [1]}, path="x"),
        lambda: get_changes({"a": ["1"]}, path="x"),  # type: ignore[list-item]
        lambda: get_changes({}, path="x", content=1),  # type: ignore[arg-type]
        lambda: events_wait([], others=True, timeout_s=1),  # type: ignore[arg-type]
        lambda: events_wait({"a": -1}, others=True, timeout_s=1),
        lambda: events_wait({"a b": 1}, others=True, timeout_s=1),
        lambda: events_wait({"a": 1.5}, others=True, timeout_s=1),  # type: ignore[dict-item]
        lambda: events_wait({}, others=1, timeout_s=1),  # type: ignore[arg-type]
        lambda: events_wait({}, others=True, timeout_s=3601),
        lambda: events_wait({}, others=True, timeout_s=float("nan")),
    ],
    ids=map(str, range(14)),
)
def test_what_no_node_takes_is_refused_before_it_is_sent(ask: Callable[[], object]) -> None:
    with pytest.raises(RequestError):
        ask()


def test_page_gives_events_with_the_time_at_which_they_came_where_that_is_known() -> None:
    event = Event(Path(["x"]), Kind.SET, b"\1", ((A, Tick(5)),), Tock(9), 1.5)
    records = encode_record(EventRecord(event, 2.5)) + encode_record(EventRecord(event, 0.0))
    page = get_changes({}, path=":").read({"node": "a", "won": b"\1\2", "records": records})
    assert isinstance(page, ChangePage)
    assert [(repr(one), arrived) for one, arrived in page.events()] == [(repr(event), 2.5), (repr(event), None)]


def test_last_item_says_what_is_here_and_what_is_not() -> None:
    found = get_changes({}, path=":").read({"here": {"a": [1]}, "absent": {"a": [2]}})
    assert found == Located({A: Ranges([(1, 2)])}, {A: Ranges([(2, 3)])})


@pytest.mark.parametrize(
    "item",
    [{}, {"absent": 1}, {"records": 1}, {"records": b"", "won": 1}, {"records": b"", "won": b"", "node": 5}],
)
def test_item_that_is_none_is_nonsense(item: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        get_changes({}, path=":").read(item)


@pytest.mark.parametrize("records", [b"\xc1", b"\x91", encode_record(ResetRecord())])
def test_records_that_are_no_events_are_nonsense(records: bytes) -> None:
    with pytest.raises(DecodeError):
        ChangePage(A, b"\1", records).events()
