"""What the token services of two nodes tell each other, to bytes and back: what servers say of their state, and calls.

Knows: which of the two a message is, and in which life of its own a service says it.  Does not know either.

Invariant: `decode_body(encode_body(life, message))` is the same life and message; anything else is a `DecodeError`.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DecodeError
from distkv.wire import packing
from distkv.wire.calls import CallMessage, call_list, read_call
from distkv.wire.fields import bad, read_int, read_list, read_map
from distkv.wire.token_states import (
    FoundingTold,
    LeaderRound,
    ServerBeat,
    StateMessage,
    TokenHello,
    VoteAsked,
    VoteGiven,
    read_state_message,
    state_fields,
)

LIFE_MAX: Final = 2**62 - 1
_STATE: Final = (TokenHello, FoundingTold, VoteAsked, VoteGiven, LeaderRound, ServerBeat)


def encode_body(life: int, message: StateMessage | CallMessage) -> bytes:
    """A message, and the life of the service that says it."""
    said: object = state_fields(message) if isinstance(message, _STATE) else call_list(message)
    return packing.pack([life, said])


def decode_body(body: bytes) -> tuple[int, StateMessage | CallMessage]:
    """The life of the service that says it, and the message.

    Raises:
        DecodeError: it is none.
    """
    parts = read_list(packing.unpack_whole(body), "body")
    if len(parts) != 2:
        raise bad("body", "[life, message]", parts)
    life = read_int({"life": parts[0]}, "life", LIFE_MAX)
    if isinstance(parts[1], dict):
        return life, read_state_message(read_map(parts[1], "body"))
    return life, read_call(parts[1])


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
