"""What the parts of a client share: the connection on which their methods ask.

Knows: nothing else.  Does not know whether asking waits (`async_connection`) or blocks (`blocking_connection`).

Invariant: all parts of a client ask on one connection.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

Connection = TypeVar("Connection")


class ClientPart(Generic[Connection]):
    """Some methods of a client; the client itself has those of all its parts."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {self._connection}>"
