"""A whole node, out and in: what comes back is the node as of the backup, in a new life."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from shutil import rmtree

import pytest

from distkv.model.event import COUNT_BITS
from distkv.wire.asking import encode_request
from distkv.wire.node_requests import Backup
from distkv.wire.replies import is_start
from tests.process.cluster import open_cluster
from tests.process.load import Wire, get_many, set_many
from tests.process.servers import Server, Servers, wait_until

SOLO = ("--transport", "solo")


@pytest.fixture
def solo(servers: Servers) -> Server:
    server = servers.start("solo", *SOLO, "--init", "hello")
    server.wait_ready()
    return server


def test_node_restored_from_a_backup_has_its_values_and_history_and_repeats_no_tick(
    servers: Servers, solo: Server
) -> None:
    with solo.client() as client:
        client.set("a", 1)
        client.set("a", 2)
        file = str(solo.directory / "saved")
        assert solo.run("backup", "-f", file).code == 0
        after = client.set("a", 3).link
    assert [path.name for path in solo.data_dir.glob("backup*")] == []
    solo.kill()
    solo.data_dir.rename(solo.directory / "old")
    ran = servers.run("restore", "-f", file, "--data-dir", str(solo.data_dir))
    assert ran.code == 0
    assert "new life" in ran.text
    solo.start(*SOLO).wait_ready()
    with solo.client() as client:
        entry = client.get("a")
        assert entry is not None
        assert entry.value == 2
        assert [past.value for past in client.history("a")] == [2, 1]
        link = client.set("a", 4).link
        assert link is not None
        assert after is not None
        assert link[1] > after[1]
        assert link[1] >> COUNT_BITS > after[1] >> COUNT_BITS
        life = client.state()["life"]
    solo.wait_settled()
    solo.terminate()
    solo.start(*SOLO).wait_ready()
    assert solo.state()["life"] == life


def test_second_backup_at_the_same_time_is_refused_and_a_broken_one_leaves_nothing(solo: Server) -> None:
    with solo.client() as client:
        for number in range(24):  # more than the socket takes while nobody reads
            client.set(f"a.n{number}", b"x" * 500_000)
    with Wire(solo) as wire:
        wire.send(encode_request(Backup(wire.next_seq())))
        assert is_start(wire.receive() or {})
        ran = solo.run("backup", "-f", str(solo.directory / "saved"))
        assert ran.code != 0
        assert "backup is being made" in ran.err
        assert list(solo.directory.glob("saved*")) == []
    wait_until(lambda: not list(solo.data_dir.glob("backup*")), "the copy is gone")
    assert solo.run("backup", "-f", str(solo.directory / "saved")).code == 0


def test_backup_goes_through_pipes_and_comes_back(servers: Servers, solo: Server) -> None:
    with solo.client() as client:
        client.set("a", 1)
    ran = solo.run("backup", "-f", "-")
    assert (ran.code, ran.err) == (0, "")
    solo.kill()
    solo.data_dir.rename(solo.directory / "old")
    assert servers.run("restore", "-f", "-", "--data-dir", str(solo.data_dir), stdin=ran.out).code == 0
    solo.start(*SOLO).wait_ready()
    assert solo.run("get", "a").text == "1\n"


def test_no_backup_goes_to_a_terminal(solo: Server) -> None:
    terminal, end = pty.openpty()
    command = [*solo.program, "client", "-p", str(solo.port), "backup", "-f", "-"]
    ran = subprocess.run(command, env=dict(solo.environment), stdout=end, stderr=subprocess.PIPE, check=False)
    os.close(terminal)
    os.close(end)
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"distkv: a backup is no text for a terminal")


def test_backup_that_came_in_part_is_not_restored(servers: Servers, solo: Server) -> None:
    with solo.client() as client:
        for number in range(50):
            client.set(f"a.n{number}", "x" * 1000)
    whole = solo.run("backup", "-f", "-").out
    for size in (0, 5000, len(whole) // 2, len(whole) - 1):
        place = solo.directory / f"new{size}"
        ran = servers.run("restore", "-f", "-", "--data-dir", str(place), stdin=whole[:size])
        assert ran.code == 1, size
        assert ran.err.startswith("distkv: standard input ")
        assert not place.exists()


def test_backup_never_overwrites(solo: Server) -> None:
    file = solo.directory / "saved"
    file.write_text("mine")
    assert solo.run("backup", "-f", str(file)).code == 4
    assert file.read_text() == "mine"


def test_place_that_cannot_be_written_is_named_as_it_was_given(servers: Servers, solo: Server) -> None:
    file, nowhere = solo.directory / "saved", solo.directory / "nowhere" / "saved"
    ran = solo.run("backup", "-f", str(nowhere))
    assert (ran.code, ran.err) == (2, f"distkv: {nowhere}: No such file or directory\n")
    assert solo.run("backup", "-f", str(file)).code == 0
    ran = servers.run("restore", "-f", str(file), "--data-dir", "/proc/saved")
    assert (ran.code, ran.err) == (2, "distkv: /proc/saved: No such file or directory\n")
    ran = servers.run("restore", "-f", str(nowhere), "--data-dir", str(solo.directory / "new"))
    assert (ran.code, ran.err) == (2, f"distkv: {nowhere}: No such file or directory\n")


def test_restored_node_is_told_as_json(servers: Servers, solo: Server) -> None:
    file, place = solo.directory / "saved", solo.directory / "new"
    assert solo.run("backup", "-f", str(file)).code == 0
    ran = servers.run("restore", "-f", str(file), "--data-dir", str(place), "-o", "json")
    assert json.loads(ran.out) == {"node": "solo", "data_dir": str(place)}


def test_restore_refuses_what_is_there_and_what_is_no_backup(servers: Servers, solo: Server) -> None:
    file = solo.directory / "saved"
    assert solo.run("backup", "-f", str(file)).code == 0
    ran = servers.run("restore", "-f", str(file), "--data-dir", str(solo.data_dir))
    assert ran.code == 4
    assert "not empty" in ran.err
    other = solo.directory / "other"
    file.write_text("this is no backup" * 1000)
    ran = servers.run("restore", "-f", str(file), "--data-dir", str(other))
    what = f"{file} is damaged, not whole, or no backup"
    told = f"{what}: name what 'distkv client backup' wrote (with --unsealed if an earlier release did)"
    assert (ran.code, ran.err) == (1, f"distkv: {told}\n")
    assert not other.exists()
    assert list(solo.directory.glob("other*")) == []


def test_restored_node_of_a_network_gets_back_what_it_wrote_since_and_goes_on_in_a_new_life(tmp_path: Path) -> None:
    with open_cluster(tmp_path / "cluster", "ab") as cluster:
        node, file = cluster["b"], str(tmp_path / "saved")
        before = {f"before.n{number}": number for number in range(300)}
        set_many(node, before)
        assert node.run("backup", "-f", file).code == 0
        since = {f"since.n{number}": number for number in range(300)}
        set_many(node, since)
        cluster.wait_equal(20)
        old = node.state()
        node.kill()
        rmtree(node.data_dir)
        assert cluster.servers.run("restore", "-f", file, "--data-dir", str(node.data_dir)).code == 0
        cluster.start("b")
        after = {f"after.n{number}": number for number in range(300)}
        set_many(node, after)
        cluster.wait_equal(20)
        written = before | since | after
        for server in cluster:
            assert get_many(server, written) == written
        assert int(str(node.state()["life"])) > int(str(old["life"]))
        counters = cluster["a"].state()["counters"]
        assert isinstance(counters, dict)
        assert "two_contents" not in counters
