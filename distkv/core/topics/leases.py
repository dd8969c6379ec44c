"""The leases under which an owner answers gets: followers promise it for a while that they do not take over.

Knows: which nodes were asked, which have answered, and until when that counts.  Does not know topics but by name.

Leases go between pairs of nodes, not topics. Each side counts on its own clock (LEASE-1): the owner from when it asked,
a short lease; the follower from when it heard, or started, a long one. A node that slept, or has just started, answers
nothing until the others had time to say what they took from it.

Invariant: while this node holds the lease of another one, that one takes over nothing from it; and what was taken from
it before is suspended here until the store shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import EntryChanged, ServiceInput
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.promises import Promises
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.taken_topics import EntryView, TakenTopics
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.topic_messages import LEASE_REPLIES, LeaseAsked, LeaseGiven, LeaseProbe


@attrs.frozen(slots=True)
class LeasePurpose:
    """A question to a node."""

    node: NodeName
    asked_ms: int
    is_probe: bool = False


class LeaseHost(EntryView, Protocol):
    """Who needs leases."""

    def needed(self) -> Collection[NodeName]:
        """The followers of all topics that this node owns."""

    def peers(self) -> Collection[NodeName]:
        """All other servers, if this node owns a topic."""

    def suspects(self) -> Collection[NodeName]:
        """Owners of topics that this node follows, which seem away."""

    def slept(self, turn: ServiceTurn) -> None:
        """This node did not wake when it should have: others may have gone on without it."""


class Leases:
    """Those of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, settings: TopicSettings, host: LeaseHost, data: ServiceRows, now_ms: int) -> None:
        self._settings: Final = settings
        self._host: Final = host
        self._promises: Final = Promises(settings, now_ms)
        self._taken: Final = TakenTopics(host, data)
        self._asked: Final = dict[NodeName, int]()
        """When each node was asked last."""
        self._given: Final = dict[NodeName, int]()
        """When that was asked which each node answered last."""
        self._quiet: Final = dict[NodeName, int]()
        """Since when each node that is asked says nothing."""
        self._due_ms: int | None = now_ms
        """When others are asked; None: nobody is needed."""
        self._step_ms = now_ms
        self._awake_ms = now_ms
        """Since when this node has not slept."""
        self._owns = True
        """Whether it owned something when it was looked at last."""

    @property
    def _quarter_ms(self) -> int:
        return max(1, self._settings.lease_ms // 4)

    def begin(self, turn: ServiceTurn) -> None:
        """The machine has begun."""
        self.look(turn)

    # -- for the machine

    def holds(self, node: NodeName, now_ms: int) -> bool:
        """Whether the lease of a node counts."""
        given_ms = self._given.get(node)
        return given_ms is not None and now_ms < given_ms + self._settings.short_ms

    def may_answer(self, name: str, followers: Iterable[NodeName], now_ms: int) -> bool:
        """Whether the owner of a topic with these followers may answer gets now."""
        if not self._is_settled(now_ms) or self._taken.is_suspended(name):
            return False
        return all(self.holds(node, now_ms) for node in followers)

    def is_suspended(self, name: str) -> bool:
        """Whether another node said that it took this topic, and the store does not show it yet."""
        return self._taken.is_suspended(name)

    def is_silent(self, node: NodeName, now_ms: int) -> bool:
        """Whether a node that is needed has said nothing for a long lease, so that the entry may leave it out."""
        since_ms = self._quiet.get(node)
        return since_ms is not None and now_ms >= since_ms + self._settings.long_ms

    def has_answered(self, node: NodeName) -> bool:
        """Whether a node has given a lease since this one started or slept: it has then told what it took over."""
        return self._given.get(node, -1) >= self._awake_ms

    def last_heard_ms(self, node: NodeName) -> int | None:
        """When a node said something of leases; None: never since the start."""
        return self._promises.last_heard_ms(node)

    def may_take_over(self, node: NodeName, now_ms: int) -> bool:
        """Whether topics of that node can be taken over: see `Promises`."""
        return self._promises.may_take_over(node, now_ms)

    def took(self, turn: ServiceTurn, name: str, node: NodeName) -> None:
        """This node writes, in this step, an entry that leaves out `node`, which was its owner or a follower.

        Raises:
            RequestError: there is no room to keep that, so the entry must not be written.
        """
        self._taken.took(turn, name, node)

    # -- what happens

    def asked(self, turn: ServiceTurn, call: CallKey, question: LeaseAsked | LeaseProbe) -> None:
        """A node asks for a promise, or whether this one works."""
        self._look_at_the_time(turn)
        node = call.peer
        if isinstance(question, LeaseAsked):
            self._promises.promise(node, turn.boot_ms)
            self._taken.heard(turn, node, question.taken, question.known)
            if self._due_ms is None:  # from now on it matters whether this node sleeps
                self._due_ms = turn.boot_ms + self._quarter_ms
        else:
            self._promises.hear(node, turn.boot_ms)
        taken, more = self._taken.has_taken(node)
        turn.answer_node(call, pack(LeaseGiven(taken, more, self._taken.known(node))))

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Whatever the machine is told; whether it was for this."""
        self._look_at_the_time(turn)
        is_own = isinstance(what, Replied) and isinstance(what.purpose, LeasePurpose)
        if isinstance(what, EntryChanged):
            self._taken.look(turn)
        if isinstance(what, Replied) and isinstance(what.purpose, LeasePurpose):
            self._replied(turn, what.purpose, what.reply)
        if self._due_ms is not None and turn.boot_ms >= self._due_ms:
            self.look(turn)
        return is_own

    def look(self, turn: ServiceTurn) -> None:
        """Others may be needed than before: call it when an entry or the nodes changed. Or it is time to ask."""
        self._look_at_the_time(turn)
        self._taken.look(turn)
        now_ms, host = turn.boot_ms, self._host
        peers, suspects = frozenset(host.peers()), frozenset(host.suspects())
        self._owns = bool(peers)
        wanted = frozenset(host.needed()) | self._taken.doubted()
        wanted |= frozenset() if self._is_settled(now_ms) else peers
        for known in (self._asked, self._quiet):
            for node in known.keys() - wanted:
                del known[node]
        for node in sorted(wanted):
            if now_ms >= self._asked.get(node, now_ms - self._quarter_ms) + self._quarter_ms:
                self._ask(turn, node)
        for node in sorted(self._promises.probe(suspects, now_ms)):
            purpose = LeasePurpose(node, now_ms, is_probe=True)
            turn.ask_node(node, pack(LeaseProbe()), purpose, patience_ms=self._settings.lease_ms)
        is_busy = bool(wanted or peers or suspects) or self._promises.has_any(now_ms)
        self._due_ms = now_ms + self._quarter_ms if is_busy else None

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return self._due_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._promises.check()
        self._taken.check()

    # -- inside

    def _look_at_the_time(self, turn: ServiceTurn) -> None:
        """A node that slept is asleep to what was done meanwhile."""
        if self._slept(turn.boot_ms):
            for node, asked_ms in self._promises.woke():
                turn.withdraw(LeasePurpose(node, asked_ms, is_probe=True))
            self._quiet.update(dict.fromkeys(self._quiet, turn.boot_ms))
            if self._owns:
                self._awake_ms = turn.boot_ms
            self._host.slept(turn)
        self._step_ms = turn.boot_ms

    def _slept(self, now_ms: int) -> bool:
        """Whether this node did not wake when it should have."""
        return now_ms - self._step_ms > self._settings.lease_ms // 2

    def _is_settled(self, now_ms: int) -> bool:
        """Whether the others had time to say what they took while this node slept."""
        if self._slept(now_ms) and self._owns:
            return False
        if now_ms >= self._awake_ms + self._settings.lease_ms:
            return True
        return all(map(self.has_answered, self._host.peers()))

    def _ask(self, turn: ServiceTurn, node: NodeName) -> None:
        self._asked[node] = turn.boot_ms
        self._quiet.setdefault(node, turn.boot_ms)
        taken, _ = self._taken.has_taken(node)
        purpose = LeasePurpose(node, turn.boot_ms)
        body = pack(LeaseAsked(self._taken.known(node), taken))
        turn.ask_node(node, body, purpose, patience_ms=2 * self._quarter_ms)

    def _replied(self, turn: ServiceTurn, purpose: LeasePurpose, reply: object) -> None:
        node, now_ms = purpose.node, turn.boot_ms
        if not isinstance(reply, bytes):
            if purpose.is_probe:
                self._promises.unanswered(node, purpose.asked_ms, now_ms)
            return
        try:
            said = LEASE_REPLIES.read(reply)
        except DecodeError as error:
            turn.note("topic_lease_bad", node=node, reason=error.reason)
            return
        self._promises.hear(node, now_ms)
        self._taken.heard(turn, node, said.taken, said.known)
        if node in self._quiet:
            self._quiet[node] = now_ms
        if not purpose.is_probe and not said.more:
            self._given[node] = max(purpose.asked_ms, self._given.get(node, 0))
