"""Producers and consumers of the asynchronous client, on real nodes: many puts at once, receives that are cancelled at
any moment, and an owner that is killed meanwhile.

Knows: the Python API, under trio and asyncio.  Does not know what is asked of the nodes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import distkv
from tests.process.cluster import Cluster, open_cluster

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

SETTINGS = "topics: {lease: 1}\n"
TASKS = 8
PUTS = 10
LAST = -1
END_S = 300.0
NUMBERS = sorted(range(TASKS * PUTS))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes."""
    with open_cluster(tmp_path_factory.mktemp("library"), extra=SETTINGS) as found:
        yield found


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


async def put_all(producer: distkv.AsyncProducer, topic: str) -> None:
    """All numbers, from several tasks, and then the last one."""

    async def put_some(first: int) -> None:
        for number in range(first, first + PUTS):
            await producer.put(topic, number)

    async with anyio.create_task_group() as tasks:
        for task in range(TASKS):
            tasks.start_soon(put_some, task * PUTS)
    await producer.put(topic, LAST)


async def test_receives_that_are_cancelled_lose_and_repeat_nothing(
    cluster: Cluster, anyio_backend: str, tmp_path: Path
) -> None:
    topic, got, rng = f"cancelled {anyio_backend}", list[object](), random.Random(1)
    with anyio.fail_after(END_S):
        async with (
            distkv.open_client([cluster["a"].address]) as client,
            client.consumer(topic, id="s", state=tmp_path / "s") as consumer,
            client.producer("p", state=tmp_path / "p") as producer,
            anyio.create_task_group() as tasks,
        ):
            await consumer.subscribe()
            tasks.start_soon(put_all, producer, topic)
            while LAST not in got:
                message = None
                with anyio.move_on_after(rng.choice((0, 0.001, 0.005, 1))):
                    message = await consumer.receive(60)
                if message is not None:
                    with consumer.done(message):
                        got.append(message.value)
    assert sorted(got[:-1]) == NUMBERS  # type: ignore[type-var]


async def test_each_message_comes_once_while_its_owner_is_killed_and_started(
    cluster: Cluster, anyio_backend: str, tmp_path: Path
) -> None:
    """The client is told two addresses, of which that of the owner is the first."""
    topic, got = f"killed {anyio_backend}", list[object]()
    with anyio.fail_after(END_S):
        async with distkv.open_client([cluster["a"].address]) as client:
            await client.request("topic_subscribe", {"topic": topic, "subscriber": "s"})
            owner = str((await client.request("topic_show", {"topic": topic}, is_read=True))["owner"])
        other = cluster.others(owner)[0].address
        async with (
            distkv.open_client([cluster[owner].address, other], reply_s=60) as client,
            client.consumer(topic, id="s", state=tmp_path / "s") as consumer,
            client.producer("p", state=tmp_path / "p") as producer,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(put_all, producer, topic)
            async for message in consumer:
                with consumer.done(message):
                    got.append(message.value)
                if len(got) == 1:
                    await anyio.to_thread.run_sync(cluster[owner].kill)
                    tasks.start_soon(partial(anyio.to_thread.run_sync, cluster.start, owner))
                if message.value == LAST:
                    break
    assert sorted(got[:-1]) == NUMBERS  # type: ignore[type-var]
