"""A disk that crashes at every operation while a service keeps things: of each step all slots are there, or none, and
each row of data of which it has said so (docs/protocol, SLOT-1).

Knows: the echo, which keeps one count under two keys in a step.  Does not know how the log keeps that.
"""

from __future__ import annotations

from functools import partial

import attrs
import trio

from distkv.core.ready import ServiceResult
from distkv.errors import DistkvError
from distkv.storage.log import open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk
from tests.node.nodes import SEGMENT_BYTES, new_world, replayed, run
from tests.proof.core.echo.machine import ECHO, Echo
from tests.proof.wire.echo import EchoKeep
from tests.property.test_batch_crash import TEARS

ROUNDS = 4


@attrs.define
class Run:
    """What a run left."""

    disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    answered: list[int] = attrs.field(factory=list)
    """How many counts were decided before each answer."""

    rows: list[int] = attrs.field(factory=list)
    """The numbers of the rows whose keeping was answered."""

    def note_row(self, number: int, _: ServiceResult) -> None:
        self.rows.append(number)

    def note(self, count: int, _: ServiceResult) -> None:
        self.answered.append(count)


def crash(crash_at: int | None) -> Run:
    found = Run()
    found.disk.faults.crash_at = crash_at

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = await new_world(nursery).start("a", init=1, solo=True, disk=found.disk, services={ECHO: Echo()})
            if node.is_running:
                driver = node.driver
                try:
                    await driver.wait_ready()
                    for number in range(ROUNDS):
                        driver.services.ask(ECHO, {"to": "b"}, lambda _: None)
                        driver.services.ask(ECHO, EchoKeep(1, f"row {number}", "kept"), partial(found.note_row, number))
                        driver.services.ask(ECHO, {}, partial(found.note, number + 1))
                        driver.commit()
                        await trio.sleep(1)
                except (DiskCrashed, DistkvError):
                    await node.ended.wait()
            nursery.cancel_scope.cancel()

    run(main)
    return found


def check(after: Run, disk: MemoryDisk) -> None:
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    replica = replayed("a", log)
    slots, rows = replica.store.slots.get(ECHO, {}), replica.store.data.of(ECHO)
    log.close()
    assert {f"row {number}" for number in after.rows} <= {*rows.keys()}
    assert {value for _, value in rows.items()} <= {b"kept"}
    assert [*rows.keys()] == [f"row {number}" for number in range(len(rows))]
    assert slots.get("count") == slots.get("asked")
    assert int(slots.get("count", b"0")) >= max(after.answered, default=0)


def test_slots_of_a_step_survive_a_crash_all_or_none() -> None:
    whole = crash(None)
    assert whole.answered == [*range(1, ROUNDS + 1)]
    check(whole, whole.disk.after_kill())
    partly = 0
    for crash_at in range(whole.disk.faults.operations):
        after = crash(crash_at)
        for tear in TEARS:
            check(after, after.disk.after_power_loss(tear))
        check(after, after.disk.after_kill())
        partly += 0 < len(after.answered) < ROUNDS
    assert partly, "no crash came between two steps"
