"""A service that lives in the tests, mounted like a real one: each layer finds its part, and no file of ours names it.

Knows: whole nodes, frames, and the parts of the echo.  Does not know what the ground does for it.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from distkv import mount
from distkv.cli.settings import read_settings
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.service import machines, mounted
from distkv.core.ground.turn import ServiceTurn
from distkv.core.registry import service_path
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.doctor.facts import Level, NodeFacts
from distkv.doctor.services import checkups
from distkv.errors import SettingsError
from distkv.model.event import NodeName
from distkv.wire.asking import encode_request
from distkv.wire.frames import decode_request
from distkv.wire.services import ServiceRequest, service_rows
from tests.node.nodes import Client, World, new_world, solo_node
from tests.node.test_tokens import LEASE_S
from tests.offenders import assert_none
from tests.proof.core.echo.machine import ECHO, Echo, sealed
from tests.proof.wire.echo import EchoAsk, EchoHold, EchoName, EchoSeal, EchoWatch

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(mount, "SERVICES", (*mount.SERVICES, ("tests.proof", "echo")))


@asynccontextmanager
async def two(first: Echo | None = None) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1, services={ECHO: first or Echo()})
        await world.ready("a")
        await world.start("b", services={ECHO: Echo()})
        await world.ready("b")
        await world.converged("a", "b")
        yield world
        nursery.cancel_scope.cancel()


def test_no_file_outside_names_it() -> None:
    naming = [
        file.relative_to(ROOT)
        for file in [*(ROOT / "distkv").rglob("*.py"), *(ROOT / "docs").glob("*.rst")]
        if "echo_ask" in (text := file.read_text("utf-8")) or "tests.proof" in text
    ]
    assert_none(naming)


@pytest.mark.parametrize(
    "request_",
    [
        EchoAsk(1, "b", "abc"), EchoName(2, "x", "y"), EchoName(3, "x"), EchoWatch(4), EchoSeal(5, "z"),
        EchoHold(6, "t"),
    ],
)  # fmt: skip
def test_its_requests_are_written_and_read(request_: ServiceRequest) -> None:
    assert decode_request(encode_request(request_)) == request_  # type: ignore[arg-type]
    assert type(request_) in {row.type for row in service_rows()}


def test_node_has_it_if_its_settings_say_so() -> None:
    (echo,) = [service for service in mounted() if service.name == ECHO]
    for length, is_there in ((5, True), (0, False)):
        config = read_settings(None, (f"echo.length={length}",), {"node.name": ("NAME", "a")})
        made = machines(config, _Chance()).get(ECHO)
        assert (made is not None) == is_there
        assert (echo.alike_off if made is None else made.alike()) == echo.alike(config)


def test_mistake_in_its_settings_is_named_as_any_other() -> None:
    with pytest.raises(SettingsError, match=r"-C echo.length=99: echo.length is 99: it must be 0 to 64"):
        read_settings(None, ("echo.length=99",), {"node.name": ("NAME", "a")})
    with pytest.raises(SettingsError, match=r"there is no setting echo.lenght: did you mean echo.length\?"):
        read_settings(None, ("echo.lenght=9",), {"node.name": ("NAME", "a")})


class _Chance:
    def random(self) -> float:
        return 0.5


@pytest.mark.trio
async def test_client_asks_it_on_one_node_and_another_one_says_it_back(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["a"].client() as client:
        assert (await client.ask("echo_ask", node="b", text="abc"))["text"] == "cba"
        refused = await client.ask("echo_ask", node="b", text="")
        assert (refused["code"], "'text'" in refused["error"]) == ("bad_request", True)


@pytest.mark.trio
async def test_it_asks_the_tokens_of_its_node_and_writes_under_their_fence(autojump_clock: MockClock) -> None:
    tokens = TokenMachine(TokenSettings((NodeName("a"),)), random.Random(1))
    async with solo_node(services={ECHO: Echo(), TOKENS: tokens}) as node, node.client() as client:
        await trio.sleep(2 * LEASE_S)
        fences = [(await client.ask("echo_hold", token="night"))["text"] for _ in range(2)]
        assert fences[0] < fences[1]
        found = node.replica.tree.head(service_path(ECHO, "night"))
        assert found is not None
        assert str(found.fence) == fences[1]
        assert (await client.ask("get_state"))["tokens"]["sessions"] == 0


@pytest.mark.trio
async def test_node_without_tokens_lets_it_answer_why_it_cannot(autojump_clock: MockClock) -> None:
    async with solo_node(services={ECHO: Echo()}) as node, node.client() as client:
        refused = await client.ask("echo_hold", token="night")
        assert (refused["code"], "has no service tokens" in refused["error"]) == ("bad_request", True)


@pytest.mark.trio
async def test_slow_work_is_done_on_a_thread_and_what_goes_wrong_there_is_a_refusal(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["a"].client() as client:
        assert (await client.ask("echo_seal", text="abc"))["text"] == sealed("abc").decode()
        assert (await client.ask("echo_seal", text="refused"))["code"] == "bad_value"
        assert (await client.ask("echo_seal", text="fault"))["code"] == "internal"
        assert (await client.ask("get_state"))["failed"] == []


@pytest.mark.trio
async def test_watch_on_another_node_is_told_of_what_is_written(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["a"].client() as writer, world.nodes["b"].client() as watcher:
        assert (await watcher.ask("echo_watch"))["state"] == "start"
        assert (await _next(watcher))["state"] == "uptodate"
        await writer.ask("echo_name", name="x", text="one")
        assert await _named(watcher) == ("x", "one")
        await writer.ask("echo_name", name="y", text="two")
        assert await _named(watcher) == ("y", "two")
        await writer.ask("echo_name", name="hall lamp", text="three")
        assert await _named(watcher) == ("hall lamp", "three")
        await writer.ask("echo_name", name="x")
        assert await _named(watcher) == ("x", None)


async def _next(client: Client) -> dict[str, object]:
    with trio.fail_after(60):
        found = await client.receive()
    assert found is not None
    return dict(found)


async def _named(client: Client) -> tuple[object, object]:
    found = await _next(client)
    return found["name"], found["text"]


@pytest.mark.trio
async def test_state_shows_it_and_doctor_looks_at_it(autojump_clock: MockClock) -> None:
    async with two() as world, world.nodes["a"].client() as client:
        state = await client.ask("get_state")
    assert state[ECHO] == {"count": 0}
    assert state["settings"]["echo.length"] == 5
    (checkup,) = [one for one in checkups() if one.name == ECHO]
    having = NodeFacts("a:1", name="a", services={ECHO: checkup.read(state[ECHO])})
    lacking = NodeFacts("b:1", name="b", services={ECHO: checkup.read({})})
    assert [one.level for one in checkup.check([having])] == [Level.OK]
    assert [one.level for one in checkup.check([having, lacking])] == [Level.WARN]


@pytest.mark.trio
async def test_node_without_it_says_what_to_do(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1, solo=True)
        await world.ready("a")
        async with node.client() as client:
            refused = await client.ask("echo_watch")
            assert (refused["code"], "echo.length" in refused["error"]) == ("disabled", True)
            assert (await client.ask("get_state"))[ECHO] == {}
        nursery.cancel_scope.cancel()


class Broken(Echo):
    """Fails when it has taken all that it wanted."""

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        super().step(turn, what)
        if turn.effects:
            raise KeyError("nobody foresaw this")


@pytest.mark.trio
async def test_fault_of_it_costs_neither_the_store_nor_the_node(autojump_clock: MockClock) -> None:
    async with two(Broken()) as world, world.nodes["a"].client() as client:
        before = dict(world.nodes["a"].replica.store.slots)
        for _ in range(2):
            assert (await client.ask("echo_ask", node="b", text="abc"))["code"] == "internal"
        state = await client.ask("get_state")
        assert (state["failed"], state[ECHO]) == ([ECHO], {})
        assert dict(world.nodes["a"].replica.store.slots) == before
        assert "code" not in await client.ask("set_value", path=["x"], value=1)
