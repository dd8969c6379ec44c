"""A server of the code before nodes followed each other, and one of today's: they replicate as the older one does.

Knows: which commit that was, and how to start it from this repository's history.  Does not know how changes travel.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.links import DEADLINE_S, Told, links_of, wait_value
from tests.process.servers import ROOT, Server

BEFORE_LINKS: Final = "23728360d582231739edc11ddb897cc180beb8d2"
PAIRS: Final = (("old", "new"), ("new", "old"))
"""Who wrote, and who is to know."""


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


@pytest.fixture(scope="module")
def old_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of that commit."""
    try:
        found = _git("archive", BEFORE_LINKS, "distkv")
    except FileNotFoundError:
        pytest.skip("no git on PATH, to take older code from the history: apt-get install git")
    if found.returncode:
        pytest.skip(f"no commit {BEFORE_LINKS[:7]} in the history: git fetch --unshallow")
    folder = tmp_path_factory.mktemp("old")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=found.stdout, check=True)
    return folder


def _age(server: Server, code: Path) -> None:
    """It runs this code from its next start on."""
    paths = os.pathsep.join([str(code), *server.environment["PYTHONPATH"].split(os.pathsep)])
    server.environment = {**server.environment, "PYTHONPATH": paths}


def _young(server: Server, code: Path) -> dict[str, str]:
    """Its environment without this code."""
    paths = server.environment["PYTHONPATH"].split(os.pathsep)
    return {**server.environment, "PYTHONPATH": os.pathsep.join(path for path in paths if path != str(code))}


@pytest.fixture(scope="module", params=PAIRS, ids=["old one founded it", "new one founded it"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, old_code: Path
) -> Iterator[Cluster]:
    """A network of `old` and `new`. Tests may restart both; at their end both run and hold the same."""
    prepare = {"old": lambda server: _age(server, old_code)}
    with open_cluster(tmp_path_factory.mktemp("cluster"), request.param, prepare=prepare) as found:
        yield found


def _set(cluster: Cluster, name: str, path: str, value: object) -> None:
    with cluster[name].client() as client:
        client.set(path, value)


def test_only_the_new_one_follows_and_says_why_it_cannot(cluster: Cluster) -> None:
    assert "links" not in cluster["old"].state()
    link: dict[str, Any] = cluster.wait(
        lambda: "reason" in links_of(cluster["new"])["old"] and links_of(cluster["new"])["old"], "a reason", DEADLINE_S
    )
    assert link["state"] == "down"
    assert "follow" in link["reason"]


@pytest.mark.parametrize(("writer", "reader"), PAIRS)
def test_write_on_one_is_read_on_the_other(cluster: Cluster, writer: str, reader: str) -> None:
    _set(cluster, writer, f"by.{writer}", 1)
    wait_value(cluster, reader, f"by.{writer}", 1)
    with cluster[reader].client() as client:
        client.delete(f"by.{writer}")
    cluster.wait_equal(DEADLINE_S)
    with cluster[writer].client() as client:
        assert client.get(f"by.{writer}") is None


@pytest.mark.parametrize(("writer", "reader"), PAIRS)
def test_watch_of_one_is_told_what_the_other_wrote(cluster: Cluster, writer: str, reader: str) -> None:
    path = f"watched.{writer}"
    with Told(cluster[reader], path, "last", 0) as told:
        for value in (1, 2, "last"):
            _set(cluster, writer, path, value)
            wait_value(cluster, reader, path, value)
    assert told.values == [1, 2, "last"]


@pytest.mark.parametrize(("restarted", "other"), PAIRS)
def test_both_go_on_after_one_was_killed(cluster: Cluster, restarted: str, other: str) -> None:
    _set(cluster, restarted, f"before.{restarted}", "x" * 5000)
    cluster[restarted].kill()
    for number in range(100):
        _set(cluster, other, f"meanwhile.{restarted}.{number}", number)
    cluster.start(restarted)
    wait_value(cluster, restarted, f"meanwhile.{restarted}.99", 99)
    wait_value(cluster, other, f"before.{restarted}", "x" * 5000)
    _set(cluster, restarted, f"after.{restarted}", 1)
    wait_value(cluster, other, f"after.{restarted}", 1)
    cluster.wait_equal(DEADLINE_S)


def test_directory_is_taken_over_by_the_new_code_and_refused_by_the_old(cluster: Cluster, old_code: Path) -> None:
    """There is no way back with it (docs/howto/upgrade): its archive has a format that the old code does not know."""
    old = cluster["old"]
    aged, young = old.environment, _young(old, old_code)
    _set(cluster, "old", "by.old.code", 1)
    old.terminate()
    old.environment = young
    cluster.start("old")
    cluster.wait(lambda: links_of(old)["new"]["state"] == "up", "it follows now", DEADLINE_S)
    _set(cluster, "old", "by.new.code", 1)
    _set(cluster, "new", "for.new.code", 1)
    cluster.wait_equal(DEADLINE_S)
    old.terminate()
    old.environment = aged
    old.start()
    assert old.wait_end() == 1
    assert old.errors.splitlines()[-1].endswith("start the release that wrote it")
    old.environment = young
    cluster.start("old")
    with old.client() as client:
        found = [client.get(path) for path in ("by.old.code", "by.new.code", "for.new.code")]
    assert [entry is not None and entry.value for entry in found] == [1, 1, 1]
    cluster.wait_equal(DEADLINE_S)


def test_fenced_event_is_refused_by_the_old_one_and_there_after_its_upgrade(tmp_path: Path, old_code: Path) -> None:
    """It stays behind, says what it misses, and what it writes meanwhile loses (docs/howto/upgrade, FENCE-6)."""
    with open_cluster(tmp_path, ("old", "new"), prepare={"old": lambda server: _age(server, old_code)}) as cluster:
        old, new = cluster["old"], cluster["new"]
        _set(cluster, "old", "k", "before")
        wait_value(cluster, "new", "k", "before")
        assert new.run("set", "k", "late", "--fence", "night:7.2").code == 0
        cluster.wait(lambda: old.state()["missing"], "the old one says that it misses something", DEADLINE_S)
        assert old.run("get", "k").text == "before\n"
        _set(cluster, "old", "k", "unfenced")
        cluster.wait(lambda: "unfenced" in new.run("conflicts", "k").text, "it came to the new one", DEADLINE_S)
        assert new.run("get", "k").text == "late\n"
        old.terminate()
        old.environment = _young(old, old_code)
        cluster.start("old")
        cluster.wait_equal(DEADLINE_S)
        for server in (old, new):
            shown = json.loads(server.run("get", "k", "-m", "-o", "json").out)
            assert (shown["value"], shown["fence"]) == ("late", "night:7.2")
            assert server.run("set", "k", "again", "--fence", "night:7.1").code == 4
