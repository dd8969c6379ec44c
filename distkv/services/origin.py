"""From where a connection comes, as a number: so that nobody gets more by opening many.

Knows: the addresses of both ends.  Does not know what is counted by it.

Invariant: connections from one host have one number; those of this host have none, because many programs run here and
cannot be told apart (docs/protocol, SESSION-15).
"""

from __future__ import annotations

from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from typing import Final

HERE: Final = 0
ORIGINS: Final = 1 << 16
"""Two hosts may have the same number; then they share."""
CONNECTIONS: Final = 1 << 16
SUBNET_BITS: Final = 64
"""Of an IPv6 address those that its host cannot choose."""


def origin_of(peer: object, own: object) -> int:
    """The number of another host, from 1 on; `HERE` for this one, and where no address is known.

    Args:
        peer: the socket's `getpeername`.
        own: its `getsockname`.
    """
    address = _address(peer)
    if address is None or address == _address(own):
        return HERE
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return HERE
    packed = found.packed[: SUBNET_BITS // 8]
    return 1 + int.from_bytes(blake2b(packed, digest_size=4).digest()) % (ORIGINS - 1)


def asker_of(origin: int, connection: int) -> int:
    """A connection by its number, and by the number of the host from which it comes; 0: of the node's own."""
    return origin * CONNECTIONS + connection % CONNECTIONS


def _address(name: object) -> str | None:
    if not isinstance(name, tuple) or not name or not isinstance(name[0], str):
        return None
    address = name[0].partition("%")[0]
    try:
        ip_address(address)
    except ValueError:
        return None
    return address
