"""A node at a Unix socket, as every client sees it: blocking, under trio, under asyncio, and the command.

Knows: a server that answers as the test says.  What the clients have in common at any address is tested beside.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from distkv.cli.main import run
from distkv.client.addresses import UnixAddress, address_text, read_address
from distkv.errors import SettingsError, UnreachableError
from tests.unit.client.scripted_server import close, open_server, reply
from tests.unit.client.shells import SHELLS, Named, perform

SHOWN = {"chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1, "time": 1.5}


@pytest.mark.parametrize("shell", SHELLS)
def test_value_is_read_over_the_socket(shell: str, tmp_path: Path) -> None:
    with open_server(reply(SHOWN, b"\x07"), path=tmp_path / "s") as server:
        (entry,) = perform(shell, [server], ("get", "a"))
        assert getattr(entry, "value", entry) == 7


@pytest.mark.parametrize("shell", SHELLS)
def test_client_connects_again_at_the_socket(shell: str, tmp_path: Path) -> None:
    with open_server(close, reply(SHOWN, b"\x07"), path=tmp_path / "s") as server:
        (entry,) = perform(shell, [server], ("get", "a"))
        assert getattr(entry, "value", entry) == 7
        assert server.connections == 2


@pytest.mark.parametrize("shell", SHELLS)
def test_next_address_is_tried_when_no_socket_is_there(shell: str, tmp_path: Path) -> None:
    with open_server(reply(SHOWN, b"\x07")) as server:
        (entry,) = perform(shell, [f"unix:{tmp_path}/none", server], ("get", "a"))
        assert getattr(entry, "value", entry) == 7


@pytest.mark.parametrize("shell", SHELLS)
def test_socket_at_which_nobody_listens_is_named(shell: str, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=f"no server answers at unix:{tmp_path}/none .no such file or directory"):
        perform(shell, [f"unix:{tmp_path}/none"], ("get", "a"), **Named(reply_s=1.0))


@pytest.mark.parametrize("shell", SHELLS)
def test_path_that_is_too_long_is_refused(shell: str) -> None:
    with pytest.raises(SettingsError, match="its path has 108 bytes"):
        perform(shell, [f"unix:/{'a' * 107}"], ("get", "a"))


def test_command_reads_over_the_socket(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_server(reply(SHOWN, b"\x07"), path=tmp_path / "s") as server:
        assert run([*server.arguments, "get", "a"]) == 0
    assert capsysbinary.readouterr().out == b"7\n"


def test_environment_names_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with open_server(reply(SHOWN, b"\x07"), path=tmp_path / "s") as server:
        monkeypatch.setenv("DISTKV_HOST", address_text(server.address))
        assert run(["client", "get", "a"]) == 0
    assert capsysbinary.readouterr().out == b"7\n"


def test_address_is_read_as_it_is_written() -> None:
    address = UnixAddress("/run/distkv/a:1.sock")
    assert read_address(address_text(address)) == address


@pytest.mark.parametrize("text", ["/run/a", "unix:a", "unix:", "http://a:1", "a/b:1"])
def test_what_is_neither_host_nor_socket_is_told_both_forms(text: str) -> None:
    with pytest.raises(SettingsError, match=r"write HOST:PORT, such as .*, or, for a Unix socket, unix:/PATH"):
        read_address(text)
