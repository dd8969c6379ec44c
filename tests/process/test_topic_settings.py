"""Settings of topics that differ from node to node: one keeps none, and two have other leases and numbers of copies.

Knows: the Python API, and what `topic show` and doctor say.  Does not know how long a lease counts.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server
from tests.process.tokens import pause

pytestmark = pytest.mark.slow

SETTINGS = {"a": "{serve: false}", "b": "{lease: 0.5, replicas: 3}", "c": "{lease: 2, replicas: 1}"}
PUTS = 10
END_S = 30.0


def differ(server: Server) -> None:
    file = Path(server.environment["DISTKV_CONFIG"])
    file.write_text(f"{file.read_text()}topics: {SETTINGS[server.name]}\n")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("settings") / "cluster", prepare=dict.fromkeys("abc", differ)) as found:
        yield found


def shown(server: Server) -> Mapping[str, Any]:
    with server.client() as client:
        return client.request("topic_show", {"topic": "work"})


def test_each_message_comes_once_through_a_node_that_keeps_none_where_leases_differ(cluster: Cluster) -> None:
    first, got = cluster["a"], list[object]()
    with (
        first.client(reply_s=60) as client,
        client.consumer("work", id="s") as consumer,
        client.producer("p") as producer,
    ):
        consumer.subscribe()

        def take(count: int) -> bool:
            while (message := consumer.receive(wait_s=0.5)) is not None:
                with consumer.done(message):
                    got.append(message.value)
            return len(got) >= count

        for number in range(1, PUTS + 1):
            producer.put("work", number)
        take(PUTS)
        owner = cluster[shown(first)["owner"]]
        owner.send_signal(signal.SIGSTOP)
        pause(2)
        owner.send_signal(signal.SIGCONT)
        for number in range(PUTS + 1, 2 * PUTS + 1):
            producer.put("work", number)
        cluster.wait(lambda: take(2 * PUTS), "all that was put came", END_S)
    assert got == [*range(1, 2 * PUTS + 1)]
    assert "a" not in {shown(first)["owner"], *shown(first)["followers"]}
    state = first.state()["topics"]
    assert isinstance(state, dict)
    assert state["topics"] == 0


def test_doctor_names_settings_that_differ(cluster: Cluster) -> None:
    server = cluster["a"]
    words = ("doctor", server.name, "--data-dir", str(server.data_dir), "--bind", server.address)
    ran = cluster.servers.run(*words, DISTKV_CONFIG=server.environment["DISTKV_CONFIG"])
    assert "topics.lease is 0.5 on b, 2 on a and c" in ran.text
    assert "topics.replicas is 1 on c, 2 on a, 3 on b" in ran.text
