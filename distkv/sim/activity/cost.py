"""What the activity network costs by the size of the fleet: frames, confirmations and time, for one activity.

Knows: one fixed course (start, logins, activities) and what is counted in it.  Does not know what is right.

Invariant: the same size gives the same figures, on every machine.

There are twenty clients for each node. They log in within ten seconds, each at a node drawn at random, and go where
they are sent. Then one client after the other sends an activity, each somewhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.edges import EdgeTold
from distkv.core.ready import Input, NodeTold, Ready
from distkv.core.server_tree.machine import ServerTree
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.sim.activity.actions import SayActivities, StartChat
from distkv.sim.activity.crowd import ActivityCrowd, loads_of
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityHeard,
    ActivityWritten,
    ClientArrived,
    ClientSentOn,
)
from distkv.sim.activity.nodes import ActivityNodes
from distkv.sim.activity.rules import EchoedIsHeard
from distkv.sim.directories import prepare_directories
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.trees import TreeNodes
from distkv.wire.activity_bodies import WORDS, ActivityConfirmed
from distkv.wire.edges import ServiceFrames

CLIENTS_EACH: Final = 20
LOGIN_MS: Final = 10_000
CALM_MS: Final = 10_000
ACTIVITIES: Final = 50
BETWEEN_MS: Final = 200
CHILDREN: Final = 16
ANNOUNCE_MS: Final = 5000
PATIENCE_MS: Final = 120_000

FIGURES: Final[dict[str, str]] = {
    "clients": "clients",
    "depth": "levels of the server tree",
    "sent_on": "logins: times that a client was sent on, mean",
    "sent_on_max": "logins: times that a client was sent on, at most",
    "logged_in_s": "logins: all are in after the last came, s",
    "loads": "loads: clients of the fullest node above those of the emptiest",
    "frames": "one activity: frames that come to another node, mean",
    "frames_max": "one activity: frames that come to another node, at most",
    "confirmations": "one activity: confirmations, mean",
    "confirmations_max": "one activity: confirmations, at most",
    "echo_ms": "one activity: its sender has the echo after, ms, mean",
    "echo_ms_max": "one activity: its sender has the echo after, ms, at most",
    "heard_ms": "one activity: everybody has heard it after, ms, mean",
    "heard_ms_max": "one activity: everybody has heard it after, ms, at most",
}
"""What is measured, in words for a table."""


class ActivityMeter(Observer):
    """Counts."""

    def __init__(self) -> None:
        self.frames: Final = Counter[tuple[NodeName, int, str]]()
        """How often each frame came to each node, by its origin and number."""
        self.confirmations: Final = Counter[tuple[str, int]]()
        """Of each activity, by its node and number."""
        self.written_ms: Final = dict[str, int]()
        self.echoed_ms: Final = dict[str, int]()
        self.heard_ms: Final = dict[str, int]()
        """When it was heard last."""
        self.heard: Final = Counter[str]()
        """By how many."""
        self.arrived: Final = dict[str, str]()
        """Where each client is."""
        self.sent_on: Final = Counter[str]()

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if isinstance(what, EdgeTold) and isinstance(what.item, ServiceFrames) and what.item.service == ACTIVITY:
            for frame in what.item.frames:
                self.frames[frame.origin, frame.number, process.host.name] += 1
        elif isinstance(what, NodeTold) and what.service == ACTIVITY:
            for number in _confirmed(what.body):
                self.confirmations[process.host.name, number] += 1

    def moment(self, at_ms: int, what: object) -> None:
        match what:
            case ActivityWritten(text=text):
                self.written_ms[text] = at_ms
            case ActivityEchoed(text=text):
                self.echoed_ms[text] = at_ms
            case ActivityHeard(text=text):
                self.heard_ms[text] = at_ms
                self.heard[text] += 1
            case ClientArrived(client=client, node=node):
                self.arrived[client] = node
            case ClientSentOn(client=client):
                self.sent_on[client] += 1
                self.arrived.pop(client, None)
            case _:
                pass


class ActivityCourse:
    """One fleet on its way."""

    def __init__(self, nodes: int) -> None:
        self._names: Final = [f"n{number}" for number in range(nodes)]
        self._meter: Final = ActivityMeter()
        faults = NetworkFaults(delay_ms=(10, 200), silence_ms=10_000)
        self._fleet: Final = Fleet(nodes, faults, is_large=True, observers=[self._meter])
        self._nodes: Final = ActivityNodes(self._fleet.hosts, nodes, ActivitySettings())
        self._clients: Final = [f"u{number}" for number in range(nodes * CLIENTS_EACH)]

    def figures(self) -> dict[str, float]:
        """Go all the way; what was measured, by the names in FIGURES.

        Raises:
            BrokenRuleError: the nodes become no tree, or somebody does not hear what was sent.
        """
        self._start()
        crowd = ActivityCrowd(self._fleet)
        found: dict[str, float] = {"clients": len(self._clients), "depth": self._depth()}
        found |= self._log_in(crowd)
        self._say(crowd)
        return found | self._said()

    # -- the parts

    def _start(self) -> None:
        """The whole fleet starts within a second."""
        fleet = self._fleet
        prepare_directories(fleet, len(self._names))
        fleet.tree_nodes = TreeNodes(len(self._names), CHILDREN, ANNOUNCE_MS)
        fleet.services[ACTIVITY] = self._nodes
        for number, name in enumerate(self._names):
            fleet.host(name).agent.limit(None, len(self._names))
            fleet.later(1000 * number // len(self._names), partial(fleet.start, name))
        fleet.run(2000)
        self._until(self._is_one_tree, "the nodes are not one tree")
        fleet.run(CALM_MS)

    def _log_in(self, crowd: ActivityCrowd) -> dict[str, float]:
        fleet, rng, clients = self._fleet, Random(f"clients of {len(self._names)}"), self._clients
        for client in clients:
            fleet.later(rng.randrange(LOGIN_MS), partial(crowd.do, StartChat(rng.choice(self._names), client)))
        fleet.run(LOGIN_MS)
        began_ms = fleet.now_ms
        self._until(lambda: len(self._meter.arrived) == len(clients), "not everybody is logged in")
        took_ms = fleet.now_ms - began_ms
        fleet.run(CALM_MS)
        loads, sent_on = loads_of(fleet, self._nodes), self._meter.sent_on
        return {
            "sent_on": sent_on.total() / len(clients),
            "sent_on_max": max(sent_on.values(), default=0),
            "logged_in_s": took_ms / 1000,
            "loads": max(loads.values()) - min(loads.values()),
        }

    def _say(self, crowd: ActivityCrowd) -> None:
        for number in range(ACTIVITIES):
            crowd.do(SayActivities(self._clients[number * len(self._clients) // ACTIVITIES]))
            self._fleet.run(BETWEEN_MS)
        heard = self._meter.heard
        everybody = len(self._clients)
        self._until(lambda: min(heard.values(), default=0) == everybody, "not everybody hears what was said")
        self._fleet.run(CALM_MS)

    def _said(self) -> dict[str, float]:
        """What the activities cost."""
        meter, others = self._meter, len(self._names) - 1
        confirmations = [*meter.confirmations.values()]
        echo_ms = [meter.echoed_ms[text] - ms for text, ms in meter.written_ms.items()]
        heard_ms = [meter.heard_ms[text] - ms for text, ms in meter.written_ms.items()]
        return {
            "frames": meter.frames.total() / ACTIVITIES / others,
            "frames_max": max(meter.frames.values(), default=0),
            "confirmations": sum(confirmations) / ACTIVITIES,
            "confirmations_max": max(confirmations, default=0),
            "echo_ms": sum(echo_ms) / len(echo_ms),
            "echo_ms_max": max(echo_ms),
            "heard_ms": sum(heard_ms) / len(heard_ms),
            "heard_ms_max": max(heard_ms),
        }

    # -- inside

    def _depth(self) -> int:
        return max(len(tree.path) for tree in self._trees())

    def _trees(self) -> list[ServerTree]:
        found = [host.live.server_tree for host in self._fleet.ours()]
        return [tree for tree in found if tree is not None]

    def _is_one_tree(self) -> bool:
        """Whether all are in one tree, and each hears all."""
        trees, count = self._trees(), len(self._names)
        roots = {tree.path[-1] if tree.path else None for tree in trees}
        return len(roots) == 1 and None not in roots and all(len(tree.announced) == count for tree in trees)

    def _until(self, condition: Callable[[], bool], why: str) -> None:
        if not self._fleet.run_until(condition, PATIENCE_MS):
            raise BrokenRuleError(EchoedIsHeard.rule, why)


def _confirmed(body: bytes) -> tuple[int, ...]:
    try:
        word = WORDS.read(body)
    except DecodeError:
        return ()
    return tuple(word.numbers) if isinstance(word, ActivityConfirmed) else ()


def measure(nodes: int) -> dict[str, float]:
    """What a fleet of so many nodes costs, by the names in FIGURES.

    Raises:
        BrokenRuleError: as `ActivityCourse.figures`.
    """
    return ActivityCourse(nodes).figures()
