"""The registry: the network, the nodes that belong to it, and the lives that are over for good.

Knows: which paths the system's own entries have, what their values say, and what those of a tree say now.  Does not
know who writes them, nor which node this is.

Invariant: a value that is not well-formed says nothing; the same entries say the same on every node, in whatever order
they came.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.errors import BadValueError, SettingsError
from distkv.model.event import LIFE_MAX, Event, Kind, NodeName, life_of
from distkv.model.invariant import must
from distkv.model.path import Path
from distkv.model.service_paths import SERVICE_NAMES, key_names, key_of
from distkv.model.tree import Tree
from distkv.naming import is_node_name, parse_address
from distkv.wire.values import pack_value, unpack_value

NETWORK_PATH: Final = Path((None,))
"""The root's reserved entry: the network's id and when it was created."""

NETWORK_ID_BYTES: Final = 8
ADDRESS_CHARS_MAX: Final = 300
"""A host name has up to 253."""

LIFE_STEP: Final = 1 << 12
"""Where the clock cannot tell, one of so many lives is the next; so few that a million attempts to join use none up."""
LIVES_SPARE: Final = 1 << 24
"""So many lives no clock can use up."""


@attrs.frozen(slots=True)
class NetworkIdentity:
    """Which network this is."""

    id: bytes
    created: float
    """Seconds since 1970 by the founder's clock; lives count from here."""

    def packed(self) -> bytes:
        """The value of the entry that says so; `network_of` reads it."""
        return pack_value({"network": self.id, "created": self.created})


@attrs.frozen(slots=True)
class Registration:
    """What the registry says of one node."""

    life: int
    addr: str
    since: float

    def packed(self) -> bytes:
        """The value of the entry that says so; `registration_of` reads it."""
        return pack_value({"life": self.life, "addr": self.addr, "since": self.since})


class Registry:
    """What the reserved entries of a tree say, kept at hand."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.network: NetworkIdentity | None = None
        self.nodes: dict[NodeName, Registration] = {}
        """The nodes that are registered and not retired."""
        self.changes = 0
        """How often that may have changed: a fleet is too many to look through at each step."""
        self.service_changes: dict[tuple[str, str], None] | None = None
        """Of which services which entries may have changed, since somebody took them last; None: nobody looks."""
        self.has_service_fences = False
        """Whether a service has written an entry under a fence: so each node that is registered can read it."""
        self.entry_changes = 0
        """How often one of them may have."""
        self.retired: dict[NodeName, list[int]] = {}
        """The lives that a person ended."""

    def reset(self, tree: Tree) -> None:
        """An empty tree takes the place of the one that was read."""
        self._tree, self.network = tree, None
        self.nodes, self.retired, self.has_service_fences = {}, {}, False
        self.changes += 1

    def is_retired(self, name: NodeName, life: int) -> bool:
        """Whether a node's life is over for good."""
        return life in self.retired.get(name, ())

    def changed(self, path: Path) -> None:
        """The tree has something else at a reserved path."""
        entry = self._tree.get(path)
        if entry is None:
            return
        if path == NETWORK_PATH:
            self.network = self.network or network_of(entry.head)
            return
        self.has_service_fences |= entry.head.fence.holds and path.names[:2] == SERVICE_NAMES
        retired = retired_of(path)
        match path.names:
            case (None, "service", str() as service, *names) if self.service_changes is not None:
                self.entry_changes += 1
                key = key_of(names) if names else ""
                if key is not None:
                    self.service_changes[service, key] = None
            case (None, "node", str() as name) if is_node_name(name):
                self._registration_changed(NodeName(name))
            case _ if retired is not None and not self.is_retired(*retired):
                node, life = retired
                self.retired.setdefault(node, []).append(life)
                self._registration_changed(node)

    def next_life(self, name: NodeName, started: float, rng: Rng, mine: int = 0) -> int:
        """The life of a directory made at `started`: above any life heard of for its name, where there is one.

        Seconds since the network's creation (docs/protocol, TICK-7), or a random step above the lives heard of: one
        that was lost before it was heard of here must not be given again.  `mine` is the present one.
        """
        created = self.network.created if self.network is not None else started
        # Clamped: a peer's `started` may be anything, and a clock that shows nonsense must leave lives to come.
        seconds = 0 if started < created else max(int(min(started - created, LIFE_MAX - LIVES_SPARE)), 1)
        taken = {life_of(tick) for tick in self._tree.ledger.ticks().get(name, ())}
        taken.update(self.retired.get(name, ()))  # such a life may have ended before its first change
        if name in self.nodes:
            taken.add(self.nodes[name].life)
        highest = max(taken, default=0)
        life = seconds if seconds > highest else highest + 1 + int(rng.random() * LIFE_STEP)
        if life <= LIFE_MAX:
            return life
        # Somebody says that the last life is taken. Nobody takes so many: it is wrong, or a lie, and ends no node.
        life = max(seconds, mine + 1)
        while life in taken or life > LIFE_MAX:
            life = life + 1 if life < LIFE_MAX else 1
        return life

    def _registration_changed(self, name: NodeName) -> None:
        """Of several entries of one name the youngest life counts; when that is retired, the name is not registered."""
        entry = self._tree.get(node_path(name))
        events = () if entry is None else (entry.head, *entry.losers)
        found = [registration for registration in map(registration_of, events) if registration is not None]
        here = max(found, key=lambda r: (r.life, r.since), default=None)
        self.changes += 1
        if here is None or self.is_retired(name, here.life):
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = here

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        again = Registry(self._tree)
        for entry in self._tree.reserved():
            again.changed(entry.head.path)
        retired = [{name: sorted(lives) for name, lives in one.retired.items()} for one in (self, again)]
        must(self.nodes == again.nodes, "the registry says what the tree has")
        must(retired[0] == retired[1], "whoever the tree retires is retired")


