"""Faults of all kinds upon three real nodes that are written to and watched, and what must hold after them.

    python -m tests.process.hunt --seconds 600 --seed 1

Knows: who takes part, in which order all begins and ends, and what is looked at in the end.  Does not know what the
faults are (`faults`), nor how writes and watchers are judged (`promises`, `tellings`).

Invariant: when `hunt` returns or raises, every process that it started is dead, by its pid.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path as Directory
from typing import Final

import attrs

from distkv.client.conflicts import Loser
from distkv.model.event import Event, Kind, Link, Tock, tick_text
from distkv.model.path import ROOT, Path
from tests.process.agents import Agents
from tests.process.cluster import CLOCK_S, NAMES, Cluster
from tests.process.disks import discard, read_disk
from tests.process.faults import Ended, Faults, Wipe
from tests.process.followers import Follower
from tests.process.load import Content, events_of
from tests.process.promises import Fate, Fire, Past, fates, life_story, not_as_written, not_durable, not_replicated
from tests.process.servers import Server, Servers, wait_until
from tests.process.tellings import missed
from tests.process.writers import Acknowledged, Writer, acknowledged

AGENTS: Final = {"user_event_size_limit": 1390, "reconnect_interval": "2s"}
"""What docs/serf.rst recommends: agents meet again within seconds."""
WRITERS_EACH: Final = 2
WELL_S: Final = 160.0
"""So long it may take on a slow machine until all is well again. Usual are some ten seconds."""
SHOWN_MAX: Final = 3


@attrs.frozen
class Found:
    """What a hunt brought."""

    writes: Sequence[Acknowledged]
    fates: Sequence[tuple[Acknowledged, Fate]]
    here: Mapping[Link, Event]
    past: Past
    missed: Mapping[str, Sequence[str]]
    """For each follower what it was told wrongly, or not at all."""
    conflicts: Mapping[str, Sequence[Link]]
    """For each node the open losers that it lists."""
    ended: Sequence[Ended]
    summary: str

    def lost(self) -> str:
        """The writes of which nothing is left; empty when there are none."""
        return self._told(write for write, fate in self.fates if fate is Fate.LOST)

    def closed_by_hearsay(self) -> str:
        """The writes that a surviving disk had, and of which only what burned knew (docs/protocol, KEEP-2)."""
        return self._told(write for write, fate in self.fates if fate is Fate.HEARSAY)

    def not_durable(self) -> str:
        return self._told(not_durable(self.past, self.writes))

    def not_as_written(self) -> str:
        return self._told(not_as_written(self.past, self.writes))

    def not_replicated(self) -> str:
        return self._told(not_replicated(self.past, self.writes))

    def faults(self) -> dict[str, str]:
        """All that did not hold, in words."""
        listed = set(map(tuple, self.conflicts.values()))
        told = {
            "lost": self.lost(),
            "closed by hearsay": self.closed_by_hearsay(),
            "not on the disk of who acknowledged it": self.not_durable(),
            "not as written": self.not_as_written(),
            "not on two nodes, as acknowledged": self.not_replicated(),
            "missed by watchers": "\n".join(f"{name}: {fault}" for name, some in self.missed.items() for fault in some),
            "conflicts listed otherwise": "" if len(listed) == 1 else str(self.conflicts),
            "ended by themselves": "\n".join(str(one) for one in self.ended if not one.is_allowed),
        }
        return {what: words for what, words in told.items() if words}

    def _told(self, writes: Iterator[Acknowledged] | Sequence[Acknowledged]) -> str:
        found = list(writes)
        if not found:
            return ""
        stories = [life_story(self.past, write, self.here) for write in found[:SHOWN_MAX]]
        names = ", ".join(tick_text(*write.link) for write in found[:50])
        return f"{len(found)} writes: {names}\n" + "\n".join(stories)


def hunt(directory: Directory, seconds: float, seed: str) -> Found:
    """Three nodes, six writers, three followers, and faults for so many seconds; then none, until all are equal.

    Raises:
        TimeoutError: they do not become equal.
        AssertionError: a server met something that it did not expect, or two hold something else.
    """
    with open_hunted(directory) as cluster:
        faults = Faults(cluster, directory / "images", seed)
        followers = [Follower(server, seed) for server in cluster]
        writers = [Writer(server, number, seed) for server in cluster for number in range(WRITERS_EACH)]
        with ExitStack() as stack:
            for follower in followers:
                stack.enter_context(follower)
            stack.callback(_end_all, cluster)
            with ExitStack() as writing:
                for writer in writers:
                    writing.enter_context(writer)
                faults.run(seconds)
                faults.end_all()
                until = time.monotonic() + WELL_S
                served = partial(_are_served, faults, writers)
                cluster.wait(served, "all writers were served, and nobody is down", until - time.monotonic())
            differences = _wait_well(cluster, followers, until)
            here = [_present(server) for server in cluster]
            conflicts = {server.name: [loser.link for loser in _conflicts(server)] for server in cluster}
            states = {server.name: server.state() for server in cluster}
            _stop_all(cluster)
        assert not cluster.tracebacks()
        disks = [read_disk(server.name, server.data_dir) for server in cluster]
    _check_alike(here)
    past = Past(list(map(_fire, faults.wipes)), disks, acknowledged(writers))
    found = list(fates(past, acknowledged(writers), here[0].values()))
    told = {
        one.name: missed(one.told, [disk for disk in past.disks if disk.name == one.name]) + differences[one.name]
        for one in followers
    }
    summary = _summary(faults, writers, followers, found, past, states)
    result = Found(acknowledged(writers), found, here[0], past, told, conflicts, faults.ended, summary)
    if not result.faults():
        discard(directory / "images")
    return result


@contextmanager
def open_hunted(directory: Directory) -> Iterator[Cluster]:
    """Three ready nodes beside agents that find each other again, however often they start anew."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(Agents(directory / "agents"), Servers(directory / "servers"), CLOCK_S)
    cluster.agents.directory.mkdir()
    try:
        cluster.add_all(NAMES, AGENTS)
        for name in NAMES:
            others = [cluster.agent(other).address for other in NAMES if other != name]
            again = ("-retry-interval=1s", *(f"-retry-join={address}" for address in others))
            cluster.agent(name).options = (*cluster.agent(name).options, *again)
        cluster[NAMES[0]].start("--init", "hello")
        cluster.start(*NAMES[1:])
        cluster[NAMES[0]].wait_ready()
        yield cluster
    finally:
        _end_all(cluster)


