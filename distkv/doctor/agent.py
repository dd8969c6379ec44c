"""Asks the Serf agent how it is.

Knows: which of its answers hold the facts.  Does not judge them.

Invariant: it ends within some seconds, whatever the agent does; the agent is asked, and nothing of it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import trio

from distkv.client.addresses import address_text
from distkv.config import SerfConfig
from distkv.doctor.facts import AgentFacts, Trouble
from distkv.errors import TransportError
from distkv.transport.serf import find_event_bytes, tagged_node
from distkv.transport.serf_rpc import SerfRpc, connect
from distkv.transport.serf_stream import AuthRefusedError, RpcTimeoutError
from distkv.wire.serf_frames import SerfMember

QUEUES: Final = ("event", "intent", "query")


def ask_agent(settings: SerfConfig) -> AgentFacts:
    """What the agent says, or why it says nothing."""
    try:
        return trio.run(_ask, settings)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:  # Ctrl-C in a nursery
            raise KeyboardInterrupt from None
        raise


async def _ask(settings: SerfConfig) -> AgentFacts:
    where = address_text((settings.host, settings.port))
    async with trio.open_nursery() as nursery:
        try:
            rpc = await connect(nursery, settings.host, settings.port, auth=settings.auth)
            found = await _facts(rpc, where, settings)
        except TransportError as error:
            found = AgentFacts(where, _trouble(error), str(error))
        nursery.cancel_scope.cancel()
    return found


async def _facts(rpc: SerfRpc, where: str, settings: SerfConfig) -> AgentFacts:
    stats, members = await rpc.stats(), await rpc.members()
    event_bytes = await find_event_bytes(rpc, settings)
    serf, own_name = stats.get("serf", {}), stats.get("agent", {}).get("name")
    alive = [member for member in members if member.status == "alive"]
    carriers = _carriers(alive)
    return AgentFacts(
        where,
        protocol=next((member.protocol for member in members if member.name == own_name), 0),
        event_bytes=event_bytes,
        queues={name: _number(serf, f"{name}_queue") for name in QUEUES},
        health=_number(serf, "health_score"),
        carriers=carriers,
        alive=len(alive),
        others=len(alive) - sum(map(len, carriers.values())),
        failed=tuple(member.name for member in members if member.status == "failed"),
    )


def _carriers(alive: Iterable[SerfMember]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for member in alive:
        tagged = tagged_node(member)
        if tagged is not None:
            found[tagged[0]] = (*found.get(tagged[0], ()), member.name)
    return dict(sorted(found.items()))


def _number(section: Mapping[str, str], name: str) -> int:
    text = section.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _trouble(error: TransportError) -> Trouble:
    if isinstance(error, AuthRefusedError):
        return Trouble.KEY
    return Trouble.SILENT if isinstance(error, RpcTimeoutError) else Trouble.GONE
