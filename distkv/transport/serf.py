"""Gossip through the Serf agent beside us (docs/serf.rst).

Knows: the two connections to the agent, when it counts as gone, the names of our user events, the tag that tells our
address.  Does not know what messages mean, nor how updates are packed and budgeted (`outgoing`, `budget`).

Invariant: between `Up` and `Down` both connections stood and the agent answered; whatever may have been missed is told
as `Gap`, or by the `Up` after a `Down`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn, TypeAlias

import trio

from distkv.config import SerfConfig
from distkv.errors import DecodeError, TransportError
from distkv.model.event import NodeName
from distkv.transport.base import Announce, Down, Gap, GossipHeard, Members, Report, Up
from distkv.transport.budget import Budget
from distkv.transport.outgoing import Outgoing, Packet
from distkv.transport.serf_rpc import Dial, SerfRpc, connect
from distkv.transport.serf_stream import AuthRefusedError, Overflow, RecordStream, RpcRefusedError, RpcTimeoutError
from distkv.wire.gossip import GossipKind, decode_message
from distkv.wire.message import Message
from distkv.wire.serf_frames import SerfMember, UserEvent

TAG: Final = "distkv"
"""The agent's tag that tells NAME@HOST:PORT."""
EVENT_BYTES_MAX: Final = 1300
"""Larger events do not travel in a UDP packet, whatever the agent takes."""
ENVELOPE_BYTES: Final = 40
"""What Serf puts around name and payload; its limit counts the whole."""
STOCK_LIMIT: Final = 512
"""An agent's `user_event_size_limit` when it was not changed."""
PROBE_BYTES: Final = 9400
"""More than any agent can be set to take (9216)."""
REASONS_MAX: Final = 64
"""Counters kept per reason for what could not be decoded; the rest is counted as `other`."""
_BACK_OFF_S: Final = (0.2, 5.0)
_GATHER_S: Final = 0.03
"""How long updates are gathered, so that several share an event."""
_CALL_TIMEOUT_S: Final = 2.0
_PROBE_INTERVAL_S: Final = 2.0
_FAREWELL_S: Final = 1.0
"""So long a server that ends waits for its agent."""
_MISSES_MAX: Final = 2
"""So many probes in a row without an answer: the agent is frozen."""

Reporter: TypeAlias = Callable[[Report], None]
Contain: TypeAlias = Callable[[Exception, str], object]


