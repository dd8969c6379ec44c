"""Services of whole nodes: they are asked, tell each other, and answer when what they keep is on the disk.

Knows: nodes as `nodes` builds them, each with an echo.  Does not know how messages find their connection.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path as FilePath
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, ServiceResult, ServiceTell
from distkv.errors import BusyError, NotFoundError
from distkv.model.event import NodeName
from distkv.storage.log import open_log
from distkv.transport.peer_line import LINGER_S
from distkv.wire.message import LifeRecord, SlotRecord
from distkv.wire.records import decode_record, encode_record
from tests.node.nodes import OVER_SOCKETS, SEGMENT_BYTES, Node, World, new_world, until
from tests.node.test_damage import flip
from tests.proof.core.echo.machine import ECHO, Echo

COMMIT_S = 0.5


@asynccontextmanager
async def two(*, is_walled: bool = False, **options: Any) -> AsyncIterator[World]:
    """The ready nodes `a` and `b`, each with an echo, which hold the same; `is_walled`: nobody can dial `b`."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        world.shut = {("a", "b")} if is_walled else set()
        await world.start("a", init=1, services={ECHO: Echo()}, **options)
        await world.ready("a")
        await world.start("b", services={ECHO: Echo()}, **options)
        await world.ready("b")
        await world.converged("a", "b")
        yield world
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def alone(**options: Any) -> AsyncIterator[Node]:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1, solo=True, services={ECHO: Echo()}, **options)
        await world.ready("a")
        yield node
        nursery.cancel_scope.cancel()


def ask(node: Node, **request: object) -> list[ServiceResult]:
    """Ask its echo, and commit, as a session does; the answer will be in the list."""
    answers: list[ServiceResult] = []
    node.driver.services.ask(ECHO, request, answers.append)
    node.driver.commit()
    return answers


async def answered(answers: list[ServiceResult], within_s: float = 10) -> ServiceResult:
    with trio.fail_after(within_s):
        await until(lambda: bool(answers), 0.01)
    (answer,) = answers
    return answer


def kept(node: Node) -> dict[str, bytes | None]:
    """What the echo of a node has on the disk."""
    log = open_log(node.disk.after_power_loss(), segment_bytes=SEGMENT_BYTES)
    records = [decode_record(data) for batch in log.replay() for data in batch]
    log.close()
    return {record.key: record.value for record in records if isinstance(record, SlotRecord)}


def echo_of(node: Node) -> Echo:
    echo = node.services[ECHO]
    assert isinstance(echo, Echo)
    return echo


@pytest.mark.trio
@pytest.mark.parametrize("over_sockets", [False, True])
async def test_service_asks_the_one_of_another_node_and_answers(autojump_clock: MockClock, over_sockets: bool) -> None:
    OVER_SOCKETS.set(over_sockets)
    async with two() as world:
        a = world.nodes["a"]
        assert await answered(ask(a, to="b")) == {"count": 1, "by": "b"}
        assert await answered(ask(a, to="b")) == {"count": 2, "by": "b"}
        assert world.nodes["b"].replica.store.slots == {ECHO: {"ask of a": b"2"}}


@pytest.mark.trio
async def test_nothing_is_told_and_nobody_answered_before_the_slots_are_durable(autojump_clock: MockClock) -> None:
    async with two(commit_s=COMMIT_S) as world:
        a, b = world.nodes["a"], world.nodes["b"]
        await trio.sleep(10)
        began = trio.current_time()
        answers = ask(a, to="b")
        await until(lambda: bool(b.replica.store.slots), 0.01)
        assert trio.current_time() - began >= COMMIT_S
        assert kept(a)["count"] == b"1"
        await until(lambda: "echo of b" in a.replica.store.slots[ECHO], 0.01)
        assert trio.current_time() - began >= 2 * COMMIT_S
        assert kept(b)["ask of a"] == b"1"
        assert answers == []
        await answered(answers)
        assert trio.current_time() - began >= 3 * COMMIT_S
        assert kept(a)["echo of b"] == b"1"


@pytest.mark.trio
async def test_service_goes_on_after_a_restart_with_what_it_kept(autojump_clock: MockClock) -> None:
    async with two() as world:
        a = world.nodes["a"]
        await answered(ask(a, to="b"))
        await a.kill()
        again = await world.start("a", disk=a.disk.after_power_loss(), services={ECHO: Echo()})
        await world.ready("a")
        assert await answered(ask(again, to="b")) == {"count": 2, "by": "b"}


