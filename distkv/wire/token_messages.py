"""What nodes ask each other about tokens, and what they answer, to bytes and back: the bodies of calls.

Knows: the fields of these.  Does not know calls, nor who asks whom.

Invariant: `decode_question` and `decode_answer` read what the encoders made as the same value, or raise `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from distkv import errors
from distkv.errors import DecodeError, RequestError, UngrantedError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX, Fence
from distkv.model.standing import ServerStanding
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list, read_map, read_node
from distkv.wire.token_fields import (
    HELD_MAX,
    HeldToken,
    Ticket,
    held_list,
    read_held_list,
    read_list_of_servers,
    read_names,
    read_prefix,
    read_session,
    read_ticket,
    read_token,
    ticket_text,
)
from distkv.wire.token_replies import TokenItem, TokenReply, item_list, read_item_list, read_reply, reply_map
from distkv.wire.token_requests import TOKEN_ROWS, OneTokenRequest, TokenList
from distkv.wire.token_slots import TokenRecord, read_record_list, record_list
from distkv.wire.token_states import JOINT_MAX

RECORDS_MAX: Final = 1000
"""A piece of a hand-over has no more tokens than these."""
TEXT_MAX: Final = 1000
TTL_MS_MAX: Final = 2**40

# -- what is asked ------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class AboutToken:
    """A client's request, for the server of its token."""

    request: OneTokenRequest
    known: int = 0
    """The newest change of servers that the asking node knows of: the answer is to come from no older knowledge."""


@attrs.frozen(slots=True)
class OpenSession:
    """For the leader."""

    tag: str
    """Names the session when the question is repeated."""
    ttl_ms: int


@attrs.frozen(slots=True)
class EndSession:
    """For the leader."""

    session: str


@attrs.frozen(slots=True)
class KeepSession:
    """For the leader."""

    session: str
    version: int
    held: tuple[str, ...]
    wait_ms: int
    turn: int = 0
    """As the client's request has them."""
    heard: int = 0


@attrs.frozen(slots=True)
class ReleaseAll:
    """For each server: the session ends in order."""

    session: str


@attrs.frozen(slots=True)
class ClaimTokens:
    """For each server: what a session holds, which knows of this version. Answered when the server needs it not, or not
    any more."""

    session: str
    version: int
    held: tuple[HeldToken, ...]


@attrs.frozen(slots=True)
class ListTokens:
    """For each server: its part of a list."""

    request: TokenList


@attrs.frozen(slots=True)
class WatchTokens:
    """For each server: what changed behind a position, as soon as something has; position 0: all that there is."""

    prefix: str
    position: int
    known: int = 0
    """The newest change of servers that the asking node knows of: the answer is to come from no older knowledge."""


@attrs.frozen(slots=True)
class WhereTokens:
    """For any server: who serves."""


@attrs.frozen(slots=True)
class TakeTokens:
    """For a server that boots: a piece of what is its part from now on."""

    boot: int
    """The version in which it began to boot."""
    piece: int
    records: tuple[TokenRecord, ...]
    is_last: bool
    is_whole: bool
    """In the last piece: whether the sender knew all of that part."""


@attrs.frozen(slots=True)
class TellLoss:
    """For the leader: a token was taken from a session. Answered when the session knows, or is over."""

    session: str
    fence: Fence


@attrs.frozen(slots=True)
class AskHolding:
    """For the leader: whether the client of a session counts on this. Answered when it has said what it holds."""

    session: str
    fence: Fence


@attrs.frozen(slots=True)
class ChangeServers:
    """For the leader: another list of servers is to come into force. Answered when it is, or after a wait."""

    servers: tuple[NodeName, ...]
    wait_ms: int


SessionQuestion: TypeAlias = OpenSession | EndSession | KeepSession | TellLoss | AskHolding
LeaderQuestion: TypeAlias = SessionQuestion | ChangeServers
ServerQuestion: TypeAlias = ReleaseAll | ClaimTokens | ListTokens | WatchTokens | WhereTokens | TakeTokens
TokenQuestion: TypeAlias = AboutToken | LeaderQuestion | ServerQuestion

