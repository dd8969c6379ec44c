"""What all nodes announce of themselves on the server tree.

Knows: what each node said last, and when.  Does not know how it came.

Invariant: a node of which nothing came for `SILENT_ANNOUNCES` announcements is forgotten: an announcement is a sign of
life (docs/protocol, TREE-9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from distkv.core.server_tree.parents import TreePeer
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.announcing import FENCES, GROUND, Announcement, decode_announcement, fitting
from distkv.wire.edges import TreeFrame

SILENT_ANNOUNCES: Final = 3
"""A node counts as gone from the tree when so many announcements are missing."""
SPOKEN_MS: Final = 500
"""How long an announcement may be under way."""
FIELDS_MS: Final = 500
"""So soon after an announcement fields that changed are announced."""


class OwnVoice:
    """What this node announces, besides its place, and when. All times are monotonic milliseconds."""

    def __init__(self, announce_ms: int) -> None:
        self.load = 0
        """How many connections the node serves."""
        self.fields: Final = dict[str, Mapping[str, object]]()
        """What services add."""
        self.speak_ms = 0
        """When the next announcement is due."""
        self._announce_ms: Final = announce_ms
        self._spoke_ms = -FIELDS_MS

    def spoke(self, now_ms: int) -> None:
        """It was announced."""
        self._spoke_ms, self.speak_ms = now_ms, now_ms + self._announce_ms

    def speak_by(self, at_ms: int) -> None:
        """It is to be announced at this time, if not before."""
        self.speak_ms = min(self.speak_ms, at_ms)

    def said_fields(self) -> dict[str, Mapping[str, object]]:
        """What is announced of services, as far as an announcement has room for it."""
        return {GROUND: FENCES, **fitting(self.fields)}

    def change(self, service: str, fields: Mapping[str, object] | None, now_ms: int) -> None:
        """A service adds this from now on; None: nothing. It is announced soon, and not too often."""
        if self.fields.get(service) == fields:
            return
        self.fields.pop(service, None)
        if fields is not None:
            self.fields[service] = fields
        self.speak_by(max(now_ms, self._spoke_ms + FIELDS_MS))


class Voices:
    """All times are monotonic milliseconds."""

    def __init__(self, announce_ms: int) -> None:
        self.announced: Final = dict[NodeName, Announcement]()
        """What each node said last, if that is not long ago."""
        self.bad_count = 0
        """How many could not be read."""
        self.silent_ms: Final = SILENT_ANNOUNCES * announce_ms
        self._announce_ms: Final = announce_ms
        self._heard_ms: Final = dict[NodeName, int]()
        self._settled_ms = 0
        """Since when this node has had its place."""
        self._cut_ms = 0
        """When an edge to a child ended."""

    def hear(self, frame: TreeFrame, now_ms: int) -> list[str] | None:
        """A node announced something; the services of which it says something else than before. None: it cannot be
        read."""
        try:
            what = decode_announcement(frame.body)
        except DecodeError:
            self.bad_count += 1
            return None
        before = self.announced.get(frame.origin)
        self.take(frame.origin, what, now_ms)
        old, new = {} if before is None else before.services, what.services
        return sorted(name for name in {**old, **new} if old.get(name) != new.get(name)) if old or new else []

    def take(self, name: NodeName, what: Announcement, now_ms: int) -> None:
        """This is what it says."""
        self.announced[name], self._heard_ms[name] = what, now_ms

    def heard_ms(self, name: NodeName) -> int | None:
        """When a node announced itself last; None: not lately."""
        return self._heard_ms.get(name)

    def forget_silent(self, now_ms: int) -> dict[NodeName, Iterable[str]]:
        """Whoever says nothing any more is not there; of which services each of them said something."""
        gone = [name for name, ms in self._heard_ms.items() if now_ms - ms > self.silent_ms]
        for name in gone:
            del self._heard_ms[name]
        return {name: self.announced.pop(name).services for name in gone}

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.announced.keys() == self._heard_ms.keys(), "of each announcement it is known when it came")

    # -- who is missed

    def settle(self, now_ms: int) -> None:
        """This node has another place: whoever is in its tree is told, and speaks to it there."""
        self._settled_ms = now_ms

    def cut(self, now_ms: int) -> None:
        """An edge to a child ended: who was below it may be in another tree now."""
        self._cut_ms = now_ms

    def is_settled(self, now_ms: int) -> bool:
        """Whether this node has had its place for so long that everybody in its tree spoke."""
        return now_ms - self._settled_ms >= 2 * self._announce_ms

    def is_missed(self, parent: NodeName, now_ms: int) -> bool:
        """Whether the parent should have been heard by now, and was not."""
        return now_ms - self._settled_ms > self.silent_ms and parent not in self.announced

    def strangers(self, peers: Mapping[NodeName, TreePeer], now_ms: int, *, has_edges: bool) -> list[NodeName]:
        """Nodes that seem alive, and of which nothing came by the tree lately, or since this node has its place and its
        edges: whoever is in its tree still speaks within the time of an announcement. Those with a connection come
        first."""
        changed_ms, heard = max(self._settled_ms, self._cut_ms), self._heard_ms
        is_early = has_edges and now_ms - changed_ms < self._announce_ms + SPOKEN_MS
        since_ms = 0 if is_early else changed_ms
        found = [name for name in peers if name not in heard or heard[name] < since_ms]
        return sorted(found, key=lambda name: (peers[name].rtt_ms is None, name))
