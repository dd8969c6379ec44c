"""A node without data whom everybody tells to ask again: in which order it does.

Knows: docs/protocol, START-13 and NAME-4.
"""

from __future__ import annotations

import itertools
import random

import pytest

from distkv.core.attempts import RETRY_MS
from distkv.core.ready import CoreSettings
from distkv.core.startup import Startup, Step
from distkv.model.event import NodeName
from distkv.wire.message import Start

NODES = 9
LOOK_MS = 3000
"""So long a sponsor remembers whether somebody has the joiner's name, with clocks of a second."""


def _intervals(asked: int) -> dict[NodeName, list[int]]:
    """After how long each node was asked again, when all of them say busy, and so many were asked."""
    startup = Startup(CoreSettings(NodeName("new"), "new:1", Start(1.0, 1), LOOK_MS // 3), random.Random(0))
    startup.begin(0, {}, {}, has_data=False)
    startup.transport_changed(True, 0)
    now_ms, asks = 0, dict[NodeName, list[int]]()
    for number in range(NODES):
        startup.found_source(NodeName(f"n{number}"), f"n{number}:1")
    for _ in range(asked):
        found = startup.source()
        assert found is not None
        name, _ = found
        asks.setdefault(name, []).append(now_ms)
        startup.asked()
        startup.attempt_postponed(now_ms, name)
        now_ms = startup.wake_ms() or 0
        assert startup.woken(now_ms, {}) == [Step.ASK_SNAPSHOT]
    return {name: [b - a for a, b in itertools.pairwise(times)] for name, times in asks.items()}


def test_joiner_asks_all_of_them() -> None:
    assert len(_intervals(NODES * NODES)) == NODES


@pytest.mark.parametrize("late", range(0, 100, 10))
def test_joiner_asks_soon_again_however_long_all_were_busy(late: int) -> None:
    # Whoever became ready must look whether the name is taken, and forgets what he found.
    before = {name: len(intervals) for name, intervals in _intervals(late).items()}
    later = _intervals(late + 2 * NODES)
    assert min(ms for name, found in later.items() for ms in found[before.get(name, 0) :]) == 2 * RETRY_MS < LOOK_MS
