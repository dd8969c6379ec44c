"""The listener of a whole node in virtual time: who says nothing, who leaves, and what becomes of the service.

Knows: a node in memory, and pairs of sockets.  Does not know what lines mean: unit tests do.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from distkv.core.activity.config import ActivityLimits
from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.services.activity.listener import ActivityListener
from distkv.services.activity.place import ListenerPlace
from distkv.wire.activity import ActivityNodeItem, ActivityPeople, ActivityWho
from tests.node.nodes import MemoryListener, Node, new_world

pytestmark = pytest.mark.trio


@attrs.frozen
class Place:
    """A node with a listener."""

    node: Node
    listener: MemoryListener
    talkers: list[Talker] = attrs.field(factory=list)

    async def connect(self) -> Talker:
        """A new client."""
        here, there = trio.socket.socketpair()
        self.listener.put(trio.SocketStream(there))
        self.talkers.append(Talker(trio.SocketStream(here)))
        return self.talkers[-1]

    @property
    def origin(self) -> str:
        """Of what is sent here."""
        machine = self.node.replica.services[ACTIVITY]
        assert isinstance(machine, ActivityMachine)
        assert machine.node is not None
        return machine.node.delivery.origin

    def clients(self) -> object:
        """How many are logged in."""
        return self.node.replica.services[ACTIVITY].statistics()["clients"]


class Talker:
    """A client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._data = b""

    async def say(self, command: str, **fields: object) -> None:
        await self.stream.send_all(json.dumps({"command": command, **fields}).encode() + b"\n")

    async def hear(self) -> str:
        """The command of the next message; empty: the end."""
        while b"\n" not in self._data:
            data = await self.stream.receive_some(1 << 16)
            if not data:
                return ""
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return str(json.loads(line)["command"])


@asynccontextmanager
async def listening(limits: ActivityLimits | None = None, **settings: int) -> AsyncIterator[Place]:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        services = {ACTIVITY: ActivityMachine(ActivitySettings(**settings), random.Random(1))}
        node = await world.start("a", init=1, services=services)
        await world.ready("a")
        listener = MemoryListener()
        place = ListenerPlace("a", 1)
        nursery.start_soon(ActivityListener(node.driver, limits or ActivityLimits(), [listener], place).run)
        found = Place(node, listener)
        try:
            yield found
        finally:
            for talker in found.talkers:
                talker.stream.socket.close()
        nursery.cancel_scope.cancel()


async def test_client_that_does_not_log_in_is_closed_after_a_minute(autojump_clock: MockClock) -> None:
    async with listening() as place:
        began_s = trio.current_time()
        talker = await place.connect()
        assert [await talker.hear(), await talker.hear()] == ["INVALID_MESSAGE", ""]
        assert 59 < trio.current_time() - began_s < 65


async def test_client_that_is_logged_in_may_say_nothing_for_ever(autojump_clock: MockClock) -> None:
    async with listening() as place:
        talker = await place.connect()
        await talker.say("LOGIN", username="anonymous")
        assert await talker.hear() == "LOGIN_SUCCESS"
        await trio.sleep(600)
        await talker.say("ACTIVITY_MESSAGE", username="anonymous", activity={})
        assert await talker.hear() == "ACTIVITY_BROADCAST"


async def test_half_a_line_is_not_kept_for_ever(autojump_clock: MockClock) -> None:
    async with listening() as place:
        talker = await place.connect()
        await talker.say("LOGIN", username="anonymous")
        await talker.stream.send_all(b'{"command":')
        assert [await talker.hear() for _ in range(3)] == ["LOGIN_SUCCESS", "INVALID_MESSAGE", ""]


async def test_half_lines_of_all_are_bounded(autojump_clock: MockClock) -> None:
    limits = ActivityLimits(activity_half_bytes=200_000)
    async with listening(limits) as place:
        talkers = [await place.connect() for _ in range(6)]
        for talker in talkers:
            await talker.stream.send_all(b"x" * 60_000)
            await trio.sleep(0.1)
        assert await talkers[0].hear() == "INVALID_MESSAGE"
        await trio.sleep(5)
        assert 0 < place.node.driver.counters["activity_connections"] < 6


