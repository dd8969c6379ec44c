"""Carries what a seed draws out on whole servers: real replicas, drivers, commits, sessions and pulls, in virtual time.

Knows: what each action does to them, and what must hold of them.  Does not know how likely anything is (`sim.draft`).

A server costs more than a simulated one, so only the beginning of a seed is played, with fewer writes. What a server
in one process cannot be made to do (pauses, clocks at other rates, lies of strangers, rot) is left out, and named.

Invariant: nothing uses a thread or real time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import attrs
import trio

from distkv.config import Limits
from distkv.errors import DistkvError
from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import is_within
from distkv.sim.rules.alike import are_alike, state_of
from distkv.sim.scenario import DECISIONS, WRITES, Action, Scenario, Verb
from distkv.sim.workload import BULK, TTLS_S
from distkv.storage.memory import MemoryDisk
from distkv.transport.memory import MessageFaults
from distkv.wire.message import Info, Start, Update
from tests.node.claims import check_order
from tests.node.nodes import Node, World, durable_copy, new_world, until

LENGTH_MS: Final = 60_000
"""So much of a seed is played, from its first fault on."""
WRITES_MAX: Final = 150
CLOCK_MS: Final = 5000
JOIN_S: Final = 0.7
GROW_S: Final = 60.0
REST_S: Final = 90.0
"""Somewhat more than the simulator's twelve clocks: what was under way when the faults ended is finished first."""
ANSWER_S: Final = 20.0
"""A request that is not answered by then, as by a server that was killed, is given up."""
OUTBOX: Final = 12
BURST: Final = 3 * OUTBOX

ELSEWHERE: Final = frozenset({
    Verb.PAUSE, Verb.RESUME, Verb.DRIFT, Verb.WALL_JUMP, Verb.NAMESAKE, Verb.NAMESAKE_GONE, Verb.FOREIGN,
    Verb.FOREIGN_GONE, Verb.LIE, Verb.SAME_ADDRESS, Verb.OWN_ADDRESS, Verb.ROT, Verb.ROT_TWO, Verb.SWAP, Verb.BURN,
    Verb.FILL, Verb.MAKE_SPACE,
})  # fmt: skip
"""What only the simulator does."""


Request: TypeAlias = tuple[str, dict[str, Any]]
"""An action of the client protocol, and its fields."""


