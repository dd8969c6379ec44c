"""The node's view of itself and of the others.

Knows: what `get_state` shows.  Does not know how it came about.

Invariant: answered in every state, and nothing in it is a guess: what is not known is absent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import attrs

from distkv.core.bounds import ObservedBounds
from distkv.core.ground.machine import Setting
from distkv.core.ground.service import mounted
from distkv.core.ready import CoreSettings
from distkv.core.replica import Replica
from distkv.core.server_tree.machine import ServerTree
from distkv.engine.driver import Driver
from distkv.model.event import NodeName
from distkv.model.tick_ranges import TickRanges
from distkv.services import damage
from distkv.wire.declared import fields_of
from distkv.wire.node_requests import GetState
from distkv.wire.replies import encode_reply


def get_state(driver: Driver, request: GetState) -> bytes:
    """The reply to `get_state` (docs: client protocol)."""
    replica = driver.replica
    ledger = replica.tree.ledger
    committer = driver.committer
    fields: dict[str, object] = {
        "node": replica.name,
        "addr": replica.settings.addr,
        "time": time.time(),
        "state": replica.state_at(driver.now_ms()).value,
        "network": replica.network_id.hex() if replica.network_id is not None else None,
        "life": replica.life or 0,
        "tick": replica.tick,
        "tock": replica.tock,
        "digest": f"{replica.tree.digest:016x}",
        "entries": replica.tree.live_count,
        "nodes": {name: ticks[-1] for name, ticks in ledger.ticks().items()},
        "held": _shown(ledger.held()),
        "missing": _shown(ledger.missing()),
        "lost": _shown(ledger.lost()),
        "conflicts": replica.tree.conflict_count,
        "members": _members(replica, driver.now_ms()),
        "settings": _settings(replica.settings) | _service_settings(replica),
        "pings": _pings(replica.bounds),
        "transport": driver.transport.statistics() if driver.transport is not None else {"kind": "solo"},
        "storage": driver.settler.statistics() if driver.settler is not None else {},
        "links": _links(driver),
        "tree": _tree(replica.server_tree, driver.now_ms()),
        **_services(replica),
        "failed": _failed(driver),
        "aside": driver.aside.state(),
        "scrub": damage.scrub_state(driver),
        "counters": {
            **dict(sorted(driver.counters.items())),
            **attrs.asdict(replica.deliveries),
            **(replica.server_tree.statistics() if replica.server_tree is not None else {}),
            "commits_inline": committer.inline_count,
            "commits_on_thread": committer.thread_count,
            "watchers": driver.hub.count,
            "event_waits": driver.arrivals.count,
            "followers": driver.hub.followers.count,
            "tombstones": replica.tree.tombstone_count,
            "tombstones_due": replica.tombstones_due,
            "traces": len(driver.tracing.listeners),
        },
    }
    if replica.waits_for:
        fields["waits_for"] = _waits_for(driver)
    return encode_reply(request.seq, fields)


def _waits_for(driver: Driver) -> str:
    """What a node waits for that is not ready; and why it hears nobody, if the transport knows."""
    told = {} if driver.transport is None else driver.transport.statistics()
    reason = told.get("reason", "") if told.get("kind") == "swim" else ""
    return f"{driver.replica.waits_for}; {reason}" if reason else driver.replica.waits_for


def _failed(driver: Driver) -> list[str]:
    """What is off until the next start, or tried again and again in vain."""
    is_settling = driver.settler is None or not driver.settler.has_failed
    return sorted(driver.replica.failed_services) + ([] if is_settling else ["settling"])


def _links(driver: Driver) -> list[dict[str, object]]:
    """Our own connection to each other registered node, and what went between the two."""
    replica = driver.replica
    missing = {name: len(ticks) for name, ticks in replica.tree.ledger.missing(but_lost=True).items()}
    peers = replica.peers(driver.now_ms())
    found = []
    for name, registered in sorted(replica.registry.nodes.items()):
        if name != replica.name:
            addr = peers[name][0] if name in peers else ""  # the one that is dialled
            addr = addr or registered.addr
            found.append({"node": name, "addr": addr, **_link(driver, name, addr, missing)})
    return found


def _link(driver: Driver, name: NodeName, addr: str, missing: Mapping[NodeName, int]) -> dict[str, object]:
    traffic, parent = driver.traffic(name), driver.replica.following.parents.get(name)
    found: dict[str, object] = {}
    writers = frozenset[NodeName]()
    lent_for = driver.loans.reason(addr) if driver.loans is not None else None
    if parent is not None and parent.is_up:
        writers = parent.writers
        found |= {"state": "up", "writers": sorted(writers)}
        if traffic.rtt_ms is not None:
            found["rtt_ms"] = round(traffic.rtt_ms, 3)
        if lent_for is not None:
            found |= {"lent": True, "reason": lent_for}
    else:
        found["state"] = "down"
        if parent is not None and parent.reason:
            found["reason"] = parent.reason
    behind = sum(missing.get(writer, 0) for writer in {name, *writers})
    return {**found, "events_in": traffic.events_in, "events_out": traffic.events_out, "behind": behind}


def _tree(tree: ServerTree | None, now_ms: int) -> dict[str, object]:
    """Our place in the server tree, and what all in it announce; nothing where there is no transport."""
    if tree is None:
        return {}
    return {
        "phase": tree.phase.value,
        "parent": tree.parent,
        "level": tree.level,
        "path": tree.path,
        "root": tree.path[-1] if tree.path else None,
        "children": tree.children,
        "apart": tree.apart(now_ms),
        "announced": {name: fields_of(what) for name, what in sorted(tree.announced.items())},
    }


def _members(replica: Replica, now_ms: int) -> list[dict[str, str]]:
    """The other nodes, by name: those that are retired, whoever is registered, and strangers while they are heard."""
    peers, retired = replica.peers(now_ms), replica.retired()
    found = {name: (replica.addr_of(name), "retired") for name in retired}
    found |= {name: (addr, "alive" if is_alive else "away") for name, (addr, is_alive) in peers.items()}
    return [{"node": name, "addr": addr, "state": state} for name, (addr, state) in sorted(found.items())]


def _settings(settings: CoreSettings) -> dict[str, Setting]:
    """Those that all nodes should have alike, by their keys in the configuration."""
    return {
        "ping.clock": settings.clock_ms / 1000,
        "ping.length": settings.ping_length,
        "chain.length": settings.chain_length_max,
    }


def _services(replica: Replica) -> dict[str, object]:
    """Of each service what it shows; of one that is left out, or failed, nothing."""
    working = {name: machine for name, machine in replica.services.items() if name not in replica.failed_services}
    return {service.name: {} for service in mounted()} | {
        name: machine.statistics() for name, machine in working.items()
    }


def _service_settings(replica: Replica) -> dict[str, Setting]:
    """Those that all nodes should have alike, too."""
    found: dict[str, Setting] = {}
    for service in mounted():
        machine = replica.services.get(service.name)
        found |= service.alike_off if machine is None else machine.alike()
    return found


def _pings(seen: ObservedBounds) -> dict[str, object]:
    """Seconds, as all times for people."""
    found: dict[str, object] = {"partitions": seen.partitions}
    if seen.delivery_ms is not None:
        found["delivery"] = [ms / 1000 for ms in seen.delivery_ms]
    return found


def _shown(ranges: TickRanges) -> dict[str, list[int | list[int]]]:
    return {name: found.to_list() for name, found in ranges.items()}