# -- what is answered ---------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class TokenMap:
    """Who serves, as a server knows it."""

    term: int
    version: int
    changed: int
    leader: NodeName
    servers: Mapping[NodeName, tuple[str, int, int]]
    """Of each its standing, its life, and since which version."""
    sessions: int
    """How many there are."""
    is_sure: bool
    """Whether the server may grant now."""
    list: tuple[NodeName, ...] = ()
    """The list in force; empty: all of them."""
    next: tuple[NodeName, ...] = ()
    """The list that is to take its place; empty: there is none."""


@attrs.frozen(slots=True)
class AskElsewhere:
    """Another server answers this."""

    map: TokenMap
    ticket: Ticket | None = None
    """The place in the queue that the request has kept."""


@attrs.frozen(slots=True)
class WatchedTokens:
    """What a watch is told."""

    items: tuple[TokenItem, ...]
    position: int
    """Behind which to ask on."""
    is_first: bool = False
    """Whether this begins all that the server has."""
    is_last: bool = True
    """Whether there is no more for now."""


TokenResult: TypeAlias = TokenReply | RequestError | TokenMap | AskElsewhere | WatchedTokens

_STANDINGS: Final = [standing.value for standing in ServerStanding]
_CODES: Final[Mapping[str, type[RequestError]]] = {
    kind.code: kind
    for kind in (
        errors.RequestError,
        errors.BusyError,
        errors.DisabledError,
        errors.HeldError,
        errors.NoQuorumError,
        errors.NotHeldError,
        errors.NotFoundError,
        errors.SessionExpiredError,
        errors.TimedOutError,
        errors.TooLargeError,
    )
}

# -- questions ----------------------------------------------------------------------------------------------------

_ACTIONS: Final = {row.type: row for row in TOKEN_ROWS}
_ONE_TOKEN: Final = ("token_acquire", "token_release", "token_data", "token_show", "token_break")


def encode_question(question: TokenQuestion) -> bytes:
    """The body of a call."""
    if isinstance(question, AboutToken):
        row = _ACTIONS[type(question.request)]
        fields: dict[str, object] = {"ask": row.action, "known": question.known}
        raw: dict[str, bytes] = {}
        if row.write is not None:
            row.write(question.request, fields, raw)
        return packing.pack_map(fields, raw)
    return packing.pack(_question_fields(question))


def _question_fields(question: TokenQuestion) -> dict[str, object]:
    match question:
        case OpenSession(tag=tag, ttl_ms=ttl_ms):
            return {"ask": "open", "tag": tag, "ttl": ttl_ms}
        case EndSession(session=session):
            return {"ask": "end", "session": session}
        case KeepSession(session=session, version=version, held=held, wait_ms=wait_ms):
            turns = {"turn": question.turn, "heard": question.heard} if question.turn else {}
            return {"ask": "keep", "session": session, "version": version, "held": held, "wait": wait_ms, **turns}
        case ReleaseAll(session=session):
            return {"ask": "release_all", "session": session}
        case ClaimTokens(session=session, version=version, held=held):
            return {"ask": "claim", "session": session, "version": version, "held": held_list(held)}
        case ListTokens(request=one):
            return {"ask": "list", "prefix": one.prefix, "limit": one.limit, "after": one.after}
        case WatchTokens(prefix=prefix, position=position, known=known):
            return {"ask": "watch", "prefix": prefix, "position": position, "known": known}
        case WhereTokens():
            return {"ask": "where"}
        case TakeTokens(boot=boot, piece=piece, records=records, is_last=is_last, is_whole=is_whole):
            found = [record_list(record) for record in records]
            return {"ask": "take", "boot": boot, "piece": piece, "records": found, "last": is_last, "whole": is_whole}
        case TellLoss(session=session, fence=fence):
            return {"ask": "loss", "session": session, "fence": [fence.epoch, fence.counter, fence.token]}
        case AskHolding(session=session, fence=fence):
            return {"ask": "holding", "session": session, "fence": [fence.epoch, fence.counter, fence.token]}
        case ChangeServers(servers=servers, wait_ms=wait_ms):
            return {"ask": "servers", "servers": [*servers], "wait": wait_ms}
        case AboutToken():
            raise TypeError("it is packed as its request is")
        case _:
            assert_never(question)


