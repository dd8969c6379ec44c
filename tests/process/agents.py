"""Real Serf agents for tests: free loopback ports, a directory each, and none left behind.

Knows: how to start, freeze, stop and await agents.  Does not know what a test wants of them.

Invariant: when `open_agents` is left, every agent it started is dead, by its pid, however the test ended; should the
tests themselves be killed, the kernel kills the agents.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from distkv.errors import TransportError
from distkv.transport.serf_rpc import SerfRpc, connect
from tests.process.fork_server import die_with_parent
from tests.process.ports import free_port
from tests.process.servers import PATIENCE, wait_stopped

CALL_S = 120.0
"""So long an agent may take for an answer where others keep the machine busy."""
STARTS_MAX = 3
"""Between finding a port free and using it, somebody else may take it."""


@attrs.define
class Agent:
    """One agent. It keeps its ports and name when it is started again."""

    name: str
    port: int
    """Gossip."""
    rpc_port: int
    directory: Path
    options: tuple[str, ...]
    auth: str | None
    host: str = "127.0.0.1"
    """Where it gossips."""
    program: Sequence[str] = ("serf",)
    """What is typed for `serf`."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def launch(self) -> None:
        """Start the process; `wait_ready` waits until it serves."""
        command = [*self.program, "agent", f"-node={self.name}", f"-bind={self.address}", *self.options]
        command.append(f"-rpc-addr=127.0.0.1:{self.rpc_port}")
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def freeze(self) -> None:
        """It stands still when this returns."""
        self._running().send_signal(signal.SIGSTOP)
        wait_stopped(self._running())

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, frozen or not. Does nothing when it is not running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def has_ended(self) -> bool:
        return self._running().poll() is not None

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    async def wait_ready(self, deadline_s: float = 30.0) -> None:
        """Until it answers a call.

        Raises:
            TransportError: the process ended.
        """

        async def is_ready() -> bool:
            if self.has_ended():
                raise TransportError(f"agent {self.name} ended: {self.log()}")
            try:
                async with self.open_rpc() as rpc:
                    await rpc.stats()
            except TransportError:
                return False
            return True

        await wait_until(is_ready, f"agent {self.name} answers", deadline_s)

    @asynccontextmanager
    async def open_rpc(self, *, timeout_s: float = CALL_S) -> AsyncIterator[SerfRpc]:
        """A connection of our own client. What goes wrong in the body comes out as it is."""
        try:
            async with trio.open_nursery() as nursery:
                yield await connect(nursery, "127.0.0.1", self.rpc_port, auth=self.auth, timeout_s=timeout_s)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise TransportError(f"agent {self.name} is not running")
        return self.process


@attrs.define
class Agents:
    """The agents of one test."""

    directory: Path
    started: list[Agent] = attrs.field(factory=list)

    async def start(
        self,
        name: str,
        *,
        join: Sequence[Agent] = (),
        profile: str = "lan",
        options: Sequence[str] = (),
        config: Mapping[str, object] | None = None,
        auth: str | None = None,
    ) -> Agent:
        """Start an agent and wait until it answers. `config` goes into its configuration file."""
        directory = self.directory / name
        directory.mkdir()
        whole = dict(config or {}) | ({} if auth is None else {"rpc_auth": auth})
        (directory / "config.json").write_text(json.dumps(whole))
        extra = [f"-profile={profile}", f"-config-file={directory / 'config.json'}", *options]
        extra += [f"-join={other.address}" for other in join]
        for attempt in range(STARTS_MAX):
            agent = Agent(name, free_port(), free_port(), directory, tuple(extra), auth)
            self.started.append(agent)
            agent.launch()
            try:
                await agent.wait_ready()
            except TransportError:
                if attempt == STARTS_MAX - 1 or "address already in use" not in agent.log():
                    raise
                agent.kill()
            else:
                return agent
        raise AssertionError("not reached")

    async def start_all(
        self, names: Sequence[str], *, join: Sequence[Agent] = (), config: Mapping[str, object] | None = None
    ) -> list[Agent]:
        """Start agents at once, each of which joins the first there is; when there is none, the others wait for it."""
        found: dict[str, Agent] = {}

        async def start(name: str) -> None:
            first = [*join, *found.values()][:1]
            found[name] = await self.start(name, join=first, config=config)

        if not join:
            await start(names[0])
        async with trio.open_nursery() as nursery:
            for name in names:
                if name not in found:
                    nursery.start_soon(start, name)
        return [found[name] for name in names]

    def kill_all(self) -> None:
        for agent in self.started:
            agent.kill()


@asynccontextmanager
async def open_agents(directory: Path) -> AsyncIterator[Agents]:
    """Agents that end with the block; when it fails, the ends of their logs are printed."""
    agents = Agents(directory)
    try:
        yield agents
    except BaseException:
        for agent in agents.started:
            sys.stderr.write(f"--- log of agent {agent.name}\n{agent.log()[-4000:]}\n")
        raise
    finally:
        agents.kill_all()


async def wait_until(condition: Callable[[], Awaitable[bool]], what: str, deadline_s: float = 30.0) -> None:
    """Ask every 20 ms until it is so.

    Raises:
        AssertionError: it was not in `PATIENCE` times `deadline_s` seconds.
    """
    with trio.move_on_after(PATIENCE * deadline_s):
        while not await condition():  # noqa: ASYNC110  # another process sets no events
            await trio.sleep(0.02)
        return
    raise AssertionError(f"after {PATIENCE * deadline_s:g} s it still does not hold that {what}")


async def wait_members(agent: Agent, count: int, deadline_s: float = 30.0) -> None:
    """Until an agent sees so many alive ones."""

    async def enough() -> bool:
        async with agent.open_rpc() as rpc:
            return sum(member.status == "alive" for member in await rpc.members()) == count

    await wait_until(enough, f"{agent.name} sees {count} members", deadline_s)


async def wait_all_members(agents: Sequence[Agent]) -> None:
    """Until all of these see each other, and nobody else."""
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(wait_members, agent, len(agents))