# -- the end of it ------------------------------------------------------------------------------------------------


def _are_served(faults: Faults, writers: Sequence[Writer]) -> bool:
    return faults.watch_over() and all(writer.acknowledged for writer in writers)


def _wait_well(cluster: Cluster, followers: Sequence[Follower], until: float) -> dict[str, list[str]]:
    """Until all nodes are equal and each follower's picture is that of its node; of a follower else what differs.

    Args:
        cluster: nobody writes to it any more, and nothing is done to it.
        followers: its watchers.
        until: by the monotonic clock.

    Raises:
        TimeoutError: the nodes do not become ready, or equal.
    """
    cluster.wait(lambda: all(map(_is_ready, cluster)), "all are ready", until - time.monotonic())
    cluster.wait_equal(until - time.monotonic())
    differences: dict[str, list[str]] = {}
    for follower in followers:
        server = cluster[follower.name]
        with suppress(TimeoutError):
            wait_until(lambda f=follower, s=server: not _differences(f, s), "all told", until - time.monotonic())  # type: ignore[misc]
        differences[follower.name] = _differences(follower, server)
    return differences


def _differences(follower: Follower, server: Server) -> list[str]:
    """Where a follower's picture is not what its node has."""
    with server.client() as client:
        values = {path: entry.chain[0] for path, entry in client.get_tree(ROOT)}
        losers: dict[Path, tuple[Link, ...]] = {}
        for loser in client.conflicts():
            losers[loser.path] = (*losers.get(loser.path, ()), loser.link)
    return _apart("value", values, dict(follower.known)) + _apart("losers", losers, dict(follower.contested))


def _apart(what: str, there: Mapping[Path, object], told: Mapping[Path, object]) -> list[str]:
    return [
        f"in the end: {what} of {path}: there is {there.get(path)}, told was {told.get(path)}"
        for path in {**there, **told}
        if there.get(path) != told.get(path)
    ]


