"""Faults drawn from a seed, upon real servers and agents: kills, freezes, dead agents, wiped disks, all at once.

Knows: what is done to whom and for how long, what is on every disk when one is wiped, and which server ended by itself.
Does not know who reads or writes.

When a disk is wiped the other servers stand still, and all disks are copied: so which change was on which disk at that
moment is known to the byte. No disk is wiped while no other one is known to hold a whole download.

Invariant: the same seed draws the same faults in the same order; when they happen depends on the machine.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from tests.process.cluster import Cluster
from tests.process.disks import copy_disk
from tests.process.servers import Server

log: Final = logging.getLogger("tests.hunt")

PAUSE_S: Final = (0.3, 4.0)
"""Between two faults."""
REST_S: Final = (4.0, 9.0)
"""Between two faults, now and then: so that all are ready, and follow each other."""
RESTS: Final = 0.25
HARD_WIPES: Final = 0.25
"""How many wipes do not wait until the others have whole disks, so that more of what they take is nowhere else."""
STEP_S: Final = 0.05
FREEZE_S: Final = (0.2, 6.0)
DOWN_S: Final = (0.0, 2.0)
AGENT_S: Final = (0.3, 6.0)
AGAIN_S: Final = 1.0
"""After so long a server that ended by itself is started again, as a service manager would."""
ENDED_LINES: Final = 12

WEIGHTS: Final = {
    "kill": 26, "freeze": 18, "agent kill": 14, "agent freeze": 10, "both": 10, "wipe": 12, "kill two": 5, "kill all": 3
}  # fmt: skip


@attrs.frozen
class Wipe:
    """A moment at which a disk burned."""

    node: str
    at: float
    """By the monotonic clock."""
    burned: Path
    left: dict[str, Path]
    """What the other disks held then; a node whose disk was empty is not in it."""


@attrs.frozen
class Ended:
    """A server that ended by itself."""

    node: str
    code: int
    had_data: bool
    text: str
    """The last lines of its log."""

    @property
    def is_allowed(self) -> bool:
        """A node that never had data, and finds no agent, ends (docs/protocol, START-15)."""
        return self.code == 5 and not self.had_data and "no Serf agent answers" in self.text


class Faults:
    """Draws them, and sees to it that each is over in time. Everything here runs in one thread."""

    def __init__(self, cluster: Cluster, images: Path, seed: str) -> None:
        self.wipes: Final[list[Wipe]] = []
        self.ended: Final[list[Ended]] = []
        self.counts: Final[Counter[str]] = Counter()
        self._cluster: Final = cluster
        self._images: Final = images
        self._chance: Final = random.Random(f"{seed} faults")
        self._whole: Final = {server.name for server in cluster}
        """Nodes that have been ready since their disk was empty."""
        self._due: Final[dict[tuple[str, str], tuple[float, Callable[[], None]]]] = {}
        """What must be ended, of which node, when, and how."""
        self._pause: Final = threading.Event()  # nobody sets it
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        """One fault after the other, several under way at a time."""
        self._began = time.monotonic()
        end = self._began + seconds
        following = self._began
        while (now := time.monotonic()) < end:
            self._look_after(now)
            if now >= following:
                self._draw(now)
                following = now + self._chance.uniform(*(REST_S if self._chance.random() < RESTS else PAUSE_S))
            self._pause.wait(STEP_S)

    def end_all(self) -> None:
        """From now on nothing is wrong any more."""
        while self._due:
            self._look_after(float("inf"))
        for server in self._cluster:
            self._look_at(server)
        while self._due:
            self._look_after(float("inf"))

    def watch_over(self) -> bool:
        """While nothing is wrong any more: start again who ends all the same; whether all run."""
        self._look_after(time.monotonic())
        return not self._due

    # -- what is under way

    def _look_after(self, now: float) -> None:
        for what, (at, undo) in list(self._due.items()):
            if at <= now:
                del self._due[what]
                undo()
        for server in self._cluster:
            self._look_at(server)
            agent = self._cluster.agent(server.name)
            if agent.process is not None and agent.has_ended():  # somebody was quicker to take its port, say
                agent.kill()
                self._due[server.name, "agent down"] = (time.monotonic() + AGAIN_S, agent.launch)
                self._say("agent ended", server.name)

    def _look_at(self, server: Server) -> None:
        if server.process is None:
            return
        if any(line.startswith(f"distkv: {server.name} ready") for line in server.printed):
            self._whole.add(server.name)
        if not server.is_running:
            code = server.wait_end()
            text = "\n".join(server.errors.splitlines()[-ENDED_LINES:])
            self.ended.append(Ended(server.name, code, server.name in self._whole, text))
            self._say("ended", f"{server.name} with {code}")
            self._due.pop((server.name, "frozen"), None)
            self._due[server.name, "down"] = (time.monotonic() + AGAIN_S, lambda: self._start(server))

    def _draw(self, now: float) -> None:
        names = [server.name for server in self._cluster]
        what = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        name, other = self._chance.sample(names, 2)
        long, longer = self._chance.random(), self._chance.random()
        match what:
            case "kill":
                self._kill(name, now, long)
            case "freeze":
                self._freeze(name, now, long)
            case "agent kill":
                self._kill_agent(name, now, long)
            case "agent freeze":
                self._freeze_agent(name, now, long)
            case "both":
                self._kill(name, now, long)
                self._kill_agent(name, now, longer)
            case "wipe":
                self._wipe(name, now, long, is_hard=longer < HARD_WIPES)
            case "kill two":
                self._kill(name, now, long)
                self._kill(other, now, longer)
            case "kill all":
                for one in names:
                    self._kill(one, now, long)

    # -- faults

    def _kill(self, name: str, now: float, long: float) -> None:
        server = self._cluster[name]
        if server.process is None or not server.is_running:
            return
        server.kill()
        self._due.pop((name, "frozen"), None)
        self._due[name, "down"] = (now + _between(DOWN_S, long), lambda: self._start(server))
        self._say("kill", name)

    def _freeze(self, name: str, now: float, long: float) -> None:
        server = self._cluster[name]
        if (name, "frozen") in self._due or not server.is_running:
            return
        server.send_signal(signal.SIGSTOP)
        self._due[name, "frozen"] = (now + _between(FREEZE_S, long), lambda: server.send_signal(signal.SIGCONT))
        self._say("freeze", name)

    def _kill_agent(self, name: str, now: float, long: float) -> None:
        if (name, "agent down") in self._due:
            return
        agent = self._cluster.agent(name)
        agent.kill()
        self._due.pop((name, "agent frozen"), None)
        self._due[name, "agent down"] = (now + _between(AGENT_S, long), agent.launch)
        self._say("agent kill", name)

    def _freeze_agent(self, name: str, now: float, long: float) -> None:
        if {(name, "agent down"), (name, "agent frozen")} & self._due.keys():
            return
        agent = self._cluster.agent(name)
        agent.freeze()
        self._due[name, "agent frozen"] = (now + _between(AGENT_S, long), agent.thaw)
        self._say("agent freeze", name)

    def _wipe(self, name: str, now: float, long: float, *, is_hard: bool) -> None:
        server, others = self._cluster[name], {other.name for other in self._cluster.others(name)}
        if not self._whole & others or not (is_hard or others <= self._whole) or not server.data_dir.exists():
            return
        server.kill()
        for fault in ("frozen", "down"):
            self._due.pop((name, fault), None)
        place = self._images / f"{len(self.wipes)}"
        with self._still(self._cluster.others(name)) as standing:
            left = {
                other.name: copy_disk(other.data_dir, place / f"left-{other.name}")
                for other in standing
                if other.data_dir.exists()
            }
            at = time.monotonic()
            server.data_dir.rename(place / f"burned-{name}")
        self.wipes.append(Wipe(name, at, place / f"burned-{name}", left))
        self._whole.discard(name)
        self._due[name, "down"] = (now + _between(DOWN_S, long), lambda: self._start(server))
        self._say("wipe", name)

    # -- inside

    @contextmanager
    def _still(self, servers: list[Server]) -> Iterator[list[Server]]:
        """While this is entered none of them does anything."""
        moving = [server for server in servers if server.is_running and (server.name, "frozen") not in self._due]
        for server in moving:
            server.send_signal(signal.SIGSTOP)
        yield servers
        for server in moving:
            server.send_signal(signal.SIGCONT)

    def _start(self, server: Server) -> None:
        server.start()
        self._say("start", server.name)

    def _say(self, what: str, name: str) -> None:
        self.counts[what] += 1
        log.info("%7.2f %s %s", time.monotonic() - self._began, what, name)


def _between(limits: tuple[float, float], drawn: float) -> float:
    low, high = limits
    return low + (high - low) * drawn
