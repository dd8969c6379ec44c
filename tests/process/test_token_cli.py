"""`distkv client token` against a real server that serves tokens alone.

Knows: the command as a user types it, and the processes that `run` starts.  Does not know its parts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import distkv
from tests.process.forks import CHECKOUT, Command
from tests.process.servers import Server, open_servers, wait_until

LEASE = ("tokens.servers=[solo]", "tokens.lease=1.0", "tokens.ttl=3.0")
"""So a session that nobody keeps is over soon."""


@pytest.fixture(scope="module")
def solo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A new network of one node; each test uses tokens of its own."""
    with open_servers(tmp_path_factory.mktemp("tokens")) as servers:
        server = servers.add("solo")
        server.start("--transport", "solo", "--init", "x", options=[word for one in LEASE for word in ("-C", one)])
        server.wait_ready()
        wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", 30, server.dump)
        yield server


def begin(solo: Server, *arguments: str) -> subprocess.Popen[bytes]:
    """`distkv client token run ...`, in the background."""
    command = [*CHECKOUT, "client", "-p", str(solo.port), "token", "run", *arguments]
    return Command(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(solo.environment)
    )


def acquire(solo: Server, name: str, *arguments: str) -> tuple[str, str]:
    """Fence and session."""
    ran = solo.run("token", "acquire", name, *arguments)
    assert ran.code == 0, ran.err
    fence, session = ran.text.split()
    return fence, session


def pids_in(file: Path, count: int) -> list[int]:
    """What processes wrote down of themselves, as soon as all have."""

    def read() -> list[int]:
        words = file.read_text().split("\n") if file.exists() else []
        return [int(word) for word in words[:-1]] if len(words) > count else []

    return wait_until(read, f"{count} processes run")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(is_running, pids)), "all processes have ended")


def writes_down(file: Path, then: str) -> str:
    """A shell script that writes down its process, and goes on."""
    return f"echo $$ >>{file}; {then}"


# -- sessions -----------------------------------------------------------------------------------------------------


def test_acquire_prints_a_fence_and_a_session_that_others_see(solo: Server) -> None:
    fence, session = acquire(solo, "seen", "--data", "{a: 1}", "--ttl", "60")
    shown = json.loads(solo.run("token", "show", "seen", "-o", "json").text)
    (holder,) = shown["holders"]
    assert (f"seen:{holder['epoch']}.{holder['counter']}", holder["session"]) == (fence, session)
    assert shown["data"] == {"a": 1}
    assert [line.split()[:2] for line in solo.run("token", "list", "see").text.splitlines()[1:]] == [
        ["seen", fence.partition(":")[2]]
    ]


def test_second_acquire_fails_with_4_until_the_release(solo: Server) -> None:
    _, session = acquire(solo, "once", "--ttl", "60")
    assert solo.run("token", "acquire", "once").code == 4
    assert solo.run("token", "release", "once", "--session", session).code == 0
    assert solo.run("token", "release", "once", "--session", session).code == 4
    acquire(solo, "once", "--ttl", "3")


def test_session_ends_with_its_last_token(solo: Server) -> None:
    _, session = acquire(solo, "last.a", "--ttl", "60")
    acquire(solo, "last.b", "--session", session)
    solo.run("token", "release", "last.a", "--session", session)
    assert solo.run("token", "renew", "--session", session).code == 0
    solo.run("token", "release", "last.b", "--session", session)
    assert solo.run("token", "renew", "--session", session).code == 4


def test_holder_sets_the_data_and_anybody_reads_it(solo: Server) -> None:
    _, session = acquire(solo, "data", "--ttl", "60")
    assert solo.run("token", "data", "data").code == 3
    assert solo.run("token", "data", "data", "21", "--session", session).code == 0
    assert solo.run("token", "data", "data").text == "21\n"
    assert solo.run("token", "data", "data", "22").code == 2
    assert solo.run("token", "data", "data", "null", "--session", session).code == 0
    assert solo.run("token", "data", "data").code == 3


