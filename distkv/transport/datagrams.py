"""A UDP socket: what is there to read, and what leaves, without waiting for either.

Knows: the kernel's control messages for the address that was asked and for datagrams that were dropped.  Does not know
what is in a datagram.

Invariant: an answer leaves from the address that was asked, also where the socket listens at all addresses; what is
remembered for that is bounded. Sending never raises and never waits: what the kernel does not take is lost, as on any
way of a datagram.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, TypeAlias

import trio

from distkv.wire.swim_records import DATAGRAM_BYTES_MAX, Address

ASKED_MAX: Final = 4096
"""Senders of which it is remembered at which of our addresses they ask."""
RECEIVE_BUFFER: Final = 1 << 20
"""What the kernel is asked to hold for us; it may give less."""
_IP_PKTINFO: Final = 8
_SO_RXQ_OVFL: Final = 40
_V4_KEY: Final = (socket.IPPROTO_IP, _IP_PKTINFO)
_V6_KEY: Final = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
_OVERFLOW_KEY: Final = (socket.SOL_SOCKET, _SO_RXQ_OVFL)
_V4_INFO: Final = struct.Struct("=I4s4s")
_V6_INFO: Final = struct.Struct("=16sI")
_COUNT: Final = struct.Struct("=I")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_V6_INFO.size) + socket.CMSG_SPACE(_COUNT.size)

Ancillary: TypeAlias = list[tuple[int, int, bytes]]


class DatagramSocket:
    """One, bound."""

    def __init__(self, bound: socket.socket) -> None:
        self.lost = 0
        """Datagrams that the kernel did not take from us."""
        self._socket: Final = bound
        self._is_v6: Final = bound.family == socket.AF_INET6
        self._is_wildcard: Final = ip_address(bound.getsockname()[0]).is_unspecified
        self._info: Final = _V6_KEY if self._is_v6 else _V4_KEY
        self._asked: Final = dict[Address, bytes]()
        self._overflowed = self._told = 0

    @property
    def address(self) -> Address:
        """Where it is bound."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def is_v6(self) -> bool:
        return self._is_v6

    async def wait_readable(self) -> None:
        """Until a datagram came."""
        await trio.lowlevel.wait_readable(self._socket)

    def read(self, number: int) -> list[tuple[Address, bytes]]:
        """What is there, but no more than so many; the oldest first. Of what is longer than a datagram may be, as much
        as shows that.

        Raises:
            OSError: the socket is of no use any more.
        """
        found: list[tuple[Address, bytes]] = []
        while len(found) < number:
            try:
                data, ancillary, _, sender = self._socket.recvmsg(DATAGRAM_BYTES_MAX + 1, _ANCILLARY_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            address = _sender(sender)
            self._note(address, ancillary)
            found.append((address, data))
        return found

    def take_dropped(self) -> int:
        """How many datagrams the kernel dropped for want of room since this was asked the last time."""
        before, self._told = self._told, self._overflowed
        return (self._told - before) % (1 << 32)

    def send(self, address: Address, data: bytes) -> None:
        """Let it leave, or count it as lost."""
        asked = self._asked.get(address)
        try:
            if asked is None:
                self._socket.sendto(data, address)
            else:
                self._socket.sendmsg([data], [(*self._info, asked)], 0, address)
        except OSError:  # also an address of another family
            self.lost += 1

    def close(self) -> None:
        """Nothing comes or leaves any more. Nobody waits any more for what comes."""
        self._socket.close()

    # -- inside

    def _note(self, address: Address, ancillary: Ancillary) -> None:
        for level, kind, data in ancillary:
            key = level, kind
            if key == _OVERFLOW_KEY and len(data) >= _COUNT.size:
                self._overflowed = _COUNT.unpack_from(data)[0]
            elif not self._is_wildcard or key != self._info:
                continue
            elif self._is_v6 and len(data) >= _V6_INFO.size:
                own, interface = _V6_INFO.unpack_from(data)
                self._remember(address, _V6_INFO.pack(own, interface if ip_address(own).is_link_local else 0))
            elif not self._is_v6 and len(data) >= _V4_INFO.size:
                _, own, _ = _V4_INFO.unpack_from(data)
                self._remember(address, _V4_INFO.pack(0, own, bytes(4)))

    def _remember(self, address: Address, asked: bytes) -> None:
        self._asked.pop(address, None)
        self._asked[address] = asked
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]


def open_datagrams(address: Address) -> DatagramSocket:
    """Bind a socket there; host and port are numbers.

    Raises:
        OSError: it is not possible.
    """
    is_v6 = ":" in address[0]
    made = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        made.setsockopt(*_OVERFLOW_KEY, 1)
        if is_v6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            made.setsockopt(*_V4_KEY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return DatagramSocket(made)


def reachable_host(hosts: Iterable[str]) -> str | None:
    """The first of these that can be reached from other machines; None: none can."""
    return next((host for host in hosts if not ip_address(host.partition("%")[0]).is_loopback), None)


def _sender(name: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    host, port = name[:2]
    scope = name[3] if len(name) == 4 else 0
    return (f"{host}%{scope}" if scope else host), port
