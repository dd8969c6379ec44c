"""The listener of one real server: each answer to the letter, and strangers who harm nobody else.

Knows: sockets and lines.  Does not know how the server is made.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.activities import Stranger, listener_port, logged_in, shown, strangers, wait_clients
from tests.process.servers import ROOT, Server, Servers, open_servers

LIMITS = ("limits.activity_queue_bytes=1048576", "limits.activity_connections=60", "activity.rate=100000")
ACTIVITY = {"username": "anonymous", "activity": {"a": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node with small limits."""
    with open_servers(tmp_path_factory.mktemp("activity")) as servers:
        options = ["-v", *[word for limit in LIMITS for word in ("-C", limit)]]
        arguments = ("--init", "1", "--transport", "solo", "--activity", "127.0.0.1:0")
        found = servers.add("a").start(*arguments, options=options)
        found.wait_ready()
        yield found
        assert "fault_contained" not in found.errors


@pytest.fixture
def port(server: Server) -> int:
    return listener_port(server)


def test_activity_comes_to_everybody_and_to_its_sender(port: int) -> None:
    with strangers(port, 3) as found:
        found[0].say("ACTIVITY_MESSAGE", username="anonymous", activity={"a": [1, 0.5, None], "b": "ü"})
        heard = [one.hear() for one in found]
    assert heard[0]["activity"] == {"a": [1, 0.5, None], "b": "ü", "authenticated_user": "anonymous"}
    assert heard[0]["command"] == "ACTIVITY_BROADCAST"
    assert heard == [heard[0]] * 3


def test_activities_that_are_sent_together_come_in_order(port: int) -> None:
    with logged_in(port) as sender, logged_in(port) as other:
        for x in range(300):
            sender.say("ACTIVITY_MESSAGE", username="anonymous", activity={"x": x})
        assert [other.hear()["activity"]["x"] for _ in range(300)] == list(range(300))


def test_answer_to_a_login_comes_first_also_when_more_was_sent_with_it(port: int) -> None:
    login = b'{"command":"LOGIN","username":"anonymous","resume":{},"taken":true}\n'
    with Stranger(port) as one:
        one.send(login + json.dumps({"command": "ACTIVITY_MESSAGE", **ACTIVITY}).encode() + b"\n")
        heard = [one.hear()["command"] for _ in range(3)]
    assert (heard[0], sorted(heard[1:])) == ("LOGIN_SUCCESS", ["ACTIVITY_BROADCAST", "ACTIVITY_TAKEN"])


def test_who_logs_out_is_answered_by_the_end(port: int) -> None:
    with logged_in(port) as one:
        assert one.say("LOGOUT").hear() == {}


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (b"x\n", ["INVALID_MESSAGE"]),
        (b"\n", ["INVALID_MESSAGE"]),
        (b"[]\n", ["INVALID_MESSAGE"]),
        (b"{}\n", ["INVALID_MESSAGE"]),
        (b'{"command":"LOGOUT","command":"LOGOUT"}\n', ["INVALID_MESSAGE"]),
        (b'{"command":"SERVER_ANNOUNCE"}\n', ["INVALID_MESSAGE"]),
        (b'{"command":"LOGIN","username":1}\n', ["INVALID_MESSAGE"]),
        (b'{"command":"LOGIN","username":"aaron"}\n', ["INVALID_MESSAGE"]),
        (b'{"command":"LOGIN","username":"anonymous","client":"nonsense","resume":{}}\n', ["LOGIN_FAILED"]),
        (b'{"command":"ACTIVITY_MESSAGE","username":"anonymous","activity":{}}\n', ["AUTHENTICATION_FAIL"]),
        (b'{"command":"REGISTER","username":"anonymous","secret":"s"}\n', ["REGISTER_FAILED"]),
        (b'{"command":"LOGIN","username":"anonymous"}\n' * 2, ["LOGIN_SUCCESS", "INVALID_MESSAGE"]),
        (b"[" * 60_000 + b"\n", ["INVALID_MESSAGE"]),
        (b"x" * 1_000_000, ["INVALID_MESSAGE"]),
        (b"\xff\xfe\n", ["INVALID_MESSAGE"]),
    ],
    ids=repr,
)
def test_what_is_wrong_gets_one_answer_and_the_end(port: int, lines: bytes, answers: list[str]) -> None:
    with Stranger(port) as one:
        assert one.send(lines[:200_000]).hear_all() == answers


def test_half_a_line_harms_nobody(port: int) -> None:
    with Stranger(port).send(b'{"command":') as half, strangers(port, 2) as found:
        found[0].say("ACTIVITY_MESSAGE", **ACTIVITY)
        assert found[1].hear()["command"] == "ACTIVITY_BROADCAST"
        half.send(b'"LOGOUT"}\n')
        assert half.hear() == {}


def test_client_that_does_not_read_is_closed_and_the_others_hear_all(port: int) -> None:
    text, count = "x" * 60_000, 200  # more than the socket and the queue take
    with logged_in(port) as silent, strangers(port, 2) as found:
        for x in range(count):
            found[0].say("ACTIVITY_MESSAGE", username="anonymous", activity={"x": x, "text": text})
            assert found[0].hear()["activity"]["x"] == x
            assert found[1].hear()["activity"]["x"] == x
        heard = 0
        while silent.hear().get("command") == "ACTIVITY_BROADCAST":
            heard += 1
        assert heard < count


