"""Command lines, from their words to the exit code, against a server that answers as the test says.

Knows: what a user types and sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import attrs
import pytest

from distkv import __version__
from distkv.cli.exits import exit_code
from distkv.cli.main import run
from distkv.cli.session import CliSession, read_addresses
from distkv.errors import (
    BadPathError,
    BadValueError,
    BusyError,
    ChainMismatchError,
    DistkvError,
    ExistsError,
    LogDamagedError,
    NoSpaceError,
    NotFoundError,
    NotReadyError,
    PeerError,
    RequestError,
    SettingsError,
    TooLargeError,
    UnknownActionError,
    UnreachableError,
    ValueMismatchError,
)
from distkv.model.event import NodeName, Tick
from distkv.wire.node_requests import RetireNodeRequest
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import HELLO, ScriptedServer, close, open_server, refusal, reply

Capture = pytest.CaptureFixture[str]

DONE = {"changed": True, "tick": 8, "tock": 9, "chain": {"node": "b", "tick": (7 << 32) + 5}}
META = {"chain": {"node": "b", "tick": (7 << 32) + 5, "prev": {"node": "a", "tick": 3}}, "tock": 9, "time": 1.5}


def ask(server: ScriptedServer, *arguments: str) -> int:
    return run([*server.arguments, *arguments])


# -- the whole ----------------------------------------------------------------------------------------------------


def test_version_is_printed(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"distkv {__version__}\n"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([], "-v --verbose -q --quiet --log -c --config -C -o --output --version --help"),
        (["server"], "--init --restored --data-dir --transport --serf --join --bind --advertise --activity --help"),
        (["client", "activity", "send"], "-j --json --user --secret-file --help"),
        (["client", "activity", "listen"], "--count --user --secret-file --help"),
        (["client"], "-h --host -p --port --help"),
        (["client", "get"], "-r --recursive --depth --at -m --meta --default -o --output --help"),
        (
            ["client", "set"],
            (
                "-s --string -j --json -f --file --new --if-chain --if-value --idem --ttl --fence --refence"
                " --replicas --timeout"
                " -o --output --help"
            ),
        ),
        (
            ["client", "delete"],
            "-r --recursive --if-chain --if-value --fence --refence --replicas --timeout -o --output --help",
        ),
        (["client", "list"], "--limit --after -o --output --help"),
        (["client", "history"], "--limit -o --output --help"),
        (
            ["client", "conflicts"],
            "--restore --dismiss --if-chain --closed --limit -o --output --help",
        ),
        (["client", "watch"], "--state --since --count -m --meta -o --output --help"),
        (["client", "backup"], "-f --file --help"),
        (["restore"], "-f --file --data-dir --unsealed -o --output --help"),
        (["completion"], "--help"),
        (["client", "load"], "-f --file --without-fences -o --output --help"),
        (["config", "show"], "--origin -o --output --help"),
        (["config", "check"], "-o --output --help"),
        (["client", "dump"], "-o --output --help"),
        (["client", "state"], "--wait --alone --timeout -o --output --help"),
        (["client", "members"], "--follow -o --output --help"),
        (["client", "node"], "--help"),
        (["client", "node", "list"], "-o --output --help"),
        (["client", "node", "retire"], "--force --help"),
        (["client", "ping"], "-n --count --interval -o --output --help"),
        (["client", "bench"], "--seconds --connections -o --output --help"),
        (["client", "scrub"], "--fast --drop -o --output --help"),
        (
            ["graph"],
            (
                "--live --for --trace --scenario --seed --only --without"
                " --nodes --kinds --from --to --last -o --output --out --help"
            ),
        ),
        (["doctor"], "--data-dir --transport --serf --bind -o --output --help"),
    ],
)
def test_help_shows_what_is_built_and_nothing_else(capsys: Capture, command: list[str], options: str) -> None:
    assert run([*command, "--help"]) == 0
    heads = [line[2:].split("  ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
    found = [word for head in heads for word in re.findall(r"(?<!\S)--?[A-Za-z-]+", head)]
    assert found == options.split()


@pytest.mark.parametrize(
    ("group", "commands"),
    [
        ([], "client completion config doctor graph pipeline restore server sim swim"),
        (["config"], "check show"),
        (
            ["client"],
            (
                "activity aside backup bench conflicts delete dump get history key list load members node ping scrub"
                " set state token topic watch"
            ),
        ),
        (["client", "token"], "acquire break data list release renew reset run servers show watch"),
        (["client", "topic"], "drop get list put set show subscribe tail unsubscribe"),
        (["client", "activity"], "account listen register send who"),
        (["client", "node"], "list retire"),
        (["client", "aside"], "drop list retry"),
        (["pipeline"], "archive asof audit compact export files import report restore settle"),
    ],
)
def test_help_lists_the_commands(capsys: Capture, group: list[str], commands: str) -> None:
    run([*group, "--help"])
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines() if line.strip()] == commands.split()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nonsense"], "no such command 'nonsense' (see 'distkv --help')"),
        (["get", "a"], "no such command 'get', but 'distkv client get' (see 'distkv --help')"),
        (["state"], "no such command 'state', but 'distkv client state'"),
        (["client", "nonsense"], "no such command 'nonsense' (see 'distkv client --help')"),
        (["client", "-h", ",", "get", "a"], "the host is empty"),
        (["client", "get"], "missing argument 'PATH' (see 'distkv client get --help')"),
        (["client", "get", "a", "b"], "extra argument"),
        (["client", "get", "a", "--at", "x"], "'x' is no time"),
        (["client", "get", "a", "--depth", "1"], "--depth is for whole trees"),
        (["client", "get", "a", "-r", "--default", "1"], "--default is for one value"),
        (["client", "get", "a", "-r", "--depth", "-1"], "--depth is '-1'"),
        (["client", "dump", "-o", "raw"], "-o raw: a tree is written as json, yaml, msgpack"),
        (["client", "load", "-f", "/nowhere"], "/nowhere: No such file"),
        (["--log", "engine", "server", "a"], "--log engine: write SRC=LEVEL"),
        (["--log", "x=debug", "server", "a"], "--log x=debug: there is no source 'x'"),
        (["--log", "engine=x", "server", "a"], "--log engine=x: there is no level 'x': it must be one of critical,"),
        (["-c", "/nowhere", "config", "show"], "/nowhere: the configuration cannot be read"),
        (["config", "check", "/nowhere"], "/nowhere: the configuration cannot be read"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        (["client", "get", "a", "-o", "xml"], "'xml' is not one of"),
        (["client", "set", "a"], "give either VALUE or -f FILE"),
        (["client", "set", "a", "1", "--tt"], "goes after '--'"),
        (["client", "set", "a", "-foo"], "'-foo' is -f oo, and there is no such file. A VALUE that begins with"),
        (["client", "set", "a", "-sfoo"], "'-sfoo' is -f oo, and there is no such file"),
        (["client", "set", "a", "-offer"], "'ffer' is not one of 'text', 'json', 'yaml', 'msgpack', 'raw'. A VALUE"),
        (["client", "set", "a", "-bar"], "no such option '-b'. A VALUE that begins with '-' goes after '--'"),
        (["client", "set", "a", "-f", "/nowhere"], "/nowhere: No such file or directory"),
        (["client", "topic", "get", "t", "--id", "s", "--wait", "0"], "--wait is '0': it must be seconds, above 0"),
        (["client", "topic", "get", "t", "--id", "s", "--wait", "3601"], "above 0 and at most 3600"),
        (["client", "topic", "tail", "t", "--id", "s", "--timeout", "x"], "above 0 and at most 1000000"),
        (["client", "topic", "get", "t", "--id", "s", "--limit", "1001"], "--limit is '1001': it must be"),
        (["client", "topic", "put", "t"], "give either MESSAGE or -f FILE"),
        (["client", "topic", "put", "t", "null"], "null is no message: for the text, add -s or quote it"),
        (["client", "topic", "put", "t", "-bar"], "A MESSAGE that begins with '-' goes after '--'"),
        (["client", "topic", "get", "t", "--id", "s" * 300], "..., 300 characters: give text of 1 to 255 bytes"),
        (["client", "topic", "put", "t", "x", "--id", "s" * 300], "..., 300 characters: give text of 1 to 246 bytes"),
        (["client", "set", "a", "1", "--if-value", "-"], "--if-value does not read standard input"),
        (["client", "get", "a", "--default", "-"], "--default does not read standard input"),
        (["client", "set", "a", "1", "--ttl", "0"], "--ttl is '0': it must be seconds, above 0"),
        (["client", "set", "a", "1", "--ttl", "nan"], "--ttl is 'nan': it must be seconds, above 0"),
        (["client", "set", "a", "1", "--ttl", "soon"], "--ttl is 'soon': it must be seconds, above 0"),
        (["client", "set", "a", "--new"], "give either VALUE or -f FILE"),
        (["client", "set", "a", "null"], "null is no value"),
        (["client", "set", "a", "1", "--if-value", "null"], "null is no value"),
        (["client", "set", "a", "1", "--if-chain", "x"], "names no change"),
        (["client", "set", "a", "1", "--replicas", "0"], "--replicas is '0': it must be a number from 1 to 1024"),
        (["client", "set", "a", "1", "--replicas", "-1"], "--replicas is '-1'"),
        (["client", "set", "a", "1", "--replicas", "1025"], "--replicas is '1025'"),
        (["client", "set", "a", "1", "--replicas", "2", "--timeout", "-1"], "--timeout is '-1': it must be seconds"),
        (["client", "set", "a", "1", "--replicas", "2", "--timeout", "nan"], "--timeout is 'nan'"),
        (["client", "set", "a", "1", "--replicas", "2", "--timeout", "soon"], "--timeout is 'soon'"),
        (["client", "set", "a", "1", "--replicas", "1", "--timeout", "3601"], "from 0 to 3600"),
        (["client", "set", "a", "1", "--timeout", "5"], "--timeout is for --replicas"),
        (["client", "delete", "a", "--timeout", "5"], "--timeout is for --replicas"),
        (["client", "delete", "a", "--replicas", "-1"], "--replicas is '-1'"),
        (["client", "delete", "a", "-r", "--replicas", "2"], "for one value: leave out -r"),
        (["client", "delete", "a", "-r", "--timeout", "2"], "for one value: leave out -r"),
        (["client", "delete", "a", "-r", "--if-chain", "b:1"], "for one value: leave out -r"),
        (["client", "delete", "a", "-r", "--if-value", "1"], "for one value: leave out -r"),
        (["client", "delete", "a", "--if-chain", "x"], "names no change"),
        (["client", "conflicts", "--restore"], "--restore needs the ID of a loser"),
        (["client", "conflicts", "--dismiss", "--if-chain", "a:1"], "--dismiss needs the ID of a loser"),
        (["client", "get", "a..b"], "empty element"),
        (["client", "delete", ""], "empty element"),
        (["client", "-p", "x", "ping"], "--port is 'x'"),
        (["client", "state", "--wait", "never"], "is not one of"),
        (["client", "state", "--timeout", "-1"], "not in the range"),
        (["server"], "the node has no name"),
        (["server", "a b"], "NAME: node.name is 'a b'"),
        (["server", "a", "--init", "null"], "null is no value"),
        (["server", "a", "--init", "x", "--restored"], "--restored is for a directory that holds data"),
        (["server", "a", "--serf", "x"], "--serf is 'x'"),
        (["server", "a", "--bind", "x"], "--bind: listen is 'x'"),
        (["server", "a", "--transport", "gossip"], "'gossip' is not one of"),
        (["-C", "x=1", "server", "a"], "-C x=1: there is no setting x"),
        (["-c", "/nowhere", "server", "a"], "/nowhere: the configuration cannot be read"),
    ],
)
def test_wrong_usage_is_one_line_and_2(capsys: Capture, arguments: list[str], problem: str) -> None:
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert problem in told.err
    assert told.err.startswith("distkv: ")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["client"]])
def test_command_that_is_missing_gets_help_on_stderr(capsys: Capture, arguments: list[str]) -> None:
    assert run(arguments) == 2
    assert "Usage: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError("x"), 1),
        (UnknownActionError("x"), 1),
        (TooLargeError("x"), 1),
        (NoSpaceError("x"), 1),
        (BusyError("x"), 1),
        (PeerError("x"), 1),
        (LogDamagedError("x"), 1),
        (SettingsError("x"), 2),
        (BadPathError("x"), 2),
        (BadValueError("x"), 2),
        (NotFoundError("x"), 3),
        (ExistsError("x"), 4),
        (ChainMismatchError("x"), 4),
        (ValueMismatchError("x"), 4),
        (NotReadyError("x"), 5),
        (UnreachableError("x"), 5),
    ],
    ids=lambda found: type(found).__name__,
)
def test_exit_code_follows_from_the_error(error: DistkvError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("code", ["auth_required", "auth_failed", "forbidden"])
def test_what_is_not_allowed_is_6(code: str) -> None:
    kind = type("NotAllowedError", (DistkvError,), {"code": code})
    assert exit_code(kind("x")) == 6


def test_refusal_of_the_server_is_one_line_and_its_code(capsys: Capture) -> None:
    with open_server(refusal(ExistsError("a exists\nalready"))) as server:
        assert ask(server, "set", "a", "1", "--new") == 4
    assert capsys.readouterr().err == "distkv: a exists already\n"


def test_traceback_is_shown_with_vvv_only(capsys: Capture) -> None:
    for flag, count in (("-vv", 0), ("-vvv", 1)):
        with open_server(close) as server:
            assert run([flag, *server.arguments, "ping"]) == 5
        assert capsys.readouterr().err.count("Traceback") == count


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("distkv.cli.kv.Path.parse", interrupt)
    assert run(["client", "get", "a"]) == 130


# -- get ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["get", "a"], "x: 1\n"),
        (["get", "a", "-o", "json"], '{"x": 1}\n'),
        (["get", "-o", "yaml", "a"], "x: 1\n"),
    ],
)
def test_get_prints_the_value_in_the_form_asked_for(capsys: Capture, arguments: list[str], out: str) -> None:
    with open_server(reply(META, pack_value({"x": 1}))) as server:
        assert ask(server, *arguments) == 0
    assert capsys.readouterr().out == out


def test_own_form_of_a_command_wins_over_the_global_one(capsys: Capture) -> None:
    with open_server(reply(META, pack_value("x")), reply(META, pack_value("x"))) as server:
        assert run(["-o", "json", *server.arguments, "get", "a"]) == 0
        assert run(["-o", "json", *server.arguments, "get", "a", "-o", "text"]) == 0
    assert capsys.readouterr().out == '"x"\nx\n'


def test_meta_shows_ticks_as_text_and_time_for_people(capsys: Capture) -> None:
    with open_server(reply(META, pack_value(21))) as server:
        assert ask(server, "get", "a.b", "-m") == 0
    assert capsys.readouterr().out == (
        "path: a.b\nvalue: 21\nchain:\n- b:7.5\n- a:3\ntock: 9\ntime: '1970-01-01T00:00:01.500+00:00'\n"
    )


def test_meta_as_json_shows_time_as_seconds(capsys: Capture) -> None:
    with open_server(reply(META, pack_value(21))) as server:
        assert ask(server, "get", "a.b", "-m", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": "a.b", "value": 21, "chain": ["b:7.5", "a:3"], "tock": 9, "time": 1.5
    }  # fmt: skip


def test_meta_survives_a_clock_that_was_wrong(capsys: Capture) -> None:
    with open_server(reply(META | {"time": 1e300}, pack_value(21))) as server:
        assert ask(server, "get", "a", "-m") == 0
    assert "1e+300" in capsys.readouterr().out


def test_get_of_nothing_is_3(capsys: Capture) -> None:
    with open_server(reply({})) as server:
        assert ask(server, "get", "a") == 3
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(("default", "out"), [("-5", "-5\n"), ("", "\n"), ("[1, 2]", "- 1\n- 2\n")])
def test_default_is_read_and_printed_like_a_value(capsys: Capture, default: str, out: str) -> None:
    with open_server(reply({})) as server:
        assert ask(server, "get", "a", "--default", default) == 0
    assert capsys.readouterr().out == out


# -- set and delete -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["-5"], -5),
        (["-0.5"], -0.5),
        (["-.5"], "-.5"),
        (["-5s"], "-5s"),
        (["-5", "--new"], -5),
        (["-s", "-5"], "-5"),
        (["--idem", "-5"], -5),
        (["--", "-5"], -5),
        (["--", "-x"], "-x"),
        (["-j", "-5"], -5),
    ],
)
def test_negative_number_is_no_option(capsys: Capture, arguments: list[str], value: object) -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, "set", "a", *arguments) == 0
    (request,) = server.requests
    assert isinstance(request, SetValue)
    assert request.value == pack_value(value)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["set", "a", "1"], ["delete", "a"]])
@pytest.mark.parametrize(
    ("options", "out"),
    [
        ([], "b:7.5\n"),
        (["-o", "json"], '{"changed": true, "change": "b:7.5"}\n'),
        (["-o", "raw"], "b:7.5"),
        (["-o", "json", "--replicas", "2"], '{"changed": true, "change": "b:7.5", "replicas": 2}\n'),
    ],
)
def test_write_prints_which_change_it_was(capsys: Capture, command: list[str], options: list[str], out: str) -> None:
    with open_server(reply(DONE | {"replicas": 2})) as server:
        assert ask(server, *command, *options) == 0
    assert capsys.readouterr().out == out


def test_write_that_changed_nothing_prints_what_is_there(capsys: Capture) -> None:
    with open_server(reply(DONE | {"changed": False})) as server:
        assert ask(server, "set", "a", "1", "--idem", "-o", "json") == 0
    assert capsys.readouterr().out == '{"changed": false, "change": "b:7.5"}\n'


@pytest.mark.parametrize(
    ("path", "meant"), [("/lights/hall", "lights.hall"), ("a/b", "a.b"), ("/a:.b/", "a:.b"), ("//", None),
                        ("lights.hall/x", None), ("a", None)],
)  # fmt: skip
def test_name_with_slashes_is_told_to_be_one(capsys: Capture, path: str, meant: str | None) -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, "set", path, "1") == 0
    told = capsys.readouterr().err
    assert bool(told) is (meant is not None)
    if meant is not None:
        assert f"{path} is one name, as '.' stands between names, not '/': for {meant} set that" in told


def test_path_with_slashes_that_has_no_value_is_told_to_be_one_name(capsys: Capture) -> None:
    with open_server(reply({}), close) as server:
        assert ask(server, "get", "/lights/hall") == 3
    assert "is one name: '.' stands between names, not '/'; did you mean lights.hall?" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["set", "a", "1"], ["delete", "a"], ["delete", "-r", "a"]])
def test_quiet_write_prints_nothing(capsys: Capture, command: list[str]) -> None:
    with open_server(reply(DONE | {"count": 3})) as server:
        assert run(["-q", *server.arguments, *command]) == 0
    assert capsys.readouterr().out == ""


def test_write_that_could_not_be_told_of_is_not_begun(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_server() as server:
        monkeypatch.setattr("sys.stdout", None)
        assert ask(server, "set", "a", "1") == 1
    assert server.requests == []
    assert "standard output is closed" in capsys.readouterr().err


def test_delete_sends_its_conditions() -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, "delete", "a", "--if-chain", "b:7.5", "--if-value", "-1") == 0
    (request,) = server.requests
    assert isinstance(request, SetValue)
    assert (request.value, request.prev) == (None, pack_value(-1))
    assert request.chain == ((NodeName("b"), Tick((7 << 32) + 5)),)


def test_set_sends_its_conditions() -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, "set", "a", "1", "--new", "--idem", "--if-chain", "b:7.5", "--if-value", "-1") == 0
    (request,) = server.requests
    assert isinstance(request, SetValue)
    assert (request.new, request.idem, request.prev) == (True, True, pack_value(-1))
    assert request.chain == ((NodeName("b"), Tick((7 << 32) + 5)),)


def test_delete_of_nothing_is_3() -> None:
    with open_server(reply(DONE), reply({"changed": False})) as server:
        assert [ask(server, "delete", "a"), ask(server, "delete", "a")] == [0, 3]


@pytest.mark.parametrize(
    ("arguments", "replicas", "timeout_s"),
    [(["--replicas", "3"], 3, 10.0), (["--replicas", "1024", "--timeout", "0.5"], 1024, 0.5)],
)
@pytest.mark.parametrize(("command", "value"), [(["set", "a", "-5"], -5), (["delete", "a"], None)])
def test_write_asks_for_its_replicas(
    command: list[str], value: object, arguments: list[str], replicas: int, timeout_s: float
) -> None:
    with open_server(reply(DONE | {"replicas": replicas})) as server:
        assert ask(server, *command, *arguments) == 0
    (request,) = server.requests
    assert isinstance(request, ReplicatedWrite)
    assert (request.replicas, request.timeout_s) == (replicas, timeout_s)
    assert request.write.value == (None if value is None else pack_value(value))


def test_ttl_of_a_value_is_sent_and_shown(capsys: Capture) -> None:
    with open_server(reply(DONE), reply({**META, "ttl": 2.5}, pack_value(1))) as server:
        assert run(["-q", *server.arguments, "set", "a", "1", "--ttl", "2.5"]) == 0
        assert ask(server, "get", "a", "-m", "-o", "json") == 0
    (write, _) = server.requests
    assert isinstance(write, SetValue)
    assert write.ttl == 2.5
    assert json.loads(capsys.readouterr().out)["ttl"] == 2.5


def test_one_replica_is_a_plain_write() -> None:
    with open_server(reply(DONE)) as server:
        assert ask(server, "set", "a", "1", "--replicas", "1", "--timeout", "5") == 0
    assert [type(request) for request in server.requests] == [SetValue]


@pytest.mark.parametrize(("command", "done"), [(["set", "a", "1"], "stored"), (["delete", "a"], "deleted")])
def test_write_that_too_few_nodes_hold_stands_and_is_1(capsys: Capture, command: list[str], done: str) -> None:
    with open_server(reply(DONE | {"replicas": 2})) as server:
        assert ask(server, *command, "--replicas", "3", "--timeout", "0.5") == 1
    told = capsys.readouterr()
    assert told.out == "b:7.5\n"
    assert told.err == f"distkv: {done}, but after 0.5 s only 2 of 3 nodes are known to hold it\n"


def test_delete_of_nothing_is_3_whatever_replicas_were_asked_for(capsys: Capture) -> None:
    with open_server(reply({"changed": False, "replicas": 1})) as server:
        assert ask(server, "delete", "a", "--replicas", "3") == 3
    assert "nothing was deleted" in capsys.readouterr().err


# -- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "force"), [([], False), (["--force"], True)])
def test_node_is_retired_without_a_word(capsys: Capture, options: list[str], force: bool) -> None:
    with open_server(reply({"changed": True, "life": 7})) as server:
        assert ask(server, "node", "retire", "b", *options) == 0
    assert server.requests == [RetireNodeRequest(1, NodeName("b"), force)]
    assert capsys.readouterr().out == ""


def test_node_that_is_not_retired_ends_the_command_with_the_code_of_the_refusal(capsys: Capture) -> None:
    with open_server(refusal(ExistsError("b is seen alive: stop it"))) as server:
        assert ask(server, "node", "retire", "b") == 4
    assert capsys.readouterr().err == "distkv: b is seen alive: stop it\n"


def test_name_that_no_node_has_is_not_sent(capsys: Capture) -> None:
    with open_server() as server:
        assert ask(server, "node", "retire", "b b") == 1
    assert "'b b' is no node's name" in capsys.readouterr().err
    assert server.requests == []


# -- state and ping -----------------------------------------------------------------------------------------------


def test_state_prints_what_the_node_said(capsys: Capture) -> None:
    with open_server(reply({"state": "ready", "network": b"x"})) as server:
        assert ask(server, "state", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"state": "ready", "network": {"$bytes": "eA=="}}


def test_wait_asks_again_until_the_node_is_ready(capsys: Capture) -> None:
    with open_server(
        close, reply({"state": "recovering"}), reply({"state": "cut-off"}), reply({"state": "ready"})
    ) as server:
        assert ask(server, "state", "--wait", "ready", "-o", "json") == 0
    assert len(server.requests) == 4
    assert json.loads(capsys.readouterr().out) == {"state": "ready"}


def test_wait_that_ends_in_vain_says_what_is_lacking(capsys: Capture) -> None:
    state = {"node": "a", "state": "recovering", "waits_for": "3 changes of b"}
    with open_server(reply(state)) as server:
        assert ask(server, "state", "--wait", "ready", "--timeout", "0") == 5
    assert capsys.readouterr().err == (
        "distkv: after 0 s still not ready: a is recovering, it waits for 3 changes of b\n"
    )


@pytest.mark.parametrize(
    ("own", "other", "lack"),
    [
        ({"missing": {"b": [3]}}, {}, "a misses changes of b"),
        ({}, {"missing": {"c": [3]}}, "b misses changes of c"),
        ({}, {"digest": "02"}, "b and a hold different data"),
        ({}, {"state": "recovering"}, "b is recovering"),
    ],
)
def test_nodes_that_differ_are_not_converged(
    capsys: Capture, own: dict[str, object], other: dict[str, object], lack: str
) -> None:
    with open_server(reply(_state("b") | other)) as second:
        members = [{"node": "b", "addr": f"127.0.0.1:{second.address[1]}", "state": "alive"}]
        with open_server(reply(_state("a") | own | {"members": members})) as first:
            assert ask(first, "state", "--wait", "converged", "--timeout", "0") == 5
    assert lack in capsys.readouterr().err


def test_member_that_does_not_answer_is_not_converged(capsys: Capture) -> None:
    with open_server(close) as second:
        members = [{"node": "b", "addr": f"127.0.0.1:{second.address[1]}", "state": "alive"}]
        with open_server(reply(_state("a") | {"members": members})) as first:
            assert ask(first, "state", "--wait", "converged", "--timeout", "0") == 5
    assert "closed the connection" in capsys.readouterr().err


def test_nodes_that_hold_the_same_are_converged_whatever_those_that_are_away_hold(capsys: Capture) -> None:
    with open_server(reply(_state("b"))) as second:
        members = [
            {"node": "b", "addr": f"127.0.0.1:{second.address[1]}", "state": "alive"},
            {"node": "c", "addr": "127.0.0.1:1", "state": "away"},
        ]
        with open_server(reply(_state("a") | {"members": members})) as first:
            assert ask(first, "state", "--wait", "converged", "--timeout", "0") == 0
    assert capsys.readouterr().err == "distkv: 1 of 2 others heard, not c\n"


AWAY: list[dict[str, object]] = [
    {"node": name, "addr": f"127.0.0.1:{port}", "state": state}
    for port, (name, state) in enumerate([("b", "away"), ("c", "away"), ("d", "retired")], 1)
]


@pytest.mark.parametrize("state", ["ready", "cut-off"])
def test_node_that_hears_nobody_is_not_converged_unless_alone_is_enough(capsys: Capture, state: str) -> None:
    found = _state("a") | {"state": state, "members": AWAY, "transport": {"connected": True}}
    with open_server(*[reply(found)] * 3) as server:
        assert ask(server, "state", "--wait", "converged", "--timeout", "0") == 5
        assert ("0 of 2 others heard (b, c)" in capsys.readouterr().err) is (state == "ready")
        assert ask(server, "state", "--wait", "converged", "--timeout", "0", "--alone") == 0
        assert capsys.readouterr().err == "distkv: 0 of 2 others heard, not b, c\n"
        assert ask(server, "state", "--wait", "ready", "--timeout", "0") == 0


@pytest.mark.parametrize(
    "other", [{"members": []}, {"members": AWAY[2:]}, {"members": AWAY, "transport": {"kind": "solo"}}]
)
def test_node_without_others_or_transport_agrees_with_itself(capsys: Capture, other: dict[str, object]) -> None:
    with open_server(reply(_state("a") | other)) as server:
        assert ask(server, "state", "--wait", "converged", "--timeout", "0") == 0
    assert capsys.readouterr().err == ""


def test_alone_is_said_of_a_wait(capsys: Capture) -> None:
    assert run(["client", "state", "--alone"]) == 2
    assert "give --wait, too" in capsys.readouterr().err


def _state(node: str) -> dict[str, object]:
    return {"node": node, "state": "ready", "digest": "01", "missing": {}, "members": []}


@pytest.mark.parametrize(("form", "read"), [("text", str.split), ("json", json.loads)])
def test_ping_names_the_node(capsys: Capture, form: str, read: Callable[[str], object]) -> None:
    with open_server(*[reply({})] * 5) as server:
        assert ask(server, "ping", "--interval", "0", "-o", form) == 0
    assert HELLO.node in str(read(capsys.readouterr().out))


def test_report_of_doctor_steers_no_terminal(capsys: Capture) -> None:
    assert run(["-C", "x\x1b[2J=1", "doctor", "a"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("fail  configuration  -C x?[2J=1: there is no setting x?[2J")
    assert printed.err == "distkv: failed: configuration; the report says what to do\n"


# -- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "port", "variables", "addresses"),
    [
        ((), None, (None, None), [("127.0.0.1", 27586)]),
        (("a",), None, (None, None), [("a", 27586)]),
        (("a", "b:1"), "2", (None, None), [("a", 2), ("b", 1)]),
        (("::1", "[::2]", "[::3]:4"), "2", (None, None), [("::1", 2), ("::2", 2), ("::3", 4)]),
        ((), None, ("a, b:1,", "3"), [("a", 3), ("b", 1)]),
        (("x",), None, ("a", "3"), [("x", 3)]),
        ((), "4", ("a", "3"), [("a", 4)]),
        (("a,b:1",), None, (None, None), [("a", 27586), ("b", 1)]),
        (("a, b", "c,"), "2", ("x", None), [("a", 2), ("b", 2), ("c", 2)]),
        ((), None, ("", ""), [("127.0.0.1", 27586)]),
    ],
)
def test_addresses_come_from_options_then_the_environment(
    hosts: tuple[str, ...], port: str | None, variables: tuple[str | None, str | None], addresses: list[object]
) -> None:
    assert list(read_addresses(hosts, port, *variables)) == addresses


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "٣", "9" * 5000])
def test_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(SettingsError, match="DISTKV_PORT"):
        read_addresses((), None, None, port)


def test_session_starts_with_no_wishes() -> None:
    assert attrs.asdict(CliSession())["assignments"] == ()
