"""Servers that are killed or stand still while all others write: nobody waits for them, nothing is lost.

Knows: what clients write and watch, and how changes came, by the counters.  Does not know how soon they came.

Invariant: that nobody waits is seen by the order of things: all writes are answered while the other one stands still.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest

from distkv.client.watch import Change, Missed, UpToDate
from distkv.errors import DistkvError
from tests.process.cluster import Cluster, open_cluster
from tests.process.links import DEADLINE_S, counters, links_of
from tests.process.servers import Server

COUNT: Final = 200
"""So many changes each node makes in each part of a test."""


class Watching:
    """Sees what comes below a path to one server, in a thread of its own; each change has a path of its own.

    It ends with its server.
    """

    def __init__(self, server: Server, top: str) -> None:
        self.values: list[object] = []
        self.missed = 0
        self.error = ""
        self._server, self._top = server, top
        self._is_watching = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Until it is told all changes from now on."""
        self._thread.start()
        assert self._is_watching.wait(DEADLINE_S), self.error

    def _run(self) -> None:
        try:
            with self._server.client(reply_s=100 * DEADLINE_S) as client:
                for event in client.watch_events(self._top, fetch=True):
                    match event:
                        case UpToDate():
                            self._is_watching.set()
                        case Missed(counts=counts):
                            self.missed += sum(counts.values())
                        case Change():
                            self.values.append(event.value)
        except DistkvError as error:
            self.error = str(error)


class Fleet:
    """Three nodes, who watches whom, and what was written so far."""

    def __init__(self, cluster: Cluster, top: str, watching: dict[tuple[str, str], Watching]) -> None:
        self.cluster: Final = cluster
        self.watching: Final = watching
        self._top: Final = top
        self.written: Final = dict.fromkeys("abc", 0)
        self._pulled: Final = {name: self._brought_by_pulls(name) for name in "abc"}

    def write(self, *names: str) -> None:
        """All of these write at once; returns when each write was answered."""
        threads = [threading.Thread(target=self._write, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10 * DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads), f"a write waits\n{self.cluster.dump()}"

    def wait_seen(self, *names: str) -> None:
        """Until watchers on these nodes were told all that these wrote."""
        pairs = [(writer, reader) for writer in names for reader in names if writer != reader]

        def is_all() -> bool:
            return all(len(self.watching[pair].values) >= self.written[pair[0]] for pair in pairs)

        self.cluster.wait(is_all, f"watchers on {names} were told all", DEADLINE_S)
        for pair in pairs:
            watching = self.watching[pair]
            assert sorted(map(str, watching.values)) == sorted(map(str, range(self.written[pair[0]]))), pair
            assert (watching.missed, watching.error) == (0, "")

    def assert_nothing_was_pulled(self, *names: str) -> None:
        """Since the last one stood still, on these nodes."""
        assert {name: self._brought_by_pulls(name) for name in names} == {name: self._pulled[name] for name in names}

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Meanwhile this one stands still. Those that stood still before may have pulled what they missed."""
        self._pulled |= {other: self._brought_by_pulls(other) for other in "abc"}
        self.cluster[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.cluster[name].send_signal(signal.SIGCONT)

    def assert_kept(self) -> None:
        """Whatever was acknowledged is everywhere."""
        self.cluster.wait_equal(DEADLINE_S)
        for server in self.cluster:
            with server.client() as client:
                for writer, count in self.written.items():
                    found = {entry.value for _, entry in client.get_tree(f"{self._top}.{writer}")}
                    assert found == set(range(count)), (server.name, writer)

    def _brought_by_pulls(self, name: str) -> int:
        """How many changes came to a node by pulls that had come by no other way."""
        found = counters(self.cluster[name])
        return found["events_pulled"] - found["events_pulled_again"]

    def _write(self, name: str) -> None:
        with self.cluster[name].client(reply_s=10 * DEADLINE_S) as client:
            for number in range(self.written[name], self.written[name] + COUNT):
                client.set(f"{self._top}.{name}.{number}", number)
        self.written[name] += COUNT


def wait_whole(cluster: Cluster) -> None:
    """Until a link brings each node what each other one writes."""

    def is_whole() -> bool:
        return all(
            {writer for link in links_of(server).values() for writer in link.get("writers", ())} | {server.name}
            == set("abc")
            for server in cluster
        )

    cluster.wait(is_whole, "each is brought what each other one writes", DEADLINE_S)


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, each of which follows both others. A test leaves all running; its paths have a name of their own."""
    with open_cluster(tmp_path_factory.mktemp("following") / "cluster") as found:
        yield found


@pytest.fixture(scope="module")
def relaying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same with nodes that follow one other each."""
    with open_cluster(tmp_path_factory.mktemp("relaying") / "cluster", links="fanout: 1") as found:
        yield found


def watched(cluster: Cluster, top: str, readers: Sequence[str] = "abc") -> Fleet:
    """Three nodes that are whole, and watchers on some of them of what will be written below `top`."""
    wait_whole(cluster)
    cluster.wait_equal(DEADLINE_S)
    watching = {
        (writer, reader): Watching(cluster[reader], f"{top}.{writer}")
        for writer in "abc"
        for reader in readers
        if writer != reader
    }
    for one in watching.values():
        one.start()
    return Fleet(cluster, top, watching)


def test_others_write_and_are_told_all_while_one_after_the_other_stands_still(following: Cluster) -> None:
    fleet = watched(following, "still")
    for frozen in "abc":
        others = [name for name in "abc" if name != frozen]
        with fleet.frozen(frozen):
            fleet.write(*others)
            fleet.wait_seen(*others)
            fleet.assert_nothing_was_pulled(*others)
        wait_whole(fleet.cluster)
        fleet.wait_seen(*"abc")
    fleet.assert_kept()


def test_others_write_and_are_told_all_while_one_relay_after_the_other_stands_still(relaying: Cluster) -> None:
    fleet = watched(relaying, "relay_still")
    through_b = lambda: links_of(fleet.cluster["c"])["b"].get("writers") == ["a", "b"]  # noqa: E731
    fleet.cluster.wait(through_b, "c has from b what a writes", DEADLINE_S)
    for frozen in "abc":
        others = [name for name in "abc" if name != frozen]
        with fleet.frozen(frozen):
            fleet.write(*others)
            fleet.wait_seen(*others)  # with this clock, a pull may be sooner than another link
        wait_whole(fleet.cluster)
        fleet.wait_seen(*"abc")
    fleet.assert_kept()


def test_nothing_acknowledged_is_lost_when_one_relay_after_the_other_is_killed(relaying: Cluster) -> None:
    fleet = watched(relaying, "relay_killed", readers="")
    for killed in "abc":
        others = [name for name in "abc" if name != killed]
        fleet.write(killed)
        fleet.cluster[killed].kill()
        fleet.write(*others)
        fleet.cluster.wait_equal(DEADLINE_S, others)
        fleet.cluster.start(killed)
        wait_whole(fleet.cluster)
    fleet.assert_kept()


def test_killed_node_makes_no_pull_between_the_others(following: Cluster) -> None:
    fleet = watched(following, "killed", readers="ab")
    fleet.cluster["c"].kill()
    fleet.write(*"ab")
    fleet.wait_seen(*"ab")
    fleet.assert_nothing_was_pulled(*"ab")
    fleet.cluster.start("c")
    wait_whole(fleet.cluster)
    fleet.assert_kept()
