"""One Python client that asks one server in a closed loop: a program of its own, so that each run begins alike.

Knows: how each client is opened and asked, and that every answer is compared.  Does not know servers, rounds or ratios
(`clients`).

Invariant: what is counted is a right answer: every byte of the value that was asked for, or the success of a write,
some of which are read back over another client.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Final, TypeAlias

import attrs
import redis
import redis.asyncio
import trio

import distkv
from bench.figures import quantile
from bench.load import VALUE_BYTES, Load, LoadError

KEYS: Final = 1000
LOADED_TAG: Final = 0
"""In the values that are read; each run that writes has a tag of its own, above it."""
WARM: Final = 0.15
"""The part of the time that does not count."""
CHECKED: Final = 200

Pair: TypeAlias = tuple[str, bytes]
Ask: TypeAlias = Callable[[str, bytes], bool]
"""Asks for a key, or sets it; whether the answer is the right one for this value."""
AskLater: TypeAlias = Callable[[str, bytes], Awaitable[bool]]


def pairs_of(family: str, tag: int) -> list[Pair]:
    """The keys of a family, with the values of a tag."""
    names = (f"{family}.{number}" for number in range(KEYS))
    return [(name, f"{tag}:{name}:".encode().ljust(VALUE_BYTES, b"x")) for name in names]


@attrs.define
class Tally:
    """What one run saw so far. Made when the run begins."""

    seconds: float
    began: float = attrs.field(factory=time.perf_counter)
    times: list[float] = attrs.field(factory=list)
    """What each right answer took that counts, in seconds."""
    right: int = 0
    """All right answers, the warm-up's too."""
    wrong: int = 0
    keys: set[str] = attrs.field(factory=set)
    """Those that were answered."""

    def note(self, key: str, asked: float, is_right: bool) -> bool:
        """An answer; whether there is time for one more."""
        now = time.perf_counter()
        self.keys.add(key)
        if not is_right:
            self.wrong += 1
        elif now < self.began + self.seconds:
            self.right += 1
            if asked >= self.began + WARM * self.seconds:
                self.times.append(now - asked)
        return now < self.began + self.seconds

    def ask_all(self, ask: Ask, pairs: Sequence[Pair]) -> None:
        """One question after the other, until the time is over."""
        for key, value in cycle(pairs):
            asked = time.perf_counter()
            if not self.note(key, asked, ask(key, value)):
                return

    async def ask_all_later(self, ask: AskLater, pairs: Sequence[Pair]) -> None:
        """The same, for one of many tasks."""
        for key, value in cycle(pairs):
            asked = time.perf_counter()
            if not self.note(key, asked, await ask(key, value)):
                return

    def load(self, busy: float, checked: int) -> Load:
        """As the generators in C say it."""
        p50, p99 = (round(1e6 * quantile(self.times or [0.0], part)) for part in (0.5, 0.99))
        seconds = self.seconds * (1 - WARM)
        note = "another value than was written" if self.wrong else ""
        return Load(len(self.times), seconds, p50, p99, self.right, 0, self.wrong, checked, busy, note)


# -- the clients --------------------------------------------------------------------------------------------------


def _distkv_get(client: distkv.Client, key: str, value: bytes) -> bool:
    entry = client.get(key)
    return entry is not None and entry.value == value


def _distkv_set(client: distkv.Client, key: str, value: bytes) -> bool:
    return client.set(key, value).changed


async def _distkv_get_later(client: distkv.AsyncClient, key: str, value: bytes) -> bool:
    entry = await client.get(key)
    return entry is not None and entry.value == value


async def _distkv_set_later(client: distkv.AsyncClient, key: str, value: bytes) -> bool:
    return (await client.set(key, value)).changed


def _redis_get(client: redis.Redis, key: str, value: bytes) -> bool:
    return client.get(key) == value


def _redis_set(client: redis.Redis, key: str, value: bytes) -> bool:
    return client.set(key, value) is True


async def _redis_get_later(client: redis.asyncio.Redis, key: str, value: bytes) -> bool:
    return await client.get(key) == value


async def _redis_set_later(client: redis.asyncio.Redis, key: str, value: bytes) -> bool:
    return await client.set(key, value) is True


def _distkv_blocking(port: int, verb: str, tally: Tally, pairs: Sequence[Pair]) -> None:
    with distkv.connect("127.0.0.1", port) as client:
        tally.ask_all(partial(_distkv_get if verb == "get" else _distkv_set, client), pairs)


