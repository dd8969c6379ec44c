"""What becomes of user messages: who gets them, who hears them anew, what is missed."""

from __future__ import annotations

from random import Random

import pytest

from distkv.swim.heard_messages import HOLE_MS
from distkv.swim.keyring import Keyring
from distkv.swim.messages import (
    DIRECT_MAX,
    FAN_OUT,
    LEAVING_MAX,
    ORIGINS_MAX,
    PLACES_MAX,
    UserMessages,
    pack_messages,
)
from distkv.swim.riding_messages import RIDES, RIDING_MAX, RidingMessages
from distkv.swim.seal import KeyedSeal
from distkv.wire.swim_frames import GossipFrame, encode_frame, room_in
from distkv.wire.swim_records import (
    BODY_BYTES_MAX,
    COUNT_MAX,
    DATAGRAM_BYTES_MAX,
    GENERATION_MAX,
    MESSAGE_BYTES_MAX,
    SEQUENCE_MAX,
    TABLE_MAX,
    NodeId,
    Payload,
    UserMessage,
    message_bytes,
)

START = b"12345678"
RATE = 512 << 10
FEW = [f"few-{number}" for number in range(DIRECT_MAX)]
MANY = [f"many-{number}" for number in range(DIRECT_MAX + 1)]
LONGEST = UserMessage("a" * 63, START, SEQUENCE_MAX, COUNT_MAX, bytes(BODY_BYTES_MAX))


def _node(name: str = "lamp", rate: int = RATE) -> UserMessages:
    return UserMessages(name, START, rate)


def _of(sequence: int, origin: str = "desk", start: bytes = START, size: int = 10) -> UserMessage:
    return UserMessage(origin, start, sequence, 1, bytes(size))


def _hears(node: UserMessages, *sequences: int, now_ms: int = 0) -> list[bool]:
    found = [node.hear(now_ms, _of(sequence), "door") for sequence in sequences]
    node.check()
    return found


def _leaving(node: UserMessages, peers: list[str]) -> dict[str, list[UserMessage]]:
    found = node.take_leaving(0, peers, Random(1))
    node.check()
    return found


# -- who gets it


def test_message_goes_to_each_of_few() -> None:
    """docs/protocol, SWIM-42."""
    node = _node()
    node.say(3, b"body")
    assert _leaving(node, FEW) == {peer: [UserMessage("lamp", START, 1, 3, b"body")] for peer in FEW}


def test_message_goes_to_some_of_many_and_rides() -> None:
    """docs/protocol, SWIM-42."""
    node = _node()
    node.say(3, b"body")
    found = _leaving(node, MANY)
    assert len(found) == FAN_OUT
    assert [len(node.take_riding(0, 1000)) for _ in range(RIDES + 1)] == [1] * RIDES + [0]


def test_message_leaves_once() -> None:
    node = _node()
    node.say(3, b"body")
    _leaving(node, FEW)
    assert _leaving(node, FEW) == {}


def test_messages_are_numbered_from_one() -> None:
    node = _node()
    node.say(1, b"a")
    node.say(1, b"b")
    assert [one.sequence for one in _leaving(node, FEW)[FEW[0]]] == [1, 2]


def test_message_of_another_is_not_passed_on_among_few() -> None:
    node = _node()
    _hears(node, 1)
    assert _leaving(node, FEW) == {}
    assert node.take_riding(0, 1000) == ()


def test_message_of_another_is_passed_on_among_many() -> None:
    """docs/protocol, SWIM-42."""
    node = _node()
    _hears(node, 1)
    found = _leaving(node, MANY)
    assert [*found.values()] == [[_of(1)]] * FAN_OUT
    assert node.take_riding(0, 1000) == (_of(1),)


def test_message_is_not_passed_to_who_said_it_or_told_it() -> None:
    peers = ["desk", "door"]
    peers += MANY[:-1]
    for seed in range(50):
        node = _node()
        _hears(node, 1)
        assert not node.take_leaving(0, peers, Random(seed)).keys() & {"desk", "door"}


def test_known_message_is_not_passed_on_again() -> None:
    node = _node()
    _hears(node, 1)
    _leaving(node, MANY)
    _hears(node, 1)
    assert _leaving(node, MANY) == {}


def test_own_message_that_comes_back_is_not_new() -> None:
    assert not _node("desk").hear(0, _of(1), "door")


# -- what is heard anew


def test_message_is_new_once() -> None:
    """docs/protocol, SWIM-41."""
    assert _hears(_node(), 1, 1, 2, 1, 2) == [True, False, True, False, False]


def test_another_start_of_a_node_is_heard_by_itself() -> None:
    node = _node()
    assert [node.hear(0, _of(1, start=start), "door") for start in (START, b"87654321", START)] == [True, True, False]


def test_few_origins_are_remembered() -> None:
    node = _node()
    for number in range(ORIGINS_MAX + 1):
        for sequence in (1, 3):
            node.hear(0, _of(sequence, origin=f"n{number}"), "door")
    node.check()
    assert not node.hear(0, _of(1, origin="n1"), "door")
    assert node.hear(0, _of(1, origin="n0"), "door")


# -- what is missed


def test_hole_is_told_once_after_a_while() -> None:
    """docs/protocol, SWIM-41."""
    node = _node()
    _hears(node, 1, 3)
    assert node.missed_at_ms == HOLE_MS
    assert [node.take_missed(now_ms) for now_ms in (HOLE_MS - 1, HOLE_MS, HOLE_MS)] == [False, True, False]
    node.check()
    assert node.missed_at_ms is None


