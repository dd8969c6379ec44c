"""All servers are restored from backups of different moments: topics go on, and only what no backup has is missing.

Knows: three nodes with copies of a topic, their backups, and a subscriber whose client keeps its state.  Does not know
how copies become one again.
"""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server, wait_until

EVERYWHERE = "topics: {replicas: 3}\n"
READY_S = 60.0


def put(server: Server, number: int) -> bool:
    return server.run("topic", "put", "work", str(number)).code == 0


def got(server: Server) -> list[int]:
    ran = server.run("topic", "get", "work", "--id", "s", "--limit", "100", "--wait", "1")
    return [json.loads(line) for line in ran.out.splitlines() if line.strip()]


def copies(server: Server) -> int:
    ran = server.run("topic", "show", "work", "-o", "json")
    return int(json.loads(ran.text)["copies"]) if ran.code == 0 else 0


def restore_all(cluster: Cluster, place: Path) -> None:
    """None of them runs while the first begins with its backup."""
    for server in cluster:
        server.kill()
        rmtree(server.data_dir)
        ran = cluster.servers.run("restore", "-f", str(place / server.name), "--data-dir", str(server.data_dir))
        assert ran.code == 0
    cluster.start(*(server.name for server in cluster))
    for server in cluster:
        cluster.wait_state(server.name, "ready", READY_S)


def test_topics_go_on_from_backups_of_different_moments(tmp_path: Path) -> None:
    with open_cluster(tmp_path / "cluster", extra=EVERYWHERE) as cluster:
        first, second, third = cluster
        assert first.run("topic", "subscribe", "work", "--id", "s").code == 0
        wait_until(lambda: copies(first) == 3, "all have a copy")
        for number, server in enumerate(cluster):
            assert put(server, number)
            assert server.run("backup", "-f", str(tmp_path / server.name)).code == 0
        assert put(first, 99)  # no backup has it
        restore_all(cluster, tmp_path)
        found = list[int]()

        def came(numbers: set[int]) -> bool:
            found.extend(got(second))
            return numbers <= set(found)

        wait_until(lambda: came({0, 1, 2}), "what backups have came")
        wait_until(lambda: put(third, 100), "a message was put")
        wait_until(lambda: came({100}), "it came")
        assert sorted(found) == [0, 1, 2, 100]
