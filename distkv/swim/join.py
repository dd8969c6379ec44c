"""How a node gets into a group, and how it finds back to those who are gone.

Knows: where somebody may be, whom it asked, and when it asks the next one.  Does not know who lets others in
(`doorkeeper`).

Invariant: one address is asked at a time, all of them in turn, for ever: soon after one another while nobody is known,
with longer and longer pauses between two turns; else one each `ABSENT_MS`. An answer counts from an address that was
asked (docs/protocol, SWIM-9, SWIM-10, SWIM-39).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.challenge import proof
from distkv.swim.inputs import Refused
from distkv.swim.key_keeper import KeyKeeper
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import JoinCode, JoinNak, JoinRequest
from distkv.wire.swim_records import Address, MemberState

ABSENT_MS: Final = 2000
"""One address where nobody is known to be is asked each so many milliseconds."""
NEXT_MS: Final = 100
"""While nobody is known, the next address is asked after so long."""
PAUSE_MS: Final = 500
PAUSE_MS_MAX: Final = 8000
"""The pauses between two turns grow from the one to the other."""
ATTEMPTS_MAX: Final = 64
ATTEMPT_MS: Final = 5000
"""So long an answer counts."""
TOKENS_MAX: Final = 2
"""So often one address may ask for another token."""
REASONS: Final = {
    JoinCode.NAME_TAKEN: "name_taken",
    JoinCode.GROUP: "group",
    JoinCode.VERSION: "version",
    JoinCode.CLOSED: "closed",
}


@attrs.define(slots=True, eq=False)
class JoinAttempt:
    """An address that was asked."""

    until_ms: int
    tokens: int = 0


class Joiner:
    """The way of one node into its group."""

    def __init__(self, node: SwimNode, keeper: KeyKeeper) -> None:
        self.is_joined = False
        self._node = node
        self._keeper = keeper
        self._seeds: tuple[Address, ...] = ()
        self._registered: Mapping[str, Address] = {}
        self._attempts = dict[Address, JoinAttempt]()
        self._turn_left = list[Address]()
        """Those who are still to be asked in this turn, the next one last."""
        self._pause_ms = PAUSE_MS
        self._next_ms = 0

    def wake_ms(self) -> int | None:
        """When somebody is to be asked; None: there is nobody."""
        return self._next_ms if self._has_places() else None

    def seeds(self, addresses: tuple[Address, ...]) -> None:
        self._seeds = addresses

    def registered(self, addresses: Mapping[str, Address]) -> None:
        self._registered = addresses

    @property
    def registered_names(self) -> Iterable[str]:
        return self._registered

    def is_registered(self, node: str) -> bool:
        return node in self._registered

    def run(self, turn: SwimTurn) -> None:
        """Ask the next address, if it is time."""
        if turn.now_ms < self._next_ms or not self._has_places():
            return
        is_alone = not self._node.table.live
        if not self._turn_left:
            self._turn_left = self._places()[::-1]
        address = self._turn_left.pop() if self._turn_left else None
        if not is_alone:
            self._pause_ms = PAUSE_MS
            self._next_ms = turn.now_ms + ABSENT_MS
        elif self._turn_left:
            self._next_ms = turn.now_ms + NEXT_MS
        else:
            self._next_ms = turn.now_ms + int(self._pause_ms * (0.75 + self._node.rng.random() / 2))
            self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)
        if address is not None and self._is_place(address):
            self.ask(address, turn)

    def ask(self, address: Address, turn: SwimTurn) -> None:
        """Ask whoever is there to let this node in, unless that is being done."""
        attempt = self._attempts.pop(address, None)
        if attempt is not None and turn.now_ms < attempt.until_ms - ATTEMPT_MS + NEXT_MS:
            self._attempts[address] = attempt
            return
        while len(self._attempts) >= ATTEMPTS_MAX:
            del self._attempts[next(iter(self._attempts))]
        self._attempts[address] = JoinAttempt(turn.now_ms + ATTEMPT_MS)
        self._request(address, None, b"", turn)

    def is_asked(self, address: Address, now_ms: int) -> bool:
        """Whether an answer from there counts."""
        attempt = self._attempts.get(address)
        return attempt is not None and now_ms <= attempt.until_ms

    def refused(self, teller: Teller, nak: JoinNak, turn: SwimTurn) -> None:
        """Somebody does not let this node in, or wants a token."""
        attempt = self._attempts.get(teller.address)
        if attempt is None or turn.now_ms > attempt.until_ms:
            return
        if nak.code == JoinCode.TOKEN_EXPECTED:
            attempt.tokens += 1
            if attempt.tokens <= TOKENS_MAX:
                self._request(teller.address, teller.start, nak.etag, turn)
            return
        del self._attempts[teller.address]
        reason = REASONS.get(JoinCode(nak.code)) if nak.code in REASONS else None
        if reason is not None:
            turn.reports.append(Refused(reason, self._text(reason, teller.address, nak.etag)))

    def accepted(self, address: Address) -> None:
        """Somebody lets this node in."""
        self._attempts.pop(address, None)

    def check(self) -> None:
        must(len(self._attempts) <= ATTEMPTS_MAX, "few addresses are asked at once")

    def _request(self, address: Address, start: bytes | None, token: bytes, turn: SwimTurn) -> None:
        own = self._node.own
        ring = self._keeper.keyring
        auth = proof(ring.keys[0], token, own) if ring is not None and token else b""
        self._node.send(address, start, JoinRequest(own, token, auth, self._node.settings.group), turn)

    def _has_places(self) -> bool:
        return bool(self._seeds or self._registered or self._node.table.gone)

    def _places(self) -> list[Address]:
        """Where somebody may be, and nobody is known to be."""
        entries = self._node.table.entries
        gone = [entries[name] for name in self._node.table.gone]
        dead = [entry.address for entry in gone if entry.state is MemberState.DEAD]
        registered = [address for name, address in self._registered.items() if self._is_absent(name)]
        return [one for one in dict.fromkeys([*self._seeds, *registered, *dead]) if self._is_place(one)]

    def _is_absent(self, name: str) -> bool:
        entry = self._node.table.entries.get(name)
        return entry is None or not entry.is_live

    def _is_place(self, address: Address) -> bool:
        return self._node.table.living_at(address) is None

    def _text(self, reason: str, address: Address, etag: bytes) -> str:
        place, group, name = f"{address[0]}:{address[1]}", self._node.settings.group, self._node.own.node
        match reason:
            case "name_taken":
                return f"{place} says that {name} runs at {etag.decode(errors='replace')}: choose another name"
            case "group":
                return f"{place} is not of the group {group}: look at --join and at the group's name"
            case "version":
                return f"{place} speaks another version of the membership protocol: install one version everywhere"
        return f"{place} lets nobody join: ask another node, or change its swim.admission"
