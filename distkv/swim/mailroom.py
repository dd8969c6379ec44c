"""What comes to a node goes to the part that knows what it is about.

Knows: who may be believed, what is answered, and where an answer goes.  Does not know what is believed in the end.

Invariant: a direct question is answered where it came from; one that was relayed there, too, and at the address that
the asker's own record has. Whom nobody vouches for is answered, with nothing in it, and is believed nothing
(docs/protocol, SWIM-23, SWIM-27).
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

import attrs

from distkv.errors import FrameError
from distkv.swim.doorkeeper import Doorkeeper
from distkv.swim.hearsay import Hearsay
from distkv.swim.inputs import Joined, MessageHeard
from distkv.swim.join import Joiner
from distkv.swim.key_keeper import KeyKeeper
from distkv.swim.members import MemberEntry
from distkv.swim.namesakes import Namesakes
from distkv.swim.node import SwimNode
from distkv.swim.probe import Prober, Purpose
from distkv.swim.relays import Relays
from distkv.swim.repair import Repair
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import (
    BroadcastFrame,
    Frame,
    GossipFrame,
    JoinAck,
    JoinCode,
    JoinNak,
    JoinRedirect,
    JoinRequest,
    Leave,
    Nack,
    PingFrame,
    PongFrame,
    decode_frame,
)
from distkv.wire.swim_records import Address, MemberState, NodeRecord, Payload, Rumour, numeric_address


@attrs.frozen(slots=True, eq=False)
class SwimParts:
    """All parts of one machine."""

    node: SwimNode
    prober: Prober
    relays: Relays
    repair: Repair
    joiner: Joiner
    doorkeeper: Doorkeeper
    namesakes: Namesakes
    hearsay: Hearsay
    keeper: KeyKeeper

    def check(self) -> None:
        self.node.check()
        for part in (self.prober, self.relays, self.repair, self.joiner, self.doorkeeper, self.namesakes, self.keeper):
            part.check()


class Mailroom:
    """Where datagrams are sorted."""

    def __init__(self, parts: SwimParts) -> None:
        self._parts = parts
        self._node = parts.node

    def take(self, address: Address, data: bytes, turn: SwimTurn) -> None:
        """A datagram came from this address."""
        node, dropped = self._node, self._node.counts.dropped
        node.counts.heard_datagrams += 1
        opened = node.seal.open(data)
        if isinstance(opened, str):
            dropped[opened] += 1
            return
        try:
            frame = decode_frame(opened.frame)
        except FrameError as error:
            dropped[error.reason] += 1
            return
        teller = Teller(address, opened.start, opened.start is None or opened.is_bound)
        if not self._handle(teller, frame, turn):
            dropped["stranger"] += 1
        self.flush(teller, turn)

    def flush(self, teller: Teller, turn: SwimTurn) -> None:
        """Whoever said something that is not so is told."""
        if turn.answers:
            answers = [*turn.answers.values()]
            turn.answers.clear()
            gossip = self._node.compose(partial(GossipFrame, self._node.own.id), turn.now_ms, answers)
            self._node.send(teller.address, teller.start, gossip, turn)

    def admit(self, teller: Teller, record: NodeRecord, turn: SwimTurn) -> None:
        """A node may join; if something else is believed about it, it is told."""
        parts, node = self._parts, self._node
        parts.hearsay.hear([Rumour(MemberState.ALIVE, record.id, record=record)], turn)
        node.send(teller.address, record.start, JoinAck(node.own), turn)
        parts.hearsay.speaks(record.id, turn)
        self._join(turn)

    def _handle(self, teller: Teller, frame: Frame, turn: SwimTurn) -> bool:
        """Whether it is from somebody who may say it."""
        match frame:
            case PingFrame():
                return self._ping(teller, frame, turn)
            case PongFrame():
                return self._pong(teller, frame, turn)
            case GossipFrame():
                return self._gossip(teller, frame, turn)
            case Nack():
                return self._nack(teller, frame)
            case Leave(record):
                return self._leave(teller, record, turn)
            case JoinRequest():
                admitted = self._parts.doorkeeper.asked(teller, frame, turn)
                if admitted is not None:
                    self.admit(teller, admitted, turn)
                return True
            case JoinAck(record):
                return self._ack(teller, record, turn)
            case JoinNak():
                return self._nak(teller, frame, turn)
            case JoinRedirect() | BroadcastFrame():
                return False  # nobody says these yet
        assert_never(frame)

    def _nak(self, teller: Teller, nak: JoinNak, turn: SwimTurn) -> bool:
        parts = self._parts
        if not parts.joiner.is_asked(teller.address, turn.now_ms):
            return False
        holder = numeric_address(nak.etag.decode("latin-1"))
        if nak.code == JoinCode.NAME_TAKEN and parts.joiner.is_joined and holder is not None:
            parts.namesakes.told_of(holder, turn)  # who of both ends is not for others to say
        else:
            parts.joiner.refused(teller, nak, turn)
        return True

    def _ping(self, teller: Teller, ping: PingFrame, turn: SwimTurn) -> bool:
        node, parts = self._node, self._parts
        who = node.member_of(teller, ping.source.node)
        if ping.target.node != node.own.node:
            if who is not None:
                parts.relays.ping(teller, ping, turn)
            return who is not None
        if ping.source.node == node.own.node:
            parts.namesakes.seen(ping.source, teller.address, teller.start, turn)
        if who is None:
            if teller.is_fresh:
                pong = PongFrame(ping.source, node.own.id, ping.seq, ping.ttl)
                node.send(teller.address, teller.start, pong, turn)
            return False
        if teller.start is not None:  # else it may be from a relay
            node.table.ping_came(who, teller.address)
        self._hear(teller, who, ping.payload, turn)
        parts.hearsay.speaks(ping.source, turn)
        self._answer(teller, ping, turn)
        parts.keeper.tell(who, turn)
        return True

    def _answer(self, teller: Teller, ping: PingFrame, turn: SwimTurn) -> None:
        node = self._node
        carrier = partial(PongFrame, ping.source, node.own.id, ping.seq, ping.ttl)
        answers = [*turn.answers.values()]
        turn.answers.clear()
        pong = node.compose(carrier, turn.now_ms, answers, sample_at=ping.payload.page)
        node.send(teller.address, teller.start, pong, turn)
        asker = node.table.entries.get(ping.source.node)
        if asker is not None and asker.is_live and not self._is_from(teller, asker):
            node.send(asker.address, asker.record.start, carrier(Payload(table=node.table.hash)), turn)

    def _pong(self, teller: Teller, pong: PongFrame, turn: SwimTurn) -> bool:
        node, parts = self._node, self._parts
        if pong.source.node != node.own.node:
            return parts.relays.pong(pong, turn)
        probe = parts.prober.answered(pong.seq, pong.target.node)
        if probe is not None and probe.purpose is Purpose.HOLDER:
            parts.doorkeeper.holder_lives(pong.target.node, turn)
        if probe is not None and probe.purpose is Purpose.NAMESAKE:
            parts.namesakes.answered(pong.target, teller.start, turn)
        who = node.member_of(teller, pong.target.node)
        if who is None:
            return probe is not None
        if probe is not None and pong.payload.table is None and self._is_from(teller, who):
            parts.joiner.ask(teller.address, turn)  # it does not know this node
        self._hear(teller, who, pong.payload, turn)
        parts.keeper.tell(who, turn)
        parts.hearsay.speaks(pong.target, turn)
        self._page(who, pong.payload, turn)
        return True

    def _page(self, who: MemberEntry, payload: Payload, turn: SwimTurn) -> None:
        """A page of another table."""
        if payload.page is None:
            return
        parts, name = self._parts, who.record.node
        parts.hearsay.hear_sample(payload.sample, name, turn)
        page = parts.repair.heard(name, payload.sample, payload.page, turn.now_ms)
        if page is not None:
            parts.prober.ping(Purpose.PULL, who, turn, page=page)

    def _gossip(self, teller: Teller, gossip: GossipFrame, turn: SwimTurn) -> bool:
        who = self._node.member_of(teller, gossip.source.node)
        if who is None:
            return False
        self._hear(teller, who, gossip.payload, turn)
        self._parts.hearsay.speaks(gossip.source, turn)
        return True

    def _nack(self, teller: Teller, nack: Nack) -> bool:
        is_ours = nack.source.node == self._node.own.node
        if is_ours and (teller.start is None or self._node.table.by_start(teller.start) is not None):
            self._parts.prober.refused(nack.seq)
            return True
        return False

    def _leave(self, teller: Teller, record: NodeRecord, turn: SwimTurn) -> bool:
        who = self._node.member_of(teller, record.node)
        if who is None or who.record.node != record.node or who.record.start != record.start:
            return False
        self._parts.hearsay.hear([Rumour(MemberState.LEFT, record.id, record=record)], turn)
        return True

    def _ack(self, teller: Teller, record: NodeRecord, turn: SwimTurn) -> bool:
        parts, node = self._parts, self._node
        is_own = teller.start is None or teller.start == record.start
        if not is_own or not parts.joiner.is_asked(teller.address, turn.now_ms):
            return False
        parts.joiner.accepted(teller.address)
        parts.hearsay.hear([Rumour(MemberState.ALIVE, record.id, record=record)], turn)
        entry = node.table.entries[record.node] if record.node != node.own.node else None
        if entry is None:
            return True
        parts.hearsay.speaks(record.id, turn)
        if parts.joiner.is_joined:
            parts.repair.doubt(turn.now_ms)
            parts.prober.hurry(record.node)
        else:
            parts.prober.ping(Purpose.PULL, entry, turn, page=0)
            parts.repair.begin(record.node, turn.now_ms)
        self._join(turn)
        return True

    def _hear(self, teller: Teller, who: MemberEntry, payload: Payload, turn: SwimTurn) -> None:
        self._parts.keeper.hear(teller, payload.keys)
        self._parts.hearsay.hear(payload.rumours, turn)
        if payload.table is not None:
            self._parts.repair.compare(payload.table, turn.now_ms)
        for message in payload.messages:
            if self._node.messages.hear(turn.now_ms, message, who.record.node):
                turn.reports.append(MessageHeard(message.origin, message.kind, message.body))

    def _is_from(self, teller: Teller, entry: MemberEntry) -> bool:
        """Whether it came from this member itself, not by a relay."""
        if teller.start is None:
            return teller.address == entry.address
        return teller.start == entry.record.start

    def _join(self, turn: SwimTurn) -> None:
        if not self._parts.joiner.is_joined:
            self._parts.joiner.is_joined = True
            turn.reports.append(Joined())
