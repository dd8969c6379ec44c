"""A fork is as good as the command itself: each is started both ways, and nobody can tell them apart.

Knows: what a process gets from who started it, and what it gives back.  Does not know what the commands do.
"""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from distkv.cli.descendants import look_at
from tests.process.forks import CHECKOUT, PYTHONPATH, SERVER_ENVIRONMENT, Command, is_forked
from tests.process.servers import Server, open_servers, wait_stopped, wait_until

END_S = 300.0
KINDS: Sequence[type[subprocess.Popen[bytes]]] = (subprocess.Popen, Command)
REAL, FORKED = KINDS


@attrs.frozen
class Ended:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes


@pytest.fixture(scope="module")
def solo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_servers(tmp_path_factory.mktemp("solo")) as servers:
        server = servers.add("solo")
        server.start("--transport", "solo", "--init", "hello", options=["-C", "tokens.servers=[solo]"])
        server.wait_ready()
        wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", 30, server.dump)
        yield server


@contextmanager
def started(kind: type[subprocess.Popen[bytes]], *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command, of this kind; it is killed at the end."""
    files = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with kind([*CHECKOUT, *words], **{"env": SERVER_ENVIRONMENT, **files, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def run(kind: type[subprocess.Popen[bytes]], *words: str, given: bytes = b"", **options: Any) -> Ended:
    with started(kind, *words, **options) as process:
        out, err = process.communicate(given, END_S)
    return Ended(process.returncode, out or b"", err or b"")


def ran_alike(*words: str, given: bytes = b"", **options: Any) -> Ended:
    """How it ended, which must be the same both ways."""
    real, forked = (run(kind, *words, given=given, **options) for kind in KINDS)
    assert forked == real
    return forked


# -- output and exit codes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["client", "token", "--help"], 0),
        ([], 2),
        (["nonsense"], 2),
        (["client", "get", "a..b"], 2),
        (["client", "get", "\udcff\u00fc"], 2),
        (["-vvv", "-C", "ping.clock=0", "config", "show"], 2),
        (["client", "-p", "1", "get", "a"], 5),
    ],
)
def test_output_and_exit_code_are_those_of_the_command(words: list[str], code: int) -> None:
    assert ran_alike(*words).code == code


def test_all_of_a_long_output_arrives(solo: Server) -> None:
    lines = b"".join(b'{"path": "t.%04d", "value": "%0100d"}\n' % (number, number) for number in range(1000))
    assert ran_alike("client", "-p", str(solo.port), "load", given=lines).code == 0
    assert len(ran_alike("client", "-p", str(solo.port), "get", "-r", "t").out) > 100_000


def test_output_that_cannot_be_written_is_told(solo: Server) -> None:
    with open("/dev/full", "wb") as full:
        ended = ran_alike("client", "-p", str(solo.port), "get", ":", stdout=full)
    assert ended == Ended(1, b"", b"distkv: output: No space left on device\n")


def test_input_that_has_ended_has_ended(solo: Server) -> None:
    assert ran_alike("client", "-p", str(solo.port), "load", stdin=subprocess.DEVNULL).code == 0
    assert ran_alike("client", "-p", str(solo.port), "set", "empty", "-").code == 2


def test_errors_may_go_where_output_goes() -> None:
    assert b"no server answers" in ran_alike("client", "-p", "1", "get", "a", stderr=subprocess.STDOUT).out


def test_terminal_is_written_to_as_a_terminal() -> None:
    shown = []
    for kind in KINDS:
        terminal, end = pty.openpty()
        with open(terminal, "rb", buffering=0) as screen:
            assert run(kind, "client", "--help", stdin=end, stdout=end, stderr=end).code == 0
            os.close(end)
            shown.append(read_screen(screen.fileno()))
    assert b"Usage" in shown[0]
    assert shown[0] == shown[1]


def read_screen(terminal: int) -> bytes:
    found = b""
    try:
        while data := os.read(terminal, 4096):
            found += data
    except OSError:  # as Linux says that nobody has the other end
        pass
    return found


# -- what it begins with ------------------------------------------------------------------------------------------

LOOKS = (
    "env | grep -av '^DISTKV_\\(FENCE\\|SESSION\\)='; pwd; umask; ulimit -a; ls -l /proc/self/fd | grep -o '[012] ->'",
    "grep -E 'Sig(Blk|Ign)|ShdPnd|NoNewPrivs' /proc/self/status",
)
"""What a command that `distkv` starts has got from it, hence it has got itself."""


def test_environment_directory_signals_and_limits_are_those_that_it_is_given(solo: Server, tmp_path: Path) -> None:
    here = tmp_path / "hier \u00fc"
    here.mkdir()
    variables = {**solo.environment, "LOUD": "\u00e4\udc80 \n", "TZ": "Asia/Tokyo", "PATH": os.defpath}
    del variables["PYTEST_CURRENT_TEST"]
    words = ["client", "-p", str(solo.port), "token", "run", "looks", "--", "/bin/sh", "-c", "; ".join(LOOKS)]
    ended = ran_alike(*words, env=variables, cwd=here)
    assert ended.code == 0
    assert "LOUD=\u00e4\udc80 \n\n".encode(errors="surrogateescape") in ended.out
    assert f"{here}\n".encode() in ended.out
    assert b"PYTEST_CURRENT_TEST=" not in ended.out, "nothing is left of the server's own"


def test_variable_that_says_where_the_configuration_is_is_heeded(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("node: {name: b}\n")
    assert b"name: b" in ran_alike("config", "show", env={**SERVER_ENVIRONMENT, "DISTKV_CONFIG": str(file)}).out


def test_file_is_looked_for_where_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("node: {name: b}\n")
    assert b"name: b" in ran_alike("-c", "config.yaml", "config", "show", cwd=tmp_path).out


@pytest.mark.parametrize("leads", [False, True])
def test_session_is_that_of_the_tests_or_its_own(leads: bool) -> None:
    with calling_nobody(start_new_session=leads) as processes:
        for process in processes:
            assert (os.getsid(process.pid) == process.pid) is leads
            assert (os.getsid(process.pid) == os.getsid(0)) is not leads
            assert (os.getpgid(process.pid) == os.getpgid(0)) is not leads


def test_parent_is_the_process_of_tests() -> None:
    with calling_nobody() as processes:
        found = [look_at(process.pid) for process in processes]
    assert [view.parent for view in found if view is not None] == [os.getpid()] * 2


def test_it_has_no_file_but_its_own() -> None:
    with calling_nobody() as processes:
        real, forked = (sorted(files_of(process.pid)) for process in processes)
        assert [kind for _, kind in real] == ["pipe", "pipe", "pipe", "socket"]
        assert forked == real


def files_of(pid: int) -> list[tuple[int, str]]:
    found = Path(f"/proc/{pid}/fd").iterdir()
    return [(int(file.name), os.readlink(file).partition(":")[0]) for file in found]


def test_pipe_of_one_ends_while_another_runs() -> None:
    with calling_nobody() as first, calling_nobody() as second:
        for process in first:
            process.kill()
            assert process.communicate(timeout=END_S) == (b"", b"")
        assert [process.poll() for process in second] == [None, None]


def test_forks_draw_different_numbers(solo: Server) -> None:
    """Who names a session by chance, for example."""
    words = ["client", "-p", str(solo.port), "token", "acquire", "--wait", "0"]
    sessions = {run(FORKED, *words, f"drawn.{number}").out.split()[-1] for number in range(3)}
    assert len(sessions) == 3


# -- how it ends --------------------------------------------------------------------------------------------------


@contextmanager
def calling_nobody(**options: Any) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """A real and a forked command, both of which wait for an answer that does not come."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        words = ["client", "-p", str(mute.getsockname()[1]), "get", "a"]
        with started(REAL, *words, **options) as real, mute.accept()[0]:  # noqa: SIM117  # one call after the other
            with started(FORKED, *words, **options) as forked, mute.accept()[0]:
                yield real, forked


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9), (signal.SIGHUP, -1)]
)
def test_signal_ends_it_as_it_ends_the_command(number: signal.Signals, code: int) -> None:
    with calling_nobody() as processes:
        for process in processes:
            process.send_signal(number)
            assert process.communicate(timeout=END_S) == (b"", b"")
            assert process.returncode == code


