"""The nodes that keep topics: which there are, which are up, and which one is to have the next topic.

Knows: what nodes announce, their entries in the store, and who seems alive or was silent.  Does not know topics.

A node may begin a new life while it runs, with all that it has. So its entry says in which life its *disk* began to
keep topics. That is a promise in a slot: it is void when the disk is an old one, and not there on an empty one.

Invariant: a node has its entry before it keeps its first topic, on each disk: so all nodes know whom to ask what he
holds, and who lost it. A node that announces that it keeps none is given none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

import attrs

from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.service_paths import key_names
from distkv.wire.declared import pack
from distkv.wire.topic_entries import SERVER, ServerEntry, is_server_key, read_server, server_key

SERVE: Final = "serve"
"""The field by which a node announces whether it keeps topics."""
SLOT: Final = "life"
SILENT_MS: Final = 10_000
"""So long a node that did not answer is asked last."""


@attrs.frozen(slots=True)
class EntryWrite:
    """The purpose of a write into the store."""

    topic: str = ""
    """Empty: that of a server."""


class TopicServers:
    """Those that one node knows, since its machine began."""

    def __init__(self, ground: ServiceGround, *, serve: bool) -> None:
        self._ground: Final = ground
        self._serve: Final = serve
        self._disks: Final = dict[NodeName, int]()
        """In which life the disk of each node began to keep topics."""
        kept = ground.slots.get(SLOT, b"").decode("ascii", "replace")
        self._disk = int(kept) if kept.isascii() and kept.isdigit() else None
        """The same of this node; None: it keeps none."""
        self._is_writing = False
        """Whether the store has not shown yet what this node wrote about itself."""
        self._silent_until: Final = dict[NodeName, int]()
        self._serving: Final = set[NodeName]()
        """Which nodes were given topics when they announced something last."""

    def begin(self, turn: ServiceTurn) -> None:
        for key in self._ground.entries.all_keys(SERVER):
            self.changed(turn, key)
        turn.announce({SERVE: self._serve})

    # -- questions

    def keepers(self) -> frozenset[NodeName]:
        """All nodes that have copies of topics, by their entries, also those that keep no new ones."""
        return self._ground.nodes.registered & self._disks.keys()

    def disk_of(self, node: NodeName) -> int | None:
        """In which life the disk of a node began; None: it is not registered. A node that begins a new life is taken to
        have its disk until it says otherwise."""
        life = self._ground.nodes.life_of(node)
        if node == self._ground.me:
            return self._disk if self._disk is not None else self._ground.life if life is None else life
        return None if life is None else self._disks.get(node, life)

    def may_keep(self) -> frozenset[NodeName]:
        """All nodes that may have some: also those whose first entry may be on its way."""
        return self.keepers() | {node for node in self._ground.nodes.registered if not self._keeps_none(node)}

    def servers(self) -> frozenset[NodeName]:
        """All nodes that are given topics."""
        return frozenset(node for node in self._ground.nodes.registered if self._serves(node))

    def is_alive(self, node: NodeName) -> bool:
        """Whether a node seems alive."""
        return node == self._ground.me or node in self._ground.nodes.alive

    def is_up(self, node: NodeName, now_ms: int) -> bool:
        """Whether a node seems alive, and answers."""
        return self.is_alive(node) and now_ms >= self._silent_until.get(node, now_ms)

    def silent_nodes(self, now_ms: int) -> frozenset[NodeName]:
        """Those that were asked lately, and said nothing."""
        return frozenset(node for node, until_ms in self._silent_until.items() if now_ms < until_ms)

    def least_loaded(self, count: Callable[[NodeName], int], now_ms: int) -> NodeName | None:
        """Which server that is up has the fewest topics; of equal ones the lowest name."""
        up = [node for node in self.servers() if self.is_up(node, now_ms)]
        return min(up, key=lambda node: (count(node), node), default=None)

    def behind(self, node: NodeName, now_ms: int, without: Collection[NodeName]) -> Iterator[NodeName]:
        """The servers that are up, in the ring of names behind a node."""
        up = sorted(one for one in self.servers() if self.is_up(one, now_ms) and one not in without)
        yield from (one for one in up if one > node)
        yield from (one for one in up if one < node)

    # -- what happens

    def register(self, turn: ServiceTurn) -> None:
        """This node is to keep a topic, or did: others are to know its disk."""
        me, key = self._ground.me, server_key(self._ground.me)
        disk = self.disk_of(me) or 0
        if self._disk is None:
            self._disk = disk
            turn.keep(SLOT, b"%d" % disk)
        values, value = self._ground.entries.versions(key), pack(ServerEntry(disk))
        if values != (value,) and not self._is_writing:
            self._is_writing = True
            turn.write(key, value, EntryWrite(), closes=values)

    def mend(self, turn: ServiceTurn) -> None:
        """If there is an entry of this node, it is to be that of its disk."""
        if self._ground.me in self._disks:
            self.register(turn)

    def refused(self) -> None:
        """The store did not take that."""
        self._is_writing = False

    def changed(self, turn: ServiceTurn, key: str) -> bool:
        """An entry is another; whether it is that of a server."""
        if not is_server_key(key):
            return False
        node, disks = NodeName(key_names(key)[1]), list[int]()
        for value in self._ground.entries.versions(key):
            try:
                disks += [] if value is None else [read_server(value)]
            except DecodeError as error:
                turn.note("topic_server_bad", node=node, reason=error.reason)
        if disks:
            self._disks[node] = disks[0]
        else:
            self._disks.pop(node, None)
        if node == self._ground.me:
            self._is_writing = False
            self.mend(turn)
        return True

    def announced(self, node: NodeName) -> bool:
        """What a node announces may be something else; whether it is given topics now and was not, or no more."""
        serves = self._serves(node)
        if serves == (node in self._serving):
            return False
        (self._serving.add if serves else self._serving.discard)(node)
        return True

    def silent(self, nodes: Iterable[NodeName], now_ms: int) -> None:
        """Nodes that were asked say nothing."""
        gone = [node for node, until_ms in self._silent_until.items() if until_ms <= now_ms]
        for node in gone:
            del self._silent_until[node]
        self._silent_until.update(dict.fromkeys(nodes, now_ms + SILENT_MS))

    # -- inside

    def _keeps_none(self, node: NodeName) -> bool:
        """Whether it announces so."""
        if node == self._ground.me:
            return not self._serve
        fields = self._ground.announced.of(node)
        return fields is not None and fields.get(SERVE) is False

    def _serves(self, node: NodeName) -> bool:
        """What a node announces goes before what its entry says."""
        if node == self._ground.me:
            return self._serve
        fields = self._ground.announced.of(node)
        if fields is not None and isinstance(fields.get(SERVE), bool):
            return fields[SERVE] is True
        return node in self._disks

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._disk is not None or not self._is_writing, "what a node says about its disk it keeps")
