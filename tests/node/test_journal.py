"""What the log says of the network at its usual level: who went away and came back, and which conflicts opened.

Knows: whole nodes in virtual time, and what they log.  Does not know how a line looks: tests/process does.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from distkv.engine import journal
from distkv.model.event import tick_text
from tests.node.test_conflicts import cut_and_write, fleet, listed

pytestmark = pytest.mark.trio

AWAY_S = 60.0
"""Longer than three clocks."""


def told(caplog: pytest.LogCaptureFixture, *ids: str) -> list[str]:
    """The lines of these ids, of all nodes."""
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [line for line in lines if line.partition(" ")[0] in ids]


async def test_conflict_that_opens_is_a_line_on_each_node(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a=1, b=2)
        (item,) = await listed(world.nodes["c"])
        head = world.nodes["a"].replica.tree.conflicted()[0].head
        line = f"conflict_opened path=w.x change={item['id']} winner={tick_text(*head.link)}"
        assert told(caplog, "conflict_opened") == [line] * 3


async def test_equal_values_of_both_sides_are_no_line(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a={"x": 1, "y": 2}, b={"y": 2, "x": 1})
        assert await listed(world.nodes["c"]) == []
        assert told(caplog, "conflict_opened") == []


async def test_many_conflicts_are_some_lines_and_a_number(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "CONFLICTS_SHOWN", 2)
    async with fleet(tmp_path) as world:
        for number in range(5):
            await cut_and_write(world, f"w.x{number}", a=1, b=2)
        await trio.sleep(2 * journal.CONFLICTS_MS / 1000)
        assert len(told(caplog, "conflict_opened")) >= 2 * 3
        assert len(told(caplog, "conflicts_opened")) >= 3


async def test_node_that_goes_away_and_comes_back_is_a_line_each_time(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with fleet(tmp_path) as world:
        await trio.sleep(5)
        assert told(caplog, "node_away", "node_back") == []
        world.network.partition([world.nodes["c"].name], [world.nodes["a"].name, world.nodes["b"].name])
        await trio.sleep(AWAY_S)
        assert sorted(told(caplog, "node_away")) == [f"node_away node={name}" for name in "abcc"]
        await trio.sleep(AWAY_S)
        assert len(told(caplog, "node_away")) == 4
        world.network.heal()
        await trio.sleep(AWAY_S)
        assert sorted(told(caplog, "node_back")) == [f"node_back node={name}" for name in "abcc"]
