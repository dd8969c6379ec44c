"""Writes from the command line with a real server: what is piped in, what is printed, which conditions hold.

Knows: `distkv client set`, `delete`, `load` and `conflicts` as a user types them.  Does not know their parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.servers import Server, open_servers


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node for all tests; each uses paths of its own."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        yield server


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path for this test alone."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def change(server: Server, path: str) -> str:
    """The change that a path shows."""
    found = json.loads(server.run("get", path, "-m", "-o", "json").out)["chain"][0]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (["-s", "-"], '"21\\n"'),
        (["-"], "21"),
        (["-j", "-"], "21"),
        (["-f", "-"], "21"),
        (["-s", "-f", "-"], '"21\\n"'),
        (["--json", "--file", "-"], "21"),
    ],
)
def test_what_is_piped_in_is_stored(shared: Server, path: str, arguments: list[str], stored: str) -> None:
    assert shared.run("set", path, *arguments, stdin=b"21\n").code == 0
    assert shared.run("get", path, "-o", "json").text == f"{stored}\n"


@pytest.mark.parametrize("arguments", [["'-'"], ['"-"']])
def test_dash_in_quotes_is_stored_as_text(shared: Server, path: str, arguments: list[str]) -> None:
    assert shared.run("set", path, *arguments, stdin=b"21\n").code == 0
    assert shared.run("get", path, "-o", "json").text == '"-"\n'


@pytest.mark.parametrize("text", ["01234", "+49301234", "0x10", ".5"])
def test_text_that_looks_like_a_number_stays_as_it_is(shared: Server, path: str, text: str) -> None:
    shared.run("set", path, text)
    assert shared.run("get", path, "-o", "json").text == f'"{text}"\n'


def test_set_and_delete_print_the_change_that_the_path_shows(shared: Server, path: str) -> None:
    assert shared.run("set", path, "1").text == f"{change(shared, path)}\n"
    told = json.loads(shared.run("set", path, "2", "-o", "json").out)
    assert told == {"changed": True, "change": change(shared, path)}
    told = json.loads(shared.run("set", path, "2", "--idem", "-o", "json").out)
    assert told == {"changed": False, "change": change(shared, path)}
    deletion = shared.run("delete", path).text
    assert f" {deletion.strip()} deleted\n" in shared.run("history", path).text


def test_change_that_set_printed_is_what_the_next_one_may_ask_for(shared: Server, path: str) -> None:
    tick = shared.run("set", path, "1").text.strip()
    assert shared.run("set", path, "2", "--if-chain", tick).code == 0
    assert shared.run("set", path, "3", "--if-chain", tick).code == 4


def test_deleted_tree_is_counted(shared: Server, path: str) -> None:
    for name in ("a", "b", "c.d"):
        shared.run("set", f"{path}.{name}", "1")
    assert shared.run("delete", "-r", path).text == "3\n"


def test_value_is_deleted_only_by_who_knows_its_change(shared: Server, path: str) -> None:
    old = shared.run("set", path, "1").text.strip()
    new = shared.run("set", path, "2").text.strip()
    assert shared.run("delete", path, "--if-chain", old).code == 4
    assert shared.run("get", path).text == "2\n"
    assert shared.run("delete", path, "--if-chain", new).code == 0
    assert shared.run("get", path).code == 3


def test_value_is_deleted_only_by_who_knows_it(shared: Server, path: str) -> None:
    shared.run("set", path, "1")
    assert shared.run("delete", path, "--if-value", "2").code == 4
    assert shared.run("get", path).text == "1\n"
    assert shared.run("delete", path, "--if-value", "1").code == 0
    assert shared.run("get", path).code == 3


def test_condition_of_a_deletion_of_nothing_is_told(shared: Server, path: str) -> None:
    assert shared.run("delete", path, "--if-value", "1").code == 3
    assert shared.run("delete", path, "--if-chain", "solo:1").code == 4


def test_only_the_latest_holder_of_a_token_writes_until_its_fence_is_lifted(shared: Server, path: str) -> None:
    assert shared.run("set", path, "1", "--fence", "job:7.2").code == 0
    for late in (["set", path, "2", "--fence", "job:7.1"], ["set", path, "2"], ["delete", path]):
        assert shared.run(*late).code == 4
    assert json.loads(shared.run("get", path, "-m", "-o", "json").out)["fence"] == "job:7.2"
    assert shared.run("set", path, "3", "--refence").code == 0
    shown = json.loads(shared.run("get", path, "-m", "-o", "json").out)
    assert (shown["value"], "fence" in shown, shown["base"]) == (3, False, 1)
    assert shared.run("delete", path).code == 0


def test_deleted_tree_keeps_what_a_token_holds(shared: Server, path: str) -> None:
    shared.run("set", f"{path}.free", "1")
    shared.run("set", f"{path}.held", "1", "--fence", "job:7.2")
    ran = shared.run("delete", "-r", path)
    assert (ran.code, ran.text) == (4, "1\n")
    assert shared.run("delete", "-r", path).code == 4
    assert shared.run("delete", f"{path}.held", "--fence", "job:7.3").code == 0
    assert shared.run("delete", "-r", path).code == 3


def test_load_replaces_what_is_there_and_leaves_what_is_the_same(shared: Server, path: str, tmp_path: Path) -> None:
    shared.run("set", f"{path}.a", "old")
    shared.run("set", f"{path}.b", "same")
    shared.run("set", f"{path}.c", "mine")
    same, mine = change(shared, f"{path}.b"), change(shared, f"{path}.c")
    file = tmp_path / "values.json"
    file.write_text('{"path": "a", "value": "new"}\n{"path": "b", "value": "same"}\n')
    assert shared.run("load", path, "-f", str(file)).code == 0
    assert shared.run("get", f"{path}.a").text == "new\n"
    assert (change(shared, f"{path}.b"), change(shared, f"{path}.c")) == (same, mine)


def test_nobody_decides_about_a_change_of_the_systems_own(shared: Server) -> None:
    ran = shared.run("conflicts", "--dismiss", "solo:1")
    assert ran.code == 3
    assert ran.err.startswith("distkv: solo:1 is no conflict to decide about: it is a change of a path that belongs")
    assert ran.err.count("\n") == 1
