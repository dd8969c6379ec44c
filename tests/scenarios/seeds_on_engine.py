"""Plays what a seed plans on whole servers: real replicas, drivers, commits, sessions and pulls, in virtual time.

Knows: which part of a seed there is time for, and what must hold of servers.  Does not know how likely anything is
(`sim.draft`), nor how it is done to servers (`on_engine`).

A server costs more than a simulated one, so only the beginning of a seed is played, with fewer writes. What a server
in one process cannot be made to do (`on_engine.IMPOSSIBLE`) is left out, and so are disks that are lost with the only
copy of something.

Invariant: nothing uses a thread or real time.
"""

from __future__ import annotations

import random
from typing import Any, Final

import attrs
import trio

from distkv.config import Limits
from distkv.errors import DistkvError, StaleError
from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import is_within
from distkv.sim.actions import DecideAny, Deed, Fill, Happening, Retire, Settings, StartNode, ToNode, Write
from distkv.sim.draft import BURST
from distkv.sim.rules.alike import are_alike, state_of
from distkv.sim.scenario import Planned, Scenario
from distkv.transport.memory import MessageFaults
from distkv.wire.message import Info, Update
from tests.node.claims import check_order
from tests.node.nodes import Node, until
from tests.scenarios.on_engine import JOIN_S, Servers, why_not
from tests.scenarios.requests import Request, requests_of

LENGTH_MS: Final = 60_000
"""So much of a seed is played, from its first fault on."""
WRITES_MAX: Final = 150
GROW_S: Final = 60.0
REST_S: Final = 90.0
"""Somewhat more than the simulator's twelve clocks: what was under way when the faults ended is finished first."""
ANSWER_S: Final = 20.0
"""A request that is not answered by then, as by a server that was killed, is given up."""
OUTBOX: Final = 12
CALM: Final = MessageFaults(delay_s=(0.001, 0.02))


def played(scenario: Scenario) -> list[Planned]:
    """What of a seed is carried out here, from its first fault on."""
    able = [one for one in scenario.planned if _is_played(one.action)]
    begin_ms = next((one.at_ms for one in able if one.fault is not None), 0)
    some = [one for one in able if begin_ms <= one.at_ms < begin_ms + LENGTH_MS]
    writes = [one for one in some if _is_single(one.action)]
    kept = {id(one) for one in random.Random(scenario.seed).sample(writes, min(WRITES_MAX, len(writes)))}
    return [
        attrs.evolve(one, at_ms=one.at_ms - begin_ms)
        for one in some
        if not _is_single(one.action) or id(one) in kept
    ]


def _is_played(action: Happening) -> bool:
    return not why_not(action) and not _takes_away(action)


def _takes_away(action: Happening) -> bool:
    """Whether it may take the only copy of something, or all room."""
    return isinstance(action, ToNode) and action.deed in (Deed.BURN, Deed.DISK_FULL, Deed.DISK_FREE)


def _is_single(action: Happening) -> bool:
    """A client's request; a burst is kept in any case, so that outboxes run over."""
    return isinstance(action, Write | Fill | DecideAny) and not (isinstance(action, Fill) and action.count == BURST)


@attrs.define
class Seen:
    """What a run came to, so that a test can tell whether it saw anything."""

    writes: int = 0
    """Acknowledged."""
    dropped: int = 0
    """Messages that found an outbox full."""


