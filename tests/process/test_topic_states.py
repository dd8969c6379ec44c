"""The state of a producer is deleted, set back, or used on two hosts: every message arrives, once.

Knows: the Python API, and the files of producers.  Does not know what is in them.

Each host asks its own node.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import attrs
import pytest

import distkv
from tests.process.cluster import Cluster, open_cluster

pytestmark = pytest.mark.slow

SETTINGS = "topics: {lease: 1}\n"
PUTS = 20
END_S = 30.0
TOPIC = "work"


@attrs.define
class Host:
    """Where a program runs that puts, and asks one node."""

    name: str
    cluster: Cluster
    directory: Path
    put: list[str] = attrs.field(factory=list)
    """What it has put, answered or not."""
    renamed: set[str] = attrs.field(factory=set)
    """The names that were found to be taken."""

    @property
    def state(self) -> Path:
        return self.directory / f"{self.name}.state"

    def run(self, count: int = PUTS, *, reply_s: float = 60.0) -> None:
        """One run of the program, from what its state says on."""
        with (
            self.cluster[self.name].client(reply_s=reply_s) as client,
            client.producer("p", state=self.state) as producer,
        ):
            for _ in range(count):
                self.put.append(f"{self.name}{len(self.put)}")
                done = producer.put(TOPIC, self.put[-1])
                if done.renamed_from is not None:
                    self.renamed.add(done.renamed_from)

    def take_state_of(self, other: Host) -> None:
        shutil.copy(other.state, self.state)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes."""
    with open_cluster(tmp_path_factory.mktemp("states"), extra=SETTINGS) as found:
        yield found


@pytest.fixture
def hosts(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Two of them, and a subscriber that knows nothing of what was put before."""
    with closing(cluster["c"].client()) as client:
        client.request("topic_subscribe", {"topic": TOPIC, "subscriber": "s"})
        yield Host("a", cluster, tmp_path), Host("b", cluster, tmp_path)
        client.request("topic_drop", {"topic": TOPIC})


def assert_each_comes_once(cluster: Cluster, *hosts: Host) -> None:
    """And nothing else comes."""
    wanted, got = sorted(one for host in hosts for one in host.put), list[str]()

    def came(consumer: distkv.Consumer) -> bool:
        while (message := consumer.receive(wait_s=1)) is not None:
            with consumer.done(message):
                got.append(str(message.value))
        return set(wanted) <= set(got)

    with cluster["c"].client() as client, client.consumer(TOPIC, id="s") as consumer:
        cluster.wait(lambda: came(consumer), "all that was put came", END_S)
    assert sorted(got) == wanted


def test_messages_of_a_producer_whose_state_was_deleted_are_new_ones(
    cluster: Cluster, hosts: tuple[Host, Host]
) -> None:
    host, _ = hosts
    host.run()
    host.state.unlink()
    host.run()
    assert_each_comes_once(cluster, host)


def test_state_that_is_set_back_loses_no_message_and_the_client_says_so(
    cluster: Cluster, hosts: tuple[Host, Host]
) -> None:
    host, other = hosts
    host.run()
    other.take_state_of(host)
    host.run()
    host.take_state_of(other)
    host.run()
    assert_each_comes_once(cluster, host)
    assert len(host.renamed) == 1


def test_state_on_two_hosts_at_a_time_loses_no_message(cluster: Cluster, hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    first.run()
    second.take_state_of(first)
    for _ in range(2):
        with ThreadPoolExecutor() as threads:
            for ran in [threads.submit(host.run) for host in hosts]:
                ran.result()
    assert_each_comes_once(cluster, *hosts)
    assert len(first.renamed | second.renamed) == 1


def test_put_that_two_hosts_took_for_unanswered_comes_once(cluster: Cluster, hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    first.run()
    for server in cluster:
        server.send_signal(signal.SIGSTOP)
    with pytest.raises(distkv.DistkvError):
        first.run(1, reply_s=1)
    for server in cluster:
        server.send_signal(signal.SIGCONT)
    second.take_state_of(first)
    with ThreadPoolExecutor() as threads:
        for ran in [threads.submit(host.run) for host in hosts]:
            ran.result()
    assert_each_comes_once(cluster, *hosts)
