"""The command with a real server that needs no agent: start, use, stop, start again, and what is refused.

Knows: `distkv` as a user types it.  Does not know its parts.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.errors import UnreachableError
from tests.process.ports import free_port
from tests.process.servers import Server, Servers, open_servers, wait_until


def _start(servers: Servers, *arguments: str) -> Server:
    server = servers.start("solo", "--transport", "solo", *arguments)
    server.wait_ready()
    return server


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A new network of one node."""
    return _start(servers, "--init", "hello")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One such node for all tests that leave it running; each uses paths of its own."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        yield _start(servers, "--init", "hello")


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path for this test alone."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


# -- starting and stopping ----------------------------------------------------------------------------------------


def test_server_that_serves_prints_one_line_and_no_more(solo: Server) -> None:
    assert solo.run("set", "a", "1").code == 0
    assert solo.terminate() == 0
    assert len(solo.printed) == 1
    assert re.fullmatch(rf"distkv: solo ready on {re.escape(solo.address)} \(.+\)", solo.printed[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_server_cleanly(solo: Server, number: signal.Signals) -> None:
    assert solo.terminate(number) == 0
    assert "Traceback" not in solo.errors


def test_signal_ends_the_server_while_a_client_is_connected(solo: Server) -> None:
    with solo.client() as client:
        client.set("a", 1)
        assert solo.terminate() == 0
        with pytest.raises(UnreachableError):
            client.get("a")
    assert "Traceback" not in solo.errors


def test_init_value_is_the_value_of_the_root(solo: Server) -> None:
    assert solo.run("get", ":").text == "hello\n"


def test_negative_init_value_needs_no_dashes(servers: Servers) -> None:
    assert _start(servers, "--init", "-5").run("get", ":").text == "-5\n"


def test_restart_keeps_what_was_acknowledged(servers: Servers, solo: Server) -> None:
    solo.run("set", "a.b", "21")
    assert solo.terminate() == 0
    assert _start(servers).run("get", "a.b").text == "21\n"


def test_restart_after_kill_keeps_what_was_acknowledged(servers: Servers, solo: Server) -> None:
    solo.run("set", "a.b", "21")
    solo.kill()
    assert _start(servers).run("get", "a.b").text == "21\n"


def test_init_on_existing_data_is_refused_in_one_line(servers: Servers, solo: Server) -> None:
    solo.terminate()
    server = servers.start("solo", "--transport", "solo", "--init", "other")
    assert server.wait_end() == 1
    complaints = [line for line in server.errors.splitlines() if line.startswith("distkv: ")]
    assert len(complaints) == 1
    assert "--init" in complaints[0]


def test_second_server_on_one_directory_is_refused(servers: Servers, solo: Server) -> None:
    ran = servers.run(
        "server", "other", "--transport", "solo", "--data-dir", str(solo.data_dir), "--bind", f"127.0.0.1:{free_port()}"
    )
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert str(solo.data_dir) in ran.err


def test_directory_of_another_node_is_refused(servers: Servers, solo: Server) -> None:
    solo.terminate()
    ran = servers.run(
        "server", "other", "--transport", "solo", "--data-dir", str(solo.data_dir), "--bind", f"127.0.0.1:{free_port()}"
    )
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "belongs to the node solo" in ran.err


def test_port_in_use_is_refused(servers: Servers, solo: Server, tmp_path: Path) -> None:
    ran = servers.run(
        "server", "b", "--transport", "solo", "--init", "x", "--bind", solo.address, "--data-dir", str(tmp_path / "b")
    )
    assert ran.code == 2
    assert ran.err.startswith(f"distkv: cannot listen on {solo.address}")
    assert ran.err.count("\n") == 1


def test_address_of_the_server_is_honoured(solo: Server) -> None:
    """Lesson 2: the earlier implementation listened on every interface, whatever it was told."""
    with socket.create_connection(("127.0.0.1", solo.port), 5):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", solo.port), 5)


def test_every_bind_address_is_served(servers: Servers) -> None:
    port = free_port()
    server = _start(servers, "--init", "x", "--bind", f"127.0.0.2:{port}", "--bind", f"127.0.0.3:{port}")
    for host in ("127.0.0.2", "127.0.0.3"):
        assert servers.run("client", "-h", host, "-p", str(port), "get", ":").text == "x\n"
    assert server.terminate() == 0


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["21"], "21"),
        (["-5"], "-5"),
        (["-5.5"], "-5.5"),
        (["true"], "true"),
        (["text"], '"text"'),
        ([""], '""'),
        (["2024-01-01"], '"2024-01-01"'),
        (["[1, {a: x}]"], '[1, {"a": "x"}]'),
        (["-s", "21"], '"21"'),
        (["21", "-s"], '"21"'),
        (["-j", '{"$bytes": "AAH/"}'], '{"$bytes": "AAH/"}'),
        (["--", "-text"], '"-text"'),
    ],
)
def test_set_value_is_got_back(shared: Server, path: str, arguments: list[str], shown: str) -> None:
    ran = shared.run("set", path, *arguments)
    assert (ran.code, ran.err) == (0, "")
    assert shared.run("get", path, "-o", "json").text == f"{shown}\n"


