"""The past of a path, as one node saw it: asked of a real server, before and after it was settled and restarted.

Knows: what was written and when.  Does not know where the past is kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from distkv.client.blocking import Client
from tests.process.servers import Server, Servers, wait_until

SOLO = ("--transport", "solo")


@pytest.fixture
def solo(servers: Servers) -> Server:
    server = servers.start("solo", *SOLO, "--init", "hello")
    server.wait_ready()
    return server


@pytest.fixture(params=["running", "restarted", "killed"])
def written(request: pytest.FixtureRequest, solo: Server) -> Iterator[tuple[Server, Client, list[float]]]:
    """Four changes of `a`, a moment before each and one after the last, and others of `b` between them.

    Each in milliseconds of its own, which is what the command shows.
    """
    moments: list[float] = []
    with solo.client() as client:
        for value in (1, 2, None, 4):
            wait_until(lambda: not moments or time.time() > moments[-1] + 0.01, "the clock goes on")
            moments.append(time.time())
            client.set("b", f"before {value}")
            if value is None:
                client.delete("a")
            else:
                client.set("a", value)
    moments.append(time.time())
    if request.param == "restarted":
        solo.terminate()
        solo.start(*SOLO).wait_ready()
    if request.param == "killed":
        solo.kill()
        solo.start(*SOLO).wait_ready()
    with solo.client() as client:
        yield solo, client, moments


def test_history_shows_all_changes_of_the_path_newest_first(written: tuple[Server, Client, list[float]]) -> None:
    _, client, moments = written
    found = list(client.history("a"))
    assert [past.value for past in found] == [4, None, 2, 1]
    assert all(past.won for past in found)
    for past, begin, end in zip(found[::-1], moments[:-1], moments[1:], strict=True):
        assert begin <= past.arrived <= end
    assert [past.position for past in found] == sorted((past.position for past in found), reverse=True)


def test_history_is_read_in_pages(written: tuple[Server, Client, list[float]]) -> None:
    _, client, _ = written
    values, before = [], None
    while page := list(client.history("a", limit=1, before=before)):
        values += [past.value for past in page]
        before = page[-1].position
    assert values == [4, None, 2, 1]


def test_value_at_a_time_is_what_the_node_held_then(written: tuple[Server, Client, list[float]]) -> None:
    _, client, moments = written
    entries = [client.get("a", at=moment) for moment in moments]
    assert [None if entry is None else entry.value for entry in entries] == [None, 1, 2, None, 4]


def test_commands_print_the_past(written: tuple[Server, Client, list[float]]) -> None:
    server, _, moments = written
    lines = server.run("history", "a").text.splitlines()
    assert [line.split()[3] for line in lines] == ["4", "deleted", "2", "1"]
    found = json.loads(server.run("history", "a", "--limit", "1", "-o", "json").text)
    assert found["value"] == 4
    assert server.run("get", "a", "--at", str(moments[2])).text == "2\n"
    assert server.run("get", "a", "--at", lines[2].split()[0][:23] + "999+00:00").text == "2\n"
    assert server.run("get", "a", "--at", str(moments[0])).code == 3
    assert server.run("history", "c").code == 3


def test_history_longer_than_a_page_is_whole_while_it_is_settled(solo: Server) -> None:
    with solo.client() as client:
        for number in range(1500):
            client.set("a", number)
            if number == 700:
                solo.wait_settled()
        assert [past.value for past in client.history("a")] == list(range(1499, -1, -1))


def test_history_that_was_forgotten_is_not_taken_for_no_value(solo: Server) -> None:
    with solo.client() as client:
        client.set("a", 1)
    moment = time.time()
    solo.terminate()
    settings = solo.directory / "config.yaml"
    settings.write_text("history:\n  keep: 0\n")
    solo.environment = {**solo.environment, "DISTKV_CONFIG": str(settings)}
    solo.start(*SOLO).wait_ready()
    wait_until(lambda: solo.storage()["history_rows"] == 0, "the history is forgotten")
    assert solo.run("get", "a").text == "1\n"
    ran = solo.run("get", "a", "--at", str(moment))
    assert (ran.code, ran.err) == (7, "distkv: solo knows nothing of the past: ask another node\n")


@pytest.mark.parametrize("arguments", [("--at", "noon"), ("--at", "nan"), ("-r", "--at", "1")])
def test_time_that_is_none_is_refused(solo: Server, arguments: tuple[str, ...]) -> None:
    ran = solo.run("get", "a", *arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err


