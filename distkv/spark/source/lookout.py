"""Which of the named hosts a stream asks, and on which one it waits for news.

Knows: which hosts answered the last time, how long one that did not is left alone, and since when there is silence.
Does not know what is asked for, nor what becomes of it.

A stream asks for ever, so it must cost an idle fleet little: it waits on one host at a time, in turn, until that holds
something else. A host that is away, busy or not ready is left alone for a while that grows, and another one is asked.

Invariant: no call goes on to ask without a pause when no host answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from distkv.client.addresses import Address, address_text
from distkv.client.blocking import Client
from distkv.client.changes import News
from distkv.client.protocol import Backoff
from distkv.errors import UnreachableError
from distkv.model.event import NodeName
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts, Patience
from distkv.spark.nodes.planning import View

PATIENCE: Final = Patience(connect_s=3.0, reply_s=30.0)
REST_MAX_S: Final = 30.0
"""So long a host that did not answer is left alone at the most, while another one does."""
PAUSE_MAX_S: Final = 5.0
"""Between two attempts when none answers."""


@attrs.define
class _Rest:
    """A host that did not answer."""

    backoff: Backoff = attrs.field(factory=lambda: Backoff(first_s=1.0, max_s=REST_MAX_S))
    until_s: float = 0.0


class Lookout:
    """The hosts that were named for a stream. `patience_s`: so long none of them need answer."""

    def __init__(self, addresses: Sequence[Address], patience_s: float) -> None:
        self._addresses = tuple(addresses)
        self._patience_s = patience_s
        self._rests: dict[Address, _Rest] = {}
        self._pauses = Backoff(max_s=PAUSE_MAX_S)
        self._silent_since_s: float | None = None
        self._turn = 0

    @property
    def is_silent(self) -> bool:
        """Whether no host answered when all were asked the last time."""
        return self._silent_since_s is not None

    @property
    def is_due(self) -> bool:
        """Whether a host that was away may be back."""
        now_s = time.monotonic()
        return any(rest.until_s <= now_s for rest in self._rests.values())

    def views(self) -> list[View]:
        """What each host says of itself that answers; nothing when none does, and has not for less than the patience.

        Raises:
            UnreachableError: none has answered for so long.
            PeerError: they belong to several networks.
        """
        some = self._worth_asking()
        found = self._ask(some)
        if not found and len(some) < len(self._addresses):
            found = self._ask(self._addresses)
        if found:
            self._silent_since_s = None
        return found

    def pause(self) -> None:
        """Wait a little because no host answers; longer each time, up to `PAUSE_MAX_S`."""
        time.sleep(self._pauses.next_s(1.0) or self._pauses.next_s(1.0))

    def wait(self, known: TickRanges, nodes: Iterable[str] | None, timeout_s: float) -> bool:
        """Wait on one host until it holds something besides `known`, and whether it does; True also when no host let us
        wait, after a pause. `nodes`: only their events are news; None: those of all."""
        deadline_s = time.monotonic() + timeout_s
        names: News = known if nodes is None else {name: known.get(NodeName(name), 0) for name in nodes}
        for address in self._in_turn():
            left_s = max(0.0, deadline_s - time.monotonic())
            try:
                with Client((address,), connect_s=PATIENCE.connect_s, reply_s=PATIENCE.reply_s) as client:
                    if client.hello.state is State.READY:  # another one would not tell before it is
                        held = client.wait_events(names, others=nodes is None, timeout_s=left_s)
                        self._pauses.reset()
                        return bool(held)
            except HOST_FAILURES:
                pass
            self._leave_alone(address)
        self.pause()
        return True

    # -- inside

    def _ask(self, addresses: Sequence[Address]) -> list[View]:
        hosts = Hosts(addresses, PATIENCE)
        try:
            return hosts.views()
        except UnreachableError as error:
            now_s = time.monotonic()
            if self._silent_since_s is None:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= self._patience_s:
                raise UnreachableError(f"{error}; none has for {self._patience_s:g} s (gapWait)") from None
            return []
        finally:
            for address in addresses:
                if address_text(address) in hosts.failures:
                    self._leave_alone(address)
                else:
                    self._rests.pop(address, None)

    def _worth_asking(self) -> tuple[Address, ...]:
        now_s = time.monotonic()
        some = tuple(a for a in self._addresses if a not in self._rests or self._rests[a].until_s <= now_s)
        return some or self._addresses

    def _in_turn(self) -> Iterator[Address]:
        """Those that answered the last time, each call beginning with another one."""
        some = [address for address in self._addresses if address not in self._rests]
        self._turn += 1
        for at in range(len(some)):
            yield some[(self._turn + at) % len(some)]

    def _leave_alone(self, address: Address) -> None:
        rest = self._rests.setdefault(address, _Rest())
        rest.until_s = time.monotonic() + (rest.backoff.next_s(1.0) or rest.backoff.next_s(1.0))
