"""What a node tells all others over the edges of the server tree, and what all others tell it.

Knows: the frames of each service (`flood`), the announcements (`voices`), and when the next one is due.  Does not know
why there is an edge.

Invariant: each service has numbers, bounds and a window of its own on each edge, and so have announcements, which are
said before all else: no service delays another one, nor what keeps the tree together. A frame is for its service or for
`voices`, once; each that comes on an edge is acknowledged there (docs/protocol, TREE-9 to TREE-13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from distkv.core.edges import FieldsChanged, FramesGone, TreeTurn
from distkv.core.server_tree.flood import Flood, FloodCounts
from distkv.core.server_tree.settings import TreeGround, TreeSettings
from distkv.core.server_tree.voices import OwnVoice, Voices
from distkv.model.invariant import must
from distkv.wire.announcing import ANNOUNCE, Announcement, encode_announcement
from distkv.wire.edges import (
    SERVICES_MAX,
    FrameNumbers,
    FramesAcked,
    FramesHeld,
    ServiceAcked,
    ServiceFrames,
    TreeFrame,
    TreeFrames,
)


class Broadcast:
    """All times are monotonic milliseconds."""

    def __init__(self, settings: TreeSettings, ground: TreeGround) -> None:
        self.counts: Final = FloodCounts()
        self.voices: Final = Voices(settings.announce_ms)
        self.own: Final = OwnVoice(settings.announce_ms)
        self._settings: Final = settings
        self._ground: Final = ground
        self._announced: Final = Flood(settings.me, ground.is_registered, self.counts, tells_gone=False)
        """The frames that are announcements."""
        self._floods: Final = dict[str, Flood]()
        """Those of each service."""
        self._pasts: Final = dict[int, tuple[Mapping[str, FrameNumbers], int]]()
        """By edge to a neighbour that takes frames of services, what it had of them, and since when it runs."""
        self._start = 0
        self._began_ms = 0

    def begin(self, now_ms: int, start: int) -> None:
        """The node serves clients."""
        self._start = start
        for flood in (self._announced, *self._floods.values()):
            flood.begin(start)
        self._began_ms = self.own.speak_ms = now_ms

    # -- edges

    def past(self, now_ms: int) -> FramesHeld:
        """What a neighbour must know to tell us the rest."""
        services = {service: flood.have() for service, flood in self._floods.items()}
        return FramesHeld(self._announced.have(), now_ms - self._began_ms, services)

    def open(self, edge: int, past: FramesHeld | None, now_ms: int) -> None:
        """An edge is part of the tree from now on."""
        if past is None:
            past = FramesHeld({}, 0)
        since_ms = now_ms - past.up_ms
        self._announced.open(edge, past.have, since_ms)
        if past.services is not None:
            for service in past.services:
                self._flood(service)
            self._pasts[edge] = past.services, since_ms
            for service, flood in self._floods.items():
                flood.open(edge, past.services.get(service, {}), since_ms)

    def close(self, edge: int) -> None:
        """It is over."""
        self._pasts.pop(edge, None)
        for flood in (self._announced, *self._floods.values()):
            flood.close(edge)

    # -- what comes

    def take(self, edge: int, frames: tuple[TreeFrame, ...], turn: TreeTurn) -> None:
        """Announcements came on an edge of the tree."""

        def is_sound(frame: TreeFrame) -> bool:
            services = self.voices.hear(frame, turn.now_ms)
            turn.heard += [FieldsChanged(frame.origin, service) for service in services or ()]
            return services is not None

        for frame in frames:
            if frame.service == ANNOUNCE:
                self._announced.take(edge, frame, turn.now_ms, is_sound)
        turn.say(edge, FramesAcked(len(frames)))

    def take_of_service(self, edge: int, item: ServiceFrames, turn: TreeTurn) -> None:
        """Frames of a service came on an edge of the tree: those that are new are for it."""
        service, flood = item.service, self._flood(item.service)
        if flood is not None:
            turn.heard += [frame for frame in item.frames if flood.take(edge, frame, turn.now_ms)]
            lacked = flood.lacked(edge, item.gone) if item.gone else {}
            turn.heard += [FramesGone(origin, *number, service) for origin, number in lacked.items()]
        count, size = len(item.frames) + bool(item.gone), sum(len(frame.body) for frame in item.frames)
        owed = count if flood is None else flood.came(edge, count, size)
        if owed:
            turn.say(edge, ServiceAcked(service, owed))

    def acknowledge(self, turn: TreeTurn) -> None:
        """Acknowledge all that came."""
        for service, flood in self._floods.items():
            for edge, owed in flood.all_owed():
                turn.say(edge, ServiceAcked(service, owed))

    def acked(self, edge: int, count: int) -> None:
        """A neighbour took so many announcements."""
        self._announced.acked(edge, count)

    def acked_of_service(self, edge: int, service: str, count: int) -> None:
        """A neighbour took so many frames of a service."""
        flood = self._floods.get(service)
        if flood is not None:
            flood.acked(edge, count)

    def have(self, service: str) -> FrameNumbers:
        """What was told last by each origin, of what a service says."""
        flood = self._floods.get(service)
        return {} if flood is None else flood.have()

    def forget_silent(self, turn: TreeTurn) -> None:
        """Whoever announces nothing any more is not there."""
        for name, services in self.voices.forget_silent(turn.now_ms).items():
            turn.heard += [FieldsChanged(name, service) for service in services]

    # -- what is said

    def announce(self, what: Announcement, now_ms: int) -> None:
        """Tell all where this node stands."""
        self.own.spoke(now_ms)
        for flood in (self._announced, *self._floods.values()):
            flood.forget_strangers()
        self.voices.take(self._settings.me, what, now_ms)
        self._announced.give(ANNOUNCE, encode_announcement(what), now_ms)

    def give(self, service: str, bodies: Iterable[bytes], now_ms: int) -> None:
        """A service says this to all.

        Raises:
            ValueError: one is too large.
        """
        flood = self._flood(service)
        if flood is not None:
            for body in bodies:
                flood.give(service, body, now_ms)

    def send(self, turn: TreeTurn) -> None:
        """Say on each edge what is to be said there now."""
        for edge, frames, _ in self._announced.all_due():
            turn.say(edge, TreeFrames(frames))
        for service, flood in self._floods.items():
            for edge, frames, gone in flood.all_due():
                turn.say(edge, ServiceFrames(service, frames, gone))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._floods) <= SERVICES_MAX, "there is a bound to the services of which frames are passed on")
        for flood in (self._announced, *self._floods.values()):
            flood.check()
        self.voices.check()

    # -- inside

    def _flood(self, service: str) -> Flood | None:
        """The frames of a service; None: there are too many services, and nothing of it is passed on."""
        flood = self._floods.get(service)
        if flood is None and len(self._floods) < SERVICES_MAX and service != ANNOUNCE:
            flood = self._floods[service] = Flood(self._settings.me, self._ground.is_registered, self.counts)
            flood.begin(self._start)
            for edge, (services, since_ms) in self._pasts.items():
                flood.open(edge, services.get(service, {}), since_ms)
        return flood
