"""What clients ask services: requests of one connection, which a service of this node answers when it can.

Knows: which requests wait, and how an answer, or each of several, gets into the connection.  Does not know any service,
nor where a request is answered.

Invariant: a request is answered once, one that only `stop` ends with one item after another until then; when the
connection ends nothing of it waits any more.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import count
from typing import Final

import trio

from distkv.core.ready import ServiceResult
from distkv.engine.driver import Driver
from distkv.engine.turn_work import SERVICE_STEP
from distkv.errors import BusyError, CancelledError, DisabledError, DistkvError
from distkv.services.origin import asker_of
from distkv.services.sender import Sender
from distkv.wire.replies import encode_end, encode_error, encode_result, encode_start
from distkv.wire.row import ReplyForm
from distkv.wire.services import ServiceForm, ServiceItems, ServiceReply, ServiceRequest, declared
from distkv.wire.watch import Mark, encode_mark

log = logging.getLogger("distkv.engine")

_NUMBERS: Final = count(1)
"""Of connections."""


class ServiceRequests:
    """Those of one connection."""

    def __init__(self, driver: Driver, sender: Sender, nursery: trio.Nursery) -> None:
        self._driver: Final = driver
        self._number: Final = next(_NUMBERS)
        self._sender: Final = sender
        self._asker: int | None = None
        """Who asks on it, since it asked first."""
        self._nursery: Final = nursery
        self._open: Final = dict[int, int | None]()
        """By the seq the number of the request at the service, once it is known."""
        self._lasting: Final = set[int]()
        """Which of them only `stop` ends."""
        self._began = 0
        """The seq of the request that is being handed over; 0: none is."""
        self._late: Final = list[bytes]()
        """Replies that leave as soon as all are here that come together."""

    def begin(self, request: ServiceRequest) -> None:
        """Hand it over. Who asked is written down where others feel what is done.

        Raises:
            DisabledError: the settings of this node leave the service out.
            BusyError: this connection, or all together, wait for too many already.
            NoSpaceError: the disk is full.
        """
        form, row = declared(type(request))
        if form.name not in self._driver.replica.services:
            raise DisabledError(form.when_off)
        seq, limit = request.seq, self._driver.limits.open_requests
        if len(self._open) >= limit:
            raise BusyError(f"this connection waits for {limit} answers of services: wait for one, or open another")
        if line := form.logged(request):
            log.log(logging.WARNING, f"{line} by={self._sender.peer_name}")  # noqa: G004  # its id is the service's
        if row.form is ReplyForm.OPEN:
            self._sender.add(encode_start(seq), 0)
            self._lasting.add(seq)
        self._driver.work.done += SERVICE_STEP
        self._open[seq], self._began = None, seq
        try:
            if self._asker is None:
                self._asker = asker_of(self._sender.origin, self._number)
            id = self._driver.services.ask(form.name, request, partial(self._answered, seq, form), self._asker)
        except DistkvError:
            self._open.pop(seq, None)
            raise
        finally:
            self._began = 0
        if seq in self._open:  # else it was answered at once
            self._open[seq] = id

    def stop(self, seq: int) -> bool:
        """Nobody waits for the answer to this request any more; whether somebody did."""
        if seq not in self._open:
            return False
        id = self._open.pop(seq)
        if id is not None:
            self._driver.services.withdraw(id)
        is_lasting = seq in self._lasting
        self._lasting.discard(seq)
        self._send(encode_end(seq) if is_lasting else encode_error(seq, CancelledError("the request was stopped")))
        return True

    def end(self) -> None:
        """The connection has ended."""
        found = [id for id in self._open.values() if id is not None]
        self._open.clear()
        for id in found:
            self._driver.services.withdraw(id)

    # -- inside

    def _answered(self, seq: int, form: ServiceForm, result: ServiceResult) -> None:
        """By the service: at once, or later, from wherever it is found that the answer may leave."""
        if seq not in self._open:
            return
        if isinstance(result, ServiceItems):
            self._nursery.start_soon(self._send_items, seq, form, result)
            return
        del self._open[seq]
        self._lasting.discard(seq)
        if isinstance(result, DistkvError):
            self._driver.counters[f"refused_{result.code}"] += 1
            self._send(encode_error(seq, result), is_first=self._began == seq)
        elif isinstance(result, ServiceReply):
            self._send(_encode(seq, form, result), is_first=self._began == seq)

    async def _send_items(self, seq: int, form: ServiceForm, some: ServiceItems) -> None:
        frames = [_encode(seq, form, item) for item in some.items]
        if some.is_complete:
            frames.append(encode_mark(seq, Mark.UP_TO_DATE))
        await self._sender.flush()
        await self._sender.send(b"".join(frames))
        id = self._open.get(seq)
        if id is not None:
            self._driver.services.go_on(id)

    def _send(self, reply: bytes, *, is_first: bool = False) -> None:
        """`is_first`: the session that reads the connection is at work, and sends what it has itself."""
        if is_first:
            self._sender.add(reply, 0)
            return
        self._late.append(reply)
        if len(self._late) == 1:
            self._driver.services.when_given(self._send_late)

    def _send_late(self) -> None:
        replies = b"".join(self._late)
        self._late.clear()
        if not self._sender.send_nowait(replies):
            self._nursery.start_soon(self._sender.send, replies)


def _encode(seq: int, form: ServiceForm, reply: ServiceReply) -> bytes:
    fields, raw = form.reply_fields(reply)
    return encode_result({"seq": seq, **fields}, raw)
