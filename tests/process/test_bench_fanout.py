"""The fan-out generator of the benchmark believes nothing: only the next message, whole, is a delivery.

Knows: how each protocol tells watchers and answers a writer.  Measures nothing.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading

import attrs
import pytest
from bench.load import Generator, Load, LoadError, build

from distkv.errors import BusyError
from distkv.wire import packing
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.replies import encode_error, encode_reply
from distkv.wire.subtrees import Watch
from distkv.wire.value_requests import SetValue
from tests.process.fakes import serve

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev")

TAG = 5
FROM = 7
"""The first message with which something is wrong."""
RIGHT_S = 0.5
FAULTY_S = 60.0
"""The generator ends at a fault: however slow the machine is, it meets it."""


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return build(tmp_path_factory.mktemp("fanout"))


@attrs.define
class Fake:
    """A server with one channel. `fault` says what the first watcher gets in the place of message number `FROM`."""

    fault: str = ""
    watchers: list[socket.socket] = attrs.field(factory=list)
    ports: list[int] = attrs.field(factory=list)
    """At which the watchers came (distkv)."""
    count: int = 0
    """Messages so far."""
    paths: set[str] = attrs.field(factory=set)
    """That were written (distkv)."""
    is_well_begun: threading.Event = attrs.field(factory=threading.Event)
    """Set with the message number `FROM`."""

    @property
    def greeting(self) -> bytes:
        """What it says first."""
        return b""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        """What a client sent."""
        raise NotImplementedError

    def tell(self, number: int, item: bytes) -> None:
        """Give a message to all."""
        if number == FROM:
            self.is_well_begun.set()
        for place, watcher in enumerate(self.watchers):
            is_bad = place == 0 and number == FROM
            watcher.sendall(self.bad(item) if is_bad else item)

    def bad(self, item: bytes) -> bytes:
        match self.fault:
            case "lost":
                return b""
            case "twice":
                return item + item
            case "last byte":
                return item.replace(b"xx", b"xy")
            case _:
                return item


class FakeDistkv(Fake):
    """As much of a node as a writer and watchers need."""

    @property
    def greeting(self) -> bytes:
        return encode_reply(0, {"version": [0, 1, 0]})

    def receive(self, stream: socket.socket, data: bytes) -> None:
        reader = FrameReader()
        reader.feed(data)
        for frame in reader:
            request = decode_request(frame)
            assert not isinstance(request, BadRequest)
            if isinstance(request, Watch):
                self.watchers.append(stream)
                self.ports.append(stream.getsockname()[1])
                stream.sendall(encode_reply(request.seq, {"state": "start", "token": b""}))
            elif isinstance(request, SetValue):
                number, self.count = self.count, self.count + 1
                self.paths.add(str(request.path))
                if self.fault == "refusal" and number == FROM:
                    stream.sendall(encode_error(request.seq, BusyError("later")))
                    continue
                self.tell(number, self.item(request))
                stream.sendall(encode_reply(request.seq, {"changed": True, "tick": 1, "tock": 1}))

    def item(self, request: SetValue) -> bytes:
        assert request.value is not None
        seq = 2 if self.fault == "seq" and self.count > FROM else 1
        whole: dict[str, object] = {"seq": seq, "path": request.path.names, "node": "a", "token": b""}
        if self.fault == "path" and self.count > FROM:
            whole["path"] = ["other", *request.path.names[1:]]
        return packing.pack_map(whole, {"value": request.value})

    def bad(self, item: bytes) -> bytes:
        if self.fault != "resync":
            return super().bad(item)
        shown = item.replace(packing.pack("token"), packing.pack("ticks"))
        return b"".join(
            (encode_reply(1, {"state": "resync", "token": b""}), shown, encode_reply(1, {"state": "uptodate"}))
        )


class FakeRedis(Fake):
    """As much of Redis."""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        words = data.split(b"\r\n")
        if words[2] == b"SUBSCRIBE":
            self.watchers.append(stream)
            stream.sendall(b"*3\r\n$9\r\nsubscribe\r\n$9\r\n" + words[4] + b"\r\n:1\r\n")
            return
        for at in range(0, len(words) - 1, 7):
            channel, message = words[at + 4], words[at + 6]
            number, self.count = self.count, self.count + 1
            self.tell(number, b"*3\r\n$7\r\nmessage\r\n$9\r\n" + channel + b"\r\n$100\r\n" + message + b"\r\n")
            reached = len(self.watchers) - (self.fault == "count" and number == FROM)
            stream.sendall(b":%d\r\n" % reached)


class FakeNats(Fake):
    """As much of NATS. A message has no answer."""

    @property
    def greeting(self) -> bytes:
        return b'INFO {"server_id":"a"}\r\n'

    def receive(self, stream: socket.socket, data: bytes) -> None:
        lines = iter(data.split(b"\r\n"))
        for line in lines:
            match line.split():
                case [b"SUB", _, b"1"]:
                    self.watchers.append(stream)
                case [b"PING"]:
                    stream.sendall(b"PONG\r\n")
                case [b"PUB", channel, size]:
                    number, self.count = self.count, self.count + 1
                    self.tell(number, b"MSG %b 1 %b\r\n%b\r\n" % (channel, size, next(lines)))

    def bad(self, item: bytes) -> bytes:
        match self.fault:
            case "ping":
                return b"PING\r\nINFO {}\r\n" + item
            case "refusal":
                return b"-ERR 'later'\r\n"
            case _:
                return super().bad(item)


class FakeListener(Fake):
    """As much of a node's listener. Whoever logs in hears what everybody sends."""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message["command"] == "LOGIN":
                self.watchers.insert(0, stream)  # the writer is the first who logs in
                stream.sendall(b'{"command":"LOGIN_SUCCESS","info":"logged in"}\n')
                continue
            number, self.count = self.count, self.count + 1
            item = json.dumps({"command": "ACTIVITY_BROADCAST", "activity": message["activity"]}, separators=(",", ":"))
            self.tell(number, item.encode() + b"\n")

    def bad(self, item: bytes) -> bytes:
        if self.fault == "refusal":
            return b'{"command":"INVALID_MESSAGE","info":"later"}\n'
        return super().bad(item)


