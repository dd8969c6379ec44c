"""`distkv config show` and `check`, from the command line to what is printed.

Knows: files and what a user types.  Does not know every mistake: `test_settings` does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distkv.cli.main import run
from distkv.cli.settings import known_settings, read_settings
from distkv.text import yaml

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def printed(capsys: Capture, *arguments: str) -> str:
    assert run(arguments) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


def complaints(capsys: Capture, *arguments: str) -> list[str]:
    """What stderr says, line by line, of a configuration with mistakes."""
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err.splitlines()


# -- show ---------------------------------------------------------------------------------------------------------


def test_shown_settings_are_defaults_file_and_assignments(capsys: Capture, file: Path) -> None:
    file.write_text("ping: {clock: 2, length: 6}\n")
    shown = json.loads(printed(capsys, "-c", str(file), "-C", "ping.length=7", "config", "show", "-o", "json"))
    assert shown["ping"] == {"clock": 2.0, "length": 7}
    assert shown["serf"]["port"] == 7373


def test_every_setting_is_shown_once_the_node_has_a_name(capsys: Capture) -> None:
    shown = json.loads(printed(capsys, "-C", "node.name=a", "-o", "json", "config", "show", "--origin"))
    assert list(shown) == list(known_settings())


def test_what_is_shown_is_a_configuration_that_means_the_same(capsys: Capture, file: Path) -> None:
    text = "node: {name: a}\nlisten: ['h:1', '[::1]:2']\nserf: {root: '007'}\nhistory: {keep: 5}\n"
    file.write_text(text)
    before = read_settings(str(file), (), {})
    file.write_text(printed(capsys, "config", "show", str(file), "-o", "yaml"))
    assert read_settings(str(file), (), {}) == before


@pytest.mark.parametrize("form", ["text", "yaml", "json", "msgpack"])
def test_settings_are_shown_in_every_form(capfdbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    assert run(["config", "show", "-o", form]) == 0
    assert b"27586" in capfdbinary.readouterr().out


def test_origin_of_each_setting_is_told(capsys: Capture, file: Path) -> None:
    file.write_text("ping:\n  clock: 2\nlisten: [h:1, h:2]\n")
    lines = printed(capsys, "-c", str(file), "-C", "chain.length=7", "config", "show", "--origin").splitlines()
    assert f"ping.clock: 2.0  ({file}:2)" in lines
    assert f'listen: ["h:1", "h:2"]  ({file}:3)' in lines
    assert "chain.length: 7  (-C chain.length=7)" in lines
    assert "ping.length: 4  (default)" in lines


@pytest.mark.parametrize("arguments", [[], ["--origin"], ["-o", "json"], ["--origin", "-o", "json"]])
def test_secret_is_never_shown(capsys: Capture, file: Path, arguments: list[str]) -> None:
    file.write_text("serf: {auth: geheim}\n")
    assert "geheim" not in printed(capsys, "config", "show", str(file), *arguments)
    assert "geheim" not in printed(capsys, "-C", "serf.auth=geheim", "config", "show", *arguments)


def test_file_of_a_secret_is_shown_by_its_name(capsys: Capture, file: Path) -> None:
    key = file.with_name("key")
    key.write_text("geheim\n")
    file.write_text(f"serf: {{auth_file: {key}}}\n")
    shown = yaml.plain(yaml.read(printed(capsys, "config", "show", str(file))))
    assert isinstance(shown, dict)
    assert shown["serf"]["auth_file"] == str(key)
    assert "auth" not in shown["serf"]


def test_configuration_with_a_mistake_is_not_shown(capsys: Capture, file: Path) -> None:
    file.write_text("ping: {clock: soon}\n")
    assert complaints(capsys, "config", "show", str(file)) == [
        f"distkv: {file}:1: ping.clock is 'soon': it must be a number"
    ]


# -- check --------------------------------------------------------------------------------------------------------


def test_every_mistake_is_named_with_file_line_and_key(capsys: Capture, file: Path) -> None:
    file.write_text(
        "ping:\n"
        "  clock: soon\n"
        "  clok: 2\n"
        "  length: 99\n"
        "  length: 4\n"
        "serf: {auth_file: /nowhere}\n"
        "data: []\n"
        "limits: {outbox: 0}\n"
    )
    assert [line.removeprefix(f"distkv: {file}:") for line in complaints(capsys, "config", "check", str(file))] == [
        "2: ping.clock is 'soon': it must be a number",
        "3: there is no setting ping.clok: did you mean ping.clock?",
        "4: ping.length is 99: it must be 2 to 32",
        "5: ping.length stands twice: leave one",
        "6: serf.auth_file: /nowhere cannot be read: No such file or directory",
        "7: data is a section: it must hold 'key: value' lines",
        "8: limits.outbox is 0: it must be 1 or more",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"- a\n", ":1: the configuration must hold 'key: value' lines"),
        (b"a: [1\n", ":2: the configuration cannot be read: "),
        (b"a: &x 1\n", ":1: the configuration cannot be read: anchors"),
        (b"\xff", ": the configuration is not UTF-8 text"),
        (None, ": the configuration cannot be read: No such file or directory"),
    ],
)
def test_file_that_is_no_configuration_is_one_mistake(
    capsys: Capture, file: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        file.write_bytes(content)
    (line,) = complaints(capsys, "config", "check", str(file))
    assert line.startswith(f"distkv: {file}{told}")


def test_mistake_in_an_assignment_is_one_too(capsys: Capture, file: Path) -> None:
    file.write_text("ping: {length: 99}\n")
    lines = complaints(capsys, "-C", "x", "-C", "ping.clock=0", "-c", str(file), "config", "check")
    assert [line.split(": ")[1] for line in lines] == [f"{file}:1", "-C x", "-C ping.clock=0"]


def test_assignment_may_mend_a_file(capsys: Capture, file: Path) -> None:
    file.write_text("ping: {length: 99}\n")
    assert printed(capsys, "-C", "ping.length=4", "config", "check", str(file)) == f"{file}: no mistakes\n"


def test_file_needs_no_name_of_a_node(capsys: Capture, file: Path) -> None:
    file.write_text("transport: solo\n")
    assert printed(capsys, "config", "check", str(file)) == f"{file}: no mistakes\n"


def test_without_a_file_all_is_default(capsys: Capture) -> None:
    assert "all is default" in printed(capsys, "config", "check")


def test_mistakes_as_json_are_a_result(capsys: Capture, file: Path) -> None:
    file.write_text("\nping: {length: 99}\n")
    assert run(["config", "check", str(file), "-o", "json"]) == 2
    told = capsys.readouterr()
    problem = "ping.length is 99: it must be 2 to 32"
    assert json.loads(told.out) == {"file": str(file), "mistakes": [{"where": f"{file}:2", "problem": problem}]}
    assert told.err == f"distkv: {file}:2: {problem}\n"
    file.write_text("")
    right = json.loads(printed(capsys, "config", "check", str(file), "-o", "json"))
    assert right == {"file": str(file), "mistakes": []}
