"""Rows of data of services, in the store: records, replay, order, what is in doubt, and bounds (docs/protocol, SLOT-6).

Knows: `Store` and `Data`.  Does not know who keeps anything.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.ground import data as ground_data
from distkv.core.ground.data import BYTES_MAX, OLD, UNKNOWN, Data, check_row, mark_lost, row_size
from distkv.core.ground.turn import DataKept, ServiceTurn
from distkv.core.update import Store
from distkv.errors import BadValueError, NoSpaceError, RequestError, TooLargeError
from distkv.model.event import NodeName
from distkv.wire.message import DataRecord, ResetRecord, SlotRecord, StaleRecord
from tests.profiles import seeds


def kept(**rows: bytes) -> Data:
    data = Data()
    for key, value in rows.items():
        data.keep("s", key, value)
    return data


def shown(data: Data, service: str = "s") -> tuple[dict[str, bytes], set[str], bool, bool]:
    rows = data.of(service)
    return dict(rows.items()), set(rows.lost), rows.is_unknown, rows.is_old


def test_value_that_is_kept_already_has_no_record() -> None:
    data = Data()
    assert data.keep("s", "k", b"v") == [DataRecord("s", "k", b"v")]
    assert data.keep("s", "k", b"v") == []
    assert data.keep("s", "k", None) == [DataRecord("s", "k", None)]
    assert data.keep("s", "k", None) == []


def test_rows_are_read_in_order_from_a_key_on_and_below_a_prefix() -> None:
    rows = kept(b=b"2", a1=b"1", c=b"4", b2=b"3").of("s")
    assert [*rows.items()] == [("a1", b"1"), ("b", b"2"), ("b2", b"3"), ("c", b"4")]
    assert [*rows.keys(first="b1")] == ["b2", "c"]
    assert [*rows.keys("b")] == ["b", "b2"]
    assert [*rows.keys("b", first="b1")] == ["b2"]
    assert (rows.get("c"), rows.get("d"), len(rows)) == (b"4", None, 4)


def test_service_sees_its_own_rows_only() -> None:
    data = kept(k=b"1")
    data.keep("t", "k", b"2")
    assert (data.of("s").get("k"), data.of("t").get("k"), len(data.of("u"))) == (b"1", b"2", 0)


@pytest.mark.parametrize("seed", seeds(20))
def test_replaying_the_records_gives_the_same_rows(seed: int) -> None:
    rng, data, records = random.Random(seed), Data(), list[DataRecord]()
    expected = dict[str, dict[str, bytes]](s={}, t={})
    for _ in range(200):
        service, key = rng.choice("st"), "".join(rng.choices("ab", k=rng.randrange(1, 5)))
        value = None if rng.random() < 0.4 else rng.randbytes(2)
        before = len(records)
        match rng.randrange(20):
            case 0:
                records += data.mark_old()
            case 1:
                records += data.make_good(service)
            case 2:
                data.lose([(service, key)])
                records += data.keep(service, key, value)  # before anything else: it was found at a start
                expected[service].pop(key, None)
                if value is not None:
                    expected[service][key] = value
            case _:
                records += data.keep(service, key, value)
                expected[service].pop(key, None)
                if value is not None:
                    expected[service][key] = value
        data.check()
        assert len(records) - before <= 40
        assert {name: dict(data.of(name).items()) for name in "st"} == expected
    again = Data()
    for record in records:
        again.replay(record)
    again.check()
    assert [shown(again, name) for name in "st"] == [shown(data, name) for name in "st"]
    assert again.size == data.size


def test_rows_stay_when_the_node_starts_anew_and_on_an_old_disk() -> None:
    store = Store(NodeName("a"), 5)
    records = [SlotRecord("s", "k", b"promise"), DataRecord("s", "k", b"row"), StaleRecord(True), ResetRecord()]
    for record in records:
        store.replay(record)
    assert (store.slots, shown(store.data)[0]) == ({}, {"k": b"row"})


def test_service_is_told_of_an_old_disk_until_it_made_that_good() -> None:
    data = kept(k=b"v")
    assert data.mark_old() == [DataRecord("s", OLD, b"")]
    assert data.mark_old() == []
    assert shown(data) == ({"k": b"v"}, set(), False, True)
    assert data.make_good("s") == [DataRecord("s", OLD, None)]
    assert shown(data) == ({"k": b"v"}, set(), False, False)


def test_service_without_a_row_begins_as_on_a_new_disk() -> None:
    data = Data()
    assert data.of("s").is_old is False
    assert data.mark_old() == []


def test_lost_row_is_told_until_something_is_kept_there() -> None:
    data = kept(k=b"v", other=b"w")
    data.lose([("s", "gone"), ("s", "gone too")])
    assert shown(data)[1:] == ({"gone", "gone too"}, False, False)
    assert [*data.lost()] == [("s", "gone"), ("s", "gone too")]
    assert data.keep("s", "gone", b"new") == [DataRecord("s", "gone", b"new"), DataRecord("s", mark_lost("gone"), None)]
    assert data.keep("s", "gone too", None) == [DataRecord("s", mark_lost("gone too"), None)]
    assert shown(data)[1:] == (set(), False, False)


def test_what_the_log_has_came_after_what_was_lost() -> None:
    data = Data()
    data.lose([("s", "a"), ("s", "b"), ("s", "c"), ("s", None)])
    data.replay(DataRecord("s", "a", b"v"))
    data.replay(DataRecord("s", "b", None))
    assert shown(data) == ({"a": b"v"}, {"c"}, True, False)
    data.replay(DataRecord("s", OLD, b""))
    assert shown(data)[2:] == (True, True)


def test_mark_that_is_lost_leaves_it_unknown_what_is() -> None:
    data = Data()
    data.lose([("s", mark_lost("k"))])
    assert shown(data)[1:] == (set(), True, False)
    assert data.make_good("s") == [DataRecord("s", UNKNOWN, None)]


def test_marks_are_no_rows_for_the_service() -> None:
    data = kept(k=b"v")
    data.mark_old()
    data.lose([("s", "gone"), ("s", None)])
    rows = data.of("s")
    assert ([*rows.keys()], len(rows), rows.get(OLD)) == (["k"], 1, None)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("", b"", BadValueError),
        ("\0", b"", BadValueError),
        (OLD, None, BadValueError),
        ("\ud800", b"", BadValueError),
        ("k" * 1025, b"", TooLargeError),
        ("é" * 513, None, TooLargeError),
        ("k", bytes((1 << 20) + 1), TooLargeError),
    ],
)
def test_row_that_cannot_be_kept_is_refused_in_one_line(
    key: str, value: bytes | None, error: type[RequestError]
) -> None:
    turn = ServiceTurn("s", 0, 0.0)
    with pytest.raises(error) as caught:
        turn.keep_data(key, value)
    assert "\n" not in str(caught.value)
    assert turn.effects == []


@pytest.mark.parametrize(("key", "value"), [("k" * 1024, bytes(1 << 20)), ("é" * 512, None), ("a\0b", b"")])
def test_row_at_its_bounds_is_kept(key: str, value: bytes | None) -> None:
    turn = ServiceTurn("s", 0, 0.0)
    turn.keep_data(key, value)
    assert turn.effects == [DataKept(key, value)]


def test_rows_of_all_services_together_have_a_bound_and_what_is_removed_makes_room() -> None:
    data = Data(bytes_max=2 * row_size("k", b"v"))
    data.keep("t", "k", b"v")
    turn = ServiceTurn("s", 0, 0.0, data)
    turn.keep_data("k", b"v")
    with pytest.raises(NoSpaceError, match=r"limits\.data_bytes"):
        turn.keep_data("l", b"v")
    turn.keep_data("l", None)
    data.keep("t", "k", None)
    turn.keep_data("l", b"v")


def test_row_that_replaces_another_one_needs_only_what_it_is_longer() -> None:
    data = Data(bytes_max=2 * row_size("k", b"v"))
    data.keep("s", "k", b"v")
    data.keep("s", "l", b"v")
    turn = ServiceTurn("s", 0, 0.0, data)
    turn.keep_data("k", b"w")
    with pytest.raises(NoSpaceError):
        turn.keep_data("k", b"longer")
    turn.keep_data("l", None)
    turn.keep_data("l", None)
    turn.keep_data("m", b"v")
    assert turn.data_bytes == 0
    with pytest.raises(NoSpaceError):
        turn.keep_data("n", b"v")


def test_bound_is_that_of_the_settings_where_there_are_some() -> None:
    assert Data().bytes_max == BYTES_MAX
    check_row("k", b"v", row_size("k", b"v"))
    with pytest.raises(NoSpaceError):
        check_row("k", b"v", row_size("k", b"v") - 1)
    assert ground_data.ROW_BYTES > 0