def test_value_of_900_kib_goes_in_by_file_and_out_raw(shared: Server, path: str) -> None:
    text = b"x" * 900 * 1024
    assert shared.run("set", path, "-s", "-f", "-", stdin=text).code == 0
    assert shared.run("get", path, "-o", "raw").out == text


def test_value_beyond_the_limit_is_refused(shared: Server, path: str) -> None:
    ran = shared.run("set", path, "-s", "-f", "-", stdin=b"x" * (1 << 21))
    assert ran.code == 1
    assert "limit" in ran.err


def test_meta_shows_the_change_which_if_chain_takes(shared: Server, path: str) -> None:
    shared.run("set", path, "1")
    meta = json.loads(shared.run("get", path, "-m", "-o", "json").out)
    assert meta["value"] == 1
    assert shared.run("set", path, "2", "--if-chain", meta["chain"][0]).code == 0
    assert shared.run("set", path, "3", "--if-chain", meta["chain"][0]).code == 4
    assert shared.run("get", path).text == "2\n"


def test_new_fails_where_a_value_is(shared: Server, path: str) -> None:
    assert [shared.run("set", path, value, "--new").code for value in "12"] == [0, 4]
    assert shared.run("get", path).text == "1\n"


def test_if_value_fails_where_another_value_is(shared: Server, path: str) -> None:
    shared.run("set", path, "1")
    assert shared.run("set", path, "2", "--if-value", "-1").code == 4
    assert shared.run("set", path, "2", "--if-value", "1").code == 0


def test_idem_and_if_value_do_not_see_the_order_of_keys(shared: Server, path: str) -> None:
    shared.run("set", path, "{a: {x: 1, y: 2}, b: 3}")
    again = "{b: 3, a: {y: 2, x: 1}}"
    assert json.loads(shared.run("set", path, again, "--idem", "-o", "json").out)["changed"] is False
    assert shared.run("set", path, "5", "--if-value", again).code == 0


def test_idem_takes_the_end_of_a_value_away(shared: Server, path: str) -> None:
    shared.run("set", path, "v", "--ttl", "1000")
    assert json.loads(shared.run("set", path, "v", "--idem", "-o", "json").out)["changed"] is True
    assert "ttl" not in json.loads(shared.run("get", path, "-m", "-o", "json").out)


def test_idem_makes_no_change_of_an_equal_value(shared: Server, path: str) -> None:
    shared.run("set", path, "1")
    before = shared.state()["tick"]
    assert shared.run("set", path, "1", "--idem").code == 0
    assert shared.state()["tick"] == before


def test_deleted_value_is_gone_and_cannot_be_deleted_again(shared: Server, path: str) -> None:
    shared.run("set", path, "1")
    assert shared.run("delete", path).code == 0
    missing = shared.run("get", path)
    assert (missing.code, missing.out) == (3, b"")
    assert shared.run("delete", path).code == 3


def test_path_without_a_value_is_told_with_what_is_known_of_it(shared: Server, path: str) -> None:
    assert "set one with 'distkv client set'" in shared.run("get", path).err
    shared.run("set", f"{path}.a:_b", "1")
    assert f"values below it: 'distkv client get -r {path}'" in shared.run("get", path).err
    shared.run("delete", f"{path}.a:_b")
    assert f"{path}.a:_b has no value: it was deleted at 20" in shared.run("get", f"{path}.a:_b").err
    before_s = time.time()
    shared.run("set", path, "1", "--ttl", "0.1")
    wait_until(lambda: shared.run("get", path).code == 3, "it has expired")
    assert f"{path} has no value: it expired at 20" in shared.run("get", path).err
    assert "had no value at 20" in shared.run("get", path, "--at", str(before_s)).err


def test_default_is_printed_where_no_value_is(shared: Server, path: str) -> None:
    ran = shared.run("get", path, "--default", "-3")
    assert (ran.code, ran.text) == (0, "-3\n")


