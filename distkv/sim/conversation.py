"""One request to a peer over TCP, part by part, as the engine asks it and the services answer it.

Knows: when each part may leave and arrive.  Does not know what is asked or why.

Invariant: each `Ask` ends with one `PeerDone` within bounded time, if the process that asked lives so long; every part
is made when it is sent, and is durable on the side that takes it before the next one is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from distkv.core.ready import Ask, Input, PeerAnswered, PeerDone, Reply
from distkv.engine.asking import check_begin, check_part, request_of
from distkv.errors import DistkvError, PeerError
from distkv.services.parts import PartBounds, answer_parts
from distkv.sim.agenda import Agenda
from distkv.sim.host import Host, Process
from distkv.sim.network import Network
from distkv.wire.asking import encode_request
from distkv.wire.codec import Payload, encode_payload, read_payload
from distkv.wire.frames import decode_request
from distkv.wire.replies import decode_reply, encode_error, reply_error
from distkv.wire.request import ExchangeRequest, GetEvents, GetPages, GetSnapshot, PeerRequest


class Between(Protocol):
    """What lies between two sides."""

    @property
    def agenda(self) -> Agenda: ...
    @property
    def network(self) -> Network: ...
    @property
    def notes(self) -> Counter[str]:
        """What happened how often."""
    @property
    def part_bounds(self) -> PartBounds:
        """How large a part of an answer is."""

    def at_address(self, addr: str) -> Host | None:
        """The host that listens there."""

    def transferred(self, host: Host, other: Host, size: int) -> None:
        """So many bytes arrived at `host`."""

    def streamed(self, host: Host, other: Host, size: int) -> None:
        """So many bytes of a follow arrived at `host`."""

    def delivered(self, host: Host, what: Input) -> None:
        """Something is about to be handed to a process."""


class Conversation:
    """One request and its answer."""

    def __init__(self, between: Between, asker: Process, ask: Ask) -> None:
        self._between = between
        self._asker = asker
        self._ask = ask
        self._peer: Process | None = None
        self._parts: Iterator[Payload] = iter(())
        self._progress = 0
        self._is_over = False

    def begin(self) -> None:
        """The request is made now, and leaves when all that it shows is durable."""
        asker = self._asker
        try:
            check_begin(self._ask, asker.host.disk.has_room)
        except PeerError as error:
            self._travel(partial(self._end, error))
            return
        request, size = _read_request(request_of(self._ask, asker.replica))
        asker.when_durable(lambda: self._travel(lambda: self._arrive(request, size)))
        self._watch()

    def reset(self) -> None:
        """The peer's process has ended."""
        self._travel(lambda: self._fail(f"{self._ask.addr}: the connection broke"))

    def forget(self) -> None:
        """The peer's machine has forgotten the connection: the asker is left to its patience."""
        if self._peer is not None:
            self._peer.serving.pop(self, None)
            self._peer = None
            if not self._between.network.faults.silence_ms:
                self._travel(lambda: self._fail(f"{self._ask.addr} does not answer"))

    # -- on the peer's side

    def _arrive(self, request: PeerRequest, size: int) -> None:
        """The request is there, if anybody is."""
        host = self._between.at_address(self._ask.addr)
        peer = host.process if host is not None else None
        if host is None or peer is None:
            self._fail(f"{self._ask.addr}: nobody listens")
        elif self._may_pass(host) and not self._is_over:
            self._between.transferred(host, self._asker.host, size)
            self._peer = peer
            step = partial(self._offer, peer)
            self._parts = answer_parts(request, peer.replica, step, peer.check_room, self._between.part_bounds)
            peer.serving[self] = None
            host.give(peer, self._send_next)

    def _send_next(self) -> None:
        """Make the next part, and send it when everything in it is durable."""
        peer = self._peer
        if peer is None or self._is_over:
            return
        part: Payload | DistkvError | None
        try:
            part = next(self._parts, None)
        except DistkvError as error:
            part = _read_error(error)
        if part is None or isinstance(part, DistkvError):
            peer.serving.pop(self, None)
        asker = self._asker
        peer.when_durable(lambda: self._travel(lambda: asker.host.give(asker, lambda: self._deliver(peer, part))))

    def _offer(self, peer: Process, what: Input) -> Reply | None:
        self._between.delivered(peer.host, what)
        return peer.step(what).reply

    # -- on the asker's side

    def _deliver(self, peer: Process, part: Payload | DistkvError | None) -> None:
        """A part of the answer is here, or its end, or why there is none."""
        asker = self._asker
        if self._is_over or not self._may_pass(peer.host):
            return
        if self._between.network.breaks(asker.host.name, peer.host.name):
            self._fail(f"{self._ask.addr}: the connection broke")
        elif part is None or isinstance(part, DistkvError):
            self._end(part)
        else:
            self._take(peer, part)

    def _take(self, peer: Process, part: Payload) -> None:
        asker, between = self._asker, self._between
        if asker.host.disk.is_short:  # else there is room for anything
            try:
                check_part(part, asker.host.disk.has_room)
            except PeerError as error:
                self._end(error)
                return
        self._progress += 1
        read, size = _read_part(part)
        answer = PeerAnswered(self._ask.id, read)
        between.transferred(asker.host, peer.host, size)
        between.delivered(asker.host, answer)
        asker.step(answer)
        asker.when_durable(lambda: peer.host.give(peer, self._send_next))
        self._watch()

    # -- between them

    def _travel(self, then: Callable[[], object]) -> None:
        between = self._between
        between.agenda.later(between.network.answer_ms(self._asker.host.name, self._ask.addr), then)

    def _may_pass(self, other: Host) -> bool:
        """Whether the two sides reach each other; when not, the asker is left to its patience."""
        network = self._between.network
        connects = network.connects(self._asker.host.name, other.name)
        if not connects and not network.faults.silence_ms:
            self._fail(f"{self._ask.addr} does not answer")
        return connects

    def _watch(self) -> None:
        """Give up when nothing comes for a while."""
        silence_ms, progress = self._between.network.faults.silence_ms, self._progress
        if silence_ms:
            self._between.agenda.later(silence_ms, lambda: self._give_up(progress))

    def _give_up(self, progress: int) -> None:
        if self._progress == progress and not self._is_over:
            self._fail(f"{self._ask.addr} does not answer")

    def _fail(self, why: str) -> None:
        self._end(PeerError(why))

    def _end(self, error: DistkvError | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        asker, peer = self._asker, self._peer
        if peer is not None:
            peer.serving.pop(self, None)
        asker.host.give(asker, partial(asker.step, PeerDone(self._ask.id, error)))


def _read_request(request: PeerRequest) -> tuple[PeerRequest, int]:
    """What the other side makes of the bytes, and how many they are."""
    data = encode_request(request)
    read = decode_request(data)
    if not isinstance(read, ExchangeRequest | GetEvents | GetPages | GetSnapshot):
        raise TypeError(f"a peer takes {type(request).__name__} for {type(read).__name__}")
    return read, len(data)


def _read_part(part: Payload) -> tuple[Payload, int]:
    """The same of a part of an answer."""
    data = encode_payload(1, part)
    return read_payload(decode_reply(data)), len(data)


def _read_error(error: DistkvError) -> DistkvError | None:
    return reply_error(decode_reply(encode_error(1, error)))
