"""What a token server keeps on its disk, to bytes and back: a slot for each token, and one for how far it serves.

Knows: the form of these.  Does not know who writes them, nor when they are durable.

Invariant: `decode_token` and `decode_part` read what was packed here as the same value, or raise `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list, read_map, read_node, read_time
from distkv.wire.token_fields import Ticket, read_packed_data, read_session, read_token
from distkv.wire.token_replies import TokenHolder

HANDED_MS_MAX: Final = 2**40


@attrs.frozen(slots=True)
class QueuedSession:
    """A place in the queue of a token."""

    session: str
    ticket: Ticket
    is_shared: bool


@attrs.frozen(slots=True)
class TokenRecord:
    """A token, as a slot holds it, or as one server hands it over to another."""

    token: str
    holders: tuple[TokenHolder, ...]
    data: bytes | None
    queue: tuple[QueuedSession, ...] = ()
    """Only in a hand-over."""
    free_in_ms: int = 0
    """Only in a hand-over: how long nobody may get it."""
    lost: tuple[TokenHolder, ...] = ()
    """From whom it was taken, and who may not know yet."""
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""


@attrs.frozen(slots=True)
class GainedPart:
    """Tokens that came to this server by a change of servers: what is its own now, and was not before."""

    version: int
    before: frozenset[NodeName]
    """Who was not down before."""
    after: frozenset[NodeName]
    giver: NodeName | None = None
    """Who hands them over, because it leaves; None: the sessions are asked."""


@attrs.frozen(slots=True)
class ServedPart:
    """How far a server is with its part."""

    version: int
    """The newest version of the common state that it acted on."""
    up: Mapping[NodeName, int]
    """Who was not down in it, and since which version."""
    epoch: int
    ceiling: int
    """Counters up to this one may have been given."""
    gains: tuple[GainedPart, ...] = ()
    """Those of which not all sessions have said yet what they hold."""
    boot: int = 0
    """The version in which it began to boot; 0: it does not."""
    handed: tuple[NodeName, ...] = ()
    """Who has handed over all since then."""
    is_whole: bool = True
    """Whether nothing was missing in what they handed over."""
    giving: Mapping[NodeName, tuple[int, bool, bool]] = attrs.field(factory=dict)
    """To which booting server this one hands over: its boot, whether all of its part is known here, whether it is
    done."""


def record_list(record: TokenRecord) -> list[object]:
    """A record, to be packed."""
    return [
        record.token,
        [_holder_list(one) for one in record.holders],
        record.data,
        [[one.session, *one.ticket, one.is_shared] for one in record.queue],
        record.free_in_ms,
        [_holder_list(one) for one in record.lost],
        record.keeps_data,
    ]


def read_record_list(value: object) -> TokenRecord:
    """The same read.

    Raises:
        DecodeError: it is none.
    """
    parts = read_list(value, "record")
    if len(parts) != 7 or type(parts[6]) is not bool:
        raise bad("record", "a list of 7", value)
    return TokenRecord(
        read_token(parts[0]),
        _holders(parts[1]),
        read_packed_data(parts[2]),
        tuple([_queued(read_list(one, "record")) for one in read_list(parts[3], "record")]),
        read_int({"record": parts[4]}, "record", HANDED_MS_MAX),
        _holders(parts[5]),
        parts[6],
    )


def encode_token(record: TokenRecord) -> bytes:
    """The slot of a token."""
    return packing.pack(record_list(record))


def decode_token(slot: bytes) -> TokenRecord:
    """The same read."""
    return read_record_list(packing.unpack(slot))


def encode_part(part: ServedPart) -> bytes:
    """The slot of how far a server is."""
    return packing.pack(
        {
            "version": part.version,
            "up": part.up,
            "epoch": part.epoch,
            "ceiling": part.ceiling,
            "gains": [[one.version, sorted(one.before), sorted(one.after), one.giver] for one in part.gains],
            "boot": part.boot,
            "handed": part.handed,
            "whole": part.is_whole,
            "giving": {name: [*three] for name, three in part.giving.items()},
        }
    )


def decode_part(slot: bytes) -> ServedPart:
    """The same read.

    Raises:
        DecodeError: the bytes are none.
    """
    fields = read_map(packing.unpack(slot), "part")
    up = read_map(fields.get("up"), "up")
    giving = read_map(fields.get("giving"), "giving")
    return ServedPart(
        read_int(fields, "version", FENCE_MAX),
        {read_node(name, "up"): read_int({"up": since}, "up", FENCE_MAX) for name, since in up.items()},
        read_int(fields, "epoch", FENCE_MAX),
        read_int(fields, "ceiling", FENCE_MAX),
        tuple([_gain(read_list(one, "gains")) for one in read_list(fields.get("gains"), "gains")]),
        read_int(fields, "boot", FENCE_MAX),
        tuple([read_node(name, "handed") for name in read_list(fields.get("handed"), "handed")]),
        read_flag(fields, "whole"),
        {read_node(name, "giving"): _giving(read_list(one, "giving")) for name, one in giving.items()},
    )


def _giving(parts: list[object]) -> tuple[int, bool, bool]:
    if len(parts) != 3 or type(parts[1]) is not bool or type(parts[2]) is not bool:
        raise bad("giving", "a list of 3", parts)
    return read_int({"giving": parts[0]}, "giving", FENCE_MAX), parts[1], parts[2]


def _gain(parts: list[object]) -> GainedPart:
    if len(parts) != 4:
        raise bad("gains", "made of lists of 4", parts)
    before, after = (frozenset(read_node(name, "gains") for name in read_list(one, "gains")) for one in parts[1:3])
    giver = None if parts[3] is None else read_node(parts[3], "gains")
    return GainedPart(read_int({"gains": parts[0]}, "gains", FENCE_MAX), before, after, giver)


def _holder_list(one: TokenHolder) -> list[object]:
    return [one.session, one.is_shared, one.epoch, one.counter, one.since, one.change]


def _holders(value: object) -> tuple[TokenHolder, ...]:
    return tuple([_holder(read_list(one, "record")) for one in read_list(value, "record")])


def _holder(parts: list[object]) -> TokenHolder:
    if len(parts) != 6 or type(parts[1]) is not bool:
        raise bad("record", "made with holders", parts)
    numbers: Fields = {"epoch": parts[2], "counter": parts[3], "change": parts[5]}
    epoch, counter, change = (read_int(numbers, name, FENCE_MAX) for name in numbers)
    return TokenHolder(read_session(parts[0]), parts[1], epoch, counter, read_time(parts[4], "record"), change)


def _queued(parts: list[object]) -> QueuedSession:
    if len(parts) != 4 or type(parts[3]) is not bool:
        raise bad("record", "made with a queue", parts)
    numbers: Fields = {"epoch": parts[1], "number": parts[2]}
    ticket = read_int(numbers, "epoch", FENCE_MAX), read_int(numbers, "number", FENCE_MAX)
    return QueuedSession(read_session(parts[0]), ticket, parts[3])
