"""What a command loads: only what it needs, because most calls of the command ask for one value and end.

Knows: which modules are long to load.  Does not measure time.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from distkv.cli.client import client_commands
from distkv.cli.commands import Commands
from distkv.cli.main import COMMANDS
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import Step, open_server, reply

META = {"chain": {"node": "b", "tick": 5, "prev": None}, "tock": 9, "time": 1.5}
DONE = {"changed": True, "tick": 8, "tock": 9, "chain": {"node": "b", "tick": 8}}

LONG = (
    "anyio", "asyncio", "concurrent", "decimal", "email", "logging", "msgspec", "ruyaml", "shutil", "sqlite3", "ssl",
    "statistics", "tempfile", "trio",
    "distkv.cli.completion", "distkv.cli.doctor", "distkv.cli.graph", "distkv.cli.settings", "distkv.cli.sim",
    "distkv.text.yaml", "distkv.client.async_client", "distkv.config", "distkv.core", "distkv.daemon", "distkv.doctor",
    "distkv.engine", "distkv.graph", "distkv.model.ledger", "distkv.model.tree", "distkv.services", "distkv.sim",
    "distkv.storage", "distkv.transport", "distkv.wire.codec", "distkv.wire.frames", "distkv.wire.gossip",
    "distkv.wire.message",
)  # fmt: skip

RUN = """
import sys
from distkv.cli.main import run
code = run(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n")
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [(["get", "a"], reply(META, pack_value("x"))), (["set", "a", "21"], reply(DONE)), (["delete", "a"], reply(DONE))],
    ids=["get", "set", "delete"],
)
def test_command_about_one_value_loads_nothing_that_takes_long(arguments: list[str], answer: Step) -> None:
    with open_server(answer) as server:
        command = [sys.executable, "-c", RUN, *server.arguments, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.splitlines())
    assert "distkv.client.blocking" in loaded
    assert loaded.intersection(LONG) == set()


@pytest.mark.parametrize("commands", [COMMANDS, client_commands()], ids=["distkv", "client"])
def test_every_command_is_where_it_is_looked_for(commands: Commands) -> None:
    assert {name: command.name for name, command in commands.items()} == {name: name for name in commands}