def played(scenario: Scenario) -> list[Action]:
    """The actions of a seed that are carried out here, from its first fault on."""
    able = [action for action in scenario.actions if action.verb not in ELSEWHERE]
    begin_ms = next((action.at_ms for action in able if action.verb not in WRITES and action.verb is not Verb.START), 0)
    some = [action for action in able if begin_ms <= action.at_ms < begin_ms + LENGTH_MS]
    writes = [action for action in some if action.verb in WRITES and action.verb is not Verb.BURST]
    kept = {id(action) for action in random.Random(scenario.seed).sample(writes, min(WRITES_MAX, len(writes)))}
    return [
        attrs.evolve(action, at_ms=action.at_ms - begin_ms)
        for action in some
        if action.verb not in WRITES or action.verb is Verb.BURST or id(action) in kept
    ]


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
        network = scenario.network
        low_ms, high_ms = network.delay_ms
        self._faults = MessageFaults(
            max(network.loss, network.update_loss), network.duplication, (low_ms / 1000, high_ms / 1000)
        )
        self._scenario = scenario
        self._nursery = nursery
        self._world: World = new_world(nursery, seed=scenario.seed, faults=MessageFaults(delay_s=(0.001, 0.02)))
        self._disks = {name: MemoryDisk() for name in scenario.names}
        self._copies: dict[str, MemoryDisk] = {}
        self._agents_down: set[str] = set()
        self._pace = random.Random(f"disks {scenario.seed}")
        self._every: list[Node] = []
        self._set_back: dict[str, None] = {}
        """Whose disks are older than what they have said; up to their next start."""
        self._recalled: list[Node] = []
        """Started so: others tell them of ticks that they once used."""
        self._acknowledged: set[tuple[NodeName, Tick]] = set()
        self._began_s = trio.current_time()
        self.seen = Seen()

    async def run(self) -> None:
        """Grow, suffer, and come to rest."""
        names = self._scenario.names
        await self._start(names[0], init="root")
        first = names[: len(names) - self._scenario.late_count]
        for name in first[1:]:
            await trio.sleep(JOIN_S)
            await self._start(name)
        with trio.fail_after(GROW_S):
            await until(lambda: all(self._serves(name) for name in first), 0.1)
        self._world.network.faults = self._faults
        began_s = trio.current_time()
        for action in played(self._scenario):
            await trio.sleep_until(max(trio.current_time(), began_s + action.at_ms / 1000))
            await self._do(action)
        await self._all_is_well()
        self._check()

    # -- what happens

    async def _do(self, action: Action) -> None:
        name = self._scenario.names[action.host]
        node = self._running(name)
        if action.verb in WRITES:
            if node is not None and node.replica.is_serving:
                self._nursery.start_soon(self._write, node, action)
        elif action.verb is Verb.START:
            await self._start(name)
        elif not self._to_network(name, action) and node is not None:
            await self._to_machine(node, action)

    def _to_network(self, name: str, action: Action) -> bool:
        network, me = self._world.network, NodeName(name)
        others = [NodeName(other) for other in self._scenario.names if other != name]
        match action.verb:
            case Verb.PARTITION:
                side = [me, *(other for n, other in enumerate(others) if action.number >> n & 1)]
                network.partition(side, [other for other in others if other not in side])
            case Verb.CUT:
                network.cut(me, others[action.number % len(others)])
            case Verb.SWIZZLE_OUT:
                for other in others:
                    network.cut(me, other)
                    network.cut(other, me)
            case Verb.HEAL | Verb.SWIZZLE_IN:
                network.heal()
            case Verb.AGENT_DOWN | Verb.AGENT_UP:
                self._agent(name, is_up=action.verb is Verb.AGENT_UP)
            case _:
                return False
        return True

    async def _to_machine(self, node: Node, action: Action) -> None:
        name = node.name
        match action.verb:
            case Verb.KILL | Verb.POWER:
                await self._end(node)
            case Verb.WIPE if self._has_copy(node):
                await self._end(node)
                self._disks[name] = MemoryDisk()
                self._set_back[name] = None
            case Verb.COPY if node.replica.is_serving:
                self._copies[name] = durable_copy(node.disk)
            case Verb.ROLL_BACK if name in self._copies and self._has_copy(node):
                await self._end(node)
                self._disks[name] = self._copies.pop(name)
                self._set_back[name] = None
            case Verb.RETIRE:
                others = [other for other in self._nodes() if other is not node and other.replica.is_serving]
                if others:
                    await self._end(node)
                    self._nursery.start_soon(self._ask, others[0], ("retire_node", {"node": name, "force": True}))

    async def _start(self, name: str, init: object = None) -> None:
        if self._running(name) is not None:
            return
        scenario = self._scenario
        settings = {
            "clock_ms": CLOCK_MS,
            "chain_length_max": scenario.chain_length,
            "pull_events_max": scenario.pull_events,
            "delete_retention_ms": scenario.delete_retention_ms,
            "start": Start(1.7e9 + trio.current_time() - self._began_s, self._world.starts),
        }
        low_ms, high_ms = scenario.commit_ms
        node = await self._world.start(
            name,
            disk=self._disks[name],
            init=init,
            is_up=name not in self._agents_down,
            settings=settings,
            commit_s=lambda: self._pace.uniform(low_ms, high_ms) / 1000,
            limits=Limits(outbox=OUTBOX),
        )
        self._every.append(node)
        if name in self._set_back:
            self._recalled.append(node)
            del self._set_back[name]

    async def _end(self, node: Node) -> None:
        await node.kill()
        self._disks[node.name] = durable_copy(node.disk)

    def _agent(self, name: str, *, is_up: bool) -> None:
        (self._agents_down.discard if is_up else self._agents_down.add)(name)
        node = self._running(name)
        if node is not None and node.transport is not None:
            (node.transport.reconnect if is_up else node.transport.disconnect)()

    async def _all_is_well(self) -> None:
        self._world.network.faults = MessageFaults(delay_s=(0.001, 0.02))
        self._world.network.heal()
        for name in self._scenario.names:
            await self._start(name)
            self._agent(name, is_up=True)
        with trio.move_on_after(REST_S):
            await until(self._is_at_rest, 0.1)
        assert self._is_at_rest(), [(node.name, state_of(node.replica)) for node in self._nodes()]

    # -- clients

    async def _write(self, node: Node, action: Action) -> None:
        await self._ask(node, *_requests(self._scenario, node, action))

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
        for node in self._every:
            assert not isinstance(node.failure, DistkvError), f"{node.name} ended: {node.failure}"
            self._check_sent(node)
        for node in self._nodes():
            held = node.replica.tree.ledger.held()
            lost = [link for link in self._acknowledged if link[1] not in held.get(link[0], Ranges())]
            assert not lost, f"{node.name} does not hold {sorted(lost)[:5]}, which clients were told of"

    def _check_sent(self, node: Node) -> None:
        """What left was durable; updates left in their order; and what was dropped was announced."""
        if node not in self._recalled:
            check_order(node.name, node.sent)
        me, updates = NodeName(node.name), [message for message in node.sent.gossip if isinstance(message, Update)]
        ticks = [event.tick for message in updates for event in message.events]
        assert ticks == sorted(ticks), f"updates of {node.name} left out of order"
        dropped = node.driver.counters["outbox_full"]
        self.seen.dropped += dropped
        if dropped and self._running(node.name) is node:
            infos = [m.ticks for m in node.sent.gossip if isinstance(m, Info) and m.ticks]
            said = max([*ticks, *(max(told[me]) for told in infos if me in told)], default=0)
            assert said == node.replica.tick, f"{node.name} dropped {dropped} updates, and said nothing up to the end"

    def _is_at_rest(self) -> bool:
        nodes = self._nodes()
        if len(nodes) < len(self._scenario.names) or not all(node.committer.is_idle for node in nodes):
            return False
        return are_alike([node.replica for node in nodes])

    # -- who there is

    def _nodes(self) -> list[Node]:
        return [node for name in self._scenario.names if (node := self._running(name)) is not None]

    def _running(self, name: str) -> Node | None:
        node = self._world.nodes.get(name)
        return node if node is not None and node.is_running else None

    def _serves(self, name: str) -> bool:
        node = self._running(name)
        return node is not None and node.replica.is_serving

    def _has_copy(self, node: Node) -> bool:
        """Whether another disk holds all that this one does, durably."""
        mine = node.replica.tree.ledger.held()
        return any(
            other.replica.is_serving and other.committer.is_idle and is_within(mine, other.replica.tree.ledger.held())
            for other in self._nodes()
            if other is not node
        )


