"""What all nodes announce of themselves on the server tree.

Knows: what each node said last, and when.  Does not know how it came.

Invariant: a node of which nothing came for `SILENT_ANNOUNCES` announcements is forgotten: an announcement is a sign of
life (docs/protocol, TREE-9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.server_tree.parents import TreePeer
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire.announcing import Announcement, decode_announcement
from distkv.wire.edges import TreeFrame

SILENT_ANNOUNCES: Final = 3
"""A node counts as gone from the tree when so many announcements are missing."""
SPOKEN_MS: Final = 500
"""How long an announcement may be under way."""


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

    def hear(self, frame: TreeFrame, now_ms: int) -> bool:
        """A node announced something; whether it can be read."""
        try:
            self.take(frame.origin, decode_announcement(frame.body), now_ms)
        except DecodeError:
            self.bad_count += 1
            return False
        return True

    def take(self, name: NodeName, what: Announcement, now_ms: int) -> None:
        """This is what it says."""
        self.announced[name], self._heard_ms[name] = what, now_ms

    def forget_silent(self, now_ms: int) -> None:
        """Whoever says nothing any more is not there."""
        for name in [name for name, ms in self._heard_ms.items() if now_ms - ms > self.silent_ms]:
            del self._heard_ms[name], self.announced[name]

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