PROTOCOLS = {FakeDistkv: "distkv", FakeRedis: "redis", FakeNats: "nats", FakeListener: "activity"}
KINDS = tuple(PROTOCOLS)


def fan_out(generator: Generator, fake: Fake, depth: int = 1) -> Load:
    with serve(fake) as port:
        seconds = RIGHT_S if fake.fault in ("", "resync", "ping") else FAULTY_S
        return generator.fan_out(PROTOCOLS[type(fake)], port, watchers=3, depth=depth, seconds=seconds, tag=TAG)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [1, 8])
def test_each_message_at_each_watcher_is_an_operation(generator: Generator, kind: type[Fake], depth: int) -> None:
    fake = kind()
    found = fan_out(generator, fake, depth)
    assert found.failure == ""
    assert found.acknowledged == 3 * fake.count
    assert found.resyncs == 0


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *((kind, fault) for kind in KINDS for fault in ("twice", "last byte")),
        (FakeDistkv, "seq"),
        (FakeDistkv, "path"),
        (FakeRedis, "count"),
    ],
)
def test_anything_but_the_next_message_is_wrong(generator: Generator, kind: type[Fake], fault: str) -> None:
    found = fan_out(generator, kind(fault))
    assert found.wrong > 0
    assert found.failure


@pytest.mark.parametrize("kind", KINDS)
def test_message_that_is_left_out_is_wrong(generator: Generator, kind: type[Fake]) -> None:
    assert fan_out(generator, kind("lost"), depth=8).wrong > 0


@pytest.mark.parametrize("kind", [FakeDistkv, FakeNats, FakeListener])
def test_refusal_of_a_message_is_an_error(generator: Generator, kind: type[Fake]) -> None:
    found = fan_out(generator, kind("refusal"))
    assert (found.errors, found.wrong) == (1, 0)
    assert "later" in found.failure


def test_resync_is_counted_and_what_it_shows_is_no_delivery(generator: Generator) -> None:
    fake = FakeDistkv("resync")
    found = fan_out(generator, fake)
    assert found.failure == ""
    assert found.resyncs == 1
    assert found.acknowledged == 3 * fake.count - 1


def test_server_that_goes_ends_the_run(generator: Generator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LoadError, match="cannot connect"):
        generator.fan_out("redis", port, watchers=1, depth=1, seconds=0.1, tag=TAG)


def test_line_of_nats_between_messages_is_no_delivery(generator: Generator) -> None:
    fake = FakeNats("ping")
    found = fan_out(generator, fake, depth=8)
    assert found.failure == ""
    assert found.acknowledged == 3 * fake.count


def test_watchers_are_at_the_named_ports_in_turn(generator: Generator) -> None:
    fake = FakeDistkv()
    with serve(fake) as first, serve(fake) as second:
        found = generator.fan_out(
            "distkv", first, watchers=3, depth=8, seconds=RIGHT_S, tag=TAG, watched=[second, first], paths=1
        )
    assert found.failure == ""
    assert fake.ports == [second, first, second]
    assert len(fake.paths) == 1


@pytest.mark.parametrize("depth", [1, 8])
def test_messages_leave_after_pauses(generator: Generator, depth: int) -> None:
    fake = FakeDistkv()
    with serve(fake) as port:
        found = generator.fan_out(
            "distkv", port, watchers=1, depth=depth, seconds=RIGHT_S, tag=TAG, pause_s=RIGHT_S / 20
        )
    assert found.failure == ""
    assert found.acknowledged == fake.count < 100


def test_samples_are_all_counted_when_they_are_ended(generator: Generator) -> None:
    fake = FakeDistkv()
    with serve(fake) as port, generator.sampling(port, [port, port], tag=TAG, pause_s=0.001) as sampling:
        assert fake.is_well_begun.wait(FAULTY_S)
        sampling.stop()
        found = sampling.end()
    assert found.failure == ""
    assert found.ops == found.acknowledged == 2 * fake.count


def test_sample_that_is_wrong_is_told(generator: Generator) -> None:
    with serve(FakeDistkv("twice")) as port, generator.sampling(port, [port], tag=TAG, pause_s=0.001) as sampling:
        assert sampling.process.wait(FAULTY_S) == 0
        assert sampling.end().wrong > 0


def test_answers_are_operations_when_nobody_watches(generator: Generator) -> None:
    fake = FakeDistkv()
    with serve(fake) as port:
        found = generator.fan_out("distkv", port, watchers=0, depth=8, seconds=RIGHT_S, tag=TAG)
    assert found.failure == ""
    assert found.acknowledged == found.checked == fake.count


def test_refusal_is_an_error_when_nobody_watches(generator: Generator) -> None:
    with serve(FakeDistkv("refusal")) as port:
        assert generator.fan_out("distkv", port, watchers=0, depth=8, seconds=FAULTY_S, tag=TAG).errors > 0
