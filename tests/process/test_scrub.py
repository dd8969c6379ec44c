"""`distkv client scrub` on a real server: what it prints, and that what rotted is mended.

Knows: how a row rots.  Does not know how it is found.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from distkv.errors import DamagedError
from tests.process.rotten import rot
from tests.process.servers import Server, Servers, wait_until

SOLO = ("--transport", "solo")


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A node alone, with two changes of `kitchen` that are settled."""
    server = servers.start("solo", *SOLO, "--init", "hello")
    server.wait_ready()
    with server.client() as client:
        client.set("kitchen", 20)
        client.set("kitchen", 21)
        wait_until(lambda: client.state()["storage"]["history_rows"] == 5, "all is settled")  # type: ignore[index]
    return server


def scrub(servers: Servers, server: Server, *arguments: str) -> str:
    ran = servers.run("client", "-p", str(server.port), "scrub", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return ran.text


def test_intact_disk_is_one_line_and_one_object(servers: Servers, solo: Server) -> None:
    assert scrub(servers, solo).endswith(" s, nothing damaged\n")
    found = json.loads(scrub(servers, solo, "--fast", "-o", "json"))
    assert set(found) == {"begun", "ended", "rows", "damaged", "places", "lost", "dropped"}
    assert (found["damaged"], found["lost"]) == (0, [])


def test_value_that_rots_under_a_running_server_is_written_anew(servers: Servers, solo: Server) -> None:
    rot(solo, "state", "kitchen")
    assert "1 damaged: state, row" in scrub(servers, solo)
    assert "row_damaged" in solo.errors
    assert solo.terminate() == 0
    solo.start(*SOLO).wait_ready()
    with solo.client() as client:
        assert client.get("kitchen").value == 21
        assert client.state()["scrub"]["lost_count"] == 0  # type: ignore[index]


def test_line_of_the_history_that_rots_is_named_as_lost(servers: Servers, solo: Server) -> None:
    rot(solo, "history", "kitchen", "tick = 4")
    assert scrub(servers, solo).endswith("1 lost: kitchen\n")
    doctor = servers.run("doctor", solo.name, "--data-dir", str(solo.data_dir), "--bind", solo.address, *SOLO)
    assert "1 place on the disk of solo rotted and did not come back" in doctor.text


def test_start_on_a_rotten_value_goes_on_without_it_and_says_so(solo: Server) -> None:
    assert solo.terminate() == 0
    rot(solo, "state", "kitchen")
    solo.start(*SOLO).wait_ready()
    assert "row_damaged" in solo.errors
    with solo.client() as client:
        with pytest.raises(DamagedError):
            client.get("kitchen")
        assert [lost["path"] for lost in client.state()["scrub"]["lost"]] == ["kitchen"]  # type: ignore[index]
        assert solo.run("get", "kitchen", "--default", "20").code == 7
        client.set("kitchen", 22)
        assert client.state()["scrub"]["lost_count"] == 0  # type: ignore[index]


def test_page_that_cannot_be_read_ends_no_server(servers: Servers, solo: Server) -> None:
    file = solo.data_dir / "state.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'history'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(file, "r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(bytes(size))
    history = ("client", "-p", str(solo.port), "history", "kitchen")
    refused = servers.run(*history)
    assert refused.code != 0
    assert "ask another node, or run 'distkv client scrub' here" in refused.err
    with solo.client() as client:
        client.set("kitchen", 22)
        assert client.get("kitchen").value == 22
    assert "1 damaged: history, a page that cannot be read; 1 lost: history, rows 0 to " in scrub(servers, solo)
    assert "written anew soon" in solo.errors
    assert solo.terminate() == 0
    solo.start(*SOLO).wait_ready()
    assert servers.run(*history).text.endswith(" 22\n")
