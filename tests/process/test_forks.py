"""A fork is as good as the command itself: each is started both ways, and nobody can tell them apart.

Knows: what a process gets from who started it, and what it gives back.  Does not know what the commands do.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from distkv.cli.descendants import below, look_at
from tests.process.forks import CHECKOUT, PYTHONPATH, READ_AT_BEGIN, SERVER_ENVIRONMENT, Command, Forked, as_fork
from tests.process.mounts import small_file_system
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
        assert server.run("set", "watched", "1").code == 0
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


@contextmanager
def watching(solo: Server, **options: Any) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """A real and a forked command; both have told what there is, and go on for ever."""
    with (
        started(REAL, *watch_words(solo), **options) as real,
        started(FORKED, *watch_words(solo), **options) as forked,
    ):
        for process in (real, forked):
            assert process.stdout is not None
            assert process.stdout.readline() == b"watched: 1\n"
        yield real, forked


def watch_words(solo: Server) -> Sequence[str]:
    return ("client", "-p", str(solo.port), "watch", "watched", "--state")


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
    words = ("client", "-p", str(solo.port), "load")
    assert run(KINDS[0], *words, given=lines).code == 0  # what is there already is told apart from what is stored
    assert ran_alike(*words, given=lines).code == 0
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


SHOW_STREAMS = """
import sys
if sys.argv[1] == "anew":
    from tests.process.fork_server import open_stream
    sys.stdin, sys.stdout, sys.stderr = map(open_stream, range(3), (sys.stdin, sys.stdout, sys.stderr))
for one in (sys.stdin, sys.stdout, sys.stderr):
    raw = getattr(one.buffer, "raw", one.buffer)
    print(one, type(one.buffer), raw, one.errors, one.line_buffering, one.write_through, one.isatty())
"""


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONIOENCODING": "latin-1:replace"}])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_standard_files_are_opened_as_an_interpreter_opens_them(
    variables: Mapping[str, str], is_terminal: bool
) -> None:
    environment = {**SERVER_ENVIRONMENT, "PYTHONUNBUFFERED": "", **variables}
    shown = []
    for how in ("as they are", "anew"):
        terminal, end = pty.openpty()
        files = dict.fromkeys(("stdin", "stderr"), end if is_terminal else subprocess.DEVNULL)
        words = [sys.executable, "-c", SHOW_STREAMS, how]
        shown.append(subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True, **files).stdout)
        os.close(terminal)
        os.close(end)
    assert shown[0].count(b"\n") == 3
    assert shown[1] == shown[0]


# -- what it begins with ------------------------------------------------------------------------------------------

LOOKS = (
    "env | grep -av '^DISTKV_\\(FENCE\\|SESSION\\)='; pwd; umask; ulimit -a; ls -l /proc/self/fd | grep -o '[012] ->'",
    "grep -E 'Sig(Blk|Ign)|ShdPnd|NoNewPrivs' /proc/self/status",
)
"""What a command that `distkv` starts has got from it, hence it has got itself."""


def test_environment_directory_signals_and_limits_are_those_that_it_is_given(solo: Server, tmp_path: Path) -> None:
    here = tmp_path / "hier \u00fc"
    here.mkdir()
    needed = {name: value for name, value in solo.environment.items() if name.startswith(READ_AT_BEGIN)}
    variables = {**needed, "LOUD": "\u00e4\udc80 \n", "HOME": str(tmp_path), "PATH": os.defpath}
    words = ["client", "-p", str(solo.port), "token", "run", "looks", "--", "/bin/sh", "-c", "; ".join(LOOKS)]
    ended = ran_alike(*words, env=variables, cwd=here)
    assert ended.code == 0
    assert "LOUD=\u00e4\udc80 \n\n".encode(errors="surrogateescape") in ended.out
    assert f"{here}\n".encode() in ended.out


def test_variable_that_says_where_the_configuration_is_is_heeded(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("node: {name: b}\n")
    assert b"name: b" in ran_alike("config", "show", env={**SERVER_ENVIRONMENT, "DISTKV_CONFIG": str(file)}).out


def test_file_is_looked_for_where_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("node: {name: b}\n")
    assert b"name: b" in ran_alike("-c", "config.yaml", "config", "show", cwd=tmp_path).out


@pytest.mark.parametrize("leads", [False, True])
def test_session_is_that_of_the_tests_or_its_own(solo: Server, leads: bool) -> None:
    with watching(solo, start_new_session=leads) as processes:
        for process in processes:
            assert (os.getsid(process.pid) == process.pid) is leads
            assert (os.getsid(process.pid) == os.getsid(0)) is not leads
            assert (os.getpgid(process.pid) == os.getpgid(0)) is not leads


def test_parent_is_the_process_of_tests(solo: Server) -> None:
    with watching(solo) as processes:
        found = [look_at(process.pid) for process in processes]
    assert [view.parent for view in found if view is not None] == [os.getpid()] * 2


def test_it_has_no_file_but_its_own(solo: Server) -> None:
    with watching(solo) as processes:
        real, forked = (sorted(files_of(process.pid)) for process in processes)
        assert [kind for _, kind in real[:3]] == ["pipe"] * 3
        assert {kind for _, kind in real[3:]} == {"socket"}, "to the server"
        assert forked == real


def files_of(pid: int) -> list[tuple[int, str]]:
    found = Path(f"/proc/{pid}/fd").iterdir()
    return [(int(file.name), os.readlink(file).partition(":")[0]) for file in found]


def test_pipe_of_one_ends_while_another_runs(solo: Server) -> None:
    with watching(solo) as first, watching(solo) as second:
        for process in first:
            process.kill()
            assert process.communicate(timeout=END_S) == (b"", b"")
        assert [process.poll() for process in second] == [None, None]


def test_forks_draw_different_numbers(solo: Server) -> None:
    """Who names a session by chance, for example."""
    words = ["client", "-p", str(solo.port), "token", "acquire", "--wait", "60"]
    sessions = {run(FORKED, *words, f"drawn.{number}").out.split()[-1] for number in range(3)}
    assert len(sessions) == 3


# -- how it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9), (signal.SIGHUP, -1)]
)
def test_signal_ends_it_as_it_ends_the_command(solo: Server, number: signal.Signals, code: int) -> None:
    with watching(solo) as processes:
        for process in processes:
            process.send_signal(number)
            assert process.communicate(timeout=END_S) == (b"", b"")
            assert process.returncode == code


def test_interrupt_that_comes_at_once_is_not_lost(solo: Server) -> None:
    with started(FORKED, *watch_words(solo)) as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_S)
    assert process.returncode in {130, -signal.SIGINT}  # as the command itself, loaded or not yet


def test_server_ends_as_the_command_does(solo: Server) -> None:
    """It is one itself."""
    with open_servers(solo.directory / "more") as servers:
        server = servers.start("more", "--transport", "solo", "--init", "x")
        server.wait_ready()
        assert server.terminate() == 0


def test_stop_is_seen_and_ends_with_continue(solo: Server) -> None:
    with watching(solo) as processes:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
            wait_stopped(process)
            assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
            process.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
            assert process.poll() is None


PROCESS_OF_TESTS = """
import subprocess, sys
from tests.process.forks import CHECKOUT, SERVER_ENVIRONMENT, Command
commands = [
    Command([*CHECKOUT, *sys.argv[1:]], env=SERVER_ENVIRONMENT, stdout=subprocess.PIPE, start_new_session=leads)
    for leads in (False, True)
]
for process in commands:
    process.stdout.readline()
