"""Real nodes whose disks rot: what is damaged is refused in a line, or comes back from the two intact ones beside.

Knows: what clients see, and what an operator does who follows the line.  Does not know how damage is found; the many
kinds and places of it are tried in one process (`tests.property.damage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import attrs
import pytest

from distkv.storage.archive import ARCHIVE_NAME
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import events_of, get_many, set_many
from tests.process.servers import Server
from tests.property.damage_kinds import KINDS

HEAL_S = 60
PATHS = [f"{top}.n{number}" for top in "abc" for number in range(60)]


@attrs.define
class Fleet:
    """Three nodes, and what was written to them."""

    cluster: Cluster
    older: list[bytes]
    """What the archive of c was once."""
    turn: int = 0
    written: dict[str, set[str]] = attrs.field(factory=lambda: {path: set() for path in PATHS})
    """All that a path ever held."""
    values: dict[str, str] = attrs.field(factory=dict)

    def write(self) -> None:
        """Something else to a third of all paths."""
        self.turn += 1
        for top, server in zip("abc", self.cluster, strict=True):
            some = {path: f"{path} {self.turn} {'x' * 100}" for path in PATHS[self.turn % 3 :: 3] if path[0] == top}
            set_many(server, some)
            self.values |= some
            for path, value in some.items():
                self.written[path].add(value)
        self.cluster.wait_equal(30)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Every test leaves all three running and equal."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        found = Fleet(cluster, [])
        for _ in range(3):
            found.write()
        cluster["c"].terminate()
        found.older.append((cluster["c"].data_dir / ARCHIVE_NAME).read_bytes())
        cluster.start("c")
        for _ in range(3):
            found.write()
        yield found


def _start_damaged(fleet: Fleet, said_before: int) -> None:
    """Start c, as often as a service manager would; when it is refused, empty, as the line says that it may be."""
    server = fleet.cluster["c"]
    try:
        if not server.is_running:
            server.start().wait_ready(HEAL_S)
        fleet.cluster.wait(lambda: not server.is_running or _are_equal(fleet), "c has healed, or ended", HEAL_S)
        if server.is_running:
            return
        assert server.wait_end() == 1
    except ChildProcessError:
        pass
    _check_refusal(server, said_before)
    server.data_dir.rename(server.directory / f"aside-{fleet.turn}")
    server.start().wait_ready(HEAL_S)
    fleet.cluster.wait_equal(HEAL_S)


def _are_equal(fleet: Fleet) -> bool:
    states = [server.state() for server in fleet.cluster]
    return all(
        (state["digest"], state["held"]) == (states[0]["digest"], states[0]["held"]) and not state["missing"]
        for state in states
    )


def _check_refusal(server: Server, said_before: int) -> None:
    """The last line tells people what to do, and is the only one of its kind."""
    lines = [line for line in server.errors[said_before:].splitlines() if line.startswith("distkv: ")]
    assert len(lines) == 1, server.errors[said_before:]
    assert "damaged" in lines[0]


def _check_history(server: Server, written: Mapping[str, set[str]]) -> None:
    with server.client() as client:
        for path in PATHS[::20]:
            told = {past.value for past in client.history(path)} - {None}
            assert told <= written[path]


def _check_whole(fleet: Fleet, before: Mapping[object, object]) -> None:
    """All values are the last ones on all three, and what the intact ones held they still hold."""
    for server in fleet.cluster:
        assert get_many(server, PATHS) == fleet.values
    for server in fleet.cluster.others("c"):
        after = events_of(server)
        lost = {link: event for link, event in before.items() if after.get(link) != event}
        assert all(event[0].is_reserved for event in lost.values())
        _check_history(server, fleet.written)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_disk_of_a_killed_server_is_refused_or_heals(fleet: Fleet, kind: str) -> None:
    server = fleet.cluster["c"]
    fleet.write()
    before = events_of(fleet.cluster["a"])
    said_before = len(server.errors)
    if fleet.turn % 2:
        server.terminate()
    else:
        server.kill()
    place = KINDS[kind][0](Random(f"12 {kind}"), server.data_dir, fleet.older)
    assert place
    _start_damaged(fleet, said_before)
    _check_whole(fleet, before)


@pytest.mark.slow
def test_rows_that_rot_under_a_running_server_are_found_by_a_look_and_written_anew(fleet: Fleet) -> None:
    server = fleet.cluster["c"]
    server.wait_settled()
    before = events_of(fleet.cluster["a"])
    said_before = len(server.errors)
    for seed in range(4):
        assert KINDS["flip_row"][0](Random(seed), server.data_dir, fleet.older)
    ran = server.run("scrub", "--fast")
    assert ran.code == 0, ran.err
    assert "damaged: " in ran.text
    assert "row_damaged" in server.errors[said_before:]
    server.terminate()
    _start_damaged(fleet, said_before)
    _check_whole(fleet, before)
