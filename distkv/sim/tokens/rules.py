"""Tokens: who holds one is alone, fences grow, writes under them keep their order, and who waits gets his turn.

Knows: what clients believe by their own clocks, at every instant of true time, and what nodes accept under a fence.
Does not know how tokens are served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from distkv.core.client_writes import LocalSet, WriteDone
from distkv.core.ready import Input, Ready, ServiceAsked, ServiceWithdrawn
from distkv.model.event import Event, NodeName
from distkv.model.fence import NO_FENCE, NO_GRANT
from distkv.model.path import Path
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.sim.tokens.clients import TOKEN_PATH
from distkv.sim.tokens.crowd import ALL_WANTED
from distkv.sim.tokens.grant_rule import GrantRule, number_of
from distkv.sim.tokens.moments import TokenChange, TokenMoment, TokenUser
from distkv.sim.tokens.nodes import TokenNodes, token_nodes
from distkv.sim.tokens.observer import TokenObserver
from distkv.sim.tokens.turns import Turns
from distkv.wire.message import Record, ResetRecord, StaleRecord
from distkv.wire.token_errors import UngrantedError
from distkv.wire.token_fields import Ticket, read_ticket
from distkv.wire.token_requests import TokenAcquire

LATE_MS: Final = 2000
"""What services tell each other is not under way for so long."""
QUEUED_MS: Final = 1000
"""Who was told a place so long ago is known to the server."""
NEVER_MS: Final = 2**62
"""When a place was told that is not looked at: so only who has it is not blamed."""


class OneHolder(GrantRule):
    """A token that somebody may work under, by his own clock, nobody else gets; but shared ones by several.

    A belief begins when its client is told of a grant, and only the end of one can be put off later. So it is enough to
    look at each beginning.
    """

    rule = "one holds a token"

    def __init__(self) -> None:
        super().__init__()
        self.grants = 0
        self._holders: dict[str, dict[TokenUser, TokenMoment]] = {}
        """Of each token who was told that he holds it, and how."""

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        holders = self._holders.setdefault(moment.token, {})
        if moment.change is TokenChange.GONE:
            holders.pop(moment.user, None)
        if moment.change is not TokenChange.HELD:
            return
        self.grants += 1
        self.told(moment)
        for other, before in list(holders.items()):
            if not other.believes(moment.token):
                del holders[other]
            elif other is not moment.user and not (before.is_shared and moment.is_shared):
                if any(self.is_forgotten(moment.token, fence) for fence in (before.fence, moment.fence)):
                    continue
                held = f"{moment.user.name} ({moment.user.session}) got {moment.fence} at {at_ms} ms"
                raise self.broken(f"{held}, while {other.name} ({other.session}) may work under it")
        holders[moment.user] = moment


class FencesGrow(GrantRule):
    """An exclusive grant has a higher fence than every grant of the token before."""

    rule = "fences grow"

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        if moment.change is not TokenChange.HELD:
            return
        fence, highest = number_of(moment.fence), self.highest.get(moment.token, NO_GRANT)
        if not moment.is_shared and fence <= highest and not self.is_forgotten(moment.token, moment.fence):
            raise self.broken(f"{moment.user.name} got {moment.fence} at {at_ms} ms, after {highest}")
        self.told(moment)


class FencedInOrder(Observer):
    """What a node takes from a client under a fence is not below a fence that it has seen at that path; so on each node
    a later holder's writes are never followed by an earlier one's. In the end the highest fence of which a client was
    told that its write is done is shown everywhere, or a higher one."""

    rule = "fenced writes keep their order"

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Path], tuple[int, int, int]] = {}
        """Per host and path."""
        self._acknowledged: dict[Path, tuple[int, int, int]] = {}
        self._is_burned = False

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        self._forget(process.host)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        host = process.host
        if any(isinstance(record, ResetRecord) for record in ready.records):
            self._forget(host)
        if isinstance(what, LocalSet) and isinstance(ready.reply, WriteDone) and ready.reply.event is not None:
            made = ready.reply.event
            fence, seen = _fence(made), self._seen.get((host.name, made.path))
            if fence is not None and seen is not None and fence < seen:
                raise self.broken(f"{host.name} took {made!r} with {fence}, and has seen {seen}")
        for change in ready.changes:
            fence = _fence(change.event)
            if fence is not None:
                key = host.name, change.event.path
                self._seen[key] = max(fence, self._seen.get(key, fence))

    def acknowledged(self, process: Process, event: Event) -> None:  # noqa: ARG002
        fence = _fence(event)
        if fence is not None:
            self._acknowledged[event.path] = max(fence, self._acknowledged.get(event.path, fence))

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._is_burned |= not is_copied

    def settled(self, fleet: Observed) -> None:
        for path, fence in self._acknowledged.items() if not self._is_burned else ():
            for host in fleet.ours():
                entry = host.live.tree.get(path)
                shown = NO_FENCE if entry is None else entry.head.fence
                if (shown.base, shown.epoch, shown.counter) < fence:  # a person may have lifted it meanwhile
                    raise self.broken(f"{host.name} shows {shown} at {path}, and {fence} was acknowledged")

    # -- inside

    def _forget(self, host: Host) -> None:
        for key in [key for key in self._seen if key[0] == host.name]:
            del self._seen[key]


class TurnsAreKept(TokenObserver):
    """Once all is well nobody gets a token before somebody who waits for it with an earlier place; but shared ones are
    granted together, and the answers may overtake each other."""

    rule = "who waits gets his turn"

    def __init__(self) -> None:
        self._is_calm = False
        self._places: dict[str, dict[TokenUser, tuple[Ticket, int, bool]]] = {}
        """Of each token the place of each who waits, when it was told, and whether it is for a shared one."""

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if (name, what) == ("", ALL_WANTED):
            self._is_calm = True
            for places in self._places.values():  # nobody is passed over before he is told his place again
                places.update({user: (ticket, NEVER_MS, shared) for user, (ticket, _, shared) in places.items()})

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        places = self._places.setdefault(moment.token, {})
        if moment.change is TokenChange.QUEUED and moment.ticket is not None:
            _, since_ms, _ = places.get(moment.user, (None, at_ms, False))
            places[moment.user] = moment.ticket, min(since_ms, at_ms), moment.is_shared
            return
        mine = places.pop(moment.user, None)
        if moment.change is not TokenChange.HELD or not self._is_calm:
            return
        for other, (ticket, since_ms, is_shared) in places.items():
            is_earlier = (mine is None or ticket < mine[0]) and not (is_shared and moment.is_shared)
            if is_earlier and at_ms - since_ms >= QUEUED_MS and not other.is_frozen:
                got = f"{moment.user.name} got {moment.fence} at {at_ms} ms"
                raise self.broken(f"{got}, before {other.name}, who has the place {ticket}")


class OrderIsKept(Observer):
    """At every moment nobody is granted a token before somebody who waits at the same server and came before
    (`token_turns`)."""

    rule = "who waits is served in order"

    def __init__(self) -> None:
        self._turns = Turns(LATE_MS)
        self._nodes: TokenNodes | None = None
        self._names: dict[str, None] = {}
        """Of all tokens that were ever wanted."""
        self._asked: dict[str, set[tuple[Process, int]]] = {}
        """What is under way, by host."""
        self._disks: Counter[str] = Counter()
        """How often each host has lost what its disk kept."""

    def second(self, fleet: Observed) -> None:
        self._nodes = token_nodes(fleet.services)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        host, nodes, now_ms = process.host, self._nodes, process.now_ms
        machine = None if nodes is None or not host.is_ours else nodes.machines.get(host.name)
        if machine is None:
            return
        asked = self._asked.setdefault(host.name, set())
        if isinstance(what, ServiceAsked) and isinstance(what.request, TokenAcquire):
            request, key = what.request, (process, what.id)
            self._names[request.token] = None
            self._turns.asked(now_ms, key, request.session, request.token, request.ticket)
            asked.add(key)
        elif isinstance(what, ServiceWithdrawn):
            self._turns.ended(now_ms, (process, what.id))
            asked.discard((process, what.id))
        tokens = [token for name in self._names if (token := machine.served(name)) is not None]
        if tokens and machine.effective is not None:
            wrong = self._turns.looked(now_ms, self._server(host), machine.effective.changed, tokens)
            if wrong is not None:
                raise self.broken(wrong)
        for answer in ready.answers:
            ticket = answer.result.ticket if isinstance(answer.result, UngrantedError) else None
            self._turns.told(now_ms, (process, answer.id), None if ticket is None else read_ticket(ticket))
            asked.discard((process, answer.id))

    def ended(self, process: Process) -> None:
        host = process.host
        self._turns.stopped(self._server(host))
        for key in self._asked.pop(host.name, ()):
            self._turns.ended(process.now_ms, key)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._disks[host.name] += 1

    def _server(self, host: Host) -> str:
        return f"{host.name} on disk {self._disks[host.name]}"


class WantedIsGranted(TokenObserver):
    """Once all is well no token is wanted and free for longer than 3 x lease + ttl + lock delay, and nobody is refused
    who asked then and goes on waiting. Excepted are runs in which a majority of a list of servers lost what their disks
    kept: there somebody has to found them anew."""

    rule = "what is wanted is granted"

    def __init__(self) -> None:
        self._begin_ms: int | None = None
        self._refused = ""
        self._waiting: dict[str, dict[TokenUser, int]] = {}
        """Of each token who waits for it, and since when."""
        self._holders: dict[str, dict[TokenUser, None]] = {}
        self._free_ms: dict[str, int] = {}
        """Since when a token that is wanted is free."""
        self._lists: set[tuple[NodeName, ...]] = set()
        """All lists of servers that were ever in force."""
        self._lost: set[NodeName] = set()
        """Nodes that lost what their disks kept, or whose life is over."""

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._lost.add(host.node)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if any(isinstance(record, ResetRecord | StaleRecord) for record in ready.records):
            self._lost.add(process.host.node)

    def befell(self, at_ms: int, name: str, what: str) -> None:
        if (name, what) == ("", ALL_WANTED):
            self._begin_ms = at_ms

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        token, user = moment.token, moment.user
        waiting, holders = self._waiting.setdefault(token, {}), self._holders.setdefault(token, {})
        match moment.change:
            case TokenChange.WANTED:
                waiting[user] = at_ms
            case TokenChange.QUEUED:
                pass
            case TokenChange.HELD | TokenChange.GONE:
                since_ms = waiting.pop(user, None)
                holders.pop(user, None)
                if moment.change is TokenChange.HELD:
                    holders[user] = None
                elif since_ms is not None and self._begin_ms is not None and since_ms >= self._begin_ms:
                    self._refused = self._refused or f"{user.name} did not get {token}, at {at_ms} ms"
                self._free_ms[token] = at_ms

    def second(self, fleet: Observed) -> None:
        nodes, begin_ms, now_ms = token_nodes(fleet.services), self._begin_ms, fleet.now_ms
        if nodes is None:
            return
        self._lists.add(nodes.settings.servers)
        self._lists.update(one for machine in nodes.machines.values() if machine.effective is not None
                           for one in machine.effective.lists)
        if begin_ms is None or any(2 * len(self._lost.intersection(one)) > len(one) for one in self._lists):
            return
        if self._refused:
            raise self.broken(self._refused)
        for token, waiting in self._waiting.items():
            if not waiting or any(user.believes(token) for user in self._holders.get(token, ())):
                self._free_ms[token] = now_ms
            free_ms = max(begin_ms, self._free_ms.setdefault(token, begin_ms))
            if now_ms - free_ms > nodes.bound_ms:
                names = ", ".join(user.name for user in waiting)
                raise self.broken(f"{token} is free since {free_ms} ms, and {names} wait for it at {now_ms} ms")


def _fence(event: Event) -> tuple[int, int, int] | None:
    """What of a fence has an order, where clients of tokens write."""
    fence = event.fence
    if not fence.token or event.path.names[:1] != TOKEN_PATH.names:
        return None
    return fence.base, fence.epoch, fence.counter