# -- the node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["ready", "converged"])
def test_wait_ends_at_a_node_that_is_alone_and_ready(shared: Server, wait: str) -> None:
    ran = shared.run("state", "--wait", wait, "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["state"] == "ready"


def test_wait_meets_a_server_that_starts_later(servers: Servers) -> None:
    server = servers.add("solo")
    server.start("--transport", "solo", "--init", "x")
    assert server.run("state", "--wait", "ready", "--timeout", "20").code == 0


def test_wait_gives_up_after_its_timeout(servers: Servers) -> None:
    ran = servers.add("absent").run("state", "--wait", "ready", "--timeout", "0")
    assert ran.code == 5
    assert "no server answers" in ran.err


def test_ping_names_the_node(shared: Server) -> None:
    ran = shared.run("ping")
    assert ran.code == 0
    assert ran.text.startswith(f"solo at {shared.address} is ready")


def test_hosts_are_tried_in_turn(servers: Servers, shared: Server) -> None:
    dead = f"127.0.0.1:{free_port()}"
    assert servers.run("client", "-h", dead, "-h", shared.address, "get", ":").text == "hello\n"
    assert servers.run("client", "get", ":", DISTKV_HOST=f"{dead},{shared.address}").text == "hello\n"


def test_host_and_port_may_come_from_the_environment(servers: Servers, shared: Server) -> None:
    assert servers.run("client", "get", ":", DISTKV_HOST="127.0.0.1", DISTKV_PORT=str(shared.port)).text == "hello\n"


def test_missing_server_is_said_in_one_line(servers: Servers) -> None:
    ran = servers.run("client", "-p", str(free_port()), "get", "a")
    assert ran.code == 5
    assert ran.err.count("\n") == 1
    assert "distkv server" in ran.err


def test_interrupted_client_exits_130_in_silence(servers: Servers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        command = [sys.executable, "-m", "distkv", "client", "-p", str(mute.getsockname()[1]), "get", "a"]
        with subprocess.Popen(command, env=servers.environment, stderr=subprocess.PIPE) as process:
            try:
                accepted, _ = mute.accept()
                with accepted:
                    process.send_signal(signal.SIGINT)
                    _, errors = process.communicate(timeout=300)
            finally:
                process.kill()
    assert (process.returncode, errors) == (130, b"")


@pytest.mark.parametrize(
    ("command", "redirection", "words"),
    [
        ("get :", ">&-", "distkv: output: standard output is closed\n"),
        ("get :", ">/dev/full", "distkv: output: No space left on device\n"),
        ("set x -", "<&-", "distkv: standard input is closed: there is no value to read\n"),
        ("state", "| true", ""),
    ],
)
def test_output_that_cannot_be_written_is_one_line(shared: Server, command: str, redirection: str, words: str) -> None:
    line = f"{sys.executable} -m distkv client -p {shared.port} {command} {redirection}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=dict(shared.environment), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == words


# -- configuration ------------------------------------------------------------------------------------------------


def test_configuration_file_starts_a_node_by_itself(servers: Servers, tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "config.yaml"
    file.write_text(
        f"node: {{name: solo}}\ndata: {{dir: {tmp_path / 'data'}}}\ntransport: solo\nlisten: ['127.0.0.1:{port}']\n"
    )
    command = [sys.executable, "-m", "distkv", "-c", str(file), "server", "--init", "x"]
    with subprocess.Popen(command, env=servers.environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().decode().startswith(f"distkv: solo ready on 127.0.0.1:{port}")
        finally:
            process.kill()


def test_mistake_in_the_file_is_named_with_its_line(servers: Servers, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("transport: solo\nping:\n  clock: 0.1\n")
    ran = servers.run("server", "a", DISTKV_CONFIG=str(file))
    assert ran.code == 2
    assert ran.err == f"distkv: {file}:3: ping.clock is 0.1: it must be 0.5 to 3600 seconds\n"


def test_refused_server_made_no_directory(servers: Servers, tmp_path: Path) -> None:
    ran = servers.run("server", "a", "--transport", "solo", "--init", "null", "--data-dir", str(tmp_path / "data"))
    assert ran.code == 2
    assert not (tmp_path / "data").exists()


# -- what it loads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False])
def test_restored_is_refused_where_there_is_no_data(servers: Servers, tmp_path: Path, is_there: bool) -> None:
    data = tmp_path / "data"
    if is_there:
        data.mkdir()
    done = servers.run("server", "a", "--restored", "--data-dir", str(data), "--bind", "127.0.0.1:0")
    assert (done.code, done.out) == (2, b"")
    assert "holds no data, and --restored is for data that was put back" in done.err
    assert data.exists() == is_there


def test_client_commands_load_no_event_loop(shared: Server) -> None:
    """What `--help` and `get` load is what they cost: a fifth of a second with trio, the half without."""
    program = (
        "import sys; from distkv.cli.main import run\n"
        f"codes = run(['--help']), run(['client', '-p', '{shared.port}', 'get', ':'])\n"
        "heavy = {'trio', 'asyncio', 'anyio', 'ruyaml', 'distkv.daemon.main', 'distkv.core'} & sys.modules.keys()\n"
        "sys.exit(f'{codes} {sorted(heavy)}' if heavy or codes != (0, 0) else 0)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=dict(shared.environment), capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# -- the fixture itself -------------------------------------------------------------------------------------------


def test_server_that_ends_early_is_told_with_its_words(servers: Servers) -> None:
    server = servers.start("solo", "--transport", "solo", "--init", "null")
    with pytest.raises(ChildProcessError, match="null is no value"):
        server.wait_ready()


def test_wait_until_tells_the_last_answer() -> None:
    with pytest.raises(TimeoutError, match="last answer: 0"):
        wait_until(lambda: 0, "something", 0.0)
