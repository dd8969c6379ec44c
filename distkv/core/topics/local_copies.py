"""The copies of topics on this node, as the parts see them that own, lease, copy and compare.

Knows: which copy is meant by a name and ids, what the entries say of it, and when its changes are kept.  Does not know
what a row means, nor when anything is sent.

Invariant: what changes in a copy is in the rows of the same step; of a topic that this node owns it is on its way to
all followers that the entry names. Followers are sent nothing of a copy that has no id of the entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.compared_copy import ComparedCopy, NoCopy, SentRows
from distkv.core.topics.comparing import Comparing
from distkv.core.topics.copying import Copying
from distkv.core.topics.join import joined_bytes
from distkv.core.topics.owning import Owners
from distkv.core.topics.topic import Topic
from distkv.core.topics.topics import Topics
from distkv.errors import NotFoundError, RequestError
from distkv.model.event import NodeName
from distkv.wire.topic_rows import is_joined


class CopyWaiter(Protocol):
    """Who waits for copies."""

    def copied(self, turn: ServiceTurn, target: object, copies: int) -> None:
        """As `CopyHost.copied`."""


class LocalCopies:
    """Those of one node, since its machine began."""

    def __init__(self, ground: ServiceGround, topics: Topics, waiter: CopyWaiter) -> None:
        self._ground: Final = ground
        self.topics: Final = topics
        self._waiter: Final = waiter
        self.copying: Final = Copying(self)
        self.owners: Owners
        self.comparing: Comparing
        """Both are put here when they are made: each of them asks this."""

    def flush(self, turn: ServiceTurn) -> Collection[str]:
        """Keep what has changed, and send it to the followers; of which topics that is."""
        changed = self.topics.keep(turn)
        for topic, rows in changed:
            view = self.owners.view(topic.name)
            if view is not None and self.owners.is_mine(topic.name) and not view.ids.isdisjoint(topic.ids):
                joined = {key: value for key, value in rows.items() if is_joined(key)}
                self.copying.send(turn, topic.name, topic.ids, joined, self.owners.followers(topic.name))
        return dict.fromkeys(topic.name for topic, _ in changed)

    def current(self, name: str) -> Topic | None:
        """The copy that has an id of the entry."""
        view = self.owners.view(name)
        return None if view is None else self.topics.find(name, view.ids)

    def unite(self, turn: ServiceTurn, name: str) -> None:
        """The entry of a topic is another one: copies of this node that it calls one topic become one."""
        view, topic = self.owners.view(name), self.current(name)
        if view is None or topic is None:
            return
        try:
            self._become(turn, topic, view.ids)
        except RequestError as error:
            turn.note("topic_copy_refused", topic=name, reason=str(error))
        if not view.lacking and self.owners.is_mine(name):
            topic.unmark_all()

    def _become(self, turn: ServiceTurn, topic: Topic, ids: Collection[str]) -> None:
        """A copy is that of these ids, too. Mostly it is already.

        Raises:
            ExistsError: one of them is that of another topic.
        """
        if not topic.ids.issuperset(ids):
            self.topics.add_ids(topic, ids, turn.boot_ms)

    # -- what owners ask

    def has(self, name: str, ids: Collection[str]) -> bool:
        return self.topics.find(name, ids) is not None

    def has_all(self, name: str, ids: Collection[str]) -> bool:
        return self.has(name, ids) and name not in self.topics.in_doubt

    def whole(self, name: str) -> int | None:
        return self.comparing.whole(name)

    def had(self, name: str) -> Collection[int]:
        return self.comparing.had(name)

    # -- LeaseHost

    def needed(self) -> Collection[NodeName]:
        return self.owners.needed()

    def peers(self) -> Collection[NodeName]:
        return self.owners.peers()

    def suspects(self) -> Collection[NodeName]:
        return self.owners.suspects()

    def knows_taken(self, name: str, node: NodeName) -> bool:
        return self.owners.knows_taken(name, node)

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        return self.owners.is_taken_back(name, node)

    def slept(self, turn: ServiceTurn) -> None:
        self.comparing.slept(turn)

    # -- CopyHost

    def followers_of(self, name: str) -> Collection[NodeName]:
        return self.owners.followers(name)

    def copied(self, turn: ServiceTurn, target: object, copies: int) -> None:
        self._waiter.copied(turn, target, copies)

    def replace_follower(self, name: str, node: NodeName) -> None:
        self.owners.replace_follower(name, node)

    def missed(self, turn: ServiceTurn, name: str) -> None:
        self.comparing.missed(turn, name)

    def take_copy(
        self, turn: ServiceTurn, name: str, ids: Collection[str], rows: SentRows, sender: NodeName
    ) -> None:
        topic = self.topics.find(name, ids, turn.boot_ms)
        if topic is None and frozenset(ids) <= self.owners.dropped(name):
            raise NotFoundError(f"the topic {name} was dropped")
        self.topics.check_room(turn, joined_bytes(None if topic is None else topic.copy, rows))
        if topic is None:
            self.topics.check_count()
            topic = self.topics.create(name, ids, turn.boot_ms)
        else:
            self._become(turn, topic, ids)
        topic.join_rows(rows, turn.boot_ms)
        self.owners.came(name, sender, ids, turn.boot_ms)
        self.comparing.came(name, sender, rows)

    # -- CompareHost

    def names(self) -> Iterable[str]:
        of_others = [name for name in self.owners.own_names() if self.owners.follows(name) or self.is_lacking(name)]
        return {*of_others, *[topic.name for topic in self.topics.all()]}

    def owner_of(self, name: str) -> NodeName | None:
        view = self.owners.view(name)
        return None if view is None else view.owner

    def is_alive(self, node: NodeName) -> bool:
        return node in self._ground.nodes.alive

    def naming_of(self, name: str) -> int | None:
        return self.owners.naming_of(name)

    def is_lacking(self, name: str) -> bool:
        view = self.owners.view(name)
        return view is not None and view.owner != self._ground.me and self._ground.me in view.lacking

    def copy_of(self, name: str) -> ComparedCopy | None:
        view, topic = self.owners.view(name), self.current(name)
        if topic is None and view is not None and (self.naming_of(name) is not None or self.is_lacking(name)):
            return NoCopy(view.ids)
        return topic

    def begin_copy(self, turn: ServiceTurn, name: str) -> bool:
        view = self.owners.view(name)
        try:
            self.topics.check_count()
            if view is not None:
                self.topics.create(name, view.ids, turn.boot_ms)
        except RequestError as error:
            turn.note("topic_copy_refused", topic=name, reason=str(error))
            return False
        return view is not None

    def let_go(self, turn: ServiceTurn, name: str) -> None:  # noqa: ARG002  # it is kept with the step
        topic = self.current(name)
        if topic is not None:
            topic.forget_all(topic.kept())

    def given(self, name: str) -> None:
        self.owners.given(name)

    # -- OwnedCopies

    def naming_for(self, name: str, node: NodeName) -> int | None:
        view = self.owners.view(name)
        return None if view is None else view.naming_of(node)

    def owned_copy(self, name: str, ids: Collection[str]) -> Topic | None:
        view = self.owners.view(name)
        if view is None or not self.owners.is_mine(name) or view.ids.isdisjoint(ids):
            return None
        return self.topics.find(name, view.ids)

    def joined(self, turn: ServiceTurn, name: str, node: NodeName, had: Collection[int]) -> None:
        self.owners.joined(turn, name, node, had)
