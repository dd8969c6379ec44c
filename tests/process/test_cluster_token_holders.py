"""One holder at a time, by one clock, while token servers are killed, started again and frozen.

Knows: the Python API, and signals.  Does not know how servers agree.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import distkv
from distkv.client.blocking import Client
from tests.process.cluster import Cluster
from tests.process.tokens import (
    DEADLINE_S,
    LEASE_S,
    TTL_S,
    clients,
    leader,
    open_token_servers,
    pause,
)

LOCK_DELAY_S = LEASE_S / 2
BOUND_S = 3 * LEASE_S + TTL_S + LOCK_DELAY_S
"""After so long without faults somebody has every token that is wanted (docs/tokens)."""
SLOW_S = 10.0
"""What a slow machine may add to that."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_token_servers(tmp_path / "cluster") as found:
        yield found


@attrs.define
class Hold:
    """From when to when somebody held the token, by the clock of this process."""

    begin: float
    end: float
    fence: distkv.Fence
    value: int
    """What it wrote under its fence."""


@attrs.define
class Contender:
    """Somebody who wants the token again and again, through all nodes."""

    cluster: Cluster
    first: str
    is_over: threading.Event
    holds: list[Hold] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    lost: int = 0

    def run(self) -> None:
        others = [name for name in "abc" if name != self.first]
        with clients(self.cluster, self.first, *others) as client:
            while not self.is_over.is_set():
                try:
                    self._hold(client)
                except (distkv.TokenLost, distkv.Ungranted, distkv.SessionExpired, distkv.Unreachable, distkv.NotReady):
                    self.lost += 1
                except distkv.DistkvError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                    return

    def _hold(self, client: Client) -> None:
        with client.token("job", wait_s=5.0) as token:
            begin = end = time.monotonic()
            found = Hold(begin, end, token.fence, 0)
            while time.monotonic() - begin < 0.1:
                pause(0.01)
                now = time.monotonic()
                if token.is_lost:
                    break
                found.end = now  # it was held then: the clock was read before
            self.holds.append(found)


def wait_held(cluster: Cluster, contenders: list[Contender]) -> None:
    """Until each of them has had the token once more."""
    before = [len(one.holds) for one in contenders]

    def have_all() -> bool:
        return all(len(one.holds) > count or one.failures for one, count in zip(contenders, before, strict=True))

    cluster.wait(have_all, "each holds it once more", DEADLINE_S)


def test_holders_never_overlap_while_servers_are_killed_and_frozen(cluster: Cluster) -> None:
    """Six contenders; each server in turn is killed and started again, and stopped for longer than a session lives."""
    is_over = threading.Event()
    contenders = [Contender(cluster, "abc"[number % 3], is_over) for number in range(6)]
    threads = [threading.Thread(target=one.run) for one in contenders]
    for thread in threads:
        thread.start()
    try:
        wait_held(cluster, contenders)
        for name in sorted("abc", key=leader(cluster, "a").__ne__):  # the leader is the first
            cluster[name].kill()
            pause(LEASE_S)
            cluster.start(name)
            wait_held(cluster, contenders)
            cluster[name].send_signal(signal.SIGSTOP)
            pause(TTL_S + LEASE_S)
            cluster[name].send_signal(signal.SIGCONT)
            wait_held(cluster, contenders)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert [failure for one in contenders for failure in one.failures] == []
    holds = sorted((hold for one in contenders for hold in one.holds), key=lambda hold: hold.begin)
    assert len(holds) > 20
    assert [(one, two) for one, two in itertools.pairwise(holds) if two.begin < one.end] == []
    assert [(one, two) for one, two in itertools.pairwise(holds) if two.fence <= one.fence] == []
    pauses = [two.begin - one.end for one, two in itertools.pairwise(holds)]
    assert max(pauses) < BOUND_S + SLOW_S
