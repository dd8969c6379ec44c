"""Accounts on whole nodes: a name is registered once, and its secret logs in everywhere.

Knows: nodes in memory with tokens and accounts.  Does not know how an account is kept.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from distkv.config import TreeConfig
from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.requests import ACCOUNTS, AccountAsked, Check, Register, Registered, SecretChecked
from distkv.core.accounts.settings import AccountSettings
from distkv.core.ground.machine import ServiceMachine
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.errors import DistkvError
from distkv.model.event import NodeName
from tests.node.nodes import Node, World, new_world, solo_node
from tests.node.test_tokens import LEASE_S

pytestmark = pytest.mark.trio


def machines(name: str, *servers: str) -> dict[str, ServiceMachine]:
    """Those of one start of a node."""
    settings = TokenSettings(tuple(map(NodeName, servers)))
    found: dict[str, ServiceMachine] = {ACCOUNTS: AccountMachine(AccountSettings(cost=1), random.Random(name))}
    return {**found, TOKENS: TokenMachine(settings, random.Random(name))} if servers else found


async def asked(node: Node, request: AccountAsked) -> object:
    """What the service of a node answers; of an error the code."""
    found = list[object]()
    event = trio.Event()

    def answered(result: object) -> None:
        found.append(result.code if isinstance(result, DistkvError) else type(result))
        event.set()

    node.driver.services.ask(ACCOUNTS, request, answered)
    with trio.fail_after(60):
        await event.wait()
    return found[0]


@asynccontextmanager
async def three(names: str = "abc") -> AsyncIterator[World]:
    """Nodes that grant tokens by now; a, b and c serve them."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in names:
            await world.start(name, init=1 if name == "a" else None, services=machines(name, *"abc"), tree=TreeConfig())
            await world.ready(name)
        await world.converged(*names)
        await trio.sleep(4 * LEASE_S)
        yield world
        nursery.cancel_scope.cancel()


async def test_name_is_registered_and_its_secret_logs_in_on_a_lone_node(autojump_clock: MockClock) -> None:
    async with solo_node(services=machines("a", "a")) as node:
        await trio.sleep(2 * LEASE_S)
        assert await asked(node, Register(0, "ann", b"one")) is Registered
        assert await asked(node, Check(0, "ann", b"one")) is SecretChecked
        assert await asked(node, Check(0, "ann", b"two")) == "wrong_secret"
        assert await asked(node, Check(0, "bob", b"one")) == "wrong_secret"
        assert await asked(node, Register(0, "ann", b"two")) == "name_taken"


async def test_nobody_registers_without_token_servers(autojump_clock: MockClock) -> None:
    async with solo_node(services=machines("a")) as node:
        assert await asked(node, Register(0, "ann", b"one")) == "no_majority"


async def test_secret_logs_in_at_each_node_at_once(autojump_clock: MockClock) -> None:
    async with three() as world:
        assert await asked(world.nodes["a"], Register(0, "ann", b"one")) is Registered
        assert [await asked(world.nodes[name], Check(0, "ann", b"one")) for name in "abc"] == [SecretChecked] * 3
        assert [await asked(world.nodes[name], Check(0, "ann", b"two")) for name in "abc"] == ["wrong_secret"] * 3


async def test_of_three_who_register_one_name_at_once_one_succeeds(autojump_clock: MockClock) -> None:
    async with three() as world:
        results = dict[str, object]()

        async def register(name: str) -> None:
            results[name] = await asked(world.nodes[name], Register(0, "ann", name.encode()))

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(register, name)
        (owner,) = [name for name, result in results.items() if result is Registered]
        for secret in "abc":
            for node in world.nodes.values():
                expected = SecretChecked if secret == owner else "wrong_secret"
                assert await asked(node, Check(0, "ann", secret.encode())) == expected


async def test_smaller_side_of_a_split_registers_nobody_and_logs_in_whom_it_knows(autojump_clock: MockClock) -> None:
    """ACCOUNT-7."""
    async with three("abcde") as world:
        assert await asked(world.nodes["a"], Register(0, "ann", b"one")) is Registered
        await world.converged(*"abcde")
        world.network.partition([*map(NodeName, "abd")], [*map(NodeName, "ce")])
        await trio.sleep(6 * LEASE_S)
        assert await asked(world.nodes["e"], Register(0, "bob", b"one")) == "no_majority"
        assert await asked(world.nodes["d"], Register(0, "bob", b"two")) is Registered
        assert await asked(world.nodes["e"], Check(0, "ann", b"one")) is SecretChecked
        assert await asked(world.nodes["e"], Check(0, "bob", b"two")) == "no_majority"
        world.network.heal()
        await world.converged(*"abcde")
        assert await asked(world.nodes["e"], Check(0, "bob", b"two")) is SecretChecked


async def test_no_client_reads_an_account_or_gets_a_token_of_services(autojump_clock: MockClock) -> None:
    """ACCOUNT-1, ACCOUNT-2."""
    async with solo_node(services=machines("a", "a")) as node, node.client() as client:
        await trio.sleep(2 * LEASE_S)
        assert await asked(node, Register(0, "ann", b"one")) is Registered
        assert (await client.ask("get_value", path=[None, "service", "accounts", "ann"]))["code"] == "forbidden"
        assert (await client.ask("token_show", token=":user ann"))["code"] == "forbidden"
        assert (await client.ask("account_list"))["names"] == ["ann"]
        assert "code" not in await client.ask("account_remove", name="ann")
        assert (await client.ask("account_list"))["names"] == []
