"""The queue of a token when all of its servers are killed at once and started again: nobody loses his place.

Knows: the Python API, and when a client that waits has a ticket.  Does not know where the places are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import distkv
from distkv.client.addresses import Reach
from distkv.client.blocking import Client
from distkv.client.boot_clock import boot_ms
from distkv.client.holding import Holding
from distkv.client.session_thread import SessionThread
from distkv.client.token_wish import data_value
from tests.process.cluster import Cluster
from tests.process.tokens import DEADLINE_S, ask, open_token_servers, show, wait_states

TTL_S = 600.0
"""Of sessions that live through the restart, however long that takes."""
WAIT_MS = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_token_servers(tmp_path / "cluster") as found:
        yield found


@attrs.define
class Waiter:
    """Somebody who waits for the token, has it for a moment, and writes himself down."""

    name: str
    session: SessionThread
    served: list[tuple[str, distkv.Fence | None, object]]
    thread: threading.Thread = attrs.field(init=False)

    def start(self) -> None:
        self.session.start()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.session.wait(lambda news: news.is_decided)
        found = self.session.read(lambda holding, now: (holding.fence("job", now), holding.data("job", now)))
        self.served.append((self.name, found[0], data_value(found[1])))
        self.session.do(Holding.close)
        self.session.join()

    @property
    def has_ticket(self) -> bool:
        """A client gets it a moment after it began to wait."""
        return self.session.read(lambda holding, _: holding.has_ticket("job"))


def waiter(cluster: Cluster, name: str, served: list[tuple[str, distkv.Fence | None, object]]) -> Waiter:
    holding, now_ms = Holding(ttl_s=TTL_S), boot_ms()
    holding.open(WAIT_MS, WAIT_MS, now_ms)
    holding.acquire("job", wait_ms=WAIT_MS, now_ms=now_ms)
    reach = Reach(tuple(("127.0.0.1", server.port) for server in cluster), 5.0, 30.0)
    return Waiter(name, SessionThread(reach, holding), served)


def holders(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(one["session"], one["epoch"], one["counter"]) for one in found.get("holders", ())]


def test_waiters_get_the_token_in_their_order_after_a_restart_of_all_servers(cluster: Cluster) -> None:
    served = list[tuple[str, distkv.Fence | None, object]]()
    waiters = [waiter(cluster, str(number), served) for number in range(4)]
    with Client([("127.0.0.1", server.port) for server in cluster]) as client:
        with client.token("job", data={"who": "me"}, keep_data=True, wait_s=WAIT_MS / 1000, ttl_s=TTL_S) as token:
            for count, one in enumerate(waiters, 1):
                one.start()
                cluster.wait(lambda n=count: show(cluster["b"], "job").get("waiting") == n, "it waits", DEADLINE_S)
                cluster.wait(lambda one=one: one.has_ticket, "it has a ticket", DEADLINE_S)
            before = ask(cluster, "a", "token_show", token="job")
            for server in cluster:
                server.kill()
            cluster.start("a", "b", "c")
            wait_states(cluster, dict.fromkeys("abc", "ready"))
            after = cluster.wait(
                lambda: shown if (shown := show(cluster["c"], "job")).get("waiting") == len(waiters) else None,
                "all wait again", DEADLINE_S,
            )  # fmt: skip
            assert after is not None
            assert holders(after) == holders(before) == [(token.session, token.fence.epoch, token.fence.counter)]
            assert after["data"] == {"who": "me"}
            assert (token.is_lost, served) == (False, [])
        for one in waiters:
            one.thread.join()
    assert [name for name, _, _ in served] == [one.name for one in waiters]
    assert [data for _, _, data in served] == [{"who": "me"}] * len(waiters)
    fences = [token.fence, *(fence for _, fence, _ in served if fence is not None)]
    assert len(fences) == 1 + len(waiters)
    assert fences == sorted(set(fences))
