"""kill -9 at random moments under load, with the settler at work: nothing acknowledged is lost, nothing is there twice.

Knows: what was answered, what the data directory holds, and that the archive's WAL grows while the settler writes.
Does not know what it writes.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from statistics import median

import pytest

from distkv.model.event import Link
from distkv.storage.archive import ARCHIVE_NAME, open_archive
from distkv.storage.archive_rows import HistoryRow
from tests.process.load import Content, Load, get_many
from tests.process.servers import Server, Servers, wait_until
from tests.profiles import seeds

KILLS = 12
"""Of each server, at moments of its own."""
VALUE_BYTES = 1000
"""Some ten thousand of these fill a segment of the log."""
TOPS = 2
"""The loads write over each other in turn."""
READY_S = 150.0
"""Half of the starts take less, however long the log is and however busy the machine; 0.5 s is usual."""
SEGMENTS_MAX = 3
"""Once all is settled. Until then kills while it settles let the log grow: it has what was not settled."""


def history(server: Server) -> list[HistoryRow]:
    """What the archive of a server that does not run has of its own events."""
    archive = open_archive(str(server.data_dir / ARCHIVE_NAME))
    try:
        return archive.past.by_ticks(server.name, 0, 1 << 62, 1 << 62)
    finally:
        archive.close()


def load_and_kill(server: Server, top: str, chance: random.Random, *, while_settling: bool) -> Load:
    """Write as fast as it goes, and kill the server: when the archive is being written, or at a moment nobody chose."""
    depth, writes_max = chance.choice([(1, 200), (30, 1500), (300, 4000)])
    count = chance.randrange(1, writes_max)
    archive = server.data_dir / f"{ARCHIVE_NAME}-wal"
    with Load(server, top, depth=depth, value_bytes=VALUE_BYTES) as load:
        if while_settling:
            before = archive.stat().st_mtime_ns
            wait_until(lambda: archive.stat().st_mtime_ns != before, "the settler writes", 30)
        else:
            wait_until(lambda: len(load.acknowledged) >= count, f"{count} writes are answered", 30)
        server.kill()
    return load


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_server_killed_again_and_again_under_load_loses_nothing_and_repeats_nothing(
    seed: int, servers: Servers, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(seed)
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    values: dict[str, object] = {}
    events: dict[Link, Content] = {}
    starts_s: list[float] = []
    settled = {server.storage()["settled_lsn"]}
    for number in range(KILLS):
        load = load_and_kill(server, f"t{number % TOPS}", chance, while_settling=number % 5 == 0)
        values |= load.acknowledged
        assert not events.keys() & load.events.keys(), "a tick was used twice"
        events |= load.events
        began = time.monotonic()
        server.start("--transport", "solo").wait_ready()
        starts_s.append(time.monotonic() - began)
        assert get_many(server, load.acknowledged) == load.acknowledged
        settled.add(server.storage()["settled_lsn"])
    told = f"{KILLS} kills, {len(events)} writes answered, {len(settled)} places settled up to"
    record_property("told", f"{told}; ready again after {median(starts_s):.2f} s, at most {max(starts_s):.2f} s")
    assert median(starts_s) < READY_S
    server.wait_settled()
    assert server.storage()["log_segments"] <= SEGMENTS_MAX
    assert get_many(server, values) == values
    assert server.terminate() == 0
    rows = Counter((row.node, row.tick) for row in history(server))
    assert rows.keys() >= events.keys()
    assert max(rows.values()) == 1


def test_server_that_ends_cleanly_leaves_nothing_to_replay(servers: Servers) -> None:
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    with Load(server, "t") as load:
        wait_until(lambda: len(load.acknowledged) > 1000, "the load is under way")
    assert server.terminate() == 0
    server.start("--transport", "solo").wait_ready()
    assert "replayed=0" in server.errors.rpartition("loaded ")[2]
    assert get_many(server, load.acknowledged) == load.acknowledged


def test_segments_of_the_log_go_when_they_are_settled(servers: Servers) -> None:
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    with Load(server, "t", value_bytes=80_000) as load:
        wait_until(lambda: len(load.acknowledged) > 1000, "eighty megabytes are written", 60)
    server.wait_settled()
    assert server.storage()["log_segments"] <= 2
    assert len(list(server.data_dir.glob("segment-*"))) <= 3