def test_interrupt_that_comes_at_once_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        with started(FORKED, "client", "-p", str(mute.getsockname()[1]), "get", "a") as process:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=END_S)
        assert process.returncode in {130, -signal.SIGINT}  # as the command itself, loaded or not yet


def test_server_ends_as_the_command_does(solo: Server) -> None:
    """It is one itself."""
    with open_servers(solo.directory / "more") as servers:
        server = servers.start("more", "--transport", "solo", "--init", "x")
        server.wait_ready()
        assert server.terminate() == 0


def test_stop_is_seen_and_ends_with_continue() -> None:
    with calling_nobody() as processes:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
            wait_stopped(process)
            assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
            process.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
            assert process.poll() is None


PROCESS_OF_TESTS = """
import subprocess, sys, threading
from tests.process.forks import CHECKOUT, SERVER_ENVIRONMENT, Command, _server
commands = [
    Command([*CHECKOUT, "client", "-p", sys.argv[1], "get", "a"], env=SERVER_ENVIRONMENT, start_new_session=leads)
    for leads in (False, True)
]
print(*(process.pid for process in (*commands, _server().process)), flush=True)
threading.Event().wait()
"""


def test_nothing_is_left_when_the_process_of_tests_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        words = [sys.executable, "-c", PROCESS_OF_TESTS, str(mute.getsockname()[1])]
        with subprocess.Popen(words, env=SERVER_ENVIRONMENT, stdout=subprocess.PIPE) as tests:
            try:
                assert tests.stdout is not None
                pids = [int(word) for word in tests.stdout.readline().split()]
                with mute.accept()[0], mute.accept()[0]:
                    assert [pid for pid in pids if is_gone(pid)] == []
                    tests.kill()
                    wait_until(lambda: all(map(is_gone, pids)), "all have ended")
            finally:
                tests.kill()
    assert len(pids) == 3


