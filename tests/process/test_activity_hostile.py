"""Strangers who mean harm, at the listener of one real server: its memory stays small, and others are served.

Knows: sockets, lines, and what a process takes.  Does not know how the server keeps that.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.account_users import RIGHT, login, register
from tests.process.activities import Stranger, listener_port, logged_in, strangers
from tests.process.servers import Server, open_servers, wait_until

SECRET = "never-to-be-seen"
TEXT = "x" * 30_000
COUNT = 300
"""So many activities with that text are nine megabytes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_servers(tmp_path_factory.mktemp("hostile")) as servers:
        server = servers.add("a")
        options = ("-vv", "-C", "tokens.servers=[a]", "-C", "activity.rate=10000")
        server.start("--init", "1", "--transport", "solo", "--activity", "127.0.0.1:0", options=options).wait_ready()
        wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", 30, server.dump)
        yield server
        assert "fault_contained" not in server.errors


@pytest.fixture
def port(server: Server) -> int:
    return listener_port(server)


def memory(server: Server) -> int:
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def assert_others_are_served(server: Server, port: int) -> None:
    """The store, and who talks."""
    with strangers(port, 2) as found:
        found[0].say("ACTIVITY_MESSAGE", username="anonymous", activity={"a": 1})
        assert found[1].hear()["activity"]["a"] == 1
    with server.client() as client:
        client.set("x", 1)


def test_who_resumes_and_does_not_read_takes_little_memory(server: Server, port: int) -> None:
    with logged_in(port) as sender, ExitStack() as stack:
        for _ in range(COUNT):
            sender.say("ACTIVITY_MESSAGE", username="anonymous", activity={"text": TEXT})
            origin = sender.hear()["origin"]
        before = memory(server)
        invented = {f"{name}.{'0' * 12}": 0 for name in range(999)}
        for _ in range(30):
            silent = stack.enter_context(Stranger(port))
            silent.say("LOGIN", username="anonymous", resume={origin: 0, **invented})
            assert silent.hear()["command"] == "LOGIN_SUCCESS"
        assert_others_are_served(server, port)
        assert memory(server) - before < 10 * len(TEXT) * COUNT  # thirty copies would be three times that


def test_silent_connections_and_half_lines_take_little_memory(server: Server, port: int) -> None:
    before = memory(server)
    with ExitStack() as stack:
        for number in range(1000):
            one = stack.enter_context(Stranger(port))
            if number % 2:
                one.send(b'{"command":"LOGIN","username":"' + b"x" * 60_000)
        assert_others_are_served(server, port)
        assert memory(server) - before < 150 << 20


def test_storm_of_wrong_secrets_keeps_nobody_else_out(server: Server, port: int) -> None:
    names = ("ann", "bob")
    assert [register(server, port, name, SECRET)["command"] for name in names] == ["REGISTER_SUCCESS"] * 2
    is_over, answers = threading.Event(), Counter[str]()

    def storm(number: int) -> None:
        while not is_over.is_set():
            with Stranger(port) as one:
                answers[one.say("LOGIN", username="ann", secret=f"{number}").hear()["command"]] += 1
            number += 100

    threads = [threading.Thread(target=storm, args=(number,)) for number in range(80)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: answers.total() > 80, "the storm is there", 30, server.dump)
        assert login(server, port, "bob", SECRET) == RIGHT
        assert_others_are_served(server, port)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert answers.keys() == {"LOGIN_FAILED"}


def test_nothing_of_an_account_is_read_logged_or_shown(server: Server, port: int) -> None:
    assert register(server, port, "eve", SECRET)["command"] == "REGISTER_SUCCESS"
    with Stranger(port) as one:
        one.say("LOGIN", username="eve", secret=SECRET).hear()
        mark = one.say("ACTIVITY_MESSAGE", username="eve", secret=SECRET, activity={}).hear()
    with Stranger(port) as one:
        client = one.say("LOGIN", username="eve", secret=SECRET, resume={}).hear()["client"]
    with server.client() as reader:
        read = [*reader.get_tree(":n"), *reader.get_changes({"a": [(1, 1000)]}), reader.state()]
    shown = [server.run(*words).text for words in (("get", "-r", ":n"), ("dump",), ("state",), ("list", ":n.service"))]
    found = repr([mark, read, shown]) + server.errors
    assert [word for word in (SECRET, client.split()[0], '"hash"', "'hash'", "salt") if word in found] == []
