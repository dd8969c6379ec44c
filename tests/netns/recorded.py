"""Datagrams of the hosts of a network, recorded where they arrive, and sent again.

Knows: Ethernet, IPv4 and UDP, as far as another receiver needs a frame rewritten.  Does not know what is in a datagram.

Invariant: what is sent again comes under the address of who sent it first; the bridge does not learn from it where a
host is.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from typing import Final, Self

import attrs

from tests.netns.network import Network

_ETH: Final = 14
_IP: Final = 20
_UDP: Final = 17
_OUTGOING: Final = 4


@attrs.frozen
class Datagram:
    """One, as it arrived or left."""

    sender: str
    receiver: str
    """IPv4 addresses."""
    frame: bytes


class Recorder:
    """All that arrives at the hosts, and all that leaves them, by UDP."""

    def __init__(self, network: Network) -> None:
        self.arrived: Final[list[Datagram]] = []
        self.left: Final[list[Datagram]] = []
        self._network: Final = network
        self._sockets: Final = {name: host.packets("eth0") for name, host in network.hosts.items()}
        self._is_over: Final = threading.Event()
        self._threads: Final = [threading.Thread(target=self._run, args=(one,)) for one in self._sockets.values()]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for one in self._sockets.values():
            one.close()

    def send_again(self, datagrams: Sequence[Datagram], receiver: str | None = None) -> None:
        """Each to who got it, or to this host, by whichever host is neither."""
        macs = {name: one.getsockname()[4] for name, one in self._sockets.items()}
        names = {address: name for name, address in self._network.addresses.items()}
        for datagram in datagrams:
            to = receiver or names[datagram.receiver]
            by = next(name for name in self._sockets if name != to)
            frame = _readdressed(datagram.frame, macs[to], macs[by], self._network.addresses[to])
            self._sockets[by].send(frame)

    def _run(self, one: socket.socket) -> None:
        one.settimeout(0.2)
        while not self._is_over.is_set():
            try:
                frame, where = one.recvfrom(2000)
            except TimeoutError:
                continue
            if frame[12:14] == b"\x08\x00" and frame[_ETH + 9] == _UDP:
                ends = frame[_ETH + 12 : _ETH + 20]
                found = Datagram(socket.inet_ntoa(ends[:4]), socket.inet_ntoa(ends[4:]), frame)
                (self.left if where[2] == _OUTGOING else self.arrived).append(found)


def _readdressed(frame: bytes, to_mac: bytes, by_mac: bytes, to_address: str) -> bytes:
    ip = bytearray(frame[_ETH : _ETH + _IP])
    ip[10:12] = b"\0\0"
    ip[16:20] = socket.inet_aton(to_address)
    ip[10:12] = struct.pack(">H", _checksum(bytes(ip)))
    udp = bytearray(frame[_ETH + _IP :])
    udp[6:8] = b"\0\0"  # without a checksum
    return to_mac + by_mac + frame[12:14] + bytes(ip) + bytes(udp)


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
