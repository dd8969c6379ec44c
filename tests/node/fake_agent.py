"""A Serf agent in memory: speaks the RPC, gossips with nobody, misbehaves on demand.

Knows: what docs/serf.rst says about a real agent (tests/process checks that against one).  Does not know our client.

Invariant: nothing here takes time, so that under a `MockClock` all time that passes is the client's.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import msgpack
import trio
from trio.testing import memory_stream_pair

NO_BODY = object()


@attrs.define(eq=False)
class Connection:
    stream: trio.abc.Stream
    streams: dict[int, list[str]] = attrs.field(factory=dict)
    is_known: bool = False


@attrs.define(eq=False)
class FakeAgent:
    """Give `dial` to a client; run it in `nursery`."""

    nursery: trio.Nursery
    auth: str = ""
    limit: int = 512
    queue: int = 0
    members: list[tuple[str, dict[str, str], str]] = attrs.field(factory=lambda: [("agent-a", {}, "alive")])
    """Name, tags, status; the first is this agent."""
    is_frozen: bool = False
    is_stopped: bool = False
    echoes: bool = True
    """Whether events come back on the streams."""
    mute: set[str] = attrs.field(factory=set)
    """Commands that are never answered."""
    raw: dict[str, bytes] = attrs.field(factory=dict)
    """Commands that are answered with these bytes instead."""
    refuse: dict[str, str] = attrs.field(factory=dict)
    """Commands that are refused with this text."""
    sent: list[tuple[float, str, bytes]] = attrs.field(factory=list)
    """(time, name, payload) of the events that were accepted."""
    may_coalesce: bool = False
    """Whether a later event could have taken the place of one of them."""
    commands: list[str] = attrs.field(factory=list)
    connections: list[Connection] = attrs.field(factory=list)
    dials: list[float] = attrs.field(factory=list)

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """What the client calls instead of `trio.open_tcp_stream`."""
        self.dials.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if self.is_stopped:
            raise OSError(f"nothing listens on {host}:{port}")
        theirs, ours = memory_stream_pair()
        connection = Connection(ours)
        self.connections.append(connection)
        self.nursery.start_soon(self._serve, connection)
        return theirs

    async def stop(self) -> None:
        """Die: connections break, new ones are refused."""
        self.is_stopped = True
        for connection in self.connections:
            await connection.stream.aclose()
        self.connections.clear()

    def start(self) -> None:
        self.is_stopped = False

    async def inject(self, name: str, payload: bytes, copies: int = 1) -> None:
        """A user event arrives from somewhere; all copies come in one piece."""
        record = {"Event": "user", "LTime": 1, "Name": name, "Payload": payload or None, "Coalesce": False}
        for connection in self.connections:
            for seq, kinds in connection.streams.items():
                if f"user:{name}" in kinds or "*" in kinds:
                    await connection.stream.send_all(_frame(seq, "", record) * copies)

    async def send_raw(self, data: bytes) -> None:
        """Say something else on all connections."""
        for connection in self.connections:
            await connection.stream.send_all(data)

    async def _serve(self, connection: Connection) -> None:
        unpacker = msgpack.Unpacker(raw=False)
        header: dict[str, object] | None = None
        try:
            while data := await connection.stream.receive_some():
                unpacker.feed(data)
                for item in unpacker:
                    if header is None and item["Command"] not in ("members", "stats"):
                        header = item
                        continue
                    request, header = (item if header is None else header), None
                    await self._answer(connection, str(request["Command"]), int(str(request["Seq"])), item)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass

    async def _answer(self, connection: Connection, command: str, seq: int, body: Mapping[str, object]) -> None:
        if self.is_frozen:
            await trio.sleep_forever()
        self.commands.append(command)
        if command in self.mute:
            return
        if command in self.raw:
            await connection.stream.send_all(self.raw[command])
            return
        error, reply = self._decide(connection, command, body)
        if command in self.refuse:
            error, reply = self.refuse[command], NO_BODY
        if command == "stream" and not error:
            connection.streams[seq] = str(body["Type"]).split(",")
        await connection.stream.send_all(_frame(seq, error, reply))
        if command == "event" and not error and self.echoes:
            await self.inject(str(body["Name"]), _bytes(body["Payload"]))

    def _decide(self, connection: Connection, command: str, body: Mapping[str, object]) -> tuple[str, object]:
        match command:
            case "handshake":
                connection.is_known = not self.auth
            case "auth":
                connection.is_known = bool(self.auth) and body["AuthKey"] == self.auth
                return ("" if connection.is_known else "Invalid authentication token"), NO_BODY
            case _ if not connection.is_known:
                return "Authentication required", NO_BODY
            case "event":
                self.may_coalesce |= body["Coalesce"] is not False
                return self._event(str(body["Name"]), _bytes(body["Payload"])), NO_BODY
            case "stats":
                return "", {"serf": {"event_queue": str(self.queue)}, "agent": {"name": self.members[0][0]}}
            case "members":
                return "", {"Members": [_member(*member) for member in self.members]}
            case "tags":
                tags, gone = body["Tags"], body["DeleteTags"]
                assert isinstance(tags, dict)
                assert isinstance(gone, list)
                self.members[0][1].update(tags)
                for name in gone:
                    self.members[0][1].pop(name, None)
        return "", NO_BODY

    def _event(self, name: str, payload: bytes) -> str:
        size = len(name) + len(payload)
        if size > self.limit:
            return f"user event exceeds configured limit of {self.limit} bytes before encoding"
        if size + 39 > self.limit:
            return f"encoded user event exceeds configured limit of {self.limit} bytes after encoding"
        self.sent.append((trio.current_time(), name, payload))
        return ""


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _member(name: str, tags: dict[str, str], status: str) -> dict[str, object]:
    return {"Name": name, "Addr": b"\x7f\x00\x00\x01", "Port": 7946, "Tags": tags, "Status": status}


def _frame(seq: int, error: str, body: object) -> bytes:
    header: bytes = msgpack.packb({"Seq": seq, "Error": error})
    return header if body is NO_BODY else header + msgpack.packb(body)
