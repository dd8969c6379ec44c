"""Stock Serf agents on loopback with a server beside each: what the tests of a whole network share.

Knows: how to start a network, to know that its nodes agree, to write at full speed, and to watch the agents' queues.
Does not know what a test does to it.  Everything here blocks.

Invariant: when `open_cluster` is left, every process it started is dead, by its pid, however the test ended; a server
that printed a traceback fails the test that left it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import attrs
import trio

from distkv.errors import TransportError
from tests.process.agents import Agent, Agents, wait_all_members
from tests.process.servers import PAUSE_S, Server, Servers, wait_until

NAMES = ("a", "b", "c")
CLOCK_S = 1.0
"""A short one, for tests of which the default clock is not the point."""
DEFAULT_CLOCK_S = 5.0
UNFORESEEN = ("Traceback", "internal error", "fault_contained", "service_failed")
"""What a server writes that met something it did not expect."""
QUEUE_MAX = 128
"""From this backlog of events on Serf warns."""

Found = TypeVar("Found")


@attrs.define
class Cluster:
    """Servers by name, each beside the agent of the same name."""

    agents: Agents
    servers: Servers
    clock_s: float
    links: str = ""
    """Settings of the section, as in a file."""
    extra: str = ""
    """More sections, as in a file."""
    _by_name: dict[str, Agent] = attrs.field(factory=dict)

    # -- its parts

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def agent(self, name: str) -> Agent:
        return self._by_name[name]

    def others(self, name: str) -> list[Server]:
        return [server for server in self if server.name != name]

    def add(self, name: str) -> Server:
        """An agent that all the others see, and a server beside it that is not started yet."""
        (server,) = self.add_all([name])
        return server

    def add_all(self, names: Sequence[str], config: Mapping[str, object] | None = None) -> list[Server]:
        """The same of several, at once. `config` goes into the agents' configuration files."""
        started = trio.run(partial(self.agents.start_all, names, join=list(self._by_name.values()), config=config))
        servers = [self.add_beside(agent) for agent in started]
        trio.run(wait_all_members, list(self._by_name.values()))
        return servers

    def add_beside(self, agent: Agent) -> Server:
        """A server of the agent's name beside it, not started yet."""
        self._by_name[agent.name] = agent
        server = self.servers.add(agent.name)
        file = server.directory / "config.yaml"
        serf, links = f"{{port: {agent.rpc_port}}}", f"{{{self.links}}}"
        section = f"links: {links}\n" if self.links else ""  # older servers do not know it
        file.write_text(f"ping: {{clock: {self.clock_s}}}\nserf: {serf}\n{section}{self.extra}")
        server.environment = {**server.environment, "DISTKV_CONFIG": str(file)}
        return server

    def start(self, *names: str) -> None:
        """Start again what was killed, all at once, and wait until all are ready."""
        for name in names:
            self[name].start()
        for name in names:
            self[name].wait_ready()

    # -- knowing what it does

    def wait(
        self, condition: Callable[[], Found], what: str, deadline_s: float, *, pause_s: float = PAUSE_S
    ) -> Found:
        """As `wait_until`; a failure shows the states and the logs of all."""
        return wait_until(condition, what, deadline_s, self.dump, pause_s=pause_s)

    def wait_state(self, name: str, state: str, deadline_s: float) -> None:
        self.wait(lambda: self[name].state()["state"] == state, f"{name} says that it is {state}", deadline_s)

    def wait_equal(self, deadline_s: float, names: Iterable[str] | None = None) -> None:
        """Until these, or all, hold the same: equal digests and ranges, and nothing is missing that is not given up."""
        servers = list(self) if names is None else [self[name] for name in names]

        def are_equal() -> bool:
            states = [server.state() for server in servers]
            return all(
                state["digest"] == states[0]["digest"]
                and state["held"] == states[0]["held"]
                and state["missing"] == state["lost"]
                for state in states
            )

        self.wait(are_equal, f"{', '.join(server.name for server in servers)} hold the same", deadline_s)

    def dump(self) -> str:
        return self.servers.dump()

    def tracebacks(self) -> dict[str, str]:
        """The stderr of every server that met something it did not expect."""
        errors = {server.name: server.errors for server in self if (server.directory / "stderr").exists()}
        return {name: text for name, text in errors.items() if any(word in text for word in UNFORESEEN)}


@contextmanager
def open_cluster(
    directory: Path,
    names: Sequence[str] = NAMES,
    *,
    clock_s: float = CLOCK_S,
    installed: Path | None = None,
    links: str = "",
    extra: str = "",
    prepare: Mapping[str, Callable[[Server], object]] | None = None,
    may_fail: Sequence[str] = (),
) -> Iterator[Cluster]:
    """A network of ready nodes; the first of `names` founded it. `installed`: as in `Servers`. `links`: settings of
    the section, as in a file; with `follow: false` a node lacks what it cannot get from its agent in time. `extra`:
    more sections. `prepare`:
    what is done to some of the servers before they are started. `may_fail`: those whose failures are intended."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(Agents(directory / "agents"), Servers(directory / "servers", installed), clock_s, links, extra)
    cluster.agents.directory.mkdir()
    try:
        for server in cluster.add_all(names):
            if prepare is not None and server.name in prepare:
                prepare[server.name](server)
        cluster[names[0]].start("--init", "hello")
        cluster.start(*names[1:])  # they look for one that has data, until the first one has
        cluster[names[0]].wait_ready()
        yield cluster
    finally:
        for server in cluster:
            server.kill()
        cluster.agents.kill_all()
    assert not cluster.tracebacks().keys() - set(may_fail)


# -- the agents' queues -------------------------------------------------------------------------------------------


class QueueWatch:
    """Asks agents for their `event_queue` all the time, in a thread of its own, while it is entered."""

    def __init__(self, cluster: Cluster) -> None:
        self.longest = 0
        self.samples = 0
        self._agents = [cluster.agent(server.name) for server in cluster]
        self._failure = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert not self._failure
        assert self.samples >= 3 * len(self._agents), "too few to tell anything"

    def _run(self) -> None:
        try:
            trio.run(self._watch)
        except TransportError as error:
            self._failure = str(error)

    async def _watch(self) -> None:
        async with trio.open_nursery() as nursery:
            for agent in self._agents:
                nursery.start_soon(self._watch_one, agent)

    async def _watch_one(self, agent: Agent) -> None:
        async with agent.open_rpc() as rpc:
            while not self._is_over.is_set():  # set by another thread
                stats = await rpc.stats()
                self.longest = max(self.longest, int(stats["serf"]["event_queue"]))
                self.samples += 1
                await trio.sleep(0.05)
