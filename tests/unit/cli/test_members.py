"""What `distkv client node list` makes of a state.

Knows: `get_state`.  No server.
"""

from __future__ import annotations

import pytest

from distkv.cli.members import MemberView, PlaceView, read_members
from distkv.errors import DecodeError

STATE: dict[str, object] = {"node": "b", "state": "ready", "addr": "h:1", "nodes": {}, "missing": {}, "members": []}


def test_node_itself_comes_first_with_its_own_state() -> None:
    members = [{"node": "a", "addr": "i:1", "state": "away"}]
    found = read_members(STATE | {"members": members, "nodes": {"a": 3, "b": 7}})
    assert found == [MemberView("b", "ready", "h:1", 7, 0), MemberView("a", "away", "i:1", 3, 0)]


def test_node_that_was_only_told_of_is_unknown() -> None:
    assert read_members(STATE | {"nodes": {"z": 9}})[1:] == [MemberView("z", "unknown", "", 9, 0)]


def test_missing_changes_are_counted() -> None:
    assert read_members(STATE | {"nodes": {"z": 9}, "missing": {"z": [2, [4, 7]]}})[1].missing == 4


def test_node_of_an_older_release_tells_no_address_of_its_own() -> None:
    assert read_members({name: value for name, value in STATE.items() if name != "addr"})[0].addr == ""


def test_link_is_shown_with_its_round_trip() -> None:
    links = [{"node": "x", "state": "down"}, {"node": "z", "state": "up", "rtt_ms": 0.25}]
    found = read_members(STATE | {"nodes": {"x": 1, "y": 2, "z": 9}, "links": links})
    assert [(member.node, member.link, member.rtt_ms) for member in found] == [
        ("b", "", None), ("x", "down", None), ("y", "", None), ("z", "up", 0.25),
    ]  # fmt: skip


def test_place_in_the_server_tree_is_shown() -> None:
    announced = {
        "b": {"addr": "h:1", "load": 2, "level": 0, "height": 1, "children": 1, "parent": None},
        "z": {"addr": "h:2", "load": 0, "level": 1, "height": 0, "children": 0, "parent": "b"},
    }
    found = read_members(STATE | {"nodes": {"y": 2, "z": 9}, "tree": {"announced": announced}})
    assert [member.place for member in found] == [PlaceView(0, "", 2), None, PlaceView(1, "b", 0)]


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 1},
        {"members": {}},
        {"members": [1]},
        {"nodes": {"a": "x"}},
        {"links": 1},
        {"tree": []},
        {"tree": {"announced": {"z": {"level": -1, "load": 0, "parent": None}}}},
        {"links": [{"node": "z", "state": "up", "rtt_ms": "x"}]},
    ],
)
def test_state_that_is_none_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        read_members(STATE | change)
