"""A client's half of tokens under faults: real servers, networks that lose, nodes that die and stand still.

Knows: what must be true of what clients believe, and what they get once all is well.  Does not know how the machine
finds out.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.profiles import seeds
from tests.property.holding_client import HoldingClient
from tests.property.test_token_serving import TOKENS, disturb, end_faults, live, show
from tests.property.token_clients import TTL_MS, calm_ms
from tests.property.token_fleet import TokenFleet


def new_clients(fleet: TokenFleet, count: int) -> list[HoldingClient]:
    return [HoldingClient(fleet, number, fleet.client(number).clock) for number in range(1, count + 1)]


def play(seed: int) -> tuple[TokenFleet, list[HoldingClient]]:
    rng = Random(seed)
    fleet = TokenFleet(seed, servers=rng.choice((1, 3, 3, 5)), others=rng.randrange(3))
    fleet.run(500)
    clients = new_clients(fleet, rng.randrange(2, 7))
    for client in clients:
        client.open()
    fleet.run(2500)
    for client in clients:
        live(client, Random(rng.random()))
    for _ in range(rng.randrange(4, 16)):
        disturb(fleet, rng)
        fleet.run(rng.choice((100, 500, 2000)))
    end_faults(fleet)
    return fleet, clients


@pytest.mark.parametrize("seed", seeds(6, [229]))
def test_faults_let_no_two_sessions_hold_and_all_is_granted_in_the_end(seed: int) -> None:
    fleet, clients = play(seed)
    for client in clients:
        client.is_idle = True
    fleet.run(2 * calm_ms())
    last = HoldingClient(fleet, 99, fleet.client(99).clock)
    last.open()
    fleet.run(2000)
    for token in TOKENS:
        last.acquire(token, wait_s=calm_ms() / 1000)
    fleet.run(calm_ms())
    assert {token for token, _ in last.obtained} == set(TOKENS), show(fleet)


def test_death_of_the_node_that_a_client_talks_to_costs_no_session() -> None:
    fleet = TokenFleet(5, servers=3, others=2)
    fleet.run(500)
    (client,) = new_clients(fleet, 1)
    client.open()
    fleet.run(2000)
    client.hold_ms = (100 * TTL_MS, 101 * TTL_MS)
    client.acquire("a")
    for _ in range(6):
        site = fleet.sites[client.at]
        site.stop()
        fleet.run(2 * TTL_MS)
        site.start()
        fleet.run(TTL_MS)
        assert client.lives
    assert (client.sessions, list(client.held)) == (1, ["a"])


def test_node_that_stands_still_costs_no_session() -> None:
    fleet = TokenFleet(6, servers=3, others=2)
    fleet.run(500)
    (client,) = new_clients(fleet, 1)
    client.open()
    fleet.run(2000)
    for _ in range(6):
        site = fleet.sites[client.at]
        site.paused = []
        fleet.run(2 * TTL_MS)
        end_faults(fleet)
        fleet.run(TTL_MS)
        assert client.lives
    assert client.sessions == 1
