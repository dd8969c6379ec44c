"""Whom a request is asked of, and what its client is told: by what one machine wants done.

Knows: the effects of turns.  Does not know a node, nor how a question travels.
"""

from __future__ import annotations

import pytest

from distkv.core.ground.machine import NodesChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodesSilent, Replied
from distkv.core.ground.node_routes import AWAY_MS, NodeRoutes, RouteAnswered, RouteChanged, RouteListed, RouteResult
from distkv.core.ground.routes import AGAIN_MS
from distkv.core.ground.turn import AskedOfNode, AskWithdrawn, ServiceTurn
from distkv.core.ready import Answer, ServiceContinued, ServiceWithdrawn
from distkv.errors import (
    BusyError,
    DistkvError,
    NoSpaceError,
    NotFoundError,
    NotReadyError,
    PeerError,
    UnknownOutcomeError,
)
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.routed import (
    QUESTIONS,
    AnswerAsked,
    AnsweredElsewhere,
    NewsAsked,
    NodeItem,
    NodeNews,
    NodePage,
    PageAsked,
    RoutedAnswer,
    RoutedRefusal,
    RoutedReply,
)

A, B, C = (NodeName(name) for name in "abc")
PATIENCE_MS = 5000
ROOM = 2
X = NodeItem("x", b"1")


class Machine:
    """One that routes requests, and whom it names."""

    def __init__(self) -> None:
        self.routes = NodeRoutes(self, waiting_max=ROOM, patience_ms=PATIENCE_MS)
        self.node: NodeName | DistkvError = A
        self.nodes = [A, B]
        self.turn = ServiceTurn("s", 1000, 0.0)
        self.now_ms = 1000

    def node_for(self, _: object) -> NodeName | DistkvError:
        return self.node

    def nodes_of(self, _: object) -> list[NodeName]:
        return self.nodes

    def begin(self) -> ServiceTurn:
        self.turn = ServiceTurn("s", self.now_ms, 0.0)
        return self.turn

    def step(self, what: ServiceInput, later_ms: int = 0) -> list[RouteResult]:
        self.now_ms += later_ms
        found = list(self.routes.step(self.begin(), what))
        self.routes.check()
        return found

    def says(self, asked: AskedOfNode, reply: RoutedReply | DistkvError) -> list[RouteResult]:
        """What a node was asked it answers."""
        body = reply if isinstance(reply, DistkvError) else pack(reply)
        return self.step(Replied(asked.purpose, body))

    @property
    def asked(self) -> list[AskedOfNode]:
        """Whom the last turn asks."""
        return [one for one in self.turn.effects if isinstance(one, AskedOfNode)]

    @property
    def withdrawn(self) -> list[object]:
        return [one.purpose for one in self.turn.effects if isinstance(one, AskWithdrawn)]

    @property
    def refused(self) -> list[type[object]]:
        return [type(one.result) for one in self.turn.effects if isinstance(one, Answer)]


def asking(*, is_once: bool = False) -> tuple[Machine, AskedOfNode]:
    machine = Machine()
    machine.routes.ask(machine.begin(), 1, "request", b"body", is_once=is_once)
    (asked,) = machine.asked
    assert (asked.node, QUESTIONS.read(asked.body), asked.is_once) == (A, AnswerAsked(b"body"), is_once)
    return machine, asked


def test_answer_of_the_node_that_is_named_is_the_answer() -> None:
    machine, asked = asking()
    assert machine.says(asked, RoutedAnswer(b"done")) == [RouteAnswered(1, "request", b"done")]
    assert machine.says(asked, RoutedAnswer(b"again")) == []


def test_other_node_is_asked_when_it_is_named() -> None:
    """ROUTE-1."""
    machine, asked = asking()
    machine.node = B
    machine.step(NodesChanged())
    assert ([one.node for one in machine.asked], machine.withdrawn) == ([B], [asked.purpose])
    assert machine.says(asked, RoutedAnswer(b"late")) == []


def test_request_that_must_not_be_repeated_stays_where_it_was_asked() -> None:
    """ROUTE-3."""
    machine, asked = asking(is_once=True)
    machine.node = B
    machine.step(NodesChanged())
    assert (machine.asked, machine.withdrawn) == ([], [])
    machine.says(asked, AnsweredElsewhere(None))
    assert [one.node for one in machine.asked] == [B], "that one has done nothing"


@pytest.mark.parametrize("is_once", [False, True])
def test_node_that_does_not_answer_it_says_who_does(is_once: bool) -> None:
    """ROUTE-2."""
    machine, asked = asking(is_once=is_once)
    machine.says(asked, AnsweredElsewhere(C))
    (asked,) = machine.asked
    assert asked.node == C