def is_gone(pid: int) -> bool:
    found = look_at(pid)
    return found is None or found.is_dead


# -- starting it --------------------------------------------------------------------------------------------------


def test_commands_may_be_started_by_several_threads_at_once() -> None:
    found: list[Ended] = []
    threads = [threading.Thread(target=lambda: found.append(run(FORKED, "--version"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [run(REAL, "--version")] * 8


def test_command_goes_on_when_the_thread_is_gone_that_started_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        words = [*CHECKOUT, "client", "-p", str(mute.getsockname()[1]), "get", "a"]
        started = list[Command[bytes]]()
        thread = threading.Thread(target=lambda: started.append(Command(words, env=SERVER_ENVIRONMENT)))
        thread.start()
        thread.join()
        with mute.accept()[0]:
            assert started[0].poll() is None
            started[0].kill()
            assert started[0].wait(END_S) == -signal.SIGKILL


def test_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match="FileNotFoundError"):
        Command([*CHECKOUT, "--version"], env=SERVER_ENVIRONMENT, cwd=tmp_path / "nothing")
    assert run(FORKED, "--version").code == 0


@pytest.mark.parametrize(
    ("variables", "fits"),
    [
        ({"HOME": "/", "TZ": "Asia/Tokyo", "COLUMNS": "40", "NEW": "x"}, True),
        ({"PYTHONPATH": f"{PYTHONPATH}{os.pathsep}/tmp"}, False),
        ({"PYTHONHASHSEED": "1"}, False),
        ({"PYTHONIOENCODING": "latin-1"}, False),
        ({"LC_ALL": "POSIX.other"}, False),
        ({"LANG": "xx_XX"}, False),
    ],
)
def test_environment_that_an_interpreter_reads_once_is_not_for_a_fork(variables: Mapping[str, str], fits: bool) -> None:
    assert is_forked([*CHECKOUT, "--version"], {**SERVER_ENVIRONMENT, **variables}) is fits


def test_environment_that_lacks_what_an_interpreter_reads_is_not_for_a_fork() -> None:
    assert not is_forked([*CHECKOUT, "--version"], {"PATH": os.defpath})


@pytest.mark.parametrize("words", ["distkv --version", ["distkv", "--version"], [sys.executable, "-m", "pytest"]])
def test_another_program_is_not_forked(words: str | list[str]) -> None:
    assert not is_forked(words, SERVER_ENVIRONMENT)


def test_what_cannot_be_forked_is_started_all_the_same() -> None:
    variables = {**SERVER_ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}
    ended = run(FORKED, "client", "get", "\u00fc..a", env=variables)
    assert ended == run(REAL, "client", "get", "\u00fc..a", env=variables)
    assert b"\xfc" in ended.err
