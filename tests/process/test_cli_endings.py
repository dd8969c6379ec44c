"""How commands end that are interrupted, or whose output nobody takes, with a real server.

Knows: signals, pipes and exit codes.  Does not know what the commands do.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.process.servers import Server, Servers, open_servers, wait_until

COMMAND = [sys.executable, "-m", "distkv"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node with more values than a pipe holds."""
    with open_servers(tmp_path_factory.mktemp("node")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        lines = b"".join(b'{"path": "t.%05d", "value": "%0100d"}\n' % (number, number) for number in range(3000))
        assert server.run("load", stdin=lines).code == 0
        yield server


# -- Ctrl-C -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["load"], ["set", "a", "-"], ["set", "a", "-s", "-f", "-"]])
def test_command_that_reads_can_be_interrupted(node: Server, words: list[str]) -> None:
    """It is interrupted while it waits for standard input, which the kernel tells."""
    command = [*COMMAND, "client", "-p", str(node.port), *words]
    with subprocess.Popen(
        command, env=dict(node.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            wait_until(lambda: _waits_in(process.pid) == "pipe_read", "it reads", 30)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, out, errors.strip()) == (130, b"", b"")  # an empty line goes on behind '^C'


def _waits_in(pid: int) -> str:
    with open(f"/proc/{pid}/wchan") as file:
        found = file.read()
    return "pipe_read" if "pipe_read" in found else found


def test_watch_can_be_interrupted_after_lines(node: Server) -> None:
    command = [*COMMAND, "client", "-p", str(node.port), "watch", ":", "--state"]
    with subprocess.Popen(
        command, env=dict(node.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b":: hello\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, errors) == (130, b"")


def test_command_can_be_interrupted_before_it_is_loaded(node: Server) -> None:
    program = (
        "import runpy, sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'distkv.cli.client': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder)\n"
        "runpy.run_module('distkv', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=dict(node.environment), capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# -- output that nobody takes -------------------------------------------------------------------------------------


def _in_shell(node: Server, line: str) -> subprocess.CompletedProcess[bytes]:
    """The line in sh, where `distkv` stands for the command with its client options."""
    client = f"{sys.executable} -m distkv client -p {node.port}"
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("distkv", client)],
        env=dict(node.environment), capture_output=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    ["get -r :", "get -r : -o json", "get -r : -o yaml", "get -r : -o msgpack", "list t", "dump", "watch : --state"],
)
def test_reader_may_have_seen_enough(node: Server, command: str) -> None:
    done = _in_shell(node, f"distkv {command} | head -c 5")
    assert (len(done.stdout), done.stderr) == (5, b"")


def test_terminal_gets_no_colours(node: Server) -> None:
    terminal, end = pty.openpty()
    with open(terminal, "rb", buffering=0) as shown:
        for words in (["--help"], ["get", "nothing"], ["nonsense"], ["list", "t", "-o", "text"]):
            command = [*COMMAND, "client", "-p", str(node.port), *words]
            process = subprocess.Popen(command, env=dict(node.environment), stdout=end, stderr=end)
            try:
                seen = b""
                while process.poll() is None or select.select([shown], [], [], 0)[0]:
                    if select.select([shown], [], [], 0.1)[0]:
                        seen += shown.read(4096)
            finally:
                process.kill()
                process.wait()
            assert seen
            assert b"\x1b" not in seen
        os.close(end)


def test_watch_says_that_its_server_is_gone_while_it_is_and_when_it_is_back(servers: Servers) -> None:
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    told = server.directory / "told"
    command = [*COMMAND, "client", "-p", str(server.port), "watch", ":", "--state"]
    with told.open("wb") as out:
        watch = subprocess.Popen(command, env=dict(server.environment), stdout=out, stderr=out)
        try:
            wait_until(lambda: "hello" in told.read_text(), "the state is shown")
            server.kill()
            wait_until(lambda: "; trying again\n" in told.read_text(), "the loss is told")
            server.start("--transport", "solo").wait_ready()
            wait_until(lambda: "distkv: connected again" in told.read_text(), "it is told that it is over")
        finally:
            watch.kill()
            watch.wait()
    assert told.read_text().count("trying again") == 1


@pytest.mark.parametrize(
    "command",
    ["get t.00000", "get -r t", "list t", "history t.00000", "conflicts", "watch t --state --count 1", "dump", "state",
     "node list", "ping", "scrub", "set u 1", "set u 1 -o json", "load", "load -o json", "token list"],
)  # fmt: skip
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "2>&-", "2>/dev/full", ">&- 2>&-"])
def test_closed_or_full_output_is_no_fault_of_the_command(node: Server, command: str, redirection: str) -> None:
    done = _in_shell(node, f"""echo '{{"path": "u", "value": 1}}' | distkv {command} {redirection}""")
    assert b"internal error" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") <= 1
    if redirection in ("2>&-", "2>/dev/full"):
        plain = _in_shell(node, f"""echo '{{"path": "u", "value": 1}}' | distkv {command}""")
        assert done.returncode == plain.returncode


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_exit_code_tells_where_stderr_cannot(node: Server, redirection: str) -> None:
    assert _in_shell(node, f"distkv get nothing {redirection}").returncode == 3
    assert _in_shell(node, f"distkv get a..b {redirection}").returncode == 2