def test_token_whose_fence_cannot_be_printed_is_not_kept(solo: Server) -> None:
    assert solo.run("token", "acquire", "unprinted", "--ttl", "60", "-o", "raw").code == 2
    full = f"{' '.join(CHECKOUT)} client -p {solo.port} token acquire unprinted --ttl 60 >/dev/full"
    ran = subprocess.run(["sh", "-c", full], capture_output=True, env=dict(solo.environment), check=False)
    assert (ran.returncode, ran.stderr.count(b"\n")) == (1, 1)
    acquire(solo, "unprinted", "--ttl", "3")


def test_free_token_is_got_without_waiting(solo: Server) -> None:
    acquire(solo, "at.once", "--wait", "0", "--ttl", "60")
    assert solo.run("token", "acquire", "at.once", "--wait", "0").code == 4


@pytest.mark.parametrize("words", [["renew"], ["release", "t"], ["data", "t", "1"], ["acquire", "t"]])
def test_session_that_never_was_is_over(solo: Server, words: list[str]) -> None:
    ran = solo.run("token", *words, "--session", "999999999999-0123456789abc")
    assert (ran.code, ran.err.count("\n")) == (4, 1)


def test_renew_with_another_fence_than_the_session_holds_is_refused(solo: Server) -> None:
    fence, session = acquire(solo, "typo", "--ttl", "60")
    assert solo.run("token", "renew", "--session", session, "--fence", f"{fence}1").code == 4
    assert solo.run("token", "renew", "--session", session, "--shared", fence).code == 4
    assert solo.run("token", "renew", "--session", session, "--fence", fence).code == 0


def test_short_ttl_is_raised_and_that_is_said(solo: Server) -> None:
    ran = solo.run("token", "acquire", "short", "--ttl", "1")
    said = "the session lives 3 s: a ttl is at least three leases (tokens.lease) of the token servers"
    assert (ran.code, ran.err) == (0, f"distkv: {said}\n")


def test_fence_of_a_token_guards_a_path(solo: Server) -> None:
    early, session = acquire(solo, "guard", "--ttl", "60")
    solo.run("token", "release", "guard", "--session", session)
    late, _ = acquire(solo, "guard", "--ttl", "3")
    assert solo.run("set", "guarded", "new", "--fence", late).code == 0
    assert solo.run("set", "guarded", "late", "--fence", early).code == 4


def test_break_takes_a_token_which_renew_tells(solo: Server) -> None:
    _, session = acquire(solo, "broken", "--ttl", "60")
    assert solo.run("token", "break", "broken").code == 0
    ran = solo.run("token", "renew", "--session", session)
    assert ran.code == 4
    assert "broken" in ran.err
    assert solo.run("token", "acquire", "broken", "--wait", "20").code == 0


def test_watch_prints_what_is_held(solo: Server) -> None:
    _, session = acquire(solo, "watched", "--ttl", "60")
    assert session in solo.run("token", "watch", "watched", "--count", "1").text


def test_servers_prints_the_map_of_the_request(solo: Server) -> None:
    shown = json.loads(solo.run("token", "servers", "-o", "json").text)
    assert [one["node"] for one in shown["servers"]] == ["solo"]
    assert shown["leader"] == "solo"


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        ("a,b", 2, "--servers is 'a,b': give 1, 3, 5 or 7 nodes"),
        ("b", 1, "b is neither the list of token servers in force"),
    ],
)
def test_reset_to_a_list_that_cannot_be_is_refused(solo: Server, names: str, code: int, said: str) -> None:
    ran = solo.run("token", "reset", "--force", "--servers", names)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert said in ran.err


def test_reset_without_force_is_refused(solo: Server) -> None:
    ran = solo.run("token", "reset")
    assert ran.code == 2
    assert "--force" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["acquire", ""],
        ["acquire", "a\nb"],
        ["acquire", "\x7f"],
        ["acquire", "x" * 256],
        ["acquire", "t", "--ttl", "86401"],
        ["acquire", "t", "--wait", "nan"],
        ["acquire", "t", "--session", "mine"],
        ["run", "x" * 256, "--", "true"],
        ["show", "a\tb"],
        ["list", "\x1b"],
        ["watch", "x" * 256],
        ["break", ""],
        ["data", "a\nb"],
        ["release", "t", "--session", f"{2**70}-a"],
        ["renew", "--session", "1-a", "--fence", "t"],
        ["renew", "--session", "1-a", "--fence", f"t:{2**62}.1"],
        ["renew", "--session", "1-a", "--shared", f"t:1.{2**63}"],
        ["renew", "--session", "1-a", "--fence", "x" * 256 + ":1.1"],
    ],
)
def test_what_no_token_session_or_fence_can_be_is_wrong_usage(solo: Server, words: list[str]) -> None:
    ran = solo.run("token", *words)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err


