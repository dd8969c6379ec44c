"""One follow over TCP, item by item, as a server gives it and another one takes it.

Knows: when each item may leave and arrive, and how silence is noticed.  Does not know whom a node follows.  Real are
the order of what is told (`services.streaming`) and its bytes; not real is the stream between the two.

Invariant: each follow ends with one `FollowEnded` within bounded time after nothing comes any more, if the process that
follows lives so long and wants it still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from distkv.core.ready import FollowBegan, FollowEnded, FollowFrom, FollowTold, Input
from distkv.errors import PeerError
from distkv.model.event import NodeName
from distkv.services.streaming import Streaming
from distkv.services.telling import Durable, Send, Wait
from distkv.sim.conversation import Between
from distkv.sim.host import Host, Process
from distkv.wire.asking import encode_request
from distkv.wire.following import FollowItem, encode_alive, read_item
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.replies import decode_reply, is_end
from distkv.wire.request import Follow
from distkv.wire.room import events_room

SILENT_MS: Final = 3000
ALIVE_MS: Final = 1000
ALIVE: Final = encode_alive()
"""The sign of life: there are so many in a large fleet that each is neither made nor read anew."""


class FollowStream:
    """One follow."""

    def __init__(self, between: Between, asker: Process, follow: FollowFrom) -> None:
        self._between: Final = between
        self._asker: Final = asker
        self._follow: Final = follow
        self._peer: Process | None = None
        self._streaming: Streaming | None = None
        self._is_over = False
        self._is_forgotten = False
        """Whether the peer's machine has forgotten the connection, of which the asker was not told."""
        self._is_lost = False
        """Whether the asker's has, of which the peer was not told."""
        self._is_sending = False
        self._heard_ms = self._answered_ms = between.agenda.now_ms
        self._is_seen = False
        self._sent_ms = between.agenda.now_ms

    def begin(self) -> None:
        """Take the place of what was followed there before."""
        before = self._asker.following.pop(self._follow.name, None)
        if before is not None:
            before.close()
        if self._follow.nodes:
            self._asker.following[self._follow.name] = self
            self._travel(self._arrive)
            self._between.agenda.later(SILENT_MS, self._watch)

    def close(self) -> None:
        """The asker wants it no more, or has ended."""
        self._is_over = True
        self._leave()

    def reset(self) -> None:
        """The peer's process has ended."""
        self._streaming = None
        self._travel(partial(self._fail, "the connection broke"))

    def forget(self) -> None:
        """The peer's machine has forgotten the connection: to the asker the peer is silent."""
        self._is_forgotten = True
        peer, is_seen = self._peer, self._is_seen
        self._is_seen = False
        self._leave()
        if peer is not None and is_seen and peer.is_running:
            _unsee(peer, self._asker.host.node)

    def lose(self) -> None:
        """The asker's machine has forgotten the connection: to the peer the asker is silent."""
        self._is_lost = True
        self._tell_asker("the connection broke")

    # -- on the peer's side

    def _arrive(self) -> None:
        host = self._between.at_address(self._follow.addr)
        peer = host.process if host is not None else None
        if self._is_over:
            return
        if host is None or peer is None:
            self._fail("nobody listens")
        elif self._may_pass(self._asker.host, host):
            nodes, network = dict(self._follow.nodes), self._asker.replica.network_id
            asked = Follow(1, nodes, node=self._asker.host.node, network=network)
            request = decode_request(encode_request(asked))
            if not isinstance(request, Follow):
                raise TypeError(f"{request} is no follow")
            self._peer = peer
            peer.serving[self] = None
            host.give(peer, partial(self._serve, peer, request))

    def _serve(self, peer: Process, request: Follow) -> None:
        self._travel(partial(self._deliver, FollowBegan(self._follow.follow)))
        self._keep_alive(peer, request)

    def _keep_alive(self, peer: Process, request: Follow) -> None:
        """Begin when the node serves; a sign of life each second without another item."""
        if self._is_over or self._is_forgotten or not peer.is_running:
            return
        self._see(peer)
        if self._is_lost and not self._is_seen and self._between.agenda.now_ms - self._answered_ms >= SILENT_MS:
            self.close()
            return
        if peer.replica.is_serving and request.network != peer.replica.network_id:
            self._travel(partial(self._fail, "belongs to another network"))
            return
        if self._streaming is None and peer.replica.is_serving:
            node = _StreamingProcess(peer, self._between)
            self._streaming = Streaming(node, peer.followers, request, self._send_nowait)
            self._go_on(peer)
        elif self._between.agenda.now_ms - self._sent_ms >= ALIVE_MS and not self._is_sending:
            self._send(ALIVE)
        self._between.agenda.later(ALIVE_MS, lambda: peer.host.give(peer, partial(self._keep_alive, peer, request)))

    def _see(self, peer: Process) -> None:
        """Whether the other side is there: it gives signs of life, too."""
        asker, now_ms = self._asker, self._between.agenda.now_ms
        if not self._is_lost and not asker.host.is_paused and self._may_pass(asker.host, peer.host):
            self._answered_ms = now_ms
        is_seen = self._streaming is not None and now_ms - self._answered_ms < SILENT_MS
        if is_seen != self._is_seen and peer.host.node in self._follow.nodes:
            self._is_seen = is_seen
            peer.followed(asker.host.node, is_seen=is_seen)

    def _go_on(self, peer: Process) -> None:
        """As far as nothing has to be waited for."""
        streaming = self._streaming
        while streaming is not None and not self._is_over:
            effect = streaming.go_on()
            match effect:
                case None:
                    return
                case Durable(position=position):
                    if position > peer.host.disk.durable:
                        peer.when_durable(lambda: self._travel_here(peer))
                        return
                case Send(data=data):
                    self._is_sending = True
                    self._send(data)
                    return
                case Wait():
                    follower = streaming.follower
                    if not follower.has_news:
                        follower.woken, follower.is_waiting = partial(self._woken, peer), True
                        return
                case _:
                    assert_never(effect)

    def _travel_here(self, peer: Process) -> None:
        self._between.agenda.later(0, lambda: peer.host.give(peer, partial(self._go_on, peer)))

    def _woken(self, peer: Process) -> None:
        streaming = self._streaming
        if streaming is not None and streaming.follower.is_waiting:
            streaming.follower.check()
            streaming.follower.is_waiting = False
            self._travel_here(peer)

    def _send_nowait(self, data: bytes) -> bool:
        if self._is_sending:
            return False
        self._is_sending = True
        self._send(data)
        return True

    def _send(self, data: bytes) -> None:
        self._sent_ms = self._between.agenda.now_ms
        self._travel(partial(self._come, data))

    # -- on the asker's side

    def _come(self, data: bytes) -> None:
        asker, peer = self._asker, self._peer
        if self._is_over or self._is_lost or self._is_forgotten or peer is None:
            return
        if not self._may_pass(asker.host, peer.host):
            return
        if self._between.network.breaks(asker.host.name, peer.host.name):
            self._fail("the connection broke")
            return
        self._heard_ms = self._between.agenda.now_ms
        self._between.streamed(asker.host, peer.host, len(data))
        asker.host.give(asker, partial(self._take, data))

    def _take(self, data: bytes) -> None:
        if data is ALIVE:
            self._deliver(FollowTold(self._follow.follow, (), {}))
        else:
            self._take_items(data)
        self._asker.when_durable(partial(self._travel, self._taken))

    def _take_items(self, data: bytes) -> None:
        reader = FrameReader()  # each time, for it would keep memory: what is sent at once is whole
        reader.feed(data)
        for frame in reader:
            fields = decode_reply(frame)
            if is_end(fields) or self._is_over:
                return
            item = read_item(fields)
            if item.events and not self._asker.host.disk.has_room(events_room(item.events)):
                self._fail("the disk is full")
                return
            self._deliver(self._told(item))

    def _taken(self) -> None:
        """The asker has room for more."""
        peer, streaming = self._peer, self._streaming
        if self._is_sending and peer is not None and streaming is not None and not self._is_over:
            self._is_sending = False
            peer.host.give(peer, partial(self._free, peer, streaming))

    def _free(self, peer: Process, streaming: Streaming) -> None:
        if not streaming.follower.is_waiting:
            self._go_on(peer)
        elif streaming.follower.has_news:
            self._woken(peer)

    def _told(self, item: FollowItem) -> FollowTold:
        return FollowTold(self._follow.follow, item.events, item.known)

    def _deliver(self, what: Input) -> None:
        asker = self._asker
        if not self._is_over and asker.is_running:
            self._between.delivered(asker.host, what)
            asker.host.give(asker, partial(asker.step, what))

    def _watch(self) -> None:
        """Leave a peer that is silent; a process that stands still itself notices nothing."""
        if self._is_over or not self._asker.is_running:
            return
        if self._is_lost:
            return
        now_ms = self._between.agenda.now_ms
        if now_ms - self._heard_ms >= SILENT_MS and not self._asker.host.is_paused:
            self._fail("it is silent")
        else:
            self._between.agenda.later(ALIVE_MS, self._watch)

    # -- between them

    def _travel(self, then: Callable[[], object]) -> None:
        between = self._between
        between.agenda.later(between.network.answer_ms(self._asker.host.name, self._follow.addr), then)

    def _may_pass(self, one: Host, other: Host) -> bool:
        return self._between.network.connects(one.name, other.name)

    def _fail(self, why: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._leave()
        if not self._is_lost:
            self._tell_asker(why)

    def _tell_asker(self, why: str) -> None:
        asker, error = self._asker, PeerError(f"{self._follow.addr}: {why}")
        if asker.following.get(self._follow.name) is self:
            del asker.following[self._follow.name]
        asker.host.give(asker, partial(asker.step, FollowEnded(self._follow.follow, error)))

    def _leave(self) -> None:
        peer, streaming = self._peer, self._streaming
        if peer is not None:
            peer.serving.pop(self, None)
            if self._is_seen and peer.is_running:
                self._is_seen = False
                self._between.agenda.later(0, partial(_unsee, peer, self._asker.host.node))
            if streaming is not None:
                peer.followers.remove(streaming.follower)
        self._streaming = None


def _unsee(peer: Process, asker: NodeName) -> None:
    """Later: the peer may choose others to follow then, and leave somebody who does the same in his turn."""
    peer.host.give(peer, partial(peer.followed, asker, is_seen=False))


class _StreamingProcess:
    """The node of a follow."""

    def __init__(self, process: Process, between: Between) -> None:
        self.replica: Final = process.replica
        self.counters: Final[Counter[str]] = between.notes
        self._host: Final = process.host

    @property
    def position(self) -> int:
        return self._host.disk.appended
