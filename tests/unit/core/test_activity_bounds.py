"""What nodes announce of their listeners is read as a stranger's words; users and activities are forgotten in time.

Knows: the parts of the machine that hold these.  Does not know how an activity travels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from distkv.core.activity.kept import KeptActivities
from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.origins import Origins
from distkv.core.activity.other_listeners import LOAD_MAX, AnnouncedPlace, fields_of_place, read_place
from distkv.core.activity.rates import USERS_MAX, Rates
from distkv.core.activity.requests import EndActivity
from distkv.core.activity.senders import BEGINS_MAX, Senders
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.activity.who import all_items
from distkv.core.ready import ServiceAsked
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityNodeItem
from distkv.wire.activity_bodies import ORIGINS_MAX, SENDER_BYTES, KeptActivity, SenderMark
from tests.service_steps import KnownFields, stepped

PLACE = AnnouncedPlace("hut1", 27600, 3)


def test_place_is_read_as_it_was_announced() -> None:
    assert read_place(fields_of_place(PLACE)) == PLACE


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        {"addr": "hut1:27600"},
        {"addr": "hut1:27600", "load": -1},
        {"addr": "hut1:27600", "load": LOAD_MAX + 1},
        {"addr": "hut1:27600", "load": True},
        {"addr": "hut1:27600", "load": "3"},
        {"addr": 7, "load": 3},
        {"addr": "hut1", "load": 3},
        {"addr": ":27600", "load": 3},
        {"addr": "hut1:0", "load": 3},
        {"addr": "hut1:65536", "load": 3},
        {"addr": "hut1:276000", "load": 3},
        {"addr": "hut1:٣", "load": 3},
    ],
)
def test_what_can_be_no_place_is_none(fields: Mapping[str, object] | None) -> None:
    assert read_place(fields) is None


def test_nodes_whose_words_cannot_be_meant_are_left_out() -> None:
    good, own = {"addr": "hut1:27600", "load": 3}, ActivityNodeItem("b", 1, "hut2:1")
    said = {"a": good, "b": good, "c": {"addr": "hut3:1", "load": True}, "d": {"addr": 1, "load": 1}}
    found = all_items(KnownFields({NodeName(name): fields for name, fields in said.items()}), own)
    assert found == (ActivityNodeItem("a", 3, "hut1:27600"), own)


def test_user_who_sent_longest_ago_is_forgotten_first() -> None:
    rates = Rates(1)
    assert rates.sent("first", 0) == 0
    assert rates.sent("first", 0) == 1000
    for number in range(USERS_MAX):
        rates.sent(str(number), 0)
    assert rates.sent("first", 0) == 0
    rates.check()


def test_activity_that_is_too_old_goes_with_its_origin() -> None:
    kept = KeptActivities(1000, 10, 1 << 20)
    kept.add(KeptActivity("a.1", 1, b"{}"), 0)
    kept.add(KeptActivity("b.1", 1, b"{}"), 900)
    kept.trim(1001)
    assert (len(kept), kept.behind("a.1", 0), len(kept.behind("b.1", 0))) == (1, [], 1)


def test_client_that_sent_longest_ago_is_forgotten_first() -> None:
    senders, marks = Senders(2), [SenderMark(bytes([at]) * SENDER_BYTES, 2) for at in range(3)]
    for mark in marks:
        senders.sent(mark)
    assert [senders.is_first(mark) for mark in marks] == [True, False, False]
    senders.check()


def test_earliest_epochs_of_a_client_are_forgotten_first() -> None:
    senders, hash = Senders(2), b"h" * SENDER_BYTES
    for epoch in range(1, BEGINS_MAX + 2):
        senders.gave(KeptActivity(f"a.{epoch}", 1, b"{}", SenderMark(hash, epoch)))
    senders.check()
    assert not senders.is_superseded(SenderMark(hash, BEGINS_MAX), {f"a.{BEGINS_MAX}": 1})
    assert senders.is_superseded(SenderMark(hash, BEGINS_MAX), {f"a.{BEGINS_MAX + 1}": 1})


def test_origin_that_changed_least_lately_is_forgotten_first_but_never_the_own_one() -> None:
    origins = Origins("own.1", 10, 1 << 20)
    for at in range(ORIGINS_MAX):
        origins.hear(KeptActivity(f"a.{at}", 1, b"{}"), at)
        assert [one.origin for one in origins.take_ready(at)] == [f"a.{at}"]
    assert (origins.forgotten, origins.reached("a.0"), origins.reached("a.1")) == (1, 0, 1)
    assert "own.1" in origins.all_reached()
    origins.check()


def test_machine_that_did_not_begin_does_nothing() -> None:
    machine = ActivityMachine(ActivitySettings(), random.Random(1))
    assert stepped(machine, ACTIVITY, 0, ServiceAsked(ACTIVITY, 1, EndActivity(0))) == []
    assert (machine.statistics(), machine.wake_ms()) == ({}, None)
    machine.check()
