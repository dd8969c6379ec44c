"""Tab in real interactive shells, with a real server: what is inserted, and what is shown.

Knows: what people type.  Does not know how shells ask for completions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from distkv.client.blocking import Client
from tests.process.ports import free_port
from tests.process.servers import Server, open_servers, wait_until
from tests.process.terminals import SHELLS, Terminal, open_terminal, write_command

PATHS = (
    "sensors.kitchen", "sensors.kitchen.temp", "sensors.cellar", "lamps.hall.left",
    "odd.dot:.s", "odd.colon::s", "odd.:5", "odd.blank:_s", "odd.it's", "odd.$HOME", "odd.übung", "odd.end:.",
)  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node with values at PATHS."""
    with open_servers(tmp_path_factory.mktemp("node")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        with server.client() as client:
            for path in PATHS:
                client.set(path, 1)
        yield server


@pytest.fixture(scope="module", params=SHELLS)
def terminal(
    request: pytest.FixtureRequest, node: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """A shell that asks this node."""
    with _opened(request.param, node, tmp_path_factory.mktemp("shell")) as found:
        yield found


def _opened(name: str, node: Server, directory: Path) -> AbstractContextManager[Terminal]:
    shell = name.split()[0]
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on PATH: apt-get install {shell}")
    return open_terminal(name, directory / shell, node.environment | {"DISTKV_PORT": str(node.port)})


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        # commands and options
        ("cli", "client "),
        ("client get --rec", "client get --recursive "),
        ("client get --output=js", "client get --output=json "),
        ("-C ping.cl", "-C ping.clock="),
        ("client load -f /etc/hostn", "client load -f /etc/hostname "),
        # paths
        ("client get sens", "client get sensors."),
        ("client get sensors.c", "client get sensors.cellar "),
        ("client get sensors.k", "client get sensors.kitchen"),  # has a value, and more below it
        ("'client' \"get\" sens", "'client' \"get\" sensors."),
        ("client set 'sensors.c", "client set 'sensors.cellar' "),
        ('client list "sensors.c', 'client list "sensors.cellar" '),
        ("client -p 1 get sens", "client -p 1 get sens"),  # nobody is there
        # colons, at which bash cuts words
        ("client get odd.dot:", "client get odd.dot:.s "),
        ("client get odd.colon::", "client get odd.colon::s "),
        ("client get 'odd.colon:", "client get 'odd.colon::s' "),
        # what means something to shells
        ("client get odd.i", "client get odd.it\\'s "),
        ("client get odd.\\$", "client get odd.\\$HOME "),
        ("client get odd.ü", "client get odd.übung "),
    ],
)  # fmt: skip
def test_tab_goes_on_with_what_there_is(terminal: Terminal, typed: str, line: str) -> None:
    assert terminal.complete(f"distkv {typed}") == f"distkv {line}"


def test_command_may_be_named_with_its_place(terminal: Terminal) -> None:
    assert terminal.complete("~/distkv client get sensors.c") == "~/distkv client get sensors.cellar "


def test_tab_shows_the_paths_that_begin_so(terminal: Terminal) -> None:
    shown = terminal.shown("distkv client get odd.")
    quoted = {"odd.it's", "odd.$HOME"} if terminal.shell == "fish" else {"odd.it\\'s", "odd.\\$HOME"}
    plain = {"odd.dot:.s", "odd.colon::s", "odd.:5", "odd.blank:_s", "odd.übung", "odd.end:."}
    assert {word for word in shown if word.startswith("odd.")} == plain | quoted | {"odd."}


def test_zsh_may_load_the_script_when_it_is_needed(node: Server, tmp_path: Path) -> None:
    with _opened("zsh that loads it when it is needed", node, tmp_path) as terminal:
        assert terminal.complete("distkv client get sensors.c") == "distkv client get sensors.cellar "
        assert terminal.complete("distkv client get odd.dot:") == "distkv client get odd.dot:.s "


@pytest.mark.parametrize(
    "variables",
    [
        "COMP_LINE='distkv client get odd.dot:' COMP_POINT=26 COMP_WORDS=(distkv client get odd.dot :) COMP_CWORD=4",
        "COMP_WORDS=(distkv client get odd.dot:) COMP_CWORD=3",
    ],
)
def test_function_of_bash_may_be_called_by_another(node: Server, tmp_path: Path, variables: str) -> None:
    write_command(tmp_path / "distkv")
    script = f'eval "$(distkv completion bash)"; {variables}; _distkv; printf "%s\n" "${{COMPREPLY[@]}}"'
    environment = node.environment | {"DISTKV_PORT": str(node.port), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=300, check=False)
    assert done.stdout.decode().endswith(":.s\n")


def test_line_that_was_completed_means_that_path(terminal: Terminal, node: Server) -> None:
    terminal.enter(f"distkv client set odd.it\t{terminal.shell}")
    with node.client() as client:
        wait_until(lambda: _value(client, "odd.it's") == terminal.shell, "the value is set", 30, terminal.text)


def _value(client: Client, path: str) -> object:
    entry = client.get(path)
    return None if entry is None else entry.value


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_loads_no_event_loop_and_says_nothing(node: Server, shell: str) -> None:
    """What it loads is what people wait for when they press Tab."""
    program = (
        "import sys; from distkv.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "heavy = {'trio', 'asyncio', 'anyio', 'ruyaml', 'distkv.daemon.main', 'distkv.core'} & sys.modules.keys()\n"
        "sys.exit(f'{code} {sorted(heavy)}' if heavy or code else 0)"
    )
    words = [f"distkv client -p {node.port} get a", "a"] if shell == "bash" else ["client", "get", "a"]
    for port in (node.port, free_port()):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            env=node.environment | {"_DISTKV_COMPLETE": shell, "DISTKV_PORT": str(port)},
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
