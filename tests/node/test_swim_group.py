"""When the membership machine is stepped, with a machine that does what the test says.

Knows: `Group` at real sockets on loopback.  Does not know what the real machine decides.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from distkv.swim.inputs import (
    Datagram,
    Datagrams,
    KnownNodes,
    LeaveGroup,
    Member,
    Noted,
    SwimInput,
    SwimReport,
    SwimStep,
    Woke,
)
from distkv.transport.datagrams import DatagramSocket, open_datagrams
from distkv.transport.group import FAILED_MS, Contain, Group, boot_ms, raise_it, tell_known

FAR_MS = 3_600_000
AWAY_MS = 40
ROUNDS = 12
"""Which of two tasks goes on first is drawn each time."""


@attrs.define(eq=False)
class ScriptedMachine:
    """Keeps what it is handed; `then` says what follows."""

    then: Callable[[int, SwimInput], SwimStep]
    items: list[SwimInput] = attrs.field(factory=list)
    is_over: bool = False

    def step(self, now_ms: int, item: SwimInput) -> SwimStep:
        self.items.append(item)
        return self.then(now_ms, item)

    def members(self) -> tuple[Member, ...]:
        return ()


def nothing(now_ms: int, _: SwimInput) -> SwimStep:
    return SwimStep([], [], now_ms + FAR_MS)


@asynccontextmanager
async def running(
    machine: ScriptedMachine, contain: Contain = raise_it
) -> AsyncIterator[tuple[Group, DatagramSocket, list[SwimReport]]]:
    reports: list[SwimReport] = []
    bound = open_datagrams(("127.0.0.1", 0))
    group = Group(machine, bound, reports.append)
    group.contain = contain
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.run)
            await until(lambda: Woke() in machine.items)
            yield group, bound, reports
            nursery.cancel_scope.cancel()
    bound.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # no event tells
        await trio.sleep(0.001)


@pytest.mark.trio
async def test_what_comes_is_handed_in_with_its_sender() -> None:
    machine = ScriptedMachine(nothing)
    async with running(machine) as (_, bound, _):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            other.sendto(b"x", bound.address)
            wanted = Datagrams(((other.getsockname(), b"x"),))
            await until(lambda: wanted in machine.items)


@pytest.mark.trio
async def test_the_machine_is_woken_when_it_wants_that() -> None:
    machine = ScriptedMachine(lambda now_ms, _: SwimStep([], [], now_ms + 20))
    began_ms = boot_ms()
    async with running(machine):
        await until(lambda: len(machine.items) >= 5)
        assert boot_ms() - began_ms >= 4 * 20


@pytest.mark.trio
async def test_a_machine_that_wants_to_be_woken_sooner_than_before_is() -> None:
    def then(now_ms: int, item: SwimInput) -> SwimStep:
        return SwimStep([], [], now_ms + (10 if isinstance(item, KnownNodes) else FAR_MS))

    machine = ScriptedMachine(then)
    async with running(machine) as (group, _, _):
        machine.items.clear()
        group.step(KnownNodes({}))
        await until(lambda: machine.items == [KnownNodes({}), Woke()])


@pytest.mark.trio
async def test_what_came_while_the_process_was_away_is_handed_in_before_time_is() -> None:
    machine = ScriptedMachine(lambda now_ms, _: SwimStep([], [], now_ms + AWAY_MS // 2))
    async with running(machine) as (_, bound, _):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for _ in range(ROUNDS):
                other.sendto(b"x", bound.address)
                machine.items.clear()
                deadline_ms = boot_ms() + AWAY_MS
                while boot_ms() < deadline_ms:  # as a process that is stopped
                    pass
                await until(lambda: len(machine.items) >= 2)
                assert isinstance(machine.items[0], Datagrams)


@pytest.mark.trio
async def test_what_the_machine_sends_leaves_and_what_it_reports_is_told() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.settimeout(5)

        def then(now_ms: int, _: SwimInput) -> SwimStep:
            return SwimStep([Datagram(other.getsockname(), b"y")], [Noted("seen", {})], now_ms + FAR_MS)

        async with running(ScriptedMachine(then)) as (_, bound, reports):
            assert other.recvfrom(10) == (b"y", bound.address)
            assert reports == [Noted("seen", {})]


@pytest.mark.trio
async def test_a_failure_of_the_machine_costs_what_was_handed_in_and_no_more() -> None:
    def then(now_ms: int, item: SwimInput) -> SwimStep:
        if isinstance(item, KnownNodes):
            raise RuntimeError("no")
        return nothing(now_ms, item)

    contained: list[str] = []
    async with running(ScriptedMachine(then)) as (group, _, _):
        group.contain = lambda error, what: contained.append(f"{what}: {error}")
        group.step(KnownNodes({}))
        group.step(Woke())
        assert contained == ["the membership machine: KnownNodes: no"]


@pytest.mark.trio
async def test_a_machine_that_fails_when_it_is_woken_is_not_woken_at_once_again() -> None:
    woken_ms: list[int] = []

    def then(now_ms: int, item: SwimInput) -> SwimStep:
        if isinstance(item, Woke):
            woken_ms.append(now_ms)
            raise ValueError("no")
        return nothing(now_ms, item)

    async with running(ScriptedMachine(then), contain=lambda *_: None):
        await until(lambda: len(woken_ms) >= 2)
        assert woken_ms[1] - woken_ms[0] >= FAILED_MS


@pytest.mark.trio
async def test_who_leaves_is_driven_until_all_was_told() -> None:
    machine = ScriptedMachine(nothing)
    bound = open_datagrams(("127.0.0.1", 0))
    wakes = 0

    def then(now_ms: int, item: SwimInput) -> SwimStep:
        nonlocal wakes
        wakes += isinstance(item, Woke)
        machine.is_over = wakes == 3
        return SwimStep([], [], now_ms + 5)

    machine.then = then
    await Group(machine, bound, lambda _: None).leave()
    assert machine.items == [LeaveGroup(), Woke(), Woke(), Woke()]
    bound.close()


@pytest.mark.trio
async def test_registered_nodes_are_told_where_they_can_be_found_whenever_that_changes() -> None:
    machine = ScriptedMachine(nothing)
    where = {"b": "127.0.0.1:7", "c": "[::1]:7", "d": "nowhere.invalid:7"}
    async with running(machine) as (group, _, _), trio.open_nursery() as nursery:
        nursery.start_soon(lambda: tell_known(group, lambda: where, is_v6=False))
        await until(lambda: KnownNodes({"b": ("127.0.0.1", 7)}) in machine.items)
        where["b"] = "127.0.0.1:8"
        await until(lambda: KnownNodes({"b": ("127.0.0.1", 8)}) in machine.items)
        nursery.cancel_scope.cancel()
