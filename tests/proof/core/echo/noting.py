"""Notes of the echo: each is kept by one node, which a name in the store says, and asked for at any.

Knows: who keeps what, and the notes of this node.  Does not know how a request finds its node, nor how many parts of a
list become one (`node_routes`).
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.core.ground.machine import EntryChanged, ServiceGround, ServiceInput
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp
from distkv.core.ground.node_routes import (
    NodeRoutes,
    RouteAnswered,
    RouteChanged,
    RouteListed,
    RouteResult,
    answer,
    answer_elsewhere,
    page_of,
)
from distkv.core.ground.part_changes import PartChanges
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import ServiceAsked, ServiceContinued
from distkv.errors import DecodeError, DistkvError, NotFoundError
from distkv.model.event import NodeName
from distkv.wire.declared import BodyReader, Declared, pack
from distkv.wire.routed import QUESTIONS, AnswerAsked, NewsAsked, NodeItem, NodeNews, PageAsked
from distkv.wire.values import unpack_value
from tests.proof.wire.echo import EchoAway, EchoList, EchoListed, EchoNews, EchoNote, EchoNoted, EchoNotes

PATIENCE_MS: Final = 10_000
REQUESTS_MAX: Final = 20
_SLOT: Final = "note "
_STARTS: Final = "starts"


class NoteBody(Declared, array_like=True):
    """What a node keeps of a name, and is asked to keep."""

    name: str
    text: str
    node: str = ""
    count: int = 0


_BODIES: Final = BodyReader[NoteBody](NoteBody, "note")


class EchoNoting:
    """Those of one node, since its machine began."""

    def __init__(self, ground: ServiceGround) -> None:
        self._ground: Final = ground
        self.routes: Final = NodeRoutes(self, waiting_max=REQUESTS_MAX, patience_ms=PATIENCE_MS)
        self._notes: Final = {
            key.removeprefix(_SLOT): value for key, value in ground.slots.items() if key.startswith(_SLOT)
        }
        self._start: Final = int(ground.slots.get(_STARTS, b"0")) + 1
        self._is_start_kept = False
        first = (ground.life << 8 | self._start) << 20  # of each start others
        self._changes: Final = PartChanges(NodeNews, first, self, self._notes.__contains__, self._item)
        for name in self._notes:
            self._changes.touched(name)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Take an input; whether it is about notes and nothing else."""
        is_ours = self._step(turn, what)
        for found in self.routes.step(turn, what):
            self._answer(turn, found)
        for call, news in self._changes.take(is_whole=True):
            turn.answer_node(call, pack(news))
        return is_ours

    @property
    def kept(self) -> dict[str, str]:
        """The texts of the notes that this node keeps."""
        return {name: _BODIES.read(body).text for name, body in self._notes.items() if self._is_mine(name)}

    # -- RouteOwner

    def node_for(self, request: object) -> NodeName | DistkvError:
        assert isinstance(request, EchoNote)
        return self._keeper_of(request.name) or NotFoundError(f"nobody keeps {request.name}")

    def nodes_of(self, request: object) -> frozenset[NodeName]:  # noqa: ARG002
        return self._ground.nodes.registered

    # -- inside

    def _step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        match what:
            case ServiceAsked(id=id, request=EchoNote() as note):
                body = pack(NoteBody(note.name, note.text))
                self.routes.ask(turn, id, note, body, is_once=note.is_once, has_effects=note.has_effects)
            case ServiceAsked(id=id, request=EchoList(limit=limit, after=after) as request):
                self.routes.ask_list(turn, id, request, "", after, limit)
            case ServiceAsked(id=id, request=EchoNotes() as request):
                self.routes.ask_watch(turn, id, request, "")
            case NodeAsked():
                return self._asked(turn, what)
            case NodeGaveUp(call=call):
                self._changes.call_gone(call)
                return False
            case ServiceContinued(id=id):
                return self.routes.has(id)
            case EntryChanged(key=key):
                self._changes.touched(key)
                return False
            case _:
                return False
        return True

    def _asked(self, turn: ServiceTurn, what: NodeAsked) -> bool:
        try:
            asked = QUESTIONS.read(what.body)
        except DecodeError:
            return False
        match asked:
            case AnswerAsked(body=body):
                note = _BODIES.read(body)
                keeper = self._keeper_of(note.name)
                if keeper == self._ground.me:
                    answer(turn, what.call, self._note(turn, note))
                else:
                    answer_elsewhere(turn, what.call, keeper)
            case PageAsked():
                mine = {name: body for name, body in self._notes.items() if self._is_mine(name)}
                turn.answer_node(what.call, pack(page_of(mine, asked)))
            case NewsAsked(prefix=prefix, position=position):
                if not self._is_start_kept:
                    self._is_start_kept = True
                    turn.keep(_STARTS, b"%d" % self._start)
                self._changes.wait(what.call, prefix, position)
            case _:
                assert_never(asked)
        return True

    def _note(self, turn: ServiceTurn, note: NoteBody) -> bytes:
        old = self._notes.get(note.name)
        count = 1 if old is None else _BODIES.read(old).count + 1
        body = self._notes[note.name] = pack(NoteBody(note.name, note.text, self._ground.me, count))
        turn.keep(_SLOT + note.name, body)
        self._changes.touched(note.name)
        return body

    def _answer(self, turn: ServiceTurn, found: RouteResult) -> None:
        match found:
            case RouteAnswered(id=id, body=body):
                turn.answer(id, read_note(body))
            case RouteListed(id=id, items=items, more=more, away=away):
                turn.answer(id, EchoListed(tuple(map(_noted, items)), more, away))
            case RouteChanged(id=id, items=items, is_complete=is_complete, away=away):
                news = EchoNews((*map(_noted, items), EchoAway(away)), is_complete)
                turn.answer(id, news, is_last=False)
            case _:
                assert_never(found)

    def _keeper_of(self, name: str) -> NodeName | None:
        found = next((one for one in self._ground.entries.versions(name) if one is not None), None)
        keeper = None if found is None else unpack_value(found)
        return NodeName(keeper) if isinstance(keeper, str) else None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._is_mine(name)

    def _is_mine(self, name: str) -> bool:
        return name in self._notes and self._keeper_of(name) == self._ground.me

    def _item(self, name: str) -> NodeItem:
        return NodeItem(name, self._notes[name] if self._is_mine(name) else None)

    def check(self) -> None:
        self.routes.check()


def read_note(value: bytes) -> EchoNoted:
    """What a slot says of a note."""
    body = _BODIES.read(value)
    return EchoNoted(body.name, body.text, body.node, body.count)


def _noted(item: NodeItem) -> EchoNoted:
    return EchoNoted(item.name, None) if item.body is None else read_note(item.body)
