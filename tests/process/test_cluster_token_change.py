"""Another list of token servers, by the command, on real nodes that hold tokens and are asked for more meanwhile.

Knows: what a user types and sees.  Does not know how the servers agree.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from distkv.client.blocking import Client
from distkv.errors import DistkvError
from distkv.model.fence import NO_FENCE, read_fence_text
from tests.process.cluster import Cluster, open_cluster
from tests.process.tokens import DEADLINE_S, LONG_S, SETTINGS, acquire, show, wait_states

NAMES = ("a", "b", "c", "d", "e")
READY = dict.fromkeys("abc", "ready")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The settings name a, b and c. Each test leaves these in force, and all ready."""
    with open_cluster(tmp_path_factory.mktemp("change"), NAMES, extra=SETTINGS) as found:
        wait_states(found, READY)
        yield found


@pytest.fixture
def servers(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.start(*(server.name for server in cluster if server.process is None))
    change(cluster, "a,b,c")


def change(cluster: Cluster, names: str, at: str = "a") -> None:
    """Ask a node for it, until it is done."""
    ran = cluster[at].run("token", "servers", "--set", names, "--wait", str(DEADLINE_S))
    assert ran.code == 0, (ran.err, cluster.dump())
    for server in [one for one in cluster if one.process is not None]:
        wait_states(cluster, dict.fromkeys(names.split(","), "ready"), server.name)


class Worker:
    """Takes a token and gives it back, again and again, and never twice with one fence."""

    def __init__(self, cluster: Cluster) -> None:
        self._ports = [("127.0.0.1", server.port) for server in cluster]
        self._is_over = threading.Event()
        self.fences = list[tuple[int, int]]()
        self.failures = list[str]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._ports) as client:
            while not self._is_over.is_set():
                try:
                    with client.token("busy", wait_s=DEADLINE_S) as token:
                        self.fences.append((token.fence.epoch, token.fence.counter))
                except DistkvError as error:
                    self.failures.append(repr(error))


def test_servers_are_changed_one_by_one_and_what_is_held_stays_held(servers: Cluster) -> None:
    """All three are others in the end, the leader, too."""
    held = {name: acquire(servers["a"], name, "--ttl", LONG_S) for name in ("one", "two", "three", "four")}
    with Client([("127.0.0.1", server.port) for server in servers]) as client, Worker(servers) as worker:
        with client.token("kept", data="x", keep_data=True, wait_s=DEADLINE_S) as token:
            for names in ("a,b,d", "a,d,e", "c,d,e"):
                change(servers, names)
                assert not token.is_lost
            count = len(worker.fences)
            servers.wait(lambda: len(worker.fences) > count, "the token is served", DEADLINE_S)
        fence, _ = acquire(servers["b"], "kept", "--wait", str(DEADLINE_S))
        assert (read_fence_text(fence) or NO_FENCE) > token.fence
        assert servers["b"].run("token", "data", "kept").text == "x\n"
    assert worker.failures == []
    assert worker.fences == sorted(set(worker.fences))
    for name, (fence, session) in held.items():
        (holder,) = show(servers["d"], name)["holders"]
        assert f"{name}:{holder['epoch']}.{holder['counter']}" == fence
        assert servers["b"].run("token", "release", name, "--session", session).code == 0


def test_list_in_force_survives_a_restart_of_all_with_other_settings(servers: Cluster) -> None:
    """A server that was away all the time learns of it, too."""
    servers["c"].kill()
    change(servers, "a,b,d")
    for name in "abde":
        servers[name].kill()
    servers.start(*NAMES)
    for name in NAMES:
        wait_states(servers, dict.fromkeys("abd", "ready"), name)
    found = doctor(servers, "a")
    assert any("the list in force is a, b, d" in one["says"] for one in found), found
    assert "token_setting_differs" in servers["a"].errors


def test_server_that_is_gone_is_replaced_although_a_session_does_not_answer(servers: Cluster) -> None:
    """No client runs of it: only when it is renewed it is known what the lost server had granted to it."""
    fence, session = acquire(servers["a"], "idle", "--wait", str(DEADLINE_S), "--ttl", LONG_S)
    servers["c"].kill()
    ran = servers["a"].run("token", "servers", "--set", "a,b,d", "--wait", str(DEADLINE_S))
    assert ran.code == 0, ran.err

    def is_renewed() -> bool:
        return servers["b"].run("token", "renew", "--session", session, "--fence", fence).code == 0

    servers.wait(is_renewed, "the session is renewed", DEADLINE_S)
    wait_states(servers, dict.fromkeys("abd", "ready"))
    assert servers["d"].run("token", "release", "idle", "--session", session).code == 0


def doctor(cluster: Cluster, name: str) -> list[dict[str, str]]:
    """What `doctor` beside a node finds of tokens."""
    node = cluster[name]
    words = ("-o", "json", name, "--data-dir", str(node.data_dir), "--bind", node.address)
    ran = cluster.servers.run("doctor", *words, DISTKV_CONFIG=node.environment["DISTKV_CONFIG"])
    return [one for one in json.loads(ran.out) if one["check"] == "tokens"]


def test_change_to_a_node_that_does_not_run_says_so_and_changes_nothing(servers: Cluster) -> None:
    servers["e"].kill()
    ran = servers["b"].run("token", "servers", "--set", "a,b,e", "--wait", "2")
    assert (ran.code, ran.err.count("\n")) == (4, 1)
    assert "it waits for e to answer" in ran.err
    acquire(servers["c"], "still", "--wait", str(DEADLINE_S), "--ttl", "3")
    change(servers, "a,b,c")


@pytest.mark.parametrize("names", ["a,b", "a,a,b", "", "a,b,c,d,e,f,g,h,i"])
def test_list_that_cannot_be_is_refused(cluster: Cluster, names: str) -> None:
    ran = cluster["a"].run("token", "servers", "--set", names)
    assert ran.code == 2
    assert "1, 3, 5 or 7 nodes" in ran.err
