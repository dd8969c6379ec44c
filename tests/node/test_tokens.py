"""Requests about tokens on the connections of one node: when they are answered, stopped and forgotten.

Knows: a node that serves tokens alone, in memory, and frames.  Does not know how tokens are served.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.model.event import NodeName
from tests.node.nodes import Client, Node, Reply, solo_node

pytestmark = pytest.mark.trio

LEASE_S = 5.0


@asynccontextmanager
async def token_node(**options: Any) -> AsyncIterator[Node]:
    """A node that serves tokens, and grants them by now."""
    machine = TokenMachine(TokenSettings((NodeName("a"),)), random.Random(1))
    async with solo_node(services={TOKENS: machine}, **options) as node:
        await trio.sleep(2 * LEASE_S)
        yield node


async def opened(client: Client) -> str:
    return str((await client.ask("token_open", ttl=60.0))["session"])


async def next_of(client: Client, seq: int) -> Reply:
    while (reply := await client.receive()) is not None:
        if reply["seq"] == seq:
            return reply
    raise EOFError("the server closed the connection")


async def test_node_without_token_servers_says_how_to_have_some(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        for action, fields in (("token_open", {}), ("token_servers", {}), ("token_show", {"token": "t"})):
            reply = await client.ask(action, **fields)
            assert reply["code"] == "disabled"
            assert "tokens.servers" in reply["error"]


async def test_token_is_held_shown_and_released(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client:
        session = await opened(client)
        got = await client.ask("token_acquire", session=session, token="t", data={"by": "me"})
        shown = await client.ask("token_show", token="t")
        assert (shown["server"], shown["waiting"], shown["data"]) == ("a", 0, {"by": "me"})
        (holder,) = shown["holders"]
        assert {name: holder[name] for name in ("session", "shared", "epoch", "counter")} == {
            "session": session, "shared": False, "epoch": got["epoch"], "counter": got["counter"],
        }  # fmt: skip
        assert (await client.ask("token_data", session=session, token="t", data=None)).keys() == {"seq"}
        assert (await client.ask("token_release", session=session, token="t")).keys() == {"seq"}
        assert (await client.ask("token_list"))["items"] == []
        again = await client.ask("token_acquire", session=session, token="t")
        assert (again["epoch"], again["counter"]) > (got["epoch"], got["counter"])


async def test_who_waits_lets_other_requests_pass_and_is_granted_in_turn(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client, node.client() as other:
        holder, waiter = await opened(client), await opened(other)
        await client.ask("token_acquire", session=holder, token="t")
        await other.stream.send_all(other.frame("token_acquire", session=waiter, token="t", wait=100.0))
        seq = other.seq
        assert (await other.ask("ping")).keys() == {"seq"}
        assert (await client.ask("token_show", token="t"))["waiting"] == 1
        await client.ask("token_release", session=holder, token="t")
        assert (await next_of(other, seq))["token"] == "t"


async def test_wait_that_is_over_gives_a_ticket_that_keeps_the_place(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client, node.client() as two, node.client() as three:
        first, second, third = [await opened(client) for _ in range(3)]
        await client.ask("token_acquire", session=first, token="t")
        late = await client.ask("token_acquire", session=second, token="t", wait=1.0)
        assert late["code"] == "timeout"
        await three.stream.send_all(three.frame("token_acquire", session=third, token="t", wait=50.0))
        await three.ask("ping")
        again = {"session": second, "token": "t", "wait": 50.0, "ticket": late["ticket"]}
        await two.stream.send_all(two.frame("token_acquire", **again))
        before = two.seq
        await two.ask("ping")
        await client.ask("token_release", session=first, token="t")
        assert "epoch" in await next_of(two, before)
        await client.ask("token_release", session=second, token="t")
        assert "epoch" in await next_of(three, three.seq - 1)


async def test_stopped_wait_is_answered_and_leaves_the_queue(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client:
        holder, waiter = await opened(client), await opened(client)
        await client.ask("token_acquire", session=holder, token="t")
        await client.stream.send_all(client.frame("token_acquire", session=waiter, token="t", wait=1000.0))
        seq = client.seq
        await client.stream.send_all(client.frame("stop", task=seq))
        assert (await next_of(client, seq))["code"] == "cancelled"
        await trio.sleep(LEASE_S)
        assert (await client.ask("token_show", token="t"))["waiting"] == 0


async def test_connection_that_ends_waits_no_more(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client:
        holder, waiter = await opened(client), await opened(client)
        await client.ask("token_acquire", session=holder, token="t")
        async with node.client() as other:
            await other.stream.send_all(other.frame("token_acquire", session=waiter, token="t", wait=1000.0))
            await other.ask("ping")
        await trio.sleep(LEASE_S)
        assert (await client.ask("token_show", token="t"))["waiting"] == 0


async def test_watch_tells_what_there_is_what_changes_and_its_end(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client, node.client() as watcher:
        session = await opened(client)
        await client.ask("token_acquire", session=session, token="w.one")
        await watcher.stream.send_all(watcher.frame("token_watch", prefix="w."))
        seq = watcher.seq
        assert (await next_of(watcher, seq))["state"] == "start"
        assert (await next_of(watcher, seq))["token"] == "w.one"
        assert (await next_of(watcher, seq))["state"] == "uptodate"
        await client.ask("token_acquire", session=session, token="other")
        await client.ask("token_acquire", session=session, token="w.two")
        item = await next_of(watcher, seq)
        assert (item["token"], [holder["session"] for holder in item["holders"]]) == ("w.two", [session])
        await client.ask("token_release", session=session, token="w.one")
        item = await next_of(watcher, seq)
        assert (item["token"], item["holders"]) == ("w.one", [])
        await watcher.stream.send_all(watcher.frame("stop", task=seq))
        assert (await next_of(watcher, seq))["state"] == "end"


async def test_watch_of_no_token_is_up_to_date_at_once(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as watcher:
        await watcher.stream.send_all(watcher.frame("token_watch", prefix="none"))
        assert [(await next_of(watcher, watcher.seq))["state"] for _ in range(2)] == ["start", "uptodate"]


async def test_broken_token_is_told_to_its_holder(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client, node.client() as breaker:
        session = await opened(client)
        got = await client.ask("token_acquire", session=session, token="t")
        told = await client.ask("token_keep", session=session, version=0, held=[])
        held = [{name: got[name] for name in ("token", "epoch", "counter", "shared")}]
        await client.stream.send_all(
            client.frame("token_keep", session=session, version=told["version"], held=held, wait=20.0)
        )
        seq = client.seq
        assert (await breaker.ask("token_break", token="t")).keys() == {"seq"}
        assert (await next_of(client, seq))["lost"] == ["t"]
        assert (await breaker.ask("token_show", token="t"))["holders"] == []
        await client.ask("token_release", session=session, token="t")  # it has stopped what it did under the token
        other = await opened(breaker)
        assert "epoch" in await breaker.ask("token_acquire", session=other, token="t", wait=50.0)


async def test_session_that_is_not_kept_ends_and_frees_its_tokens(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client:
        lost = str((await client.ask("token_open"))["session"])
        await client.ask("token_acquire", session=lost, token="t")
        session = await opened(client)
        assert "epoch" in await client.ask("token_acquire", session=session, token="t", wait=50.0)
        assert (await client.ask("token_keep", session=lost, version=0, held=[]))["code"] == "session_expired"


async def test_too_many_requests_about_tokens_are_refused(autojump_clock: MockClock) -> None:
    async with token_node(limits=Limits(open_requests=2)) as node, node.client() as client:
        sessions = [await opened(client) for _ in range(4)]
        await client.ask("token_acquire", session=sessions[0], token="t")
        for session in sessions[1:]:
            await client.stream.send_all(client.frame("token_acquire", session=session, token="t", wait=100.0))
        assert (await next_of(client, client.seq))["code"] == "busy"


async def test_state_shows_the_servers(autojump_clock: MockClock) -> None:
    async with token_node() as node, node.client() as client:
        await opened(client)
        found = (await client.ask("get_state"))["tokens"]
        assert (found["servers"], found["leader"], found["sessions"]) == (["a"], "a", 1)
        assert found["states"] == {"a": "ready"}
        assert (await client.ask("get_state"))["settings"]["tokens.servers"] == "a"
