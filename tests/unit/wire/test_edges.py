"""Items of the server tree in another shape are refused by name (docs: client protocol).

Knows: the form of items.  Does not know who says them.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import DecodeError
from distkv.wire.edges import (
    FRAME_BYTES_MAX,
    FRAMES_MAX,
    NODES_MAX,
    PATH_MAX,
    SERVICES_MAX,
    FramesHeld,
    Join,
    ServerInfo,
    read_edge,
)

FRAME = ["a", 1, 1, "tokens", b""]
LONG_PATH = [f"n{number}" for number in range(PATH_MAX + 1)]
MANY_SERVICES = {f"s{number}": {} for number in range(SERVICES_MAX + 1)}
MANY = [f"n{number}" for number in range(NODES_MAX + 1)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "bad_item"),
        ({"task": 1}, "bad_item"),
        ({"offer": []}, "bad_offer"),
        ({"offer": {"path": ["a", "a"], "height": 1}}, "bad_path"),
        ({"offer": {"path": ["a b"], "height": 1}}, "bad_path"),
        ({"offer": {"path": LONG_PATH, "height": 1}}, "bad_path"),
        ({"offer": {"path": ["a"], "height": PATH_MAX + 1}}, "bad_height"),
        ({"offer": {"path": ["a"]}}, "bad_height"),
        ({"info": {"path": ["a", "a"], "height": 1, "turn": 1}}, "bad_path"),
        ({"info": {"path": ["a"], "height": 1}}, "bad_turn"),
        ({"info": {"path": ["a"], "height": 1, "turn": 1, "have": []}}, "bad_have"),
        ({"refused": {"reason": "", "others": []}}, "bad_reason"),
        ({"refused": {"reason": "full", "others": MANY}}, "bad_others"),
        ({"join": {"height": 1, "up": 1}}, "bad_have"),
        ({"join": {"height": 1, "have": {"a": [1]}, "up": 1}}, "bad_have"),
        ({"join": {"height": 1, "have": {"a": [1, -1]}, "up": 1}}, "bad_have"),
        ({"join": {"height": 1, "have": {}, "up": 1.5}}, "bad_up"),
        ({"height": -1}, "bad_height"),
        ({"told": None}, "bad_told"),
        ({"acked": True}, "bad_acked"),
        ({"ping": 1}, "bad_ping"),
        ({"frames": [FRAME] * (FRAMES_MAX + 1)}, "bad_frames"),
        ({"frames": [FRAME[:4]]}, "bad_frames"),
        ({"frames": [[*FRAME[:4], "text"]]}, "bad_frames"),
        ({"frames": [[*FRAME[:4], bytes(FRAME_BYTES_MAX + 1)]]}, "bad_frames"),
        ({"frames": [["a", 1, 1, "ä", b""]]}, "bad_frames"),
        ({"service": "say", "said": [FRAME]}, "bad_said"),
        ({"service": "tokens", "said": [FRAME] * (FRAMES_MAX + 1)}, "bad_said"),
        ({"said": []}, "bad_service"),
        ({"service": "say", "said": [], "gone": {"a": [1]}}, "bad_gone"),
        ({"service": "say", "came": -1}, "bad_came"),
        ({"join": {"height": 1, "have": {}, "up": 1, "services": {"": {}}}}, "bad_services"),
        ({"join": {"height": 1, "have": {}, "up": 1, "services": MANY_SERVICES}}, "bad_services"),
    ],
)
def test_item_of_another_shape_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(DecodeError) as error:
        read_edge(fields)
    assert error.value.reason == reason


def test_parent_says_what_it_has_of_the_frames_once() -> None:
    first = read_edge({"info": {"path": [], "height": 1, "turn": 1, "have": {}, "up": 5}})
    later = read_edge({"info": {"path": [], "height": 1, "turn": 2}})
    assert isinstance(first, ServerInfo)
    assert isinstance(later, ServerInfo)
    assert (first.past, later.past) == (FramesHeld({}, 5), None)


def test_neighbour_of_an_earlier_release_has_no_frames_of_services() -> None:
    join = read_edge({"join": {"height": 1, "have": {}, "up": 5}})
    assert isinstance(join, Join)
    assert join.past.services is None
