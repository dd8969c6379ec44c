"""What the token services of two nodes tell each other: what servers say of their state, and calls.

Knows: which of the two a message is, and in which life of its own a service says it.  Does not know either.

Invariant: as in `declared`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from distkv.wire import packing
from distkv.wire.calls import CALLS, CallMessage, CallNumber
from distkv.wire.declared import BodyReader, Raw, pack
from distkv.wire.token_states import Number, StateMessage, read_state_message

_BODIES: Final = BodyReader[tuple[int, Raw]](tuple[Number, Raw], "body")


def encode_body(life: int, message: StateMessage | CallMessage) -> bytes:
    """A message, and the life of the service that says it."""
    return pack((life, message))


def decode_body(body: bytes) -> tuple[int, StateMessage | CallMessage]:
    """The life of the service that says it, and the message.

    Raises:
        DecodeError: it is none.
    """
    life, said = _BODIES.read(body)
    if packing.is_map(bytes(memoryview(said)[:1])):
        return life, read_state_message(said)
    return life, CALLS.read(said)


decode_identity: Final[Callable[[bytes], tuple[int, int]]] = BodyReader[tuple[int, int]](
    tuple[Number, CallNumber], "identity"
).read
"""The slot in which a service keeps which life of its own, and which start, it is in."""
