"""What a service hides from clients: whatever a client asks, nothing of it is in an answer.

Knows: whole nodes with an echo, an archive and a network that can be cut, and the bytes of all answers.  Does not know
which part of a node looks where (docs/protocol, HIDE-1 to HIDE-4).
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path as FilePath
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from distkv import mount
from distkv.core.losses import Losses
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.wire.frames import ROWS
from distkv.wire.hidden import is_hidden
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_records
from tests.node.nodes import Client, World, new_world
from tests.offenders import assert_none
from tests.proof.core.echo.machine import ECHO, Echo

SERVICE = [None, "service", ECHO]
KEY = "secret-plans"
HIDDEN = [*SERVICE, KEY]
OPEN = [*SERVICE, "plain"]
WORDS = (b"plans", b"hushed")
"""None of these may be in an answer: parts of the key, and of all its values."""

OF_NODES = {
    "get_events", "get_pages", "follow", "attach", "tree_say", "lend", "node_tell", "get_snapshot", "exchange", "held",
    "events_wait", "backup",
}  # fmt: skip
"""What nodes ask each other has it whole, as a backup does."""
OF_SERVICES = ("token_", "topic_", "account_", "activity_")


@pytest.fixture(autouse=True)
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "SERVICES", (*mount.SERVICES, ("tests.proof", "echo")))


@attrs.define
class Heard:
    """Whatever came on connections of clients."""

    data: bytearray = attrs.field(factory=bytearray)
    by: list[Any] = attrs.field(factory=list)
    """What was asked where something came, and what came."""

    def tap(self, client: Client) -> None:
        receive_some = client.stream.receive_some

        async def heard(*told: Any) -> bytes:
            data = bytes(await receive_some(*told))
            self.data += data
            return data

        client.stream.receive_some = heard  # type: ignore[method-assign]

    def leaks(self) -> list[bytes]:
        return [word for word in WORDS if word in self.data]


@asynccontextmanager
async def keeping_a_secret(tmp_path: FilePath) -> AsyncIterator[World]:
    """Two nodes with an entry that was written twice by one and once, beside that, by the other; and an open one."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1, services={ECHO: Echo()}, archive=str(tmp_path / "a.sqlite"))
        await world.ready("a")
        await world.start("b", services={ECHO: Echo()}, archive=str(tmp_path / "b.sqlite"))
        await world.ready("b")
        await world.converged("a", "b")
        yield world
        for node in world.nodes.values():
            await node.kill()
        nursery.cancel_scope.cancel()


async def write_secret(world: World) -> None:
    async with world.nodes["a"].client() as a, world.nodes["b"].client() as b:
        await a.ask("echo_name", name="plain", text="shown")
        await a.ask("echo_name", name=KEY, text="hushed 1")
        await world.converged("a", "b")
        world.network.partition([NodeName("a")], [NodeName("b")])
        await a.ask("echo_name", name=KEY, text="hushed 2")
        await b.ask("echo_name", name=KEY, text="hushed 3")
        world.network.heal()
        await world.converged("a", "b")


def questions(node: str, tick: int, settled_tick: int) -> dict[str, list[dict[str, object]]]:
    """By action, whatever a client may ask about it."""
    below: list[dict[str, object]] = [{"path": path} for path in ([], [None], SERVICE[:2], SERVICE, HIDDEN)]
    one: list[dict[str, object]] = [{"path": HIDDEN}]
    decision: list[dict[str, object]] = [
        {"path": path, "node": node, "tick": number} for path in ([], [None], HIDDEN) for number in (tick, settled_tick)
    ]
    return {
        "get_value": [*one, {"path": HIDDEN, "nchain": 5}, {"path": HIDDEN, "at": 4e9}],
        "set_value": [{"path": HIDDEN, "value": 1, "prev_value": True}, {"path": HIDDEN, "value": 1, "replicas": 2}],
        "delete_value": [{"path": HIDDEN, "prev_value": True}],
        "batch": [{"ops": [{"action": "get_value", "path": HIDDEN}]}],
        "history": one,
        "get_tree": [*below, *({**what, "nchain": 5} for what in below)],
        "list": below,
        "delete_tree": below[1:],
        "watch": [{**what, **more} for what in below for more in ({"fetch": True}, {}, {"missed": True})],
        "conflicts": [*below, *({**what, "closed": True} for what in below[1:])],
        "restore": [*decision, *({**what, "closed": True} for what in decision)],
        "dismiss": decision,
        "get_changes": [
            {"nodes": {node: [[1, tick + 100]]}, **what, **more}
            for what in ({}, *below)
            for more in ({}, {"content": True}, {"content": False})
        ],
        "get_state": [{}],
        "get_members": [{}],
        "get_keys": [{}],
        "change_key": [{"change": "use", "key": b"1234"}],
        "trace": [{}],
        "scrub": [{}],
        "retire_node": [{"node": KEY[:6]}],
        "aside": [{"id": "x"}],
        "ping": [{}],
        "stop": [{"task": 1}],
        "echo_ask": [{"node": "b", "text": "x"}],
        "echo_seal": [{"text": "x"}],
        "echo_hold": [{"token": "x"}],
        "echo_name": [{"name": "other", "text": "x"}],
    }


