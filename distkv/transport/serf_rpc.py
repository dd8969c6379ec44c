"""A client of the Serf agent's RPC: the commands that we need, each with a deadline (RPC protocol 1, Serf 0.8 on).

Knows: one TCP connection to one agent, and which reply belongs to which call.  Does not know reconnecting, nor what
the events mean.  docs/serf.rst says why this is ours.

Invariant: every call ends within its deadline: with its answer, as refused, as timed out, or as lost together with the
connection, which fails all calls at once.  The reader never waits for a consumer: a full stream drops and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import attrs
import trio

from distkv.errors import DecodeError
from distkv.transport.serf_stream import (
    RECORDS_MAX,
    AuthRefusedError,
    RecordStream,
    RpcLostError,
    RpcRefusedError,
    RpcTimeoutError,
)
from distkv.wire.serf_frames import (
    SHAPES,
    Body,
    Frame,
    ReplyDecoder,
    SerfMember,
    Shape,
    decode_members,
    decode_record,
    decode_stats,
    encode_request,
)

VERSION: Final = 1
"""Of the agent's RPC."""
CALLS_MAX: Final = 256
"""Calls without an answer, those that timed out included: an agent that is this far behind is not asked more."""
STREAMS_MAX: Final = 64
"""Streams of one connection."""
_RECEIVE_BYTES: Final = 1 << 16

Answer = TypeVar("Answer")
Dial: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]


async def connect(
    nursery: trio.Nursery,
    host: str,
    port: int,
    *,
    auth: str | None = None,
    timeout_s: float = 2.0,
    dial: Dial = trio.open_tcp_stream,
) -> SerfRpc:
    """Connect, start the reader in `nursery`, shake hands, show the key. Takes `timeout_s` per step at the most.

    Raises:
        AuthRefusedError: the key is wrong, missing, or not wanted.
        RpcTimeoutError, RpcRefusedError, RpcLostError: there is no agent, or none that works.
    """
    where = f"the Serf agent at {host}:{port}"
    stream = None
    with trio.move_on_after(timeout_s):
        try:
            stream = await dial(host, port)
        except OSError as error:
            raise RpcLostError(f"{where} cannot be reached: {error}") from None
    if stream is None:
        raise RpcTimeoutError(f"{where} did not take the connection within {timeout_s:g} s")
    rpc = SerfRpc(stream, timeout_s=timeout_s)
    nursery.start_soon(rpc.run)
    await rpc.handshake()
    try:
        if auth is not None:
            await rpc.authenticate(auth)
        else:
            await rpc.stats()  # an agent that wants a key refuses this, and says so
    except RpcRefusedError as error:
        if auth is not None:
            what = "refused the key: set serf.auth to its rpc_auth, or leave it out when the agent has none"
        elif error.text == "Authentication required":
            what = "wants a key: set serf.auth to its rpc_auth"
        else:
            raise
        raise AuthRefusedError(f"{where} {what}") from None
    return rpc


@attrs.define(slots=True, eq=False)
class _RpcCall:
    command: str
    timeout_s: float
    done: trio.Event = attrs.field(factory=trio.Event)
    frame: Frame | None = None
    stream: RecordStream | None = None


