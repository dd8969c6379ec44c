"""Connecting under trio and asyncio: a stream to the first address where a node greets.

Knows: streams as anyio shows them, how long each step may take, and how they fail.  Does not know what is asked.

Invariant: what is returned has greeted; what fails on the way is closed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Final, Generic

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute

from distkv.client import failures, forks
from distkv.client.addresses import Address, UnixAddress, address_text
from distkv.client.protocol import Asker, ClientProtocol
from distkv.errors import DistkvError
from distkv.wire.replies import Hello

RECEIVE_BYTES: Final = 1 << 16


@attrs.frozen(eq=False)
class GreetedStream(Generic[Asker]):
    """A connection whose greeting was heard."""

    address: Address
    stream: ByteStream
    conversation: ClientProtocol[Asker]
    hello: Hello

    @property
    def name(self) -> str:
        return address_text(self.address)

    def leave_to_parent(self) -> None:
        """In a child: our end of it leads nowhere any more. Closing it would disturb the loop, which the parent has,
        too."""
        file = self.stream.extra(SocketAttribute.raw_socket).fileno()
        if file >= 0:
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nowhere, file, inheritable=False)
            os.close(nowhere)


async def open_first(addresses: Sequence[Address], connect_s: float) -> GreetedStream[Asker]:
    """A stream to the first of `addresses` where a node greets; each may take `connect_s` seconds.

    Raises:
        UnreachableError, PeerError, BusyError: as `connection.open_connection`.
    """
    found: list[DistkvError] = []
    for address in addresses:
        try:
            return await _open(address, connect_s)
        except DistkvError as error:  # busy, or what is none of ours: another address may do better
            found.append(error)
    raise failures.none_of(found)


async def receive(stream: ByteStream, name: str) -> bytes:
    """What comes next.

    Raises:
        UnreachableError: the other side, or we, closed it.
    """
    try:
        return await stream.receive(RECEIVE_BYTES)
    except anyio.EndOfStream:
        raise failures.closed(name) from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        raise failures.closed(name, error.__cause__ if isinstance(error.__cause__, OSError) else None) from None


async def close(stream: ByteStream) -> None:
    """At once, and to the end also when we are being cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.aclose_forcefully(stream)


# -- inside -----------------------------------------------------------------------------------------------------------


async def _open(address: Address, connect_s: float) -> GreetedStream[Asker]:
    name = address_text(address)
    with anyio.move_on_after(connect_s) as scope:
        stream = await _dial(address)
    if scope.cancelled_caught:
        raise failures.unanswered(name, TimeoutError())
    try:
        with anyio.move_on_after(connect_s):
            return await _greeted(address, stream)
        raise failures.silent(name)
    except BaseException:
        await close(stream)
        raise


async def _dial(address: Address) -> ByteStream:
    try:
        if isinstance(address, UnixAddress):
            return await anyio.connect_unix(address.path)
        stream = await anyio.connect_tcp(*address)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
        cause = error.__cause__
        raise failures.unanswered(address_text(address), cause if isinstance(cause, OSError) else error) from None
    stream.extra(SocketAttribute.raw_socket).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


async def _greeted(address: Address, stream: ByteStream) -> GreetedStream[Asker]:
    conversation: ClientProtocol[Asker] = ClientProtocol(address_text(address))
    while conversation.hello is None:
        conversation.feed(await receive(stream, address_text(address)))
        if conversation.failure is not None:
            raise conversation.failure
    greeted = GreetedStream(address, stream, conversation, conversation.hello)
    forks.tell_child(greeted)
    return greeted
