"""Forgetting: what a node lets go of topics, and when it asks all nodes that keep topics whether it may.

Knows: when something waits until all nodes are asked.  Does not know what all must say of it: `free_messages`,
`dropping` and `orphans` do, nor how they are asked (`rounds`).

A message that all known subscribers had goes when every node that keeps topics has said since it came that the owner
knows all subscribers which that node knows. As long as one of these nodes is away, such messages are kept up to a
limit; then the oldest go, and whoever turns out to be owed one is told that it is gone.

Invariant: with nothing to let go nothing is asked, and a step costs a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.backlog import TopicBacklog
from distkv.core.topics.dropping import Dropping, has_thrown
from distkv.core.topics.entry_facts import EntryFacts, is_named
from distkv.core.topics.free_messages import FreeMessages
from distkv.core.topics.orphans import Orphans
from distkv.core.topics.rounds import KeeperRound, KeeperRounds, RoundPlan, RoundPurpose
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.subscriber_doubts import SubscriberDoubts
from distkv.core.topics.topic import Topic
from distkv.core.topics.topics import Topics
from distkv.model.event import NodeName
from distkv.wire.topic_entries import topic_of
from distkv.wire.topic_rounds import NAMES_MAX, RoundAsked

LOOK_MS: Final = 1000
"""It is looked at so often at the most, and all are asked so often."""
DOUBT_MS: Final = 100
"""The same, while a client waits for what they say of subscribers."""


class Cleanness(Protocol):
    """What is known of the copies of this node."""

    def is_clean(self, name: str, owner: NodeName, start: int) -> bool:
        """Whether this owner has, since this start of it, all that is in the copy of this node."""


class Forgetting:
    """That of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(
        self,
        settings: TopicSettings,
        ground: ServiceGround,
        start: int,
        topics: Topics,
        entries: EntryFacts,
        copies: Cleanness,
    ) -> None:
        self._topics: Final = topics
        self._entries: Final = entries
        self._rounds: Final = KeeperRounds(ground.me, ground.nodes, start, _Answers(topics, entries, copies))
        self._messages: Final = FreeMessages(entries, topics, settings.away_bytes)
        self._backlog: Final = TopicBacklog(settings.backlog_bytes)
        self._dropping: Final = Dropping(ground.me, ground.nodes, entries, topics)
        self._orphans: Final = Orphans(entries, topics)
        self._doubts: Final = SubscriberDoubts()
        self._touched: Final = dict[str, None]()
        """The topics that are to be looked at."""
        self._unclean: Final = dict[str, NodeName]()
        """The topics of which a node holds something that this one may lack, and such a node."""
        self._looked_ms: int | None = None
        self._look_ms: int | None = None
        """When it is looked at again."""

    def begin(self, turn: ServiceTurn) -> None:
        """With all copies, and all entries."""
        names = {topic.name for topic in self._topics.all()}
        for name in sorted({*names, *self._entries.dropped_names()}):
            self._entry_changed(turn, name)
            self.touched(name)

    # -- for the machine

    def touched(self, name: str) -> None:
        """Something of the copies of a topic has changed."""
        self._touched[name] = None
        if self._look_ms is None:
            self._look_ms = 0 if self._looked_ms is None else self._looked_ms + LOOK_MS

    def check_backlog(self, topic: Topic, size: int) -> None:
        """Whether a message with a value of this size may come.

        Raises:
            BacklogError: its known subscribers are owed too much.
        """
        self._backlog.check(topic, size)

    def drop(self, turn: ServiceTurn, name: str, *, force: bool) -> None:
        """A client wants a topic to be gone.

        Raises:
            NotFoundError: there is none.
            AwayError: somebody is not reached who has it; `force` drops it all the same.
        """
        self._dropping.drop(turn, name, force=force)

    def kept_bytes(self, name: str) -> int:
        """How much of a topic is kept although no known subscriber is owed it."""
        return self._messages.bytes_of(name)

    def waits_for(self, name: str) -> tuple[NodeName, ...]:
        """The nodes for which that is kept: they are away, or hold something that this node may lack."""
        if not self._messages.bytes_of(name):
            return ()
        found = {*self._rounds.away()}
        if name in self._unclean:
            found.add(self._unclean[name])
        return tuple(sorted(found))

    def who_may_know(self, turn: ServiceTurn, name: str, since_ms: int) -> tuple[NodeName, ...] | None:
        """Which nodes may know subscribers of a topic that this one does not know; nobody: all nodes that keep topics
        have said so, to a question that was asked after this time. None: they are asked; `take_known` says when they
        have answered."""
        if not self._rounds.others():
            return ()
        found = self._doubts.said(name, since_ms)
        if found == ():
            return found
        self._doubts.want(name, since_ms)
        due_ms = max(turn.boot_ms + 1, -1 if self._looked_ms is None else self._looked_ms + DOUBT_MS)
        self._look_ms = due_ms if self._look_ms is None else min(self._look_ms, due_ms)
        return found or tuple(sorted(self._rounds.away() or self._rounds.unanswered())) or None

    def take_known(self) -> Iterable[str]:
        """The topics of which `who_may_know` says something new."""
        return self._doubts.take_news()

    def orphans(self) -> list[str]:
        """The names of copies that no entry names."""
        return self._orphans.names()

    def asked(self, turn: ServiceTurn, call: CallKey, question: RoundAsked) -> None:
        """Another node asks whether something may go."""
        self._rounds.asked(turn, call, question)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Whatever the machine is told; whether it was for this."""
        if isinstance(what, Replied) and isinstance(what.purpose, RoundPurpose):
            round = self._rounds.replied(turn, what)
            if round is not None:
                self._finish(turn, round)
            self._pass_time(turn)
            return True
        if isinstance(what, EntryChanged):
            name = topic_of(what.key)
            if name is not None:
                self._entry_changed(turn, name)
                self.touched(name)
        if isinstance(what, EntryChanged | NodesChanged):
            self._nodes_changed()
        self._pass_time(turn)
        return False

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return earliest(self._look_ms, self._messages.wake_ms())

    # -- inside

    def _entry_changed(self, turn: ServiceTurn, name: str) -> None:
        self._dropping.look(turn, name)
        self._orphans.look(turn, name)

    def _nodes_changed(self) -> None:
        """Others may be there, or keep topics."""
        if self._look_ms is None and self._has_questions(None):
            self._look_ms = 0 if self._looked_ms is None else self._looked_ms + LOOK_MS

    def _has_questions(self, now_ms: int | None) -> bool:
        """Whether something waits until all have been asked; None: whatever the time."""
        due_ms = self._orphans.due_ms()
        is_orphan_due = due_ms is not None and (now_ms is None or due_ms <= now_ms)
        return len(self._messages) > 0 or len(self._dropping) > 0 or len(self._doubts) > 0 or is_orphan_due

    def _pass_time(self, turn: ServiceTurn) -> None:
        now_ms = turn.boot_ms
        due_ms = self._messages.wake_ms()
        if due_ms is not None and due_ms <= now_ms:
            for name in self._messages.step(turn):
                self.touched(name)
        if self._look_ms is not None and self._look_ms <= now_ms:
            self._look(turn)

    def _look(self, turn: ServiceTurn) -> None:
        """Look at what has changed, and ask all if something waits for that."""
        self._looked_ms, self._look_ms = turn.boot_ms, None
        names = [*self._touched]
        self._touched.clear()
        for name in names:
            self._backlog.look_again(name)
            self._messages.look(turn, name)
            self._dropping.look(turn, name)
            self._orphans.look(turn, name)
        self._messages.trim(turn)
        if self._rounds.is_open or self._rounds.away():
            return
        if self._has_questions(turn.boot_ms):
            self._ask(turn)
        elif self._look_ms is None:
            self._look_ms = self._orphans.due_ms()

    def _ask(self, turn: ServiceTurn) -> None:
        unnamed = self._orphans.asks(turn.boot_ms)
        doubtful = self._doubts.asks(turn.boot_ms)
        names = dict.fromkeys((*doubtful, *self._messages.asks(NAMES_MAX - len(doubtful))))
        plan = RoundPlan(tuple(names), self._dropping.asks(NAMES_MAX), unnamed)
        if not (plan.names or plan.dropped or plan.unnamed):
            self._look_ms = self._orphans.due_ms()
            return
        round = self._rounds.begin(turn, plan)
        if round is not None:
            self._finish(turn, round)

    def _finish(self, turn: ServiceTurn, round: KeeperRound) -> None:
        """All have answered."""
        plan = round.plan
        self._unclean.clear()
        self._unclean.update(round.unclean)
        if round.is_void:
            self._messages.doubt()
            self._doubts.doubt()
        else:
            self._doubts.answered(round.unclean)
            self._messages.answered(round.unclean.keys())
            self._dropping.answered(turn, plan.dropped, round.unthrown)
            if round.others:
                self._orphans.answered(turn, plan.unnamed, round.known)
        if self._has_questions(None):
            self._look_ms = turn.boot_ms + (DOUBT_MS if self._doubts else LOOK_MS)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._messages.check()
        self._dropping.check()
        self._orphans.check()
        self._doubts.check()
        self._rounds.check()


class _Answers:
    """What this node says to a round of another one."""

    def __init__(self, topics: Topics, entries: EntryFacts, copies: Cleanness) -> None:
        self._topics: Final = topics
        self._entries: Final = entries
        self._copies: Final = copies

    def keepers(self) -> frozenset[NodeName]:
        return self._entries.keepers()

    def may_keep(self) -> frozenset[NodeName]:
        return self._entries.may_keep()

    def is_clean(self, name: str, owner: NodeName, owner_start: int) -> bool:
        return not self._topics.of(name) or self._copies.is_clean(name, owner, owner_start)

    def has_thrown(self, name: str, ids: frozenset[str]) -> bool:
        return has_thrown(self._entries, self._topics, name, ids)

    def is_named(self, name: str, ids: frozenset[str]) -> bool:
        return is_named(self._entries, name, ids)
