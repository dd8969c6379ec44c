"""Failures that nobody foresaw, injected into the handlers of a real server: what each of them ends.

Knows: the table below, which is that of docs/architecture.rst, 'What a failure may cost'.  Does not know how failures
are contained.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from distkv.wire import packing
from tests.process.cluster import NAMES, Cluster, open_cluster
from tests.process.faulty import ROOT, failing, program
from tests.process.servers import Server
from tests.process.tokens import SETTINGS

WITHIN_S = 60.0
HERE = ["here"]
REQUESTS = "distkv.services.service_requests"
NUMBERS = itertools.count()


@attrs.frozen
class Fault:
    """One place that fails, what makes it, and what it costs."""

    what: str
    """As the table in docs calls it."""
    place: str
    ends: str
    request: Mapping[str, object] | None = None
    """What a client asks meanwhile; None: the fault comes from another node, or from time."""


def asking(what: str, place: str, ends: str, action: str, **fields: object) -> Fault:
    return Fault(what, place, ends, {"action": action, **fields})


ON_TWO: Mapping[str, Any] = {"path": HERE, "value": 2, "replicas": 2}
SOON: Mapping[str, Any] = {"nodes": {"a": 1 << 40}, "timeout": 1.0}
AS_Z: Mapping[str, Any] = {"as": {"node": "z", "life": 1}}
ON_EDGE: Mapping[str, Any] = {"task": 1, "ping": True}
LENT: Mapping[str, Any] = {**AS_Z, "network": bytes(8)}
UNTOLD = ("watch", "a trace", "reading a request", "waiting for events")
"""Where the request itself gets no answer."""

FAULTS = [
    asking("get", "distkv.services.kv:get_value", "connection", "get_value", path=HERE),
    asking("set", "distkv.services.kv:set_value", "connection", "set_value", path=HERE, value=2),
    asking("state", "distkv.services.status:get_state", "connection", "get_state"),
    asking("a batch", "distkv.services.kv:batch", "connection", "batch", ops=[{"action": "get_value", "path": HERE}]),
    asking("set on several", "distkv.services.replicas:ReplicatedWrites.begin", "connection", "set_value", **ON_TWO),
    asking("delete below", "distkv.services.tree:delete_tree", "connection", "delete_tree", path=["nothing"]),
    asking("list", "distkv.services.tree:list_names", "connection", "list", path=HERE),
    asking("retire", "distkv.services.nodes:retire", "connection", "retire_node", node="z"),
    asking("conflicts", "distkv.services.conflicts:get_conflicts", "connection", "conflicts", path=HERE),
    asking("a past value", "distkv.services.history:get_value_at", "connection", "get_value", path=HERE, at=1e9),
    asking("a tree", "distkv.services.tree:send_tree", "request", "get_tree", path=HERE),
    asking("history", "distkv.services.history:send_history", "request", "history", path=HERE),
    asking("watch", "distkv.services.watch:OpenWatch._do", "connection", "watch", path=HERE, fetch=True),
    asking("a trace", "distkv.services.trace:Traces.run", "connection", "trace"),
    asking("backup", "distkv.services.backup:send_backup", "request", "backup"),
    asking("scrub", "distkv.services.damage:send_scrub", "request", "scrub"),
    asking("changes", "distkv.services.changes:send_changes", "request", "get_changes", nodes={"a": [1]}),
    asking("aside", "distkv.services.aside:decide", "connection", "aside", id="b:5"),
    asking("reading a request", "distkv.services.session:decode_request", "connection", "ping"),
    asking("a token request", f"{REQUESTS}:ServiceRequests.begin", "connection", "token_open", ttl=3),
    asking("waiting for events", "distkv.services.wait:ConnectionWaits.run", "connection", "events_wait", **SOON),
    asking("events for a node", "distkv.services.peer:send_answer", "request", "get_events", nodes={"a": [1]}),
    asking("what is held", "distkv.services.follow:Follows.held", "connection", "held", task=1, nodes={"a": 1}),
    asking("an edge to here", "distkv.services.edges:ConnectionEdges.begin", "connection", "attach", **AS_Z),
    asking("a word on an edge", "distkv.services.edges:ConnectionEdges.told", "connection", "tree_say", **ON_EDGE),
    asking("a lent connection", "distkv.services.session:Session._borrow", "connection", "lend", **LENT),
    Fault("an exchange", "distkv.services.peer:exchange", "connection"),
    Fault("a link from here", "distkv.services.follow:OpenFollow._do", "connection"),
    Fault("a link to here", "distkv.engine.followed:OpenLink._take", "connection"),
    Fault("an answer of a node", "distkv.transport.pull:read_item", "connection"),
    Fault("an edge of the tree", "distkv.services.edges:ParentEnd._tell", "connection"),
    Fault("what a node tells", "distkv.services.service_messages:take", "connection"),
    Fault("what Serf tells", "distkv.engine.driver:Driver._hear", "message"),
    Fault("bytes from Serf", "distkv.transport.serf:decode_message", "message"),
    Fault("gossip from here", "distkv.transport.serf:SerfTransport.broadcast", "message"),
    Fault("agents of Serf", "distkv.transport.serf:tagged_node", "session"),
    Fault("telling watchers", "distkv.engine.feeds:Feeds.deliver", "watches"),
    Fault("settling", "distkv.engine.settler:Settler.settle", "attempt"),
    Fault("a timer of the tree", "distkv.core.server_tree.machine:ServerTree._woken", "service"),
    Fault("a step of tokens", "distkv.core.tokens.machine:TokenMachine.step", "service"),
]

ENDING = [
    asking("a step of the store", "distkv.model.tree:Tree.apply", "node, twice", "set_value", path=HERE, value=3),
    asking("a commit", "distkv.engine.commit:Committer._append", "node", "set_value", path=HERE, value=4),
]
"""What must end the node, because what it holds, or what its disk holds, may be half of something."""


IN_SETTLING = "distkv.engine.settler:encode_meta"
"""In the midst of taking what was noted."""


def test_table_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "architecture.rst").read_text()
    table = page.partition("what fails           what ends\n")[2].split("\n\n")[0].splitlines()[1:-1]
    assert [(row[:21].strip(), row[21:]) for row in table] == [(fault.what, fault.ends) for fault in FAULTS + ENDING]


@pytest.fixture(scope="module")
def flag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flag") / "flag"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, flag: Path) -> Iterator[Cluster]:
    """Three nodes, the first of which fails on demand."""

    def arm(server: Server) -> None:
        server.program = program(flag, [*(fault.place for fault in FAULTS + ENDING), IN_SETTLING])

    directory = tmp_path_factory.mktemp("contained")
    with open_cluster(directory, extra=SETTINGS, prepare={"a": arm}, may_fail=NAMES) as found:
        with found["a"].client() as client:
            client.set("here", 1)
        found.wait_equal(30)
        yield found
        for server in found.others("a"):
            words = ("Traceback", "fault_contained", "service_failed", "tree_failed")
            assert not any(word in server.errors for word in words)


def counted(server: Server) -> int:
    counters: Any = server.state()["counters"]
    return sum(int(counters.get(name, 0)) for name in ("faults_contained", "service_failed", "tree_failed"))


def received(connection: socket.socket) -> bytes:
    """What comes next; empty at its end, also when a server ended before it had read all that was asked."""
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


def asked(server: Server, request: Mapping[str, object]) -> tuple[object, bool]:
    """The code of the error that the answer is, or holds; and whether the connection is closed behind it."""
    code: object = None
    with server.dial(WITHIN_S) as connection:
        connection.sendall(packing.pack({"seq": 1, **request}) + packing.pack({"seq": 2, "action": "ping"}))
        data = b""
        while part := received(connection):
            data += part
            with suppress(Exception):
                replies: list[Any] = [packing.unpack(raw) for raw in packing.split_all(data)]
                code = next((one["code"] for one in replies if one["seq"] == 1 and "code" in one), code)
                if {1, 2} <= {one["seq"] for one in replies} and code is not None:
                    return code, False
    return code, True


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.what for fault in FAULTS])
def test_failure_costs_what_the_table_says_and_no_node(cluster: Cluster, flag: Path, fault: Fault) -> None:
    a, before = cluster["a"], counted(cluster["a"])
    with a.client() as bystander:
        bystander.ping()
        with failing(flag, fault.place):
            if fault.request is not None:
                code, is_closed = asked(a, fault.request)
                assert is_closed is (fault.ends == "connection")
                assert code == "internal" or fault.what in UNTOLD
            else:
                cluster["b"].kill()  # its connections begin anew
                cluster["b"].start()
                with cluster["c"].client() as client:
                    client.set(f"during.{next(NUMBERS)}", 1)
                cluster.wait(lambda: counted(a) > before, f"{fault.what} fails", WITHIN_S)
        cluster["b"].wait_ready()
        assert counted(a) > before
        bystander.ping()
        for server in cluster:
            with server.client() as client:
                client.set(f"after.{next(NUMBERS)}", 1)
        cluster.wait_equal(WITHIN_S)
    assert all(server.is_running for server in cluster)


@pytest.mark.parametrize("fault", ENDING, ids=[fault.what for fault in ENDING])
def test_failure_that_must_end_a_node_ends_no_other(cluster: Cluster, flag: Path, fault: Fault) -> None:
    """It is started again, as by a service manager; what ends it twice is shown by `test_aside`."""
    assert fault.request is not None
    with failing(flag, fault.place):
        asked(cluster["a"], fault.request)
        cluster["a"].wait_end()
        assert all(server.is_running for server in cluster.others("a"))
    cluster["a"].start().wait_ready()
    for server in cluster:
        with server.client() as client:
            client.set(f"after.{next(NUMBERS)}", 1)
    cluster.wait_equal(WITHIN_S)


def test_settling_that_fails_is_said_and_loses_nothing(cluster: Cluster, flag: Path) -> None:
    a, numbers = cluster["a"], [next(NUMBERS) for _ in range(20)]
    with a.client() as client:
        with failing(flag, IN_SETTLING):
            for number in numbers[:10]:
                client.set(f"kept.{number}", number)
            cluster.wait(lambda: "settling" in list(a.state()["failed"]), "it says so", WITHIN_S)  # type: ignore[call-overload]
            for number in numbers[10:]:
                client.set(f"kept.{number}", number)
        cluster.wait(lambda: a.storage()["unsettled"] == 0, "it is tried again", WITHIN_S)
        cluster.wait(lambda: "settling" not in list(a.state()["failed"]), "that is said", WITHIN_S)  # type: ignore[call-overload]
    a.kill()
    a.start().wait_ready()
    with a.client() as client:
        found = [client.get(f"kept.{number}") for number in numbers]
    assert [entry and entry.value for entry in found] == numbers
    cluster.wait_equal(WITHIN_S)
