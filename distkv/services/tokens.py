"""Tokens as clients ask for them: requests of one connection, which the token service of this node answers when it can.

Knows: which requests wait, and how an answer, or each of several, gets into the connection.  Does not know what a
token is (core.tokens), nor where a request is served.

Invariant: a request is answered once, a watch with one item after another until it is stopped; when the connection ends
nothing of it waits any more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Final

import trio

from distkv.core.ready import ServiceReply
from distkv.core.tokens.machine import TOKENS
from distkv.core.tokens.session_tags import asker_of
from distkv.engine.driver import Driver
from distkv.engine.turn_work import SERVICE_STEP
from distkv.errors import BusyError, CancelledError, DisabledError, DistkvError
from distkv.services.sender import Sender
from distkv.wire.replies import encode_end, encode_error, encode_result, encode_start
from distkv.wire.token_replies import TokensChanged, reply_fields
from distkv.wire.token_requests import TokenBreak, TokenOpen, TokenRequest, TokenReset, TokenSetServers, TokenWatch
from distkv.wire.watch import Mark, encode_mark

log = logging.getLogger("distkv.engine")

_NUMBERS: Final = count(1)
"""Of connections."""


class TokenRequests:
    """Those of one connection."""

    def __init__(self, driver: Driver, sender: Sender, nursery: trio.Nursery) -> None:
        self._driver: Final = driver
        self._number: Final = next(_NUMBERS)
        self._sender: Final = sender
        self._nursery: Final = nursery
        self._open: Final = dict[int, int | None]()
        """By the seq the number of the request at the service, once it is known."""
        self._watches: Final = set[int]()
        """Which of them are watches."""
        self._began = 0
        """The seq of the request that is being handed over; 0: none is."""

    def begin(self, request: TokenRequest) -> None:
        """Hand it over. Who asked is written down where others feel what is done.

        Raises:
            DisabledError: the settings name no token servers.
            BusyError: this connection, or all together, wait for too many already.
            NoSpaceError: the disk is full.
        """
        if self._driver.tokens is None:
            raise DisabledError("this network has no tokens: name the servers in the setting tokens.servers")
        seq, limit = request.seq, self._driver.limits.open_requests
        if len(self._open) >= limit:
            raise BusyError(f"this connection waits for {limit} answers about tokens: wait for one, or open another")
        if isinstance(request, TokenBreak):
            log.warning("token_break token=%r by=%s", request.token, self._sender.peer_name)
        elif isinstance(request, TokenSetServers):
            log.warning("token_set_servers servers=%s by=%s", ",".join(request.servers), self._sender.peer_name)
        elif isinstance(request, TokenReset):
            log.warning("token_reset by=%s", self._sender.peer_name)
        if isinstance(request, TokenWatch):
            self._sender.add(encode_start(seq), 0)
            self._watches.add(seq)
        self._driver.work.done += SERVICE_STEP
        self._open[seq], self._began = None, seq
        try:
            asker = asker_of(self._sender.origin, self._number) if isinstance(request, TokenOpen) else 0
            id = self._driver.services.ask(TOKENS, request, partial(self._answered, seq), asker)
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
        is_watch = seq in self._watches
        self._watches.discard(seq)
        self._send(encode_end(seq) if is_watch else encode_error(seq, CancelledError("the request was stopped")))
        return True

    def end(self) -> None:
        """The connection has ended."""
        found = [id for id in self._open.values() if id is not None]
        self._open.clear()
        for id in found:
            self._driver.services.withdraw(id)

    # -- inside

    def _answered(self, seq: int, result: ServiceReply) -> None:
        """By the service: at once, or later, from wherever it is found that the answer may leave."""
        if seq not in self._open:
            return
        if isinstance(result, TokensChanged):
            self._nursery.start_soon(self._send_items, seq, result)
            return
        del self._open[seq]
        self._watches.discard(seq)
        if isinstance(result, DistkvError):
            self._driver.counters[f"refused_{result.code}"] += 1
            self._send(encode_error(seq, result), is_first=self._began == seq)
        elif not isinstance(result, Mapping):
            fields, raw = reply_fields(result)
            self._send(encode_result({"seq": seq, **fields}, raw), is_first=self._began == seq)

    async def _send_items(self, seq: int, changed: TokensChanged) -> None:
        frames = []
        for item in changed.items:
            fields, raw = reply_fields(item)
            frames.append(encode_result({"seq": seq, **fields}, raw))
        if changed.is_complete:
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
        elif not self._sender.send_nowait(reply):
            self._nursery.start_soon(self._sender.send, reply)