class SeedServers:
    """The servers of one seed."""

    def __init__(self, nursery: trio.Nursery, scenario: Scenario) -> None:
        pace, (low_ms, high_ms) = random.Random(f"disks {scenario.seed}"), scenario.disks.commit_ms
        self._servers = Servers(
            nursery,
            scenario.names,
            seed=scenario.seed,
            faults=CALM,
            commit_s=lambda: pace.uniform(low_ms, high_ms) / 1000,
            limits=Limits(outbox=OUTBOX),
        )
        self._scenario = scenario
        self._nursery = nursery
        self._acknowledged: set[tuple[NodeName, Tick]] = set()
        self.seen = Seen()

    async def run(self) -> None:
        """Grow, suffer, and come to rest."""
        scenario, servers = self._scenario, self._servers
        (settings,) = (action for action in scenario.actions() if isinstance(action, Settings))
        await servers.do(settings)
        first = scenario.names[: len(scenario.names) - scenario.late_count]
        await servers.do(StartNode(first[0], "root"))
        for name in first[1:]:
            await trio.sleep(JOIN_S)
            await servers.do(StartNode(name))
        with trio.fail_after(GROW_S):
            await until(lambda: all(self._serves(name) for name in first), 0.1)
        low_ms, high_ms = scenario.network.delay_ms
        loss = max(scenario.network.loss, scenario.network.update_loss)
        delay_s = low_ms / 1000, high_ms / 1000
        servers.world.network.faults = MessageFaults(loss, scenario.network.duplication, delay_s)
        began_s = trio.current_time()
        for one in played(scenario):
            await trio.sleep_until(max(trio.current_time(), began_s + one.at_ms / 1000))
            await self._do(one.action)
        await self._all_is_well()
        self._check()

    # -- what happens

    async def _do(self, action: Happening) -> None:
        """Where it applies, as in the simulator (`sim.fairness`)."""
        servers = self._servers
        match action:
            case Write(node=name) | Fill(node=name) | DecideAny(node=name):
                node = servers.find(name)
                if node is not None and node.replica.is_serving:
                    requests = requests_of(action, node.replica.tree)
                    self._nursery.start_soon(self._ask, node, *requests)
            case StartNode(node=name):
                if servers.find(name) is None:
                    await servers.do(action)
            case Retire(other=name):
                others = [node for node in self._nodes() if node.name != name and node.replica.is_serving]
                if others:
                    retire = "retire_node", {"node": name, "force": True}
                    self._nursery.start_soon(self._ask, others[0], retire)
            case ToNode(node=name, deed=deed):
                if self._applies(name, deed):
                    await servers.do(action)
            case _:
                await servers.do(action)

    def _applies(self, name: str, deed: Deed) -> bool:
        node = self._servers.find(name)
        match deed:
            case Deed.AGENT_UP | Deed.REJOIN:
                return True
            case _ if node is None:
                return False
            case Deed.WIPE:
                return self._has_copy(node)
            case Deed.BACKUP:
                return node.replica.is_serving
            case Deed.ROLL_BACK:
                return self._servers.has_backup(name) and self._has_copy(node)
            case _:
                return True

    async def _all_is_well(self) -> None:
        network = self._servers.world.network
        network.faults = CALM
        network.heal()
        for name in self._scenario.names:
            if self._servers.find(name) is None:
                await self._servers.do(StartNode(name))
            await self._servers.do(ToNode(name, Deed.AGENT_UP))
        with trio.move_on_after(REST_S):
            await until(self._is_at_rest, 0.1)
        assert self._is_at_rest(), [(node.name, state_of(node.replica)) for node in self._nodes()]

    # -- clients

    async def _ask(self, node: Node, *requests: Request) -> None:
        """Requests of a client, all sent before the first is answered, who goes when the server does."""
        try:
            with trio.move_on_after(ANSWER_S):
                async with node.client() as client:
                    frames = [client.frame(request, **fields) for request, fields in requests]
                    await client.stream.send_all(b"".join(frames))
                    for _ in range(1 + len(frames)):  # the greeting comes first
                        reply = await client.receive()
                        if reply is None:
                            return
                        self._note(node, reply)
        except (EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
            return

    def _note(self, node: Node, reply: dict[str, Any]) -> None:
        for one in reply.get("results", [reply]):
            if one.get("changed") and "tick" in one:
                self._acknowledged.add((NodeName(node.name), Tick(one["tick"])))
                self.seen.writes += 1

    # -- what must hold

    def _check(self) -> None:
        for node in self._servers.every:
            has_failed = isinstance(node.failure, DistkvError) and not isinstance(node.failure, StaleError)
            assert not has_failed, f"{node.name} ended: {node.failure}"
            self._check_sent(node)
        for node in self._nodes():
            held = node.replica.tree.ledger.held()
            lost = [link for link in self._acknowledged if link[1] not in held.get(link[0], Ranges())]
            assert not lost, f"{node.name} does not hold {sorted(lost)[:5]}, which clients were told of"

    def _check_sent(self, node: Node) -> None:
        """What left was durable; updates left in their order; and what was dropped was announced."""
        if node not in self._servers.recalled:
            check_order(node.name, node.sent)
        me, updates = NodeName(node.name), [message for message in node.sent.gossip if isinstance(message, Update)]
        ticks = [event.tick for message in updates for event in message.events]
        assert ticks == sorted(ticks), f"updates of {node.name} left out of order"
        dropped = node.driver.counters["outbox_full"]
        self.seen.dropped += dropped
        if dropped and self._servers.find(node.name) is node:
            infos = [m.ticks for m in node.sent.gossip if isinstance(m, Info) and m.ticks]
            said = max([*ticks, *(max(told[me]) for told in infos if me in told)], default=0)
            assert said >= node.meant > 0, f"{node.name} dropped {dropped} updates, and said nothing up to the end"

    def _is_at_rest(self) -> bool:
        nodes = self._nodes()
        if len(nodes) < len(self._scenario.names) or not all(node.committer.is_idle for node in nodes):
            return False
        return are_alike([node.replica for node in nodes])

    # -- who there is

    def _nodes(self) -> list[Node]:
        return [node for name in self._scenario.names if (node := self._servers.find(name)) is not None]

    def _serves(self, name: str) -> bool:
        node = self._servers.find(name)
        return node is not None and node.replica.is_serving

    def _has_copy(self, node: Node) -> bool:
        """Whether another disk holds all that this one does, durably."""
        mine = node.replica.tree.ledger.held()
        return any(
            other.replica.is_serving and other.committer.is_idle and is_within(mine, other.replica.tree.ledger.held())
            for other in self._nodes()
            if other is not node
        )