def node_path(name: str) -> Path:
    """Where a node is registered."""
    return Path((None, "node", name))


def is_node_path(path: Path) -> bool:
    """Whether a node of this name can be registered there."""
    match path.names:
        case (None, "node", str() as name):
            return is_node_name(name)
    return False


def service_path(service: str, key: str = "") -> Path:
    """Where a service keeps what all nodes are to know for good: an entry of its own, and others by key below it.

    Raises:
        BadValueError: there can be no such key.
    """
    return Path((None, "service", service, *key_names(key)) if key else (None, "service", service))


def retired_path(name: str, life: int) -> Path:
    """What says that a life of a node is over for good: an entry of its own, which no later entry can outbid."""
    return Path((None, "retired", name, life))


def retired_of(path: Path) -> tuple[NodeName, int] | None:
    """The node and its life of which an event at this path says that it is over."""
    match path.names:
        case (None, "retired", str() as name, int() as life) if type(life) is int:
            return (NodeName(name), life) if is_node_name(name) and 0 <= life <= LIFE_MAX else None
    return None


def network_of(event: Event) -> NetworkIdentity | None:
    """What an event at `NETWORK_PATH` says."""
    match _map_of(event):
        case {"network": bytes() as id, "created": float() | int() as created}:
            if len(id) == NETWORK_ID_BYTES and math.isfinite(created):
                return NetworkIdentity(id, float(created))
    return None


def registration_of(event: Event) -> Registration | None:
    """What an event at a `node_path` says."""
    match _map_of(event):
        case {"life": int() as life, "addr": str() as addr, "since": float() | int() as since}:
            # A NaN would not have the same order on every node.
            if 0 <= life <= LIFE_MAX and math.isfinite(since) and _is_address(addr):
                return Registration(life, addr, float(since))
    return None


def _is_address(text: str) -> bool:
    """Whether a node can be there: HOST:PORT, or nothing, of a node that nobody can connect to."""
    if len(text) > ADDRESS_CHARS_MAX or not text.isprintable() or " " in text:
        return False
    try:
        return not text or bool(parse_address(text, "addr"))
    except SettingsError:
        return False


def _map_of(event: Event) -> dict[str, object]:
    if event.kind is not Kind.SET:
        return {}
    try:
        value = unpack_value(event.value)
    except BadValueError:
        return {}
    return value if isinstance(value, dict) else {}
