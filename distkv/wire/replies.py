"""What a server answers on the client socket, to bytes and back.

Knows: the form of greetings, replies, errors and items.  Does not know what the answers are.

Invariant: a stored value goes out as the bytes that are stored; nothing on the way packs it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from distkv import errors
from distkv.errors import DecodeError, DistkvError, PeerError, RequestError
from distkv.model.event import LIFE_MAX, Event, NodeName, Tick, Tock
from distkv.model.lean import lean_value
from distkv.model.path import Name, Path
from distkv.model.state import State
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_hash, read_int, read_list, read_map, read_node, read_state
from distkv.wire.services import service_error

_VALUE_KEY: Final = packing.pack("value")
_SEQ_AT: Final = 1 + len(packing.pack("seq"))
"""Where the number of the request stands in an item: behind the header of the map, which is one byte, and this key."""
_FOUND: Final = b"\x84" + b"%b".join(map(packing.pack, ("seq", "tock", "time", "value"))) + b"%b"
_FOUND_WITH_LINK: Final = (
    b"\x85"
    + b"%b".join(map(packing.pack, ("seq", "tock", "time", "chain")))
    + b"\x83"
    + b"%b".join(map(packing.pack, ("node", "tick", "prev")))
    + packing.pack(None)
    + packing.pack("value")
    + b"%b"
)
_WRITTEN: Final = b"\x84" + b"%b".join(map(packing.pack, ("seq", "changed", "tick", "tock"))) + b"%b"
TEXT: Final = frozenset((str,))
_HEADERS: Final = tuple(bytes((0x80 | count,)) for count in range(16))


@lean_value
class Hello:
    """The first thing a server says, in every state."""

    version: tuple[int, int, int]
    node: NodeName
    tick: Tick
    tock: Tock
    state: State
    network: bytes | None
    """The network id; None while the server has no data."""
    life: int
    auth: tuple[str, ...] = ()
    """The methods by which a client may authenticate; none: it need not."""
    request_bytes: int | None = None
    """The largest request that it takes; None: it does not say, as releases before this one."""


# -- what a server sends ------------------------------------------------------------------------------------------


def encode_reply(seq: int, fields: Mapping[str, object], value: bytes | None = None) -> bytes:
    """The reply to a request; `value` is a packed value, which becomes the field of that name.

    Raises:
        ValueError: with a value there may be at most 13 other fields.
    """
    packed = packing.pack({"seq": seq, **fields})
    if value is None:
        return packed
    if len(fields) > 13:
        raise ValueError("a reply with a value has at most 13 other fields")
    # The map is short, so its header is one byte that counts the pairs: count one more, and append it.
    return b"".join((_HEADERS[len(fields) + 2], packed[1:], _VALUE_KEY, value))


def encode_found(seq: int, event: Event) -> bytes:
    """The reply to the usual read, which asks for no chain; the same as by `encode_reply`, in a third of the time."""
    pack = packing.pack_of_few
    try:
        return _FOUND % (pack(seq), pack(event.tock), pack(event.time), event.value)
    except MemoryError:
        packing.forget_packed()
        raise


def encode_found_with_link(seq: int, event: Event) -> bytes:
    """The reply to a read that asks for the chain, of an event whose chain is one link, as most are."""
    pack = packing.pack_of_few
    try:
        seq_tock_time = pack(seq), pack(event.tock), pack(event.time)
        return _FOUND_WITH_LINK % (*seq_tock_time, pack(event.node), pack(event.tick), event.value)
    except MemoryError:
        packing.forget_packed()
        raise


def encode_written(seq: int, event: Event, *, changed: bool) -> bytes:
    """The reply to the usual write, which asks for no chain nor the old value; the same as by `encode_reply`."""
    pack = packing.pack_of_few
    try:
        return _WRITTEN % (pack(seq), pack(changed), pack(event.tick), pack(event.tock))
    except MemoryError:
        packing.forget_packed()
        raise


def encode_result(fields: Mapping[str, object], raw: Mapping[str, bytes]) -> bytes:
    """One element of `results`, without `seq`; what is in `raw` is packed already."""
    return packing.pack_map(fields, raw)


def encode_results(seq: int, results: Sequence[bytes]) -> bytes:
    """The reply to a batch, of what `encode_result` made."""
    return packing.pack_map({"seq": seq}, {"results": packing.array_header(len(results)) + b"".join(results)})


def encode_items(seq: int, items: Sequence[bytes], more: Path | None, lost: DistkvError | None) -> bytes:
    """The reply to `conflicts`, of what `encode_result` made. `more` is the last path shown, when there are more;
    `lost` is why these may not be all."""
    fields: dict[str, object] = {"seq": seq} if more is None else {"seq": seq, "more": more.names}
    if lost is not None:
        fields["lost"] = str(lost)
    return packing.pack_map(fields, {"items": packing.array_header(len(items)) + b"".join(items)})


def encode_changes(seq: int, node: NodeName, won: bytes, records: bytes) -> bytes:
    """One item of `get_changes`."""
    return packing.pack({"seq": seq, "node": node, "won": won, "records": records})


def encode_names(
    seq: int, names: Iterable[tuple[Name, bool, int]], more: Path | None, lost: DistkvError | None
) -> bytes:
    """The reply to `list`; `more` is the name behind which the next page begins, `lost` why these may not be all."""
    count, packed = packing.pack_all(names)
    fields: dict[str, object] = {"seq": seq}
    if more is not None:
        fields["more"] = more.names[0]
    if lost is not None:
        fields["lost"] = str(lost)
    return packing.pack_map(fields, {"names": packing.array_header(count) + packed})


def encode_error(seq: int, error: DistkvError) -> bytes:
    """The reply that a request was refused; 0 when its `seq` is not known."""
    fields: dict[str, object] = {"seq": seq, "error": str(error), "code": error.code}
    if isinstance(error, RequestError):
        fields |= {name: told for name in error.details if (told := getattr(error, name)) is not None}
    return packing.pack(fields)


def encode_hello(hello: Hello) -> bytes:
    """The greeting."""
    limits = {} if hello.request_bytes is None else {"request_bytes": hello.request_bytes}
    return packing.pack(
        {
            "seq": 0,
            "version": hello.version,
            "node": hello.node,
            "tick": hello.tick,
            "tock": hello.tock,
            "state": hello.state.value,
            "network": hello.network,
            "life": hello.life,
            "auth": hello.auth,
            **limits,
        }
    )


def encode_start(seq: int) -> bytes:
    """Items follow, then `encode_end`."""
    return packing.pack({"seq": seq, "state": "start"})


def encode_end(seq: int) -> bytes:
    """No more items."""
    return packing.pack({"seq": seq, "state": "end"})


def addressed(item: bytes, seq: int) -> bytes:
    """An item that was packed with 0 for its `seq`, for the long result that the request `seq` began."""
    return b"".join((item[:_SEQ_AT], packing.pack_plain(seq), item[_SEQ_AT + 1 :]))


# -- what a client reads ------------------------------------------------------------------------------------------


def decode_reply(frame: bytes) -> Fields:
    """The fields of a reply, an item or a greeting, as Python values; `seq` is there and 0 or more.

    `reply_error` tells an error, `is_start` and `is_end` the frame of a long result, `codec.read_payload` takes what
    comes from a peer, `read_hello` a greeting.

    Raises:
        DecodeError: the frame is no reply.
    """
    fields = read_map(packing.unpack(frame), "reply")
    read_int(fields, "seq")
    if not TEXT.issuperset(map(type, fields)):
        raise DecodeError("the names of the fields of a reply must be text", "bad_reply")
    return fields


def reply_error(fields: Fields) -> DistkvError | None:
    """The error that a reply carries: of the class that has its code, else a `PeerError` that shows the code."""
    text, code = fields.get("error"), fields.get("code")
    if text is None:
        return None
    if type(text) is not str or type(code) is not str:
        return PeerError("the server answered with an error that cannot be read")
    kind = _BY_CODE.get(code) or service_error(code)
    if kind is None:
        return PeerError(f"{text} ({code})")
    found = kind(text)
    for name, type_ in found.details.items():
        if type(fields.get(name)) is type_:
            setattr(found, name, fields[name])
    return found


def is_start(fields: Fields) -> bool:
    """Whether items follow."""
    return fields.get("state") == "start"


def is_end(fields: Fields) -> bool:
    """Whether the items are complete."""
    return fields.get("state") == "end"


def read_hello(fields: Fields) -> Hello:
    """The greeting.

    Raises:
        DecodeError: it is none; then this is another program.
    """
    if fields.get("seq") != 0:
        raise bad("seq", "0 in a greeting", fields.get("seq"))
    version = [number for number in read_list(fields.get("version"), "version") if type(number) is int]
    if len(version) != 3:
        raise bad("version", "a list of three integers", fields["version"])
    methods = read_list(fields.get("auth"), "auth")
    network = fields.get("network")
    return Hello(
        (version[0], version[1], version[2]),
        read_node(fields.get("node"), "node"),
        Tick(read_int(fields, "tick")),
        Tock(read_int(fields, "tock")),
        read_state(fields),
        None if network is None else read_hash(network, "network"),
        read_int(fields, "life", LIFE_MAX),
        tuple(method for method in methods if type(method) is str),
        read_int(fields, "request_bytes") if "request_bytes" in fields else None,
    )


def _request_errors(base: type[RequestError]) -> dict[str, type[RequestError]]:
    found = {base.code: base}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, base) and "code" in vars(kind):
            found[kind.code] = kind
    return found


_BY_CODE: Final = _request_errors(RequestError)
