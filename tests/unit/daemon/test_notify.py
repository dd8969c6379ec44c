"""How often the service manager hears that the node is alive, in a time that jumps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from distkv.daemon.notify import ServiceManager


@pytest.mark.trio
async def test_watchdog_hears_twice_in_each_interval(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, str]] = []

    async def tell(_: ServiceManager, line: str) -> bool:
        told.append((autojump_clock.current_time() - began, line))
        return True

    monkeypatch.setattr(ServiceManager, "tell", tell)
    began = autojump_clock.current_time()
    with trio.move_on_after(9):
        await ServiceManager("@nobody", watchdog_s=4.0).keep_watchdog()
    assert told == [(pytest.approx(at), "WATCHDOG=1") for at in (0, 2, 4, 6, 8)]
