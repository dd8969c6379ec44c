"""One connection to a node on a plain blocking socket.

Knows: addresses, deadlines, how a socket fails.  Does not know what is said (`protocol`) nor what it means
(`questions`).

Invariant: after an error that leaves it unclear which reply comes next, the connection is closed; a closed one only
raises `UnreachableError`. One thread uses it at a time; any thread may `stop` it.

A question takes four system calls: a look at whether the server is still there, one send, one wait that ends with the
deadline, one receive. So the socket itself never waits: with a timeout of its own Python would wait before each send.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from distkv.client import failures, forks, node_questions
from distkv.client.addresses import Address, UnixAddress, address_text
from distkv.client.protocol import Answered, ClientProtocol
from distkv.client.questions import Answer, Question
from distkv.errors import DistkvError
from distkv.wire.fields import Fields
from distkv.wire.replies import Hello

RECEIVE_BYTES: Final = 1 << 16
BULK_BYTES: Final = 1 << 18
"""At once, where there is much to come."""
FIRST_SEQ: Final = 1
"""Of a long result: its connection is asked nothing before it."""
SEND_S: Final = 1.0
"""A server that takes a small question in for longer hangs."""
LAST_WORDS_S: Final = 0.1
"""How long we listen to a server that closed while we were sending."""


def open_connection(addresses: Sequence[Address], *, connect_s: float, lines: Lines | None = None) -> Connection:
    """Connect to the first of `addresses` where a node greets; each may take `connect_s` seconds.

    It is one of `lines` from its first attempt on.

    Raises:
        UnreachableError: none does; the message says why for each. Or the lines are ended.
        PeerError, BusyError: there is one address, and something else, or a node without room, answers there.
    """
    if not addresses:
        raise ValueError("at least one address is needed")
    found: list[DistkvError] = []
    for address in addresses:
        try:
            return Connection(address, connect_s=connect_s, lines=lines)
        except DistkvError as error:  # busy, or what is none of ours: another address may do better
            found.append(error)
            if lines is not None and lines.are_ended:
                break
    raise failures.none_of(found)


class Connection:
    """A greeted connection. One question at a time."""

    def __init__(self, address: Address, *, connect_s: float, lines: Lines | None = None) -> None:
        self.address: Final = address
        self.name: Final = address_text(address)
        self._conversation: ClientProtocol[object] = ClientProtocol(self.name)
        self._is_stopped = False
        self._socket: socket.socket | None = None
        self._arrival: Final = select.poll()
        forks.tell_child(self)
        if lines is not None:
            lines.add(self)
        deadline = time.monotonic() + connect_s
        try:
            self._dial(connect_s)
            self.hello: Final = self._greeting(deadline)
        except BaseException:
            self.close()
            raise

    def leave_to_parent(self) -> None:
        """It goes on there: only our end of it is closed."""
        self.close()

    def close(self) -> None:
        """May be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def stop(self) -> None:
        """End it from any thread: the thread that waits on it is told at once, and closes it. May be called again."""
        self._is_stopped = True
        if (line := self._socket) is not None:
            with suppress(OSError):  # it is gone already
                line.shutdown(socket.SHUT_RDWR)

    def end_items(self) -> None:
        """From any thread: let the long result come to its end, behind all that there is to tell by then. A server that
        takes nothing in is not waited for."""
        stop = node_questions.stop(FIRST_SEQ)
        if (line := self._socket) is not None:
            with suppress(OSError):
                line.send(self._conversation.ask(stop, stop))

    def check_open(self) -> None:
        """Raises UnreachableError when it was closed on our side, be it because it broke."""
        if self._socket is None or self._is_stopped:
            raise failures.ended(self.name)

    def fileno(self) -> int:
        """For a selector, which tells when `finish` would not wait long."""
        self.check_open()
        return self._open_socket().fileno()

    @property
    def is_open(self) -> bool:
        """Whether nobody has noticed that it broke."""
        return self._socket is not None

    def is_alive(self) -> bool:
        """Whether it is open, owes no answer, and nothing came that says that the server is gone: nothing comes without
        a question."""
        return self._socket is not None and not self._conversation.open_count and not self._arrival.poll(0)

    def ask(self, question: Question[Answer], deadline: float) -> Fields | DistkvError:
        """Send a question and wait for its reply, or the refusal.

        Raises:
            UnreachableError: the server is gone, or did not answer in time.
            PeerError: the answer is nonsense.
        """
        return self.finish(self.begin(question, deadline))

    def begin(self, question: Question[Answer], deadline: float) -> float:
        """Send a question and do not wait for the reply, which `finish` takes; until when it may take.

        Raises:
            UnreachableError: the server takes nothing in.
        """
        if self._conversation.open_count:  # a signal handler's exception came amid the last one, whose answer may come
            self.close()
        self.check_open()
        data = self._conversation.ask(question, question)
        try:
            return self._send(data, deadline)
        except BaseException:
            self.close()
            raise

    def finish(self, deadline: float) -> Fields | DistkvError:
        """Wait for the reply to what was begun, or the refusal; raises what `ask` does."""
        try:
            while True:
                for answered in self._receive(deadline):
                    if answered.answer is not None:
                        return answered.answer
        except BaseException:
            self.close()
            raise
        finally:
            if self._conversation.failure is not None:
                self.close()

    def ask_looking(self, question: Question[Answer], deadline: float, look_s: float) -> Fields | DistkvError:
        """As `ask`. While nothing comes the server is asked for a sign of life, which it has `look_s` to give."""
        deadline = self.begin(question, deadline)
        sign: Question[None] | None = None
        lives = False
        try:
            while True:
                while not self._arrival.poll(1000 * max(0.0, min(look_s, deadline - time.monotonic()))):
                    is_over = time.monotonic() >= deadline
                    if sign is not None or is_over:
                        raise failures.late(self.name) if lives and is_over else failures.silent(self.name)
                    sign = node_questions.ping()
                    self._send(self._conversation.ask(sign, sign), deadline)
                sign, lives = None, True
                for answered in self._receive(deadline):
                    if answered.asker is question and answered.answer is not None:
                        return answered.answer
        except BaseException:
            self.close()
            raise
        finally:
            if self._conversation.failure is not None:
                self.close()

    def send(self, question: Question[Answer], asker: object) -> None:
        """Send one of several questions at a time; `take` gives their replies, as they come, together with the askers.

        Raises:
            UnreachableError: the server takes nothing in.
        """
        self.check_open()
        self._send(self._conversation.ask(question, asker), _after(SEND_S))

    def take(self) -> list[Answered[object]]:
        """What came. To be called when `fileno` can be read: it waits for nothing then.

        Raises:
            UnreachableError: the server is gone.
            PeerError: it answers nonsense.
        """
        return self._receive(_after(SEND_S))

    def items(
        self, question: Question[Answer], reply_s: float, first_s: float | None = None
    ) -> Generator[Fields, None, None]:
        """The items of a long result, each within `reply_s` of the last one, the first within `first_s` if that is
        given. The connection is closed after it.

        Raises:
            UnreachableError: the server is gone, or sends nothing for so long.
            DistkvError: the refusal, which may also come after items.
        """
        try:
            self.check_open()
            data = self._conversation.ask(question, question, is_long=True)
            deadline = self._send(data, _after(reply_s if first_s is None else first_s))
            while True:
                for answered in self._receive(deadline):
                    if answered.asker is not question:
                        continue
                    if isinstance(answered.answer, DistkvError):
                        raise answered.answer
                    if answered.answer is None:
                        return
                    yield answered.answer
                deadline = _after(reply_s)
        finally:
            self.close()

    def chunks(self, question: Question[Answer], reply_s: float) -> Generator[bytes, None, None]:
        """The bytes that come for a question, each within `reply_s` of the last ones, for who reads them in bulk and
        knows where they end. The connection is closed after it.

        Raises:
            UnreachableError: the server is gone, or sends nothing for so long.
        """
        try:
            self.check_open()
            deadline = self._send(self._conversation.ask(question, question, is_long=True), _after(reply_s))
            while True:
                yield self._bytes(deadline, BULK_BYTES)
                deadline = _after(reply_s)
        finally:
            self.close()

    # -- inside

    def _dial(self, connect_s: float) -> None:
        """Connect to the first place behind the address that accepts."""
        failure: OSError | UnicodeError = OSError("no such host")
        try:
            for family, place in _places(self.address):
                try:
                    self._dial_at(family, place, connect_s)
                    return
                except OSError as error:
                    failure = error
                    self.close()
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
            failure = error
        raise failures.ended(self.name) if self._is_stopped else failures.unanswered(self.name, failure)

    def _dial_at(self, family: int, place: Any, connect_s: float) -> None:
        line = self._socket = socket.socket(family, socket.SOCK_STREAM)
        line.settimeout(connect_s)
        if self._is_stopped:
            raise failures.ended(self.name)
        line.connect(place)
        line.setblocking(False)
        self._arrival.register(line, select.POLLIN)
        if family != socket.AF_UNIX:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _open_socket(self) -> socket.socket:
        """Raises UnreachableError when there is none: a signal handler may have forked, and we are the child."""
        if self._socket is None:
            raise failures.ended(self.name)
        return self._socket

    def _greeting(self, deadline: float) -> Hello:
        while self._conversation.hello is None:
            self._receive(deadline)
        return self._conversation.hello

    def _send(self, data: bytes, deadline: float) -> float:
        """Until when to wait for the reply."""
        try:
            sent = _sent(self._open_socket(), data)
            if sent < len(data):
                self._send_rest(memoryview(data)[sent:], deadline)
        except TimeoutError:
            raise failures.choked(self.name) from None
        except OSError:
            # It may have said why before it closed: what it sent can still be read.
            return min(deadline, time.monotonic() + LAST_WORDS_S)
        return deadline

    def _send_rest(self, data: memoryview, deadline: float) -> None:
        """What the socket did not take at once."""
        line = self._open_socket()
        line.settimeout(_seconds_until(deadline))
        try:
            line.sendall(data)
        finally:
            line.setblocking(False)

    def _receive(self, deadline: float) -> list[Answered[object]]:
        found = self._conversation.feed(self._bytes(deadline, RECEIVE_BYTES))
        if self._conversation.failure is not None and not found:
            raise self._conversation.failure
        return found

    def _bytes(self, deadline: float, count_max: int) -> bytes:
        try:
            data = None
            while data is None:
                self._arrival.poll(1000 * _seconds_until(deadline))
                data = _received(self._open_socket(), count_max)
        except TimeoutError:
            raise failures.silent(self.name) from None
        except OSError as error:
            raise failures.ended(self.name) if self._is_stopped else failures.closed(self.name, error) from None
        if not data:
            raise failures.ended(self.name) if self._is_stopped else failures.closed(self.name)
        return data


