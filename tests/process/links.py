"""What tests with links between real servers share: who follows whom, and what a watch brings.

Knows: `links` of the state, and a watch in a thread of its own.  Does not know what a test does to the servers.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Final, Self

from distkv.client.watch import Change, Missed, UpToDate
from tests.process.cluster import Cluster
from tests.process.servers import Server

DEADLINE_S: Final = 120.0


def links_of(server: Server) -> dict[str, dict[str, Any]]:
    """What a server says of its link to each other node."""
    links: Any = server.state()["links"]
    return {link["node"]: link for link in links}


def wait_linked(cluster: Cluster, *names: str) -> None:
    """Until these nodes follow each other."""

    def are_up() -> bool:
        found = {name: links_of(cluster[name]) for name in names}
        return all(found[name][other]["state"] == "up" for name in names for other in names if name != other)

    cluster.wait(are_up, f"links between {' '.join(names)}", DEADLINE_S)


def wait_value(cluster: Cluster, name: str, path: str, value: object) -> None:
    """Until a node has this."""

    def is_there() -> bool:
        with cluster[name].client() as client:
            entry = client.get(path)
        return entry is not None and entry.value == value

    cluster.wait(is_there, f"{path} on {name}", DEADLINE_S)


def counters(server: Server) -> dict[str, int]:
    """What a server has counted."""
    found: Any = server.state()["counters"]
    return dict(found)


class Told:
    """What a watch of one path on a server brings, in a thread of its own: values, and how many changes were missed."""

    def __init__(self, server: Server, path: str, last: object, count: int) -> None:
        self.values: list[object] = []
        self.missed = Counter[str]()
        self._server = server
        self._path = path
        self._is_all = lambda: last in self.values[-1:] and len(self.values) + self.missed.total() >= count
        self._is_watching = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_watching.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)  # with what came until then the test goes on

    def _run(self) -> None:
        with self._server.client() as client:
            for event in client.watch_events(self._path, fetch=True):
                match event:
                    case UpToDate():
                        self._is_watching.set()
                    case Missed(counts=counts):
                        self.missed.update(counts)
                    case Change():
                        self.values.append(event.value)
                if self._is_all():
                    return