async def ask_all(world: World, asked: Iterable[tuple[str, dict[str, object]]], heard: Heard) -> list[str]:
    """Each on a connection of its own, because many do not end; the codes of what was refused."""
    codes: list[str] = []

    async def ask(action: str, fields: dict[str, object]) -> None:
        async with world.nodes["a"].client() as client:
            mine = Heard()
            mine.tap(client)
            await client.stream.send_all(client.frame(action, **fields))
            with trio.move_on_after(20):
                while (reply := await client.receive()) is not None:
                    if "code" in reply:
                        codes.append(str(reply["code"]))
            mine.data = mine.data.replace(b":n.service.echo.secret-plans belongs to", b"")  # as the client said itself
            heard.data += mine.data
            if mine.leaks():
                heard.by.append((action, fields, bytes(mine.data)))

    async with trio.open_nursery() as nursery:
        for action, fields in asked:
            nursery.start_soon(ask, action, fields)
        await trio.sleep(5)
        await write_secret(world)  # what watches and traces hear
    return codes


@pytest.mark.trio
async def test_no_request_of_a_client_is_answered_with_a_key_or_value_that_is_hidden(
    autojump_clock: MockClock, tmp_path: FilePath
) -> None:
    """HIDE-2, HIDE-3."""
    async with keeping_a_secret(tmp_path) as world:
        await write_secret(world)
        replica = world.nodes["a"].replica
        entry = replica.tree.get(Path(HIDDEN))
        assert entry is not None
        assert entry.losers
        table = questions("a", entry.head.tick, replica.tick - 1)
        actions = {row.action for row in ROWS if not row.action.startswith(OF_SERVICES)}
        assert actions | {"delete_value", *(name for name in table if name.startswith("echo_"))} == {*table} | OF_NODES
        heard = Heard()
        codes = await ask_all(world, [(action, one) for action, some in table.items() for one in some], heard)
        assert len(heard.data) > 10_000
        assert_none(heard.by, "these answers tell what is hidden")
        assert heard.leaks() == []
        assert "forbidden" in codes
        assert "internal" not in codes


@pytest.mark.trio
async def test_refusal_does_not_say_whether_anything_is_there(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    """HIDE-1."""
    async with keeping_a_secret(tmp_path) as world, world.nodes["a"].client() as client:
        await write_secret(world)
        there = await client.ask("get_value", path=HIDDEN)
        nothing = await client.ask("get_value", path=[*SERVICE, "secret-nothing"])
        assert there["code"] == "forbidden"
        assert {**there, "seq": 0} == {**nothing, "seq": 0}
        refused = await client.ask("batch", ops=[{"action": "get_value", "path": path} for path in (["x"], HIDDEN)])
        assert (refused["code"], refused["op"]) == ("forbidden", 1)


@pytest.mark.trio
async def test_entry_that_is_not_hidden_is_read_as_any_other(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    async with keeping_a_secret(tmp_path) as world, world.nodes["a"].client() as client:
        await write_secret(world)
        assert (await client.ask("get_value", path=OPEN))["value"] == "shown"
        assert [item["path"] for item in await client.items("get_tree", path=SERVICE)] == [OPEN]
        assert [name[0] for name in (await client.ask("list", path=SERVICE))["names"]] == ["plain"]  # type: ignore[index, attr-defined]


@pytest.mark.trio
async def test_changes_have_one_for_each_that_is_hidden_without_path_and_value(
    autojump_clock: MockClock, tmp_path: FilePath
) -> None:
    """HIDE-3, and HIDE-4: the other node has it."""
    async with keeping_a_secret(tmp_path) as world, world.nodes["a"].client() as client:
        await write_secret(world)
        other = world.nodes["b"].replica.tree.head(Path(HIDDEN))
        assert other is not None
        assert b"hushed" in other.value
        tree = world.nodes["a"].replica.tree
        entry = tree.get(Path(HIDDEN))
        assert entry is not None
        node, tick = entry.head.link
        items = await client.items("get_changes", nodes={node: [tick]}, content=True)
        (record,) = decode_records(items[0]["records"])  # type: ignore[arg-type]
        assert isinstance(record, EventRecord)
        event = record.event
        assert (event.link, event.value, event.path) == (entry.head.link, b"", Path((None, "hidden", node, tick)))
        assert items[-1]["absent"] == {}
        (here,) = await client.items("get_changes", nodes={node: [tick]}, path=SERVICE, content=False)
        assert (here["here"], here["absent"]) == ({node: [tick]}, {})


@pytest.mark.parametrize("names", [(), ("x",), (None, "service"), (None, "service", ECHO), (None, "service", ECHO, 5)])
def test_only_keys_that_a_service_hides_are_hidden(names: tuple[Any, ...]) -> None:
    assert not is_hidden(Path(names))
    assert is_hidden(Path((*HIDDEN, "x")))
    assert not is_hidden(Path((None, "service", "other", KEY)))




def test_what_is_lost_is_not_named_where_it_is_hidden() -> None:
    """HIDE-2."""
    losses = Losses()
    for names in (HIDDEN, OPEN):
        losses.add(Path(names))
    assert losses.below(Path(SERVICE)) == [Path(OPEN)]
    assert KEY not in str(losses.lack_below(Path(SERVICE)))