def test_client_beyond_those_that_may_be_connected_is_told_so(server: Server, port: int) -> None:
    wait_clients(server, 0)
    found = [Stranger(port) for _ in range(60)]
    try:
        with Stranger(port) as last:
            assert "go to another node" in last.hear()["info"]
        assert logged_in_again(found[0])
    finally:
        for one in found:
            one.close()


def logged_in_again(one: Stranger) -> bool:
    """Whether somebody who is connected is served."""
    return bool(one.say("LOGIN", username="anonymous").hear()["command"] == "LOGIN_SUCCESS")


def test_connections_that_say_nothing_cost_others_nothing(server: Server, port: int) -> None:
    found = [Stranger(port) for _ in range(50)]
    try:
        with strangers(port, 2) as two:
            two[0].say("ACTIVITY_MESSAGE", **ACTIVITY)
            assert two[1].hear()["command"] == "ACTIVITY_BROADCAST"
    finally:
        for one in found:
            one.close()
    wait_clients(server, 0)


def test_commands_send_and_listen(server: Server, port: int) -> None:
    with logged_in(port) as one:
        sent = [
            server.run("activity", "send", "hello"),
            server.run("activity", "send", "-j", '{"a": 1}'),
            server.run("activity", "send", "-", stdin=b'{"b": 1}\n\n{"b": 2}\n'),
        ]
        assert [ran.code for ran in sent] == [0, 0, 0]
        heard = [one.hear()["activity"] for _ in range(4)]
    user = {"authenticated_user": "anonymous"}
    assert heard == [{"text": "hello", **user}, {"a": 1, **user}, {"b": 1, **user}, {"b": 2, **user}]


def test_command_names_the_listener_and_its_clients(server: Server, port: int) -> None:
    with logged_in(port):
        found = json.loads(server.run("activity", "who", "--names", "-o", "json").out)
    assert found == {
        "nodes": [{"node": "a", "clients": 1, "addr": f"127.0.0.1:{port}"}], "names": {"a": ["anonymous"]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["send", "-j", "[1]"], 2),
        (["send", "x", "--user", "aaron"], 2),
        (["send"], 2),
        (["listen", "--count", "0"], 2),
        (["register", "aaron", "--secret-file", "/nowhere"], 2),
    ],
)
def test_command_that_cannot_be_meant_is_refused(server: Server, words: list[str], code: int) -> None:
    ran = server.run("activity", *words)
    assert (ran.code, ran.out, "Traceback" in ran.err) == (code, b"", False)


def test_chats_of_the_howto_talk_to_each_other(server: Server, port: int, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "activity.rst").read_text("utf-8")
    found = {}
    for language, program in (("python", sys.executable), ("javascript", "node"), ("perl", "perl")):
        if shutil.which(program) is not None:
            block = re.search(rf"In {language}:\n\n\.\. code-block:: \w+\n\n((?:   .*\n|\n)+)", page, re.IGNORECASE)
            assert block is not None
            (tmp_path / language).write_text(textwrap.dedent(block[1]), "utf-8")
            words = [program, str(tmp_path / language), "127.0.0.1", str(port), language]
            found[language] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        wait_clients(server, len(found))
        for language, process in found.items():
            assert process.stdin is not None
            process.stdin.write("hello\n")
            process.stdin.flush()
            for other in found.values():
                assert other.stdout is not None
                assert other.stdout.readline() == f"{language}: hello\n"
    finally:
        for process in found.values():
            process.kill()
            process.communicate()


def test_no_secret_is_shown_or_logged(server: Server, port: int) -> None:
    with Stranger(port) as one:
        one.say("LOGIN", username="aaron", secret="geheim")
        assert one.hear_all() == ["LOGIN_FAILED"]
    with Stranger(port) as one:
        one.say("REGISTER", username="aaron", secret="geheim")
        assert one.hear_all() == ["REGISTER_FAILED"]
    assert "geheim" not in server.errors + repr(server.state())


def test_state_says_why_connections_ended(server: Server, port: int) -> None:
    with Stranger(port) as one:
        one.send(b"x\n").hear_all()
    counters = server.state()["counters"]
    assert isinstance(counters, dict)
    assert counters["activity_end_invalid_message"] > 0
    assert shown(server)["clients"] == 0


def test_address_that_is_used_is_refused_in_one_line(servers: Servers, port: int, tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "b"), "--bind", "127.0.0.1:0", "--activity", f"127.0.0.1:{port}")
    ran = servers.run("server", "b", "--init", "1", "--transport", "solo", *where)
    assert ran.code == 2
    assert ran.err.strip().endswith("name another address with --activity")
    assert not (tmp_path / "b").exists()


def test_signal_ends_a_node_that_nobody_can_leave_for(servers: Servers) -> None:
    arguments = ("--init", "1", "--transport", "solo", "--activity", "127.0.0.1:0")
    alone = servers.start("alone", *arguments)
    with logged_in(listener_port(alone)) as one:
        assert alone.terminate() == 0
        assert one.hear() == {}
