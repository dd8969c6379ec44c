"""What nodes, and programs that follow events, ask: `get_events`, `exchange` and so on, declared.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.errors import DecodeError
from distkv.model.event import LIFE_MAX, TICK_MAX, NodeName, Tick
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.wire.codec import read_tick_maps, tick_maps_map
from distkv.wire.declared import pack
from distkv.wire.edges import EdgeItem, edge_fields, read_edge
from distkv.wire.fields import (
    Fields,
    bad,
    read_int,
    read_list,
    read_map,
    read_node,
    read_ranges,
    read_seconds,
    read_single_ticks,
    read_time,
)
from distkv.wire.request import (
    Attach,
    EventsWait,
    ExchangeRequest,
    Follow,
    GetChanges,
    GetEvents,
    GetPages,
    GetSnapshot,
    HeldRequest,
    Lend,
    NodeTell,
    Request,
    TreeSay,
)
from distkv.wire.request_fields import (
    ADDRESS,
    FLAG,
    HASH,
    NODE,
    PATH,
    RANGES,
    TICKS,
    WAIT,
    FieldGroup,
    FieldKind,
    declared,
    whole_number,
)
from distkv.wire.row import SEQ_MAX, WAIT_S_MAX, AnyRow, ReplyForm, When

WAIT_NODES_MAX: Final = 1024
"""How many nodes' events may be waited for, or followed, at once."""
SILENT_S_MIN: Final = 0.1
"""No follower gets signs of life more often."""

TELL_BODIES_MAX: Final = 256
"""How many things may be told to a service at once."""
SERVICE_CHARACTERS_MAX: Final = 63

PAGE_PATHS_MAX: Final = 1000
"""How many paths may be put into one page: they are looked at in one go."""


def _read_some_ticks(value: object, name: str) -> dict[NodeName, Tick]:
    return read_single_ticks(_few_nodes(value, name), name)


def _few_nodes(value: object, name: str) -> Fields:
    nodes = read_map(value, name)
    if len(nodes) > WAIT_NODES_MAX:
        raise DecodeError(f"the field '{name}' names {len(nodes)} nodes; the limit is {WAIT_NODES_MAX}", f"bad_{name}")
    return nodes


def _read_known(value: object, name: str) -> TickRanges:
    nodes = _few_nodes(value, name)
    by_tick = {node: tick for node, tick in nodes.items() if type(tick) is not list}
    known = up_to(read_single_ticks(by_tick, name))
    return known | read_ranges({node: ticks for node, ticks in nodes.items() if node not in by_tick}, name)


def _write_known(known: TickRanges) -> dict[str, object]:
    """Where nothing is known but up to a tick, that tick."""
    found: dict[str, object] = {}
    for node, ticks in known.items():
        first = next(ticks.pairs(), (1, 1))
        found[node] = first[1] - 1 if first[0] == 0 else ticks.to_list()
    return found


def _read_silent(fields: Fields, name: str) -> float:
    silent_s = read_seconds(fields, name, WAIT_S_MAX)
    if silent_s < SILENT_S_MIN:
        raise DecodeError(f"the field '{name}' must be {SILENT_S_MIN:g} or more seconds", f"bad_{name}")
    return silent_s


def _read_as(fields: Fields, _: bytes) -> tuple[NodeName, int]:
    by = read_map(fields.get("as"), "as")
    return read_node(by.get("node"), "node"), read_int(by, "life", LIFE_MAX)


def _write_as(by: Sequence[object], fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["as"] = dict(zip(("node", "life"), by, strict=True))


def _read_item(fields: Fields, _: bytes) -> tuple[EdgeItem]:
    return (read_edge(fields),)


def _write_item(item: Sequence[EdgeItem], _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw |= {name: pack(value) for name, value in edge_fields(item[0]).items()}


def _read_service(value: object, name: str) -> str:
    if type(value) is not str or not 0 < len(value) <= SERVICE_CHARACTERS_MAX:
        raise bad(name, f"a name of 1 to {SERVICE_CHARACTERS_MAX} characters", value)
    return value


def _read_bodies(value: object, name: str) -> tuple[bytes, ...]:
    found = read_list(value, name)
    if not 0 < len(found) <= TELL_BODIES_MAX:
        raise DecodeError(f"the field '{name}' must have 1 to {TELL_BODIES_MAX}, not {len(found)}", f"bad_{name}")
    bodies = []
    for body in found:
        if type(body) is not bytes:
            raise bad(name, "made of byte strings", body)
        bodies.append(body)
    return tuple(bodies)


_LONG: Final = ReplyForm.LONG
_ALWAYS: Final = When.ALWAYS

_TICK_OF_EACH: Final = FieldKind(lambda value, name: read_single_ticks(read_map(value, name), name))
_SILENT: Final = FieldKind(_read_silent, of_fields=True)
_TASK: Final = whole_number(SEQ_MAX, 1)
_AS: Final = FieldGroup(2, _read_as, _write_as)

ROWS: Final[tuple[AnyRow[Request], ...]] = (
    declared("get_events", GetEvents, {
        "nodes": RANGES, "doubted": RANGES, "ticks": TICKS, "limit": whole_number(TICK_MAX, 1), "network": HASH,
    }, _LONG, _ALWAYS),
    declared("get_pages", GetPages, {
        "size": whole_number(PAGE_PATHS_MAX, 1), "after": PATH, "until": PATH, "network": HASH,
    }, _LONG, _ALWAYS),
    declared("events_wait", EventsWait, {
        "nodes": FieldKind(_read_known, _write_known), "timeout": WAIT, "others": FLAG,
    }, ReplyForm.LATER, _ALWAYS),
    declared("follow", Follow, {
        "nodes": FieldKind(_read_some_ticks), "silent": _SILENT, "as": _AS, "network": HASH,
    }, ReplyForm.OPEN, _ALWAYS),
    declared("held", HeldRequest, {"task": _TASK, "nodes": _TICK_OF_EACH, "quiet": FLAG}, when=_ALWAYS),
    declared("attach", Attach, {"as": _AS, "silent": _SILENT}, _LONG, _ALWAYS),
    declared("tree_say", TreeSay, {
        "task": _TASK, "item": FieldGroup(1, _read_item, _write_item), "quiet": FLAG,
    }, when=_ALWAYS),
    declared("lend", Lend, {"as": _AS, "network": HASH}, when=_ALWAYS),
    declared("node_tell", NodeTell, {
        "service": FieldKind(_read_service), "as": _AS, "bodies": FieldKind(_read_bodies), "network": HASH,
        "quiet": FLAG,
    }, when=_ALWAYS),
    declared("get_changes", GetChanges, {"nodes": RANGES, "path": PATH, "content": FLAG}, _LONG, _ALWAYS),
    declared("get_snapshot", GetSnapshot, {
        "node": NODE, "created": FieldKind(read_time), "addr": ADDRESS,
    }, _LONG, When.SPONSORING),
    declared("exchange", ExchangeRequest, {
        "maps": FieldKind(lambda value, _: read_tick_maps(value), tick_maps_map),
    }, when=_ALWAYS),
)  # fmt: skip