def _check_alike(here: Sequence[Mapping[Link, Event]]) -> None:
    """Winners and open losers, tick by tick with their contents."""
    contents = [{link: (event.path, event.kind, event.value) for link, event in some.items()} for some in here]
    assert all(other == contents[0] for other in contents), "winners and open losers differ"


def _is_ready(server: Server) -> bool:
    return server.is_running and server.state()["state"] == "ready"


def _present(server: Server) -> dict[Link, Event]:
    """Winners and open losers. Their tocks and chains are in the histories."""
    found: dict[Link, Content] = events_of(server)
    return {link: Event(path, Kind(kind), value, (link,), Tock(0), 0.0) for link, (path, kind, value) in found.items()}


def _conflicts(server: Server) -> tuple[Loser, ...]:
    with server.client() as client:
        return client.conflicts()


def _stop_all(cluster: Cluster) -> None:
    codes = {server.name: server.terminate() for server in cluster}
    assert not any(codes.values()), f"asked to end, they ended with {codes}"


def _end_all(cluster: Cluster) -> None:
    for server in cluster:
        server.kill()
    cluster.agents.kill_all()


# -- what came of it ----------------------------------------------------------------------------------------------


def _fire(wipe: Wipe) -> Fire:
    left = [read_disk(name, place) for name, place in wipe.left.items()]
    return Fire(wipe.at, read_disk(wipe.node, wipe.burned), left)


def _summary(
    faults: Faults,
    writers: Sequence[Writer],
    followers: Sequence[Follower],
    found: Sequence[tuple[Acknowledged, Fate]],
    past: Past,
    states: Mapping[str, Mapping[str, object]],
) -> str:
    """All figures, for people."""
    became = Counter(fate.value for _, fate in found)
    refused = sum((Counter(writer.refused) for writer in writers), Counter[str]())
    resyncs = {one.name: sum(type(told).__name__ == "Resync" for told in one.told) for one in followers}
    names = [one.name for one in followers]
    counters = {name: state["counters"] for name, state in states.items()}
    noticed = {
        name: {key: value for key, value in counts.items() if key in ("digest_differs", "resynced", "rolled_back")}
        for name, counts in counters.items()
        if isinstance(counts, dict)
    }
    lines = {
        "faults": dict(faults.counts),
        "acknowledged": len(found),
        "acknowledged as on two nodes": sum(write.replicas > 1 for write, _ in found),
        "connections lost by writers": sum(writer.unanswered for writer in writers),
        "refused": dict(refused),
        "became": dict(became),
        "wiped disks, and how many changes burned with each": [
            (fire.burned.name, sum(number == place for number in past.gone_at.values()))
            for place, fire in enumerate(past.fires)
        ],
        "told to followers": dict(zip(names, (len(one.told) for one in followers), strict=True)),
        "resumed": dict(zip(names, (one.resumed for one in followers), strict=True)),
        "resyncs": resyncs,
        "cut off": dict(zip(names, (one.errors for one in followers), strict=True)),
        "noticed in the last start": noticed,
        "ended by themselves": [(one.node, one.code, one.is_allowed) for one in faults.ended],
    }
    return "\n".join(f"{what}: {figure}" for what, figure in lines.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """By hand: 0 when all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.process.hunt")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long there are faults")
    parser.add_argument("--seed", default="1", help="which faults there are")
    parser.add_argument("--directory", type=Directory, help="where all files go, and stay")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    directory = chosen.directory or Directory(tempfile.mkdtemp(prefix="hunt-"))
    found = hunt(directory, chosen.seconds, chosen.seed)
    faults = found.faults()
    sys.stdout.write(f"{found.summary}\n")
    for what, told in faults.items():
        sys.stdout.write(f"-- {what}:\n{told}\n")
    if faults:
        sys.stdout.write(f"seed {chosen.seed} failed: {', '.join(faults)}; logs and data: {directory}\n")
        sys.stdout.write(f"  again: python -m tests.process.hunt --seconds {chosen.seconds:g} --seed {chosen.seed}\n")
    elif chosen.directory:
        sys.stdout.write(f"logs and data: {directory}\n")
    else:
        discard(directory)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
