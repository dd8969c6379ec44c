"""Rows of data of a service on real servers: what restarts, damage, backups, old disks and wiped ones leave of them.

Knows: servers with the echo mounted.  Does not know how rows are kept.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from distkv.storage.archive import ARCHIVE_NAME
from tests.process.cluster import Cluster, open_cluster
from tests.process.proving import PROGRAM, asked
from tests.process.servers import Server, Servers

SOLO = ("--transport", "solo")
WELL: Mapping[str, Any] = {"lost": [], "unknown": False, "old": False}


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A node alone, which keeps three rows."""
    server = servers.add("solo")
    server.program = PROGRAM
    server.start(*SOLO, "--init", "hello").wait_ready()
    keep(server, x="one", y="two", z="three")
    return server


def keep(server: Server, **rows: str) -> None:
    for name, text in rows.items():
        found = asked(server, "echo_keep", name=name, text=text)
        assert found.get("name") == name, found


def rows(server: Server) -> Mapping[str, Any]:
    found = asked(server, "echo_rows", prefix="", make_good=False)
    return {name: found[name] for name in ("rows", "lost", "unknown", "old")}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_rows_are_there_after_a_restart(solo: Server, how: signal.Signals) -> None:
    asked(solo, "echo_keep", name="y")
    if how is signal.SIGKILL:
        solo.kill()
    else:
        assert solo.terminate() == 0
    solo.start(*SOLO).wait_ready()
    assert rows(solo) == {"rows": {"x": "one", "z": "three"}, **WELL}


def test_row_that_cannot_be_kept_is_refused_in_one_line(solo: Server) -> None:
    refused = asked(solo, "echo_keep", name="x" * 2000, text="text")
    assert (refused["code"], "\n" in refused["error"]) == ("too_large", False)
    assert "Traceback" not in solo.errors
    assert len(rows(solo)["rows"]) == 3


def test_damaged_row_is_lost_alone_and_named_until_its_service_has_made_that_good(
    servers: Servers, solo: Server
) -> None:
    assert solo.terminate() == 0
    with closing(sqlite3.connect(solo.data_dir / ARCHIVE_NAME)) as connection:
        assert connection.execute("UPDATE data SET value = x'00' WHERE key = 'y'").rowcount == 1
        connection.commit()
    solo.start(*SOLO).wait_ready()
    assert "row_damaged place=data, echo: y" in solo.errors
    assert rows(solo) == {"rows": {"x": "one", "z": "three"}, **WELL, "lost": ["y"]}
    lost = solo.state()["scrub"]["lost"]  # type: ignore[index]
    assert [one["place"] for one in lost] == ["data, echo: y"]
    doctor = servers.run("doctor", solo.name, "--data-dir", str(solo.data_dir), "--bind", solo.address, *SOLO)
    assert "what is lost: data, echo: y" in doctor.text
    solo.wait_settled()
    solo.kill()
    solo.start(*SOLO).wait_ready()
    assert rows(solo)["lost"] == ["y"]
    keep(solo, y="again")
    assert rows(solo) == {"rows": {"x": "one", "y": "again", "z": "three"}, **WELL}
    assert solo.state()["scrub"]["lost"] == []  # type: ignore[index]


def test_backup_has_the_rows_and_the_service_is_told_that_they_are_old(servers: Servers, solo: Server) -> None:
    file = str(solo.directory / "saved")
    assert solo.run("backup", "-f", file).code == 0
    keep(solo, x="newer")
    solo.kill()
    rmtree(solo.data_dir)
    assert servers.run("restore", "-f", file, "--data-dir", str(solo.data_dir)).code == 0
    solo.start(*SOLO).wait_ready()
    assert rows(solo) == {"rows": {"x": "one", "y": "two", "z": "three"}, **WELL, "old": True}
    asked(solo, "echo_rows", prefix="", make_good=True)
    assert solo.terminate() == 0
    solo.start(*SOLO).wait_ready()
    assert rows(solo) == {"rows": {"x": "one", "y": "two", "z": "three"}, **WELL}


def _prove(server: Server) -> None:
    server.program = PROGRAM


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """`a` and `b`, each with the echo."""
    with open_cluster(tmp_path / "cluster", ("a", "b"), prepare={"a": _prove, "b": _prove}) as found:
        found["b"].wait_ready()
        yield found


def test_rows_stay_on_an_old_disk_over_its_download_and_a_wiped_node_has_none(cluster: Cluster) -> None:
    a, b = cluster["a"], cluster["b"]
    keep(a, x="of a")
    keep(b, x="of b", y="of b")
    assert b.terminate() == 0
    old = b.directory / "old"
    copytree(b.data_dir, old)
    b.start().wait_ready()
    keep(b, x="newer")
    with b.client() as client:
        client.set("written.by.b", 1)
    cluster.wait_equal(30)
    assert b.terminate() == 0
    rmtree(b.data_dir)
    old.rename(b.data_dir)
    b.start().wait_ready()
    cluster.wait(lambda: rows(b)["old"], "b finds out that its disk is an old one", 60)
    cluster.wait_equal(60)
    assert rows(b) == {"rows": {"x": "of b", "y": "of b"}, **WELL, "old": True}
    b.kill()
    rmtree(b.data_dir)
    b.start().wait_ready()
    cluster.wait_equal(60)
    assert rows(b) == {"rows": {}, **WELL}
    assert rows(a) == {"rows": {"x": "of a"}, **WELL}
