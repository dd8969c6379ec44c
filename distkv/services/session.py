"""One connection: frames in, replies out, in order and only when they are true.

Knows: the order of replies, when they may leave, and the limits of one connection.  Does not know what a request does
(`kv`, `tree`, `watch`, `wait`, `status`, `peer`).

Invariant: the replies of one read leave in one send, after one wait for the commit that covers them all; a reply that
shows an own event leaves only when that event is durable.  What is not msgpack gets one error reply, then a close.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias, TypeVar, assert_never

import trio

from distkv import __version__
from distkv.engine.driver import Driver
from distkv.engine.turn_work import PORTION, REQUEST
from distkv.errors import DecodeError, DistkvError, InternalError, RequestError, TooLargeError
from distkv.services import (
    aside,
    backup,
    changes,
    conflicts,
    damage,
    history,
    kv,
    lending,
    nodes,
    peer,
    service_messages,
    status,
    tree,
)
from distkv.services.answers import LongAnswers, SendPart
from distkv.services.edges import ConnectionEdges
from distkv.services.follow import Follows
from distkv.services.hidden import hidden_error
from distkv.services.idle import RECEIVE_BYTES, IdleConnections
from distkv.services.replicas import ReplicatedWrites
from distkv.services.sender import Sender
from distkv.services.service_requests import ServiceRequests
from distkv.services.trace import Traces
from distkv.services.wait import ConnectionWaits
from distkv.services.watch import Watches
from distkv.transport.loans import Lender
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from distkv.wire.frames import SERVING_ONLY, BadRequest, decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import (
    Backup,
    ChangeKey,
    DecideAside,
    GetKeys,
    GetMembers,
    GetState,
    LookForDamage,
    PingRequest,
    RetireNodeRequest,
    Stop,
    TraceSteps,
)
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.replies import Hello, encode_error, encode_hello, encode_reply
from distkv.wire.request import (
    Attach,
    EventsWait,
    ExchangeRequest,
    Follow,
    GetChanges,
    GetEvents,
    GetPages,
    GetSnapshot,
    HeldRequest,
    Lend,
    NodeTell,
    PeerRequest,
    Request,
    TreeSay,
)
from distkv.wire.services import ServiceRequest
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames, Watch
from distkv.wire.value_requests import Batch, GetHistory, GetValue, GetValueAt, SetValue

Asked = TypeVar("Asked", bound=Request)
NodeAsked: TypeAlias = NodeTell | HeldRequest | TreeSay | EventsWait | Follow | Attach | Lend | PeerRequest

VERSION: Final = tuple(int(part) for part in __version__.split(".")[:3])


class Session:
    """One connection. What takes long runs in `nursery`, which ends with the connection."""

    def __init__(
        self,
        driver: Driver,
        stream: trio.abc.Stream,
        idle: IdleConnections,
        nursery: trio.Nursery,
        *,
        is_lent: bool = False,
    ) -> None:
        """`is_lent`: this node has opened it, for the other side to ask on it."""
        self.lender: Lender | None = None
        """The other side, if it wants to be asked from now on; then `serve` has ended, and the stream is still good."""
        self.sender = Sender(driver.committer, stream, nursery)
        self._driver = driver
        self._work = driver.work
        self._stream = stream
        self._idle = idle
        self._reader = FrameReader(driver.limits.request_bytes)
        self._is_lent = is_lent
        self._is_client = not is_lent
        """Whether no node asked anything on it."""
        self._left: Callable[[], Awaitable[None]] | DecodeError | TooLargeError | InternalError | None = None
        """What the connection's own task has to do next."""
        self._is_half = False
        """Whether a part of a request waits for the rest."""
        self._has_more = False
        """Whether it had its portion of a turn, and more has come."""
        self._seq = 0
        self._nursery = nursery
        self._answers = LongAnswers(driver, self.sender, nursery)
        self._watches = Watches(driver, self.sender.send, self.sender.send_nowait)
        self._traces = Traces(driver, self.sender.send)
        self._waits = ConnectionWaits(driver, self.sender.send)
        self._follows = Follows(driver, self.sender.send, self.sender.send_nowait, lambda: self._seq)
        self._edges = ConnectionEdges(driver, self.sender.send, self.sender.send_nowait, lambda: self._seq)
        self._replicated = ReplicatedWrites(driver, self.sender, nursery)
        self._services = ServiceRequests(driver, self.sender, nursery)
        self._stoppable = (
            self._watches, self._traces, self._waits, self._follows, self._edges, self._replicated, self._services,
        )  # fmt: skip

    async def serve(self) -> bool:
        """Greet, then answer until the other side closes. False: it broke the protocol, and was told so.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: the other side is gone.
        """
        self._driver.clients += self._is_client
        try:
            return await self._serve()
        finally:
            self._services.end()
            self._idle.halves.closed(self)
            self._driver.clients -= self._is_client

    async def _serve(self) -> bool:
        await self._greet()
        try:
            while self.lender is None and await self._receive():
                await self._answer_all()
        except (DecodeError, TooLargeError) as error:
            self._driver.counters[f"bad_stream_{error.code}"] += 1
            self._reply(encode_error(0, error))
            await self.sender.flush()
            return False
        except InternalError as error:
            self._driver.commit()  # what the request may have decided before it failed
            self._refuse(self._seq, error)
            await self.sender.flush()
            return False
        return True

    async def _greet(self) -> None:
        """Say who we are; tick, life and network are own words too, and leave when they are durable."""
        hello = self._hello()
        await self._driver.committer.wait_durable(self._driver.position, self)
        await self._stream.send_all(hello)

    async def _receive(self) -> bool:
        """Wait for requests; meanwhile `IdleConnections` answers what needs no task. False: the stream has ended."""
        socket = self.sender.socket
        if socket is not None and await self._idle.serve(self, socket.fileno()):
            return True
        data = await self._stream.receive_some(RECEIVE_BYTES)
        self._reader.feed(bytes(data))
        return bool(data)

    async def _answer_all(self) -> None:
        """Answer the requests that have come, however long it takes."""
        work, end, is_new = self._work, self._work.end_of(), False
        while self.lender is None:
            if self._has_more or work.done >= end:
                self._has_more = False
                await work.give_way()
                end = work.end_of()
            if self._left is None:
                frame = self._reader.next_frame()
                if frame is None:
                    if self._is_half or self._reader.left:
                        self._note_half(is_new=is_new)
                    break
                is_new = True
                self._answer(frame)
                work.done += REQUEST
            if self._left is not None:
                await self._do_what_is_left()
            if self.sender.size > self._driver.limits.reply_bytes or self._is_ahead_of_the_disk():
                await self.sender.flush()
        await self.sender.flush()
        if self._driver.committer.is_wanted:
            self._driver.committer.hurry(self.sender)

    def take(self, data: bytes) -> bool:
        """Answer the requests that these bytes complete; False: this connection's own task has to go on."""
        if not self._feed(data):
            return False
        next_frame, sender, reply_bytes_max = self._reader.next_frame, self.sender, self._driver.limits.reply_bytes
        work, before = self._work, self._work.done
        end = before + PORTION
        try:
            while (frame := next_frame()) is not None:
                self._answer(frame)
                work.done = done = work.done + REQUEST
                if self._left is not None or sender.size > reply_bytes_max:
                    return False
                if done >= end:
                    self._has_more = True
                    return False
            if self._is_half or self._reader.left:
                self._note_half(is_new=work.done > before)
        except (DecodeError, TooLargeError, InternalError) as error:
            self._left = error
            return False
        except Exception as error:
            self._fail_reading(self._driver.faults.contain(error, "reading a request"))
            return False
        return True

    def _feed(self, data: bytes) -> bool:
        """Take what came; whether it may be answered here."""
        try:
            self._reader.feed(data)
        except MemoryError as error:
            self._fail_reading(self._driver.faults.contain(error, "reading a request"))
        return self._left is None and not self._is_ahead_of_the_disk()

    def _fail_reading(self, error: InternalError) -> None:
        """The connection ends, and says why; that is the answer to no request."""
        self._left, self._seq = error, 0

    # -- one request

    def _answer(self, frame: bytes) -> None:
        """Answer a request; one that takes its time, and must be answered before the next one, is left."""
        request = decode_request(frame)
        if isinstance(request, BadRequest):
            self._refuse(request.seq, request.error)
            self._seq = max(self._seq, request.seq)
            return
        seq = request.seq
        if seq <= self._seq:
            self._refuse(seq, RequestError(f"seq must rise: {seq} comes after {self._seq}"))
            return
        self._seq = seq
        try:
            self._dispatch(request, len(frame))
        except RequestError as error:
            self._refuse(seq, error)
        except Exception as error:
            raise self._driver.faults.contain(error, type(request).__name__) from error

    def _dispatch(self, request: Request, size: int) -> None:
        """Who answers each request, and how: at once, beside what comes after it, or slowly, before that.

        One table with a row for each, so that mypy finds a request that nobody answers.
        """
        driver, replica = self._driver, self._driver.replica
        if not replica.is_serving and type(request) in SERVING_ONLY:
            raise replica.not_ready()
        match request:
            case GetValue():
                reply, is_durable = kv.get_value(driver, request)
                self._reply(reply, when_durable=not is_durable)
            case SetValue():
                self._reply(kv.set_value(driver, request, size), when_durable=True)
            case ReplicatedWrite():
                self._replicated.begin(request, size)
            case _ if (error := hidden_error(request)) is not None:  # those above look themselves
                raise error
            case GetConflicts(closed=False):
                self._reply(conflicts.get_conflicts(driver, request), when_durable=True)
            case GetConflicts():
                self._answer_slowly(conflicts.get_closed, request)
            case Dismiss() | Restore(closed=False):
                self._reply(conflicts.decide(driver, request), when_durable=True)
            case Restore():
                self._answer_slowly(conflicts.restore_closed, request)
            case Batch():
                self._reply(kv.batch(driver, request, size), when_durable=True)
            case ListNames():
                self._reply(tree.list_names(driver, request), when_durable=True)
            case DeleteTree():
                self._answer_slowly(tree.delete_tree, request)
            case GetTree():
                self._answer_long(tree.send_tree, request)
            case GetValueAt():
                self._answer_slowly(history.get_value_at, request)
            case GetHistory():
                self._answer_long(history.send_history, request)
            case GetState():
                self._reply(status.get_state(driver, request), when_durable=True)
            case GetMembers():
                self._reply(nodes.get_members(driver, request))
            case GetKeys():
                self._reply(nodes.get_keys(driver, request))
            case ChangeKey():
                self._reply(nodes.change_key(driver, request))
            case RetireNodeRequest():
                self._answer_slowly(nodes.retire, request)
            case DecideAside():
                self._reply(aside.decide(driver, request), when_durable=True)
            case PingRequest():
                self._reply(encode_reply(request.seq, {}))
            case Backup():
                self._answer_long(backup.send_backup, request)
            case LookForDamage():
                self._answer_long(damage.send_scrub, request)
            case Watch():
                # It never ends by itself: so it is no open answer, for which reading may have to wait.
                self._nursery.start_soon(self._watches.begin(request).run)
            case TraceSteps():
                self._traces.begin(request)
                self._nursery.start_soon(self._traces.run, request)
            case Stop(task=task):
                self._reply(encode_reply(request.seq, {"stopped": self._stop(task)}))
            case (
                NodeTell() | HeldRequest() | TreeSay() | EventsWait() | Follow() | Attach() | Lend() | ExchangeRequest()
                | GetEvents() | GetPages() | GetSnapshot()
            ):
                self._dispatch_of_node(request)
            case GetChanges():
                self._answer_long(changes.send_changes, request)
            case ServiceRequest():
                self._services.begin(request)
            case _:
                assert_never(request)

    def _dispatch_of_node(self, request: NodeAsked) -> None:
        """The same of what nodes ask one another, and who follows them as a node does."""
        driver = self._driver
        match request:
            case Follow(node=node):
                self._nursery.start_soon(self._follows.begin(request).run)
                if node is not None:
                    self._a_node_asked()
            case HeldRequest(task=task, nodes=ticks):
                counts = self._follows.held(task, ticks)
                if not request.is_quiet:
                    self._reply(encode_reply(request.seq, {"counts": counts}))
            case Attach():
                self._nursery.start_soon(self._edges.begin(request).run)
                self._a_node_asked()
            case TreeSay(task=task, item=item):
                counts = self._edges.told(task, item)
                if not request.is_quiet:
                    self._reply(encode_reply(request.seq, {"counts": counts}))
            case NodeTell():
                self._a_node_asked()
                if service_messages.is_small(request):
                    service_messages.take(driver, request)
                    self._tell_taken(request)
                else:
                    self._left = partial(self._take_slowly, request)
            case Lend():
                self._left = partial(self._borrow, request)
            case EventsWait():
                self._waits.begin(request)
                self._nursery.start_soon(self._waits.run, request)
            case ExchangeRequest():
                self._reply(peer.exchange(driver, request), when_durable=True)
                self._a_node_asked()
            case GetEvents() | GetPages() | GetSnapshot():
                self._answer_long(peer.send_answer, request)
            case _:
                assert_never(request)

    async def _take_slowly(self, request: NodeTell) -> None:
        await service_messages.take_slowly(self._driver, request)
        self._tell_taken(request)

    def _tell_taken(self, request: NodeTell) -> None:
        if not request.is_quiet:
            self._reply(encode_reply(request.seq, {}))

    async def _borrow(self, request: Lend) -> None:
        """The other side wants to be asked from now on. Nothing else was asked before, and nothing may stand behind it:
        it would be taken for an answer."""
        if self._is_lent or request.seq != 1 or not self._reader.is_between_frames:
            raise RequestError("'lend' is the only request of a connection: its seq is 1, and nothing stands behind it")
        self.lender = await lending.check_lender(self._driver, request)
        self._reply(encode_reply(request.seq, {}))

    @property
    def heard(self) -> int:
        """The last `seq` that came on it; 0: nothing was asked yet."""
        return self._seq

    @property
    def is_of_client(self) -> bool:
        """Whether no node asked anything on it so far."""
        return self._is_client

    def turn_away(self, error: DistkvError) -> None:
        """Say why the connection ends now, as far as the other side takes it in at once."""
        self._reply(encode_error(0, error))
        self.sender.flush_nowait()

    def end(self, error: DistkvError) -> None:
        """End it from outside, and say why."""
        self.turn_away(error)
        self._reader = FrameReader(0)  # it may last a moment until it is closed; what came of a request is not kept
        self._nursery.cancel_scope.cancel()

    def _note_half(self, *, is_new: bool) -> None:
        """How much there is of the next request; `is_new`: the one before is whole."""
        size = self._reader.left
        self._is_half = size > 0
        self._idle.halves.note(self, size, is_new=is_new)

    def _a_node_asked(self) -> None:
        """This is no client's connection."""
        self._driver.clients -= self._is_client
        self._is_client = False

    def _stop(self, task: int) -> bool:
        return any(some.stop(task) for some in self._stoppable)

    def _answer_long(self, answer: Callable[[Driver, Asked, SendPart], Awaitable[None]], request: Asked) -> None:
        """Begin an answer in parts, beside what comes after it; too many of them make that wait."""
        answers, give = self._answers, partial(answer, self._driver, request)

        async def start_later() -> None:
            await answers.wait_fewer()
            answers.start(request.seq, give)

        if answers.are_too_many:
            self._left = start_later
        else:
            answers.start(request.seq, give)

    def _answer_slowly(self, answer: Callable[[Driver, Asked], Awaitable[bytes]], request: Asked) -> None:
        """Leave an answer that takes its time to the connection's own task; what comes after it waits."""

        async def reply() -> None:
            self._reply(await answer(self._driver, request), when_durable=True)

        self._left = reply

    async def _do_what_is_left(self) -> None:
        """Answer a request that takes its time, or end a stream that is broken."""
        left, self._left = self._left, None
        await self.sender.flush()  # it may take long, which what came before it need not
        if isinstance(left, DecodeError | TooLargeError | InternalError):
            raise left
        try:
            if left is not None:
                await left()
        except RequestError as error:
            self._refuse(self._seq, error)
        except Exception as error:
            raise self._driver.faults.contain(error, "a request that takes its time") from error

    def _refuse(self, seq: int, error: DistkvError) -> None:
        self._driver.counters[f"refused_{error.code}"] += 1
        self._reply(encode_error(seq, error))

    def _reply(self, reply: bytes, *, when_durable: bool = False) -> None:
        self.sender.add(reply, self._driver.position if when_durable else 0)

    # -- limits

    def _is_ahead_of_the_disk(self) -> bool:
        """Whether what was written has to be durable before more is."""
        driver = self._driver
        return driver.committer.waiting_bytes > driver.limits.uncommitted_bytes

    def _hello(self) -> bytes:
        replica = self._driver.replica
        return encode_hello(
            Hello((VERSION[0], VERSION[1], VERSION[2]), replica.name, replica.tick, replica.tock,
                  replica.state_at(self._driver.now_ms()), replica.network_id, replica.life or 0,
                  request_bytes=self._driver.limits.request_bytes)
        )