async def without_reading(place: Place, count: int) -> list[Talker]:
    """Clients that resume, lack two megabytes each, and do not read them."""
    sender = await place.connect()
    await sender.say("LOGIN", username="anonymous")
    assert await sender.hear() == "LOGIN_SUCCESS"
    for _ in range(65):
        await sender.say("ACTIVITY_MESSAGE", username="anonymous", activity={"text": "x" * 32_000})
        assert await sender.hear() == "ACTIVITY_BROADCAST"
    found = [await place.connect() for _ in range(count)]
    for talker in found:
        await talker.say("LOGIN", username="anonymous", resume={place.origin: 0})
        await trio.sleep(0.1)
    return found


async def test_who_resumes_and_does_not_read_what_it_lacks_is_closed_after_a_minute(autojump_clock: MockClock) -> None:
    async with listening() as place:
        [talker] = await without_reading(place, 1)
        await trio.sleep(50)
        assert place.clients() == 2
        await trio.sleep(20)
        assert place.clients() == 1
        heard = [await talker.hear() for _ in range(3)]
        assert heard == ["LOGIN_SUCCESS", "ACTIVITY_BROADCAST", "ACTIVITY_BROADCAST"]


async def test_what_waits_for_all_who_resume_is_bounded(autojump_clock: MockClock) -> None:
    async with listening(ActivityLimits(activity_missed_bytes=5_000_000)) as place:
        await without_reading(place, 4)
        await trio.sleep(5)
        assert place.node.driver.counters["activity_end_slow"] == 2
        assert place.clients() == 3


async def test_who_resumes_is_told_all_that_it_lacks_in_order(autojump_clock: MockClock) -> None:
    async with listening() as place:
        [talker] = await without_reading(place, 1)
        assert [await talker.hear() for _ in range(66)] == ["LOGIN_SUCCESS", *["ACTIVITY_BROADCAST"] * 65]


@pytest.mark.parametrize("leaves", ["LOGOUT", ""])
async def test_client_that_leaves_is_not_logged_in_any_more(autojump_clock: MockClock, leaves: str) -> None:
    async with listening() as place:
        talker = await place.connect()
        await talker.say("LOGIN", username="anonymous")
        await talker.hear()
        assert place.clients() == 1
        if leaves:
            await talker.say(leaves)
        else:
            await talker.stream.aclose()
        await trio.sleep(5)
        assert (place.clients(), place.node.driver.counters["activity_connections"]) == (0, 0)


async def test_who_sends_more_than_his_rate_is_read_later(autojump_clock: MockClock) -> None:
    async with listening(rate=10) as place:
        talker = await place.connect()
        await talker.say("LOGIN", username="anonymous")
        await talker.hear()
        began_s = trio.current_time()
        for _ in range(50):
            await talker.say("ACTIVITY_MESSAGE", username="anonymous", activity={})
        assert [await talker.hear() for _ in range(50)] == ["ACTIVITY_BROADCAST"] * 50
        assert trio.current_time() - began_s >= 3


async def test_service_knows_where_the_listener_is(autojump_clock: MockClock) -> None:
    async with listening() as place:
        talker = await place.connect()
        await talker.say("LOGIN", username="anonymous")
        assert await talker.hear() == "LOGIN_SUCCESS"
        assert [item.addr for item in await _nodes(place)] == ["a:1"]


async def _nodes(place: Place) -> list[ActivityNodeItem]:
    found = list[ActivityNodeItem]()

    def take(result: object) -> None:
        assert isinstance(result, ActivityPeople)
        found.extend(result.nodes)

    place.node.driver.services.ask(ACTIVITY, ActivityWho(0), take)
    await trio.sleep(1)
    return found
