"""What nodes and their addresses are called.

Knows: which text names a node, HOST:PORT, or a Unix socket.  Does not know what is there.  Apart from the settings, so
that a client need not load these.

Invariant: text that is none of them is refused with what would be right.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import SettingsError

UNIX: Final = "unix:"
"""What the address of a Unix socket begins with; its path follows."""
SOCKET_PATH_BYTES_MAX: Final = 107
"""For a longer path the kernel has no room."""


def parse_address(text: str, what: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        SettingsError: it is not that.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{what} is {text!r}: write HOST:PORT, such as 127.0.0.1:27586")
    return host, int(port)


def parse_socket(text: str, what: str) -> str | None:
    """The path in unix:/PATH; None when the text can only be HOST:PORT.

    Raises:
        SettingsError: it is neither, or no socket can have this path.
    """
    path = text.removeprefix(UNIX)
    if "/" not in text and (path == text or path.isdecimal()):
        return None
    if path == text or not path.startswith("/"):
        raise SettingsError(
            f"{what} is {text!r}: write HOST:PORT, such as 127.0.0.1:27586, or, for a Unix socket, unix:/PATH"
        )
    try:
        size = len(path.encode(errors="surrogateescape"))
    except UnicodeEncodeError:
        size = 0
    if not size or "\0" in path:
        raise SettingsError(f"{what} is {text!r}: no file can have this name")
    if size > SOCKET_PATH_BYTES_MAX:
        raise SettingsError(
            f"{what} is {text!r}: its path has {size} bytes, that of a Unix socket can have {SOCKET_PATH_BYTES_MAX}:"
            " choose a shorter one"
        )
    return path


def is_node_name(text: str) -> bool:
    """1-63 of ASCII letters, digits, '.', '-', '_'."""
    return 0 < len(text) <= 63 and text.isascii() and all(c.isalnum() or c in ".-_" for c in text)


def address_of(host: str, port: int) -> str:
    """HOST:PORT, as `parse_address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
