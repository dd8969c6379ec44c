"""`distkv doctor` beside real nodes and agents: what is well, what is broken, and that it says so.

Knows: what a user breaks.  Does not know every judgement: tests/unit/doctor/test_checks.py does.
"""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.agents import open_agents
from tests.process.cluster import Cluster, open_cluster
from tests.process.ports import free_port
from tests.process.servers import Ran, Server, Servers, open_servers

Report = list[tuple[str, str, str]]
"""Of each line: the check, its level, what it says and what to do."""


def report(ran: Ran) -> Report:
    """What was printed as JSON."""
    return [(one["check"], one["level"], f"{one['says']}; {one['do']}") for one in json.loads(ran.text)]


def complaints(found: Report) -> Report:
    return [one for one in found if one[1] != "ok"]


def levels(found: Report) -> dict[str, set[str]]:
    return {check: {level for name, level, _ in found if name == check} for check, _, _ in found}


def examine(servers: Servers, server: Server, *arguments: str) -> Ran:
    """Doctor with the options of the server."""
    command = ["doctor", "-o", "json", server.name, "--data-dir", str(server.data_dir), "--bind", server.address]
    variables = {name: value for name, value in server.environment.items() if name == "DISTKV_CONFIG"}
    return servers.run(*command, *arguments, **variables)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes that are well."""
    with open_cluster(tmp_path_factory.mktemp("doctor"), ("a", "b")) as found:
        found.wait_equal(20)
        yield found


def test_nodes_that_are_well_get_no_complaint(cluster: Cluster) -> None:
    def is_well() -> bool:  # what is still on its way a moment after the start is a complaint, too
        return not complaints(report(examine(cluster.servers, cluster["a"])))

    cluster.wait(is_well, "doctor finds nothing", 20)
    found = report(examine(cluster.servers, cluster["a"]))
    assert set(levels(found)) == {
        "configuration", "node", "directory", "format", "space", "descriptors", "agent", "events", "queues", "members",
        "peers", "links", "damage", "releases", "clocks", "settings", "pings",
    }  # fmt: skip


def test_delivery_that_pings_have_shown_is_told(cluster: Cluster) -> None:
    turns = itertools.cycle([(cluster["b"], cluster["a"]), (cluster["a"], cluster["b"])])

    def has_followed() -> bool:
        """One of the two may be alone in the chain, until chance brings the other one in. Whoever pings twice while the
        other stands still is in it: what that one had missed to say loses against it."""
        if "delivery" in part_of_state(cluster["a"], "pings"):
            return True
        still, awake = next(turns)
        enough = pings_of(awake) + 2
        still.send_signal(signal.SIGSTOP)
        cluster.wait(lambda: pings_of(awake) >= enough, "one pings, because nobody else does", 30, pause_s=0.1)
        still.send_signal(signal.SIGCONT)
        return False

    cluster.wait(has_followed, "b follows a ping of a", 120, pause_s=3 * cluster.clock_s)
    says = next(says for check, _, says in report(examine(cluster.servers, cluster["a"])) if check == "pings")
    assert says.startswith("gossip takes ")


def pings_of(server: Server) -> int:
    return int(part_of_state(server, "transport")["sent_ping"])


def part_of_state(server: Server, name: str) -> dict[str, Any]:
    found = server.state()[name]
    assert isinstance(found, dict)
    return found


def test_text_is_a_line_for_each_check(cluster: Cluster) -> None:
    server = cluster["a"]
    options = ["a", "--data-dir", str(server.data_dir), "--bind", server.address]
    ran = cluster.servers.run("doctor", *options, DISTKV_CONFIG=server.environment["DISTKV_CONFIG"])
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split(maxsplit=2) for line in ran.text.splitlines()]
    assert ["ok", "node", f"a at {server.address} is ready, release 0.1.0"] in lines


def test_event_size_is_that_of_the_agent(cluster: Cluster) -> None:
    found = report(examine(cluster.servers, cluster["a"]))
    assert "at most 472 bytes" in next(says for check, _, says in found if check == "events")


def test_clock_setting_that_differs_is_named_with_its_nodes(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ("a",)) as cluster:
        file = Path(cluster.add("b").environment["DISTKV_CONFIG"])
        file.write_text(file.read_text().replace("clock: 1.0", "clock: 2.0"))
        cluster.start("b")

        def is_named() -> bool:
            found = report(examine(cluster.servers, cluster["a"]))
            return [one[:2] for one in found if "ping.clock is 1 on a, 2 on b" in one[2]] == [("settings", "warn")]

        cluster.wait(is_named, "doctor tells of the two clocks", 20)


def test_agent_that_is_stopped_is_said(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ("a",)) as cluster:
        cluster.agent("a").kill()
        cluster.wait_state("a", "cut-off", 20)
        ran = examine(cluster.servers, cluster["a"])
        found = report(ran)
        assert ran.code == 1
        assert ran.err == "distkv: failed: agent; the report says what to do\n"
        assert levels(found)["agent"] == {"fail"}
        assert levels(found)["node"] == {"warn"}, "it serves, cut off"


@pytest.mark.trio
async def test_agent_that_is_frozen_is_said(tmp_path: Path, servers: Servers) -> None:
    async with open_agents(tmp_path) as agents:
        agent = await agents.start("a")
        agent.freeze()
        found = report(examine(servers, servers.add("a"), "--serf", f"127.0.0.1:{agent.rpc_port}"))
        assert ["it hangs: end it and start it again" in says for check, _, says in found if check == "agent"] == [True]


@pytest.mark.trio
async def test_agent_that_wants_a_key_is_said(tmp_path: Path, servers: Servers) -> None:
    async with open_agents(tmp_path) as agents:
        agent = await agents.start("a", auth="secret")
        found = report(examine(servers, servers.add("a"), "--serf", f"127.0.0.1:{agent.rpc_port}"))
        assert ["set serf.auth to its rpc_auth" in says for check, _, says in found if check == "agent"] == [True]


def test_other_node_that_is_down_is_said(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ("a", "b")) as cluster:
        cluster["b"].kill()
        found = report(examine(cluster.servers, cluster["a"]))
        assert [level for check, level, says in found if check == "peers" and says.startswith("b ")] != []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Servers, Server]]:
    """A node without others, to which nothing is done."""
    with open_servers(tmp_path_factory.mktemp("alone")) as servers:
        server = servers.start("a", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        yield servers, server


@pytest.fixture
def solo(servers: Servers) -> Server:
    """One to which something is."""
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server


def test_node_alone_is_well(alone: tuple[Servers, Server]) -> None:
    servers, solo = alone
    ran = examine(servers, solo, "--transport", "solo")
    assert (ran.code, complaints(report(ran))) == (0, [])


def test_node_that_is_down_is_said(servers: Servers, solo: Server) -> None:
    solo.kill()
    ran = examine(servers, solo, "--transport", "solo")
    assert ran.code == 1
    assert [check for check, level, _ in report(ran) if level == "fail"] == ["node"]
    assert [says for check, _, says in report(ran) if check == "directory" and "not in use" in says]


def test_directory_is_used_by_the_process_that_serves(alone: tuple[Servers, Server]) -> None:
    servers, solo = alone
    assert solo.process is not None
    found = report(examine(servers, solo, "--transport", "solo"))
    assert f"in use by process {solo.process.pid}" in next(says for check, _, says in found if check == "directory")


def test_server_at_another_address_is_found_by_its_directory(alone: tuple[Servers, Server]) -> None:
    servers, solo = alone
    assert solo.process is not None
    ran = examine(servers, solo, "--transport", "solo", "--bind", f"127.0.0.1:{free_port()}")
    found = next(says for check, level, says in report(ran) if (check, level) == ("node", "fail"))
    assert f"process {solo.process.pid} uses" in found


def test_node_at_a_unix_socket_is_examined(servers: Servers, tmp_path: Path) -> None:
    socket = f"unix:{tmp_path}/socket"
    server = servers.add("a").start("--transport", "solo", "--init", "hello", "--bind", socket)
    server.wait_ready()
    ran = servers.run("doctor", "a", "--transport", "solo", "--data-dir", str(server.data_dir), "--bind", socket)
    assert (ran.code, ran.err) == (0, "")
    assert f"a at {socket} is ready" in ran.text


def test_address_of_another_node_is_said(alone: tuple[Servers, Server]) -> None:
    servers, solo = alone
    ran = servers.run("doctor", "z", "--transport", "solo", "--bind", solo.address, "--data-dir", str(solo.data_dir))
    assert ran.code == 1
    assert f"the node at {solo.address} is called a, not z" in ran.text


def test_directory_that_others_can_read_is_said(servers: Servers, solo: Server) -> None:
    solo.data_dir.chmod(0o755)
    ran = examine(servers, solo, "--transport", "solo")
    assert ran.code == 0
    assert [(check, level) for check, level, _ in complaints(report(ran))] == [("directory", "warn")]


def test_setting_that_the_running_node_does_not_have_is_said(alone: tuple[Servers, Server]) -> None:
    servers, solo = alone
    ran = servers.run("-C", "ping.clock=3", *_options(solo))
    assert ran.code == 0
    assert "a runs with ping.clock 5, and its configuration says 3; start it again" in ran.text


def test_configuration_with_a_mistake_is_told_with_its_place(servers: Servers, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("ping:\n  clock: soon\n")
    ran = servers.run("-c", str(file), "doctor", "a")
    assert ran.code == 1
    assert ran.text.startswith(f"fail  configuration  {file}:2: ping.clock")
    assert len(ran.text.splitlines()) == 1


def test_doctor_changes_nothing(servers: Servers, solo: Server) -> None:
    solo.terminate()
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in solo.data_dir.iterdir()}
    examine(servers, solo, "--transport", "solo")
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in solo.data_dir.iterdir()} == before


def _options(server: Server) -> list[str]:
    options = ["--data-dir", str(server.data_dir), "--bind", server.address, "--transport", "solo"]
    return ["doctor", server.name, *options]
