"""Who is let into the group.

Knows: what a node must show, whose name it may have, and how many are looked at.  Does not know how this node itself
gets in (`join`).

Invariant: nothing is kept for who has not shown that it is where it says to be; no answer to it is longer than its
question. A name changes hands only when its holder is silent (docs/protocol, SWIM-5 to SWIM-8, SWIM-11 to SWIM-14).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.challenge import Challenge, is_proof
from distkv.swim.key_keeper import KeyKeeper
from distkv.swim.members import MemberEntry
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import DOMAIN, VERSION, JoinAck, JoinCode, JoinNak, JoinRequest
from distkv.wire.swim_records import NodeRecord

REQUESTS_PER_S: Final = 20
APPLICANTS_MAX: Final = 64
"""So many may wait until the holder of their name was probed."""


@attrs.frozen(slots=True)
class Applicant:
    """A node that would have the name of another one."""

    teller: Teller
    record: NodeRecord


class Doorkeeper:
    """The door of one node."""

    def __init__(self, node: SwimNode, challenge: Challenge, keeper: KeyKeeper) -> None:
        self.to_ask: MemberEntry | None = None
        """The holder of a name that is to be probed in this step."""
        self._node = node
        self._challenge = challenge
        self._keeper = keeper
        self._applicants = dict[str, Applicant]()
        self._allowed = float(REQUESTS_PER_S)
        self._allowed_ms = 0

    def asked(self, teller: Teller, request: JoinRequest, turn: SwimTurn) -> NodeRecord | None:
        """Somebody would join; its record when it may."""
        node, record = self._node, request.record
        if node.is_leaving or node.settings.admission == "ignore" or record.start == node.own.start:
            return None
        if not self._take_allowance(turn.now_ms):
            node.counts.dropped["rate"] += 1
            return None
        if teller.start is not None and teller.start != record.start:
            node.counts.dropped["stranger"] += 1
            return None
        if node.is_former(record.start):
            node.counts.dropped["replay"] += 1
            return None
        if (nak := self._objection(teller, request, turn)) is not None:
            if nak.code == JoinCode.GROUP:
                node.counts.dropped["group"] += 1
            node.send(teller.address, teller.start, nak, turn)
            return None
        return self._of_name(teller, record, turn)

    def silent(self, name: str) -> Applicant | None:
        """The holder of a name does not answer: who may have it."""
        return self._applicants.pop(name, None)

    def holder_lives(self, name: str, turn: SwimTurn) -> None:
        """The holder of a name answers: whoever would have it may not."""
        applicant, holder = self._applicants.pop(name, None), self._node.table.entries.get(name)
        if applicant is not None and holder is not None:
            self._refuse_name(applicant.teller, holder.record, turn)

    def forget_open(self) -> None:
        """This node was away: who still would join asks again."""
        self._applicants.clear()

    def check(self) -> None:
        must(len(self._applicants) <= APPLICANTS_MAX, "few wait for a name")
        must(self.to_ask is None, "a holder is probed in the step in which its name is asked for")

    def _objection(self, teller: Teller, request: JoinRequest, turn: SwimTurn) -> JoinNak | None:
        """Why it may not join; the answer is never longer than the question."""
        node, record = self._node, request.record
        if request.version != VERSION:
            return JoinNak(DOMAIN, JoinCode.VERSION, str(VERSION).encode())
        if request.group != node.settings.group:
            return JoinNak(DOMAIN, JoinCode.GROUP)
        is_token = self._challenge.is_token(turn.now_ms, teller.address, record.node, request.token)
        if not is_token or not self._is_proven(request):
            fresh = self._challenge.token(turn.now_ms, teller.address, record.node)
            return JoinNak(DOMAIN, JoinCode.TOKEN_EXPECTED, fresh)
        if node.settings.admission == "closed" or (node.table.is_full and record.node not in node.table.entries):
            return JoinNak(DOMAIN, JoinCode.CLOSED)
        return None

    def _of_name(self, teller: Teller, record: NodeRecord, turn: SwimTurn) -> NodeRecord | None:
        """It has shown who it is: whether it may have its name."""
        node = self._node
        holder = node.table.entries.get(record.node)
        if record.node == node.own.node:
            self._refuse_name(teller, node.own, turn)
        elif holder is None or not holder.is_live or self._is_successor(teller, holder, record):
            return record
        elif holder.record.start == record.start:
            if record.generation <= holder.generation and teller.address != holder.address:
                node.send(holder.address, record.start, JoinAck(node.own), turn)
                return None
            return record
        elif len(self._applicants) < APPLICANTS_MAX:
            self._applicants[record.node] = Applicant(teller, record)
            self.to_ask = holder
        return None

    def _is_successor(self, teller: Teller, holder: MemberEntry, record: NodeRecord) -> bool:
        """Whether it is at the holder's own address: then the holder is not there any more."""
        return holder.record.start != record.start and teller.address == holder.address

    def _refuse_name(self, teller: Teller, holder: NodeRecord, turn: SwimTurn) -> None:
        nak = JoinNak(DOMAIN, JoinCode.NAME_TAKEN, holder.addresses[0].encode())
        self._node.send(teller.address, teller.start, nak, turn)

    def _is_proven(self, request: JoinRequest) -> bool:
        ring = self._keeper.keyring
        return ring is None or is_proof(ring.keys, request.token, request.record, request.auth)

    def _take_allowance(self, now_ms: int) -> bool:
        """A bucket of `REQUESTS_PER_S`."""
        refill = (now_ms - self._allowed_ms) * REQUESTS_PER_S / 1000
        self._allowed = min(float(REQUESTS_PER_S), self._allowed + refill)
        self._allowed_ms = now_ms
        if self._allowed < 1:
            return False
        self._allowed -= 1
        return True
