"""Whatever a path or a value has in it, no command steers the terminal.

Knows: a real server with hostile names and values.  Does not know how they are escaped (tests/unit/text).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from distkv.model.path import Path
from tests.process.servers import Server, open_servers

MARKS = "\x1b[31mX\x07\u202e\x9b"
COMMANDS = (
    ("get", "-r", ":"), ("get", "-r", ":", "-m"), ("get", "-r", ":", "-o", "json"), ("get", "-r", ":", "-o", "yaml"),
    ("get", MARKS, "-m"), ("get", f"{MARKS}.nothing"), ("get", MARKS, "--at", "2020-01-01"), ("list",),
    ("list", "-o", "json"), ("list", MARKS), ("list", f"{MARKS}.no"), ("dump",), ("dump", "-o", "yaml"),
    ("history", MARKS), ("history", MARKS, "-o", "json"), ("set", MARKS, "1", "--new"),
    ("conflicts", MARKS, "--closed", "-o", "json"),
    ("set", MARKS, "1", "--if-value", MARKS), ("set", f"a{MARKS}..b", "1"), ("conflicts", "--restore", f"{MARKS}:3"),
    ("watch", ":", "--state", "--count", "3"), ("watch", ":", "--state", "--count", "3", "-o", "yaml"),
    ("aside", "drop", MARKS), ("node", "retire", MARKS), ("load", f"/tmp/{MARKS}"), (MARKS,), ("scrub", "--fast"),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: FilePath = tmp_path_factory.mktemp("hostile")
    with open_servers(directory) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        with server.client() as client:
            client.set(Path((MARKS, "b\nc")), {f"k{MARKS}": [MARKS]})
            client.set(Path((MARKS,)), MARKS)
        yield server


@pytest.mark.parametrize("words", COMMANDS, ids=ascii)
def test_command_shows_no_mark_that_cannot_be_seen(hostile: Server, words: tuple[str, ...]) -> None:
    ran = hostile.run(*words)
    for shown in (ran.text, ran.err):
        assert shown.replace("\n", "").isprintable(), ascii(shown)
    assert ran.text or ran.err
