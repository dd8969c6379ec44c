"""Nodes that agree about topics by the entries of a store alone: each sees what came to it.

Knows: who owns what by `Owners`, and the least that a store does.  Does not know copies, leases or a network.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator

import attrs

from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import EntryWritten, ServiceTurn, SlotKept
from distkv.core.ready import Note
from distkv.core.topics.entries import TopicView
from distkv.core.topics.owning import Owners
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.core.topics.topic_servers import SERVE
from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.topic_entries import ServerEntry, server_key, topic_key
from tests.service_steps import LIFE, WALL, KnownEntries, KnownFields, KnownNodes, ground_of

A, B, C, D = (NodeName(name) for name in "abcd")


@attrs.frozen
class Written:
    """A change of an entry, by its number and that of its writer; it replaces others."""

    number: tuple[int, str]
    key: str
    value: bytes | None
    replaces: frozenset[tuple[int, str]]


@attrs.define
class LeasesSaid:
    """What a node is told of leases."""

    silent: set[NodeName] = attrs.field(factory=set)
    """The followers that are."""
    unheard: set[NodeName] = attrs.field(factory=set)
    """Those that gave no lease since the start."""
    over: set[NodeName] = attrs.field(factory=set)
    """From whom topics may be taken over."""
    taken: list[tuple[str, NodeName]] = attrs.field(factory=list)
    is_full: bool = False
    """Whether there is no room to keep that something was taken."""

    def is_silent(self, node: NodeName, now_ms: int) -> bool:  # noqa: ARG002
        return node in self.silent

    def has_answered(self, node: NodeName) -> bool:
        return node not in self.unheard

    def last_heard_ms(self, node: NodeName) -> int | None:  # noqa: ARG002
        return None

    def may_take_over(self, node: NodeName, now_ms: int) -> bool:  # noqa: ARG002
        return node in self.over

    def took(self, turn: ServiceTurn, name: str, node: NodeName) -> None:  # noqa: ARG002
        if self.is_full:
            raise RequestError("there is no room")
        self.taken.append((name, node))


@attrs.define
class CopiesHere:
    """What a node has."""

    ids: set[str] = attrs.field(factory=set)
    is_whole: bool = True
    is_damaged: bool = False
    former: set[int] = attrs.field(factory=set)
    """By which namings they had all."""
    naming_of: Callable[[str], int | None] = attrs.field(default=lambda _: None)

    def has(self, name: str, ids: Collection[str]) -> bool:  # noqa: ARG002
        return not self.ids.isdisjoint(ids)

    def has_all(self, name: str, ids: Collection[str]) -> bool:
        return self.has(name, ids) and not self.is_damaged

    def whole(self, name: str) -> int | None:
        return self.naming_of(name) if self.is_whole else None

    def had(self, name: str) -> frozenset[int]:
        whole = self.whole(name)
        return frozenset(self.former) if whole is None else frozenset({*self.former, whole})


class TopicNode:
    """One node."""

    def __init__(
        self, name: NodeName, registered: Collection[NodeName], *, is_refusing: bool = False, **settings: int | bool
    ) -> None:
        self.name, self.settings = name, TopicSettings(**settings)  # type: ignore[arg-type]
        self.changes = dict[tuple[int, str], Written]()
        self.entries = KnownEntries()
        self.nodes = KnownNodes(frozenset(registered), frozenset(registered) - {name})
        self.leases, self.copies = LeasesSaid(), CopiesHere()
        self.life, self.now_ms, self.is_refusing = LIFE, 1000, is_refusing
        self.fields = KnownFields({node: {SERVE: True} for node in registered})
        self.notes, self.slots = list[str](), dict[str, bytes]()
        self.untold = set[str]()
        """The entries that changed together with others, and will be told."""
        self.owners = self._begun()

    def _begun(self) -> Owners:
        ground = ground_of(self.name, self.life, WALL, self.slots, self.entries)
        ground = attrs.evolve(ground, nodes=self.nodes, announced=self.fields)
        self.owners = Owners(self.settings, ground, self.leases, self.copies, random.Random(self.name), self.now_ms)
        self.copies.naming_of = self.owners.naming_of
        self.do(lambda owners, turn: owners.begin(turn))
        return self.owners

    def begin(self) -> None:
        """Start again."""
        self._begun()

    def do(self, what: Callable[[Owners, ServiceTurn], object]) -> list[EntryWritten]:
        """One step, and what the store makes of it."""
        turn = ServiceTurn(TOPICS, self.now_ms, WALL)
        what(self.owners, turn)
        written = [effect for effect in turn.effects if isinstance(effect, EntryWritten)]
        self.notes += [effect.id for effect in turn.effects if isinstance(effect, Note)]
        kept = [one for one in turn.effects if isinstance(one, SlotKept)]
        self.slots |= {one.key: one.value for one in kept if one.value is not None}
        for effect in written:
            if self.is_refusing:
                self.step(Replied(effect.purpose, RequestError("the store takes nothing")))
            else:
                here = self._left(effect.key)
                number = max((one.number[0] for one in self.changes.values()), default=0) + 1
                closed = [one for one in here[1:] if one.value in effect.closes]
                replaced = frozenset(one.number for one in (*here[:1], *closed))
                self.hear([Written((number, self.name), effect.key, effect.value, replaced)])
        if not self.untold:
            self.owners.check()
        return written

    def step(self, what: ServiceInput) -> list[EntryWritten]:
        return self.do(lambda owners, turn: owners.step(turn, what))

    def hear(self, changes: Collection[Written]) -> None:
        """What others wrote."""
        new = [one for one in changes if one.number not in self.changes]
        self.changes.update({one.number: one for one in new})
        keys = sorted({one.key for one in new})
        self.entries.found |= {key: tuple([one.value for one in self._left(key)]) for key in keys}
        self.untold.update(keys)
        for key in keys:
            self.untold.discard(key)
            self.step(EntryChanged(key))

    def _left(self, key: str) -> list[Written]:
        """All versions of an entry, the winner first."""
        gone = {number for one in self.changes.values() for number in one.replaces}
        left = [one for one in self.changes.values() if one.key == key and one.number not in gone]
        return sorted(left, key=lambda one: one.number, reverse=True)

    def alive(self, *names: NodeName) -> None:
        """Who seems alive besides."""
        self.nodes.alive = frozenset(names)
        self.step(NodesChanged())

    def lives(self, **lives: int) -> None:
        """In which lives nodes are."""
        self.nodes.lives = {**self.nodes.lives, **{NodeName(name): life for name, life in lives.items()}}
        self.step(NodesChanged())

    def lost(self, **lives: int) -> None:
        """Nodes lost their disks, are in these lives since then, and say so; this one has its rows, but no promise."""
        self.lives(**lives)
        said = [(server_key(NodeName(name)), name, life) for name, life in lives.items() if name != self.name]
        self.hear([Written((1000 + life, name), key, pack(ServerEntry(life)), frozenset()) for key, name, life in said])
        if self.name in lives:
            self.life = lives[self.name]
            self.slots.clear()
            self.begin()

    def pass_ms(self, ms: int) -> int:
        """Time passes; how many entries are written."""
        count, end_ms = 0, self.now_ms + ms
        while self.now_ms < end_ms:
            wake_ms = self.owners.wake_ms()
            self.now_ms = end_ms if wake_ms is None else min(max(wake_ms, self.now_ms + 1), end_ms)
            count += len(self.do(lambda owners, turn: owners.step(turn, ServiceWoken())))
        return count

    def put(self, topic: str = "t") -> TopicView:
        """A client puts a message into a topic here: as the owner, this node has a copy from then on."""
        found = list[TopicView]()
        self.do(lambda owners, turn: found.append(owners.begin_topic(turn, topic)))
        self.copies.ids |= found[0].ids
        return found[0]

    def view(self, topic: str = "t") -> TopicView:
        found = self.owners.view(topic)
        assert found is not None
        return found


def met(*nodes: TopicNode) -> None:
    """Each hears all that the others have."""
    while True:
        every = {number: one for node in nodes for number, one in node.changes.items()}
        if all(node.changes.keys() == every.keys() for node in nodes):
            return
        for node in nodes:
            node.hear([*every.values()])


def fleet(*names: NodeName, **settings: int | bool) -> list[TopicNode]:
    """Nodes that know each other, and keep topics."""
    return [TopicNode(name, names, **settings) for name in names]


def entries_of(node: TopicNode, topic: str = "t") -> Iterator[bytes | None]:
    """All versions there."""
    return iter(node.entries.versions(topic_key(topic)))
