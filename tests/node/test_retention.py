"""History is forgotten by age and by count, in steps, and nothing else is (engine/retention.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from distkv.config import HistoryConfig
from distkv.engine.retention import PAUSE_S, forget_history
from distkv.errors import NoSpaceError, SettingsError
from distkv.storage.archive import PRUNE_ROWS, Archive, Settlement, open_archive
from distkv.storage.archive_rows import HistoryRow, StateRow
from tests.node.nodes import run

COUNT = 2 * PRUNE_ROWS + 500


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """One row for every second since 1970."""
    found = open_archive(str(tmp_path / "state.sqlite"))
    rows = [HistoryRow(lsn, b"a", "n", lsn + 1, float(lsn), b"", True) for lsn in range(COUNT)]
    found.settle(Settlement(COUNT, [StateRow(b"a", b"entry")], history=rows))
    yield found
    found.close()


def left(archive: Archive) -> list[int]:
    return [row.lsn for row in archive.past.of_path(b"a", COUNT)][::-1]


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*arguments)


def forget(archive: Archive, kept: HistoryConfig, run_blocking: Callable[..., Any] = inline) -> None:
    async def main() -> None:
        with trio.move_on_after(PAUSE_S * 1.5):
            await forget_history(archive, kept, run_blocking=run_blocking, wall=lambda: 1000.0 + trio.current_time())

    run(main)


def test_history_older_than_its_retention_goes_and_the_state_stays(archive: Archive) -> None:
    forget(archive, HistoryConfig(retention_s=600))
    oldest = left(archive)[0]
    assert 400 + PAUSE_S <= oldest <= 402 + PAUSE_S
    assert len(list(archive.load())) == 1


@pytest.mark.parametrize("keep", [0, 10, PRUNE_ROWS, COUNT])
def test_so_many_of_the_newest_are_kept(archive: Archive, keep: int) -> None:
    forget(archive, HistoryConfig(keep=keep))
    assert left(archive) == list(range(COUNT - keep, COUNT))


def test_without_bounds_all_is_kept(archive: Archive) -> None:
    forget(archive, HistoryConfig())
    assert len(left(archive)) == COUNT


def test_full_disk_makes_it_wait_and_try_again(archive: Archive) -> None:
    refusals = [NoSpaceError("full")]

    async def short(function: Callable[..., Any], *arguments: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return await inline(function, *arguments)

    forget(archive, HistoryConfig(keep=1), short)
    assert left(archive) == [COUNT - 1]


@pytest.mark.parametrize("bad", [{"retention_s": 0.0}, {"retention_s": float("nan")}, {"keep": -1}])
def test_bounds_that_cannot_be_meant_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"history\."):
        HistoryConfig(**bad)
