"""What a node tells all others over the edges of the server tree, and what all others tell it.

Knows: the frames (`flood`), and which of them are announcements (`voices`).  Does not know why there is an edge.

Invariant: a frame is for its service or for `voices`, once; each frame that comes on an edge is acknowledged there
(docs/protocol, TREE-9 to TREE-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from distkv.core.server_tree.flood import Flood
from distkv.core.server_tree.voices import Voices
from distkv.model.event import NodeName
from distkv.wire.announcing import ANNOUNCE, Announcement, encode_announcement
from distkv.wire.edges import FramesHeld, TreeFrame


class Broadcast:
    """All times are monotonic milliseconds."""

    def __init__(self, me: NodeName, announce_ms: int, is_registered: Callable[[NodeName], bool]) -> None:
        self.flood: Final = Flood(me, is_registered)
        self.voices: Final = Voices(announce_ms)
        self.services: Final = dict[str, object]()
        """What services add to the announcements."""
        self._me: Final = me
        self._began_ms = 0

    def begin(self, now_ms: int, start: int) -> None:
        """The node serves clients."""
        self.flood.begin(start)
        self._began_ms = now_ms

    def past(self, now_ms: int) -> FramesHeld:
        """What a neighbour must know to tell us the rest."""
        return FramesHeld(self.flood.have(), now_ms - self._began_ms)

    def open(self, edge: int, past: FramesHeld | None, now_ms: int) -> None:
        """An edge is part of the tree from now on."""
        have, up_ms = ({}, 0) if past is None else (past.have, past.up_ms)
        self.flood.open(edge, have, now_ms - up_ms)

    def take(self, edge: int, frames: tuple[TreeFrame, ...], now_ms: int) -> Iterator[TreeFrame]:
        """Frames came on an edge: those that are new, for their services."""


        def is_sound(frame: TreeFrame) -> bool:
            return frame.service != ANNOUNCE or self.voices.hear(frame, now_ms)

        for frame in frames:
            if self.flood.take(edge, frame, now_ms, is_sound) and frame.service != ANNOUNCE:
                yield frame

    def announce(self, what: Announcement, now_ms: int) -> None:
        """Tell all where this node stands."""
        self.flood.forget_strangers()
        self.voices.take(self._me, what, now_ms)
        self.flood.give(ANNOUNCE, encode_announcement(what), now_ms)
