"""One machine of the activity network, with other nodes that say what a test wants.

Knows: how its requests, words and questions look.  Does not know what it makes of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import attrs

from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.requests import (
    ActivityGap,
    ActivityGiven,
    ActivityItem,
    Attend,
    EndActivity,
    LoggedIn,
    Login,
    MoveOn,
    SendActivity,
    Taken,
)
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ground.calls import CallKey
from distkv.core.ground.frames import Announced, Heard, Origin
from distkv.core.ground.machine import NodesChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, Effect, FieldsAnnounced, ServiceTurn, ToldAll
from distkv.core.ready import Answer, NodeTold, ServiceAsked, ServiceTell, ServiceWithdrawn
from distkv.errors import DecodeError, UnreachableError
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityWho
from distkv.wire.activity_bodies import (
    ACTIVITY_QUESTIONS,
    WORDS,
    ActivityConfirmed,
    ActivityQuestion,
    ActivitySaid,
    ActivityWord,
    ClientOffered,
    ClientWelcome,
    HoleAnswer,
    HoleAsked,
    KeptActivity,
    OriginsKnown,
    SaidActivity,
    SenderMark,
    WindowAsked,
    WindowPage,
)
from distkv.wire.declared import pack
from distkv.wire.routed import QUESTIONS, PageAsked, RoutedQuestion
from tests.service_steps import LIFE, WALL, KnownFields, KnownNodes, ground_of

A, B, C, D = (NodeName(name) for name in "abcd")
START = "0" * 12
LATER_START = "1" * 12
ATTEND = 1


def origin_of(node: NodeName, start: str = START) -> str:
    return f"{node}.{start}"


def sender(name: str, epoch: int) -> SenderMark:
    return SenderMark(name.encode().ljust(16, b"."), epoch)


class OneNode:
    """The node a, which is not alone."""

    def __init__(
        self, *others: NodeName, near: tuple[NodeName, ...] | None = None, listening: bool = True, **settings: int
    ) -> None:
        """`listening`: whether the others announce listeners."""
        self.now_ms = 10_000
        self.nodes = KnownNodes(frozenset((A, *others)), frozenset(others))
        self.nodes.neighbours = others[:1] if near is None else near
        self.fields = KnownFields({})
        for other in others if listening else ():
            self.fields.found[other] = {"addr": f"{other}:7000", "load": 100}
        self.given: list[str] = []
        """The texts of what every client was given, and gaps."""
        self.answers: dict[int, list[object]] = {}
        self.frames: list[ActivitySaid] = []
        self.tells: list[tuple[NodeName, Any]] = []
        self.asked: list[tuple[NodeName, Any, object]] = []
        self.replies: list[bytes] = []
        self.announced: list[Mapping[str, object] | None] = []
        self.last_id = ATTEND
        self.machine = ActivityMachine(ActivitySettings(**settings), random.Random(1))
        ground = attrs.evolve(ground_of(A, LIFE, WALL, {}), nodes=self.nodes, announced=self.fields)
        turn = self._turn()
        self.machine.begin(turn, ground)
        self._do(turn.effects)
        self.ask(Attend(ATTEND, "a", 7000), ATTEND)

    @property
    def origin(self) -> str:
        assert self.machine.node is not None
        return self.machine.node.delivery.origin

    @property
    def start(self) -> str:
        return self.origin.rpartition(".")[2]

    def ready(self) -> OneNode:
        """It has caught up: another node keeps nothing."""
        for _, what, purpose in list(self.asked):
            if isinstance(what, WindowAsked):
                self.step(Replied(purpose, pack(WindowPage((), START, 0, {}))))
        self.asked.clear()
        return self

    # -- what happens

    def step(self, what: ServiceInput) -> None:
        turn = self._turn()
        self.machine.step(turn, what)
        self.machine.check()
        self._do(turn.effects)

    def pass_ms(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (wake_ms := self.machine.wake_ms()) is not None and wake_ms <= end_ms:
            self.now_ms = max(wake_ms, self.now_ms)
            self.step(ServiceWoken())
        self.now_ms = end_ms

    def ask(self, request: Attend | Login | SendActivity | EndActivity | ActivityWho, id: int | None = None) -> int:
        if id is None:
            self.last_id += 1
            id = self.last_id
        self.step(ServiceAsked(ACTIVITY, id, request))
        return id

    def login(
        self, resume: Mapping[str, int] | None = None, client: str | None = None, user: str = "ann", source: int = 0
    ) -> int:
        return self.ask(Login(1, user, resume, client, source))

    def leave(self, id: int) -> None:
        self.step(ServiceWithdrawn(ACTIVITY, id))

    def send(self, client: int, text: str) -> int:
        return self.ask(SendActivity(1, client, (text.encode(),)))

    def says(
        self,
        node: NodeName,
        number: int,
        text: str,
        who: SenderMark | None = None,
        after: Mapping[str, int] | None = None,
        *,
        confirm: tuple[NodeName, ...] = (),
        start: str = START,
    ) -> None:
        """Another node says an activity to all."""
        self.hears_word(node, ActivitySaid(start, number, (SaidActivity(text.encode(), who, after),), confirm))

    def hears_word(self, node: NodeName, word: ActivitySaid) -> None:
        self.step(Heard(Origin(node, 1), word.number, pack(word)))

    def tells_word(self, node: NodeName, word: ActivityWord) -> None:
        self.step(NodeTold(node, LIFE, ACTIVITY, pack(word)))

    def confirms(self, node: NodeName, *numbers: int) -> None:
        self.tells_word(node, ActivityConfirmed(self.start, numbers))

    def knows(self, node: NodeName, **numbers: int) -> None:
        """A node says up to which number it has origins."""
        self.tells_word(node, OriginsKnown({origin_of(NodeName(name)): number for name, number in numbers.items()}))

    def asks(self, node: NodeName, question: ActivityQuestion | PageAsked) -> bytes:
        self.step(NodeAsked(CallKey(node, 1, len(self.replies) + 1), pack(question)))
        return self.replies[-1]

    def holes(self) -> list[tuple[NodeName, HoleAsked]]:
        """What it asked for since the last time."""
        found = [(node, what) for node, what, _ in self.asked if isinstance(what, HoleAsked)]
        self.open = [one for one in self.asked if isinstance(one[1], HoleAsked)]
        self.asked = [one for one in self.asked if not isinstance(one[1], HoleAsked)]
        return found

    def fills(self, *items: KeptActivity, until: int) -> None:
        """Who was asked last for something that is missing has this."""
        self.step(Replied(self.open[-1][2], pack(HoleAnswer(items, until))))

    def welcomes(self, *, is_expected: bool = True) -> list[NodeName]:
        """Whoever was asked since the last time whether a client may come says so; who that was."""
        offers = [(node, purpose) for node, what, purpose in self.asked if isinstance(what, ClientOffered)]
        self.asked = [one for one in self.asked if not isinstance(one[1], ClientOffered)]
        for _, purpose in offers:
            self.step(Replied(purpose, pack(ClientWelcome(is_expected))))
        return [node for node, _ in offers]

    def is_silent(self) -> None:
        """Who was asked last does not answer."""
        self.step(Replied(self.open[-1][2], UnreachableError("nobody answers")))

    def announces(self, node: NodeName, load: int | None) -> None:
        if load is None:
            self.fields.found.pop(node, None)
        else:
            self.fields.found[node] = {"addr": f"{node}:7000", "load": load}
        self.step(Announced(node))

    def sees(self, alive: tuple[NodeName, ...], near: tuple[NodeName, ...] = ()) -> None:
        self.nodes.alive, self.nodes.neighbours = frozenset(alive), near
        self.step(NodesChanged())

    # -- what came of it

    def logged_in(self, id: int) -> LoggedIn:
        found = [one for one in self.answers.get(id, []) if isinstance(one, LoggedIn)]
        assert found, f"{id} is not logged in"
        return found[0]

    def is_logged_in(self, id: int) -> bool:
        return any(isinstance(one, LoggedIn) for one in self.answers.get(id, []))

    def missed(self, id: int) -> list[str]:
        return [_text(item) for item in self.logged_in(id).missed]

    def moves(self, id: int) -> list[str]:
        """Where a client is to go."""
        return [one.host for one in self.answers.get(id, []) if isinstance(one, MoveOn)]

    def is_taken(self, id: int) -> bool:
        return any(isinstance(one, Taken) for one in self.answers.get(id, []))

    @property
    def said(self) -> list[SaidActivity]:
        """What it said to all."""
        return [item for frame in self.frames for item in frame.items]

    def statistic(self, name: str) -> object:
        return self.machine.statistics()[name]

    def told_by(self, node: NodeName) -> list[Any]:
        """What it told a node since the last time."""
        found = [word for name, word in self.tells if name == node]
        self.tells = [one for one in self.tells if one[0] != node]
        return found

    # -- inside

    def _turn(self) -> ServiceTurn:
        return ServiceTurn(ACTIVITY, self.now_ms, WALL + self.now_ms / 1000)

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(id=id, result=ActivityGiven(item=item)) if id == ATTEND:
                    self.given.append(_text(item))
                case Answer(id=id, result=result):
                    self.answers.setdefault(id, []).append(result)
                case ToldAll(body=body):
                    word = WORDS.read(body)
                    assert isinstance(word, ActivitySaid)
                    self.frames.append(word)
                case ServiceTell(name=name, body=body):
                    self.tells.append((name, WORDS.read(body)))
                case AskedOfNode(node=node, body=body, purpose=purpose):
                    self.asked.append((node, _question(body), purpose))
                case AnsweredNode(body=body):
                    self.replies.append(body)
                case FieldsAnnounced(fields=fields):
                    self.announced.append(fields)
                case _:
                    pass


def _question(body: bytes) -> ActivityQuestion | RoutedQuestion:
    try:
        return ACTIVITY_QUESTIONS.read(body)
    except DecodeError:
        return QUESTIONS.read(body)


def _text(item: ActivityItem | ActivityGap) -> str:
    if isinstance(item, ActivityGap):
        return f"gap {item.first}-{item.last}"
    return item.activity.decode()


def kept(
    node: NodeName, number: int, text: str, who: SenderMark | None = None, after: Mapping[str, int] | None = None
) -> KeptActivity:
    """An activity, as a node has it that is asked for it."""
    return KeptActivity(origin_of(node), number, text.encode(), who, after)
