"""Failures that nobody foresaw, injected into the handlers of a real server: what each of them ends.

Knows: the table below, which is that of docs/architecture.rst, 'What a failure may cost'.  Does not know how failures
are contained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from distkv.wire import packing
from tests.process.cluster import Cluster, open_cluster
from tests.process.faulty import ROOT, failing, program
from tests.process.servers import Server
from tests.process.tokens import SETTINGS

WITHIN_S = 60.0
HERE = ["here"]
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


FAULTS = [
    asking("get", "distkv.services.kv:get_value", "connection", "get_value", path=HERE),
    asking("set", "distkv.services.kv:set_value", "connection", "set_value", path=HERE, value=2),
    asking("state", "distkv.services.status:get_state", "connection", "get_state"),
    asking("list", "distkv.services.tree:list_names", "connection", "list", path=HERE),
    asking("retire", "distkv.services.nodes:retire", "connection", "retire_node", node="z"),
    asking("conflicts", "distkv.services.conflicts:get_conflicts", "connection", "conflicts", path=HERE),
    asking("a past value", "distkv.services.history:get_value_at", "connection", "get_value", path=HERE, at=1e9),
    asking("a tree", "distkv.services.tree:send_tree", "request", "get_tree", path=HERE),
    asking("history", "distkv.services.history:send_history", "request", "history", path=HERE),
    asking("watch", "distkv.services.watch:OpenWatch._do", "connection", "watch", path=HERE, fetch=True),
    asking("a token request", "distkv.services.tokens:TokenRequests.begin", "connection", "token_open", ttl=3),
    Fault("a link from here", "distkv.services.follow:OpenFollow._do", "connection"),
    Fault("a link to here", "distkv.engine.followed:OpenLink._take", "connection"),
    Fault("an answer of a node", "distkv.transport.pull:read_item", "connection"),
    Fault("an edge of the tree", "distkv.services.edges:ParentEnd._tell", "connection"),
    Fault("what a node tells", "distkv.services.service_messages:take", "connection"),
    Fault("what Serf tells", "distkv.engine.driver:Driver._hear", "message"),
    Fault("a timer of the tree", "distkv.engine.tree_edges:TreeEdges._see", "service"),
    Fault("a step of tokens", "distkv.core.tokens.machine:TokenMachine.step", "service"),
]


def test_table_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "architecture.rst").read_text()
    table = page.partition("what fails           what ends\n")[2].split("\n\n")[0].splitlines()[1:-1]
    assert [(row[:21].strip(), row[21:]) for row in table] == [(fault.what, fault.ends) for fault in FAULTS]


@pytest.fixture(scope="module")
def flag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flag") / "flag"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, flag: Path) -> Iterator[Cluster]:
    """Three nodes, the first of which fails on demand."""

    def arm(server: Server) -> None:
        server.program = program(flag, [fault.place for fault in FAULTS])

    directory = tmp_path_factory.mktemp("contained")
    with open_cluster(directory, extra=SETTINGS, prepare={"a": arm}, may_fail=("a",)) as found:
        with found["a"].client() as client:
            client.set("here", 1)
        found.wait_equal(30)
        yield found


def counted(server: Server) -> int:
    counters: Any = server.state()["counters"]
    return int(counters.get("faults_contained", 0) + counters.get("service_failed", 0))


def asked(server: Server, request: Mapping[str, object]) -> tuple[object, bool]:
    """The code of the error that the answer is, or holds; and whether the connection is closed behind it."""
    code: object = None
    with server.dial(WITHIN_S) as connection:
        connection.sendall(packing.pack({"seq": 1, **request}) + packing.pack({"seq": 2, "action": "ping"}))
        data = b""
        while part := connection.recv(1 << 16):
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
                assert code == "internal" or fault.what == "watch"
            else:
                cluster["b"].kill()  # its connections begin anew
                cluster["b"].start()
                cluster.wait(lambda: counted(a) > before, f"{fault.what} fails", WITHIN_S)
        cluster["b"].wait_ready()
        assert counted(a) > before
        bystander.ping()
        for server in cluster:
            with server.client() as client:
                client.set(f"after.{next(NUMBERS)}", 1)
        cluster.wait_equal(WITHIN_S)
    assert all(server.is_running for server in cluster)
