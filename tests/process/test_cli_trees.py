"""Whole trees on the command line, with a real server: what goes in comes out, in every form, also after a crash.

Knows: `distkv` as a user types it.  Does not know its parts.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.client.questions import Delete, Get, Set
from distkv.errors import ExistsError
from tests.process.servers import Server, Servers, open_servers


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node for all tests that leave it running; each uses paths of its own."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        yield _start(servers)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path for this test alone."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def _start(servers: Servers, *arguments: str) -> Server:
    server = servers.start("solo", "--transport", "solo", *(arguments or ("--init", "hello")))
    server.wait_ready()
    return server


def _fill(server: Server, path: str) -> None:
    for name, value in [("b", "1"), ("b.c", "{x: [1, 2]}"), (":5", "five"), ("a", '{"$bytes": "AA=="}')]:
        assert server.run("set", f"{path}.{name}", value, *(["-j"] if "$" in value else [])).code == 0


def test_tree_is_got_listed_and_deleted(shared: Server, path: str) -> None:
    _fill(shared, path)
    lines = [f"{path}.:5: five", f'{path}.a: {{"$bytes": "AA=="}}', f"{path}.b: 1", f'{path}.b.c: {{"x": [1, 2]}}']
    assert shared.run("get", "-r", path).text.splitlines() == lines
    assert shared.run("get", "-r", path, "--depth", "1").text.splitlines() == lines[:3]
    assert shared.run("list", path).text == ":5\na\nb.\n"
    assert shared.run("delete", "-r", path).code == 0
    for command in (["get", "-r"], ["list"], ["delete", "-r"]):
        ran = shared.run(*command, path)
        assert (ran.code, ran.out) == (3, b"")


@pytest.mark.parametrize("form", ["json", "yaml", "msgpack"])
def test_dump_is_loaded_to_the_same_values(shared: Server, path: str, form: str, tmp_path: Path) -> None:
    _fill(shared, path)
    file = tmp_path / "dump"
    file.write_bytes(shared.run("dump", path, "-o", form).out)
    assert shared.run("load", f"{path}-2", "-f", str(file)).code == 0
    before, after = (shared.run("dump", where, "-o", form).out for where in (path, f"{path}-2"))
    assert before == after != b""


@pytest.mark.parametrize("form", ["json", "yaml", "msgpack"])
def test_largest_value_that_set_takes_is_dumped_and_loaded(
    shared: Server, path: str, form: str, tmp_path: Path
) -> None:
    text, dumped = tmp_path / "text", tmp_path / "dump"
    least, most = 1_000_000, 1 << 20
    while most - least > 1:
        middle = (least + most) // 2
        text.write_bytes(b"x" * middle)
        is_taken = shared.run("set", path, "-s", "-f", str(text)).code == 0
        least, most = (middle, most) if is_taken else (least, middle)
    text.write_bytes(b"x" * least)
    assert shared.run("set", path, "-s", "-f", str(text)).code == 0
    dumped.write_bytes(shared.run("dump", path, "-o", form).out)
    assert shared.run("load", path, "-f", str(dumped)).text == "0 values stored, 1 the same\n"
    shared.run("set", path, "1")
    assert shared.run("load", path, "-f", str(dumped)).text == "one value stored\n"
    assert shared.run("get", path, "-o", "raw").out == text.read_bytes()


def test_value_with_an_end_is_dumped_and_loaded_with_the_time_that_is_left(
    shared: Server, path: str, tmp_path: Path
) -> None:
    shared.run("set", f"{path}.short", "1", "--ttl", "1000")
    shared.run("set", f"{path}.long", "1")
    file = tmp_path / "dump"
    file.write_bytes(shared.run("dump", path).out)
    assert shared.run("load", f"{path}-2", "-f", str(file)).code == 0
    ttl, none = (json.loads(shared.run("get", f"{path}-2.{name}", "-m", "-o", "json").out).get("ttl")
                 for name in ("short", "long"))  # fmt: skip
    assert none is None
    assert 0 < ttl < 1000
    shared.run("set", f"{path}-2.long", "1", "--ttl", "1000")
    assert shared.run("load", f"{path}-2", "-f", str(file)).code == 0
    assert "ttl" not in json.loads(shared.run("get", f"{path}-2.long", "-m", "-o", "json").out)


def test_loading_again_changes_nothing(shared: Server, path: str, tmp_path: Path) -> None:
    _fill(shared, path)
    file = tmp_path / "dump"
    file.write_bytes(shared.run("dump", path).out)
    tick = json.loads(shared.run("state", "-o", "json").text)["tick"]
    assert shared.run("load", path, "-f", str(file)).code == 0
    assert json.loads(shared.run("state", "-o", "json").text)["tick"] == tick


def test_whole_store_is_dumped_without_the_systems_own_and_loaded_elsewhere(servers: Servers, tmp_path: Path) -> None:
    one = _start(servers)
    _fill(one, "x")
    file = tmp_path / "dump"
    file.write_bytes(one.run("dump").out)
    assert b":n" not in file.read_bytes()
    other = servers.start("other", "--transport", "solo", "--init", "other")
    other.wait_ready()
    assert other.run("load", "-f", str(file)).code == 0
    assert other.run("dump").out == file.read_bytes()


def test_many_values_are_loaded_dumped_and_deleted(shared: Server, path: str, tmp_path: Path) -> None:
    """More than one batch, one part of an answer, and one step of a deletion."""
    lines = "".join(f'{{"path": "t.{number:05}", "value": {number}}}\n' for number in range(3000))
    file = tmp_path / "many"
    file.write_text(lines)
    assert shared.run("load", path, "-f", str(file)).code == 0
    assert shared.run("dump", path).text == lines
    assert len(shared.run("list", f"{path}.t").text.splitlines()) == 3000
    assert shared.run("delete", "-r", path).code == 0
    assert shared.run("dump", path).out == b""


def test_batch_is_there_after_a_kill_or_was_refused_whole(servers: Servers) -> None:
    server = _start(servers)
    with server.client() as client:
        client.set("old", 1)
        results = client.batch([Set("a", 1), Set("b", 2), Delete("old"), Get("a")])
        assert len(results) == 4
        with pytest.raises(ExistsError) as refused:
            client.batch([Set("c", 3), Set("a", 9, new=True)])
        assert refused.value.op == 1
    server.kill()
    assert _start(servers, "--transport", "solo").run("get", "-r", ":").text == ":: hello\na: 1\nb: 2\n"


def _in_shell(server: Server, command: str) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m distkv client -p {server.port} {command}"
    return subprocess.run(
        ["/bin/sh", "-c", line], env=dict(server.environment), capture_output=True, text=True, timeout=300, check=False
    )


def test_reader_of_a_tree_may_stop_early(shared: Server, path: str) -> None:
    lines = b"".join(b'{"path": "t.%05d", "value": "%0100d"}\n' % (number, number) for number in range(3000))
    assert shared.run("load", path, stdin=lines).code == 0
    done = _in_shell(shared, f"get -r {path} | head -n 1")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("dump >/dev/full", "distkv: output: No space left on device\n"),
        ("load <&-", "distkv: standard input is closed: there is no value to read\n"),
    ],
)
def test_file_that_cannot_be_used_is_one_line(shared: Server, command: str, words: str) -> None:
    assert _in_shell(shared, command).stderr == words


@pytest.mark.parametrize("command", [["dump", ":"], ["load", "-f", "/dev/null"]])
def test_progress_is_shown_on_a_terminal_only(shared: Server, command: list[str]) -> None:
    assert shared.run(*command).err == ""
    terminal, end = pty.openpty()
    with open(terminal, "rb", buffering=0) as shown:
        arguments = [sys.executable, "-m", "distkv", "client", "-p", str(shared.port), *command]
        done = subprocess.run(
            arguments, env=dict(shared.environment), stdout=subprocess.DEVNULL, stderr=end, timeout=300, check=False
        )
        os.close(end)
        assert done.returncode == 0
        assert command[0].encode() in shown.read(1000)
