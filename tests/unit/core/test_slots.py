"""What services promise, in the store: records, replay, and when all of it is void (docs/protocol, SLOT-2).

Knows: `Store` and `Slots`.  Does not know who keeps anything.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.ground.slots import Slots
from distkv.core.update import Store
from distkv.model.event import NodeName
from distkv.wire.message import ResetRecord, SlotRecord
from tests.profiles import seeds


def test_value_that_is_kept_already_has_no_record() -> None:
    slots = Slots()
    assert slots.keep("s", "k", b"v") == [SlotRecord("s", "k", b"v")]
    assert slots.keep("s", "k", b"v") == []


def test_value_that_is_not_kept_any_more_is_gone() -> None:
    slots = Slots()
    slots.keep("s", "k", b"v")
    assert slots.keep("s", "k", None) == [SlotRecord("s", "k", None)]
    assert slots.all == {}


def test_services_do_not_see_the_keys_of_others() -> None:
    slots = Slots()
    slots.keep("s", "k", b"1")
    slots.keep("t", "k", b"2")
    assert (slots.of("s"), slots.of("t"), slots.of("u")) == ({"k": b"1"}, {"k": b"2"}, {})


@pytest.mark.parametrize("seed", seeds(20))
def test_replaying_the_records_gives_the_same_slots(seed: int) -> None:
    rng, slots, records = random.Random(seed), Slots(), list[SlotRecord]()
    for _ in range(60):
        if rng.random() < 0.03:
            records += slots.void()
        value = None if rng.random() < 0.3 else rng.randbytes(1)
        records += slots.keep(rng.choice("st"), rng.choice("abc"), value)
    again = Slots()
    for record in records:
        again.replay(record)
    assert again.all == slots.all


def test_reset_voids_slots() -> None:
    store = Store(NodeName("a"), 5)
    for record in (SlotRecord("s", "k", b"v"), ResetRecord(), SlotRecord("s", "l", b"w")):
        store.replay(record)
    assert store.slots == {"s": {"l": b"w"}}
    assert store.kept.void_count == 1


def test_nothing_of_damaged_slots_counts_not_even_what_the_log_has() -> None:
    slots = Slots()
    slots.load(None)
    slots.replay(SlotRecord("s", "k", b"v"))
    assert slots.all == {}


def test_after_a_reset_damage_does_not_matter() -> None:
    slots = Slots()
    slots.load(None)
    slots.reset()
    slots.replay(SlotRecord("s", "k", b"v"))
    assert slots.all == {"s": {"k": b"v"}}