def test_two_nodes_that_name_each_other_are_not_asked_without_a_pause() -> None:
    machine, asked = asking()
    machine.says(asked, AnsweredElsewhere(C))
    (asked,) = machine.asked
    machine.says(asked, AnsweredElsewhere(A))
    assert machine.asked == []
    machine.step(ServiceWoken(), AGAIN_MS)
    assert [one.node for one in machine.asked] == [A]


def test_node_that_names_nobody_and_is_named_still_is_asked_again_in_a_moment() -> None:
    machine, asked = asking()
    machine.says(asked, AnsweredElsewhere(None))
    assert machine.asked == []
    machine.step(ServiceWoken(), AGAIN_MS)
    assert [one.node for one in machine.asked] == [asked.node]


def test_word_of_the_node_counts_until_the_service_names_another() -> None:
    machine, asked = asking()
    machine.says(asked, AnsweredElsewhere(C))
    machine.node = B
    machine.step(NodesChanged())
    assert [one.node for one in machine.asked] == [B]


def test_node_that_another_one_named_and_that_is_silent_is_not_asked_by_its_word_again() -> None:
    """ROUTE-2."""
    machine, asked = asking()
    machine.says(asked, AnsweredElsewhere(C))
    machine.step(NodesSilent(frozenset({C})))
    (asked,) = machine.asked
    assert asked.node == A, "which may have to take its place"
    machine.step(NodesSilent(frozenset()))
    machine.says(asked, AnsweredElsewhere(C))
    machine.step(ServiceWoken(), AGAIN_MS)
    assert [one.node for one in machine.asked] == [A]
    machine.node = C
    machine.step(NodesChanged())
    assert [one.node for one in machine.asked] == [C]


def test_refusal_is_the_answer() -> None:
    machine, asked = asking()
    machine.says(asked, RoutedRefusal("not_found", "there is none"))
    assert machine.refused == [NotFoundError]


def test_nobody_is_asked_as_long_as_nobody_can_be_and_then_why_is_told() -> None:
    machine = Machine()
    machine.node = NotFoundError("nobody has it")
    machine.routes.ask(machine.begin(), 1, "request", b"body")
    assert machine.asked == []
    machine.step(ServiceWoken(), PATIENCE_MS - 1)
    assert machine.refused == []
    machine.step(ServiceWoken(), 1)
    assert machine.refused == [NotFoundError]


@pytest.mark.parametrize(("says_so", "error"), [(False, UnknownOutcomeError), (True, NotReadyError)])
def test_request_with_effects_may_be_done_unless_who_was_asked_did_nothing(
    says_so: bool, error: type[DistkvError]
) -> None:
    machine = Machine()
    machine.routes.ask(machine.begin(), 1, "request", b"body", has_effects=True)
    (asked,) = machine.asked
    if says_so:
        machine.node = NotReadyError("nobody owns it")
        machine.says(asked, AnsweredElsewhere(None))
    machine.step(ServiceWoken(), PATIENCE_MS)
    assert machine.refused == [error]


@pytest.mark.parametrize(("first_says", "error"), [
    (None, UnknownOutcomeError),
    (AnsweredElsewhere(B, may_be_done=True), UnknownOutcomeError),
    (AnsweredElsewhere(B), NoSpaceError),
])  # fmt: skip
def test_refusal_is_certain_if_all_who_were_asked_before_did_nothing(
    first_says: AnsweredElsewhere | None, error: type[DistkvError]
) -> None:
    """ROUTE-3."""
    machine = Machine()
    machine.routes.ask(machine.begin(), 1, "request", b"body", has_effects=True)
    (asked,) = machine.asked
    machine.node = B
    if first_says is None:
        machine.step(NodesChanged())
    else:
        machine.says(asked, first_says)
    (asked,) = machine.asked
    assert asked.node == B
    machine.says(asked, RoutedRefusal("no_space", "the disk is full"))
    assert machine.refused == [error]


def test_refusal_of_a_request_that_this_node_has_begun_is_not_certain() -> None:
    """ROUTE-3."""
    machine = Machine()
    machine.routes.ask(machine.begin(), 1, "request", b"body", has_effects=True, may_be_done=True)
    (asked,) = machine.asked
    machine.says(asked, RoutedRefusal("no_space", "the disk is full"))
    assert machine.refused == [UnknownOutcomeError]


@pytest.mark.parametrize(("is_once", "error"), [(False, NotReadyError), (True, UnknownOutcomeError)])
def test_patience_ends(is_once: bool, error: type[DistkvError]) -> None:
    machine, _ = asking(is_once=is_once)
    machine.step(ServiceWoken(), PATIENCE_MS)
    assert (machine.refused, machine.routes.wake_ms()) == ([error], None)


