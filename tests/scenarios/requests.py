"""What clients ask servers for, action by action.

Knows: the requests of the client protocol.  Does not know who sends them, nor when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, assert_never

from distkv.model.entry import Entry
from distkv.model.event import Event, tick_text
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.actions import Condition, Decide, DecideAny, Fill, Write
from distkv.wire.values import unpack_value

Request: TypeAlias = tuple[str, dict[str, Any]]
"""An action of the client protocol, and its fields."""


def requests_of(action: Write | Fill | Decide | DecideAny, tree: Tree) -> Iterator[Request]:
    """In their order; `tree` is what the client has just read."""
    match action:
        case Write(path=path, value=None):
            yield "delete_value", {"path": [*path.names], **_fence(action)}
        case Write(path=path):
            yield "set_value", _set(action, tree.get(path))
        case Fill(is_batch=True):
            yield "batch", {"ops": [{"action": "set_value", **fields} for fields in _filled(action)]}
        case Fill():
            yield from (("set_value", fields) for fields in _filled(action))
        case Decide(path=path, loser_of=loser_of, is_restored=is_restored):
            losers = [loser for loser in _losers(tree) if loser.path == path and loser.node == loser_of]
            yield _decision(losers[0], is_restored=is_restored)
        case DecideAny(number=number, is_restored=is_restored):
            losers = _losers(tree)
            if losers:
                yield _decision(losers[number % len(losers)], is_restored=is_restored)
        case _:
            assert_never(action)


def _fence(action: Write) -> dict[str, Any]:
    fence = action.fence
    asked: dict[str, Any] = {} if fence is None else {"fence": [fence.token, fence.epoch, fence.counter]}
    return asked | ({"refence": True} if action.refence else {})


def _set(action: Write, entry: Entry | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"path": [*action.path.names], "value": action.value}
    if action.ttl_s is not None:
        fields["ttl"] = action.ttl_s
    if action.condition is None:
        return fields | _fence(action)
    if action.condition is Condition.NEW or entry is None or not entry.is_live:
        return {**fields, "new": True}
    head = entry.head
    match action.condition:
        case Condition.CHAIN:
            node, tick = head.link
            return {**fields, "chain": {"node": node, "tick": tick}}
        case Condition.VALUE:
            return {**fields, "prev": unpack_value(head.value)}
        case Condition.SAME:
            return {**fields, "value": unpack_value(head.value), "idem": True}
    assert_never(action.condition)


def _filled(action: Fill) -> Iterator[dict[str, Any]]:
    for at in range(action.count):
        number = action.first + at if action.over is None else (action.first + at) % action.over
        yield {"path": [*Path((*action.path.names, str(number))).names], "value": at}


def _decision(loser: Event, *, is_restored: bool) -> Request:
    return "restore" if is_restored else "dismiss", {"id": tick_text(*loser.link)}


def _losers(tree: Tree) -> Sequence[Event]:
    entries = [entry for entry in tree.conflicted() if not entry.head.path.is_reserved]
    return [loser for entry in entries for loser in entry.conflicts()]
