"""The activity service of one node: its listener, its clients, and what they are given.

Knows: which request is answered with what.  Does not know how an activity comes to a node (`delivery`), lines, secrets
or connections.

Invariant: a client is told that it is logged in before it is given anything, and what it lacks is in that answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, assert_never

from distkv.core.activity.active_clients import LONELY_MS, MOVED_MS, PATIENCE_MS, ActiveClient, ActiveClients, Arrival
from distkv.core.activity.balance import Balance
from distkv.core.activity.client_mark import new_mark, read_mark
from distkv.core.activity.delivery import Delivery
from distkv.core.activity.gathering import Gathering
from distkv.core.activity.loads import Loads
from distkv.core.activity.missed import missed
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.activity.rates import Rates
from distkv.core.activity.requests import (
    ActivityGap,
    ActivityGiven,
    ActivityItem,
    Attend,
    EndActivity,
    LoggedIn,
    Login,
    SendActivity,
    Shut,
    Taken,
)
from distkv.core.activity.sent_here import OfferPurpose
from distkv.core.activity.settings import ActivitySettings
from distkv.core.activity.who import Who
from distkv.core.ground.frames import Announced, Heard, Lacked
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, Rng, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import BadValueError, BusyError, NotFoundError, NotReadyError, TooLargeError
from distkv.model.invariant import must
from distkv.wire.activity import ActivityPlace, ActivityPlaced, ActivityWho
from distkv.wire.activity_bodies import ORIGINS_MAX, KeptActivity
from distkv.wire.activity_lines import ACTIVITY_BYTES_MAX, ANONYMOUS


class ActivityNode:
    """Since the machine of it began."""

    def __init__(self, settings: ActivitySettings, rng: Rng, ground: ServiceGround, turn: ServiceTurn) -> None:
        self._others: Final = OtherListeners(ground)
        self._settings: Final = settings
        self._rng: Final = rng
        self.delivery: Final = Delivery(settings, rng, ground, self._others, self, turn.boot_ms)
        self.clients: Final = ActiveClients(settings.clients_max, self.delivery.origins)
        self._gathering: Final = Gathering(self.delivery.kept, self.delivery.origins)
        self._loads: Final = Loads(self._others, rng)
        self.balance: Final = Balance(self.clients, self.delivery.own, self._loads)
        self._who: Final = Who(ground, self.clients, self.balance)
        self._rates: Final = Rates(settings.rate)
        self._listener: int | None = None
        self._untaken: Final = list[tuple[int, int, int, int]]()
        """When who waits to send more may do so, the number of his request, and those of its activities, the first and
        the last; a heap."""

    def begin(self, turn: ServiceTurn) -> None:
        """Begin; nothing was kept."""
        self.delivery.settle(turn)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        self._take(turn, what)
        self._who.step(turn, what)
        self.delivery.settle(turn)
        if self.clients.waiting and self.delivery.is_ready:
            for arrival in self.clients.take_arrivals(turn.boot_ms, self._patience_ms, self._gathering.begin):
                self._arrived(turn, arrival)
            if self.clients.waiting:
                self.delivery.ahead.look(turn, self.clients.take_lacking)
        self._let_send(turn)
        is_due = self.balance.is_due(turn.boot_ms)
        self.balance.look(turn, self.delivery.origins.all_reached() if is_due else None)

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        due = [self.delivery.wake_ms(), self.balance.wake_ms(), self._who.wake_ms()]
        if self.delivery.is_ready:
            due.append(self.clients.wake_ms())
            due.append(self.delivery.ahead.wake_ms if self.clients.waiting else None)
        if self._untaken and not self._is_full:
            due.append(self._untaken[0][0])
        return min((ms for ms in due if ms is not None), default=None)

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        clients = {"clients": self.clients.load, "logging_in": self.clients.waiting, "moved": self.balance.moved}
        return {**clients, "sending_late": len(self._untaken), **self.delivery.statistics()}

    # -- GivenOut

    def give(self, turn: ServiceTurn, activity: KeptActivity) -> None:
        """For `Delivery`."""
        self._give(turn, ActivityItem(activity.origin, activity.number, activity.activity))

    def give_gap(self, turn: ServiceTurn, origin: str, first: int, last: int) -> None:
        """For `Delivery`."""
        self._give(turn, ActivityGap(origin, first, last))

    def expect(self, turn: ServiceTurn, count: int) -> None:
        """For `Delivery`."""
        self.balance.sent_here.expect(count, turn.boot_ms)

    def welcome(self, turn: ServiceTurn) -> bool:
        """For `Delivery`."""
        return self.balance.welcome(turn)

    # -- inside

    def _take(self, turn: ServiceTurn, what: ServiceInput) -> None:
        match what:
            case ServiceAsked(id=id, request=Attend() as request):
                self._listener = id
                self.balance.attend(turn, request.host, request.port)
            case ServiceAsked(id=id, request=Login() as request):
                self._login(turn, id, request)
            case ServiceAsked(id=id, request=SendActivity() as request):
                self._send(turn, id, request)
            case ServiceAsked(id=id, request=EndActivity()):
                self.balance.end(turn, id)
                if self._listener is not None:
                    turn.answer(self._listener, Shut(), is_last=False, waits=False)
            case ServiceAsked(id=id, request=ActivityPlace()):
                place = self.balance.place
                late = NotReadyError("the listener of this node is not there: try again later")
                turn.answer(id, late if place is None else ActivityPlaced(place.host, place.port))
            case ServiceAsked(id=id, request=ActivityWho() as request):
                self._who.ask(turn, id, request)
            case ServiceAsked(id=id):
                turn.answer(id, NotFoundError("the service activity knows no such request"))
            case ServiceWithdrawn(id=id):
                self._withdrawn(turn, id)
            case Heard(origin=origin, body=body):
                self.delivery.heard(turn, origin.node, body, is_frame=True)
            case NodeTold(name=name, body=body):
                self.delivery.heard(turn, name, body, is_frame=False)
            case NodeAsked():
                if not self._who.asked(turn, what):
                    self.delivery.asked(turn, what)
            case Replied(purpose=purpose, reply=reply):
                if isinstance(purpose, OfferPurpose):
                    self.balance.answered(turn, purpose, reply)
                else:
                    self.delivery.replied(turn, purpose, reply)
            case Announced(node=node):
                self._others.look()
                self._loads.announced(node, turn.boot_ms)
            case NodesChanged():
                self._others.look()
            case NodeGaveUp() | NodesSilent() | Lacked() | EntryChanged():
                pass  # what is lacking shows itself by later numbers, and by what neighbours know
            case ServiceContinued() | ServiceWoken():
                pass
            case _:
                assert_never(what)

    def _give(self, turn: ServiceTurn, item: ActivityItem | ActivityGap) -> None:
        if self._listener is not None:
            turn.answer(self._listener, ActivityGiven(item), is_last=False, waits=False)

    def _withdrawn(self, turn: ServiceTurn, id: int) -> None:
        self.clients.gone(id)
        self.balance.gone(id)
        if id == self._listener:
            self._listener = None
            if not self.balance.is_ending:
                self.balance.left(turn)

    def _login(self, turn: ServiceTurn, id: int, login: Login) -> None:
        if self.balance.is_ending:
            turn.answer(id, NotReadyError("this node ends: log in at another one"))
        elif self.clients.is_full:
            turn.answer(id, BusyError(f"{self._settings.clients_max} clients are here: log in at another node"))
        elif login.resume is not None and len(login.resume) > ORIGINS_MAX:
            turn.answer(id, BadValueError(f"resume has {len(login.resume)} origins: it may have {ORIGINS_MAX}"))
        else:
            try:
                mark = None if login.resume is None or login.client is None else read_mark(login.client)
            except BadValueError as error:
                turn.answer(id, error)
            else:
                self.clients.wait(id, login, mark, turn.boot_ms)
                if (crowding := self.clients.take_crowding()) is not None:
                    turn.answer(crowding, BusyError("clients that wait here had too much elsewhere: try again later"))

    @property
    def _patience_ms(self) -> int:
        """So long a client waits that is ahead of this node."""
        if self._others.is_alone:
            return 0
        return PATIENCE_MS if self._others.seem_alive else LONELY_MS

    def _arrived(self, turn: ServiceTurn, arrival: Arrival) -> None:
        """It is logged in, and gets what it lacks."""
        login, before, origin = arrival.login, arrival.mark, self.delivery.origin
        mark, stays_until_ms = None, turn.boot_ms
        if login.resume is not None:
            mark = new_mark(self._rng, origin) if before is None else before.at(origin, int(turn.wall))
            since_ms = max(0, int((turn.wall - mark.moved_s) * 1000))
            stays_until_ms += max(0, MOVED_MS - since_ms)
        client = ActiveClient(arrival.id, login.user, mark, stays_until_ms)
        self.clients.add(client)
        reached = self.delivery.origins.all_reached()
        if mark is None:
            answer = LoggedIn()
        elif not login.resume:
            answer = LoggedIn(reached, mark.text)
        else:
            lacking = missed(self.delivery.kept, self.delivery.senders, reached, login.resume)
            answer = LoggedIn(login.resume, mark.text, tuple(lacking))
        turn.answer(arrival.id, answer, is_last=False, waits=False)
        self.balance.logged_in(turn, client, reached)

    def _send(self, turn: ServiceTurn, id: int, send: SendActivity) -> None:
        client = self.clients.find(send.client)
        if client is None:
            turn.answer(id, NotFoundError("this client is not logged in"))
        elif client.is_leaving:
            turn.answer(id, NotReadyError("this client was told to go to another node"))
        elif (size := max(map(len, send.activities), default=0)) > ACTIVITY_BYTES_MAX:
            turn.answer(id, TooLargeError(f"an activity has {size} bytes: {ACTIVITY_BYTES_MAX} may be"))
        else:
            sender = None if client.mark is None else client.mark.sender_of(client.user)
            user = client.user if client.user != ANONYMOUS else f"{ANONYMOUS} {client.id}"
            first, next_ms = self.delivery.own.last + 1, turn.boot_ms
            for activity in send.activities:
                self.delivery.say(turn, activity, sender, client.id)
                next_ms = self._rates.sent(user, turn.boot_ms)
            heappush(self._untaken, (next_ms, id, first, self.delivery.own.last))

    @property
    def _is_full(self) -> bool:
        """Whether nobody may send more, until something is echoed."""
        own, settings = self.delivery.own, self._settings
        return len(own) >= settings.unechoed_max or own.size >= settings.unechoed_bytes

    def _let_send(self, turn: ServiceTurn) -> None:
        while self._untaken and not self._is_full and self._untaken[0][0] <= turn.boot_ms:
            _, id, first, last = heappop(self._untaken)
            turn.answer(id, Taken(self.delivery.origin, first, last), waits=False)

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._others.check()
        self.delivery.check(is_whole=is_whole)
        self.clients.check()
        self._gathering.check()
        self.balance.check()
        self._who.check()
        self._rates.check()
        must(len(self._untaken) <= self._settings.clients_max * 2, "each client sends one at a time")
