"""What is asked of Serf agents themselves: how long their queues are, and how soon an event of one is with another.

Knows: the agents' RPC.  Does not know nodes.

Invariant: the length of every agent's queue is asked for again and again while the block runs; who gets no answer
raises when the block ends.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from bench.figures import quantile
from bench.load import VALUE_BYTES, Load
from bench.servers import Server, ServerError
from distkv.daemon.failure import first_failure
from distkv.transport.serf_rpc import connect
from distkv.wire.serf_frames import UserEvent

LOOK_S: Final = 0.1
NAME: Final = "bench"
ANSWERED_S: Final = 20.0
"""However busy the machine is."""


@attrs.define
class Queues:
    """What was seen of the event queues of some agents."""

    looks: int = 0
    longest: int = 0

    def note(self, length: int) -> None:
        self.looks += 1
        self.longest = max(self.longest, length)


@contextmanager
def watched_queues(agents: Sequence[Server]) -> Iterator[Queues]:
    """Look at the queues until the block is left.

    Raises:
        ServerError: an agent did not answer.
    """
    queues = Queues()
    is_over = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        try:
            trio.run(_look, agents, queues, is_over)
        except BaseExceptionGroup as group:
            failures.append(first_failure(group))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield queues
    finally:
        is_over.set()
        thread.join()
    if failures:
        raise ServerError(f"the queues were not seen throughout: {failures[0]}")


def measure_events(writer: Server, listener: Server, seconds: float, pause_s: float) -> Load:
    """One user event after another on an agent, each awaited at another one; a pause as in a fan-out before each.

    Raises:
        ServerError: one did not arrive, or another payload did.
    """
    try:
        return trio.run(_events, writer, listener, seconds, pause_s)
    except BaseExceptionGroup as group:
        raise ServerError(f"events of {writer.name} at {listener.name}: {first_failure(group)}") from None


# -- inside -------------------------------------------------------------------------------------------------------


async def _look(agents: Sequence[Server], queues: Queues, is_over: threading.Event) -> None:
    async with trio.open_nursery() as nursery:
        rpcs = [await connect(nursery, "127.0.0.1", agent.port, timeout_s=ANSWERED_S) for agent in agents]
        while not is_over.is_set():
            for rpc in rpcs:
                queues.note(int((await rpc.stats())["serf"]["event_queue"]))
            await trio.sleep(LOOK_S)
        nursery.cancel_scope.cancel()


async def _events(writer: Server, listener: Server, seconds: float, pause_s: float) -> Load:
    chance = random.Random(0)
    times: list[float] = []
    async with trio.open_nursery() as nursery:
        here = await connect(nursery, "127.0.0.1", writer.port, timeout_s=ANSWERED_S)
        there = await connect(nursery, "127.0.0.1", listener.port, timeout_s=ANSWERED_S)
        stream = await there.open_stream(f"user:{NAME}")
        begun = time.perf_counter()
        while time.perf_counter() < begun + seconds:
            await trio.sleep(chance.uniform(0, 2 * pause_s))
            payload = f"{len(times):08d} ".encode().ljust(VALUE_BYTES, b"x")
            sent = time.perf_counter()
            await here.send_event(NAME, payload)
            with trio.move_on_after(ANSWERED_S):
                heard = await stream.receive()
                if not isinstance(heard, UserEvent) or heard.payload != payload:
                    raise ServerError(f"event {len(times)} is {heard} there")
                times.append(time.perf_counter() - sent)
                continue
            raise ServerError(f"event {len(times)} did not arrive within {ANSWERED_S:g} s")
        whole_s = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    p50, p99 = (round(1e6 * quantile(times, part)) for part in (0.5, 0.99))
    return Load(len(times), whole_s, p50, p99, len(times), 0, 0, 0, 0.0, "")
