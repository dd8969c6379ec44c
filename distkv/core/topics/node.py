"""The parts of topics on one node, put together: what each is told, in which order, and what follows from that.

Knows: which part takes which input.  Does not know what any of them does with it.

Each step ends with the same round, until nothing follows: rows that changed are kept, and go to the followers; gets
that wait look again; what was done is parked until it is copied.

Invariant: after a step every change of a copy is in the step's rows, and what this node owns is on its way to whoever
follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, assert_never

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng, ServiceAsked, ServiceWithdrawn
from distkv.core.topics.asked import TopicAsked
from distkv.core.topics.compare_answers import ExchangeTarget
from distkv.core.topics.comparing import Comparing
from distkv.core.topics.forgetting import Forgetting
from distkv.core.topics.leases import LeasePurpose, Leases
from distkv.core.topics.local_copies import LocalCopies
from distkv.core.topics.own_producer import OwnProducer
from distkv.core.topics.owning import Owners
from distkv.core.topics.routing import Routing
from distkv.core.topics.serving import Parked, Serving
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.showing import Showing
from distkv.core.topics.topic_servers import EntryWrite
from distkv.core.topics.topics import Topics
from distkv.errors import DecodeError, DistkvError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.service_paths import key_names
from distkv.wire.routed import AnswerAsked, NewsAsked, PageAsked
from distkv.wire.topic_entries import is_server_key
from distkv.wire.topic_messages import Compare, CompareWanted, CopyBatch, Exchange, LeaseAsked, LeaseProbe
from distkv.wire.topic_questions import NODE_QUESTIONS, NodeQuestion
from distkv.wire.topic_replies import TopicItem
from distkv.wire.topic_requests import TopicDrop, TopicPut, TopicRequest, TopicSet, TopicShow
from distkv.wire.topic_rounds import RoundAsked

ROUNDS_MAX: Final = 100
"""So often one step is looked at again, because something follows from what followed."""
STARTS: Final = 1 << 42
"""A start of a node has one of so many numbers."""
PATIENCE_MS: Final = 5000
"""Besides three leases, so long a request waits for a node that answers it."""


class TopicNode:
    """That of one node, since its machine began."""

    def __init__(self, settings: TopicSettings, rng: Rng, ground: ServiceGround, turn: ServiceTurn) -> None:
        start = int(rng.random() * STARTS)
        copies = LocalCopies(ground, Topics(ground.data, settings, turn.boot_ms), self)
        self.copies: Final = copies
        self.leases: Final = Leases(settings, copies, ground.data, turn.boot_ms)
        self.owners: Final = Owners(settings, ground, self.leases, copies, rng, turn.boot_ms)
        self.comparing: Final = Comparing(copies, copies.copying, ground.me, start)
        copies.owners, copies.comparing = self.owners, self.comparing
        self.forgetting: Final = Forgetting(settings, ground, start, copies.topics, self.owners, self.comparing)
        self._own: Final = OwnProducer(ground.me, ground.slots, settings.topics_max, rng)
        self._routing: Final = Routing(self, ground.me, 3 * settings.lease_ms + PATIENCE_MS)
        self._serving: Final = Serving(settings, copies.topics, self.owners, self.leases, self.forgetting)
        self._showing: Final = Showing(settings, copies, self.owners, self.forgetting)
        self._owned = set[str]()
        """The topics that this node owned after the last step."""
        self._touched = set[str]()
        """Those whose copies here the last step changed."""
        self._due_ms: int | None = 0
        """When something has to be done."""

    def begin(self, turn: ServiceTurn, data: ServiceRows) -> None:
        """The machine has begun."""
        self.owners.begin(turn)
        self.comparing.begin(turn, data)
        self.forgetting.begin(turn)
        self._owned = set(self.owners.owned())
        self.copies.copying.started(turn, sorted(self._owned))
        self._go_on(turn)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        self._touched.clear()
        if isinstance(what, ServiceAsked):
            self._pass_time(turn)
            self._asked_by_client(turn, what.id, what.request)
        elif isinstance(what, NodeAsked):
            self._pass_time(turn)
            self._asked_by_node(turn, what.call, what.body)
        else:
            if isinstance(what, ServiceWithdrawn):
                self._serving.gone(what.id)
            elif isinstance(what, NodeGaveUp):
                self._serving.gone(what.call)
            self._tell_parts(turn, what)
        if isinstance(what, EntryChanged) and not is_server_key(what.key):
            kind, name = key_names(what.key)
            if kind == "topic":
                self._see_owner(turn, name)
        elif isinstance(what, EntryChanged | NodesChanged) or _is_refusal(what):
            for name in sorted(self._owned ^ {*self.owners.owned()}):  # another disk, a node that is gone, no room
                self._see_owner(turn, name)
            self.leases.look(turn)
            self.comparing.look_all(turn)
        self._go_on(turn)
        self._due_ms = self._first_ms()

    @property
    def topics(self) -> Topics:
        """All copies of this node."""
        return self.copies.topics

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        return self._showing.statistics()

    def wake_ms(self) -> int | None:
        """When something has to be done."""
        return self._due_ms

    # -- CopyWaiter

    def copied(self, turn: ServiceTurn, target: object, copies: int) -> None:
        """As `CopyHost.copied`."""
        if isinstance(target, Parked):
            self._serving.copied(turn, target, copies)
        elif isinstance(target, ExchangeTarget):
            self.comparing.copied(turn, target)

    # -- RoutingHost

    def server_for(self, name: str) -> NodeName | DistkvError:
        return self.owners.server_for(name)

    def has_entry(self, name: str) -> bool:
        return self.owners.view(name) is not None

    def servers(self) -> Collection[NodeName]:
        return self.owners.servers()

    def want(self, name: str) -> None:
        self.owners.want(name)

    def serves(self, name: str) -> bool:
        return self.owners.is_mine(name) or self.owners.may_begin(name)

    def serve(self, turn: ServiceTurn, asked: TopicAsked) -> None:
        request = asked.request
        if isinstance(request, TopicShow | TopicSet | TopicDrop):
            self._showing.take(turn, asked, request)
        else:
            self._serving.take(turn, asked)

    def own_items(self) -> Mapping[str, TopicItem]:
        return self._showing.items()

    # -- what is asked

    def _asked_by_client(self, turn: ServiceTurn, id: int, request: object) -> None:
        if isinstance(request, TopicPut) and request.producer is None:
            counter = self._own.next_counter(turn, request.topic)
            request = attrs.evolve(request, producer=self._own.name, counter=counter)
        if isinstance(request, TopicRequest):
            self._routing.ask(turn, id, request)
        else:
            turn.answer(id, RequestError("this is no request about topics"))

    def _asked_by_node(self, turn: ServiceTurn, call: CallKey, body: bytes) -> None:
        try:
            question: NodeQuestion = NODE_QUESTIONS.read(body)
        except DecodeError as error:
            turn.note("topic_question_bad", node=call.peer, reason=error.reason)
            return
        match question:
            case AnswerAsked() | PageAsked():
                self._routing.asked(turn, call, question)
            case CopyBatch():
                self.copies.copying.asked(turn, call, question)
            case LeaseAsked() | LeaseProbe():
                self.leases.asked(turn, call, question)
            case Compare() | Exchange() | CompareWanted():
                self.comparing.asked(turn, call, question)
            case RoundAsked(start=start, names=names):
                self.comparing.met(turn, call.peer, start, names)
                self.forgetting.asked(turn, call, question)
            case NewsAsked():
                turn.note("topic_question_bad", node=call.peer, reason="there is no watch of topics")
            case _:
                assert_never(question)

    # -- what follows

    def _pass_time(self, turn: ServiceTurn) -> None:
        """What costs something at each request is done only when it is time, and before it: a node that slept sees that
        before it decides anything."""
        if self._due_ms is not None and self._due_ms <= turn.boot_ms:
            self._tell_parts(turn, ServiceWoken())

    def _tell_parts(self, turn: ServiceTurn, what: ServiceInput) -> None:
        is_known = False
        for part in (self.copies.copying, self.leases, self.owners, self.comparing, self.forgetting):
            is_known = is_known or part.step(turn, what)
        if not is_known:
            self._routing.step(turn, what)
        for name in self.forgetting.take_known():
            self._serving.look_again(turn, name)
        if isinstance(what, Replied) and isinstance(what.purpose, LeasePurpose):
            self._serving.look_at_all(turn)
        self._serving.pass_time(turn)

    def _see_owner(self, turn: ServiceTurn, name: str) -> None:
        """An entry says something else: this node may own a topic from now on, or no more."""
        self.copies.unite(turn, name)
        self.leases.look(turn)
        self.comparing.look(turn, name)
        if self.owners.is_mine(name):
            self._owned.add(name)
            self.copies.copying.look(turn, name)
            self._serving.look_again(turn, name)
        elif name in self._owned:
            self._owned.discard(name)
            parked = list[Parked]()
            for target in self.copies.copying.release(name):
                if isinstance(target, Parked):
                    parked.append(target)
                elif isinstance(target, ExchangeTarget):
                    self.comparing.refuse(turn, target)
            self._routing.ask_elsewhere(turn, self._serving.lost(turn, name, parked))
        elif self.owners.view(name) is not None:  # gets that waited while nobody was known to own it
            self._routing.ask_elsewhere(turn, self._serving.lost(turn, name, []))

    def _go_on(self, turn: ServiceTurn) -> None:
        """Keep what has changed, and do what follows from that, until nothing does."""
        for _ in range(ROUNDS_MAX):
            changed = self.copies.flush(turn)
            self._touched.update(changed)
            for name in changed:
                self.forgetting.touched(name)
                if self.owners.is_mine(name):
                    self._owned.add(name)
            self.comparing.park(turn)
            self._serving.park(turn, self.copies.copying)
            for name in changed:
                self._serving.look_again(turn, name)
            if not self._serving.has_done and not self.topics.has_changed:
                return
        turn.note("topic_step_too_long")

    def _first_ms(self) -> int | None:
        parts = (self.leases, self.owners, self.comparing, self.forgetting, self._routing, self._serving)
        return min((ms for part in parts if (ms := part.wake_ms()) is not None), default=None)

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold. Not `is_whole`: only of the
        copies that the last step changed, and not of what is known of all topics."""
        self.topics.check(None if is_whole else self._touched)
        for part in (self.copies.copying, self.leases, self.comparing, self.forgetting):
            part.check()
        if is_whole:
            self.owners.check()
        for own in (self._own, self._routing, self._serving):
            own.check()
        must(all(self.owners.is_mine(name) for name in self._owned), "what is remembered as owned is owned")


def _is_refusal(what: ServiceInput) -> bool:
    """Whether an entry that this node wrote is not in the store: others may own its topic, then."""
    return isinstance(what, Replied) and isinstance(what.purpose, EntryWrite)
