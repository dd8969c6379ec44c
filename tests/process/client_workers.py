"""Workers of one kind, each with a client or sharing one, that read and write until they are told to end.

    python -m tests.process.client_workers KIND SEED HOST:PORT HOST:PORT HOST:PORT

Knows: blocking clients in threads and in forked processes, async clients under asyncio and trio with cancellations.
Does not know what is done to the servers meanwhile.

The first line on stdout, `open`, says that the servers were reached, and may be harmed from then on. On stdin
`well` says that nothing is wrong with the servers any more, and the end of it that this is over. The last line on
stdout is a report, as JSON: wrong answers, answers in all, the most attempts that a worker needed once all was well,
and how many descriptors are left beyond those of the beginning.

Invariant: a worker writes to a path of its own: its path, and a number that rises. So an answer that is another's, or
of a write that never was, is noticed.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import attrs

import distkv

WORKERS: Final = 6
REPLY_S: Final = 2.0
OPEN_S: Final = 60.0
"""Nothing is wrong with the servers then, but the machine may be busy."""


@attrs.define
class Worker:
    """What one of them knows."""

    path: str
    chance: random.Random
    number: int = 0
    """The newest that it tried to write."""
    answers: int = 0
    attempts: int = 0
    """Since all is well, until the first answer."""
    is_served: bool = False
    wrong: list[str] = attrs.field(factory=list)

    def next_value(self) -> list[object]:
        self.number += 1
        return [self.path, self.number]

    def attempt(self, *, is_well: bool) -> None:
        """It asks."""
        self.attempts += is_well and not self.is_served

    def answered(self, entry: distkv.Entry | None, *, is_well: bool) -> None:
        """A read was answered; None: there is no value."""
        self.answers += 1
        self.is_served |= is_well
        if entry is not None:
            value = entry.value
            if not isinstance(value, list) or value[0] != self.path or not 0 < value[1] <= self.number:
                self.wrong.append(f"{self.path} reads {value!r} after {self.number}")

    def report(self) -> dict[str, object]:
        return {"wrong": self.wrong, "answers": self.answers, "attempts": self.attempts, "served": self.is_served}


class Orders:
    """What stdin says."""

    def __init__(self) -> None:
        self.is_well = False
        self.is_over = False
        self._thread: Final = threading.Thread(target=self._read, daemon=True)

    def listen(self) -> None:
        self._thread.start()

    def goes_on(self, workers: Sequence[Worker]) -> bool:
        """Whether to ask once more: also once it is over, until each was served."""
        return not self.is_over or not all(worker.is_served for worker in workers)

    def _read(self) -> None:
        for line in sys.stdin:
            self.is_well |= line == "well\n"
        self.is_over = True


def say_open() -> None:
    """From here on the servers may be harmed."""
    sys.stdout.write("open\n")
    sys.stdout.flush()


# -- blocking -----------------------------------------------------------------------------------------------------


def step(client: distkv.Client, worker: Worker, orders: Orders) -> None:
    """One write, and a read, or a token."""
    is_well = orders.is_well
    worker.attempt(is_well=is_well)
    try:
        if worker.chance.random() < 0.1:
            with client.token(worker.path, wait_s=0.5):
                pass
        client.set(worker.path, worker.next_value())
        worker.answered(client.get(worker.path), is_well=is_well)
    except distkv.DistkvError:
        pass
    if worker.chance.random() < 0.05:
        try:
            for _ in client.watch(worker.path, fetch=True):
                break
        except distkv.DistkvError:
            pass


def in_threads(hosts: Sequence[str], workers: Sequence[Worker], orders: Orders) -> None:
    """Half of them share a client."""
    with distkv.connect(hosts, reply_s=REPLY_S, connect_s=OPEN_S) as shared:
        def work(worker: Worker, client: distkv.Client) -> None:
            with client:
                while orders.goes_on([worker]):
                    step(client, worker, orders)

        def share(worker: Worker) -> None:
            while orders.goes_on([worker]):
                step(shared, worker, orders)

        threads = [threading.Thread(target=share, args=(worker,)) for worker in workers[::2]]
        for worker in workers[1::2]:
            client = distkv.connect(hosts, reply_s=REPLY_S, connect_s=OPEN_S)
            threads.append(threading.Thread(target=work, args=(worker, client)))
        say_open()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def in_forks(hosts: Sequence[str], workers: Sequence[Worker], orders: Orders) -> None:
    """Each is a child that goes on with the client of its parent, and then says what it saw."""
    with distkv.connect(hosts, reply_s=REPLY_S, connect_s=OPEN_S) as client:
        say_open()
        pipes = []
        for number, worker in enumerate(workers[1:], 1):
            heard, said = os.pipe()
            told, tells = os.pipe()
            if os.fork() == 0:
                code = 1
                try:
                    os.close(tells)
                    child = Orders()
                    sys.stdin = os.fdopen(told)
                    child.listen()
                    while child.goes_on([worker]):
                        step(client, worker, child)
                    os.write(said, json.dumps(worker.report()).encode())
                    code = 0
                finally:
                    os._exit(code)
            os.close(said)
            os.close(told)
            pipes.append((number, heard, tells))
        is_told = False
        while orders.goes_on(workers[:1]):
            step(client, workers[0], orders)
            if orders.is_well and not is_told:
                is_told = True
                for _, _, tells in pipes:
                    os.write(tells, b"well\n")
        for _, _, tells in pipes:
            os.close(tells)
        for number, heard, _ in pipes:
            with os.fdopen(heard) as answer:
                found = json.loads(answer.read())
            worker = workers[number]
            worker.wrong, worker.answers = found["wrong"], found["answers"]
            worker.attempts, worker.is_served = found["attempts"], found["served"]
            os.wait()


# -- async --------------------------------------------------------------------------------------------------------


async def step_async(client: distkv.AsyncClient, worker: Worker, orders: Orders) -> None:
    """One write and a read, or a token, or what is cancelled."""
    is_well = orders.is_well
    worker.attempt(is_well=is_well)
    try:
        if worker.chance.random() < 0.1:
            async with client.token(worker.path, wait_s=0.5):
                pass
        await client.set(worker.path, worker.next_value())
        worker.answered(await client.get(worker.path), is_well=is_well)
        with anyio.move_on_after(worker.chance.random() * 0.002):
            await client.set(worker.path, worker.next_value())
            await client.get(worker.path)
        with anyio.move_on_after(worker.chance.random() * 0.01):
            async for _ in client.watch(worker.path):
                break
    except distkv.DistkvError:
        await anyio.sleep(0.01)


async def in_tasks(hosts: Sequence[str], workers: Sequence[Worker], orders: Orders) -> None:
    """All share a client."""

    async def work(worker: Worker) -> None:
        while orders.goes_on([worker]):
            await step_async(client, worker, orders)

    async with (
        distkv.open_client(hosts, reply_s=REPLY_S, connect_s=OPEN_S) as client,
        anyio.create_task_group() as tasks,
    ):
        say_open()
        for worker in workers:
            tasks.start_soon(work, worker)


# -- all ----------------------------------------------------------------------------------------------------------


def in_loop(loop: str) -> Callable[[Sequence[str], Sequence[Worker], Orders], None]:
    return lambda hosts, workers, orders: anyio.run(in_tasks, hosts, workers, orders, backend=loop)


KINDS: Final = {"threads": in_threads, "forks": in_forks, "asyncio": in_loop("asyncio"), "trio": in_loop("trio")}


def descriptors() -> int:
    """How many are open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def main(kind: str, seed: str, *hosts: str) -> None:
    """Work, and report."""
    workers = [Worker(f"play.{kind}.{number}", random.Random(f"{seed} {number}")) for number in range(WORKERS)]
    orders = Orders()
    orders.listen()
    before = descriptors()
    KINDS[kind](hosts, workers, orders)
    left = descriptors() - before
    sys.stdout.write(json.dumps({"left": left, "workers": [worker.report() for worker in workers]}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
