"""`distkv client topic put`, `get` and `tail` as people use them, and what becomes of the state files meanwhile.

Knows: the commands, signals, and copies of files; a server that is alone.  Does not know what is in a state.

Each test has a topic of its own, and states of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import attrs
import pytest

from distkv.wire.fields import read_list, read_map
from tests.process.servers import Ran, Server, open_servers, wait_until

COMMAND = [sys.executable, "-m", "distkv"]
END_S = 300.0
KILLED_IN_ITS_BLOCK = """
import os, signal, sys
import distkv

topic, state, host = sys.argv[1:]
with distkv.connect([host]) as client, client.consumer(topic, id="s", state=state) as consumer:
    message = consumer.receive(60)
    with consumer.done(message):
        print(message.value, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def solo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_servers(tmp_path_factory.mktemp("topics")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "x")
        server.wait_ready()
        yield server


@attrs.define
class Host:
    """Where the commands on one topic run, with a folder of states."""

    server: Server
    topic: str
    state: Path

    def run(self, command: str, *words: str) -> Ran:
        return self.server.run("topic", command, self.topic, *words, "--state", str(self.state))

    def put(self, *values: str, id: str | None = None) -> None:
        for value in values:
            ran = self.run("put", value, *(() if id is None else ("--id", id)))
            assert ran.code == 0, ran.err

    def got(self, *words: str) -> list[str]:
        """What `get` prints, and records; with nothing there it ends with 3."""
        ran = self.run("get", "--id", "s", "--limit", "100", *words)
        assert ran.code == (0 if ran.out else 3), ran.err
        return ran.text.splitlines()

    def wait_begun(self, process: subprocess.Popen[str], id: str) -> None:
        """Until a command has opened the state of an ID."""
        file = os.path.realpath(self.state / f"{id}.sqlite")

        def has_opened() -> bool:
            assert process.poll() is None
            return any(os.path.realpath(one) == file for one in Path(f"/proc/{process.pid}/fd").iterdir())

        wait_until(has_opened, f"it has opened {file}", END_S)

    def wants_copies(self, count: int) -> None:
        """A message of the topic is to be on so many nodes; there is one."""
        assert self.server.run("topic", "set", self.topic, "--min-replicas", str(count)).code == 0

    def copied(self, place: Path) -> Host:
        """Another one with a copy of all states."""
        shutil.copytree(self.state, place)
        return attrs.evolve(self, state=place)

    @contextmanager
    def begun(self, command: str, *words: str, out: int | TextIO = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        """A command that runs, and is killed in the end if it still does."""
        where = ["client", "-p", str(self.server.port), "topic", command, self.topic, "--state", str(self.state)]
        with subprocess.Popen(
            [*COMMAND, *where, *words],
            env=dict(self.server.environment), stdout=out, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def host(solo: Server, request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Where `s` is subscribed."""
    found = Host(solo, request.node.name[:200], tmp_path / "state")
    found.state.mkdir()
    assert found.run("subscribe", "--id", "s").code == 0
    return found


def printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    ("state", "says"),
    [("", "name a directory"), (__file__, "that is no directory"), ("/nowhere", "there is no such directory")],
    ids=["empty", "file", "missing"],
)
def test_state_that_is_no_directory_is_refused_in_one_line(solo: Server, state: str, says: str) -> None:
    ran = solo.run("topic", "get", "t", "--id", "s", "--state", state)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert says in ran.err


# -- a subscriber -------------------------------------------------------------------------------------------------


def test_message_is_printed_once_by_whichever_command(host: Host) -> None:
    host.put("1", "2", "3")
    assert host.run("get", "--id", "s", "--keep").text == "1\n"
    assert host.run("get", "--id", "s").text == "1\n"
    assert host.run("tail", "--id", "s", "--count", "1").text == "2\n"
    assert (host.got(), host.got()) == (["3"], [])


@pytest.mark.parametrize("words", [("tail",), ("get", "--wait", "3600")], ids="".join)
def test_wait_that_is_interrupted_ends_with_130_and_loses_nothing(host: Host, words: tuple[str, ...]) -> None:
    """And before the wait is over, which takes longer than the test may."""
    with host.begun(*words, "--id", "s") as process:
        if words == ("tail",):
            host.put("1")
            assert printed(process) == "1\n"
            wait_until(lambda: _left(host) == 0, "it said that this is done, and waits for the next one", END_S)
        host.wait_begun(process, "s")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=END_S)
    assert (process.returncode, out, errors.strip()) == (130, "", "")
    host.put("2")
    assert host.got() == ["2"]


def _left(host: Host) -> object:
    """How many messages wait for the subscriber."""
    [one] = read_list(_shown(host)["subscribers"], "subscribers")
    return read_map(one, "subscribers")["left"]


def _shown(host: Host) -> Mapping[str, object]:
    with host.server.client() as client:
        return client.request("topic_show", {"topic": host.topic}, is_read=True)


def test_message_that_could_not_be_printed_comes_again(host: Host) -> None:
    host.put("1")
    with open("/dev/full", "w") as full, host.begun("get", "--id", "s", out=full) as process:
        assert process.wait(END_S) == 1
    assert host.got() == ["1"]


def test_program_that_is_killed_before_a_message_is_recorded_gets_it_again(host: Host) -> None:
    host.put("1", "2")
    file, address = str(host.state / "s.sqlite"), f"127.0.0.1:{host.server.port}"
    ran = subprocess.run(
        [sys.executable, "-c", KILLED_IN_ITS_BLOCK, host.topic, file, address],
        env=dict(host.server.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, "1\n")
    assert host.got() == ["1", "2"]


def test_copy_of_a_subscribers_state_prints_nothing_again(host: Host, tmp_path: Path) -> None:
    host.put("1", "2")
    other = host.copied(tmp_path / "copy")
    assert host.run("get", "--id", "s").text == "1\n"
    assert other.got() == ["2"]
    host.put("3")
    assert host.got() == ["3"]
    assert (host.got(), other.got()) == ([], [])


def test_copy_whose_subscription_was_ended_by_the_other_ends_with_3(host: Host, tmp_path: Path) -> None:
    other = host.copied(tmp_path / "copy")
    assert other.run("unsubscribe", "--id", "s").code == 0
    ran = host.run("get", "--id", "s")
    assert (ran.code, ran.text) == (3, "")
    assert "subscribe first" in ran.err


def test_messages_that_were_not_kept_are_told_once(host: Host) -> None:
    assert host.server.run("topic", "set", host.topic, "--keep-bytes", "600").code == 0
    host.put("1", "2", "3")
    wait_until(lambda: _shown(host)["messages"] == 1, "the first ones are gone", END_S)
    ran = host.run("get", "--id", "s")
    assert (ran.code, ran.text) == (0, "3\n")
    assert re.fullmatch(r"distkv: 2 messages were not kept, and never will come: '~solo.*' \[\[\d+, \d+\]\]\n", ran.err)
    assert host.run("get", "--id", "s").err.startswith("distkv: no message")


# -- a producer ---------------------------------------------------------------------------------------------------


def test_put_that_no_node_could_store_is_kept_and_sent_before_another_one(host: Host) -> None:
    host.put("0", id="p")
    host.wants_copies(2)
    ran = host.run("put", "1", "--id", "p", "--timeout", "0.1")
    assert ran.code == 5
    assert "it is kept, and not put twice: repeat the command" in ran.err
    host.wants_copies(1)
    host.put("2", id="p")
    assert host.got() == ["0", "1", "2"]


def test_put_that_was_killed_and_is_given_again_puts_one_message(host: Host) -> None:
    host.wants_copies(2)
    with host.begun("put", "1", "--id", "p", "--timeout", "100") as process:
        host.wait_begun(process, "p")
        process.kill()
        process.wait()
    host.wants_copies(1)
    host.put("1", id="p")
    assert host.got() == ["1"]


def test_copy_of_a_producers_state_loses_no_message_and_says_so(host: Host, tmp_path: Path) -> None:
    host.put("0", id="p")
    other = host.copied(tmp_path / "copy")
    host.put("1", id="p")
    ran = other.run("put", "2", "--id", "p")
    assert ran.code == 0
    assert "the state of 'p' is a copy, or an old one" in ran.err
    other.put("3", id="p")
    host.put("4", id="p")
    assert sorted(host.got()) == ["0", "1", "2", "3", "4"]


# -- the file -----------------------------------------------------------------------------------------------------


def test_second_process_with_an_id_is_refused(host: Host) -> None:
    with host.begun("tail", "--id", "s") as process:
        host.put("1")
        assert printed(process) == "1\n"
        ran = host.run("get", "--id", "s")
        assert (ran.code, ran.text) == (2, "")
        assert "the state is in use" in ran.err


def test_state_that_is_damaged_is_one_line_and_changes_nothing(host: Host) -> None:
    host.put("1")
    whole = (host.state / "s.sqlite").read_bytes()
    for bad in (b"none" * 1000, whole[:5000], whole[:100]):
        (host.state / "s.sqlite").write_bytes(bad)
        ran = host.run("get", "--id", "s")
        assert (ran.code, ran.text, ran.err.count("\n")) == (2, "", 1)
    (host.state / "s.sqlite").write_bytes(whole)
    assert host.got() == ["1"]


def test_state_of_another_id_is_refused(host: Host) -> None:
    shutil.copy(host.state / "s.sqlite", host.state / "t.sqlite")
    ran = host.run("put", "1", "--id", "t")
    assert (ran.code, ran.text) == (2, "")
    assert "is the state of 's', not of 't'" in ran.err


def test_state_that_is_lost_gets_what_the_servers_know_as_owed(host: Host) -> None:
    host.put("1", "2")
    assert host.run("get", "--id", "s").text == "1\n"
    (host.state / "s.sqlite").unlink()
    assert host.got() == ["2"]
