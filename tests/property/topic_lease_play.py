"""Owners and followers of one topic that sleep, are killed and start anew, on clocks that drift, without a split.

Knows: the rules of leases, and a store of one entry that comes to all nodes that are awake within a moment.  Does not
know what is answered under a lease.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from distkv.core.ground.machine import EntryChanged
from distkv.model.event import NodeName
from distkv.model.invariant import must
from tests.topic_copies import CopyNode, Fleet, Named

T = "news"
ENTRY = b"entry "
"""How a word begins that brings an entry."""
ALIVE_MS = 1500
"""Who said something within so long seems alive."""


@attrs.frozen
class Version:
    """Of the entry."""

    number: int
    says: Named
    replaces: frozenset[int]


@attrs.define(eq=False)
class LeaseNode(CopyNode):
    """One that writes entries by what leases say."""

    versions: dict[int, Version] = attrs.field(factory=dict)
    """By their numbers: those that it has seen."""
    kept: dict[int, Version] = attrs.field(factory=dict)
    """Those of them that are on the disk."""
    heard_ms: dict[NodeName, int] = attrs.field(factory=dict)

    @property
    def play(self) -> LeasePlay:
        assert isinstance(self.fleet, LeasePlay)
        return self.fleet

    # -- the entry

    def current(self) -> list[Version]:
        """Those that no other one replaces."""
        replaced = {number for one in self.versions.values() for number in one.replaces}
        return [one for number, one in self.versions.items() if number not in replaced]

    def entry(self, name: str) -> Named | None:  # noqa: ARG002
        return min((one.says for one in self.current()), key=lambda says: says.owner, default=None)

    def write(self, owner: NodeName, followers: Collection[NodeName]) -> None:
        replaces = frozenset(one.number for one in self.current())
        self.play.written += 1
        version = Version(self.play.written, Named(owner, frozenset(followers)), replaces)
        self.play.all_versions[version.number] = version
        self.versions[version.number] = version
        late_ms = self.fleet.chance.randint(0, self.fleet.disk_ms)
        last_ms = self.pending[-1][0] if self.pending else self.fleet.now_ms
        self.pending.append((max(last_ms, self.fleet.now_ms + late_ms), [version]))

    def sync(self) -> None:
        effects = self.pending[0][1]
        for version in [effect for effect in effects if isinstance(effect, Version)]:
            self.kept[version.number] = version
            for node in sorted(self.fleet.nodes.keys() - {self.me}):
                self.play.bring(self.me, node, version)
        super().sync()

    def told(self, sender: NodeName, body: bytes) -> None:
        self.heard_ms[sender] = self.boot_ms
        if body.startswith(ENTRY):
            version = self.play.all_versions[int(body.removeprefix(ENTRY))]
            self.versions[version.number] = self.kept[version.number] = version
            turn = self.turn()
            self.leases.step(turn, EntryChanged(T))
            self._end(turn)
            self.look(T)
        else:
            super().told(sender, body)
        self.mend()

    def wake(self) -> None:
        super().wake()
        self.mend()

    def start(self) -> None:
        self.versions, self.heard_ms = dict(self.kept), {}
        super().start()

    def crash(self) -> None:
        entries = [one for one in self.fleet.under_way if one[3] == self.me and one[4].startswith(ENTRY)]
        super().crash()
        self.fleet.under_way += entries

    # -- what follows from leases

    def mend(self) -> None:
        """Leave out who is silent; take the place of an owner that is; name who is there."""
        entry = self.entry(T)
        if entry is None:
            return
        turn = self.turn()
        if entry.owner == self.me:
            silent = {node for node in entry.followers if self.leases.is_silent(node, self.boot_ms)}
            for node in sorted(silent):
                self.leases.took(turn, T, node)
            others = [node for node in self.fleet.nodes if node not in (self.me, *entry.followers)]
            added = {node for node in others if self.is_alive(node) and self.fleet.chance.random() < 0.2}
            if silent or added or len(self.current()) > 1:
                self.write(self.me, (entry.followers - silent) | added)
        elif self.me in entry.followers and not self.is_alive(entry.owner):
            if self.leases.may_take_over(entry.owner, self.boot_ms):
                self.leases.took(turn, T, entry.owner)
                self.write(self.me, entry.followers - {self.me})
        self.leases.look(turn)
        self._end(turn)

    def may_answer(self) -> bool:
        """Whether it answers gets now."""
        entry = self.entry(T)
        if not self.is_up or self.is_paused or self.pending or entry is None or entry.owner != self.me:
            return False
        others = {one.says.owner for one in self.current()} - {self.me}
        if any(self.play.lease_node(node).owner_of(T) != self.me for node in others):
            return False  # it lacks what these have: they did not join it yet
        return self.leases.may_answer(T, entry.followers, self.boot_ms)

    def is_alive(self, node: NodeName) -> bool:
        heard_ms = self.heard_ms.get(node)
        return heard_ms is not None and self.boot_ms - heard_ms <= ALIVE_MS

    def needed(self) -> Collection[NodeName]:
        return self.followers_of(T)

    def peers(self) -> Collection[NodeName]:
        return self.fleet.nodes.keys() - {self.me} if self.is_mine(T) else ()

    def suspects(self) -> Collection[NodeName]:
        entry = self.entry(T)
        is_suspect = entry is not None and self.me in entry.followers and not self.is_alive(entry.owner)
        return {entry.owner} if entry is not None and is_suspect else ()

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        return self.owner_of(name) == node and all(one.says.owner != self.me for one in self.current())

    def knows_taken(self, name: str, node: NodeName) -> bool:
        return not self.is_mine(name) or any(one.says.owner == node for one in self.current())


@attrs.define
class LeasePlay(Fleet):
    """All of it."""

    written: int = 0
    all_versions: dict[int, Version] = attrs.field(factory=dict)
    answers: int = 0
    """At how many moments somebody could answer."""

    def lease_node(self, me: NodeName) -> LeaseNode:
        node = self.nodes[me]
        assert isinstance(node, LeaseNode)
        return node

    def bring(self, sender: NodeName, receiver: NodeName, version: Version) -> None:
        """A version comes to a node, for sure."""
        self.count += 1
        at_ms = self.now_ms + self.chance.randint(1, self.delay_ms)
        self.under_way.append((at_ms, self.count, sender, receiver, ENTRY + b"%d" % version.number))

    def check(self) -> None:
        """No two nodes may answer for the topic."""
        answering = [node for node in self.nodes if self.lease_node(node).may_answer()]
        self.answers += bool(answering)
        must(len(answering) <= 1, f"one node at the most answers, not {answering}, at {self.now_ms} ms")
