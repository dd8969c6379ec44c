"""Connections that are lent: a node that cannot be dialled opens one itself, and is asked on it.

Knows: which nodes lend one here, whether they can be dialled after all, and how one is offered to another node.  Does
not know what is asked on it (`pull`), nor to whom one is to be lent (the core).

Invariant: there is one for each address at the most, and it is used only after its other end has greeted as the node
that lends it; as soon as that node can be dialled, nothing new is asked on it (docs/protocol, LINK-19, LINK-20).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from distkv.errors import BusyError, LoanOverError, PeerError, RequestError
from distkv.model.event import NodeName
from distkv.transport.peer_line import CONNECT_S, IDLE_S, Connect, PeerCall, PeerLine, connected, receive
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import Hello, decode_reply, read_hello, reply_error
from distkv.wire.request import Lend

PROBE_S: Final = 30.0
"""So often it is tried whether a node that lends a connection can be dialled."""
ANSWER_S: Final = CONNECT_S + IDLE_S + 5
"""So long an offer may take: whoever is asked tries to dial first."""


@attrs.frozen
class Lender:
    """A node that lends a connection."""

    name: NodeName
    life: int
    network: bytes
    addr: str
    """HOST:PORT at which it would be dialled."""
    reason: str = ""
    """Why that does not work."""

    def is_it(self, hello: Hello) -> bool:
        """Whether it greets so."""
        return (hello.node, hello.life, hello.network) == (self.name, self.life, self.network)


@attrs.define(eq=False)
class Loan:
    """A connection that is lent here, and used."""

    lender: Lender
    line: PeerLine
    reason: str
    """Why the lender could not be dialled the last time."""


class Loans:
    """Those of one node, either way."""

    def __init__(self, dial: Callable[[str], PeerLine], connect: Connect, answer_bytes_max: int) -> None:
        """`dial` gives the node's own connection to an address, maybe one that is being opened."""
        self._dial: Final = dial
        self._connect: Final = connect
        self._answer_bytes_max: Final = answer_bytes_max
        self._loans: Final = dict[str, Loan]()

    # -- borrowed

    def line(self, addr: str) -> PeerLine | None:
        """The connection on which the node at this address is asked, if it lends one."""
        loan = self._loan(addr)
        return loan.line if loan is not None else None

    def reason(self, addr: str) -> str | None:
        """Why the node at this address cannot be dialled, if it lends a connection."""
        loan = self._loan(addr)
        return loan.reason if loan is not None else None

    async def check(self, lender: Lender) -> Lender:
        """With the reason for which it cannot be dialled. All who ask at a time share one attempt, so nobody can make
        this node dial more often than it would.

        Raises:
            RequestError: it can be dialled, or lends a connection already.
        """
        self._check_first(lender)
        try:
            await self._reach(lender)
        except PeerError as error:
            self._check_first(lender)
            return attrs.evolve(lender, reason=str(error))
        raise RequestError(f"{lender.name} can be dialled at {lender.addr}: no connection need be lent")

    async def borrow(self, lender: Lender, stream: trio.abc.Stream, began: Callable[[], object]) -> None:
        """Ask the lender on this connection, from its greeting on, until it ends or nobody asks anything any more;
        `began` is called with the greeting."""

        async def connect(host: str, port: int) -> trio.abc.Stream:  # noqa: ARG001  # it is open already
            await trio.lowlevel.checkpoint()
            return stream

        def greeted(hello: Hello) -> None:
            if not lender.is_it(hello):
                raise PeerError(f"{lender.addr}: {hello.node} greets on a connection that {lender.name} was to lend")
            if self._loan(lender.addr) is not None:
                raise PeerError(f"{lender.addr}: lends a connection already")
            self._loans[lender.addr] = loan
            began()

        loan = Loan(lender, PeerLine(lender.addr, connect, self._answer_bytes_max, greeted), lender.reason)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._probe, loan)
                await loan.line.run()
                nursery.cancel_scope.cancel()
        finally:
            self._forget(loan)

    # -- lent

    @asynccontextmanager
    async def lend(self, name: NodeName, addr: str, request: Lend) -> AsyncIterator[trio.abc.Stream]:
        """A connection to the node of this name, which was offered it, and took it.

        Raises:
            RequestError: it took none.
            PeerError: it cannot be reached, is another one, is silent, or the connection broke.
        """
        async with connected(addr, self._connect) as stream:
            with trio.fail_after(ANSWER_S):
                await stream.send_all(encode_request(request))
                await _taken(name, addr, request, stream)
            yield stream

    # -- inside

    def _loan(self, addr: str) -> Loan | None:
        loan = self._loans.get(addr)
        return loan if loan is not None and not loan.line.is_over else None

    def _check_first(self, lender: Lender) -> None:
        if self._loan(lender.addr) is not None:
            raise BusyError(f"{lender.name} lends a connection already")

    async def _reach(self, lender: Lender) -> None:
        """Dial it, and wait for an answer.

        Raises:
            PeerError: that does not work, or another node answers.
            RequestError: it answers, and refuses.
        """

        async def take(_: Fields) -> None:
            await trio.lowlevel.checkpoint()

        line, call = self._dial(lender.addr), PeerCall(take)
        async with line.asking(PingRequest, call):
            await call.wait()
        if line.greeting is None or line.greeting.node != lender.name:
            raise PeerError(f"{lender.addr}: another node answers there")

    async def _probe(self, loan: Loan) -> None:
        """Leave the loan as soon as its lender can be dialled."""
        while True:
            await trio.sleep(PROBE_S)
            try:
                await self._reach(loan.lender)
            except PeerError as error:
                loan.reason = str(error)
            except RequestError:  # it answers, but has no place for us
                continue
            else:
                self._forget(loan)
                loan.line.leave(LoanOverError(f"{loan.lender.addr}: it can be dialled again"))
                return

    def _forget(self, loan: Loan) -> None:
        if self._loans.get(loan.lender.addr) is loan:
            del self._loans[loan.lender.addr]


async def _taken(name: NodeName, addr: str, request: Lend, stream: trio.abc.Stream) -> None:
    """Read the greeting, and the answer to an offer, behind which nothing comes."""
    reader = FrameReader()
    is_greeted = False
    while True:
        for frame in reader:
            fields = decode_reply(frame)
            refusal = reply_error(fields)
            if refusal is not None:
                raise refusal
            if not is_greeted:
                hello = read_hello(fields)
                if (hello.node, hello.network) != (name, request.network):
                    raise PeerError(f"{addr}: {hello.node} greets there, or not of this network, and not {name}")
                is_greeted = True
            elif fields["seq"] == request.seq and reader.is_between_frames:
                return
            else:
                raise PeerError(f"{addr}: it says more than whether it takes the connection")
        data = await receive(stream)
        if not data:
            raise PeerError(f"{addr}: closed the connection that it was offered")
        reader.feed(data)
