"""Events as fields of messages: strict readers for what others sent, and the form in which ours travel.

Knows: which fields an event has.  Does not know which messages carry events.

Invariant: as in `fields`: a reader returns what is well-formed, or raises `DecodeError` that names the field.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DecodeError, RequestError
from distkv.model.event import TOCK_HEARD_MAX, Chain, Event, ExpiringEvent, Kind, Tock
from distkv.wire.fields import (
    Fields,
    bad,
    chain_map,
    read_chain,
    read_flag,
    read_int,
    read_lasting_path,
    read_map,
    read_time,
)
from distkv.wire.values import NIL, check_value

TTL_S_MAX: Final = 1e9
"""Some thirty years."""


def event_map(event: Event) -> dict[str, object]:
    """An event; its value travels as bytes within bytes, so that nobody on the way packs it anew."""
    fields: dict[str, object] = {"path": [*event.path.names]}
    if event.kind is Kind.SET:
        fields["value"] = event.value
    elif event.kind is Kind.EXPIRE:
        fields["expired"] = True
    fields["chain"] = chain_map(event.chain, truncated=event.truncated)
    fields["tock"] = event.tock
    fields["time"] = event.time
    if event.ttl is not None:
        fields["ttl"] = event.ttl
    return fields


def read_event(value: object) -> Event:
    """An event."""
    fields = read_map(value, "events")
    kind = Kind.EXPIRE if read_flag(fields, "expired") else Kind.DELETE
    raw = fields.get("value")
    if raw is not None:
        if kind is Kind.EXPIRE:
            raise bad("expired", "absent where there is a value", True)
        kind = Kind.SET
    chain, truncated = read_chain(fields.get("chain"), "chain")
    return make_event(
        fields.get("path"),
        kind,
        raw,
        chain,
        Tock(read_int(fields, "tock", TOCK_HEARD_MAX)),
        fields.get("time"),
        truncated,
        read_ttl(fields) if "ttl" in fields else None,
    )


def make_event(
    path: object,
    kind: Kind,
    raw: object,
    chain: Chain,
    tock: Tock,
    time: object,
    truncated: bool,
    ttl: float | None = None,
) -> Event:
    """An event of parts of which path, value and time are still to be checked."""
    if kind is Kind.SET:
        if type(raw) is not bytes or raw == NIL:
            raise bad("value", "the bytes of a packed value that is not nil", raw)
    elif raw is not None:
        raise bad("value", "absent where something is deleted", raw)
    try:
        where = read_lasting_path(path)
        if type(raw) is bytes:
            check_value(raw)
    except RequestError as error:
        raise DecodeError(str(error), error.code) from None
    if ttl is None:
        return Event(where, kind, raw if type(raw) is bytes else b"", chain, tock, read_time(time, "time"), truncated)
    if type(raw) is not bytes:
        raise bad("ttl", "absent where something is deleted", ttl)
    return ExpiringEvent(where, raw, chain, tock, read_time(time, "time"), truncated, ttl)


def read_ttl(fields: Fields) -> float:
    """After how many seconds a value goes by itself."""
    value = fields.get("ttl")
    if (type(value) is not float and type(value) is not int) or not 0 < value <= TTL_S_MAX:
        raise bad("ttl", f"seconds, above 0 and at most {TTL_S_MAX:g}", value)
    return float(value)
