"""Tells clients to go to other nodes: after a login, when loads differ, and when the node ends.

Knows: when the next one may be told, and what this node announced of its own load.  Does not know what clients are
given.

Invariant: of clients that are here for a while only those go that resume, at most one in `MOVE_MS`, and none within a
minute after it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from math import ceil
from typing import Final

from distkv.core.activity.active_clients import ActiveClient, ActiveClients
from distkv.core.activity.loads import Loads, Target
from distkv.core.activity.other_listeners import AnnouncedPlace, fields_of_place
from distkv.core.activity.own_activities import OwnActivities
from distkv.core.activity.requests import Ended, MoveOn
from distkv.core.activity.sent_here import OfferPurpose, SentHere
from distkv.core.ground.turn import ServiceTurn
from distkv.model.invariant import must
from distkv.wire.activity_bodies import ClientSent
from distkv.wire.declared import pack

MOVE_MS: Final = 250
LOOK_MS: Final = 1000
"""Whether a client is to go is looked at so often, when none is."""
SEEN_MAX: Final = 256
"""So many clients are looked at for one that may go."""
END_MS: Final = 10_000
"""All clients of a node that ends are told to go within this time."""
END_EACH_S: Final = 100
"""So many of them in a second, or more where that takes longer."""
END_TICK_MS: Final = 50
ECHO_MS: Final = 3000
"""A client of a node that ends stays so long until what it sent is echoed."""
ANNOUNCE_MS: Final = 2000
STEP: Final = 8
PART: Final = 10
"""A load that changed by `STEP`, or this part of it, is announced at once."""


class Balance:
    """That of one node."""

    def __init__(self, clients: ActiveClients, own: OwnActivities, loads: Loads) -> None:
        self._clients: Final = clients
        self._own: Final = own
        self._loads: Final = loads
        self._place: AnnouncedPlace | None = None
        """What was announced last."""
        self._announce_ms = 0
        self._look_ms = 0
        self._ending: int | None = None
        """Who is to be told when no client is left; then it is none again."""
        self.is_ending = False
        """Whether the node ends."""
        self._each_tick = 1
        self._force_ms = 0
        self.sent_here: Final = SentHere()
        self.moved = 0
        """How many clients were told to go."""

    @property
    def place(self) -> AnnouncedPlace | None:
        """Where the listener is, as it was announced last; None: nowhere."""
        return self._place

    # -- what happens

    def attend(self, turn: ServiceTurn, host: str, port: int) -> None:
        """The listener is there."""
        self._announce(turn, AnnouncedPlace(host, port, self._clients.load))

    def left(self, turn: ServiceTurn) -> None:
        """The listener is gone."""
        self._place = None
        turn.announce(None)

    def end(self, turn: ServiceTurn, id: int) -> None:
        """The node ends: all clients go, and then this request is answered."""
        self._ending, self.is_ending, self._force_ms = id, True, turn.boot_ms + ECHO_MS
        self.left(turn)
        ticks = END_MS // END_TICK_MS
        self._each_tick = max(END_EACH_S * END_TICK_MS // 1000, ceil(self._clients.load / ticks))
        self._look_ms = turn.boot_ms

    def logged_in(self, turn: ServiceTurn, client: ActiveClient, resume: Mapping[str, int] | None) -> None:
        """A client was told that it is logged in: perhaps it is to go on at once.

        Who came from another node lately stays. What nodes know of each other's loads is half a second old, and each
        would send it to the next.
        """
        if client.mark is None:
            self.sent_here.came(client.id, turn.boot_ms)
        elif client.stays_until_ms <= turn.boot_ms:
            self._send_on(turn, client, resume)

    def welcome(self, turn: ServiceTurn) -> bool:
        """Another node has a client that cannot say from where it comes: whether it may come here."""
        if self._place is None:
            return False
        self.sent_here.expect(1, turn.boot_ms)
        return True

    def answered(self, turn: ServiceTurn, purpose: OfferPurpose, reply: object) -> None:
        """A node says whether a client may come, or does not answer: then it stays."""
        target, client = self.sent_here.take_welcome(purpose, reply), self._clients.find(purpose.client)
        if target is None or client is None or client.is_leaving or self._own.has_of(client.id):
            return
        self._go(turn, client, target, None)

    def gone(self, id: int) -> None:
        """The connection of a client ended."""
        self.sent_here.gone(id)

    def look(self, turn: ServiceTurn, reached: Mapping[str, int] | None) -> None:
        """Tell who is to go, and announce the load. `reached`: the map of a client that was told all."""
        now_ms = turn.boot_ms
        while (id := self.sent_here.take_due(now_ms)) is not None:
            self._decide(turn, id)
        if self._look_ms <= now_ms:
            if self._ending is not None:
                self._look_at_end(turn, self._ending, reached or {})
            elif not self.is_ending:
                self._look_ms = now_ms + (MOVE_MS if self._move_one(turn, reached or {}) else LOOK_MS)
        if self._place is not None:
            self._look_at_load(turn, self._place)

    def is_due(self, now_ms: int) -> bool:
        """Whether `look` has clients to look at."""
        return self._look_ms <= now_ms and (self._ending is not None or not self.is_ending)

    def wake_ms(self) -> int | None:
        """When it looks again."""
        decide_ms = self.sent_here.wake_ms()
        due = [] if decide_ms is None else [decide_ms]
        if self._ending is not None or (self._clients.load and not self.is_ending):
            due.append(self._look_ms)
        if self._place is not None and self._place.load != self._clients.load:
            due.append(self._announce_ms)
        return min(due, default=None)

    # -- inside

    def _look_at_load(self, turn: ServiceTurn, place: AnnouncedPlace) -> None:
        change = abs(self._clients.load - place.load)
        is_much = change >= STEP or change * PART >= max(place.load, 1)
        if change and (is_much or self._announce_ms <= turn.boot_ms):
            self._announce(turn, AnnouncedPlace(place.host, place.port, self._clients.load))

    def _announce(self, turn: ServiceTurn, place: AnnouncedPlace) -> None:
        self._place = place
        self._announce_ms = turn.boot_ms + ANNOUNCE_MS
        turn.announce(fields_of_place(place))

    def _send_on(self, turn: ServiceTurn, client: ActiveClient, resume: Mapping[str, int] | None) -> None:
        """A client that just logged in goes where fewer are."""
        target = self._target_at_login(turn)
        if target is not None:
            self._move(turn, client, target, resume)

    def _target_at_login(self, turn: ServiceTurn) -> Target | None:
        """Where a client goes that just logged in."""
        return self._loads.target_at_login(self._own_load, turn.boot_ms) if self._place is not None else None

    @property
    def _own_load(self) -> int:
        """Those who were offered to others count there."""
        return self._clients.load - self.sent_here.offered

    def _decide(self, turn: ServiceTurn, id: int) -> None:
        """Whether a client goes that does not resume: not if one was sent here, nor if it says something already."""
        client = self._clients.find(id)
        if client is None or client.is_leaving:
            return
        if self.sent_here.take_expected(turn.boot_ms) or self._own.has_of(id):
            return
        target = self._target_at_login(turn)
        if target is not None:
            self._loads.sent(target.node, turn.boot_ms)
            self.sent_here.offer(turn, id, target)

    def _move_one(self, turn: ServiceTurn, reached: Mapping[str, int]) -> bool:
        target = self._loads.target_later(self._own_load, turn.boot_ms) if self._place is not None else None
        if target is None:
            return False
        for client in islice(self._clients.all(), SEEN_MAX):
            may_go = client.mark is not None and client.stays_until_ms <= turn.boot_ms
            if may_go and not self._own.has_of(client.id):
                self._move(turn, client, target, reached)
                return True
        return False

    def _look_at_end(self, turn: ServiceTurn, ending: int, reached: Mapping[str, int]) -> None:
        self._look_ms = turn.boot_ms + END_TICK_MS
        may_go = [one for one in self._clients.all() if turn.boot_ms >= self._force_ms or not self._own.has_of(one.id)]
        for client in may_go[: self._each_tick]:
            target = self._loads.target_at_end(turn.boot_ms)
            if target is None:
                break  # there is no other node
            self._move(turn, client, target, reached)
        else:
            if not self._clients.is_empty:
                return
        self._ending = None
        turn.answer(ending, Ended())

    def _move(self, turn: ServiceTurn, client: ActiveClient, target: Target, reached: Mapping[str, int] | None) -> None:
        self._loads.sent(target.node, turn.boot_ms)
        if client.mark is None:
            turn.tell(target.node, pack(ClientSent()), waits=False)
        self._go(turn, client, target, None if client.mark is None else reached)

    def _go(self, turn: ServiceTurn, client: ActiveClient, target: Target, resume: Mapping[str, int] | None) -> None:
        self._clients.leave(client)
        self.moved += 1
        turn.answer(client.id, MoveOn(target.place.host, target.place.port, resume), is_last=False, waits=False)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self.is_ending or self._place is None, "a node that ends announces no listener")
        self.sent_here.check()
        self._loads.check()