def _redis_blocking(port: int, verb: str, tally: Tally, pairs: Sequence[Pair]) -> None:
    with redis.Redis("127.0.0.1", port) as client:
        tally.ask_all(partial(_redis_get if verb == "get" else _redis_set, client), pairs)


async def _distkv_trio(port: int, verb: str, tasks: int, tally: Tally, pairs: Sequence[Pair]) -> None:
    async with distkv.open_client("127.0.0.1", port) as client, trio.open_nursery() as nursery:
        ask = partial(_distkv_get_later if verb == "get" else _distkv_set_later, client)
        for number in range(tasks):
            nursery.start_soon(tally.ask_all_later, ask, pairs[number::tasks])


async def _distkv_asyncio(port: int, verb: str, tasks: int, tally: Tally, pairs: Sequence[Pair]) -> None:
    async with distkv.open_client("127.0.0.1", port) as client:
        ask = partial(_distkv_get_later if verb == "get" else _distkv_set_later, client)
        await asyncio.gather(*(tally.ask_all_later(ask, pairs[number::tasks]) for number in range(tasks)))


async def _redis_asyncio(port: int, verb: str, tasks: int, tally: Tally, pairs: Sequence[Pair]) -> None:
    async with redis.asyncio.Redis(host="127.0.0.1", port=port) as client:
        ask = partial(_redis_get_later if verb == "get" else _redis_set_later, client)
        await asyncio.gather(*(tally.ask_all_later(ask, pairs[number::tasks]) for number in range(tasks)))


# -- a run --------------------------------------------------------------------------------------------------------


def fill(protocol: str, port: int) -> None:
    """Write what is read."""
    pairs = pairs_of("g", LOADED_TAG)
    if protocol == "distkv":
        with distkv.connect("127.0.0.1", port) as client:
            client.batch([distkv.Set(key, value) for key, value in pairs])
    else:
        with redis.Redis("127.0.0.1", port) as client:
            client.mset(dict(pairs))


def run(protocol: str, loop: str, port: int, verb: str, tasks: int, seconds: float, tag: int) -> Load:
    """Ask for so many seconds.

    Args:
        protocol: distkv or redis.
        loop: blocking, asyncio or trio.
        port: where the server listens, on loopback.
        verb: get or set.
        tasks: how many ask at once, each its own keys.
        seconds: how long; the first 15 % are not counted.
        tag: in the values that are written.
    """
    pairs = pairs_of("g", LOADED_TAG) if verb == "get" else pairs_of("s", tag)
    random.Random(tag).shuffle(pairs)
    cpu_before, tally = time.process_time(), Tally(seconds)
    match protocol, loop:
        case "distkv", "blocking":
            _distkv_blocking(port, verb, tally, pairs)
        case "distkv", "trio":
            trio.run(_distkv_trio, port, verb, tasks, tally, pairs)
        case "distkv", "asyncio":
            asyncio.run(_distkv_asyncio(port, verb, tasks, tally, pairs))
        case "redis", "blocking":
            _redis_blocking(port, verb, tally, pairs)
        case "redis", "asyncio":
            asyncio.run(_redis_asyncio(port, verb, tasks, tally, pairs))
        case _:
            raise LoadError(f"there is no client of {protocol} for {loop}")
    busy = (time.process_time() - cpu_before) / (time.perf_counter() - tally.began)
    written = [] if verb == "get" else [pair for pair in pairs if pair[0] in tally.keys][:CHECKED]
    held = _values(protocol, port, written)
    tally.wrong += sum(value != found for (_, value), found in zip(written, held, strict=True))
    return tally.load(busy, len(written))


def _values(protocol: str, port: int, pairs: Sequence[Pair]) -> list[object]:
    """What the server has now, for another client than wrote it."""
    if protocol == "distkv":
        with distkv.connect("127.0.0.1", port) as client:
            return [entry and entry.value for entry in map(client.get, (key for key, _ in pairs))]
    with redis.Redis("127.0.0.1", port) as other:
        return [other.get(key) for key, _ in pairs]


def main(words: Sequence[str]) -> None:
    """PROTOCOL LOOP PORT VERB TASKS SECONDS TAG, as `run` takes them; prints a line of JSON."""
    protocol, loop, port, verb, tasks, seconds, tag = words
    print(json.dumps(attrs.asdict(run(protocol, loop, int(port), verb, int(tasks), float(seconds), int(tag)))))


if __name__ == "__main__":
    main(sys.argv[1:])
