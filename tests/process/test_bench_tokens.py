"""The generator of locks believes nothing: only the grant that is due, above all before it, and its release are an
operation.

Knows: how distkv and etcd grant and release.  Measures nothing.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
from typing import Literal

import attrs
import pytest
from bench.load import Generator, Load, build

from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.replies import encode_error, encode_reply
from distkv.wire.token_errors import HeldError, NoQuorumError, NotHeldError
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenOpen, TokenRelease
from tests.process.fakes import serve

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev")

TAG = 5
CONNECTIONS = 4
NAMES = 3
MANY = 64
"""So many grants are said one right after the other. Each of the connections keeps its first one for a while, and
during one of these times, at the least, another grant comes."""
RUN_S = 0.5

Mode = Literal["alone", "handed"]


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return build(tmp_path_factory.mktemp("tokens"))


@attrs.frozen
class Wish:
    """Somebody who wants a lock."""

    stream: socket.socket
    seq: int
    """Of distkv."""
    lock: str


@attrs.define
class FakeLocks:
    """Locks that are granted in order. `fault` says what is wrong with each grant, or each other answer."""

    fault: str = ""
    held: dict[str, socket.socket] = attrs.field(factory=dict)
    waiting: list[Wish] = attrs.field(factory=list)
    seen: set[str] = attrs.field(factory=set)
    """The locks that were asked for."""
    grants: int = 0
    sessions: int = 0
    """How many were opened."""
    closed: int = 0

    @property
    def greeting(self) -> bytes:
        """What it says first."""
        return b""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        """What a client sent."""
        raise NotImplementedError

    def want(self, wish: Wish) -> None:
        self.seen.add(wish.lock)
        if self.fault == "together" and self.grants < MANY:
            self._grant_together(wish)
        elif wish.lock in self.held:
            self.waiting.append(wish)
        else:
            self.grant(wish)

    def free(self, stream: socket.socket) -> None:
        """Whoever holds something, releases it, whatever it calls it."""
        lock = next((lock for lock, holder in self.held.items() if holder is stream), "")
        self.held.pop(lock, None)
        later = next((wish for wish in self.waiting if wish.lock == lock), None)
        if later is not None:
            self.waiting.remove(later)
            self.grant(later)

    def grant(self, wish: Wish) -> None:
        self.held[wish.lock] = wish.stream
        self.grants += 1
        wish.stream.sendall(self.granted(wish))

    def granted(self, wish: Wish) -> bytes:
        """How a grant is said."""
        raise NotImplementedError

    def _grant_together(self, wish: Wish) -> None:
        """To all of them, once all want it. Afterwards this server does what is right."""
        self.waiting.append(wish)
        if len(self.waiting) == MANY:
            wishes, self.waiting = self.waiting, []
            for each in wishes:
                self.grant(each)


class FakeDistkv(FakeLocks):
    """As much of a token server as contenders need."""

    @property
    def greeting(self) -> bytes:
        return encode_reply(0, {"version": [0, 1, 0]})

    def receive(self, stream: socket.socket, data: bytes) -> None:
        request = decode_request(data)
        assert not isinstance(request, BadRequest)
        match request:
            case TokenOpen(seq=seq):
                self.sessions += 1
                if self.fault == "open":
                    stream.sendall(encode_error(seq, NoQuorumError("later")))
                else:
                    stream.sendall(encode_reply(seq, {"session": f"4-{self.sessions:x}", "ttl": 600.0, "version": 1}))
            case TokenAcquire(seq=seq, token=token, wait_s=wait_s):
                assert wait_s is not None
                if self.fault == "acquire":
                    stream.sendall(encode_error(seq, HeldError("later")))
                else:
                    self.want(Wish(stream, seq, token))
            case TokenRelease(seq=seq):
                if self.fault == "release":
                    stream.sendall(encode_error(seq, NotHeldError("later")))
                else:
                    stream.sendall(encode_reply(seq + (self.fault == "seq of release"), {}))
                self.free(stream)
            case TokenClose(seq=seq, session=session):
                self.closed += 1
                stream.sendall(encode_reply(seq, {"session": session}))
            case _:
                raise AssertionError(request)

    def granted(self, wish: Wish) -> bytes:
        epoch, counter = 2, self.grants
        match self.fault:
            case "same fence":
                counter = 1
            case "lower counter":
                counter = 1_000_000 - self.grants
            case "lower epoch":
                epoch, counter = 1_000_000 - self.grants, self.grants
        token = wish.lock + "x" if self.fault == "name" else wish.lock
        fields = {"token": token, "epoch": epoch, "counter": counter, "shared": self.fault == "shared", "version": 1}
        if self.fault == "nothing":
            fields = {}
        reply = encode_reply(wish.seq + (self.fault == "seq"), fields)
        return reply + reply if self.fault == "two answers" else reply


class FakeEtcd(FakeLocks):
    """As much of etcd's gateway."""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        place, asked = head.split(b" ")[1].decode(), json.loads(body)
        match place:
            case "/v3/lease/grant":
                self.sessions += 1
                stream.sendall(self._answer({"ID": "7587", "TTL": asked["TTL"]}))
            case "/v3/lock/lock":
                assert asked["lease"] == "7587"
                if self.fault == "acquire":
                    stream.sendall(self._answer({"error": "later"}, status="503 Service Unavailable"))
                else:
                    self.want(Wish(stream, 0, base64.b64decode(asked["name"]).decode()))
            case "/v3/lock/unlock":
                status = "503 Service Unavailable" if self.fault == "release" else "200 OK"
                stream.sendall(self._answer({}, status=status))
                self.free(stream)
            case "/v3/lease/revoke":
                self.closed += 1
                stream.sendall(self._answer({}))
            case _:
                raise AssertionError(place)

    def granted(self, wish: Wish) -> bytes:
        name = "another" if self.fault == "key" else wish.lock
        key = {} if self.fault == "no key" else {"key": base64.b64encode(f"{name}/1da3".encode()).decode()}
        return self._answer(key, revision=7 if self.fault == "revision" else self.grants)

    def _answer(self, fields: dict[str, str], *, revision: int = 1, status: str = "200 OK") -> bytes:
        body = json.dumps({"header": {"revision": str(revision)}, **fields}, separators=(",", ":"))
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


