"""Frames to all and announced fields, as the ground gives them to services (docs/protocol, TREE-19 to TREE-21).

Knows: a replica with a service and a place in the server tree, and one child that says anything.  Does not know how a
tree grows, nor other nodes' replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

from distkv.core.client_writes import CoreInput
from distkv.core.edges import EdgeAsked, EdgeEnded, EdgeTold, NodeMeasured, Say, TreeInput, TreeTurn
from distkv.core.ground.frames import Announced, Heard, Lacked, Origin
from distkv.core.ready import Ask, MembersSeen, NodeTold, PeerDone, Ready, TransportGap, Wake
from distkv.core.server_tree.machine import LOOK_MS, ServerTree
from distkv.core.server_tree.settings import TreeSettings
from distkv.errors import PeerError
from distkv.wire.announcing import (
    ANNOUNCE,
    FENCES,
    FIELDS_BYTES_MAX,
    GROUND,
    Announcement,
    decode_announcement,
    encode_announcement,
)
from distkv.wire.edges import (
    FRAME_BYTES_MAX,
    EdgeItem,
    FrameNumbers,
    Join,
    ServiceAcked,
    ServiceFrames,
    TreeFrame,
    TreeFrames,
)
from tests.proof.core.echo.machine import ECHO, Echo
from tests.unit.core.test_services import A, B, asked, made, serving, step

ANNOUNCE_MS = 5000
EDGE = 1


class Child:
    """B, which is a child of A."""

    def __init__(self, echo: Echo | None = None, tree: type[ServerTree] = ServerTree) -> None:
        self.echo = echo or Echo()
        _, _, records = serving()
        make = partial(tree, TreeSettings(A, "a:1", 2, ANNOUNCE_MS), Random(1))
        self.replica, _ = made(self.echo, records, tree=make)
        self.now_ms = 1000
        self.step(Wake(), 2 * ANNOUNCE_MS)  # nobody is there: it is the root
        life = self.replica.registry.nodes[B].life
        self.step(EdgeAsked(EDGE, B, life))
        self.said = self.step(EdgeTold(EDGE, Join(0, {}, 60_000, {})))

    def step(self, what: CoreInput | Wake, after_ms: int = 1) -> list[EdgeItem]:
        """What is said to the child then."""
        self.now_ms += after_ms
        ready: Ready = step(self.replica, what, self.now_ms)  # type: ignore[arg-type]
        self.replica.check()
        return [effect.item for effect in ready.edges if isinstance(effect, Say)]

    def says(self, *numbers: int, start: int = 7, gone: FrameNumbers | None = None) -> None:
        frames = tuple([TreeFrame(B, start, number, ECHO, b"%d" % number) for number in numbers])
        self.step(EdgeTold(EDGE, ServiceFrames(ECHO, frames, gone or {})))

    def announces(self, number: int, services: Mapping[str, Mapping[str, object]]) -> None:
        body = encode_announcement(Announcement("b:1", 0, 1, 0, 0, A, services))
        self.step(EdgeTold(EDGE, TreeFrames((TreeFrame(B, 7, number, ANNOUNCE, body),))))

    @property
    def announced(self) -> list[Announced]:
        return [what for _, what in self.echo.inputs if isinstance(what, Announced)]


def _heard(*numbers: int) -> list[Heard]:
    return [Heard(Origin(B, 7), number, b"%d" % number) for number in numbers]


def _frames(items: list[EdgeItem]) -> list[TreeFrame]:
    return [frame for item in items if isinstance(item, ServiceFrames) for frame in item.frames]


def _fields(items: list[EdgeItem]) -> list[Mapping[str, object]]:
    """What is announced of services, but by the ground for all of them."""
    frames = [frame for item in items if isinstance(item, TreeFrames) for frame in item.frames]
    found = [dict(decode_announcement(frame.body).services) for frame in frames]
    assert all(one.pop(GROUND) == FENCES for one in found)
    return found


# -- frames to all


def test_what_a_service_says_to_all_leaves_with_the_step_and_has_numbers_from_one() -> None:
    child = Child()
    frames = [*_frames(child.step(asked(1, shout=b"x"))), *_frames(child.step(asked(2, shout=b"y")))]
    assert [(frame.origin, frame.service, frame.number, frame.body) for frame in frames] == [
        (A, ECHO, 1, b"x"), (A, ECHO, 2, b"y"),
    ]  # fmt: skip


def test_service_hears_each_number_once_and_what_it_lacks_once() -> None:
    """docs/protocol, TREE-19."""
    child = Child()
    child.says(1, 2)
    child.says(2, 5)
    child.says(gone={B: (7, 8)})
    child.says(7, gone={B: (7, 8)})
    child.says(9)
    lacked = [Lacked(Origin(B, 7), 3, 4), Lacked(Origin(B, 7), 6, 8)]
    assert child.echo.heard == [*_heard(1, 2), lacked[0], *_heard(5), lacked[1], *_heard(9)]


def test_numbers_of_a_later_start_begin_at_one_again() -> None:
    child = Child()
    child.says(1)
    child.says(2, start=8)
    assert child.echo.heard[1:] == [Lacked(Origin(B, 8), 1, 1), Heard(Origin(B, 8), 2, b"2")]


def test_frames_of_a_service_that_is_not_here_are_passed_on_and_acknowledged() -> None:
    child = Child()
    frame = TreeFrame(B, 7, 1, "other", b"")
    child.step(EdgeTold(EDGE, ServiceFrames("other", (frame,))))
    assert child.echo.heard == []
    said = child.step(Wake(), LOOK_MS)
    assert ServiceAcked("other", 1) in said
    assert child.replica.server_tree is not None
    assert child.replica.server_tree.broadcast.have("other") == {B: (7, 1)}


def test_service_that_begins_anew_is_told_that_it_lacks_what_was_said_before() -> None:
    child = Child()
    child.says(1, 2)
    child.replica._services._slots.reset()  # noqa: SLF001  # as a download does
    child.step(Wake())
    assert child.echo.heard == [Lacked(Origin(B, 7), 1, 2)]
    child.says(3)
    assert child.echo.heard[1:] == _heard(3)


def test_node_that_just_started_is_told_that_what_was_said_before_is_gone() -> None:
    """docs/protocol, TREE-19."""
    child = Child()
    child.step(EdgeEnded(EDGE))
    child.step(asked(1, shout=b"early"))
    child.step(EdgeAsked(2, B, child.replica.registry.nodes[B].life))
    said = [item for item in child.step(EdgeTold(2, Join(0, {}, 0, {})), 5) if isinstance(item, ServiceFrames)]
    assert [(item.frames, [*item.gone], [number for _, number in item.gone.values()]) for item in said] == [
        ((), [A], [1]),
    ]  # fmt: skip


def test_neighbour_of_an_earlier_release_is_told_no_frames_of_services() -> None:
    """docs/protocol, TREE-21."""
    child = Child()
    child.step(EdgeEnded(EDGE))
    child.step(EdgeAsked(2, B, child.replica.registry.nodes[B].life))
    child.step(EdgeTold(2, Join(0, {}, 60_000)))
    assert child.step(asked(1, shout=b"x")) == []
    assert _fields(child.step(Wake(), ANNOUNCE_MS)) == [{}], "it is told what is announced"


def test_frame_that_is_too_large_turns_the_service_off() -> None:
    child = Child()
    assert _frames(child.step(asked(1, shout=bytes(FRAME_BYTES_MAX))))
    assert child.step(asked(2, shout=bytes(FRAME_BYTES_MAX + 1))) == []
    assert child.replica.failed_services == {ECHO}


# -- announced fields


def test_fields_are_announced_soon_and_with_each_announcement() -> None:
    """docs/protocol, TREE-20."""
    child = Child()
    child.step(Wake(), 600)
    child.step(asked(1, announce={"load": 7}))
    assert _fields(child.step(Wake())) == [{ECHO: {"load": 7}}]
    child.step(asked(2, announce={"load": 8}))
    assert _fields(child.step(Wake(), 100)) == [], "not too often"
    assert _fields(child.step(Wake(), 400)) == [{ECHO: {"load": 8}}]
    assert _fields(child.step(Wake(), ANNOUNCE_MS)) == [{ECHO: {"load": 8}}]
    child.step(asked(3, announce=None))
    assert _fields(child.step(Wake(), 500)) == [{}]


def test_fields_of_another_node_are_told_when_they_change_and_looked_up_in_place() -> None:
    child = Child()
    child.announces(1, {})
    assert child.announced == [], "who announces nothing of a service costs it nothing"
    child.announces(2, {ECHO: {"load": 1}, "other": {"x": 1}})
    assert child.echo.ground is not None
    fields = child.echo.ground.announced
    assert (child.announced, fields.of(B), fields.nodes()) == ([Announced(B)], {"load": 1}, [B])
    child.announces(3, {ECHO: {"load": 1}, "other": {"x": 2}})
    assert child.announced == [Announced(B)], "nothing of this service changed"
    child.announces(4, {ECHO: {"load": 2}})
    child.announces(5, {})
    assert (len(child.announced), fields.of(B), fields.nodes()) == (3, None, [])


def test_node_that_is_silent_announces_nothing_any_more() -> None:
    child = Child()
    child.announces(1, {ECHO: {"load": 1}})
    child.step(Wake(), 4 * ANNOUNCE_MS)
    child.step(Wake())
    assert child.echo.ground is not None
    assert (child.announced, child.echo.ground.announced.of(B)) == ([Announced(B)] * 2, None)


def test_announcement_with_fields_that_are_none_is_kept_and_passed_on_by_nobody() -> None:
    child = Child()
    body = encode_announcement(Announcement("b:1", 0, 1, 0, 0, A, {ECHO: 7}))  # type: ignore[dict-item]
    child.step(EdgeTold(EDGE, TreeFrames((TreeFrame(B, 7, 1, ANNOUNCE, body),))))
    assert (child.announced, child.replica.server_tree and child.replica.server_tree.announced.get(B)) == ([], None)


def test_fields_that_are_too_large_turn_the_service_off_and_are_announced_no_more() -> None:
    child = Child()
    child.step(asked(1, announce={"load": 1}))
    child.step(asked(2, announce={"x": bytes(FIELDS_BYTES_MAX)}))
    assert child.replica.failed_services == {ECHO}
    assert _fields(child.step(Wake(), 600)) == [{}]


class _Failing(ServerTree):
    def step(self, turn: TreeTurn, what: TreeInput | None) -> None:
        super().step(turn, what)
        if isinstance(what, NodeMeasured):
            raise ArithmeticError("half done")


def test_tree_that_fails_leaves_nobody_announced() -> None:
    child = Child(tree=_Failing)
    child.announces(1, {ECHO: {"load": 1}})
    child.step(NodeMeasured(1, {}))
    assert child.echo.ground is not None
    assert (child.announced, child.echo.ground.announced.nodes()) == ([Announced(B)] * 2, [])
    assert child.step(asked(1, shout=b"x")) == [], "nobody hears it, and nothing fails"
    child.step(NodeTold(B, 7, ECHO, b"ask 1"))
    assert child.replica.failed_services == {"tree"}


# -- who seems alive


def test_member_that_did_not_answer_seems_alive_when_it_announces_itself_again() -> None:
    """ALIVE-1."""
    child = Child()
    child.announces(1, {})
    child.step(MembersSeen({"a": "a:1", "b": "b:1"}))
    child.step(TransportGap())  # so it asks for what others have
    child.now_ms += ANNOUNCE_MS
    (ask,) = [one for one in step(child.replica, Wake(), child.now_ms).messages if isinstance(one, Ask)]
    child.step(PeerDone(ask.id, PeerError("nobody answers")))
    child.step(Wake(), 2000)
    assert child.echo.ground.nodes.alive == frozenset()
    child.announces(2, {})
    child.step(Wake(), 2000)
    assert child.echo.ground.nodes.alive == {B}
    child.step(MembersSeen({"a": "a:1"}))
    child.step(Wake(), 2000)
    assert child.echo.ground.nodes.alive == frozenset()
