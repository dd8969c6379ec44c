"""What anybody may say on the transport, and what it changes: counters.

Knows: docs/protocol, 'Messages' and 'Registry'; every message here is well-formed, the codec refuses the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from distkv.core.ready import AskMaps, HeardMessage, PeerOffered, Ready
from distkv.core.registry import NETWORK_PATH, NetworkIdentity
from distkv.model.event import TICK_MAX, Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.sim.network import NetworkFaults
from distkv.wire.message import EventRecord, Header, Info, Message, Ping, PingLink, Start, Update
from distkv.wire.values import pack_value
from tests.fleet import Fleet, grown

CLOCK_MS = 5000
JUMP = 1 << 32

Sketch = Callable[[Fleet], Message]


def header(fleet: Fleet, node: str, *, ahead: int = 1, network: bytes | None = None) -> Header:
    """A header that node a would accept."""
    a = fleet["a"]
    assert a.network_id is not None
    tock = Tock(min(a.tock + ahead, TICK_MAX))
    return Header(NodeName(node), Tick(1), tock, 0, network or a.network_id, Start(2e9, 1))


def event(node: str, tick: int, tock: int, path: str = "evil") -> Event:
    return Event(Path([path]), Kind.SET, b"\x01", ((NodeName(node), Tick(tick)),), Tock(tock), 0.0)


def update(node: str, writer: str = "", *, tick: int = 1, ahead: int = 1, network: bytes | None = None) -> Sketch:
    def make(fleet: Fleet) -> Message:
        head = header(fleet, node, ahead=ahead, network=network)
        return Update(head, (event(writer or node, tick, head.tock),))

    return make


def ping(node: str, *, ahead: int = 1, network: bytes | None = None) -> Sketch:
    def make(fleet: Fleet) -> Message:
        head = header(fleet, node, ahead=ahead, network=network)
        return Ping(head, (PingLink(head.node, Tick(1), head.tock),), "evil:1", State.READY, 0, b"\0" * 8)

    return make


def info(node: str, *, ahead: int = 1, network: bytes | None = None, about: str = "b", tick: int = 99) -> Sketch:
    def make(fleet: Fleet) -> Message:
        head = header(fleet, node, ahead=ahead, network=network)
        ticks = {NodeName(about): [Tick(tick)]}
        known = {NodeName(about): Ranges([(1, 50)]), NodeName("a"): Ranges([(1, 50)])}
        return Info(head, "evil:1", State.READY, ticks, known=known)

    return make


def _settled() -> Fleet:
    fleet = grown("a", "b")
    fleet.set("a", "x", 1)
    fleet.set("b", "y", 1)
    fleet.run(20_000)
    return fleet


def _state(fleet: Fleet) -> tuple[object, ...]:
    tree = fleet["a"].tree
    return tree.digest, len(tree), tree.ledger.ticks(), tree.ledger.held(), dict(fleet["a"].registry.nodes)


def _heard(fleet: Fleet, sketch: Sketch) -> Ready:
    return fleet.step("a", HeardMessage(sketch(fleet)))


def _exchanges(fleet: Fleet, since_ms: int) -> list[str]:
    return [
        ask.addr for at, name, ask in fleet.asked if at >= since_ms and name == "a" and isinstance(ask.what, AskMaps)
    ]


# -- nothing changes

HARMLESS = [
    pytest.param(ping("stranger"), "unregistered", id="ping of one not registered"),
    pytest.param(update("stranger"), "unregistered", id="update of one not registered"),
    pytest.param(update("stranger", tick=TICK_MAX), "unregistered", id="its highest tick"),
    pytest.param(update("stranger", "b", tick=5), "unregistered", id="its update of another's event"),
    pytest.param(update("b", tick=77, ahead=JUMP + 2), "tock_jump", id="update far ahead"),
    pytest.param(ping("b", ahead=JUMP + 2), "tock_jump", id="ping far ahead"),
    pytest.param(info("b", ahead=JUMP + 2), "tock_jump", id="info far ahead"),
    pytest.param(ping("b", ahead=TICK_MAX), "tock_jump", id="ping at the end of time"),
    pytest.param(update("b", tick=77, network=b"elsewhere"), "foreign_network", id="update of another network"),
    pytest.param(ping("b", network=b"elsewhere"), "foreign_network", id="ping of another network"),
    pytest.param(info("b", network=b"elsewhere"), "foreign_network", id="info of another network"),
]


@pytest.mark.parametrize(("sketch", "note"), HARMLESS)
def test_message_that_may_not_change_anything_is_counted(sketch: Sketch, note: str) -> None:
    """Strangers, and tocks far ahead, are not believed (docs/protocol, REG-6, TOCK-3)."""
    fleet = _settled()
    before = _state(fleet)
    ready = _heard(fleet, sketch)
    assert [n.id for n in ready.notes] == [note]
    assert _state(fleet) == before


@pytest.mark.parametrize(
    "sketch",
    [
        pytest.param(info("stranger"), id="ticks and known of one not registered"),
        pytest.param(info("b", about="stranger", tick=TICK_MAX), id="ticks of one not registered"),
        pytest.param(info("b", about="a", tick=TICK_MAX), id="our own ticks"),
        pytest.param(ping("stranger"), id="ping of one not registered"),
        pytest.param(update("a", tick=500), id="update in our own name"),
        pytest.param(info("a", about="b", tick=500), id="info in our own name"),
        pytest.param(ping("a"), id="ping in our own name"),
    ],
)
def test_other_message_that_is_not_believed_adds_no_event_and_no_tick(sketch: Sketch) -> None:
    fleet = _settled()
    tree = fleet["a"].tree
    before = tree.digest, len(tree), tree.ledger.ticks(), dict(fleet["a"].registry.nodes)
    ready = _heard(fleet, sketch)
    assert ready.fatal is None
    assert not any(isinstance(record, EventRecord) for record in ready.records)
    assert (tree.digest, len(tree), tree.ledger.ticks(), dict(fleet["a"].registry.nodes)) == before


def test_message_far_ahead_does_not_move_the_tock() -> None:
    fleet = _settled()
    before = fleet["a"].tock
    _heard(fleet, ping("b", ahead=JUMP + 2))
    assert fleet["a"].tock == before


def test_message_of_another_network_does_not_move_the_tock() -> None:
    fleet = _settled()
    before = fleet["a"].tock
    _heard(fleet, ping("b", ahead=1000, network=b"elsewhere"))
    assert fleet["a"].tock == before


def test_event_far_ahead_in_an_update_that_is_not_is_dropped_alone() -> None:
    """The jump is limited for each event, too (docs/protocol, TOCK-3)."""
    fleet = _settled()
    head = header(fleet, "b")
    tick = fleet["b"].tick
    good, bad = event("b", tick + 1, head.tock, "good"), event("b", tick + 2, head.tock + 2 * JUMP, "bad")
    ready = fleet.step("a", HeardMessage(Update(head, (bad, good))))
    assert [n.id for n in ready.notes] == ["tock_jump"]
    assert fleet["a"].tree.get(Path(["good"])) is not None
    assert fleet["a"].tree.get(Path(["bad"])) is None


def test_jump_just_within_the_limit_is_taken() -> None:
    fleet = _settled()
    tock = fleet["a"].tock
    _heard(fleet, ping("b", ahead=JUMP))
    assert fleet["a"].tock >= tock + JUMP


def test_no_winner_falls_by_hearsay() -> None:
    fleet = _settled()
    before = fleet["a"].tree.digest
    _heard(fleet, info("b", about="b"))
    assert fleet["a"].tree.digest == before


# -- but an exchange is started


@pytest.mark.parametrize(
    "sketch",
    [
        pytest.param(update("stranger"), id="update of one not registered"),
        pytest.param(info("stranger"), id="info of one not registered"),
        pytest.param(ping("b", ahead=JUMP + 2), id="ping far ahead"),
        pytest.param(info("b", about="stranger"), id="ticks of one not registered"),
        pytest.param(info("b", about="a", tick=99), id="a tick of ours that we never wrote"),
    ],
)
def test_what_gossip_may_not_change_is_asked_for_over_tcp(sketch: Sketch) -> None:
    """What comes by an exchange is believed (docs/protocol, REG-6, TOCK-3, INFO-2)."""
    fleet = _settled()
    began_ms = fleet.now_ms
    _heard(fleet, sketch)
    fleet.run(3000)
    assert _exchanges(fleet, began_ms)


@pytest.mark.parametrize(
    "sketch",
    [
        pytest.param(update("b", network=b"elsewhere"), id="another network"),
        pytest.param(info("b", about="a", tick=1), id="a tick of ours that we wrote"),
    ],
)
def test_what_is_known_or_foreign_starts_no_exchange(sketch: Sketch) -> None:
    fleet = _settled()
    fleet.faults = NetworkFaults(loss=1.0)
    began_ms = fleet.now_ms
    _heard(fleet, sketch)
    fleet.run(3000)
    assert _exchanges(fleet, began_ms) == []


def test_ticks_that_nobody_has_are_given_up() -> None:
    fleet = _settled()
    _heard(fleet, info("b", about="b", tick=(fleet["b"].life or 0) * (1 << 32) + 500))
    assert fleet.run_until(lambda: bool(fleet["a"].tree.ledger.lost()), 10 * CLOCK_MS)
    assert fleet["a"].is_serving


def test_flood_of_every_kind_leaves_the_fleet_well() -> None:
    fleet = _settled()
    for number in range(200):
        for sketch in (update, ping, info):
            _heard(fleet, sketch(f"stranger{number}"))
        _heard(fleet, HARMLESS[number % len(HARMLESS)].values[0])
        fleet.run(5)
    fleet.set("b", "after", 1)
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)
    assert fleet["a"].tree.get(Path(["after"])) is not None


# -- nodes that are not ready


def test_empty_node_makes_nothing_of_an_update() -> None:
    """A node without data ignores it (docs/protocol, UPD-2)."""
    fleet = _settled()
    fleet.start("new", up=False)
    heard = update("b", tick=3)(fleet)
    ready = fleet.step("new", HeardMessage(heard))
    assert (ready.records, len(fleet["new"].tree)) == ([], 0)


def test_empty_node_takes_any_tock_because_it_cannot_know_better() -> None:
    fleet = _settled()
    fleet.start("new", up=False)
    fleet.step("new", HeardMessage(ping("b", ahead=JUMP * 8)(fleet)))
    assert fleet["new"].tock > JUMP * 8


def test_known_by_gossip_is_not_believed() -> None:
    """Ranges move over TCP only (docs/protocol, INFO-3)."""
    fleet = _settled()
    before = fleet["a"].tree.ledger.held()
    ready = _heard(fleet, info("b"))
    assert ready.records == []
    assert fleet["a"].tree.ledger.held() == before


@pytest.mark.parametrize("sketch", [info("b", tick=1 << 30), update("b", tick=1 << 30)], ids=["info", "update"])
def test_tick_of_a_registered_node_far_ahead_is_asked_about_and_not_believed(sketch: Sketch) -> None:
    """More than a million ahead is not heard of by gossip (docs/protocol, INFO-2, LEDGER-3)."""
    fleet = _settled()
    before = _state(fleet)
    now_ms = fleet.now_ms
    _heard(fleet, sketch)
    assert _state(fleet) == before
    fleet.run(3 * CLOCK_MS)
    assert _exchanges(fleet, now_ms)


def test_same_ticks_with_another_digest_raise_an_alarm() -> None:
    fleet = _settled()
    lie = attrs.evolve(fleet["b"].maps(), digest=fleet["a"].tree.digest ^ 1)
    heard = []
    for _ in range(2):
        ready = fleet.step("a", PeerOffered(lie))
        heard.append("digest_differs" in [n.id for n in ready.notes])
        fleet.run(CLOCK_MS // 2)
    assert heard == [False, True]


def test_one_tick_with_two_contents_is_counted() -> None:
    """Only a fault can do this (docs/protocol, ORDER-4)."""
    fleet = _settled()
    here = fleet["a"].tree.get(Path(["y"]))
    assert here is not None
    head = here.head
    other = Event(head.path, head.kind, b"\x7f", head.chain, head.tock, head.time)
    ready = fleet.step("a", HeardMessage(Update(header(fleet, "b"), (other,))))
    assert [n.id for n in ready.notes] == ["two_contents"]
    assert fleet["a"].tree.head(Path(["y"])) is head


NAMED = {"network": b"otherone", "created": 1.0}


@pytest.mark.parametrize(
    "say",
    [
        lambda _: (Kind.DELETE, b"", None),
        lambda _: (Kind.EXPIRE, b"", None),
        lambda _: (Kind.SET, pack_value(NAMED), None),
        lambda here: (Kind.SET, pack_value({"network": here.id[:7], "created": here.created}), None),
        lambda here: (Kind.SET, pack_value({"network": here.id, "created": here.created + 1}), None),
        lambda here: (Kind.SET, here.packed(), 3.0),
        lambda _: (Kind.SET, b"\xc0", None),
        lambda _: (Kind.SET, b"\xc1\xc1", None),
    ],
    ids=["deleted", "expired", "other", "short", "later", "for a time", "nothing", "nonsense"],
)
def test_network_that_a_node_knows_is_up_to_no_event(say: Callable[[NetworkIdentity], tuple[Kind, bytes, Any]]) -> None:
    """In the name of a node that is registered and gone, as anybody can (docs/protocol, NET-3)."""
    fleet = grown("a", "b", "c")
    fleet.crash("c")
    fleet.run(20_000)
    here, identity, digest = fleet["a"].tree.get(NETWORK_PATH), fleet["a"].registry.network, fleet["a"].tree.digest
    assert here is not None
    assert identity is not None
    link = (NodeName("c"), Tick(fleet["a"].tree.ledger.last(NodeName("c")) + 1))
    head = header(fleet, "c")
    kind, value, ttl = say(identity)
    forged = new_event(NETWORK_PATH, kind, value, (link, here.head.link), head.tock, 0.0, False, ttl, NO_FENCE)
    ready = fleet.step("a", HeardMessage(Update(head, (forged,))))
    assert [note.id for note in ready.notes] == ["entry_guarded"]
    assert fleet["a"].tree.ledger.has(link), "nobody looks for it for ever"
    fleet.run(30_000)
    for name in "ab":
        fleet.crash(name)
        fleet.start(name)
    assert fleet.run_until(lambda: all(fleet[name].is_serving for name in "ab"), 60_000)
    fleet.run(10_000)
    for name in "ab":
        assert (fleet[name].registry.network, fleet[name].tree.digest) == (identity, digest)
    fleet.set("a", "x", 1)
    fleet.run(5_000)
    assert fleet["b"].tree.head(Path(["x"])) is not None
