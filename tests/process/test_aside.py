"""One input ends the nodes that take it: each ends twice at the most, then serves without it, and says so.

Knows: how a fault is injected into taking one change.  Does not know how inputs are set aside.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from distkv.errors import DistkvError, InternalError
from distkv.model.event import tick_text
from tests.process.cluster import NAMES, Cluster, open_cluster
from tests.process.faulty import failing, program
from tests.process.pages import console_blocks
from tests.process.servers import Server, open_servers, wait_until
from tests.process.test_operations_docs import ABOUT_ASIDE, PAGE, pattern

WITHIN_S = 60.0
TAKING = "distkv.model.tree:Tree.apply"
"""What takes every change into the tree, wherever it comes from."""
ANSWERED = "distkv.core.peers:Peers.answered"
HEARD = "distkv.core.gossip:Gossip.hear"
ENDED = "distkv.core.update:Store.expire"
LOADING = ("distkv.daemon.directory:decode_entry", "distkv.model.tree:share")
"""A row of the archive on its way into the tree: before it is a value, and then."""

BOOKS = ("distkv.daemon.directory:decode_meta", "distkv.daemon.directory:decode_book")


@contextmanager
def faulty_cluster(
    directory: Path, names: tuple[str, ...], *, links: str = "", extra: str = ""
) -> Iterator[tuple[Cluster, Path]]:
    """Some nodes; those of `names` fail on demand, when the file says so."""
    flag = directory / "flag"

    def arm(server: Server) -> None:
        server.program = program(flag, [TAKING, ANSWERED, HEARD])

    all_names = NAMES if names[0] in NAMES else (*names, "hut2")
    armed = dict.fromkeys(names, arm)
    with open_cluster(
        directory / "cluster", all_names, links=links, extra=extra, prepare=armed, may_fail=names
    ) as cluster:
        cluster.wait_equal(WITHIN_S)
        yield cluster, flag


def supervise(cluster: Cluster, *ending: str, times: int = 2) -> None:
    """Start again each node that ends, as a service manager does, until these have ended so often, and serve without
    something."""
    ends = Counter[str]()

    def serve_without() -> bool:
        for server in cluster:
            if not server.is_running:
                server.wait_end()
                ends[server.name] += 1
                server.start()
        states = [cluster[name].state() for name in ending if ends[name] >= times]
        return len(states) == len(ending) and all(state["state"] == "ready" and state["aside"] for state in states)

    cluster.wait(serve_without, f"{ending} serve without something", WITHIN_S)
    assert ends == dict.fromkeys(ending, times)


def assert_all_flows(cluster: Cluster) -> None:
    """What any node writes comes to all, and no node ends."""
    for server in cluster:
        with server.client() as client:
            client.set(f"after.{server.name}", server.name)

    def has_come() -> bool:
        return all(value(server, f"after.{other.name}") == other.name for server in cluster for other in cluster)

    cluster.wait(has_come, "what is written comes to all", WITHIN_S)
    assert all(server.is_running for server in cluster)


def aside(server: Server) -> list[dict[str, Any]]:
    found: Any = server.state()["aside"]
    return [dict(one) for one in found]


def value(server: Server, path: str) -> object:
    with server.client() as client:
        found = client.get(path)
    return None if found is None else found.value


@pytest.mark.parametrize("links", ["", "follow: false"], ids=["by link", "by gossip"])
def test_change_that_ends_nodes_is_set_aside_by_each(tmp_path: Path, links: str) -> None:
    with faulty_cluster(tmp_path, ("b", "c"), links=links) as (cluster, flag):
        with failing(flag, TAKING, "poison"):
            with cluster["a"].client() as client:
                link = client.set("poison", 1).link
            supervise(cluster, "b", "c")
            assert_all_flows(cluster)
        assert link is not None
        assert [one["id"] for one in aside(cluster["b"])] == [tick_text(*link)]


def test_retry_brings_the_change_when_the_cause_is_gone(tmp_path: Path) -> None:
    with faulty_cluster(tmp_path, ("b",)) as (cluster, flag):
        with failing(flag, TAKING, "poison"):
            with cluster["a"].client() as client:
                client.set("poison", 1)
            supervise(cluster, "b")
        assert value(cluster["b"], "poison") is None
        with cluster["b"].client() as client:
            client.retry_aside(aside(cluster["b"])[0]["id"])
        cluster.wait_equal(WITHIN_S)
        assert value(cluster["b"], "poison") == 1
        assert not aside(cluster["b"])


def tombstones(server: Server) -> int:
    counters: Any = server.state()["counters"]
    return int(counters["tombstones"])


def test_node_purges_nothing_while_it_lacks_a_change(tmp_path: Path) -> None:
    """(docs/protocol, ASIDE-3)"""
    with faulty_cluster(tmp_path, ("b",), extra="delete: {retention: 1}\n") as (cluster, flag):
        with cluster["a"].client() as client, failing(flag, TAKING, "poison a"):
            client.set("door", 1)
            client.set("poison", 1)
            supervise(cluster, "b")
            client.delete("door")
            cluster.wait(lambda: tombstones(cluster["b"]) == 1, "b knows of it", WITHIN_S)
            cluster.wait(lambda: tombstones(cluster["a"]) == 0, "a purges", WITHIN_S)
            assert tombstones(cluster["b"]) == 1
        with cluster["b"].client() as at_b:
            assert at_b.drop_aside(aside(cluster["b"])[0]["id"])
        cluster.wait(lambda: tombstones(cluster["b"]) == 0, "b purges, too", WITHIN_S)
        cluster.wait_equal(WITHIN_S)
        assert value(cluster["a"], "poison") is None


def test_node_that_joins_does_so_without_the_change(tmp_path: Path) -> None:
    with faulty_cluster(tmp_path, ("c",)) as (cluster, flag), failing(flag, TAKING, "poison"):
        cluster["c"].kill()
        with cluster["a"].client() as client:
            client.set("good", 1)
            client.set("poison", 1)
        shutil.rmtree(cluster["c"].data_dir)
        cluster["c"].start()
        supervise(cluster, "c")
        assert_all_flows(cluster)
        assert value(cluster["c"], "good") == 1
        assert [one["path"] for one in aside(cluster["c"])] == ["poison"]


def test_of_many_changes_that_came_together_one_is_set_aside(tmp_path: Path) -> None:
    """The fault is not where one change is taken: so the node has to find out which of them it is (docs/protocol,
    ASIDE-2)."""
    with faulty_cluster(tmp_path, ("b",)) as (cluster, flag):
        cluster["b"].kill()
        with cluster["a"].client() as client:
            for number in range(20):
                client.set(f"good.{number}", number)
            client.set("poison", 1)
            client.set("good.last", 1)
        with failing(flag, ANSWERED, "poison"):
            cluster["b"].start()
            supervise(cluster, "b")
            cluster.wait(lambda: value(cluster["b"], "good.last") == 1, "what came with it is here", WITHIN_S)
            assert [one["path"] for one in aside(cluster["b"])] == ["poison"]
            assert_all_flows(cluster)


def test_message_that_ends_a_node_is_refused_in_the_end(tmp_path: Path) -> None:
    ping = "Ping(header=Header(node='a'"
    with faulty_cluster(tmp_path, ("b",), links="follow: false") as (cluster, flag), failing(flag, HEARD, ping):
        supervise(cluster, "b")
        assert [one["id"] for one in aside(cluster["b"])] == ["ping/a"]
        assert_all_flows(cluster)
        assert cluster["b"].run("state", "--wait", "converged", "--timeout", "30").code == 0


def test_value_that_ends_the_node_when_its_time_is_over_stays(tmp_path: Path) -> None:
    """(docs/protocol, ASIDE-7)"""
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.program = program(tmp_path / "flag", [ENDED])
        server.start("--init", "x", "--transport", "solo").wait_ready()
        with failing(tmp_path / "flag", ENDED, "poison"):
            with server.client() as client:
                link = client.set("poison", 1, ttl=0.5).link
            assert link is not None
            assert server.wait_end() != 0
            assert server.start("--transport", "solo").wait_end() != 0
            server.start("--transport", "solo").wait_ready()
            with server.client() as client:
                client.set("other", 1, ttl=1.0)
            wait_until(lambda: value(server, "other") is None, "other values end", WITHIN_S)
            assert value(server, "poison") == 1
        id = f"end/{tick_text(*link)}"
        assert [one["id"] for one in aside(server)] == [id]
        assert server.run("aside", "drop", id).code == 1
        assert server.run("aside", "retry", id).code == 0
        wait_until(lambda: value(server, "poison") is None, "it ends when it is tried again", WITHIN_S)


def test_request_that_ends_its_node_is_refused_in_the_end(tmp_path: Path) -> None:
    with faulty_cluster(tmp_path, ("b",)) as (cluster, flag), failing(flag, TAKING, "poison"):
        for _ in range(2):
            with pytest.raises(DistkvError), cluster["b"].client() as client:
                client.set("poison", 1)
            cluster.wait(lambda: not cluster["b"].is_running, "it ends", WITHIN_S)
            cluster["b"].wait_end()
            cluster["b"].start().wait_ready()
        with cluster["b"].client() as client:
            for number in range(2):
                with pytest.raises(InternalError, match="set/poison is set aside on b"):
                    client.set("poison", number)
            client.ping()
        assert_all_flows(cluster)


def test_change_of_the_log_that_fails_is_left_out_at_the_third_start(tmp_path: Path) -> None:
    """(docs/protocol, ASIDE-6)"""
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.start("--init", "x", "--transport", "solo").wait_ready()
        with server.client() as client:
            links = [client.set(path, 1).link for path in ("before", "after", "poison")]
        server.kill()
        server.program = program(tmp_path / "flag", [TAKING])
        with failing(tmp_path / "flag", TAKING, "poison"):
            for _ in range(2):
                assert server.start("--transport", "solo").wait_end() != 0
            server.start("--transport", "solo").wait_ready()
            assert [value(server, path) for path in ("before", "after", "poison")] == [1, 1, None]
            assert [(one["path"], one["missing"]) for one in aside(server)] == [("poison", True)]
            with server.client() as client:
                links.append(client.set("later", 1).link)
            server.kill()
            server.start("--transport", "solo").wait_ready()
        with server.client() as client:
            links.append(client.set("latest", 1).link)
        assert len(set(links)) == len(links)


@pytest.mark.parametrize("place", LOADING)
def test_value_of_the_archive_that_fails_is_lost_at_the_third_start(tmp_path: Path, place: str) -> None:
    """(docs/protocol, ASIDE-8)"""
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.start("--init", "x", "--transport", "solo").wait_ready()
        with server.client() as client:
            for path in ("before", "poison", "zebra"):
                client.set(path, 1)
        server.wait_settled()
        server.terminate()
        server.program = program(tmp_path / "flag", [place])
        with failing(tmp_path / "flag", place, "poison"):
            for _ in range(2):
                assert server.start("--transport", "solo").wait_end() != 0
            server.start("--transport", "solo").wait_ready()
            assert [value(server, path) for path in ("before", "zebra")] == [1, 1]
            ran = server.run("get", "poison")
            assert (ran.code, ran.err.count("\n")) == (7, 1)
            server.wait_settled()
            server.terminate()
            server.start("--transport", "solo").wait_ready()
            assert server.run("get", "poison").code == 7
        with server.client() as client:
            client.set("poison", 2)
            assert client.get("poison").value == 2


@pytest.mark.parametrize("place", BOOKS)
def test_start_that_fails_at_the_ledger_says_what_to_do(tmp_path: Path, place: str) -> None:
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.start("--init", "x", "--transport", "solo").wait_ready()
        server.terminate()
        server.program = program(tmp_path / "flag", [place])
        with failing(tmp_path / "flag", place, ""):
            server.start("--transport", "solo")
            assert server.wait_end() == 1
        last = server.errors.splitlines()[-1]
        assert "is damaged" in last
        assert "start the node empty" in last


def test_node_whose_own_change_fails_at_its_start_serves_without_it(tmp_path: Path) -> None:
    with faulty_cluster(tmp_path, ("b",)) as (cluster, flag), failing(flag, TAKING, "poison b"):
        flag.unlink()
        with cluster["b"].client() as client:
            client.set("good", 1)
            client.set("poison", 1)
        cluster.wait_equal(WITHIN_S)
        cluster["b"].kill()
        flag.write_text(f"{TAKING}\npoison b")
        cluster["b"].start()
        supervise(cluster, "b")
        assert_all_flows(cluster)
        assert [one["path"] for one in aside(cluster["b"])] == ["poison"]
        assert value(cluster["b"], "good") == 1


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b'{"format": 1, "inputs": [{"id": 5}]}', b'{"format": 2}', b"\xff"])
def test_file_that_cannot_be_read_stops_no_start(tmp_path: Path, kept: bytes) -> None:
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.data_dir.mkdir()
        (server.data_dir / "aside.json").write_bytes(kept)
        server.start("--init", "x", "--transport", "solo").wait_ready()
        assert not aside(server)
        assert ("aside_unreadable" in server.errors) is bool(kept)


def test_page_of_operators_shows_what_commands_print(tmp_path: Path) -> None:
    commands = [
        (command.text, command.prints.rstrip("\n")) for block in console_blocks(PAGE) for command in block
        if ABOUT_ASIDE in command.text + command.prints
    ]  # fmt: skip
    with faulty_cluster(tmp_path, ("hut1",)) as (cluster, flag), failing(flag, TAKING, "lights.hall hut2"):
        hut1 = cluster["hut1"]
        with cluster["hut2"].client() as client:
            link = client.set("lights.hall", "on").link
        supervise(cluster, "hut1")
        assert link is not None
        for typed, shown in commands:
            id = tick_text(*link)
            done = hut1.run(*typed.replace("hut2:13", id).split()[2:])
            printed = done.text + done.err
            assert re.fullmatch(pattern(shown, {"hut2:13": id}).removesuffix("\n"), printed.rstrip("\n")), typed
        cluster.wait_equal(WITHIN_S)
        assert len(commands) == 4