class SerfTransport:
    """The `Transport` over Serf. `node` and `addr` are what the tag tells; `rng` is for jitter only."""

    def __init__(
        self,
        settings: SerfConfig,
        node: NodeName,
        addr: str,
        rng: random.Random,
        *,
        dial: Dial = trio.open_tcp_stream,
    ) -> None:
        self._settings = settings
        self._tag = f"{node}@{addr}"
        self._rng = rng
        self._dial = dial
        self.contain: Contain = _raise
        """Takes a failure that nobody foresaw, and says so in words, or raises it: then a message is left out, or the
        session with the agent begins anew."""
        self._budget = Budget(settings.packets_per_s)
        self._outgoing = Outgoing(self._budget, _GATHER_S)
        self._ear = _GossipReader(settings.root, self._budget, lambda *what: self.contain(*what))
        self._news = trio.Event()
        self._reason = ""
        self._appears = trio.Event()
        self._before = ""  # what the agent's tag said of another node

    async def run(self, report: Reporter, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Transport.run`. A refused key is raised only before the first `Up`: after it, waiting may heal it."""
        try:
            await self._run(report, task_status)
        finally:
            if self._appears.is_set():
                with trio.move_on_after(_FAREWELL_S, shield=True):
                    await self._take_tag_back()

    async def _run(self, report: Reporter, task_status: trio.TaskStatus[None]) -> None:
        attempts, ups, delay_s = 0, 0, _BACK_OFF_S[0]

        def on_up(event_bytes: int) -> None:
            nonlocal ups
            ups += 1
            self._reason = ""
            report(Up(event_bytes))
            if ups > 1:
                report(Gap())
            if attempts == 0:
                task_status.started()

        while True:
            ups_before, began_s = ups, trio.current_time()
            try:
                error = await self._session(report, on_up)
            except Exception as failure:
                self._outgoing.close()
                error = TransportError(str(self.contain(failure, "a session with the agent")))
            self._reason = str(error)
            if ups == 0 and isinstance(error, AuthRefusedError):
                raise error
            was_up = ups > ups_before
            if was_up or attempts == 0:
                report(Down(self._reason))
            if attempts == 0 and not was_up:
                task_status.started()
            attempts += 1
            if was_up and trio.current_time() - began_s > _BACK_OFF_S[1]:
                delay_s = _BACK_OFF_S[0]
            await trio.sleep(delay_s * self._rng.uniform(0.5, 1.0))
            delay_s = min(2 * delay_s, _BACK_OFF_S[1])

    def appear(self) -> None:
        """See `Transport.appear`."""
        self._appears.set()

    def noticed(self, name: str, *, is_well: bool) -> None:
        """See `Transport.noticed`: agents find out by themselves."""

    def members(self) -> None:
        """See `Transport.members`."""
        return

    def key_desk(self) -> None:
        """See `Transport.key_desk`."""
        return

    def broadcast(self, message: Message) -> None:
        """See `Transport.broadcast`."""
        if self._outgoing.put(message, trio.current_time()):
            self._news.set()

    def statistics(self) -> dict[str, int | float | str | bool]:
        """See `Transport.statistics`. `reason`: why there is no agent now; `budget`: our packets per second."""
        counts, budget, rooms = self._outgoing.counts, self._budget, self._outgoing.rooms
        found: dict[str, int | float | str | bool] = {
            "connected": rooms is not None,
            "root": self._settings.root,
            "event_bytes": 0 if rooms is None else rooms[GossipKind.PING] + len(self._event_name(GossipKind.PING)),
            "reason": self._reason,
            "agents": budget.agents,
            "queue": budget.queue,
            "budget": budget.rate(trio.current_time()),
            "unannounced": counts.unannounced,
            "announced": counts.announced,
            "announces": counts.announces,
            "sent_events": counts.sent_events,
        }
        found |= {f"sent_{kind}": number for kind, number in counts.sent.items()}
        found |= {f"dropped_{kind}_{reason}": number for (kind, reason), number in sorted(counts.dropped.items())}
        return found | self._ear.statistics()

    # -- one session: from connecting until the agent is lost

    async def _session(self, report: Reporter, on_up: Callable[[int], None]) -> TransportError:
        """Work while the agent does; says what ended it."""
        failures: list[TransportError] = []
        async with trio.open_nursery() as nursery:

            async def attempt(job: Callable[[], Awaitable[None]]) -> None:
                try:
                    await job()
                except TransportError as error:
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            async def serve() -> None:
                commands, events = await self._connect(nursery), await self._connect(nursery)
                stream = await events.open_stream(",".join(f"user:{self._event_name(kind)}" for kind in GossipKind))
                event_bytes = await find_event_bytes(commands, self._settings)
                if self._appears.is_set():
                    await self._set_tag(commands)
                else:
                    nursery.start_soon(attempt, partial(self._set_tag_later, commands))
                self._outgoing.open({kind: event_bytes - len(self._event_name(kind)) for kind in GossipKind})
                on_up(event_bytes)
                nursery.start_soon(attempt, partial(self._probe, commands, report))
                nursery.start_soon(attempt, partial(self._talk, commands, report))
                nursery.start_soon(attempt, commands.wait_lost)
                await self._ear.listen(stream, report)

            nursery.start_soon(attempt, serve)
        self._outgoing.close()
        return failures[0]

    async def _connect(self, nursery: trio.Nursery) -> SerfRpc:
        """Two of these: the agent stops answering commands while one of its streams is not read."""
        settings = self._settings
        return await connect(
            nursery,
            settings.host,
            settings.port,
            auth=settings.auth,
            timeout_s=_CALL_TIMEOUT_S,
            dial=self._dial,
        )

    async def _set_tag(self, rpc: SerfRpc) -> None:
        """A convenience for joiners: an agent whose tags are full still carries messages."""
        there = (await rpc.own_tags()).get(TAG, "")
        if there.partition("@")[0] not in ("", self._tag.partition("@")[0]):
            self._before = there
        try:
            await rpc.set_tags({TAG: self._tag})
            self._ear.tag_refused = ""
        except RpcRefusedError as error:
            self._ear.tag_refused = error.text

    async def _set_tag_later(self, rpc: SerfRpc) -> None:
        """A node that may yet be refused is not announced."""
        await self._appears.wait()
        await self._set_tag(rpc)

    async def _take_tag_back(self) -> None:
        """The agent outlives its server, and must not say any more that it is there. An agent that is gone says
        nothing."""
        async with trio.open_nursery() as nursery:
            with suppress(TransportError):
                rpc = await self._connect(nursery)
                if (await rpc.own_tags()).get(TAG) == self._tag:
                    if self._before:
                        await rpc.set_tags({TAG: self._before})
                    else:
                        await rpc.delete_tag(TAG)
            nursery.cancel_scope.cancel()

    async def _talk(self, rpc: SerfRpc, report: Reporter) -> None:
        outgoing = self._outgoing
        while True:
            if outgoing.flush(trio.current_time()):
                report(Announce())
            while (packet := outgoing.next_packet()) is not None:
                await self._send(rpc, packet)
            with trio.move_on_at(outgoing.next_flush_at(trio.current_time())):
                await self._news.wait()
            self._news = trio.Event()

    async def _send(self, rpc: SerfRpc, packet: Packet) -> None:
        reason = "down"  # also when we are cancelled here
        try:
            await rpc.send_event(self._event_name(packet.kind), packet.payload)
            reason = ""
        except RpcRefusedError:
            reason = "refused"
        except RpcTimeoutError:  # whether the agent is frozen is for `_probe` to find out
            reason = "timeout"
        finally:
            if reason:
                self._outgoing.unsent(packet, reason)
            else:
                self._outgoing.sent(packet)

    async def _probe(self, rpc: SerfRpc, report: Reporter) -> None:
        """Notice a frozen agent, watch its backlog and its members."""
        misses, last = 0, None
        while True:
            try:
                stats = await rpc.stats()
                members = await rpc.members()
            except RpcTimeoutError:
                misses += 1
                if misses >= _MISSES_MAX:
                    raise
                continue
            misses = 0
            queue = stats.get("serf", {}).get("event_queue", "0")
            self._budget.queue = int(queue) if queue.isdecimal() else 0
            alive = [member for member in members if member.status == "alive"]
            self._budget.agents = len(alive)
            self._news.set()  # the budget may be another one now
            if (found := _addresses(alive)) != last:
                report(Members(found))
                last = found
            await trio.sleep(_PROBE_INTERVAL_S)

    def _event_name(self, kind: GossipKind) -> str:
        return f"{self._settings.root}.{kind}"


def _raise(error: Exception, _: str) -> NoReturn:
    raise error


async def find_event_bytes(rpc: SerfRpc, settings: SerfConfig) -> int:
    """How many bytes (name and payload) an event may have: as the settings say, else as the agent does.

    It is asked for what every agent refuses: the refusal names its limit, and nothing leaves the agent.
    """
    if settings.event_bytes is not None:
        return min(settings.event_bytes, EVENT_BYTES_MAX)
    try:
        await rpc.send_event(f"{settings.root}.probe", bytes(PROBE_BYTES))
    except RpcRefusedError as error:
        found = re.search(r"limit of (\d{1,6}) bytes", error.text)
        limit = int(found[1]) if found else STOCK_LIMIT
        return min(limit - ENVELOPE_BYTES, EVENT_BYTES_MAX)
    return EVENT_BYTES_MAX


def tagged_node(member: SerfMember) -> tuple[str, str] | None:
    """Name and HOST:PORT of the node whose agent this is, as its tag tells; None when it has no tag of ours."""
    name, _, addr = member.tags.get(TAG, "").partition("@")
    return (name, addr) if name and ":" in addr else None


class _GossipReader:
    """What was heard: decodes, and counts what cannot be decoded."""

    def __init__(self, root: str, budget: Budget, contain: Contain) -> None:
        self.tag_refused = ""
        self._contain = contain
        self._kinds = {f"{root}.{kind}": kind for kind in GossipKind}
        self._budget = budget
        self._heard = dict.fromkeys(GossipKind, 0)
        self._bad: dict[str, int] = {}
        self._overflows = 0

    async def listen(self, stream: RecordStream, report: Reporter) -> None:
        while True:
            item = await stream.receive()
            if isinstance(item, Overflow):
                self._overflows += 1
                report(Gap())
            elif isinstance(item, UserEvent) and item.name in self._kinds:
                self._hear(self._kinds[item.name], item.payload, report)

    def statistics(self) -> dict[str, int | float | str | bool]:
        found: dict[str, int | float | str | bool] = {"tag_refused": self.tag_refused, "overflows": self._overflows}
        found |= {f"heard_{kind}": number for kind, number in self._heard.items()}
        return found | {f"bad_{reason}": number for reason, number in sorted(self._bad.items())}

    def _hear(self, kind: GossipKind, payload: bytes, report: Reporter) -> None:
        try:
            message = decode_message(kind.value, payload)
        except DecodeError as error:
            key = f"{kind}_{error.reason}"
            key = key if key in self._bad or len(self._bad) < REASONS_MAX else "other"
            self._bad[key] = self._bad.get(key, 0) + 1
            return
        except Exception as error:
            self._contain(error, f"a message of the kind {kind}")
            return
        self._heard[kind] += 1
        header = message.header
        self._budget.note(trio.current_time(), header.node, header.tick, is_update=kind is GossipKind.UPDATE)
        report(GossipHeard(message))


def _addresses(members: list[SerfMember]) -> dict[str, str]:
    """Name -> HOST:PORT of those whose tag can be read."""
    return dict(filter(None, map(tagged_node, members)))
