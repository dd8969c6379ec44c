"""Listeners of services: all are bound or none, a failure of one costs that one, and the end is awaited within bounds.

Knows: shells of the test.  Does not know any service.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Config
from distkv.core.activity.config import ActivityConfig
from distkv.daemon.listeners import listener_text, open_listeners
from distkv.daemon.shells import END_S, Shells
from distkv.engine.driver import Driver
from distkv.errors import InternalError, SettingsError
from distkv.services.activity.place import place_of

pytestmark = pytest.mark.trio

CONFIG = Config(node="a", data_dir=Path("a"), transport="solo")


class Faults:
    """Those of a node, as far as a shell can make some."""

    def __init__(self) -> None:
        self.contained: list[str] = []

    def contain(self, error: Exception, where: str) -> InternalError:
        self.contained.append(f"{error} in {where}")
        return InternalError(str(error))


class Node:
    """A driver, as far as shells ask for it."""

    def __init__(self) -> None:
        self.faults = Faults()


class Shell:
    """One that fails, waits, or does as it is told."""

    name = "proof"
    option = "--proof"

    def __init__(self, *addresses: str, fails: bool = False, hangs: bool = False) -> None:
        self._addresses = addresses
        self._fails = fails
        self._hangs = hangs
        self.has_ended = False
        self.served: list[str] = []

    def addresses(self, _: Config) -> Sequence[str]:
        return self._addresses

    def connections(self, _: Config) -> int:
        return 10

    async def serve(self, _: Driver, __: Config, listeners: Sequence[trio.SocketListener]) -> None:
        self.served = [*map(listener_text, listeners)]
        if self._fails:
            raise ValueError("a fault")
        await trio.sleep_forever()

    async def end(self, _: Driver) -> None:
        if self._hangs:
            await trio.sleep_forever()
        self.has_ended = True


def driver() -> Any:
    return cast(Driver, Node())


async def test_shell_without_an_address_does_not_run() -> None:
    shell = Shell()
    shells = Shells(CONFIG, [shell])
    async with shells.open():
        await shells.serve(driver())
        assert (shells.places, shell.served) == ([], [])


async def test_shell_that_begins_again_listens_where_it_did() -> None:
    shells = Shells(CONFIG, [Shell("127.0.0.1:0")])
    async with shells.open():
        first = shells.places
    async with shells.open():
        assert shells.places == first
    assert first[0].startswith("proof on 127.0.0.1:")


async def test_address_that_is_used_names_the_option_and_leaves_nothing_bound() -> None:
    async with open_listeners(("127.0.0.1:0",)) as (used,):
        other = Shells(CONFIG, [Shell("127.0.0.1:0"), Shell(listener_text(used))])
        with pytest.raises(SettingsError, match="name another address with --proof"):
            async with other.open():
                pass


async def test_failure_costs_one_shell_and_is_contained(autojump_clock: MockClock) -> None:  # noqa: ARG001
    broken, sound, node = Shell("127.0.0.1:0", fails=True), Shell("127.0.0.1:0"), driver()
    shells = Shells(CONFIG, [broken, sound])
    async with shells.open(), trio.open_nursery() as nursery:
        nursery.start_soon(shells.serve, node)
        await trio.sleep(1)
        assert len(sound.served) == 1
        assert node.faults.contained == ["a fault in the listener of proof, which is off from now on"]
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream(*_address(broken.served[0]))
        nursery.cancel_scope.cancel()


async def test_end_is_awaited_but_not_for_ever(autojump_clock: MockClock) -> None:  # noqa: ARG001
    quick, slow = Shell("127.0.0.1:0"), Shell("127.0.0.1:0", hangs=True)
    shells = Shells(CONFIG, [quick, slow])
    async with shells.open(), trio.open_nursery() as nursery:
        nursery.start_soon(shells.serve, driver())
        await trio.sleep(1)
        began_s = trio.current_time()
        await shells.end()
        assert (quick.has_ended, trio.current_time() - began_s) == (True, END_S)
        nursery.cancel_scope.cancel()


async def test_end_before_anything_is_served_is_the_end_at_once() -> None:
    shell = Shell("127.0.0.1:0")
    shells = Shells(CONFIG, [shell])
    async with shells.open():
        await shells.end()
    assert not shell.has_ended


# -- where clients are sent to -------------------------------------------------------------------------------------


async def test_place_is_that_which_is_bound() -> None:
    async with open_listeners(("127.0.0.1:0",)) as listeners:
        host, port = _address(listener_text(listeners[0]))
        assert place_of(ActivityConfig("127.0.0.1:0"), listeners, "10.0.0.1:27586") == (host, port)


async def test_place_is_that_which_is_set() -> None:
    async with open_listeners(("127.0.0.1:0",)) as listeners:
        config = ActivityConfig("127.0.0.1:0", "chat.example.org:27600")
        assert place_of(config, listeners, "10.0.0.1:27586") == ("chat.example.org", 27600)


async def test_place_of_who_listens_everywhere_is_at_the_host_of_the_node() -> None:
    async with open_listeners(("0.0.0.0:0",)) as listeners:
        _, port = _address(listener_text(listeners[0]))
        assert place_of(ActivityConfig("0.0.0.0:0"), listeners, "10.0.0.1:27586") == ("10.0.0.1", port)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