print(*(process.pid for process in commands), flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_process_of_tests_is_killed(solo: Server) -> None:
    words = [sys.executable, "-c", PROCESS_OF_TESTS, *watch_words(solo)]
    with subprocess.Popen(words, env=SERVER_ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tests:
        try:
            assert tests.stdout is not None
            commands = [int(word) for word in tests.stdout.readline().split()]
            below_tests = [view.pid for view in below(tests.pid)]
            assert set(commands) < set(below_tests)
            assert len(below_tests) == 3, "two commands and the server of forks"
            tests.kill()
            wait_until(lambda: all(map(is_gone, below_tests)), "all have ended")
        finally:
            tests.kill()


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


def test_command_goes_on_when_the_thread_is_gone_that_started_it(solo: Server) -> None:
    begun = list[subprocess.Popen[bytes]]()

    def begin() -> None:
        begun.append(FORKED([*CHECKOUT, *watch_words(solo)], env=SERVER_ENVIRONMENT, stdout=subprocess.PIPE))

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    with begun[0] as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"watched: 1\n"
            assert process.poll() is None
        finally:
            process.kill()


def test_command_begins_in_the_namespace_that_it_is_to_enter(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with small_file_system(tmp_path / "disk", 1) as disk:
        (disk.seen_from_here / "distkv.yaml").write_text("node: {name: inside}\n")
        words = [*disk.entering, *CHECKOUT, "config", "show"]
        environment = {**SERVER_ENVIRONMENT, "DISTKV_CONFIG": str(disk.place / "distkv.yaml")}
        assert as_fork(words, environment) == Forked(["config", "show"], disk.entering[1].partition("=")[2])
        for kind in KINDS:
            with kind(words, env=environment, stdout=subprocess.PIPE) as process:
                assert b"name: inside" in process.communicate(timeout=END_S)[0]


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
    forked = as_fork([*CHECKOUT, "--version"], {**SERVER_ENVIRONMENT, **variables})
    assert forked == (Forked(["--version"], "") if fits else None)


def test_environment_that_lacks_what_an_interpreter_reads_is_not_for_a_fork() -> None:
    assert as_fork([*CHECKOUT, "--version"], {"PATH": os.defpath}) is None


@pytest.mark.parametrize("words", ["distkv --version", ["distkv", "--version"], [sys.executable, "-m", "pytest"]])
def test_another_program_is_not_forked(words: str | list[str]) -> None:
    assert as_fork(words, SERVER_ENVIRONMENT) is None


def test_what_cannot_be_forked_is_started_all_the_same() -> None:
    variables = {**SERVER_ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}
    ended = run(FORKED, "client", "get", "\u00fc..a", env=variables)
    assert ended == run(REAL, "client", "get", "\u00fc..a", env=variables)
    assert b"\xfc" in ended.err
