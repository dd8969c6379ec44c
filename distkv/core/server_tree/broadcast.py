"""What a node tells all others over the edges of the server tree, and what all others tell it.

Knows: the frames (`flood`), which of them are announcements (`voices`), and when the next one is due.  Does not know
why there is an edge.

Invariant: a frame is for its service or for `voices`, once; each frame that comes on an edge is acknowledged there
(docs/protocol, TREE-9 to TREE-11).
"""

from __future__ import annotations

from typing import Final

from distkv.core.edges import TreeTurn
from distkv.core.server_tree.flood import Flood
from distkv.core.server_tree.settings import TreeGround, TreeSettings
from distkv.core.server_tree.voices import Voices
from distkv.wire.announcing import ANNOUNCE, Announcement, encode_announcement
from distkv.wire.edges import FramesAcked, FramesHeld, TreeFrame, TreeFrames


class Broadcast:
    """All times are monotonic milliseconds."""

    def __init__(self, settings: TreeSettings, ground: TreeGround) -> None:
        self.flood: Final = Flood(settings.me, ground.is_registered)
        self.voices: Final = Voices(settings.announce_ms)
        self.services: Final = dict[str, object]()
        """What services add to the announcements."""
        self.load = 0
        """How many connections the node serves: it announces that."""
        self.speak_ms = 0
        """When the next announcement is due."""
        self._settings: Final = settings
        self._began_ms = 0

    def begin(self, now_ms: int, start: int) -> None:
        """The node serves clients."""
        self.flood.begin(start)
        self._began_ms = self.speak_ms = now_ms

    def past(self, now_ms: int) -> FramesHeld:
        """What a neighbour must know to tell us the rest."""
        return FramesHeld(self.flood.have(), now_ms - self._began_ms)

    def open(self, edge: int, past: FramesHeld | None, now_ms: int) -> None:
        """An edge is part of the tree from now on."""
        have, up_ms = ({}, 0) if past is None else (past.have, past.up_ms)
        self.flood.open(edge, have, now_ms - up_ms)

    def take(self, edge: int, frames: tuple[TreeFrame, ...], turn: TreeTurn) -> None:
        """Frames came on an edge of the tree: those that are new are for their services."""

        def is_sound(frame: TreeFrame) -> bool:
            return frame.service != ANNOUNCE or self.voices.hear(frame, turn.now_ms)

        for frame in frames:
            if self.flood.take(edge, frame, turn.now_ms, is_sound) and frame.service != ANNOUNCE:
                turn.deliver(frame)
        turn.say(edge, FramesAcked(len(frames)))

    def announce(self, what: Announcement, now_ms: int) -> None:
        """Tell all where this node stands."""
        self.speak_ms = now_ms + self._settings.announce_ms
        self.flood.forget_strangers()
        self.voices.take(self._settings.me, what, now_ms)
        self.flood.give(ANNOUNCE, encode_announcement(what), now_ms)

    def send(self, turn: TreeTurn) -> None:
        """Say on each edge what is to be said there now."""
        for edge, frames in self.flood.all_due():
            turn.say(edge, TreeFrames(frames))