@pytest.mark.parametrize("name", ["x" * 255, "ä:c.d/e", "-t", "7", "日本"])
def test_any_other_text_is_a_name(solo: Server, name: str) -> None:
    fence, session = acquire(solo, "--ttl", "60", "--", name)
    assert solo.run("token", "renew", "--session", session, "--fence", fence).code == 0
    assert solo.run("token", "release", "--session", session, "--", name).code == 0


# -- run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_run_exits_with_the_status_of_the_command(solo: Server, script: str, code: int) -> None:
    assert solo.run("token", "run", "status", "--wait", "20", "--", "sh", "-c", script).code == code


def test_run_of_no_command_exits_as_shells_do(solo: Server) -> None:
    ran = solo.run("token", "run", "nosuch", "--", "/nosuch/command")
    assert ran.code == 127
    assert ran.err.count("\n") == 1


def test_command_has_fence_and_session_and_the_streams_of_run(solo: Server) -> None:
    script = 'echo "$DISTKV_FENCE $DISTKV_SESSION"; cat'
    ran = solo.run("token", "run", "streams", "--", "sh", "-c", script, stdin=b"in\n")
    first, second = ran.text.splitlines()
    fence, session = first.split()
    assert fence.startswith("streams:")
    assert session
    assert second == "in"


def test_command_asks_the_node_that_run_asks(solo: Server) -> None:
    script = f'unset DISTKV_PORT; {sys.executable} -m distkv client set asked 7; echo "$DISTKV_HOST"'
    ran = solo.run("token", "run", "same-node", "--", "sh", "-c", script)
    assert ran.text.splitlines()[-1].startswith("127.0.0.1:")
    assert solo.run("get", "asked").text == "7\n"


def test_token_that_is_held_names_the_option_that_waits(solo: Server) -> None:
    acquire(solo, "waited-for", "--ttl", "60")
    for command in (["run", "waited-for", "--", "true"], ["acquire", "waited-for"]):
        ran = solo.run("token", *command)
        assert (ran.code, ran.err) == (4, "distkv: 'waited-for' is held: wait for it, or try again (--wait SECONDS)\n")


def test_run_that_does_not_get_the_token_exits_with_4_and_runs_nothing(solo: Server) -> None:
    acquire(solo, "taken", "--ttl", "60")
    ran = solo.run("token", "run", "taken", "--", "echo", "ran")
    assert (ran.code, ran.text) == (4, "")


@pytest.mark.parametrize("grace", ["2.9", "4"])
def test_grace_is_no_part_of_the_ttl(solo: Server, grace: str) -> None:
    ran = solo.run("token", "run", "graceful", "--grace", grace, "--", "sleep", "5")
    assert (ran.code, ran.err) == (0, "")


def test_token_is_free_when_run_has_ended(solo: Server) -> None:
    solo.run("token", "run", "freed", "--", "true")
    acquire(solo, "freed", "--ttl", "3")


