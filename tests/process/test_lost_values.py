"""A real server that lost values, alone: every way to ask says so, and a person can end it.

Knows: servers whose disks rotted.  Does not know how what is lost is kept (tests/node/test_lost_values.py).
"""

from __future__ import annotations

import json

import anyio
import pytest

from distkv.client.async_client import open_client
from distkv.client.watch import Change, Lost, UpToDate, WatchEvent
from distkv.errors import DamagedError
from distkv.model.path import Path
from tests.process.rotten import lose, rot, rot_the_path
from tests.process.servers import Server, Servers

SOLO = ("--transport", "solo")
NIGHT = Path(["heating", "night"])


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A node alone."""
    server = servers.start("solo", *SOLO, "--init", "hello")
    server.wait_ready()
    return server


@pytest.fixture
def lossy(solo: Server) -> Server:
    """It lost heating.night, and has heating.day."""
    _set_both(solo)
    lose(solo, "night")
    return solo


@pytest.fixture
def nameless(solo: Server) -> Server:
    """It lost a value, and nothing says at which path."""
    _set_both(solo)
    assert solo.terminate() == 0
    rot_the_path(solo, "night")
    solo.start(*SOLO).wait_ready()
    return solo


def _set_both(server: Server) -> None:
    with server.client() as client:
        client.set("heating.night", 16)
        client.set("heating.day", 21)


def lost_in(events: list[WatchEvent]) -> list[Path | None]:
    return [event.path for event in events if isinstance(event, Lost)]


@pytest.mark.parametrize("shell", ["blocking", "asyncio", "trio"])
@pytest.mark.parametrize("path", [":", "heating"])
def test_watch_names_what_is_lost_behind_what_is_shown(lossy: Server, path: str, shell: str) -> None:
    found, told = list[WatchEvent](), list[WatchEvent]()

    async def main() -> None:
        async with open_client("127.0.0.1", lossy.port) as client:
            async with client.watch_events(path, fetch=True) as events:
                while not isinstance(event := await anext(events), UpToDate):
                    told.append(event)
            async with client.watch(path, fetch=True) as changes:
                while not isinstance(change := await anext(changes), Lost):
                    found.append(change)
                found.append(change)
                await client.set("heating.late", 1)
                found.append(await anext(changes))

    if shell != "blocking":
        anyio.run(main, backend=shell)
    else:
        with lossy.client() as client:
            for event in client.watch_events(path, fetch=True):
                if isinstance(event, UpToDate):
                    break
                told.append(event)
            for change in client.watch(path, fetch=True):
                found.append(change)
                if isinstance(change, Lost):
                    client.set("heating.late", 1)
                if isinstance(change, Change) and change.path[-1:] == ("late",):
                    break
    assert lost_in(found) == lost_in(told) == [NIGHT]
    assert [type(event) for event in found[-2:]] == [Lost, Change]


@pytest.mark.parametrize("path", ["heating.day", "elsewhere"])
def test_watch_of_other_paths_tells_of_no_loss(lossy: Server, path: str) -> None:
    with lossy.client() as client:
        events = client.watch_events(path, fetch=True)
        found = [next(events) for _ in range(2 if path == "heating.day" else 1)]
        assert lost_in(found) == []
        assert isinstance(found[-1], UpToDate)


def test_watch_tells_of_a_loss_whose_path_nobody_knows_wherever_it_watches(nameless: Server) -> None:
    with nameless.client() as client:
        found = next(client.watch("elsewhere", fetch=True))
        assert found == Lost(None)


def test_loss_that_nobody_can_name_is_given_up_for_good(servers: Servers, nameless: Server) -> None:
    refused = nameless.run("get", "elsewhere")
    assert (refused.code, "do without it (distkv client scrub --drop)" in refused.err) == (7, True)
    assert nameless.run("get", "-r", "heating").code == 7
    assert nameless.run("set", "elsewhere", "1", "--new").code == 7
    first, again = (nameless.run("scrub", "--fast", "--drop") for _ in range(2))
    assert (first.code, first.text.endswith("; 1 given up\n")) == (0, True)
    assert (again.code, "given up" in again.text, " lost" in again.text) == (0, False, False)
    assert nameless.errors.count("lost_dropped place=state, row") == 1
    nameless.kill()  # it was on the disk when the command ended
    nameless.start(*SOLO).wait_ready()
    assert nameless.run("get", "elsewhere").code == 3
    assert nameless.run("get", "-r", "heating").text == "heating.day: 21\n"
    assert nameless.run("set", "elsewhere", "1", "--new").code == 0
    where = ("--data-dir", str(nameless.data_dir), "--bind", nameless.address)
    assert "did not come back" not in servers.run("doctor", nameless.name, *where, *SOLO).text


def test_loss_that_has_a_name_is_not_given_up_by_the_way(lossy: Server) -> None:
    found = json.loads(lossy.run("scrub", "--fast", "--drop", "-o", "json").text)
    assert (found["dropped"], [one["path"] for one in found["lost"]]) == (0, ["heating.night"])
    assert lossy.run("get", "heating.night").code == 7


def test_drop_of_the_nameless_leaves_the_named(nameless: Server) -> None:
    lose(nameless, "day")
    with nameless.client() as client:
        [*_, last] = client.scrub(fast=True, drop=True)
        assert last["found"]["dropped"] == 1  # type: ignore[index]
        with pytest.raises(DamagedError, match=r"heating\.day"):
            client.get("heating.day")
        assert client.get("elsewhere") is None


def test_conflicts_say_that_losers_may_be_lost(lossy: Server) -> None:
    for words in ((), ("heating",), ("-o", "json", "heating.night")):
        refused = lossy.run("conflicts", *words)
        assert (refused.code, "what these held: heating.night" in refused.err) == (7, True)
    assert lossy.run("conflicts", "heating.day").code == 0
    with lossy.client() as client:
        client.set("heating.night", 17)
        assert client.conflicts() == ()


def test_history_with_a_row_that_rotted_says_so_behind_the_others(solo: Server) -> None:
    with solo.client() as client:
        for value in range(16, 19):
            client.set("heating.night", value)
        client.set("heating.day", 21)
    assert solo.terminate() == 0
    rot(solo, "history", "night", "tick = 5")
    solo.start(*SOLO).wait_ready()
    whole, closed, below = (solo.run(*words) for words in (
        ("history", "heating.night"), ("conflicts", "--closed", "heating.night"), ("history", "heating.day"),
    ))  # fmt: skip
    assert [line.rsplit(" ", 1)[1] for line in whole.text.splitlines()] == ["18", "16"]
    assert (whole.code, closed.code, below.code) == (7, 7, 0)
    assert "perhaps not all of the history of heating.night is here" in whole.err
    assert solo.run("history", "heating.night", "--limit", "1").code == 0
    with solo.client() as client:
        rows = list(client.history("heating.night", limit=1))
        assert [past.value for past in rows] == [18]
        with pytest.raises(DamagedError):
            list(client.history("heating.night", limit=1, before=rows[0].position))
        rest = client.history("heating.night", before=rows[0].position - 1)
        assert [past.value for past in rest] == [16]
