"""Fences as arguments and in replies, the same for each client.

Knows: what a user asks and sees.  Does not know real nodes.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from distkv.client.conflicts import Listing
from distkv.client.questions import Delete, DeletedCount, Entry, Past, Set
from distkv.client.watch import Change, Watching
from distkv.errors import DecodeError, FencedError, RequestError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence
from distkv.model.path import Path
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.replies import encode_end, encode_reply, encode_start
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import Step, open_server, refusal, reply
from tests.unit.client.shells import SHELLS, Named, perform

CHAIN = {"node": "a", "tick": 2, "prev": None}
LINKS = ((NodeName("a"), Tick(2)),)
DONE = {"changed": True, "chain": CHAIN}
HERE, THERE = Path(("a",)), Path(("b",))
FENCE = Fence(0, 12, 3, "night job")
LIFTED = Fence(2, 0, 0, "")

SHOWN: list[tuple[dict[str, object], Fence | None]] = [
    ({}, None),
    ({"fence": ["night job", 12, 3]}, FENCE),
    ({"fence": ["night job", 12, 3], "base": 2}, FENCE._replace(base=2)),
    ({"base": 2}, LIFTED),
]

each_shell = pytest.mark.parametrize("shell", SHELLS)
each_shown = pytest.mark.parametrize(("fields", "fence"), SHOWN, ids=["none", "fence", "fence and base", "base"])


# -- arguments ----------------------------------------------------------------------------------------------------


@each_shell
@pytest.mark.parametrize("fence", ["night job:12.3", FENCE, FENCE._replace(base=2)], ids=["text", "fence", "of a path"])
def test_write_carries_its_fence_without_a_base(shell: str, fence: object) -> None:
    with open_server(reply(DONE), reply(DONE), reply(DONE)) as server:
        perform(
            shell, [server], ("set", "a", 1, Named(fence=fence)), ("set_packed", "a", b"\x01", Named(fence=fence)),
            ("delete", "a", Named(fence=fence)),
        )  # fmt: skip
    assert [getattr(request, "fence", None) for request in server.requests] == [FENCE] * 3


@each_shell
def test_write_carries_that_it_lifts_the_fence(shell: str) -> None:
    with open_server(reply(DONE), reply(DONE), reply(DONE)) as server:
        perform(
            shell, [server], ("set", "a", 1, Named(refence=True)), ("set_packed", "a", b"\x01", Named(refence=True)),
            ("delete", "a", Named(refence=True)),
        )  # fmt: skip
    assert [getattr(request, "refence", None) for request in server.requests] == [True] * 3


@each_shell
def test_write_that_waits_for_replicas_carries_its_fence(shell: str) -> None:
    with open_server(reply(DONE)) as server:
        perform(shell, [server], ("set", "a", 1, Named(fence=FENCE, replicas=2)))
    write = SetValue(1, HERE, pack_value(1), nchain=1, fence=FENCE)
    assert server.requests == [ReplicatedWrite(write, 2, 10.0)]


@each_shell
def test_batch_carries_the_fence_of_each_write(shell: str) -> None:
    operations = [Set("a", 1, fence="night job:12.3"), Delete("b", fence=FENCE)]
    with open_server(reply({"results": [DONE, DONE]})) as server:
        perform(shell, [server], ("batch", operations))
    ops = (
        SetValue(0, HERE, pack_value(1), nchain=1, fence=FENCE),
        SetValue(0, THERE, None, nchain=1, fence=FENCE),
    )
    assert server.requests == [Batch(1, ops)]


@each_shell
def test_batch_carries_which_writes_lift_fences(shell: str) -> None:
    with open_server(reply({"results": [DONE, DONE]})) as server:
        perform(shell, [server], ("batch", [Set("a", 1, refence=True), Delete("b", refence=True)]))
    ops = (
        SetValue(0, HERE, pack_value(1), nchain=1, refence=True),
        SetValue(0, THERE, None, nchain=1, refence=True),
    )
    assert server.requests == [Batch(1, ops)]


WRONG: list[dict[str, Any]] = [
    {"fence": ""},
    {"fence": "job"},
    {"fence": "job:1"},
    {"fence": ":1.1"},
    {"fence": "job:1.-1"},
    {"fence": f"job:1.{FENCE_MAX + 1}"},
    {"fence": f"{'j' * 256}:1.1"},
    {"fence": "job\n:1.1"},
    {"fence": 5},
    {"fence": ["job", 1, 1]},
    {"fence": (0, 1, 1, "job")},
    {"fence": b"job:1.1"},
    {"fence": NO_FENCE},
    {"fence": LIFTED},
    {"fence": Fence(0, -1, 1, "job")},
    {"fence": Fence(0, 1, FENCE_MAX + 1, "job")},
    {"fence": Fence(0, True, 1, "job")},
    {"fence": Fence(0, 1, 1, 5)},  # type: ignore[arg-type]
    {"refence": 1},
    {"refence": "yes"},
    {"fence": FENCE, "refence": True},
]


@each_shell
@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_fence_that_is_none_is_refused_in_one_line_and_not_sent(shell: str, arguments: dict[str, Any]) -> None:
    with open_server() as server:
        failures = perform(
            shell, [server], ("set", "a", 1, Named(arguments)), ("delete", "a", Named(arguments)),
            ("batch", [Set("a", 1, **arguments)]), ("batch", [Delete("a", **arguments)]),
        )  # fmt: skip
    assert [type(failure) for failure in failures] == [RequestError] * 4
    assert [str(failure).count("\n") for failure in failures] == [0] * 4
    assert all("fence" in str(failure) for failure in failures)
    assert server.requests == []


@each_shell
def test_write_that_is_fenced_off_raises(shell: str) -> None:
    with open_server(refusal(FencedError("a later holder wrote"))) as server:
        (failure,) = perform(shell, [server], ("set", "a", 1, Named(fence=FENCE)))
    assert isinstance(failure, FencedError)
    assert str(failure) == "a later holder wrote"


# -- replies ------------------------------------------------------------------------------------------------------


def items(*found: dict[str, object]) -> Step:
    """A long result."""
    return lambda seq: encode_start(seq) + b"".join(encode_reply(seq, item) for item in found) + encode_end(seq)


@each_shell
@each_shown
def test_entry_tells_its_fence(shell: str, fields: dict[str, object], fence: Fence | None) -> None:
    shown = {"value": 1, "chain": CHAIN, "tock": 9, "time": 1.5, **fields}
    with open_server(reply(shown), items({"path": ["a"], **shown})) as server:
        found = perform(shell, [server], ("get", "a"))
        in_tree = perform(shell, [server], ("get_tree", "a"))
    entry = Entry(1, LINKS, Tock(9), 1.5, None, fence)
    assert found == [entry]
    assert in_tree == [[(HERE, entry)]]


@each_shell
@each_shown
def test_past_tells_its_fence(shell: str, fields: dict[str, object], fence: Fence | None) -> None:
    item = {"value": 1, "chain": CHAIN, "tock": 9, "time": 1.5, "arrived": 2.5, "position": 3, "won": True, **fields}
    with open_server(items(item)) as server:
        found = perform(shell, [server], ("history", "a"))
    assert found == [[Past(1, LINKS, Tock(9), 1.5, 2.5, 3, True, False, fence)]]


@each_shown
def test_change_tells_its_fence(fields: dict[str, object], fence: Fence | None) -> None:
    item = {"path": ["a"], "node": "a", "tick": 2, "tock": 9, "time": 1.5, "token": b"t", **fields}
    watching = Watching("a", fetch=False, since=None, min_depth=0, max_depth=None)
    change = watching.question().read(item)
    assert change == Change(HERE, None, True, LINKS[0], Tock(9), 1.5, b"t", False, fence)


@each_shown
def test_loser_tells_its_fence(fields: dict[str, object], fence: Fence | None) -> None:
    question = Listing("a", closed=False, limit=None).question
    assert question is not None
    item = {"path": ["a"], "value": 1, "node": "a", "tick": 2, "tock": 9, "time": 1.5, **fields}
    ((loser,), *_) = question.read({"items": [item]})
    assert loser.fence == fence


@pytest.mark.parametrize(
    "fields",
    [{"fence": 1}, {"fence": ["", 1, 1]}, {"fence": ["job", 1]}, {"fence": ["job", 1, -1]}, {"fence": ["\x1b", 1, 1]},
     {"base": -1}, {"base": "1"}, {"base": FENCE_MAX + 1}, {"fence": ["job", 1, 1], "base": None}],
    ids=str,
)  # fmt: skip
def test_shown_fence_that_is_none_is_nonsense(fields: dict[str, object]) -> None:
    question = Listing("a", closed=False, limit=None).question
    assert question is not None
    item = {"path": ["a"], "value": 1, "node": "a", "tick": 2, "tock": 9, "time": 1.5, **fields}
    with pytest.raises(DecodeError, match=r"fence|base"):
        question.read({"items": [item]})


@each_shell
@pytest.mark.parametrize(("fields", "fenced"), [({}, 0), ({"fenced": 2}, 2)])
def test_deleted_tree_is_a_number_that_tells_what_stayed(shell: str, fields: dict[str, object], fenced: int) -> None:
    with open_server(reply({"count": 3, **fields})) as server:
        (count,) = perform(shell, [server], ("delete_tree", "a"))
    assert isinstance(count, DeletedCount)
    assert (count, count.fenced) == (3, fenced)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda count: pickle.loads(pickle.dumps(count))])
def test_deleted_count_is_copied_with_what_stayed(again: Any) -> None:
    count = again(DeletedCount(3, 2))
    assert (count, count.fenced) == (3, 2)


def test_deleted_count_can_be_stored_as_the_number_that_it_is() -> None:
    assert pack_value(DeletedCount(3, 2)) == pack_value(3)
