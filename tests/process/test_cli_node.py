"""`distkv client node list`, `ping` and `bench` against real nodes.

Knows: what a user types and sees.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.cluster import open_cluster
from tests.process.forks import CHECKOUT, Command
from tests.process.servers import Server, Servers, open_servers, wait_until

PATIENCE_S = 300.0

# -- node list ----------------------------------------------------------------------------------------------------


def test_nodes_are_listed_with_their_states(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ("a", "b")) as cluster:
        cluster["b"].run("set", "x", "1")
        cluster.wait_equal(20)
        cluster.wait(lambda: "rtt_ms" in cluster["a"].state()["links"][0], "a has measured a round trip to b", 60)
        cluster.wait(lambda: len(cluster["a"].state()["tree"]["announced"]) == 2, "a hears both by the tree", 60)
        cluster.wait(lambda: cluster["a"].state()["tree"]["announced"]["b"]["load"] == 0, "b serves nobody now", 60)
        a, b = cluster["a"].address, cluster["b"].address
        shown = [line.split() for line in cluster["a"].run("node", "list").text.splitlines()]
        assert [row[:3] for row in shown] == [["NODE", "STATE", "ADDRESS"], ["a", "ready", a], ["b", "alive", b]]
        assert [row[5] for row in shown[1:]] == ["-", "up"]
        listed = json.loads(cluster["a"].run("node", "list", "-o", "json").text)
        rtt_ms = listed[1].pop("rtt_ms")
        assert 0 < rtt_ms < 60_000
        known = {"node": "b", "state": "alive", "addr": b, "change": shown[2][3], "missing": 0, "link": "up"}
        assert listed[1] == known | {"level": 1, "parent": "a", "load": 0}
        assert (listed[0]["level"], listed[0]["parent"]) == (0, "")
        assert listed[1]["change"].startswith("b:")


# -- ping ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node that lives as long as the module."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        server = servers.start("a", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        yield server


def test_ping_prints_a_line_for_each_round_trip_that_was_asked_for(shared: Server) -> None:
    ran = shared.run("ping", "-n", "3", "--interval", "0")
    lines = ran.text.splitlines()
    assert (ran.code, [line.split(":")[0] for line in lines[:3]]) == (0, ["1", "2", "3"])
    assert lines[3].startswith(f"a at {shared.address} is ready (3 round trips: min ")


def test_ping_as_json_is_one_document(shared: Server) -> None:
    found = json.loads(shared.run("ping", "-o", "json").text)
    assert (found["node"], found["address"], found["count"]) == ("a", shared.address, 5)
    assert 0 < found["ms"]["min"] <= found["ms"]["median"] <= found["ms"]["max"]


def test_ping_of_nobody_is_5(servers: Servers) -> None:
    ran = servers.add("absent").run("ping")
    assert (ran.code, ran.text) == (5, "")
    assert "no server answers" in ran.err


def test_ping_that_is_interrupted_prints_its_summary(shared: Server) -> None:
    code, out, _ = end_ping(shared, lambda process: process.send_signal(signal.SIGINT))
    assert code == 130
    assert "round trip" in out.splitlines()[-1]


def test_ping_whose_node_ends_prints_its_summary_and_is_5(servers: Servers) -> None:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    code, out, errors = end_ping(server, lambda _: server.kill())
    assert code == 5
    assert "round trip" in out.splitlines()[-1]
    assert len(errors.splitlines()) == 1


def end_ping(server: Server, end: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str, str]:
    """Ping without end, do something once it runs; its exit code, and what it printed on both ways."""
    command = ["client", "-p", str(server.port), "ping", "-n", "0", "--interval", "0.01"]
    with start_command(server, *command) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        end(process)
        out, errors = process.communicate(timeout=PATIENCE_S)
        return process.returncode, first + out, errors


# -- bench --------------------------------------------------------------------------------------------------------


def test_bench_measures_reads_and_writes_on_one_and_more_connections(shared: Server) -> None:
    ran = shared.run("bench", "--seconds", "0.4", "--connections", "3", "-o", "json")
    found = json.loads(ran.text)
    assert [(one["kind"], one["connections"]) for one in found] == [("get", 1), ("get", 3), ("set", 1), ("set", 3)]
    assert all(one["per_second"] > 0 and 0 < one["p50_ms"] <= one["p99_ms"] for one in found)


def test_bench_leaves_no_value(shared: Server) -> None:
    before = shared.run("list").text
    ran = shared.run("bench", "--seconds", "0.4", "--connections", "16")
    assert (ran.code, shared.run("list").text) == (0, before)


def test_bench_that_is_interrupted_leaves_no_value(shared: Server) -> None:
    before = shared.run("list").text
    with start_command(shared, "client", "-p", str(shared.port), "bench", "--seconds", "60") as process:
        wait_until(lambda: "distkv-bench" in shared.run("list").text, "bench has begun")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    wait_until(lambda: shared.run("list").text == before, "what was under way is gone too")


def test_bench_of_a_node_that_ends_says_what_is_left(servers: Servers) -> None:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    with start_command(server, "client", "-p", str(server.port), "bench", "--seconds", "60") as process:
        wait_until(lambda: "distkv-bench" in server.run("list").text, "bench has begun")
        server.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 5
    assert "what is left goes by 'distkv client delete -r distkv-bench-" in errors
    assert len(errors.splitlines()) == 1


@contextmanager
def start_command(server: Server, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test, and not longer than it."""
    process = Command(
        [*CHECKOUT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(server.environment),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