def test_what_the_command_leaves_behind_ends_with_it(solo: Server, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = f"setsid sh -c '{writes_down(file, 'exec sleep 1000')}' & while [ ! -s {file} ]; do :; done"
    assert solo.run("token", "run", "behind", "--", "sh", "-c", script).code == 0
    assert not any(map(is_running, pids_in(file, 1)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_end_of_run_ends_the_command_and_all_that_left_its_group(
    solo: Server, tmp_path: Path, number: signal.Signals
) -> None:
    file, name = tmp_path / "pids", f"end-{number}"
    inner = writes_down(file, "exec sleep 1000")
    script = writes_down(file, f"setsid sh -c '{inner}' & (setsid setsid sh -c '{inner}' &); sleep 1000")
    run = begin(solo, name, "--", "sh", "-c", script)
    pids = pids_in(file, 3)
    run.send_signal(number)
    wait_gone(pids)
    run.communicate()
    assert run.returncode == (-9 if number is signal.SIGKILL else 128 + number)


def test_supervisor_that_is_killed_takes_the_command_with_it(solo: Server, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = writes_down(file, f"setsid sh -c '{writes_down(file, 'exec sleep 1000')}' & sleep 1000")
    run = begin(solo, "supervised", "--", "sh", "-c", script)
    pids = pids_in(file, 2)
    (supervisor,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(supervisor), signal.SIGKILL)
    wait_gone(pids)
    run.communicate()


def test_broken_token_ends_the_command_by_term_and_then_kill(solo: Server, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = f'trap "echo told" TERM; {writes_down(file, "while :; do sleep 0.1; done")}'
    run = begin(solo, "lost", "--grace", "0.5", "--", "sh", "-c", script)
    pids = pids_in(file, 1)
    solo.run("token", "break", "lost")
    out, errors = run.communicate()
    assert run.returncode == 4
    assert b"told\n" in out
    assert errors.count(b"distkv: ") == 1  # the shell may say that its sleep was ended
    assert not any(map(is_running, pids))


def test_command_is_killed_at_the_deadline_while_run_stands_still(solo: Server, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    run = begin(solo, "frozen", "--grace", "0", "--", "sh", "-c", writes_down(file, "exec sleep 1000"))
    pids = pids_in(file, 1)
    run.send_signal(signal.SIGSTOP)
    wait_gone(pids)
    run.send_signal(signal.SIGCONT)
    run.communicate()
    assert run.returncode == 4


@pytest.mark.parametrize("shared", [[], ["--shared"]])
def test_data_of_a_token_ends_with_run(solo: Server, shared: list[str]) -> None:
    assert solo.run("token", "run", "lead", *shared, "--data", "x", "--", "true").code == 0
    assert solo.run("token", "data", "lead").code == 3
    assert "lead" not in solo.run("token", "list").text


def test_data_of_a_token_that_is_to_stay_stays_when_run_has_ended(solo: Server) -> None:
    assert solo.run("token", "run", "alone", "--shared", "--data", "x", "--keep-data", "--", "true").code == 0
    assert solo.run("token", "data", "alone").text == "x\n"
    assert solo.run("token", "run", "alone", "--", "true").code == 0
    assert solo.run("token", "data", "alone").text == "x\n"
    assert solo.run("token", "run", "alone", "--data", "y", "--", "true").code == 0
    assert solo.run("token", "data", "alone").code == 3


@pytest.mark.parametrize("keep", [[], ["--keep-data"]])
def test_data_that_a_holder_sets_ends_with_it_unless_it_is_to_stay(solo: Server, keep: list[str]) -> None:
    _, session = acquire(solo, "set", "--ttl", "60", "--data", "1", "--keep-data")
    assert solo.run("token", "data", "set", "2", "--session", session, *keep).code == 0
    assert solo.run("token", "release", "set", "--session", session).code == 0
    assert solo.run("token", "data", "set").code == (0 if keep else 3)


@pytest.mark.parametrize("words", [["run", "t", "--keep-data", "--", "true"], ["data", "t", "--keep-data"]])
def test_data_that_is_not_there_cannot_stay(solo: Server, words: list[str]) -> None:
    found = solo.run("token", *words)
    assert found.code == 2
    assert "--keep-data" in found.err


@pytest.mark.parametrize("keep_data", [False, True])
def test_data_of_a_program_ends_with_it_unless_it_is_to_stay(solo: Server, keep_data: bool) -> None:
    seen = list[object]()
    with distkv.connect("127.0.0.1", solo.port) as client:
        for value in (1, 2, None):
            with client.token("python", data=value, keep_data=keep_data, wait_s=60) as token:
                seen.append(token.data)
                if value == 2:
                    token.set_data(3)
    assert seen == [1, 2, 3 if keep_data else None]
