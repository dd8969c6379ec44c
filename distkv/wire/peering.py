"""What nodes, and programs that follow events, ask: `get_events`, `exchange` and so on, read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DecodeError
from distkv.model.event import LIFE_MAX, TICK_MAX, NodeName
from distkv.model.path import ROOT
from distkv.model.tick_ranges import up_to
from distkv.wire.codec import read_tick_maps, tick_maps_map
from distkv.wire.declared import pack
from distkv.wire.edges import edge_fields, read_edge
from distkv.wire.fields import (
    Fields,
    bad,
    range_map,
    read_address,
    read_flag,
    read_hash,
    read_int,
    read_list,
    read_map,
    read_node,
    read_path,
    read_ranges,
    read_seconds,
    read_single_ticks,
    read_ticks,
    read_time,
    tick_map,
)
from distkv.wire.request import (
    SILENT_S,
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
from distkv.wire.row import SEQ_MAX, WAIT_S_MAX, AnyRow, ReplyForm, RequestRow, When

WAIT_NODES_MAX: Final = 1024
"""How many nodes' events may be waited for, or followed, at once."""
SILENT_S_MIN: Final = 0.1
"""No follower gets signs of life more often."""

TELL_BODIES_MAX: Final = 256
"""How many things may be told to a service at once."""
SERVICE_CHARACTERS_MAX: Final = 63

PAGE_PATHS_MAX: Final = 1000
"""How many paths may be put into one page: they are looked at in one go."""


def _read_network(fields: Fields) -> bytes | None:
    return read_hash(fields["network"], "network") if "network" in fields else None


def _read_get_events(seq: int, fields: Fields, _: bytes) -> GetEvents:
    doubted = read_ranges(fields["doubted"], "doubted") if "doubted" in fields else {}
    ticks = read_ticks(fields["ticks"], "ticks") if "ticks" in fields else None
    limit = read_int(fields, "limit", TICK_MAX, 1) if "limit" in fields else None
    return GetEvents(seq, read_ranges(fields.get("nodes"), "nodes"), doubted, ticks, limit, _read_network(fields))


def _read_get_pages(seq: int, fields: Fields, _: bytes) -> GetPages:
    after, until = (read_path(fields[name]) if name in fields else None for name in ("after", "until"))
    return GetPages(seq, after, until, read_int(fields, "size", PAGE_PATHS_MAX, 1), _read_network(fields))


def _read_events_wait(seq: int, fields: Fields, _: bytes) -> EventsWait:
    nodes = read_map(fields.get("nodes"), "nodes")
    if len(nodes) > WAIT_NODES_MAX:
        raise DecodeError(f"the field 'nodes' names {len(nodes)} nodes; the limit is {WAIT_NODES_MAX}", "bad_nodes")
    by_tick = {node: tick for node, tick in nodes.items() if type(tick) is not list}
    known = up_to(read_single_ticks(by_tick, "nodes"))
    known |= read_ranges({node: ticks for node, ticks in nodes.items() if node not in by_tick}, "nodes")
    return EventsWait(seq, known, read_seconds(fields, "timeout", WAIT_S_MAX), read_flag(fields, "others"))


def _read_follow(seq: int, fields: Fields, _: bytes) -> Follow:
    nodes = read_map(fields.get("nodes"), "nodes")
    if len(nodes) > WAIT_NODES_MAX:
        raise DecodeError(f"the field 'nodes' names {len(nodes)} nodes; the limit is {WAIT_NODES_MAX}", "bad_nodes")
    node, life = _read_as(fields) if "as" in fields else (None, 0)
    network = _read_network(fields)
    return Follow(seq, read_single_ticks(nodes, "nodes"), _read_silent(fields), node, life, network)


def _read_silent(fields: Fields) -> float:
    silent_s = read_seconds(fields, "silent", WAIT_S_MAX) if "silent" in fields else SILENT_S
    if silent_s < SILENT_S_MIN:
        raise DecodeError(f"the field 'silent' must be {SILENT_S_MIN:g} or more seconds", "bad_silent")
    return silent_s


def _read_as(fields: Fields) -> tuple[NodeName, int]:
    by = read_map(fields.get("as"), "as")
    return read_node(by.get("node"), "node"), read_int(by, "life", LIFE_MAX)


def _read_held(seq: int, fields: Fields, _: bytes) -> HeldRequest:
    nodes = read_map(fields.get("nodes"), "nodes")
    return HeldRequest(seq, _read_task(fields), read_single_ticks(nodes, "nodes"), _read_quiet(fields))


def _read_task(fields: Fields) -> int:
    return read_int(fields, "task", SEQ_MAX, 1)


def _read_quiet(fields: Fields) -> bool:
    """Whether no answer is wanted."""
    return "quiet" in fields and read_flag(fields, "quiet")


def _read_attach(seq: int, fields: Fields, _: bytes) -> Attach:
    node, life = _read_as(fields)
    return Attach(seq, node, life, _read_silent(fields))


def _read_tree_say(seq: int, fields: Fields, _: bytes) -> TreeSay:
    return TreeSay(seq, _read_task(fields), read_edge(fields), _read_quiet(fields))


def _read_lend(seq: int, fields: Fields, _: bytes) -> Lend:
    node, life = _read_as(fields)
    return Lend(seq, node, life, read_hash(fields.get("network"), "network"))


