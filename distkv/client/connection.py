"""One connection to a node on a plain blocking socket: the greeting, then a request and its reply in turn.

Knows: addresses, deadlines, frames.  Does not know what requests mean (`blocking`).

Invariant: after an error that leaves it unclear which reply comes next, the connection is closed; a closed one only
raises `UnreachableError`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

from distkv import __version__
from distkv.errors import DecodeError, DistkvError, PeerError, TooLargeError, UnreachableError
from distkv.wire.frames import FrameReader, encode_request
from distkv.wire.replies import Hello, decode_reply, read_hello, reply_error
from distkv.wire.request import Request

Address: TypeAlias = tuple[str, int]

REPLY_BYTES_MAX: Final = 64 << 20
"""A larger reply is taken for nonsense."""

RECEIVE_BYTES: Final = 1 << 16


def open_connection(addresses: Sequence[Address], *, connect_s: float, reply_s: float) -> Connection:
    """Connect to the first of `addresses` where a node greets; each may take `connect_s` seconds.

    Raises:
        UnreachableError: none does; the message says why for each.
        PeerError, BusyError: there is one address, and something else, or a node without room, answers there.
    """
    if not addresses:
        raise ValueError("at least one address is needed")
    failures: list[DistkvError] = []
    for address in addresses:
        try:
            return Connection(address, connect_s=connect_s, reply_s=reply_s)
        except DistkvError as error:  # busy, or what is none of ours: another address may do better
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise UnreachableError("; ".join(map(str, failures)))


class Connection:
    """A greeted connection."""

    def __init__(self, address: Address, *, connect_s: float, reply_s: float) -> None:
        self.address: Final = address
        self._reply_s: Final = reply_s
        self._reader = FrameReader(REPLY_BYTES_MAX)
        deadline = time.monotonic() + connect_s
        try:
            self._socket: socket.socket | None = socket.create_connection(address, connect_s)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
            raise UnreachableError(
                f"no server answers at {self.name} ({_reason(error)}): "
                "start one there with 'distkv server NAME', or name another host and port"
            ) from None
        try:
            self.hello: Final = self._greeting(deadline)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """HOST:PORT."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """May be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, request: Request) -> dict[str, object]:
        """Send a request and wait for its reply.

        Raises:
            DistkvError: of the class that has the code of the server's answer.
            UnreachableError: the server is gone, or did not answer in time; whether a write was done is then unknown.
            PeerError: the answer is nonsense.
        """
        deadline = time.monotonic() + self._reply_s
        self._send(encode_request(request), deadline)
        fields = self._receive(deadline)
        error = reply_error(fields)
        if error is not None and fields["seq"] == request.seq:
            raise error
        if error is not None or fields["seq"] != request.seq:
            self.close()
            raise error or PeerError(f"the server at {self.name} answered what was not asked: report this")
        return fields

    # -- inside ---------------------------------------------------------------------------------------------------

    def _greeting(self, deadline: float) -> Hello:
        fields = self._receive(deadline)
        refused = reply_error(fields)
        if refused is not None:
            raise refused
        try:
            hello = read_hello(fields)
        except DecodeError:
            raise self._no_node() from None
        ours = int(__version__.partition(".")[0])
        if abs(hello.version[0] - ours) > 1:
            version = ".".join(map(str, hello.version))
            raise PeerError(
                f"the server at {self.name} is distkv {version}, this is {__version__}: "
                "only neighbouring releases work together; upgrade the older one"
            )
        return hello

    def _send(self, data: bytes, deadline: float) -> None:
        if self._socket is None:
            raise UnreachableError(f"the connection to {self.name} is closed: connect anew")
        try:
            self._socket.settimeout(_seconds_until(deadline))
            self._socket.sendall(data)
        except TimeoutError:
            raise self._lost("takes nothing in: it hangs, or the network does") from None
        except OSError as error:
            # It may have said why before it closed: what it sent can still be read.
            self._raise_last_words()
            raise self._lost(f"closed the connection ({_reason(error)})") from None

    def _raise_last_words(self) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(0.1)
            while chunk := self._socket.recv(RECEIVE_BYTES):
                self._reader.feed(chunk)
        except OSError:
            pass
        try:
            frame = self._reader.next_frame()
            refused = None if frame is None else reply_error(decode_reply(frame))
        except (DecodeError, TooLargeError):
            return
        if refused is not None:
            self.close()
            raise refused

    def _receive(self, deadline: float) -> dict[str, object]:
        try:
            while (frame := self._reader.next_frame()) is None:
                self._reader.feed(self._receive_some(deadline))
            return decode_reply(frame)
        except (DecodeError, TooLargeError):
            raise self._no_node() from None

    def _receive_some(self, deadline: float) -> bytes:
        if self._socket is None:
            raise UnreachableError(f"the connection to {self.name} is closed: connect anew")
        try:
            self._socket.settimeout(_seconds_until(deadline))
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise self._lost("does not answer: it hangs, or the network does") from None
        except OSError as error:
            raise self._lost(f"closed the connection ({_reason(error)})") from None
        if not data:
            raise self._lost("closed the connection: it was stopped, or its log says why")
        return data

    def _lost(self, what: str) -> UnreachableError:
        self.close()
        return UnreachableError(f"the server at {self.name} {what}")

    def _no_node(self) -> PeerError:
        self.close()
        return PeerError(f"what answers at {self.name} is no distkv server: check host and port")


def _seconds_until(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, UnicodeError):
        return "this is no host name"
    return (error.strerror or str(error)).lower()
