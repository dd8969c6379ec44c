"""Making an account for the activity network.

Knows: one connection, on which a name is asked for.  Does not know who has which name.

Invariant: a name is asked for once: whoever does not hear the answer does not ask again.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from distkv.client.activity import SendUnknownError, error_of, register_line
from distkv.client.activity_place import read_place
from distkv.client.addresses import Address
from distkv.client.blocking import Client
from distkv.errors import DecodeError, PeerError, UnreachableError
from distkv.wire.activity_answers import RefusedLine, RegisteredLine, read_answer
from distkv.wire.activity_lines import LineReader

RECEIVE_BYTES: Final = 1 << 16


def register(
    addresses: Sequence[Address], user: str, secret: str, *, connect_s: float = 5.0, reply_s: float = 60.0
) -> None:
    """Make an account, at the listener of the first of these nodes that answers.

    Raises:
        BadValueError: it is no name, or no secret.
        NameTakenError: somebody has the name.
        NoMajorityError: too few token servers could be asked; it is not made.
        SendUnknownError: the connection ended before the answer: nobody knows whether it is made.
        UnreachableError: no node answers.
        DisabledError: the node has no listener.
    """
    line = register_line(user, secret)
    with Client(addresses, connect_s=connect_s, reply_s=connect_s) as client:
        place = read_place(client.request("activity_place", {}, is_read=True))
    try:
        connection = socket.create_connection(place, connect_s)
    except OSError as error:
        raise UnreachableError(f"the listener at {place[0]}:{place[1]} does not answer: {error.strerror}") from None
    with connection:
        connection.settimeout(reply_s)
        try:
            connection.sendall(line)
            answer = read_answer(_first_line(connection))
        except OSError:
            raise SendUnknownError(f"the connection ended before the answer: log in as {user} to see") from None
        except DecodeError as error:
            raise PeerError(f"what answers is no node of the activity network: {error}") from None
    if isinstance(answer, RefusedLine):
        raise error_of(answer)
    if not isinstance(answer, RegisteredLine):
        raise PeerError("what answers is no node of the activity network")


def _first_line(connection: socket.socket) -> bytes:
    reader = LineReader()
    while (line := reader.next_line()) is None:
        data = connection.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the end")
        reader.feed(data)
    return line
