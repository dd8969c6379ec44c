"""What the shells' scripts are answered, against a server that answers as the test says.

Knows: what the scripts ask.  Does not know shells: tests/process does.
"""

from __future__ import annotations

import time

import pytest

from distkv.cli.completion import VARIABLE, split_line
from distkv.cli.main import run
from distkv.errors import NotReadyError
from tests.unit.client.scripted_server import ScriptedServer, Step, close, open_server, refusal, reply, silence

Capture = pytest.CaptureFixture[str]

NAMES = reply(
    {"names": [["dot.", True, 0], ["both", True, 2], ["below", False, 1], [5, True, 0], ["x\ny\x1b[2J", True, 3]]}
)


@pytest.fixture
def asked_by_fish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fish")


def offered(capsys: Capture, *words: str) -> list[str]:
    """The words that fish is told to offer; those with a + go on."""
    assert run(words) == 0
    told = capsys.readouterr()
    assert told.err == ""
    fields = [line.split("\t") for line in told.out.splitlines()]
    return [word + ("+" if how == "open" else "") for how, word, _ in fields]


def of_paths(capsys: Capture, server: ScriptedServer, *words: str) -> list[str]:
    return offered(capsys, *server.arguments, *words)


# -- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("asked_by_fish")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["get", "a."], ["a.dot:.", "a.both", "a.both.+", "a.below.+", "a.:5"]),
        (["get", ""], ["dot:.", "both", "both.+", "below.+", ":5"]),
        (["get", "a.b"], ["a.both", "a.both.+", "a.below.+"]),
        (["get", "x:.y.b"], ["x:.y.both", "x:.y.both.+", "x:.y.below.+"]),
        (["get", "a.:"], ["a.:5"]),
        (["get", ":"], [":", ":5"]),
        (["get", "dot:."], ["dot:."]),
        (["get", "-r", "a.be"], ["a.below", "a.below.+"]),
        (["delete", "a.be"], ["a.below.+"]),
        (["history", "a.be"], ["a.below.+"]),
        (["set", "a.be"], ["a.below.+"]),
        (["list", "a.be"], ["a.below", "a.below.+"]),
        (["watch", "a.be"], ["a.below", "a.below.+"]),
        (["dump", "a.be"], ["a.below", "a.below.+"]),
        (["load", "a.be"], ["a.below", "a.below.+"]),
        (["get", "--", "a.d"], ["a.dot:."]),
        (["get", "a.dot:"], ["a.dot:."]),
    ],
)
def test_paths_are_those_of_the_node_up_to_the_next_dot(capsys: Capture, words: list[str], names: list[str]) -> None:
    with open_server(NAMES) as server:
        assert of_paths(capsys, server, *words) == names


@pytest.mark.usefixtures("asked_by_fish")
@pytest.mark.parametrize("step", [close, refusal(NotReadyError("no")), silence])
def test_node_that_does_not_answer_offers_nothing(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    monkeypatch.setattr("distkv.cli.suggestions.PATIENCE_S", 0.2)
    begin = time.monotonic()
    with open_server(step) as server:
        assert of_paths(capsys, server, "get", "a.") == []
    assert time.monotonic() - begin < 15  # a client that nobody told waits for 30


@pytest.mark.usefixtures("asked_by_fish")
@pytest.mark.parametrize("word", [".", "a..", "a.b:z.c", ":xq.a"])
def test_path_that_is_none_offers_nothing_and_asks_nobody(capsys: Capture, word: str) -> None:
    assert offered(capsys, "client", "get", word) == []


@pytest.mark.usefixtures("asked_by_fish")
def test_port_that_is_none_offers_nothing(capsys: Capture) -> None:
    assert offered(capsys, "client", "-p", "x", "get", "a") == []


# -- topics -------------------------------------------------------------------------------------------------------

TOPICS = reply({"items": [{"topic": "bills"}, {"topic": "bills of may"}, {"topic": "b\x1b[2J"}, {"topic": "worklog"}]})


@pytest.mark.usefixtures("asked_by_fish")
@pytest.mark.parametrize(
    "command", ["list", "show", "set", "drop", "put", "get", "tail", "subscribe", "unsubscribe"]
)
def test_topics_are_those_of_the_node_that_begin_so(capsys: Capture, command: str) -> None:
    with open_server(TOPICS) as server:
        assert of_paths(capsys, server, "topic", command, "b") == ["bills", "bills of may"]


@pytest.mark.usefixtures("asked_by_fish")
def test_node_that_says_nonsense_of_topics_offers_nothing(capsys: Capture) -> None:
    with open_server(reply({"items": 5})) as server:
        assert of_paths(capsys, server, "topic", "show", "b") == []


# -- everything else ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("asked_by_fish")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["se"], ["server"]),
        (["client", "l"], ["list", "load"]),
        (["client", "state", "--wait", ""], ["ready", "converged"]),
        (["client", "state", "--wait="], ["--wait=ready", "--wait=converged"]),
        (["client", "get", "-o", "m"], ["msgpack"]),
        (["client", "get", "a", "b"], []),
        (["client", "set", "a", ""], []),
        (["-C", "chain."], ["chain.length=+"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["client", "nonsense", "x"], []),
        (["--nonsense", "x"], []),
        ([], ["client", "completion", "config", "doctor", "graph", "pipeline", "restore", "server", "sim", "swim"]),
        (["--log", "e"], ["engine=+"]),
        (["--log", "engine=e"], ["engine=error"]),
    ],
)
def test_words_that_the_command_knows_are_offered(capsys: Capture, words: list[str], names: list[str]) -> None:
    assert offered(capsys, *words) == names


