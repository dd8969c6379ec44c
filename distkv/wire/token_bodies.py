"""What the token services of two nodes tell each other, to bytes and back: what servers say of their state, and calls.

Knows: which of the two a message is, and in which life of its own a service says it.  Does not know either.

Invariant: `decode_body(encode_body(life, message))` is the same life and message; anything else is a `DecodeError`.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DecodeError
from distkv.wire import packing
from distkv.wire.calls import CallMessage, call_list, read_call
from distkv.wire.declared import BodyReader, Raw, pack
from distkv.wire.token_states import STATE_MESSAGES, Number, StateMessage

_BODIES: Final = BodyReader[tuple[int, Raw]](tuple[Number, Raw], "body")


def encode_body(life: int, message: StateMessage | CallMessage) -> bytes:
    """A message, and the life of the service that says it."""
    return pack((life, message if isinstance(message, StateMessage) else call_list(message)))


def decode_body(body: bytes) -> tuple[int, StateMessage | CallMessage]:
    """The life of the service that says it, and the message.

    Raises:
        DecodeError: it is none.
    """
    life, said = _BODIES.read(body)
    data = bytes(said)
    if packing.is_map(data):
        return life, STATE_MESSAGES.read(said)
    return life, read_call(packing.unpack_whole(data))


def encode_identity(life: int, boot: int) -> bytes:
    """The slot in which a service keeps which life of its own, and which start, it is in."""
    return packing.pack([life, boot])


def decode_identity(data: bytes) -> tuple[int, int]:
    """What `encode_identity` wrote.

    Raises:
        DecodeError: it is nothing of that kind.
    """
    match packing.unpack_whole(data):
        case [int(life), int(boot)]:
            return life, boot
    raise DecodeError("the identity of the token service cannot be read", "bad_identity")
