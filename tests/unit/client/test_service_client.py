"""What a service of the tests adds to clients and the command line: methods, errors and a command.

Knows: the echo, and servers that answer by a script.  Does not know what a node does.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distkv import mount
from distkv.cli import client as client_group
from distkv.cli.exits import exit_code
from distkv.cli.main import run
from distkv.client.async_connection import open_connection
from distkv.errors import PeerError
from distkv.wire.replies import reply_error
from tests.proof.client.echo import AsyncEchoClient, EchoClient
from tests.proof.wire.echo import EchoAsk, EchoMuteError
from tests.unit.client.scripted_server import ScriptedServer, open_server, refusal, reply
from tests.unit.client.shells import DEADLINE_S, LOOPS

MUTE = {"error": "nothing was said back", "code": "echo_mute"}


@pytest.fixture
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(mount, "SERVICES", (*mount.SERVICES, ("tests.proof", "echo")))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with open_server(reply({"text": "cba"}), refusal(EchoMuteError("nothing was said back"))) as found:
        yield found


@pytest.mark.usefixtures("_mounted")
def test_blocking_client_asks_it_and_raises_its_error(server: ScriptedServer) -> None:
    with EchoClient([server.address]) as client:
        assert client.echo("b", "abc") == "cba"
        with pytest.raises(EchoMuteError, match="nothing was said back"):
            client.echo("b", "say nothing")
    assert [type(request) for request in server.requests] == [EchoAsk, EchoAsk]


@pytest.mark.usefixtures("_mounted")
def test_command_prints_and_ends_with_its_number(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_group.client, "commands", client_group.client_commands())
    assert run([*server.arguments, "echo", "b", "abc"]) == 0
    assert capsys.readouterr().out == "cba\n"


@pytest.mark.usefixtures("_mounted")
def test_code_is_its_class_and_ends_a_command_with_its_number() -> None:
    error = reply_error(MUTE)
    assert isinstance(error, EchoMuteError)
    assert exit_code(error) == 3


def test_without_the_line_its_code_is_of_nobody_and_there_is_no_command() -> None:
    assert isinstance(reply_error(MUTE), PeerError)
    assert "echo" not in client_group.client_commands()
    assert "token" in client_group.client_commands()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", LOOPS)
@pytest.mark.usefixtures("_mounted", "anyio_backend")
async def test_async_client_asks_it_in_the_same_words(server: ScriptedServer) -> None:
    connection = await open_connection([server.address], connect_s=5.0, reply_s=DEADLINE_S, open_max=8)
    client = AsyncEchoClient(connection)
    assert await client.echo("b", "abc") == "cba"
    with pytest.raises(EchoMuteError, match="nothing was said back"):
        await client.echo("b", "say nothing")
    await client.aclose()