def test_hint_is_one_line_of_the_help(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "zsh")
    run(["client", "state", "--ti"])
    assert capsys.readouterr().out == "closed\t--timeout\tHow long. [default: 60]\n"
    run(["client", "state", "--wa"])
    assert capsys.readouterr().out == (
        "closed\t--wait\tWait until the node is ready; or until it lacks nothing, ...\n"
    )


# -- bash ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "replaced", "told"),
    [
        ("distkv -C chain.", "chain.", "open\nchain.length=\n"),
        ("distkv client get --output=j", "j", "closed\njson\n"),
        ("distkv client get -o j", "j", "closed\njson\n"),
        ("distkv --log engine=de", "de", "closed\ndebug\n"),
        ("distkv cl", "cl", "closed\nclient\n"),
        ("distkv 'cl", "cl", "closed\nclient\n"),
        ("distkv c\\l", "c\\l", "closed\nc\\lient\n"),
        ("distkv -c /etc/h", "/etc/h", "file\n"),
        ("distkv -c \udcff", "\udcff", "file\n"),
        ("distkv server --data-dir x", "x", "dir\n"),
        ("distkv nonsense x", "x", ""),
        ("distkv client g", "x", "closed\net\n"),  # what bash should never say
    ],
)
def test_bash_is_told_what_to_put_in_the_place_of_the_end(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, line: str, replaced: str, told: str
) -> None:
    monkeypatch.setenv(VARIABLE, "bash")
    assert run([line, replaced]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", ["it's", '"', "$HOME", "`x`", "a\\b", "*?[]", "(a|b)&;<>", "~", "#", "ü!"])
def test_bash_reads_what_it_was_given_as_that_path(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, quote: str, name: str
) -> None:
    monkeypatch.setenv(VARIABLE, "bash")
    with open_server(reply({"names": [[name, True, 0]]})) as server:
        assert run([f"distkv {' '.join(server.arguments)} get {quote}a.", "a."]) == 0
    _, answer = capsys.readouterr().out.splitlines()
    assert [word.text for word in split_line(quote + answer + quote)] == [f"a.{name}"]


@pytest.mark.parametrize(
    ("text", "words", "last"),
    [
        ("", [], ("", "", "")),
        ("a b", ["a"], ("b", "b", "")),
        ("a b ", ["a", "b"], ("", "", "")),
        ("a 'b c", ["a"], ("b c", "'b c", "'")),
        ('a "b\\" c', ["a"], ('b" c', '"b\\" c', '"')),
        ('"b\\c"', [], ("b\\c", '"b\\c"', "")),
        ("a  b\\ c", ["a"], ("b c", "b\\ c", "")),
        ("'' x'y'z", [""], ("xyz", "x'y'z", "")),
        ("a\\", [], ("a", "a\\", "")),
    ],
)
def test_line_is_cut_into_words_as_a_shell_does(text: str, words: list[str], last: tuple[str, str, str]) -> None:
    *before, end = split_line(text)
    assert [word.text for word in before] == words
    assert (end.text, end.raw, end.quote) == last


# -- the scripts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed(capsys: Capture, shell: str) -> None:
    assert run(["completion", shell]) == 0
    assert f"{VARIABLE}={shell} " in capsys.readouterr().out


def test_variable_with_another_value_is_not_for_us(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("distkv ")
