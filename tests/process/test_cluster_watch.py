"""A watcher on another node than the one that is written to, beside real agents: nothing is missed in silence.

Knows: the figures that are promised.  Does not know how an update travels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Self

import pytest

from distkv.client.blocking import Client
from distkv.client.watch import Change, Resync, UpToDate
from distkv.model.path import Path
from distkv.wire.asking import encode_request
from distkv.wire.subtrees import Watch
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import Wire, set_many
from tests.process.servers import Server

BURST = 10_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("cluster"), ("a", "b")) as found:
        yield found


class Watcher:
    """Keeps what a watch of the blocking client brings, in a thread of its own, until so many changes came."""

    def __init__(self, server: Server, path: str, count: int) -> None:
        self.changes: list[Change] = []
        self.resyncs = 0
        self.known: dict[str, object] = {}
        self.is_watching = threading.Event()
        self._server = server
        self._path = path
        self._count = count
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self.is_watching.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        with Client([("127.0.0.1", self._server.port)], connect_s=10) as client:
            for event in client.watch_events(self._path, fetch=True):
                match event:
                    case UpToDate():
                        self.is_watching.set()
                    case Resync():
                        self.resyncs += 1
                        self.known.clear()
                    case Change():
                        self.changes.append(event)
                        self.known[str(event.path)] = event.value
                if len(self.known) == self._count:
                    return


def test_watcher_on_another_node_sees_every_change_of_a_burst_or_is_told_to_resync(cluster: Cluster) -> None:
    values: dict[str, object] = {f"burst.n{number}": number for number in range(BURST)}
    with Watcher(cluster["b"], "burst", BURST) as watcher:
        set_many(cluster["a"], values)
        cluster.wait_equal(60)
    assert watcher.known == values
    if not watcher.resyncs:
        assert len(watcher.changes) == BURST
    assert {change.link[0] for change in watcher.changes} == {"a"}


def test_watcher_that_stalls_costs_bounded_memory_and_slows_nobody(cluster: Cluster) -> None:
    server = cluster["b"]
    value = "x" * 10_000
    with Wire(server) as stalled, Watcher(server, "stalled", 3000) as watcher:
        for _ in range(20):
            stalled.send(_watch_request(stalled.next_seq()))  # and never reads again
        before = resident_mib(server)
        for turn in range(3):
            set_many(server, {f"stalled.n{number}": f"{turn}{value}" for number in range(3000)})
    assert len(watcher.known) == 3000
    assert resident_mib(server) - before < 150, "30 MB are kept, 90 MB were written past the stalled ones"


def _watch_request(seq: int) -> bytes:
    return encode_request(Watch(seq, Path(["stalled"])))


def resident_mib(server: Server) -> float:
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
