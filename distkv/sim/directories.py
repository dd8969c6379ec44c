"""The directories of a network whose nodes had all joined and were stopped, without the time that this takes.

Knows: what such a directory has.  Does not know what becomes of the network.
"""

from __future__ import annotations

from distkv.core.ready import JoinerAsked
from distkv.sim.fleet import Fleet
from distkv.wire.message import CeilingRecord, EventRecord, LifeRecord, SnapshotHead


def prepare_directories(fleet: Fleet, count: int) -> None:
    """So many directories of one network, as they are when all had joined and were stopped."""
    first = "n0"
    host = fleet.start(first, init="root", alone=True, up=False)
    lives: dict[str, int] = {}
    for number in range(1, count):
        other = fleet.host(f"n{number}")
        reply = fleet.step(first, JoinerAsked(other.node, host.clock.wall(fleet.now_ms), other.addr)).reply
        if isinstance(reply, SnapshotHead):
            lives[other.name] = reply.life
    fleet.end(host)
    records = [record for record in host.disk.read() if isinstance(record, EventRecord | CeilingRecord)]
    for name, life in lives.items():
        other = fleet.hosts[name]
        other.disk.open()
        other.disk.append([*records, LifeRecord(other.node, life)])
        other.disk.take_off()
        other.disk.land()
        other.disk.kill(fleet.rng)