def _read_node_tell(seq: int, fields: Fields, _: bytes) -> NodeTell:
    node, life = _read_as(fields)
    service, bodies = fields.get("service"), read_list(fields.get("bodies"), "bodies")
    if type(service) is not str or not 0 < len(service) <= SERVICE_CHARACTERS_MAX:
        raise bad("service", f"a name of 1 to {SERVICE_CHARACTERS_MAX} characters", service)
    if not 0 < len(bodies) <= TELL_BODIES_MAX:
        raise DecodeError(f"the field 'bodies' must have 1 to {TELL_BODIES_MAX}, not {len(bodies)}", "bad_bodies")
    found = []
    for body in bodies:
        if type(body) is not bytes:
            raise bad("bodies", "made of byte strings", body)
        found.append(body)
    return NodeTell(seq, service, node, life, _read_network(fields), tuple(found), _read_quiet(fields))


def _read_get_changes(seq: int, fields: Fields, _: bytes) -> GetChanges:
    nodes = read_ranges(fields.get("nodes"), "nodes")
    path = read_path(fields["path"]) if "path" in fields else ROOT
    return GetChanges(seq, nodes, path, read_flag(fields, "content") if "content" in fields else True)


def _read_get_snapshot(seq: int, fields: Fields, _: bytes) -> GetSnapshot:
    node, created = read_node(fields.get("node"), "node"), read_time(fields.get("created"), "created")
    return GetSnapshot(seq, node, created, read_address(fields))


def _read_exchange(seq: int, fields: Fields, _: bytes) -> ExchangeRequest:
    return ExchangeRequest(seq, read_tick_maps(fields.get("maps")))


def _write_get_events(request: GetEvents, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["nodes"] = range_map(request.nodes)
    if request.doubted:
        fields["doubted"] = range_map(request.doubted)
    if request.ticks is not None:
        fields["ticks"] = tick_map(request.ticks)
    if request.limit is not None:
        fields["limit"] = request.limit
    _write_network(request.network, fields)


def _write_network(network: bytes | None, fields: dict[str, object]) -> None:
    if network is not None:
        fields["network"] = network


def _write_get_pages(request: GetPages, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["size"] = request.size
    if request.after is not None:
        fields["after"] = request.after.names
    if request.until is not None:
        fields["until"] = request.until.names
    _write_network(request.network, fields)


def _write_events_wait(request: EventsWait, fields: dict[str, object], _: dict[str, bytes]) -> None:
    """Where nothing is known but up to a tick, that tick."""
    known: dict[str, object] = {}
    for node, ticks in request.nodes.items():
        first = next(ticks.pairs(), (1, 1))
        known[node] = first[1] - 1 if first[0] == 0 else ticks.to_list()
    fields |= {"nodes": known, "timeout": request.timeout_s}
    if request.others:
        fields["others"] = True


def _write_follow(request: Follow, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"nodes": request.nodes, "silent": request.silent_s}
    if request.node is not None:
        fields["as"] = {"node": request.node, "life": request.life}
    _write_network(request.network, fields)


def _write_held(request: HeldRequest, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"task": request.task, "nodes": request.nodes}
    if request.is_quiet:
        fields["quiet"] = True


def _write_attach(request: Attach, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"as": {"node": request.node, "life": request.life}, "silent": request.silent_s}


def _write_tree_say(request: TreeSay, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields["task"] = request.task
    raw |= {name: pack(value) for name, value in edge_fields(request.item).items()}
    if request.is_quiet:
        fields["quiet"] = True


def _write_lend(request: Lend, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"as": {"node": request.node, "life": request.life}, "network": request.network}


def _write_node_tell(request: NodeTell, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"service": request.service, "as": {"node": request.node, "life": request.life}}
    fields["bodies"] = request.bodies
    _write_network(request.network, fields)
    if request.is_quiet:
        fields["quiet"] = True


def _write_get_changes(request: GetChanges, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["nodes"] = range_map(request.nodes)
    if request.path != ROOT:
        fields["path"] = request.path.names
    if not request.content:
        fields["content"] = False


def _write_get_snapshot(request: GetSnapshot, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"node": request.node, "created": request.created, "addr": request.addr}


def _write_exchange(request: ExchangeRequest, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["maps"] = tick_maps_map(request.maps)


ROWS: Final[tuple[AnyRow[Request], ...]] = (
    RequestRow("get_events", GetEvents, _read_get_events, _write_get_events, ReplyForm.LONG, When.ALWAYS),
    RequestRow("get_pages", GetPages, _read_get_pages, _write_get_pages, ReplyForm.LONG, When.ALWAYS),
    RequestRow("events_wait", EventsWait, _read_events_wait, _write_events_wait, ReplyForm.LATER, When.ALWAYS),
    RequestRow("follow", Follow, _read_follow, _write_follow, ReplyForm.OPEN, When.ALWAYS),
    RequestRow("held", HeldRequest, _read_held, _write_held, when=When.ALWAYS),
    RequestRow("attach", Attach, _read_attach, _write_attach, ReplyForm.LONG, When.ALWAYS),
    RequestRow("tree_say", TreeSay, _read_tree_say, _write_tree_say, when=When.ALWAYS),
    RequestRow("lend", Lend, _read_lend, _write_lend, when=When.ALWAYS),
    RequestRow("node_tell", NodeTell, _read_node_tell, _write_node_tell, when=When.ALWAYS),
    RequestRow("get_changes", GetChanges, _read_get_changes, _write_get_changes, ReplyForm.LONG, When.ALWAYS),
    RequestRow("get_snapshot", GetSnapshot, _read_get_snapshot, _write_get_snapshot, ReplyForm.LONG, When.SPONSORING),
    RequestRow("exchange", ExchangeRequest, _read_exchange, _write_exchange, when=When.ALWAYS),
)
