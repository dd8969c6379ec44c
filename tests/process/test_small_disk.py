"""A real file system runs full under a node: writes are refused, reads go on, and nothing that was answered is lost.

Knows: how to fill a small file system, and to make room.  Does not know segments or archives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from distkv.errors import NoSpaceError
from distkv.model.path import Path as Name
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.process.load import Wire, get_many
from tests.process.mounts import small_file_system
from tests.process.servers import Server, Servers, wait_until

DISK_MIB = 208
BALLAST_MIB = 160
"""What somebody else keeps there, and removes. Beside it there is room for two segments and a small archive."""
VALUE_BYTES = 4000
DEPTH = 50
OPTIONS = ("--transport", "solo")


@attrs.define
class SmallDisk:
    """A server whose data lies on a file system of its own, beside a file of somebody else."""

    server: Server
    ballast: Path
    answered: dict[str, object] = attrs.field(factory=dict)

    def fill(self) -> None:
        """Write new values until one is refused for want of space."""
        with Wire(self.server) as wire:
            for begin in itertools.count(len(self.answered), DEPTH):
                values = {f"fill.n{number}": f"{number} {'x' * VALUE_BYTES}" for number in range(begin, begin + DEPTH)}
                requests = [SetValue(wire.next_seq(), Name.parse(path), pack_value(values[path])) for path in values]
                try:
                    for path, _ in zip(values, wire.ask(requests), strict=True):
                        self.answered[path] = values[path]
                except NoSpaceError:
                    return

    def has_all(self) -> bool:
        return get_many(self.server, self.answered) == self.answered

    def has_settled(self) -> bool:
        return self.server.storage()["unsettled"] == 0

    def takes_writes(self) -> bool:
        """An error of ours counts as not yet, see `wait_until`."""
        with self.server.client() as client:
            client.set("after", "space")
        return True


@pytest.fixture
def disk(servers: Servers) -> Iterator[SmallDisk]:
    with open_disk(servers, DISK_MIB, BALLAST_MIB) as found:
        yield found


@contextmanager
def open_disk(servers: Servers, disk_mib: int, ballast_mib: int) -> Iterator[SmallDisk]:
    """A ready server on a small disk."""
    server = servers.add("solo")
    server.data_dir.mkdir()
    with small_file_system(server.data_dir, disk_mib) as disk:
        ballast = disk.seen_from_here / "ballast"
        ballast.write_bytes(bytes(ballast_mib << 20))
        server.program = (*disk.entering, *server.program)
        try:
            server.start(*OPTIONS, "--init", "hello").wait_ready()
            yield SmallDisk(server, ballast)
        finally:
            server.kill()


@pytest.mark.slow
def test_full_disk_refuses_writes_and_loses_nothing_and_space_brings_them_back(disk: SmallDisk) -> None:
    server = disk.server
    disk.fill()
    assert len(disk.answered) > 1000
    assert disk.has_all()
    ran = server.run("set", "more", "x" * 100_000)
    assert (ran.code, "disk is full, nothing was changed" in ran.err) == (1, True)
    wait_until(lambda: "not_settled" in server.errors, "the archive meets the full disk, too", 60, server.dump)
    assert disk.has_all()

    server.kill()
    server.start(*OPTIONS).wait_ready()
    assert disk.has_all(), "after kill -9 and a start on the full disk"

    disk.ballast.unlink()
    wait_until(disk.takes_writes, "writes are taken again", 60, server.dump)
    wait_until(disk.has_settled, "the archive has all", 60, server.dump)
    assert disk.has_all()
    assert server.terminate() == 0
    server.start(*OPTIONS).wait_ready()
    assert disk.has_all(), "after a clean end, from the archive"
    assert server.run("get", "after").text == "space\n"


@pytest.mark.slow
@pytest.mark.parametrize(("disk_mib", "freed_mib"), [(72, 24), (104, 56)])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_archive_takes_as_much_as_the_freed_space_holds(
    servers: Servers, disk_mib: int, freed_mib: int, is_restarted: bool
) -> None:
    # The log has 32 MiB by then, for which the archive wants nearly three times as much: never all at once.
    with open_disk(servers, disk_mib, freed_mib) as disk:
        server = disk.server
        disk.fill()
        wait_until(lambda: "not_settled" in server.errors, "the archive meets the full disk", 60, server.dump)
        if is_restarted:
            server.kill()
            server.start(*OPTIONS).wait_ready()
        before = server.storage()
        disk.ballast.unlink()
        wait_until(lambda: server.storage()["settled_lsn"] > before["settled_lsn"], "it goes on", 60, server.dump)
        server.kill()
        server.start(*OPTIONS).wait_ready()
        assert disk.has_all(), "from the archive and the log"