KINDS = {"distkv": FakeDistkv, "etcd": FakeEtcd}


def _lock(
    generator: Generator, protocol: str, mode: Mode, fault: str = "", connections: int = CONNECTIONS
) -> tuple[FakeLocks, Load]:
    fake = KINDS[protocol](fault)
    with serve(fake) as port:
        run = generator.lock(protocol, port, mode, connections=connections, names=NAMES, seconds=RUN_S, tag=TAG)
    return fake, run


@pytest.mark.parametrize("mode", ["alone", "handed"])
@pytest.mark.parametrize("protocol", KINDS)
def test_grant_and_its_release_are_an_operation(generator: Generator, protocol: str, mode: Mode) -> None:
    fake, found = _lock(generator, protocol, mode)
    assert found.failure == ""
    assert found.acknowledged == fake.grants
    assert (fake.sessions, fake.closed) == (CONNECTIONS, CONNECTIONS)


@pytest.mark.parametrize("protocol", KINDS)
def test_connections_that_are_alone_take_tokens_of_their_own_in_turn(generator: Generator, protocol: str) -> None:
    fake, _ = _lock(generator, protocol, "alone")
    assert fake.seen == {f"t{TAG:08d}.{number:05d}" for number in range(CONNECTIONS * NAMES)}


@pytest.mark.parametrize("protocol", KINDS)
def test_one_token_is_handed_to_all(generator: Generator, protocol: str) -> None:
    fake, _ = _lock(generator, protocol, "handed")
    assert fake.seen == {f"t{TAG:08d}.00000"}


@pytest.mark.parametrize("protocol", KINDS)
def test_two_grants_at_once_are_wrong_though_their_fences_grow(generator: Generator, protocol: str) -> None:
    _, found = _lock(generator, protocol, "handed", "together", MANY)
    assert found.wrong > 0


FAULTS = {
    "distkv": ["same fence", "lower counter", "lower epoch", "shared", "name", "seq", "nothing", "two answers"],
    "etcd": ["revision", "key", "no key"],
}


@pytest.mark.parametrize(
    ("protocol", "fault"), [(protocol, fault) for protocol, faults in FAULTS.items() for fault in faults]
)
@pytest.mark.parametrize("mode", ["alone", "handed"])
def test_other_grants_are_wrong(generator: Generator, protocol: str, fault: str, mode: Mode) -> None:
    fake, found = _lock(generator, protocol, mode, fault)
    assert found.wrong > 0
    assert found.errors == 0
    assert found.acknowledged < fake.grants


def test_answer_to_another_release_is_wrong(generator: Generator) -> None:
    _, found = _lock(generator, "distkv", "handed", "seq of release")
    assert (found.ops, found.errors) == (0, 0)
    assert found.wrong > 0


@pytest.mark.parametrize("protocol", KINDS)
@pytest.mark.parametrize("fault", ["acquire", "release"])
def test_refusals_are_no_operations(generator: Generator, protocol: str, fault: str) -> None:
    _, found = _lock(generator, protocol, "alone", fault)
    assert (found.ops, found.acknowledged, found.wrong) == (0, 0, 0)
    assert found.errors > 0
    assert "later" in found.failure or "503" in found.failure


def test_nothing_is_asked_when_a_session_is_refused(generator: Generator) -> None:
    fake, found = _lock(generator, "distkv", "alone", "open")
    assert (found.ops, found.errors, fake.seen, fake.closed) == (0, CONNECTIONS, set(), 0)
