"""A client's half of the echo: what is asked and answered, and which names there are, as a watch tells them. It has no
socket: who has one drives it. And the methods that it adds to both clients.

Knows: what the echo says.  Does not know how anything travels.
"""

from __future__ import annotations

from distkv.client.async_client import AsyncClient
from distkv.client.async_connection import AsyncConnection
from distkv.client.blocking import Client
from distkv.client.blocking_connection import SharedConnection
from distkv.client.client_part import ClientPart
from distkv.client.questions import Question, Repeat
from distkv.errors import DecodeError, DistkvError
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from tests.proof.wire.echo import EchoAsk, EchoChanged


def echo_question(node: str, text: str) -> Question[str]:
    """What a node says back."""
    return Question(lambda seq: encode_request(EchoAsk(seq, node, text)), _heard, Repeat.NEVER)


def _heard(reply: Fields) -> str:
    text = reply.get("text")
    if type(text) is not str:
        raise DecodeError("an echo is text", "bad_reply")
    return text


class EchoMethods(ClientPart[SharedConnection]):
    """A part of the client."""

    def echo(self, node: str, text: str) -> str:
        """What a node says back."""
        return self._connection.ask(echo_question(node, text))


class AsyncEchoMethods(ClientPart[AsyncConnection]):
    """A part of the client."""

    async def echo(self, node: str, text: str) -> str:
        """What a node says back."""
        return await self._connection.ask(echo_question(node, text))


class EchoClient(Client, EchoMethods):
    """The blocking client of a product that has the echo."""


class AsyncEchoClient(AsyncClient, AsyncEchoMethods):
    """The async one."""


class EchoNames:
    """Begins anew with each watch."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.is_complete = False
        """Whether it has been told all that there is."""
        self.error: DistkvError | None = None
        """Why it is told no more."""

    def take(self, told: object) -> None:
        """Something that the watch says."""
        if isinstance(told, DistkvError):
            self.error = told
        elif isinstance(told, EchoChanged):
            for item in told.items:
                if item.text is None:
                    self.names.pop(item.name, None)
                else:
                    self.names[item.name] = item.text
            self.is_complete |= told.is_complete

    def text(self) -> str:
        return ", ".join(f"{name} is {text}" for name, text in sorted(self.names.items())) or "no name"
