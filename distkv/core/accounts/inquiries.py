"""What a node asks the token servers about names.

Knows: which servers are asked for which name, and when again.  Does not know what follows from the answers.

First the tokens of this node say who serves; then the accounts of each of these say what they have on their disks.
Other nodes may be asked once beside them.

Invariant: an inquiry asks until it is ended, each server one question at a time; there are at most `INQUIRIES_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import attrs

from distkv.core.accounts.opinions import Opinions
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import BusyError, DecodeError, DistkvError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.account_entries import ANSWERS, AccountQuestion
from distkv.wire.declared import pack
from distkv.wire.token_replies import TokenServersShown
from distkv.wire.token_requests import TokenServers

TOKENS: Final = "tokens"
INQUIRIES_MAX: Final = 100
FIRST_MS: Final = 20
"""So long after its answer a server is asked again the first time; then twice as long each time."""
LONGEST_MS: Final = 500
PATIENCE_MS: Final = 10_000
OTHERS_MAX: Final = 256
OTHERS_MS: Final = 1000
"""So long the answers of nodes that are no servers are waited for."""


@attrs.frozen
class ServersWanted:
    """The purpose of the question who serves."""

    owner: str
    id: int


@attrs.frozen
class OpinionWanted:
    """The purpose of a question to one server."""

    owner: str
    id: int
    node: NodeName


@attrs.define(eq=False)
class NameInquiry:
    """One that is under way."""

    username: str
    opinions: Opinions | None = None
    """None: it is not known who serves."""
    error: DistkvError | None = None
    """Why that is so."""
    waits_ms: int = FIRST_MS
    again_ms: int | None = None
    """When some servers are asked again."""
    again: frozenset[NodeName] = frozenset()
    asked: set[NodeName] = attrs.field(factory=set)
    """Who has not answered yet."""
    others: set[NodeName] = attrs.field(factory=set)
    """The same of nodes that are no servers."""


class Inquiries:
    """Those of one owner on a node. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, owner: str) -> None:
        self._owner: Final = owner
        self._open: Final = dict[int, NameInquiry]()
        self._last = 0

    def begin(self, turn: ServiceTurn, username: str, others: Iterable[NodeName] = ()) -> int:
        """Ask the servers, and some of the others; returns the number of the inquiry.

        Raises:
            BusyError: too many are under way.
        """
        if len(self._open) >= INQUIRIES_MAX:
            raise BusyError(f"the token servers are asked about {INQUIRIES_MAX} names already: try again later")
        self._last += 1
        self._open[self._last] = NameInquiry(username, others=set(islice(sorted(others), OTHERS_MAX)))
        turn.ask(TOKENS, TokenServers(0), ServersWanted(self._owner, self._last))
        return self._last

    def end(self, turn: ServiceTurn, id: int) -> None:
        """Nobody wants to know any more."""
        found = self._open.pop(id)
        if found.opinions is None:
            turn.withdraw(ServersWanted(self._owner, id))
        for node in found.asked | found.others:
            turn.withdraw(OpinionWanted(self._owner, id, node))

    def of(self, id: int) -> NameInquiry:
        """What is known by now."""
        return self._open[id]

    def ask_again(self, turn: ServiceTurn, id: int, nodes: Iterable[NodeName]) -> None:
        """Ask these servers again, a moment later."""
        found = self._open[id]
        found.again = frozenset(nodes)
        if found.again_ms is None:
            found.again_ms = turn.boot_ms + found.waits_ms
            found.waits_ms = min(2 * found.waits_ms, LONGEST_MS)

    def replied(self, turn: ServiceTurn, what: Replied) -> int | None:
        """Something was answered; returns the inquiry of which more is known now."""
        wanted = what.purpose
        if not isinstance(wanted, ServersWanted | OpinionWanted):
            return None
        if wanted.owner != self._owner or wanted.id not in self._open:
            return None
        if isinstance(wanted, ServersWanted):
            self._take_servers(turn, wanted.id, what.reply)
        else:
            self._take_opinion(turn, wanted.id, wanted.node, what.reply)
        return wanted.id

    def woken(self, turn: ServiceTurn) -> None:
        """Time passed."""
        for id, found in self._open.items():
            if found.again_ms is not None and found.again_ms <= turn.boot_ms:
                nodes, found.again, found.again_ms = found.again - found.asked, frozenset(), None
                self._ask(turn, id, nodes)

    def wake_ms(self) -> int | None:
        """When `woken` has something to do."""
        return min((one.again_ms for one in self._open.values() if one.again_ms is not None), default=None)

    # -- inside

    def _take_servers(self, turn: ServiceTurn, id: int, reply: object) -> None:
        found = self._open[id]
        if isinstance(reply, TokenServersShown):
            agreed = reply.agreed
            found.opinions = Opinions((agreed.list or tuple(reply.servers), agreed.next))
            self._ask(turn, id, found.opinions.servers)
            found.others -= found.opinions.servers
            for node in sorted(found.others):
                self._ask_one(turn, id, node, OTHERS_MS)
        elif isinstance(reply, DistkvError):
            found.error = reply

    def _take_opinion(self, turn: ServiceTurn, id: int, node: NodeName, reply: object) -> None:
        found = self._open[id]
        is_server = node in found.asked
        found.asked.discard(node)
        found.others.discard(node)
        try:
            answer = ANSWERS.read(reply if isinstance(reply, bytes) else b"")
        except DecodeError:  # it said nothing, or nonsense
            if is_server:
                self._ask(turn, id, {node})
        else:
            if found.opinions is not None:
                found.opinions.take(node, answer.entry)

    def _ask(self, turn: ServiceTurn, id: int, nodes: Iterable[NodeName]) -> None:
        for node in sorted(nodes):
            self._open[id].asked.add(node)
            self._ask_one(turn, id, node, PATIENCE_MS)

    def _ask_one(self, turn: ServiceTurn, id: int, node: NodeName, patience_ms: int) -> None:
        body = pack(AccountQuestion(self._open[id].username))
        turn.ask_node(node, body, OpinionWanted(self._owner, id, node), patience_ms=patience_ms)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._open) <= INQUIRIES_MAX, "few inquiries are under way")
        for found in self._open.values():
            must(found.opinions is not None or not found.asked, "who serves is asked first")
            must(found.opinions is None or found.asked <= found.opinions.servers, "only servers are asked")
            if found.opinions is not None:
                found.opinions.check()