def decode_question(body: bytes) -> TokenQuestion:
    """What a node asks.

    Raises:
        DecodeError: the bytes are no question.
    """
    fields = read_map(packing.unpack(body), "question")
    action = fields.get("ask")
    if type(action) is not str:
        raise bad("ask", "a word", action)
    if action in _ONE_TOKEN:
        return _read_about(action, fields, body)
    read = _QUESTIONS.get(action)
    if read is None:
        raise bad("ask", f"one of {', '.join(_QUESTIONS)}", action)
    return read(fields)


def _read_about(action: str, fields: Fields, body: bytes) -> AboutToken:
    row = next(row for row in TOKEN_ROWS if row.action == action)
    try:
        request = row.read(0, fields, body)
    except RequestError as error:
        raise DecodeError(str(error), "bad_request") from None
    if not isinstance(request, OneTokenRequest):
        raise bad("ask", f"one of {', '.join(_ONE_TOKEN)}", action)
    return AboutToken(request, read_int(fields, "known", FENCE_MAX))


def _read_keep(fields: Fields) -> KeepSession:
    held = read_list(fields.get("held"), "held")
    if len(held) > HELD_MAX:
        raise bad("held", f"a list of at most {HELD_MAX} names", held)
    version, wait_ms = read_int(fields, "version", FENCE_MAX), read_int(fields, "wait", TTL_MS_MAX)
    turn, heard = (read_int(fields, name, FENCE_MAX) if name in fields else 0 for name in ("turn", "heard"))
    names = tuple([read_token(one) for one in held])
    return KeepSession(read_session(fields.get("session")), version, names, wait_ms, turn, heard)


def _read_claim(fields: Fields) -> ClaimTokens:
    held = read_held_list(fields.get("held"))
    return ClaimTokens(read_session(fields.get("session")), read_int(fields, "version", FENCE_MAX), held)


def _read_list(fields: Fields) -> ListTokens:
    limit = read_int(fields, "limit", 2**31, 1)
    return ListTokens(TokenList(0, read_prefix(fields, "prefix"), limit, read_prefix(fields, "after")))


def _read_watch(fields: Fields) -> WatchTokens:
    position, known = read_int(fields, "position", FENCE_MAX), read_int(fields, "known", FENCE_MAX)
    return WatchTokens(read_prefix(fields, "prefix"), position, known)


def _read_take(fields: Fields) -> TakeTokens:
    records = read_list(fields.get("records"), "records")
    if len(records) > RECORDS_MAX:
        raise bad("records", f"a list of at most {RECORDS_MAX}", records)
    return TakeTokens(
        read_int(fields, "boot", FENCE_MAX),
        read_int(fields, "piece", FENCE_MAX),
        tuple([read_record_list(one) for one in records]),
        read_flag(fields, "last"),
        read_flag(fields, "whole"),
    )


def _read_of_session(fields: Fields) -> tuple[str, Fence]:
    parts = read_list(fields.get("fence"), "fence")
    if len(parts) != 3:
        raise bad("fence", "[epoch, counter, token]", parts)
    numbers: Fields = {"epoch": parts[0], "counter": parts[1]}
    epoch, counter = read_int(numbers, "epoch", FENCE_MAX), read_int(numbers, "counter", FENCE_MAX)
    return read_session(fields.get("session")), Fence(0, epoch, counter, read_token(parts[2]))


def _read_open(fields: Fields) -> OpenSession:
    tag = _text(fields.get("tag"), "tag")
    if not 0 < len(tag) <= 40 or not tag.isalnum() or not tag.isascii():
        raise bad("tag", "1 to 40 letters and digits", tag)
    return OpenSession(tag, read_int(fields, "ttl", TTL_MS_MAX))


_QUESTIONS: Final[Mapping[str, Callable[[Fields], TokenQuestion]]] = {
    "open": _read_open,
    "end": lambda fields: EndSession(read_session(fields.get("session"))),
    "keep": _read_keep,
    "release_all": lambda fields: ReleaseAll(read_session(fields.get("session"))),
    "claim": _read_claim,
    "list": _read_list,
    "watch": _read_watch,
    "where": lambda _: WhereTokens(),
    "take": _read_take,
    "servers": lambda fields: ChangeServers(
        read_list_of_servers(fields.get("servers")), read_int(fields, "wait", TTL_MS_MAX)
    ),
    "loss": lambda fields: TellLoss(*_read_of_session(fields)),
    "holding": lambda fields: AskHolding(*_read_of_session(fields)),
}

