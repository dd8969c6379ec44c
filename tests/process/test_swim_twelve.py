"""Twelve servers with a secret, and beside them twelve Serf agents that are treated alike: how soon the dead are known.

Knows: real servers and stock agents on loopback.  Does not know datagrams.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from distkv.errors import TransportError, UnreachableError
from tests.process.agents import Agent, Agents, wait_all_members
from tests.process.servers import PATIENCE, Server, wait_until
from tests.process.swim_fleet import Fleet, members, new_secret, open_fleet, transport

NAMES = tuple("abcdefghijkl")
KILLED, STOPPED = ("j", "k", "l"), "i"
OTHERS = NAMES[:8]
KNOWN_ALIVE_S = 20.0
KNOWN_DEAD_S = 10.0
BACK_S = 10.0
RESTARTED_S = 20.0
LEFT_S = 3.0
WRITE_S = 1.0
AT_REST_S = 10.0
BYTES_PER_S = 4096
ALIVE = dict.fromkeys(NAMES, "alive")
GONE = {**ALIVE, **dict.fromkeys((*KILLED, STOPPED), "dead")}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with open_fleet(tmp_path / "fleet", NAMES, secret=new_secret()) as found:
        yield found


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[dict[str, Agent]]:
    directory = tmp_path / "agents"
    directory.mkdir()
    made = Agents(directory)
    try:
        started = trio.run(partial(made.start_all, NAMES))
        trio.run(wait_all_members, started)
        yield {agent.name: agent for agent in started}
    finally:
        made.kill_all()


@pytest.mark.soak  # what is promised of three is promised of twelve
@pytest.mark.alone
def test_twelve_servers_know_the_dead_as_soon_as_agents_do_and_tell_nobody_else_dead(
    fleet: Fleet, agents: dict[str, Agent], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = {name: int(str(transport(fleet[name])["sent_bytes"])) for name in NAMES}
    began = time.monotonic()
    wait_until(lambda: time.monotonic() >= began + AT_REST_S, "some time at rest is over", AT_REST_S, pause_s=0.5)
    rest_s = time.monotonic() - began
    rates = {name: (int(str(transport(fleet[name])["sent_bytes"])) - sent[name]) / rest_s for name in NAMES}

    for name in KILLED:
        fleet[name].kill()
    fleet[STOPPED].send_signal(signal.SIGSTOP)
    ours = seen_after({name: lambda s=fleet[name]: members(s) == GONE for name in OTHERS})  # type: ignore[misc]
    told = {name: (transport(fleet[name])["told_dead"], transport(fleet[name])["told_suspect"]) for name in OTHERS}
    write_s = measured(lambda: write(fleet["a"]))
    fleet[STOPPED].send_signal(signal.SIGCONT)
    back = seen_after({name: lambda s=fleet[name]: members(s)[STOPPED] == "alive" for name in OTHERS})  # type: ignore[misc]
    told_after = {name: transport(fleet[name])["told_dead"] for name in OTHERS}
    for name in KILLED:
        fleet[name].start()
    restarted = seen_after({name: lambda s=fleet[name]: members(s) == ALIVE for name in NAMES})  # type: ignore[misc]
    fleet.wait_equal(30)
    terminated = time.monotonic()
    fleet["h"].send_signal(signal.SIGTERM)
    left = seen_after({name: lambda s=fleet[name]: members(s)["h"] == "left" for name in OTHERS[:7]})  # type: ignore[misc]
    fleet["h"].wait_end()

    for name in KILLED:
        agents[name].kill()
    agents[STOPPED].freeze()
    theirs = seen_after({name: partial(failed, agents[name]) for name in OTHERS})
    agents[STOPPED].thaw()

    with capsys.disabled():
        sys.stdout.write(
            f"\ntwelve servers: sent at rest {max(rates.values()):.0f} bytes/s at most; deaths known after"
            f" {first_and_last(ours)}, by agents after {first_and_last(theirs)}; write {write_s:.3f} s; back"
            f" {first_and_last(back)}; restarted {first_and_last(restarted)}; left {first_and_last(left)}"
            f" ({time.monotonic() - terminated:.1f}); told (dead, suspect) {told}\n"
        )
    assert {name: one for name, (one, _) in told.items()} == dict.fromkeys(OTHERS, 0)
    assert told_after == dict.fromkeys(OTHERS, 0), "the one that stood still has told nobody dead"
    assert max(rates.values()) <= BYTES_PER_S
    assert max(ours.values()) <= max(KNOWN_DEAD_S, max(theirs.values()))
    assert max(back.values()) <= BACK_S
    assert max(restarted.values()) <= RESTARTED_S * PATIENCE
    assert max(left.values()) <= LEFT_S
    assert write_s < WRITE_S


def seen_after(conditions: dict[str, Callable[[], bool]]) -> dict[str, float]:
    """After how many seconds each was so."""
    began, found = time.monotonic(), dict[str, float]()

    def are_all_seen() -> bool:
        for name, condition in conditions.items():
            with suppress(UnreachableError):  # one that starts
                if name not in found and condition():
                    found[name] = time.monotonic() - began
        return len(found) == len(conditions)

    wait_until(are_all_seen, "all have seen it", 20)
    return found


def first_and_last(found: dict[str, float]) -> str:
    return f"{min(found.values()):.1f} to {max(found.values()):.1f} s"


def measured(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def write(server: Server) -> None:
    with server.client() as client:
        client.set("written", 1)


def failed(agent: Agent) -> bool:
    """Whether it knows that those are gone, and the others are not."""

    async def ask() -> bool:
        try:
            async with agent.open_rpc() as rpc:
                return {member.name: member.status for member in await rpc.members()} == {
                    name: "failed" if name in (*KILLED, STOPPED) else "alive" for name in NAMES
                }
        except TransportError:
            return False

    return trio.run(ask)
