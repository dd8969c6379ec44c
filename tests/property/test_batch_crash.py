"""A disk that crashes at every operation while batches and deletions run: each is there whole or not at all.

Knows: `batch` and `delete_tree` promise it (docs: client protocol).  Does not know how the log keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import trio

from distkv.model.path import Path
from distkv.storage.log import open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, Tear, keep_all, keep_none, tear_at, tear_by_sectors
from tests.node.nodes import SEGMENT_BYTES, Client, Reply, new_world, replayed, run

TEARS: list[Tear] = [keep_none, keep_all, tear_at(20), tear_at(700), tear_at(-1), tear_by_sectors(lambda s: s % 2 == 0)]
SIZE = 30
ROUNDS = 3


@attrs.define
class Run:
    """What a run left."""

    disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    answered: list[str] = attrs.field(factory=list)
    """`set N` and `delete N`, as far as they were answered."""


def frame(client: Client, what: str, number: int) -> bytes:
    if what == "delete":
        return client.frame("delete_tree", path=[f"t{number}"])
    ops = [{"action": "set_value", "path": [f"t{number}", i], "value": "x" * 40} for i in range(SIZE)]
    return client.frame("batch", ops=ops)


async def load(client: Client, answered: list[str]) -> None:
    """Batches, each of a subtree of its own; every second one is deleted again. All leave in one send."""
    steps = [("set", number) for number in range(ROUNDS)] + [("delete", number) for number in range(0, ROUNDS, 2)]
    await client.receive()
    await client.stream.send_all(b"".join(frame(client, *step) for step in steps))
    for what, number in steps:
        reply: Reply | None = await client.receive()
        if reply is None:
            return
        assert "error" not in reply
        answered.append(f"{what} {number}")


def crash(crash_at: int | None) -> Run:
    found = Run()
    found.disk.faults.crash_at = crash_at

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = await new_world(nursery).start("a", init=1, solo=True, disk=found.disk)
            if node.is_running:
                try:
                    async with node.client() as client:
                        with trio.move_on_after(20):
                            await load(client, found.answered)
                except (trio.BrokenResourceError, trio.ClosedResourceError, DiskCrashed):
                    await node.ended.wait()
            nursery.cancel_scope.cancel()

    run(main)
    return found


def counts(disk: MemoryDisk) -> Iterator[tuple[int, int]]:
    """Per subtree how many paths were ever written, and how many have a value."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    tree = replayed("a", log).tree
    log.close()
    for number in range(ROUNDS):
        entries = [tree.get(Path([f"t{number}", i])) for i in range(SIZE)]
        yield sum(entry is not None for entry in entries), sum(entry is not None and entry.is_live for entry in entries)


def check(after: Run, disk: MemoryDisk) -> None:
    for number, (written, live) in enumerate(counts(disk)):
        assert written in (0, SIZE), f"of batch {number} the disk has {written} of {SIZE} changes"
        assert live in (0, written), f"of deletion {number} the disk has {written - live} of {written} changes"
        if f"set {number}" in after.answered:
            assert written == SIZE
        if f"delete {number}" in after.answered:
            assert live == 0


def test_batches_and_deletions_survive_a_crash_whole_or_not_at_all() -> None:
    whole = crash(None)
    assert len(whole.answered) == ROUNDS + (ROUNDS + 1) // 2, "the load was not carried"
    assert list(counts(whole.disk.after_kill())) == [(SIZE, 0), (SIZE, SIZE), (SIZE, 0)]
    partly = 0
    for crash_at in range(whole.disk.faults.operations):
        after = crash(crash_at)
        for tear in TEARS:
            check(after, after.disk.after_power_loss(tear))
        check(after, after.disk.after_kill())
        partly += 0 < len(after.answered) < len(whole.answered)
    assert partly, "no crash came between two batches"
