"""Consensus and serving of tokens together, under all faults (docs/tokens).

Knows: what must be true of what clients believe, whatever happens, and of what they get once all is well.  Does not
know how tokens are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from distkv.model.event import NodeName
from tests.profiles import seeds
from tests.property.holding_client import HoldingClient
from tests.property.token_clients import LEASE_MS, LOCK_DELAY_MS, TTL_MS, Client
from tests.property.token_watcher import NUMBER, Watcher
from tests.property.token_whole import NAMES, Host, WholeFleet

BOUND_MS = 3 * LEASE_MS + TTL_MS + LOCK_DELAY_MS
"""Within so long every wanted token is granted, once all is well (issue of the tokens)."""


def act(client: Client, rng: Random) -> None:
    token = rng.choice(NAMES)
    match rng.choice(("exclusive", "exclusive", "exclusive", "shared", "try", "rare", "release")):
        case "exclusive":
            client.acquire(token, wait_s=rng.choice((0.5, 2.0, 5.0)))
        case "shared":
            client.acquire(token, shared=True)
        case "try":
            client.acquire(token, wait_s=None)
        case "release" if client.held:
            client.release(rng.choice(sorted(client.held)))
        case "rare":
            act_rarely(client, rng, token)
        case _:
            pass


def act_rarely(client: Client, rng: Random, token: str) -> None:
    match rng.choice(("close", "die", "break", "break", "pause", "none", "none", "none")):
        case "close" if client.lives:
            client.close()
        case "die" if rng.random() < 0.3:
            client.is_dead = True
        case "break":
            client.break_(token)
        case "pause":
            client.pause(rng.choice((300, 1500, 4000)))
        case _:
            pass


def live(client: Client, rng: Random) -> None:
    """A client does something now and then, until it is told to stop."""
    if not client.is_idle:
        client.do(lambda: act(client, rng))
        client.fleet.later(rng.randrange(50, 800), lambda: live(client, rng))


def disturb(fleet: WholeFleet, rng: Random) -> None:
    site = fleet.sites[rng.choice(list(fleet.sites))]
    other = fleet.sites[rng.choice(list(fleet.sites))]
    match rng.choice(("kill", "kill", "kill", "reboot", "wipe", "all", "pause", "cut", "half", "alone", "heal", "loss",
                      "calm")):
        case "kill":
            kill(fleet, rng, [site])
        case "reboot":
            kill(fleet, rng, [site], reboots=True)
        case "wipe" if may_wipe(fleet, site):
            site.wipe()
            fleet.later(rng.choice((50, 1500, 4000)), lambda: start_again(site))
        case "all" if rng.random() < 0.5:
            kill(fleet, rng, list(fleet.sites.values()))
        case "pause":
            site.pause()
            fleet.later(rng.choice((200, 900, 2500, 5000)), site.resume)
        case "cut":
            fleet.cut.update({(site.name, other.name), (other.name, site.name)})
        case "half":
            fleet.cut.add((site.name, other.name))
        case "alone":
            fleet.cut.update(pair for name in fleet.sites for pair in ((site.name, name), (name, site.name)))
        case "heal":
            fleet.cut.clear()
        case "loss":
            fleet.loss, fleet.double, fleet.slow = rng.choice((0.05, 0.3)), 0.1, rng.choice((0.0, 0.2))
            fleet.slow_disk = rng.choice((0.0, 0.2))
        case "calm":
            fleet.loss = fleet.double = fleet.slow = fleet.slow_disk = 0.0
        case _:
            pass


def may_wipe(fleet: WholeFleet, site: Host) -> bool:
    """Whether a majority of the disks that count is left; during a change nobody knows which ones do."""
    if not fleet.changes and site.name not in fleet.servers:
        return True
    state = fleet.state()
    return state is not None and len(state.list) > 1 and fleet.is_ready()


def kill(fleet: WholeFleet, rng: Random, sites: list[Host], *, reboots: bool = False) -> None:
    for site in sites:
        if site.machine is not None:
            site.stop(reboots=reboots)
            fleet.later(rng.choice((50, 400, 1500, 4000)), lambda site=site: start_again(site))  # type: ignore[misc]


def start_again(site: Host) -> None:
    if site.machine is None:
        site.start()


def play(seed: int, kind: type[Client] = Client) -> WholeFleet:
    """One play; its first faults may come before the servers were founded."""
    rng = Random(seed)
    fleet = WholeFleet(seed, servers=rng.choice((1, 3, 3, 5)), others=rng.randrange(3), kind=kind)
    if rng.random() < 0.8:
        fleet.settle(10 * LEASE_MS)
    clients = [fleet.client(number) for number in range(1, rng.randrange(3, 8))]
    for client in clients:
        client.open()
        live(client, Random(rng.random()))
    fleet.run(rng.choice((100, 2000, 4000)))
    for _ in range(rng.randrange(4, 16)):
        disturb(fleet, rng)
        fleet.run(rng.choice((100, 500, 2000)))
    fleet.end_faults()
    check_all_is_granted(fleet, clients)
    return fleet


def play_changes(seed: int) -> WholeFleet:
    """The list of servers is changed again and again, while clients work and hosts fail."""
    rng = Random(seed)
    fleet = WholeFleet(seed, servers=rng.choice((1, 3, 3)), others=rng.randrange(2, 5))
    fleet.settle(10 * LEASE_MS)
    clients = [fleet.client(number) for number in range(1, rng.randrange(3, 8))]
    for client in clients:
        client.open()
        live(client, Random(rng.random()))
    fleet.run(rng.choice((100, 2000)))
    wanted = fleet.servers
    for _ in range(rng.randrange(6, 20)):
        if rng.random() < 0.5:
            sizes = [size for size in (1, 3, 5) if size <= len(fleet.sites)]
            wanted = tuple(rng.sample(list(fleet.sites), rng.choice(sizes))) if rng.random() < 0.6 else wanted
            fleet.change(wanted, rng.choice((None, 2.0)))
        else:
            disturb(fleet, rng)
        fleet.run(rng.choice((100, 500, 2000, 4000)))
    fleet.end_faults()
    check_change_is_done(fleet, fleet.servers)
    check_all_is_granted(fleet, clients)
    return fleet


def check_change_is_done(fleet: WholeFleet, wanted: Sequence[NodeName]) -> None:
    """All is well: whatever was under way, this list comes into force when it is asked for."""
    began, count = fleet.now, 0
    while (state := fleet.state()) is None or state.list != tuple(sorted(wanted)) or not fleet.is_ready():
        assert fleet.now < began + 4 * BOUND_MS, f"the list is not {wanted}: {fleet.describe()}"
        if count % 20 == 0:
            fleet.change(wanted)
        count += 1
        fleet.run(LEASE_MS / 10)


def check_all_is_granted(fleet: WholeFleet, clients: list[Client]) -> float:
    """All is well; how long a client waits that wants everything."""
    for client in clients:
        client.retire()
    last, began = fleet.client(99), fleet.now
    last.hold_ms = (10, 20)
    last.insist(NAMES)
    while last.missing:
        assert fleet.now < began + BOUND_MS, f"{sorted(last.missing)} not granted: {fleet.describe()}"
        fleet.run(LEASE_MS / 20)
    return fleet.now - began


@pytest.mark.parametrize("seed", seeds(24))
def test_faults_let_no_two_hold_and_all_is_granted_in_the_end(seed: int) -> None:
    fleet = play(seed)
    assert fleet.believed.grants > 3


@pytest.mark.parametrize("seed", seeds(8))
def test_faults_let_no_two_hold_and_all_is_granted_in_the_end_to_the_real_half_of_clients(seed: int) -> None:
    fleet = play(seed, HoldingClient)
    assert fleet.believed.grants > 3


@pytest.mark.parametrize("seed", seeds(8))
def test_watchers_know_in_the_end_who_holds_what(seed: int) -> None:
    rng = Random(seed)
    fleet = WholeFleet(seed, servers=rng.choice((1, 3, 3, 5)), others=rng.randrange(3))
    watchers = [Watcher(fleet, {**fleet.sites}, NUMBER + at) for at in range(2)]
    clients = [fleet.client(number) for number in range(1, 5)]
    for client in clients:
        client.open()
        live(client, Random(rng.random()))
    for _ in range(12):
        disturb(fleet, rng)
        if rng.random() < 0.2:
            rng.choice(watchers).move()
        fleet.run(rng.choice((100, 500, 2000)))
    fleet.end_faults()
    for client in clients:
        client.is_idle, client.hold_ms = True, (10**6, 10**6 + 1)  # what they are granted from now on they keep
    fleet.run(BOUND_MS + TTL_MS)
    assert [watcher.seen for watcher in watchers] == [fleet.held()] * 2


@pytest.mark.parametrize("seed", seeds(24))
def test_changes_of_the_servers_under_faults_let_no_two_hold_and_all_is_granted_in_the_end(seed: int) -> None:
    """(docs/protocol, QUORUM-14)"""
    fleet = play_changes(seed)
    assert fleet.believed.grants > 3


def queue_up(client: Client, rng: Random) -> None:
    """A client wants one token over and over, and goes on waiting with its ticket, until it is told to stop."""
    if not client.is_idle:
        if not client.held.keys() | client.wanted.keys():
            client.do(lambda: client.acquire("a", wait_s=rng.choice((0.2, 0.5, 2.0))))
        client.fleet.later(rng.randrange(200, 1500), lambda: queue_up(client, rng))


@pytest.mark.parametrize("seed", seeds(8))
def test_nobody_passes_who_keeps_his_place_under_faults(seed: int) -> None:
    rng = Random(seed)
    fleet = WholeFleet(seed, servers=rng.choice((1, 3, 3, 5)), others=rng.randrange(3))
    fleet.settle(10 * LEASE_MS)
    for number in range(1, 8):
        client = fleet.client(number)
        client.hold_ms = (50, 300)
        client.open()
        queue_up(client, Random(rng.random()))
    fleet.run(3000)
    for _ in range(12):
        disturb(fleet, rng)
        if rng.random() < 0.4:
            fleet.cut.clear()
        fleet.run(rng.choice((500, 1500, 3000)))
    assert fleet.turns.compared > 3


@pytest.mark.parametrize("seed", seeds(3))
def test_who_waits_is_served_in_the_order_of_asking(seed: int) -> None:
    fleet = WholeFleet(seed)
    fleet.settle(10 * LEASE_MS)
    clients = [fleet.client(number) for number in range(1, 7)]
    for client in clients:
        client.hold_ms = (100, 300)
        client.open()
    fleet.run(LEASE_MS)
    for client in clients:
        client.acquire("a", wait_s=10)
        fleet.run(60)
    fleet.run(3 * TTL_MS)
    served = sorted(clients, key=lambda client: client.obtained[0][1])
    assert [client.number for client in served] == [1, 2, 3, 4, 5, 6]