def _requests(scenario: Scenario, node: Node, action: Action) -> Iterator[Request]:
    """What a client asks for."""
    number = action.number
    path = ["p", str(number % scenario.path_count)]
    match action.verb:
        case Verb.SET:
            yield "set_value", {"path": path, "value": number}
        case Verb.CHECKED:
            yield "set_value", {"path": path, "value": number, "new": True}
        case Verb.DELETE:
            yield "delete_value", {"path": path}
        case Verb.SET_TTL:
            yield "set_value", {"path": path, "value": number, "ttl": TTLS_S[number % len(TTLS_S)]}
        case Verb.BULK:
            ops = [{"action": "set_value", "path": ["bulk", number % 1000 + n], "value": n} for n in range(BULK)]
            yield "batch", {"ops": ops}
        case Verb.BURST:
            for n in range(BURST):
                yield "set_value", {"path": ["p", str((number + n) % scenario.path_count)], "value": n}
        case _ if action.verb in DECISIONS:
            losers = _losers(node)
            if losers:
                yield action.verb.name.lower(), {"id": losers[number % len(losers)]}


def _losers(node: Node) -> Sequence[object]:
    entries = [entry for entry in node.replica.tree.conflicted() if not entry.head.path.is_reserved]
    return [[loser.node, loser.tick] for entry in entries for loser in entry.conflicts()]
