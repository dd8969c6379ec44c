"""Token services of whole fleets under faults (docs/tokens).

Knows: what must be true of what clients believe, whatever happens, and of what they get once all is well.  Does not
know how tokens are served.
"""

from __future__ import annotations

from random import Random

import pytest

from distkv.model.standing import ServerStanding
from tests.profiles import seeds
from tests.property.token_clients import LEASE_MS, TTL_MS, Client, calm_ms
from tests.property.token_fleet import Site, TokenFleet

TOKENS = ("a", "b", "c", "d", "e")


def act(client: Client, rng: Random) -> None:
    token = rng.choice(TOKENS)
    match rng.choice(("exclusive", "exclusive", "exclusive", "shared", "try", "close", "die", "break", "release")):
        case "exclusive":
            client.acquire(token, wait_s=rng.choice((0.5, 2.0, 5.0)))
        case "shared":
            client.acquire(token, shared=True)
        case "try":
            client.acquire(token, wait_s=None)
        case "release" if client.held:
            client.release(rng.choice(sorted(client.held)))
        case "close" if rng.random() < 0.1 and client.lives:
            client.close()
        case "die" if rng.random() < 0.05:
            client.is_dead = True
        case "break" if rng.random() < 0.2:
            client.break_(token)
        case _:
            pass


def live(client: Client, rng: Random) -> None:
    """A client does something now and then, until it is told to stop."""
    if not client.is_idle:
        act(client, rng)
        client.fleet.later(rng.randrange(50, 800), lambda: live(client, rng))


def disturb(fleet: TokenFleet, rng: Random) -> None:
    site = fleet.sites[rng.choice(list(fleet.sites))]
    match rng.choice(("kill", "kill", "pause", "cut", "heal", "resume", "start", "loss", "calm")):
        case "kill" if site.service is not None:
            site.stop()
            fleet.later(rng.choice((50, 400, 1500, 4000)), lambda: start_again(site))
        case "pause" if site.service is not None and site.paused is None:
            site.paused = []
            fleet.later(rng.choice((200, 900, 2500, 5000)), lambda: resume(fleet, site.name))
        case "cut":
            fleet.cut_off.add(site.name)
        case "heal":
            fleet.cut_off.clear()
        case "loss":
            fleet.loss, fleet.double, fleet.slow = rng.choice((0.05, 0.3)), 0.1, rng.choice((0.0, 0.2))
        case "calm":
            fleet.loss = fleet.double = fleet.slow = 0.0
        case _:
            pass


def start_again(site: Site) -> None:
    if site.service is None:
        site.start()


def resume(fleet: TokenFleet, name: object) -> None:
    for site in fleet.sites.values():
        if site.name == name and site.paused is not None:
            late, site.paused = site.paused, None
            for what in late:
                what()


def play(seed: int) -> TokenFleet:
    rng = Random(seed)
    fleet = TokenFleet(seed, servers=rng.choice((1, 3, 3, 5)), others=rng.randrange(3))
    fleet.run(500)
    clients = [fleet.client(number) for number in range(1, rng.randrange(3, 8))]
    for client in clients:
        client.open()
    fleet.run(2500)
    for client in clients:
        live(client, Random(rng.random()))
    for _ in range(rng.randrange(4, 16)):
        disturb(fleet, rng)
        fleet.run(rng.choice((100, 500, 2000)))
    end_faults(fleet)
    check_all_is_granted(fleet, clients)
    return fleet


def end_faults(fleet: TokenFleet) -> None:
    fleet.cut_off.clear()
    fleet.loss = fleet.double = fleet.slow = 0.0
    for name in list(fleet.sites):
        resume(fleet, name)
    for site in fleet.sites.values():
        if site.service is None:
            site.start()


def check_all_is_granted(fleet: TokenFleet, clients: list[Client]) -> None:
    for client in clients:
        client.is_idle = True
    # A session of a client that has lost an answer may hold what the client does not know of, until it is over.
    fleet.run(2 * calm_ms())
    last = fleet.client(99)
    last.open()
    fleet.run(2000)
    for token in TOKENS:
        last.acquire(token, wait_s=calm_ms() / 1000)
    last.hold_ms = (10, 20)
    fleet.run(calm_ms())
    assert {token for token, _ in last.obtained} == set(TOKENS), show(fleet)
    servers = fleet.oracle.state.servers if fleet.oracle.state is not None else {}
    assert all(server.standing is ServerStanding.READY for server in servers.values()), servers


def show(fleet: TokenFleet) -> str:
    return f"at {fleet.now:.0f}: {fleet.oracle.state}, {fleet.notes}"


@pytest.mark.parametrize("seed", seeds(8, [382]))
def test_faults_let_no_two_hold_and_all_is_granted_in_the_end(seed: int) -> None:
    fleet = play(seed)
    assert fleet.believed.grants > 3


def test_fleet_at_rest_hands_a_token_round() -> None:
    fleet = TokenFleet(7)
    fleet.run(500)
    clients = [fleet.client(number) for number in range(1, 4)]
    for client in clients:
        client.hold_ms = (10, 20)
        client.open()
    fleet.run(LEASE_MS)
    for client in clients:
        client.acquire("a", wait_s=5)
    fleet.run(TTL_MS)
    assert sorted(len(client.obtained) for client in clients) == [1, 1, 1]