def test_too_many_requests_are_refused() -> None:
    machine = Machine()
    for id in range(1, ROOM + 2):
        machine.routes.ask(machine.begin(), id, "request", b"body")
    assert machine.refused == [BusyError]


def test_request_that_is_withdrawn_is_withdrawn_from_the_node() -> None:
    machine, asked = asking()
    machine.step(ServiceWithdrawn("s", 1))
    assert (machine.withdrawn, machine.routes.has(1)) == ([asked.purpose], False)


def listing() -> tuple[Machine, list[AskedOfNode]]:
    machine = Machine()
    machine.routes.ask_list(machine.begin(), 1, "list", "", "", 5)
    assert {one.node: QUESTIONS.read(one.body) for one in machine.asked} == dict.fromkeys([A, B], PageAsked("", "", 5))
    return machine, machine.asked


def test_list_is_answered_when_all_have_said_their_part() -> None:
    machine, (a, b) = listing()
    assert machine.says(a, NodePage((X,))) == []
    assert machine.says(b, NodePage((NodeItem("w", b"2"),))) == [
        RouteListed(1, "list", (NodeItem("w", b"2"), X), more=False, away=())
    ]


@pytest.mark.parametrize("why", ["silent", "refused"])
def test_list_names_whose_part_is_missing(why: str) -> None:
    """ROUTE-4."""
    machine, (a, b) = listing()
    machine.says(a, NodePage((X,)))
    if why == "refused":
        found = machine.says(b, RoutedRefusal("not_ready", "it begins"))
    else:
        assert machine.step(ServiceWoken(), AWAY_MS - 1) == []
        found = machine.step(ServiceWoken(), 1)
    assert found == [RouteListed(1, "list", (X,), more=False, away=(B,))]


def test_list_is_asked_of_a_node_that_comes_meanwhile() -> None:
    machine, (a, b) = listing()
    machine.nodes = [A, C]
    machine.step(NodesChanged())
    assert ([one.node for one in machine.asked], machine.withdrawn) == ([C], [b.purpose])
    (c,) = machine.asked
    machine.says(a, NodePage(()))
    assert machine.says(c, NodePage((X,))) == [RouteListed(1, "list", (X,), more=False, away=())]


def watching() -> tuple[Machine, list[AskedOfNode]]:
    machine = Machine()
    machine.routes.ask_watch(machine.begin(), 1, "watch", "")
    assert {one.node: QUESTIONS.read(one.body) for one in machine.asked} == dict.fromkeys([A, B], NewsAsked("", 0))
    return machine, machine.asked


def changed(*items: NodeItem, is_complete: bool = False, away: tuple[NodeName, ...] = ()) -> list[RouteResult]:
    return [RouteChanged(1, "watch", items, is_complete, away)]


def test_watch_is_told_all_and_asks_on_when_its_client_has_taken_that() -> None:
    machine, (a, b) = watching()
    assert machine.says(a, NodeNews((X,), 7, is_first=True)) == changed(X)
    assert machine.asked == []
    machine.step(ServiceContinued("s", 1))
    assert [(one.node, QUESTIONS.read(one.body)) for one in machine.asked] == [(A, NewsAsked("", 7))]
    assert machine.says(b, NodeNews((), 9, is_first=True)) == changed(is_complete=True)


def test_watch_names_who_is_silent_and_who_is_not_any_more() -> None:
    """ROUTE-6."""
    machine, (a, b) = watching()
    machine.says(a, NodeNews((), 7, is_first=True))
    assert machine.step(ServiceWoken(), AWAY_MS) == changed(is_complete=True, away=(B,))
    machine.step(ServiceContinued("s", 1))
    assert machine.says(b, NodeNews((), 9, is_first=True)) == changed()
    machine.step(ServiceContinued("s", 1))
    assert machine.step(NodesSilent(frozenset([A]))) == changed(away=(A,))
    assert machine.step(NodesSilent(frozenset())) == [], "its client has not taken that yet"
    assert machine.step(ServiceContinued("s", 1)) == changed()


def test_what_a_node_had_that_is_none_any_more_is_gone() -> None:
    machine, (a, _) = watching()
    machine.says(a, NodeNews((X,), 7, is_first=True))
    machine.nodes = [B]
    assert machine.step(NodesChanged()) == changed(NodeItem("x", None))


def test_node_that_refuses_a_watch_is_asked_again() -> None:
    machine, (a, _) = watching()
    machine.says(a, PeerError("what is that?"))
    machine.step(ServiceWoken(), AGAIN_MS)
    assert [one.node for one in machine.asked] == [A]
