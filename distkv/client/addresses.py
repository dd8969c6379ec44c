"""Where a node is, as people write it.

Knows: the forms of an address.  Does not know sockets.

Invariant: reading what `address_text` wrote gives the same address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from distkv.errors import SettingsError
from distkv.model.lean import lean_value
from distkv.naming import UNIX, parse_address, parse_socket


@lean_value
class UnixAddress:
    """A Unix socket."""

    path: str


Address: TypeAlias = tuple[str, int] | UnixAddress
"""Host and port, or a Unix socket."""


@lean_value
class Reach:
    """Where nodes are, the one that was connected last first, and how long each of them is tried."""

    addresses: tuple[Address, ...]
    connect_s: float
    reply_s: float


DEFAULT_ADDRESS: Final = ("127.0.0.1", 27586)


def read_address(text: str, port: int = DEFAULT_ADDRESS[1]) -> Address:
    """The address in unix:/PATH, HOST or HOST:PORT, where an IPv6 host with a port stands in brackets.

    Args:
        text: what to read.
        port: the port when `text` has none.

    Raises:
        SettingsError: it is none of them.
    """
    if not text:
        raise SettingsError("the host is empty: write HOST or HOST:PORT, such as 127.0.0.1:27586")
    path = parse_socket(text, "the host")
    if path is not None:
        return UnixAddress(path)
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], port
    if text.count(":") == 1 or text.startswith("["):
        return parse_address(text, "the host")
    return text, port  # a name, or an IPv6 address without a port


def read_hosts(hosts: str | Sequence[str], port: int) -> tuple[Address, ...]:
    """The addresses in one text or several.

    Raises:
        SettingsError: one of them is none, the port is none, or there is not one.
    """
    if type(port) is not int or not 0 < port < 65536:
        raise SettingsError(f"the port is {port!r}: it must be a number from 1 to 65535")
    found = tuple(read_address(host, port) for host in _texts(hosts))
    if not found:
        raise SettingsError("no host is named: name at least one")
    return found


def check_addresses(addresses: object) -> None:
    """Whether all are as `read_hosts` gives them.

    Raises:
        SettingsError: one is not.
    """
    if not isinstance(addresses, list | tuple) or not addresses or not all(map(_is_address, addresses)):
        raise SettingsError(f"addresses are {addresses!r}: use distkv.connect, which takes hosts as text")


def address_text(address: Address) -> str:
    """HOST:PORT or unix:/PATH."""
    if isinstance(address, UnixAddress):
        return f"{UNIX}{address.path}"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def in_turn(addresses: Sequence[Address], current: Address, *, is_silent: bool) -> tuple[Address, ...]:
    """The same addresses, `current` and those behind it first: a node that is back soon still has what was written. One
    that said nothing when it was asked comes last: it would take as long again."""
    at = addresses.index(current) + is_silent
    return (*addresses[at:], *addresses[:at])


def _texts(hosts: object) -> list[str]:
    given = list(hosts) if isinstance(hosts, Sequence) and not isinstance(hosts, str | bytes) else [hosts]
    found = [host for host in given if isinstance(host, str)]
    if len(found) < len(given):
        raise SettingsError(f"the host is {hosts!r}: write text, such as '127.0.0.1:27586', or a list of such")
    return found


def _is_address(value: object) -> bool:
    if isinstance(value, UnixAddress):
        return True
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and type(value[1]) is int
