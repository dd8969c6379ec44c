"""Rows of data of a service on whole nodes: over restarts, damage of one of them, and checks of the disk
(docs/protocol, SLOT-3 and SLOT-4).

Knows: nodes as `nodes` builds them, each with an echo.  Does not know the archive's tables.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path as FilePath
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.core.ready import ServiceResult
from distkv.engine.scrub import Scrub
from distkv.errors import NoSpaceError, TooLargeError
from tests.node.nodes import Node
from tests.node.test_damage import flip
from tests.node.test_services import alone, answered, echo_of, settled, settled_and_killed, started_again
from tests.proof.core.echo.machine import ECHO
from tests.proof.wire.echo import EchoKeep, EchoKept, EchoNamed, EchoRows

NAMES = {"x": "one", "y": "two", "z": "three"}
WELL: tuple[set[str], bool, bool] = (set(), False, False)


async def asked(node: Node, request: EchoKeep | EchoRows) -> ServiceResult:
    answers: list[ServiceResult] = []
    node.driver.services.ask(ECHO, request, answers.append)
    node.driver.commit()
    return await answered(answers)


async def keep(node: Node, name: str, text: str | None) -> None:
    assert await asked(node, EchoKeep(1, name, text)) == EchoNamed(name, text)


async def rows(node: Node, prefix: str = "") -> dict[str, str]:
    found = await asked(node, EchoRows(1, prefix))
    assert isinstance(found, EchoKept)
    return dict(found.rows)


async def with_names(node: Node) -> None:
    for name, text in NAMES.items():
        await keep(node, name, text)


def spoil(file: FilePath, column: str) -> None:
    """Let the row of `y` rot."""
    if column == "value":
        flip(file, "data", column, "key = 'y'")
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("UPDATE data SET key = 'q' WHERE key = 'y'")
            connection.commit()


def scrub_of(node: Node) -> Scrub:
    assert node.driver.scrub is not None
    return node.driver.scrub


async def looked(node: Node) -> list[str]:
    """Check the disk; what was found damaged."""
    progress = scrub_of(node).now(is_fast=True)
    with trio.fail_after(60):
        await progress.done.wait()
    return [damage.place for damage in progress.damaged]


def lost(node: Node) -> list[str]:
    return [damage.place for damage in scrub_of(node).lost]


@pytest.mark.trio
@pytest.mark.parametrize("is_settled", [False, True])
async def test_rows_are_there_after_a_restart(autojump_clock: MockClock, tmp_path: FilePath, is_settled: bool) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        await keep(a, "y", None)
        if is_settled:
            await settled(a)
        await a.kill()
        again = await started_again(a)
        assert await rows(again) == {"x": "one", "z": "three"}
        assert echo_of(again).doubts == [WELL]


@pytest.mark.trio
async def test_row_that_is_refused_is_answered_so_and_changes_nothing(autojump_clock: MockClock) -> None:
    async with alone() as a:
        await with_names(a)
        assert isinstance(await asked(a, EchoKeep(1, "x" * 2000, "text")), TooLargeError)
        assert await rows(a) == NAMES


@pytest.mark.trio
@pytest.mark.parametrize(
    ("column", "told", "place"),
    [("value", ({"y"}, False, False), "data, echo: y"),
     ("key", (set(), True, False), "data, echo: rows whose keys are not known")],
)  # fmt: skip
async def test_damaged_row_is_lost_alone_and_told_until_it_is_made_good(
    autojump_clock: MockClock, tmp_path: FilePath, column: str, told: Any, place: str
) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        await settled_and_killed(a)
        spoil(tmp_path / "a.sqlite", column)
        a = await started_again(a)
        left = {"x": "one", "z": "three"}
        assert (await rows(a), echo_of(a).doubts) == (left, [told])
        assert place in lost(a)
        await a.kill()
        a = await started_again(a)  # it was not settled
        assert (await rows(a), echo_of(a).doubts) == (left, [told])
        assert place in lost(a)
        await settled_and_killed(a)
        a = await started_again(a)
        assert (await rows(a), echo_of(a).doubts) == (left, [told])
        assert await looked(a) == []
        assert lost(a) == [place]
        await asked(a, EchoRows(1, "", make_good=True))
        assert lost(a) == []
        await settled_and_killed(a)
        a = await started_again(a)
        assert (await rows(a), echo_of(a).doubts, lost(a)) == (left, [WELL], [])


@pytest.mark.trio
async def test_row_that_is_kept_again_is_lost_no_more(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        await settled_and_killed(a)
        for name in "yz":
            flip(tmp_path / "a.sqlite", "data", "value", f"key = '{name}'")
        a = await started_again(a)
        assert (await rows(a), echo_of(a).doubts) == ({"x": "one"}, [({"y", "z"}, False, False)])
        await keep(a, "y", "again")
        await settled_and_killed(a)
        a = await started_again(a)
        assert (await rows(a), echo_of(a).doubts) == ({"x": "one", "y": "again"}, [({"z"}, False, False)])
        assert lost(a) == ["data, echo: z"]


@pytest.mark.trio
async def test_row_that_rots_while_the_node_runs_is_written_again(
    autojump_clock: MockClock, tmp_path: FilePath
) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        await settled(a)
        flip(tmp_path / "a.sqlite", "data", "value", "key = 'y'")
        assert await looked(a) == ["data, echo: y"]
        assert lost(a) == []
        assert await looked(a) == []
        await a.kill()
        a = await started_again(a)
        assert (await rows(a), echo_of(a).doubts) == (NAMES, [WELL])


@pytest.mark.trio
async def test_damaged_promises_take_no_row(autojump_clock: MockClock, tmp_path: FilePath) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        a.driver.services.ask(ECHO, {"to": "b"}, lambda _: None)
        a.driver.commit()
        await settled_and_killed(a)
        flip(tmp_path / "a.sqlite", "slots", "value", "key = 'count'")
        a = await started_again(a)
        assert (echo_of(a).restored, await rows(a), echo_of(a).doubts) == ([{}], NAMES, [WELL])


@pytest.mark.trio
async def test_lost_row_is_shown_also_where_the_list_of_what_is_damaged_is_gone(
    autojump_clock: MockClock, tmp_path: FilePath
) -> None:
    async with alone(archive=str(tmp_path / "a.sqlite")) as a:
        await with_names(a)
        await settled_and_killed(a)
        spoil(tmp_path / "a.sqlite", "value")
        a = await started_again(a)
        await settled_and_killed(a)
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            connection.execute("DELETE FROM damage")
            connection.commit()
        a = await started_again(a)
        assert lost(a) == ["data, echo: y"]


@pytest.mark.trio
async def test_row_for_which_the_disk_has_no_room_is_refused_and_the_node_goes_on(autojump_clock: MockClock) -> None:
    async with alone() as a:
        a.disk.faults.capacity_bytes = a.disk.faults.used_bytes
        for number in range(100):
            found = await asked(a, EchoKeep(1, f"row {number}", "x" * 10_000))
            if not isinstance(found, EchoNamed):
                break
        assert isinstance(found, NoSpaceError)
        assert (await rows(a)).keys() == {f"row {before}" for before in range(number)}
        await keep(a, "row 0", None)
        assert a.is_running
        a.disk.faults.capacity_bytes = None
        a.log.refill()
        await keep(a, "row 0", "again")
