"""Five token servers, cut into three and two: the smaller side grants nothing, and its holder gives up first.

Knows: the Python API, over Unix sockets, which no cut network keeps the tests from.  Does not know how servers agree.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import attrs
import pytest

import distkv
from tests.netns.cuts import Record
from tests.netns.lab import Lab, open_lab
from tests.process.servers import Server

NAMES = "abcde"
SIDES = ("abc", "de")
LEASE_S, TTL_S = 2.0, 6.0
SETTINGS = f"tokens: {{servers: [a, b, c, d, e], lease: {LEASE_S:g}, ttl: {TTL_S:g}}}\n"
DEADLINE_S = 120.0
SLOW_S = 20.0
"""What a slow machine may add."""


@attrs.define
class Holder:
    """Holds a token through one node until it is lost."""

    server: Server
    has_it: threading.Event = attrs.field(factory=threading.Event)
    fence: distkv.Fence | None = None
    kept_until: float = 0.0
    """When it was held for certain, by the clock of this process."""
    told: str = ""

    def run(self) -> None:
        try:
            with self.server.client() as client, client.token("job", wait_s=DEADLINE_S) as token:
                self.fence = token.fence
                self.has_it.set()
                while True:
                    now = time.monotonic()
                    if token.is_lost:
                        break
                    self.kept_until = now
                    threading.Event().wait(0.02)
        except distkv.TokenLost as error:
            self.told = str(error)


def states(server: Server) -> dict[str, str]:
    """What a node says of the token servers."""
    tokens = server.state()["tokens"]
    assert isinstance(tokens, dict)
    return dict(tokens.get("states", {}))


def wait_states(lab: Lab, name: str, wanted: dict[str, str]) -> None:
    lab.wait(lambda: states(lab[name]) == wanted, f"{name} says {wanted}", DEADLINE_S)


def test_smaller_side_grants_nothing_and_its_holder_gives_up_first(tmp_path: Path, record_property: Record) -> None:
    with open_lab(tmp_path, NAMES, extra=SETTINGS) as lab:
        wait_states(lab, "a", dict.fromkeys(NAMES, "ready"))
        holder = Holder(lab["d"])
        thread = threading.Thread(target=holder.run)
        thread.start()
        assert holder.has_it.wait(DEADLINE_S)
        with lab["a"].client() as larger, lab["e"].client() as smaller:
            lab.network.cut(*SIDES)
            cut_s = time.monotonic()
            with larger.token("job", wait_s=DEADLINE_S) as token:
                granted_s = time.monotonic()
                assert holder.fence is not None
                assert token.fence > holder.fence
            thread.join(DEADLINE_S)
            assert holder.told
            assert holder.kept_until < granted_s
            record_property("holder told, granted", f"{holder.kept_until - cut_s:.1f}, {granted_s - cut_s:.1f} s after")
            asked_s = time.monotonic()
            with pytest.raises(distkv.NoQuorum), smaller.token("other"):
                pass
            refused_s = time.monotonic() - asked_s
            record_property("no_quorum after", f"{refused_s:.1f} s, a lease being {LEASE_S:g} s")
            assert refused_s < LEASE_S + SLOW_S
            smaller.set("x", 1)  # the store takes writes all the same
            lab.network.heal()
            wait_states(lab, "a", dict.fromkeys(NAMES, "ready"))
            with smaller.token("job", wait_s=DEADLINE_S) as token:
                assert token.fence > holder.fence