def test_hole_that_is_filled_is_not_told() -> None:
    node = _node()
    _hears(node, 1, 3, 4, 2)
    assert (node.missed_at_ms, node.take_missed(HOLE_MS)) == (None, False)


def test_second_hole_is_told_by_itself() -> None:
    node = _node()
    _hears(node, 1, 3)
    assert node.take_missed(HOLE_MS)
    _hears(node, 4, 6, now_ms=HOLE_MS)
    assert [node.take_missed(now_ms) for now_ms in (HOLE_MS, 2 * HOLE_MS)] == [False, True]


def test_what_was_said_before_is_not_missed() -> None:
    node = _node()
    _hears(node, 1000, 1001, 998)
    assert node.missed_at_ms is None


def test_message_that_was_told_missing_is_heard_when_it_comes() -> None:
    node = _node()
    _hears(node, 1, 3)
    node.take_missed(HOLE_MS)
    assert _hears(node, 2, now_ms=HOLE_MS) == [True]
    assert node.missed_at_ms is None


# -- how much leaves


def test_places_are_for_all_copies() -> None:
    """docs/protocol, SWIM-43."""
    node = _node(rate=10 * 4 * MESSAGE_BYTES_MAX)
    assert [node.places(0, peers) for peers in (0, 1, 4, 10, DIRECT_MAX)] == [PLACES_MAX, 40, 10, 4, 2]


def test_places_come_back_when_told() -> None:
    node = _node(rate=4 * MESSAGE_BYTES_MAX)
    for _ in range(5):
        node.say(1, bytes(BODY_BYTES_MAX))
    _leaving(node, FEW[:4])
    assert node.places(0, 4) == 0
    wait_ms = node.wait_ms(0, 4)
    assert (node.places(wait_ms - 1, 4), node.places(wait_ms, 4)) == (0, 1)


def test_least_allowance_has_a_place() -> None:
    assert _node(rate=1).places(0, DIRECT_MAX) == 1


def test_own_message_leaves_without_allowance() -> None:
    node = _node(rate=1)
    for _ in range(3):
        node.say(1, b"ping")
    assert len(_leaving(node, FEW[:1])[FEW[0]]) == 3


def test_without_allowance_nothing_is_passed_on_at_once() -> None:
    """docs/protocol, SWIM-43."""
    node = _node(rate=1)
    _hears(node, 1)
    assert _leaving(node, MANY) == {}
    assert node.take_riding(0, 1000) == ()
    assert node.counts.dropped == 1
    assert len(node.take_riding(10**6, 1000)) == 0


def test_waiting_messages_have_a_bound() -> None:
    node = _node()
    _hears(node, *range(1, LEAVING_MAX + 2))
    assert node.counts.dropped == 1


def test_riding_messages_have_a_bound() -> None:
    riding = RidingMessages()
    for number in range(RIDING_MAX):
        riding.add(_of(number), 30)
    assert len(riding.take(30)) == 1
    riding.add(_of(RIDING_MAX), 30)
    riding.check()
    assert len(riding) == RIDING_MAX
    ridden = [message.sequence for _ in range(RIDING_MAX) for message, _ in riding.take(30)]
    assert ridden == [*range(1, RIDING_MAX + 1)], "that which had ridden is gone"


def test_message_that_rode_least_rides_first() -> None:
    node = _node()
    _hears(node, 1)
    _leaving(node, MANY)
    node.take_riding(0, 1000)
    _hears(node, 2)
    _leaving(node, MANY)
    assert [one.sequence for one in node.take_riding(0, message_bytes(_of(1)))] == [2]


def test_small_message_rides_where_a_large_one_has_no_room() -> None:
    node = _node()
    for sequence, size in ((1, 500), (2, 10)):
        node.hear(0, _of(sequence, size=size), "door")
    _leaving(node, MANY)
    assert [one.sequence for one in node.take_riding(0, 100)] == [2]


# -- packing


def test_longest_message_is_as_long_as_told() -> None:
    assert message_bytes(LONGEST) == MESSAGE_BYTES_MAX


def test_longest_message_fits_into_a_datagram_of_the_longest_name() -> None:
    frame = GossipFrame(NodeId("b" * 63, GENERATION_MAX), Payload(table=TABLE_MAX))
    assert room_in(frame, KeyedSeal.overhead) >= MESSAGE_BYTES_MAX
    full = GossipFrame(frame.source, Payload(table=TABLE_MAX, messages=(LONGEST,)))
    seal = KeyedSeal(Keyring((b"k" * 32,)), "house", START, bytes)
    assert len(seal.close(encode_frame(full), START)) <= DATAGRAM_BYTES_MAX


@pytest.mark.parametrize(("room", "sizes"), [(1, [1, 1, 1]), (60, [2, 1]), (100, [3]), (30, [1, 1, 1])])
def test_messages_are_packed_in_their_order(room: int, sizes: list[int]) -> None:
    messages = [_of(sequence) for sequence in (1, 2, 3)]
    packed = pack_messages(messages, room)
    assert [len(group) for group in packed] == sizes
    assert [one for group in packed for one in group] == messages


def test_nothing_is_packed_into_nothing() -> None:
    assert pack_messages([], 100) == []
