"""The key of a fleet without agents is renewed while it runs, and by hand.

Knows: real servers on loopback, each with a file of its own.  Does not know datagrams.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.swim.keyring import Keyring, key_id, keyring_text, parse_keyring
from tests.process.pages import console_blocks
from tests.process.servers import Server, open_servers
from tests.process.swim_fleet import Fleet, transport

OLD, NEW = b"o" * 32, b"n" * 32
STEP_S = 20.0
PAGE = Path(__file__).parents[2] / "docs" / "swim.rst"


class _Files:
    """The files with the secret, one for each server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        return self._directory / f"secret-{name}"

    def write(self, name: str, *keys: bytes) -> str:
        """What `cluster.secret` is."""
        path = self.path(name)
        path.write_text(keyring_text(Keyring(keys)))
        path.chmod(0o600)
        return f"file:{path}"

    def read(self, name: str) -> tuple[bytes, ...]:
        return parse_keyring(self.path(name).read_text(), "secret").keys


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> _Files:
    return _Files(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, files: _Files) -> Iterator[Fleet]:
    with open_servers(tmp_path_factory.mktemp("fleet")) as servers:
        found = Fleet(servers, None)
        found.add("a", files.write("a", OLD)).start("--init", "1").wait_ready()
        for name in "bc":
            found.add(name, files.write(name, OLD)).start("--join", found["a"].address)
        for name in "bc":
            found[name].wait_ready()
        found.wait_members(dict.fromkeys("abc", "alive"), 20)
        yield found


def _rings(server: Server) -> dict[str, list[bytes]]:
    with server.client() as client:
        found = client.request("get_keys", is_read=True)["nodes"]
    assert isinstance(found, dict)
    return found


def _key(server: Server, *arguments: str) -> None:
    """`distkv client key`, which succeeds."""
    ran = server.run("key", *arguments)
    assert not ran.code, ran.err


def test_key_rotates_under_writes_and_nobody_is_suspected(fleet: Fleet, files: _Files) -> None:
    with fleet["b"].client() as client:
        client.set("k", "before")
        _key(fleet["a"], "rotate")
        client.set("k", "after")
    (keys,) = {files.read(name) for name in "abc"}
    assert len(keys) == 1
    assert keys != (OLD,)
    assert _rings(fleet["c"]) == {name: [key_id(keys[0])] for name in "abc"}
    assert [transport(fleet[name])["told_suspect"] for name in "abc"] == [0, 0, 0]
    fleet.wait_equal(STEP_S)


def test_commands_of_the_page_rotate_the_key(fleet: Fleet, files: _Files) -> None:
    before = files.read("a")
    lines = [command.text.split() for block in console_blocks(PAGE) for command in block]
    asked = [words for program, group, *words in lines if (program, group) == ("distkv", "client")]
    shown = [fleet["a"].run(*words).text.split() for words in asked]
    assert files.read("a") != before
    assert [line[:3] for line in shown] == [["NODE", "KEYS", "a"], [], ["NODE", "KEYS", "a"]]


def test_key_is_installed_used_and_removed_step_by_step(fleet: Fleet, files: _Files) -> None:
    (old,) = files.read("a")
    line = keyring_text(Keyring((NEW,))).strip()
    assert fleet["a"].run("key", "install", "-", stdin=line.encode() + b"\n").code == 0
    fleet.wait(lambda: {files.read(name) for name in "abc"} == {(old, NEW)}, "all have it", STEP_S)
    _key(fleet["b"], "use", key_id(NEW).hex())
    fleet.wait(lambda: {files.read(name) for name in "abc"} == {(NEW, old)}, "all use it", STEP_S)
    fleet.wait(lambda: all(ids[0] == key_id(NEW) for ids in _rings(fleet["c"]).values()), "c knows it", STEP_S)
    _key(fleet["c"], "remove", key_id(old).hex())
    fleet.wait(lambda: {files.read(name) for name in "abc"} == {(NEW,)}, "the old one is gone", STEP_S)


def test_file_that_was_written_by_hand_is_read_at_sighup(fleet: Fleet, files: _Files) -> None:
    (key,) = files.read("c")
    files.write("c", key, OLD)
    fleet["c"].send_signal(signal.SIGHUP)
    fleet.wait(lambda: _rings(fleet["a"])["c"] == [key_id(key), key_id(OLD)], "a knows that c has it", STEP_S)
    files.write("c", key)
    fleet["c"].send_signal(signal.SIGHUP)
    fleet.wait(lambda: _rings(fleet["a"])["c"] == [key_id(key)], "a knows that c has it no more", STEP_S)


def test_node_that_slept_through_remove_says_why_it_hears_nobody(fleet: Fleet, files: _Files) -> None:
    fleet["b"].kill()
    files.write("b", OLD)
    fleet["b"].start()
    fleet.wait(lambda: "the secret is another one" in str(fleet["b"].state()), "b says why", STEP_S)
    files.write("b", *files.read("a"))
    fleet["b"].send_signal(signal.SIGHUP)
    fleet.wait_members(dict.fromkeys("abc", "alive"), STEP_S)