def _places(address: Address) -> list[tuple[int, Any]]:
    """The family of each socket that leads there, and what it connects to."""
    if isinstance(address, UnixAddress):
        return [(socket.AF_UNIX, address.path)]
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]


def _sent(line: socket.socket, data: bytes) -> int:
    """How much of it the socket took."""
    try:
        return line.send(data)
    except BlockingIOError:
        return 0


def _received(line: socket.socket, count_max: int) -> bytes | None:
    """What came; None when nothing did."""
    try:
        return line.recv(count_max)
    except BlockingIOError:
        return None


def _after(seconds: float) -> float:
    return time.monotonic() + seconds


def _seconds_until(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Line(Protocol):
    """A connection, from its first attempt to connect on."""

    def stop(self) -> None:
        """End it, from any thread: who waits on it is told at once."""


class Lines:
    """The connections of one blocking client, which are ended together. For any thread.

    Invariant: when `end` returns each of them is stopped, and each that is added later is stopped at once. One that
    nobody holds any more is not kept."""

    def __init__(self) -> None:
        self._there: Final = WeakValueDictionary[int, Line]()
        self._are_ended = False

    @property
    def are_ended(self) -> bool:
        return self._are_ended

    def add(self, line: Line) -> None:
        """For as long as it exists."""
        self._there[id(line)] = line
        if self._are_ended:
            line.stop()

    def end(self) -> None:
        """May be called again."""
        self._are_ended = True
        for found in self._there.valuerefs():
            if (line := found()) is not None:
                line.stop()