# -- answers ------------------------------------------------------------------------------------------------------


def encode_answer(result: TokenResult, changed: int) -> bytes:
    """The body of an answer; `changed` is the newest change of servers that the answering one knows of."""
    return packing.pack({"known": changed, **_answer_fields(result)})


def _answer_fields(result: TokenResult) -> dict[str, object]:
    if isinstance(result, RequestError):
        ticket = result.ticket if isinstance(result, UngrantedError) else None
        return {"error": [result.code, str(result)[:TEXT_MAX], ticket]}
    if isinstance(result, TokenMap):
        return {"map": _map_list(result)}
    if isinstance(result, AskElsewhere):
        ticket = None if result.ticket is None else ticket_text(result.ticket)
        return {"elsewhere": ticket, "map": _map_list(result.map)}
    if isinstance(result, WatchedTokens):
        items = [item_list(item) for item in result.items]
        return {"watched": items, "position": result.position, "first": result.is_first, "last": result.is_last}
    return reply_map(result)


def decode_answer(body: bytes) -> tuple[TokenResult, int]:
    """What a node answers, and the newest change of servers that it knows of.

    Raises:
        DecodeError: the bytes are no answer.
    """
    fields = read_map(packing.unpack(body), "answer")
    return _read_result(fields), read_int(fields, "known", FENCE_MAX)


def _read_result(fields: Fields) -> TokenResult:
    if "error" in fields:
        return _read_error(read_list(fields["error"], "error"))
    if "elsewhere" in fields:
        ticket = None if fields["elsewhere"] is None else read_ticket(fields["elsewhere"])
        return AskElsewhere(_read_map(fields.get("map")), ticket)
    if "map" in fields:
        return _read_map(fields["map"])
    if "watched" in fields:
        items = tuple([read_item_list(one) for one in read_list(fields["watched"], "watched")])
        is_first, is_last = read_flag(fields, "first"), read_flag(fields, "last")
        return WatchedTokens(items, read_int(fields, "position", FENCE_MAX), is_first, is_last)
    return read_reply(fields)


def _read_error(parts: list[object]) -> RequestError:
    if len(parts) != 3 or type(parts[0]) is not str:
        raise bad("error", "[code, text, ticket]", parts)
    error = _CODES.get(parts[0], RequestError)(_text(parts[1], "error"))
    if isinstance(error, UngrantedError) and parts[2] is not None:
        return error.with_ticket(ticket_text(read_ticket(parts[2])))
    return error


def _map_list(map: TokenMap) -> list[object]:
    servers = {name: [*parts] for name, parts in map.servers.items()}
    lists = [[*map.list], [*map.next]] if map.list else []
    return [map.term, map.version, map.changed, map.leader, servers, map.sessions, map.is_sure, *lists]


def _read_map(value: object) -> TokenMap:
    parts = read_list(value, "map")
    if len(parts) not in (7, 9) or type(parts[6]) is not bool:
        raise bad("map", "a list of 7 or 9", value)
    numbers: Fields = {"term": parts[0], "version": parts[1], "changed": parts[2], "sessions": parts[5]}
    servers = dict[NodeName, tuple[str, int, int]]()
    found = read_map(parts[4], "map")
    if len(found) > JOINT_MAX:
        raise bad("map", f"of at most {JOINT_MAX} servers", value)
    for name, one in found.items():
        three = read_list(one, "map")
        if len(three) != 3 or three[0] not in _STANDINGS:
            raise bad("map", "made of [standing, life, since]", one)
        rest: Fields = {"life": three[1], "since": three[2]}
        life, since = read_int(rest, "life"), read_int(rest, "since", FENCE_MAX)
        servers[read_node(name, "map")] = (str(three[0]), life, since)
    return TokenMap(
        read_int(numbers, "term", FENCE_MAX),
        read_int(numbers, "version", FENCE_MAX),
        read_int(numbers, "changed", FENCE_MAX),
        read_node(parts[3], "map"),
        servers,
        read_int(numbers, "sessions", FENCE_MAX),
        parts[6],
        *[read_names(part, "map") for part in parts[7:]],
    )


def _text(value: object, name: str) -> str:
    if type(value) is not str or len(value) > TEXT_MAX:
        raise bad(name, f"text of at most {TEXT_MAX} characters", value)
    return value
