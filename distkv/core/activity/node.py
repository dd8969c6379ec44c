"""The activity service of one node: who is logged in, and what everybody is given.

Knows: the listener, the clients by the numbers of their logins, and the last number of this origin.  Does not know
lines, secrets or connections.

Invariant: an activity is given once, in the order of the numbers of its origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.core.activity.requests import (
    ActivityGiven,
    ActivityItem,
    Attend,
    EndActivity,
    Ended,
    LoggedIn,
    Login,
    SendActivity,
    Shut,
    Taken,
)
from distkv.core.activity.settings import ActivitySettings
from distkv.core.activity.who import all_items
from distkv.core.ground.frames import Announced, Heard, Lacked
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, Rng, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import BusyError, NotFoundError, NotReadyError
from distkv.model.invariant import must
from distkv.wire.activity import ActivityNodeItem, ActivityPeople, ActivityPlace, ActivityPlaced, ActivityWho


class ActivityNode:
    """Since the machine of it began."""

    def __init__(self, settings: ActivitySettings, rng: Rng, ground: ServiceGround) -> None:
        self._settings: Final = settings
        self._ground: Final = ground
        self.origin: Final = f"{ground.me}.{int(rng.random() * 2**48):012x}"
        self._listener: int | None = None
        self._place: ActivityPlaced | None = None
        self._is_shut = False
        self._clients: Final = dict[int, Login]()
        self._last = 0

    def begin(self, turn: ServiceTurn) -> None:
        """Begin; nothing was kept."""

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        match what:
            case ServiceAsked(id=id, request=Attend() as request):
                self._listener, self._place = id, ActivityPlaced(request.host, request.port)
                turn.announce({"addr": f"{request.host}:{request.port}", "load": len(self._clients)})
            case ServiceAsked(id=id, request=Login() as request):
                self._login(turn, id, request)
            case ServiceAsked(id=id, request=SendActivity() as request):
                self._send(turn, id, request)
            case ServiceAsked(id=id, request=EndActivity()):
                self._is_shut = True
                if self._listener is not None:
                    turn.answer(self._listener, Shut(), is_last=False, waits=False)
                turn.answer(id, Ended())
            case ServiceAsked(id=id, request=ActivityPlace()):
                turn.answer(id, self._place or NotReadyError("the listener of this node is not there: try again later"))
            case ServiceAsked(id=id, request=ActivityWho(names=names)):
                turn.answer(id, self._crowd(names=names))
            case ServiceAsked(id=id):
                turn.answer(id, NotFoundError("the service activity knows no such request"))
            case ServiceWithdrawn(id=id):
                self._clients.pop(id, None)
                if id == self._listener:
                    self._listener = None
                    turn.announce(None)
            case NodeTold() | NodeAsked() | NodeGaveUp() | NodesSilent() | Replied() | Heard() | Lacked():
                pass
            case EntryChanged() | NodesChanged() | Announced() | ServiceContinued() | ServiceWoken():
                pass
            case _:
                assert_never(what)

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return None

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        return {"clients": len(self._clients)}

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._clients) <= self._settings.clients_max, "no more clients than there may be")

    # -- inside

    def _crowd(self, *, names: bool) -> ActivityPeople:
        me, place = self._ground.me, self._place
        own = None if place is None else ActivityNodeItem(me, len(self._clients), f"{place.host}:{place.port}")
        users = {str(me): tuple(sorted({login.user for login in self._clients.values()}))} if names else None
        return ActivityPeople(all_items(self._ground.announced, own), users)

    def _login(self, turn: ServiceTurn, id: int, login: Login) -> None:
        if self._is_shut:
            turn.answer(id, NotReadyError("this node ends: log in at another one"))
        elif len(self._clients) >= self._settings.clients_max:
            turn.answer(id, BusyError(f"{len(self._clients)} clients are logged in here: log in at another node"))
        else:
            self._clients[id] = login
            at = None if login.resume is None else {self.origin: self._last}
            turn.answer(id, LoggedIn(at), is_last=False, waits=False)

    def _send(self, turn: ServiceTurn, id: int, send: SendActivity) -> None:
        if send.client not in self._clients:
            turn.answer(id, NotFoundError("this client is not logged in"))
            return
        self._last += 1
        if self._listener is not None:
            given = ActivityGiven(ActivityItem(self.origin, self._last, send.activity))
            turn.answer(self._listener, given, is_last=False, waits=False)
        turn.answer(id, Taken(self.origin, self._last), waits=False)