class SerfRpc:
    """One connection. Start `run` in a nursery, then `handshake`, perhaps `authenticate`, then anything.

    All calls raise `RpcTimeoutError`, `RpcRefusedError` or `RpcLostError`, and may be cancelled; a call that is
    cancelled while its request is half sent ends the connection.
    """

    def __init__(self, stream: trio.abc.Stream, *, timeout_s: float = 2.0) -> None:
        self._stream = stream
        self._timeout_s = timeout_s
        self._seq = 0
        self._calls: dict[int, _RpcCall] = {}
        self._streams: dict[int, RecordStream] = {}
        self._send_lock = trio.Lock()
        self._reading = trio.CancelScope()
        self._lost: str | None = None
        self._is_lost = trio.Event()

    async def run(self) -> None:
        """Read until the connection ends; returns then. Raises nothing, whatever the agent sends."""
        decoder = ReplyDecoder(self._shape_of)
        try:
            with self._reading:
                while data := await self._stream.receive_some(_RECEIVE_BYTES):
                    for frame in decoder.feed(bytes(data)):
                        self._dispatch(frame)
                self._lose("the Serf agent closed the connection")
        except DecodeError as error:
            self._lose(str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(f"the connection to the Serf agent broke: {error.__cause__ or error}")
        finally:
            self._lose("the connection to the Serf agent was closed")
            await trio.aclose_forcefully(self._stream)

    async def wait_lost(self) -> None:
        """Wait until the connection is gone.

        Raises:
            RpcLostError: always, with the reason.
        """
        await self._is_lost.wait()
        raise RpcLostError(self._lost or "")

    # -- commands: the connection

    async def handshake(self) -> None:
        await self._call("handshake", {"Version": VERSION})

    async def authenticate(self, key: str) -> None:
        """Needed when the agent's configuration has `rpc_auth`; refused otherwise."""
        await self._call("auth", {"AuthKey": key})

    # -- commands: events

    async def send_event(self, name: str, payload: bytes) -> None:
        """Send a user event. That the agent takes it says nothing about its arrival anywhere."""
        await self._call("event", {"Name": name, "Payload": payload, "Coalesce": False})

    async def open_stream(self, kinds: str) -> RecordStream:
        """Events of these kinds: a comma separated list such as `user:NAME,member-join,query`, or `*`."""
        return await self._open("stream", {"Type": kinds})

    # -- commands: members

    async def members(self) -> tuple[SerfMember, ...]:
        """All agents that this one knows, also those that left or failed."""
        return await self._ask(decode_members, "members")

    async def set_tags(self, tags: Mapping[str, str]) -> None:
        """Change the agent's tags; those not named stay. All together have at most 512 bytes."""
        await self._call("tags", {"Tags": dict(tags), "DeleteTags": []})

    async def delete_tag(self, name: str) -> None:
        """Take one of the agent's tags away, if it has it."""
        await self._call("tags", {"Tags": {}, "DeleteTags": [name]})

    async def own_tags(self) -> Mapping[str, str]:
        """The tags of this agent itself."""
        name = (await self.stats()).get("agent", {}).get("name")
        return next((member.tags for member in await self.members() if member.name == name), {})

    async def stats(self) -> dict[str, dict[str, str]]:
        """Section -> name -> text; `serf` / `event_queue` is the backlog of events."""
        return await self._ask(decode_stats, "stats")

    # -- calls

    async def _ask(
        self,
        decode: Callable[[Body], Answer],
        command: str,
        body: Mapping[str, object] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        frame = await self._call(command, body, timeout_s)
        try:
            return decode(frame.body or {})
        except DecodeError as error:  # whoever answers so is no agent
            self._lose(str(error))
            raise RpcLostError(str(error)) from None

    async def _open(self, command: str, body: Mapping[str, object]) -> RecordStream:
        if len(self._streams) >= STREAMS_MAX:
            raise RpcRefusedError(f"{STREAMS_MAX} streams were opened on this connection: use a new one", "")
        call = _RpcCall(command, self._timeout_s)
        await self._finish(call, body)
        if call.stream is None:
            raise RpcLostError("the connection to the Serf agent was closed")
        return call.stream

    async def _call(
        self, command: str, body: Mapping[str, object] | None = None, timeout_s: float | None = None
    ) -> Frame:
        return await self._finish(_RpcCall(command, self._timeout_s if timeout_s is None else timeout_s), body)

    async def _finish(self, call: _RpcCall, body: Mapping[str, object] | None) -> Frame:
        with trio.move_on_after(call.timeout_s):
            async with self._send_lock:
                if self._lost is None:
                    await self._send(call, body)
            if self._lost is None:
                await call.done.wait()
        if (frame := call.frame) is None:
            if self._lost is not None:
                raise RpcLostError(self._lost)
            # The call stays in the table: its answer may still come, and only the table tells what that looks like.
            raise RpcTimeoutError(f"the Serf agent did not answer {call.command!r} within {call.timeout_s:g} s")
        if frame.error:
            text = " ".join(frame.error.split())
            raise RpcRefusedError(f"the Serf agent refused {call.command!r}: {text}", text)
        return frame

    async def _send(self, call: _RpcCall, body: Mapping[str, object] | None) -> None:
        if len(self._calls) >= CALLS_MAX:
            raise RpcTimeoutError(f"the Serf agent owes {CALLS_MAX} answers: it is frozen or far behind")
        self._seq += 1
        self._calls[self._seq] = call
        whole = False
        try:
            await self._stream.send_all(encode_request(call.command, self._seq, body))
            whole = True
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(f"the connection to the Serf agent broke: {error.__cause__ or error}")
        finally:
            if not whole:  # half a request may be on its way: nothing that follows could be understood
                self._lose("a request to the Serf agent could not be sent in time")

    # -- the reader

    def _shape_of(self, seq: int) -> Shape | None:
        if seq in self._streams:
            return Shape.BODY
        call = self._calls.get(seq)
        return None if call is None else SHAPES[call.command]

    def _dispatch(self, frame: Frame) -> None:
        stream = self._streams.get(frame.seq)
        if stream is not None:
            self._record(stream, frame)
            return
        call = self._calls.pop(frame.seq)
        call.frame = frame
        if SHAPES[call.command] is Shape.RECORDS and not frame.error:
            call.stream = self._streams[frame.seq] = RecordStream(frame.seq, RECORDS_MAX)
        call.done.set()

    def _record(self, stream: RecordStream, frame: Frame) -> None:
        if frame.body is None:
            stream.end(f"the Serf agent ended the stream: {frame.error}")
            return
        stream.put(decode_record(frame.body))

    def _lose(self, reason: str) -> None:
        """The connection is gone; the first reason given is the one that is told."""
        if self._lost is not None:
            return
        self._lost = reason
        self._is_lost.set()
        for call in self._calls.values():
            call.done.set()
        for stream in self._streams.values():
            stream.end(reason)
        self._calls.clear()
        self._reading.cancel()