@pytest.mark.trio
async def test_archive_has_the_slots_and_the_log_need_not(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        ask(a, to="b")
        await settled_and_killed(a)
        again = await started_again(a)
        assert echo_of(again).restored == [{"count": b"1", "asked": b"1"}]


@pytest.mark.trio
async def test_archive_that_is_written_anew_has_the_slots(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        ask(a, to="b")
        await settled(a)
        assert a.driver.settler is not None
        await a.driver.settler.write_anew()
        await a.kill()
        assert echo_of(await started_again(a)).restored == [{"count": b"1", "asked": b"1"}]


async def settled(node: Node) -> None:
    assert node.driver.settler is not None
    await node.driver.settler.settle()


async def settled_and_killed(node: Node) -> None:
    await settled(node)
    await node.kill()


async def started_again(node: Node) -> Node:
    """A node without others, on its disk and its archive."""
    disk = node.disk.after_kill()
    again = await node.world.start("a", solo=True, archive=node.archive, disk=disk, services={ECHO: Echo()})
    await node.world.ready("a")
    return again


@pytest.mark.trio
async def test_damaged_slots_stop_no_start_and_are_shown_until_all_is_looked_at(
    autojump_clock: MockClock, tmp_path: FilePath
) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        ask(a, to="b")
        await settled_and_killed(a)
        flip(tmp_path / "a.sqlite", "slots", "value", "key = 'count'")
        again = await started_again(a)
        assert echo_of(again).restored == [{}]
        scrub = again.driver.scrub
        assert scrub is not None
        assert [damage.place for damage in scrub.lost] == ["slots, echo: count"]
        await settled(again)
        assert again.opened is not None
        assert again.opened.slots() == []
        ask(again, to="b")
        await settled_and_killed(again)
        last = await started_again(again)
        assert echo_of(last).restored == [{"count": b"1", "asked": b"1"}]
        scrub = last.driver.scrub
        assert scrub is not None
        with trio.fail_after(60):
            await scrub.now(is_fast=True).done.wait()
        assert scrub.lost == {}


@pytest.mark.trio
async def test_answer_that_nobody_waits_for_any_more_is_given_to_nobody(autojump_clock: MockClock) -> None:
    async with alone() as a:
        answers: list[ServiceResult] = []
        id = a.driver.services.ask(ECHO, {"wake_ms": a.driver.now_ms() + 1000}, answers.append)
        a.driver.services.withdraw(id)
        a.driver.services.withdraw(id)
        await trio.sleep(5)
        assert answers == []


@pytest.mark.trio
async def test_service_is_woken_by_the_clock_that_goes_on_while_the_host_sleeps(autojump_clock: MockClock) -> None:
    async with alone() as a:
        answers = ask(a, wake_ms=a.driver.now_ms() + 100_000)
        await trio.sleep(50)
        assert answers == []
        a.asleep_ms = 49_000
        other = ask(a, wake_ms=0)  # any input shows the node that time has passed
        assert await answered(other, 1)
        await trio.sleep(1.1)
        assert len(answers) == 1


@pytest.mark.trio
async def test_who_was_told_one_answer_can_wait_for_all_that_are_given_with_it(autojump_clock: MockClock) -> None:
    async with alone() as a:
        services, seen = a.driver.services, list[str]()

        def answered(result: ServiceResult) -> None:
            seen.append("answered")
            services.when_given(lambda: seen.append("sent"))

        for _ in range(2):
            services.ask(ECHO, {"wake_ms": a.driver.now_ms() + 1000}, answered)
        await trio.sleep(2)
        assert seen == ["answered", "answered", "sent", "sent"]


@pytest.mark.trio
async def test_answers_are_given_together_though_one_of_those_told_fails(autojump_clock: MockClock) -> None:
    async with alone() as a:
        services, seen = a.driver.services, list[str]()

        def fail() -> None:
            raise KeyError("nobody foresaw this")

        def give() -> None:
            services.when_given(fail)
            services.when_given(lambda: seen.append("sent"))

        services.give_together(give)
        assert seen == ["sent"]


@pytest.mark.trio
async def test_request_beyond_the_limit_is_refused(autojump_clock: MockClock) -> None:
    async with alone(limits=Limits(service_requests=2)) as a:
        first, _ = ask(a, wake_ms=1 << 40), ask(a, wake_ms=1 << 40)
        with pytest.raises(BusyError, match="2 requests to services of a wait already"):
            ask(a)
        assert first == []


@pytest.mark.trio
async def test_refusal_of_a_service_is_its_answer(autojump_clock: MockClock) -> None:
    async with alone() as a:
        assert isinstance(await answered(ask(a)), NotFoundError)


# -- between nodes


async def fill(node: Node, left: int) -> None:
    """Until so many bytes of records fit no more."""
    node.disk.faults.capacity_bytes = node.disk.faults.used_bytes
    record = encode_record(LifeRecord(NodeName("b"), node.replica.life or 0))
    while node.driver.has_room_for(left):
        count = 100 if node.driver.has_room_for(left + 10_000) else 1
        await node.committer.wait_durable(node.committer.append([record] * count, 0))


@pytest.mark.trio
async def test_node_that_cannot_be_dialled_is_told_on_the_connection_that_it_lends(autojump_clock: MockClock) -> None:
    async with two(is_walled=True, settings={"follow": True}) as world:
        a, b = world.nodes["a"], world.nodes["b"]
        with trio.fail_after(120):
            await until(lambda: a.driver.loans is not None and a.driver.loans.line(b.addr) is not None, 0.1)
        assert await answered(ask(a, to="b")) == {"count": 1, "by": "b"}


@pytest.mark.trio
async def test_node_of_another_network_is_refused_and_counted(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["b"].client() as client:
        fields = {"service": ECHO, "as": {"node": "a", "life": 0}, "bodies": [b"ask 1"], "quiet": True}
        with trio.fail_after(10):
            reply = await client.ask("node_tell", network=bytes(8), **fields)
        assert "another network" in reply["error"]
        b = world.nodes["b"]
        assert (b.driver.counters["tell_foreign"], echo_of(b).inputs) == (1, [])


@pytest.mark.trio
async def test_each_body_is_an_input_and_a_quiet_request_has_no_reply(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["b"].client() as client:
        b = world.nodes["b"]
        await client.receive()
        fields = {"service": ECHO, "as": {"node": "a", "life": 3}, "bodies": [b"ask 1", b"ask 2"], "quiet": True}
        await client.stream.send_all(client.frame("node_tell", **fields) + client.frame("ping"))
        reply = await client.receive()
        assert reply is not None
        assert reply["seq"] == client.seq
        told = [what for _, what in echo_of(b).inputs]
        assert told == [NodeTold(NodeName("a"), 3, ECHO, body) for body in (b"ask 1", b"ask 2")]


@pytest.mark.trio
async def test_long_word_of_a_node_is_taken_as_long_as_a_short_one_is(autojump_clock: MockClock) -> None:
    """The service says what it cannot keep; who asked would hear nothing else."""
    async with two() as world, world.nodes["b"].client() as client:
        b, word = world.nodes["b"], b"ask 1" + bytes(100_000)
        await fill(b, 200)
        fields = {"service": ECHO, "as": {"node": "a", "life": 3}}
        assert "error" not in await client.ask("node_tell", bodies=[word], **fields)
        await fill(b, 0)
        assert (await client.ask("node_tell", bodies=[word], **fields))["code"] == "no_space"
        assert [what for _, what in echo_of(b).inputs] == [NodeTold(NodeName("a"), 3, ECHO, word)]


@pytest.mark.trio
async def test_connection_stays_while_a_service_speaks_and_ends_when_it_is_silent(autojump_clock: MockClock) -> None:
    async with two() as world:
        a = world.nodes["a"]
        await trio.sleep(3 * LINGER_S)
        count = len(a.sent.as_client)
        for _ in range(int(3 * LINGER_S)):
            await answered(ask(a, to="b"))
            await trio.sleep(1)
        told = [copy for copy in a.sent.as_client[count:] if b"node_tell" in copy.data]
        assert len(told) == 1
        await trio.sleep(2 * LINGER_S)
        await answered(ask(a, to="b"))
        assert sum(b"node_tell" in copy.data for copy in a.sent.as_client[count:]) == 2


@pytest.mark.trio
async def test_what_is_told_to_nobody_is_counted_and_costs_nothing(autojump_clock: MockClock) -> None:
    async with alone() as a:
        ask(a, to="nobody")
        await trio.sleep(1)
        assert a.driver.counters["tell_unknown"] == 1


class Crowd(Echo):
    """Tells a node two things in one step."""

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        super().step(turn, what)
        turn.effects += [effect for effect in turn.effects if isinstance(effect, ServiceTell)]


@pytest.mark.trio
async def test_what_is_told_in_one_step_is_one_request(autojump_clock: MockClock) -> None:
    async with two() as world:
        a = world.nodes["a"]
        await a.kill()
        again = await world.start("a", disk=a.disk.after_kill(), services={ECHO: Crowd()})
        await world.ready("a")
        await answered(ask(again, to="b"))
        count = sum(copy.data.count(b"node_tell") for copy in again.sent.as_client)
        bodies = sum(copy.data.count(b"ask 1") for copy in again.sent.as_client)
        assert (count, bodies) == (1, 2)
