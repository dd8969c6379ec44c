"""Nodes that keep topics and forget, with real copies, on disks of memory, for tests.

Knows: what each node believes of entries, of other nodes and of its own copies, which a test says.  Does not know any
rule.

A question goes when a test lets it (`Keepers.deliver`); nodes have one clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, DataKept, ServiceTurn
from distkv.core.ready import Note
from distkv.core.topics.forgetting import Forgetting
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.topic import Topic
from distkv.errors import DistkvError, PeerError
from distkv.model.event import NodeName
from distkv.wire.declared import BodyReader
from distkv.wire.topic_entries import topic_key
from distkv.wire.topic_rounds import RoundAsked
from tests.service_steps import WALL, KnownNodes, ground_of
from tests.unit.core.topic_copies import IDS, NAME, SERVICE, Disk, copy_rows

A = NodeName("a")
QUESTIONS = BodyReader[RoundAsked](RoundAsked, "question")


@attrs.frozen
class Entry:
    """What a node believes of a topic."""

    ids: frozenset[str] = frozenset(IDS)
    owner: NodeName | None = A
    """None: it is dropped."""
    followers: tuple[NodeName, ...] = ()
    lacking: tuple[NodeName, ...] = ()
    keep_s: float = 0.0
    keep_bytes: int = 0


@attrs.frozen
class View:
    """The same of a topic that there is."""

    ids: frozenset[str]
    owner: NodeName
    followers: tuple[NodeName, ...]
    lacking: tuple[NodeName, ...]
    keep_s: float
    keep_bytes: int


class Keeper:
    """One node."""

    def __init__(self, name: str, settings: TopicSettings) -> None:
        self.me = NodeName(name)
        self.start = 1
        self.disk = Disk(settings)
        self.nodes = KnownNodes()
        self.entries: dict[str, Entry] = {}
        self.gone: dict[str, frozenset[str]] = {}
        """Dropped ids by the names of topics."""
        self.forgotten: list[str] = []
        """Under these names nothing is dropped any more: this node wrote so."""
        self.unreadable: set[str] = set()
        self.known_keepers: frozenset[NodeName] = frozenset()
        self.others: frozenset[NodeName] = frozenset()
        """Those that may keep topics by now."""
        self.clean: set[tuple[str, NodeName, int]] = set()
        """Of which topic a start of an owner has all that is here."""
        self.now_ms = 1_000_000
        self.wall = WALL
        self.asked: deque[AskedOfNode] = deque()
        self.notes: list[str] = []
        ground = ground_of(self.me, 7, WALL, {})
        self.ground = attrs.evolve(ground, nodes=self.nodes)
        self.forgetting = self._begin()

    def _begin(self) -> Forgetting:
        found = Forgetting(self.disk.settings, self.ground, self.start, self.disk.topics, self, self)
        turn = self._turn()
        found.begin(turn)
        self._carry_out(turn, found)
        return found

    def restart(self) -> None:
        """The service begins anew."""
        self.disk.restart()
        self.start += 1
        self.asked.clear()
        self.forgetting = self._begin()

    # -- EntryFacts and Cleanness

    def view(self, name: str) -> View | None:
        entry = self.entries.get(name)
        if entry is None or entry.owner is None:
            return None
        return View(entry.ids, entry.owner, entry.followers, entry.lacking, entry.keep_s, entry.keep_bytes)

    def is_mine(self, name: str) -> bool:
        view = self.view(name)
        return view is not None and view.owner == self.me

    def dropped_names(self) -> Iterable[str]:
        return sorted(self.gone)

    def dropped(self, name: str) -> frozenset[str]:
        return self.gone.get(name, frozenset())

    def is_unreadable(self, name: str) -> bool:
        return name in self.unreadable

    def keepers(self) -> frozenset[NodeName]:
        return self.known_keepers

    def may_keep(self) -> frozenset[NodeName]:
        return self.known_keepers | self.others

    def drop(self, turn: ServiceTurn, name: str) -> None:
        turn.write(topic_key(name), b"dropped")
        self.gone[name] = self.dropped(name) | self.entries.pop(name).ids

    def forget_dropped(self, turn: ServiceTurn, name: str) -> None:
        turn.delete(topic_key(name))
        del self.gone[name]
        self.forgotten.append(name)

    def is_clean(self, name: str, owner: NodeName, start: int) -> bool:
        return (name, owner, start) in self.clean

    # -- steps

    def topic(self, name: str = NAME, ids: Iterable[str] = IDS) -> Topic:
        """Its copy; there is one then."""
        found = self.disk.topics.find(name, ids)
        return self.disk.topics.create(name, ids) if found is None else found

    def step(self, what: ServiceInput | None = None) -> None:
        """The machine is told something; whatever changed of its copies is kept."""
        turn = self._turn()
        self.forgetting.step(turn, ServiceWoken() if what is None else what)
        self._carry_out(turn, self.forgetting)

    def pass_time(self, by_ms: int) -> None:
        """It is woken whenever it wants to be."""
        end_ms = self.now_ms + by_ms
        while (wake_ms := self.forgetting.wake_ms()) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.step()
        self.now_ms = end_ms
        self.step()

    def entry_changed(self, name: str = NAME) -> None:
        self.step(EntryChanged(topic_key(name)))

    def nodes_changed(self) -> None:
        self.step(NodesChanged())

    def answer(self, peer: NodeName, question: bytes) -> bytes:
        """What it says to another node."""
        turn = self._turn()
        self.forgetting.asked(turn, CallKey(peer, 1, 1), QUESTIONS.read(question))
        (answered,) = [one for one in turn.effects if isinstance(one, AnsweredNode)]
        return answered.body

    def replied(self, asked: AskedOfNode, reply: bytes | DistkvError) -> None:
        self.step(Replied(asked.purpose, reply))

    def drop_topic(self, name: str = NAME, *, force: bool = False) -> None:
        """A client drops it; all nodes are to be told of the entry."""
        turn = self._turn()
        self.forgetting.drop(turn, name, force=force)
        self._carry_out(turn, self.forgetting)

    def who_may_know(self, since_ms: int, name: str = NAME) -> tuple[NodeName, ...] | None:
        """A get of a subscriber that is not known here came then."""
        return self.forgetting.who_may_know(self._turn(), name, since_ms)

    def _turn(self) -> ServiceTurn:
        return ServiceTurn(SERVICE, self.now_ms, self.wall, self.disk.data)

    def _carry_out(self, turn: ServiceTurn, forgetting: Forgetting) -> None:
        for topic, _ in self.disk.topics.keep(turn):
            forgetting.touched(topic.name)
        for effect in turn.effects:
            match effect:
                case DataKept(key=key, value=value):
                    self.disk.data.keep(SERVICE, key, value)
                case AskedOfNode():
                    self.asked.append(effect)
                case Note(id=id):
                    self.notes.append(id)
                case _:
                    pass
        forgetting.check()

    def keep(self) -> None:
        """What a test changed of its copies is kept, as a step would."""
        self._carry_out(self._turn(), self.forgetting)


class Keepers:
    """Several nodes, which all are up and know each other."""

    def __init__(self, *names: str, settings: TopicSettings | None = None) -> None:
        self.nodes = {NodeName(name): Keeper(name, settings or TopicSettings()) for name in names}
        self.up: set[NodeName] = set(self.nodes)
        self.know_each_other()

    def __getitem__(self, name: str) -> Keeper:
        return self.nodes[NodeName(name)]

    def know_each_other(self) -> None:
        """All know who is there now."""
        all_nodes = frozenset(self.nodes)
        for name, node in self.nodes.items():
            node.nodes.registered = all_nodes
            node.nodes.alive = frozenset(self.up - {name})
            node.known_keepers = all_nodes
            node.nodes_changed()

    def publish(self, entry: Entry, name: str = NAME) -> None:
        """All know this entry."""
        for node in self.nodes.values():
            node.entries[name] = entry
            node.entry_changed(name)

    def publish_dropped(self, name: str, ids: frozenset[str]) -> None:
        """All know that these are dropped; none: nobody does any more."""
        for node in self.nodes.values():
            node.entries.pop(name, None)
            node.gone[name] = ids
            if not ids:
                del node.gone[name]
            node.entry_changed(name)

    def _publish_forgotten(self) -> None:
        """What one node wrote about dropped topics comes to the others."""
        for name in {name for node in self.nodes.values() for name in node.forgotten}:
            self.publish_dropped(name, frozenset())
        for node in self.nodes.values():
            node.forgotten.clear()

    def clean(self, owner: str = "a", name: str = NAME) -> None:
        """This owner has all that the others have."""
        to = self[owner]
        for node in self.nodes.values():
            if node is not to:
                copy_rows(node.topic(name), to.topic(name))
                node.clean.add((name, to.me, to.start))
            node.keep()

    def pass_time(self, by_ms: int = 1) -> None:
        for name in sorted(self.up):
            self.nodes[name].pass_time(by_ms)

    def deliver(self, *to: str) -> int:
        """All questions that are under way to these nodes, or to any, are answered; how many."""
        count = 0
        for name in sorted(self.up):
            node = self.nodes[name]
            for asked in [one for one in node.asked if not to or one.node in to]:
                node.asked.remove(asked)
                count += 1
                if asked.node in self.up:
                    node.replied(asked, self.nodes[asked.node].answer(name, asked.body))
                else:
                    node.replied(asked, PeerError("nobody answered"))
        return count

    def settle(self, by_ms: int = 3000) -> None:
        """Time passes, and all questions are answered."""
        for _ in range(by_ms // 500):
            self.pass_time(500)
            while self.deliver():
                self._publish_forgotten()
