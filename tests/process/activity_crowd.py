"""Many clients of the activity network at once, by our library, and what each was told.

Knows: what was echoed, and who was told what.  Does not know what a test does to the servers.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import distkv
from distkv.client.blocking_activity import Activity
from tests.process.cluster import Cluster
from tests.process.servers import Server, wait_until

PAUSE_S = 0.02
WHOLE_S = 60.0
QUIET_S = 1.0
QUIET_MAX = 30
"""After so long without anything nothing comes any more."""


class Crowd:
    """Clients that are told everything, some of which send."""

    def __init__(self, clients: Sequence[Activity], senders: int) -> None:
        self.clients = clients
        self.echoed: set[tuple[int, int]] = set()
        """Of each that is known to reach everybody: who sent it, and its number."""
        self.unknown = 0
        self.gaps: list[object] = []
        self._told: list[list[tuple[int, int]]] = [[] for _ in clients]
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._listen, args=(at,)) for at in range(len(clients))]
        self._senders = [threading.Thread(target=self._send, args=(at,)) for at in range(senders)]
        for thread in [*self._threads, *self._senders]:
            thread.start()

    def wait_echoes(self, count: int) -> None:
        """Until so many more were echoed."""
        wanted = len(self.echoed) + count
        wait_until(lambda: len(self.echoed) >= wanted, f"{count} more echoes", 60)

    def end(self) -> None:
        """Nobody sends any more; until everybody has been told what there is."""
        self._is_over.set()
        for thread in [*self._senders, *self._threads]:
            thread.join()

    def wrong(self) -> list[str]:
        """What is not as it was promised."""
        found = []
        for at, told in enumerate(self._told):
            if len(set(told)) < len(told):
                found.append(f"client {at} was told something twice")
            if missing := self.echoed - set(told):
                found.append(f"client {at} was not told {sorted(missing)[:5]} of {len(missing)}")
            by_sender = defaultdict[int, list[int]](list)
            for sender, number in told:
                by_sender[sender].append(number)
            found += [
                f"client {at} was told those of {sender} in another order"
                for sender, numbers in by_sender.items()
                if numbers != sorted(numbers)
            ]
        return found + [f"{gap} is missing" for gap in self.gaps]

    # -- inside

    def _send(self, at: int) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            try:
                self.clients[at].send({"sender": at, "number": number})
            except distkv.SendUnknown:
                self.unknown += 1
            else:
                with self._lock:
                    self.echoed.add((at, number))
            self._is_over.wait(PAUSE_S)

    def _listen(self, at: int) -> None:
        told, client, quiet = self._told[at], self.clients[at], 0
        while True:
            is_over = self._is_over.is_set()
            news = client.receive(QUIET_S)
            if isinstance(news, distkv.ActivityMessage):
                told.append((int(str(news.activity["sender"])), int(str(news.activity["number"]))))
            elif news is not None:
                self.gaps.append(news)
            elif is_over:
                quiet += 1
                if self.echoed <= set(told) or quiet == QUIET_MAX:
                    return


def wait_whole(cluster: Cluster) -> None:
    """Until all servers of a cluster are in one tree, and each knows all listeners."""

    def is_whole() -> bool:
        count, trees = 0, []
        for server in cluster:
            with server.client() as client:
                nodes = client.request("activity_who", is_read=True)["nodes"]
            count += len(nodes) if isinstance(nodes, list) else 0
            trees.append(server.state()["tree"])
        is_apart = any(tree["apart"] for tree in trees if isinstance(tree, dict))
        return count == len(trees) ** 2 and not is_apart

    cluster.wait(is_whole, "all listeners are known everywhere", WHOLE_S)


@contextmanager
def open_crowd(servers: Sequence[Server], count: int, senders: int) -> Iterator[Crowd]:
    """So many clients, who know all the servers and begin at one after the other."""
    places = [f"127.0.0.1:{server.port}" for server in servers]
    with ExitStack() as stack:
        clients = [
            stack.enter_context(distkv.connect_activity(places[at % len(places) :] + places[: at % len(places)]))
            for at in range(count)
        ]
        crowd = Crowd(clients, senders)
        try:
            yield crowd
        finally:
            crowd.end()
