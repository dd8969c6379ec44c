"""Events as fields of messages: strict readers for what others sent, and the form in which ours travel.

Knows: which fields an event has.  Does not know which messages carry events.

Invariant: as in `fields`: a reader returns what is well-formed, or raises `DecodeError` that names the field.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DecodeError, RequestError
from distkv.model.event import TOCK_HEARD_MAX, Chain, Event, Kind, Tock, new_event
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence, is_token_name
from distkv.model.service_paths import service_key
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
    shown,
)
from distkv.wire.values import NIL, check_value

TTL_S_MAX: Final = 1e9
"""Some thirty years."""


def event_map(event: Event) -> dict[str, object]:
    """An event; its value travels as bytes within bytes, so that nobody on the way packs it anew.

    The chain of one with a fence stands elsewhere. So a release that does not know fences refuses it: to such a release
    it would be an event like any other, and it would order it by its tock.
    """
    fields: dict[str, object] = {"path": [*event.path.names]}
    if event.kind is Kind.SET:
        fields["value"] = event.value
    elif event.kind is Kind.EXPIRE:
        fields["expired"] = True
    chain = chain_map(event.chain, truncated=event.truncated)
    if event.fence is NO_FENCE:
        fields["chain"] = chain
    else:
        fields["fenced"] = {"chain": chain, "fence": fence_list(event.fence)}
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
    fence, holder = NO_FENCE, fields
    if "fenced" in fields:
        holder = read_map(fields["fenced"], "fenced")
        fence = read_fence_list(holder.get("fence"), "fence")
    chain, truncated = read_chain(holder.get("chain"), "chain")
    return make_event(
        fields.get("path"),
        kind,
        raw,
        chain,
        Tock(read_int(fields, "tock", TOCK_HEARD_MAX)),
        fields.get("time"),
        truncated,
        read_ttl(fields) if "ttl" in fields else None,
        fence,
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
    fence: Fence = NO_FENCE,
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
    if fence is not NO_FENCE and where.is_reserved and service_key(where) is None:
        raise bad("fence", "absent where a path is the system's own", list(fence))
    if type(raw) is not bytes:
        if ttl is not None:
            raise bad("ttl", "absent where something is deleted", ttl)
        raw = b""
    return new_event(where, kind, raw, chain, tock, read_time(time, "time"), truncated, ttl, fence)


def fence_list(fence: Fence) -> list[object]:
    """A fence as messages, records and the archive have it."""
    return [*fence]


def read_fence_list(value: object, name: str) -> Fence:
    """The fence of an event: that of a token, or the base that is left where one was lifted."""
    match value:
        case [int(base), int(epoch), int(counter), str(token)] if _are_numbers(base, epoch, counter):
            fence = Fence(base, epoch, counter, token)
            if is_token_name(token) or fence == Fence(base, 0, 0, "") > NO_FENCE:
                return fence
    raise bad(name, f"[base, epoch, counter, token], numbers from 0 to {FENCE_MAX}, or [base, 0, 0, '']", value)


def shown_fence(fence: Fence) -> dict[str, object]:
    """What clients are shown of a fence, as fields of a reply or an item; nothing where there is none."""
    fields: dict[str, object] = {}
    if fence.holds:
        fields["fence"] = [fence.token, fence.epoch, fence.counter]
    if fence.base:
        fields["base"] = fence.base
    return fields


def read_shown_fence(fields: Fields) -> Fence:
    """What `shown_fence` made."""
    base = read_int(fields, "base", FENCE_MAX) if "base" in fields else 0
    if "fence" not in fields:
        return Fence(base, 0, 0, "") if base else NO_FENCE
    match fields["fence"]:
        case [str(token), int(epoch), int(counter)] if is_token_name(token) and _are_numbers(epoch, counter):
            return Fence(base, epoch, counter, token)
    raise bad("fence", "[token, epoch, counter]", fields["fence"])


def read_asked_fence(value: object) -> Fence:
    """The fence that a client gives with a write.

    Raises:
        RequestError: it is none.
    """
    match value:
        case [str(token), int(epoch), int(counter)] if is_token_name(token) and _are_numbers(epoch, counter):
            return Fence(0, epoch, counter, token)
    raise RequestError(
        f"the field 'fence' must be [token, epoch, counter] as 'token_acquire' gives them, not {shown(value)}"
    )


def read_ttl(fields: Fields) -> float:
    """After how many seconds a value goes by itself."""
    value = fields.get("ttl")
    if (type(value) is not float and type(value) is not int) or not 0 < value <= TTL_S_MAX:
        raise bad("ttl", f"seconds, above 0 and at most {TTL_S_MAX:g}", value)
    return float(value)


# -- inside -------------------------------------------------------------------------------------------------------


def _are_numbers(*values: int) -> bool:
    return all(type(value) is int and 0 <= value <= FENCE_MAX for value in values)
