"""What nodes ask each other about tokens, and what they answer: the bodies of calls.

Knows: the fields of these.  Does not know calls, nor who asks whom.

Invariant: as in `declared`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias, cast, get_args

import attrs

from distkv.errors import BusyError, DecodeError, DisabledError, NotFoundError, RequestError, TooLargeError
from distkv.model.fence import FENCE_MAX, TOKEN_BYTES_MAX, Fence
from distkv.wire import packing
from distkv.wire.declared import BodyReader, Bounds, Declared, Node, Raw, field, fields_of, pack
from distkv.wire.fields import read_int, read_map
from distkv.wire.held_tokens import HELD_MAX, FenceNumber, HeldToken, SessionName, TokenName, check_tokens
from distkv.wire.token_errors import ERRORS, UngrantedError
from distkv.wire.token_fields import Ticket, read_list_of_servers, read_names, read_ticket, ticket_text
from distkv.wire.token_replies import (
    SessionClosed,
    SessionKept,
    SessionOpened,
    TokenDone,
    TokenGranted,
    TokenItem,
    TokenItems,
    TokenReply,
    TokensChanged,
    TokenServersShown,
    TokensListed,
)
from distkv.wire.token_requests import TOKEN_ROWS, OneTokenRequest, TokenList
from distkv.wire.token_slots import TokenRecord
from distkv.wire.token_states import JOINT_MAX, TTL_MS_MAX, ServerNames, TokenServer

RECORDS_MAX: Final = 1000
"""A piece of a hand-over has no more tokens than these."""
TEXT_MAX: Final = 1000
LIMIT_MAX: Final = 2**31
ANSWER_FIELDS_MAX: Final = 100

Milliseconds: TypeAlias = Annotated[int, Bounds(ge=0, le=TTL_MS_MAX)]
Prefix: TypeAlias = Annotated[str, Bounds(max_length=TOKEN_BYTES_MAX)]

# -- what is asked ------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class AboutToken:
    """A client's request, for the server of its token. It travels as the client sent it."""

    request: OneTokenRequest
    known: int = 0
    """The newest change of servers that the asking node knows of: the answer is to come from no older knowledge."""


class _TaggedQuestion(Declared, tag_field="ask"):
    pass


class OpenSession(_TaggedQuestion, tag="open"):
    """For the leader."""

    tag: Annotated[str, Bounds(pattern=r"\A[0-9A-Za-z]{1,40}\Z")]
    """Names the session when the question is repeated."""
    ttl_ms: Milliseconds = field(name="ttl")


class EndSession(_TaggedQuestion, tag="end"):
    """For the leader."""

    session: SessionName


class KeepSession(_TaggedQuestion, tag="keep", omit_defaults=True):
    """For the leader."""

    session: SessionName
    version: FenceNumber
    held: Annotated[tuple[TokenName, ...], Bounds(max_length=HELD_MAX)]
    wait_ms: Milliseconds = field(name="wait")
    turn: FenceNumber = 0
    """As the client's request has them."""
    heard: FenceNumber = 0

    def __post_init__(self) -> None:
        check_tokens(*self.held)


class ReleaseAll(_TaggedQuestion, tag="release_all"):
    """For each server: the session ends in order."""

    session: SessionName


class ClaimTokens(_TaggedQuestion, tag="claim"):
    """For each server: what a session holds, which knows of this version. Answered when the server needs it not, or not
    any more."""

    session: SessionName
    version: FenceNumber
    held: Annotated[tuple[HeldToken, ...], Bounds(max_length=HELD_MAX)]

    def __post_init__(self) -> None:
        check_tokens(*[one.token for one in self.held])


class ListTokens(_TaggedQuestion, tag="list"):
    """For each server: its part of a list."""

    prefix: Prefix
    limit: Annotated[int, Bounds(ge=1, le=LIMIT_MAX)]
    after: Prefix

    def __post_init__(self) -> None:
        check_tokens(self.prefix, self.after)

    @property
    def request(self) -> TokenList:
        return TokenList(0, self.prefix, self.limit, self.after)


class WatchTokens(_TaggedQuestion, tag="watch"):
    """For each server: what changed behind a position, as soon as something has; position 0: all that there is."""

    prefix: Prefix
    position: FenceNumber
    known: FenceNumber = 0
    """The newest change of servers that the asking node knows of: the answer is to come from no older knowledge."""

    def __post_init__(self) -> None:
        check_tokens(self.prefix)


class WhereTokens(_TaggedQuestion, tag="where"):
    """For any server: who serves."""


class TakeTokens(_TaggedQuestion, tag="take"):
    """For a server that boots: a piece of what is its part from now on."""

    boot: FenceNumber
    """The version in which it began to boot."""
    piece: FenceNumber
    records: Annotated[tuple[TokenRecord, ...], Bounds(max_length=RECORDS_MAX)]
    is_last: bool = field(name="last")
    is_whole: bool = field(name="whole")
    """In the last piece: whether the sender knew all of that part."""


class _OfGrant(_TaggedQuestion):
    session: SessionName
    grant: tuple[FenceNumber, FenceNumber, TokenName] = field(name="fence")
    """Epoch, counter, token."""

    def __post_init__(self) -> None:
        check_tokens(self.grant[2])

    @property
    def fence(self) -> Fence:
        return Fence(0, *self.grant)


class TellLoss(_OfGrant, tag="loss"):
    """For the leader: a token was taken from a session. Answered when the session knows, or is over."""


class AskHolding(_OfGrant, tag="holding"):
    """For the leader: whether the client of a session counts on this. Answered when it has said what it holds."""


class ChangeServers(_TaggedQuestion, tag="servers"):
    """For the leader: another list of servers is to come into force. Answered when it is, or after a wait."""

    servers: ServerNames
    wait_ms: Milliseconds = field(name="wait")

    def __post_init__(self) -> None:
        read_list_of_servers([*self.servers])


SessionQuestion: TypeAlias = OpenSession | EndSession | KeepSession | TellLoss | AskHolding
LeaderQuestion: TypeAlias = SessionQuestion | ChangeServers
ServerQuestion: TypeAlias = ReleaseAll | ClaimTokens | ListTokens | WatchTokens | WhereTokens | TakeTokens
OwnQuestion: TypeAlias = LeaderQuestion | ServerQuestion
TokenQuestion: TypeAlias = AboutToken | OwnQuestion

# -- what is answered ---------------------------------------------------------------------------------------------


class TokenMap(Declared, array_like=True):
    """Who serves, as a server knows it."""

    term: FenceNumber
    version: FenceNumber
    changed: FenceNumber
    leader: Node
    servers: Annotated[Mapping[Node, TokenServer], Bounds(max_length=JOINT_MAX)]
    sessions: FenceNumber
    """How many there are."""
    is_sure: bool
    """Whether the server may grant now."""
    list: ServerNames = ()
    """The list in force; empty: all of them."""
    next: ServerNames = ()
    """The list that is to take its place; empty: there is none."""

    def __post_init__(self) -> None:
        read_names([*self.list], "map")
        read_names([*self.next], "map")


class AskElsewhere(Declared):
    """Another server answers this."""

    map: TokenMap
    place: str | None = field(name="elsewhere", default=None)
    """The place in the queue that the request has kept, as a ticket."""

    def __post_init__(self) -> None:
        if self.place is not None:
            read_ticket(self.place)

    @property
    def ticket(self) -> Ticket | None:
        return None if self.place is None else read_ticket(self.place)


class WatchedTokens(Declared):
    """What a watch is told."""

    items: TokenItems = field(name="watched")
    position: FenceNumber
    """Behind which to ask on."""
    is_first: bool = field(name="first", default=False)
    """Whether this begins all that the server has."""
    is_last: bool = field(name="last", default=True)
    """Whether there is no more for now."""


TokenResult: TypeAlias = TokenReply | RequestError | TokenMap | AskElsewhere | WatchedTokens

_CODES: Final[Mapping[str, type[RequestError]]] = {
    kind.code: kind
    for kind in (RequestError, BusyError, DisabledError, NotFoundError, TooLargeError, *ERRORS)
}

# -- questions ----------------------------------------------------------------------------------------------------


class _AnyQuestion(Declared):
    ask: str


_ANY_QUESTION: Final = BodyReader[_AnyQuestion](_AnyQuestion, "question")
_QUESTIONS: Final = BodyReader[OwnQuestion](OwnQuestion, "question")
_ACTIONS: Final = {row.type: row for row in TOKEN_ROWS}
_ONE_TOKEN: Final = {row.action: row for row in TOKEN_ROWS if row.type in get_args(OneTokenRequest)}


def encode_question(question: TokenQuestion) -> bytes:
    """The body of a call."""
    if not isinstance(question, AboutToken):
        return pack(question)
    row = _ACTIONS[type(question.request)]
    fields: dict[str, object] = {"ask": row.action, "known": question.known}
    raw: dict[str, bytes] = {}
    if row.write is not None:
        row.write(question.request, fields, raw)
    return packing.pack_map(fields, raw)


def decode_question(body: bytes) -> TokenQuestion:
    """What a node asks.

    Raises:
        DecodeError: the bytes are no question.
    """
    action = _ANY_QUESTION.read(body).ask
    return _read_about(action, body) if action in _ONE_TOKEN else _QUESTIONS.read(body)


def _read_about(action: str, body: bytes) -> AboutToken:
    fields = read_map(packing.unpack_whole(body), "question")
    try:
        request = _ONE_TOKEN[action].read(0, fields, body)
    except RequestError as error:
        raise DecodeError(str(error), "bad_request") from None
    return AboutToken(cast("OneTokenRequest", request), read_int(fields, "known", FENCE_MAX))


# -- answers ------------------------------------------------------------------------------------------------------


class _Refusal(Declared, array_like=True):
    code: str
    text: Annotated[str, Bounds(max_length=TEXT_MAX)]
    place: str | None

    def error(self) -> RequestError:
        error = _CODES.get(self.code, RequestError)(self.text)
        if isinstance(error, UngrantedError) and self.place is not None:
            return error.with_ticket(ticket_text(read_ticket(self.place)))
        return error


_BY_FIELD: Final[Mapping[str, type[Declared]]] = {
    "error": _Refusal,
    "elsewhere": AskElsewhere,
    "map": TokenMap,
    "watched": WatchedTokens,
    "kept": SessionKept,
    "granted": TokenGranted,
    "done": TokenDone,
    "opened": SessionOpened,
    "closed": SessionClosed,
    "item": TokenItem,
    "listed": TokensListed,
    "changed": TokensChanged,
    "servers": TokenServersShown,
}
"""By which field an answer is known. What is a list is the value of this field; what is a map has it, and others."""
_FIELDS: Final = {kind: name for name, kind in _BY_FIELD.items()}
_ANSWERS: Final = {name: BodyReader[TokenResult | _Refusal](kind, name) for name, kind in _BY_FIELD.items()}
_PARTS: Final = BodyReader[Mapping[str, Raw]](
    Annotated[Mapping[str, Raw], Bounds(max_length=ANSWER_FIELDS_MAX)], "answer"
)
_KNOWN: Final = BodyReader[int](FenceNumber, "known")


def encode_answer(result: TokenResult, changed: int) -> bytes:
    """The body of an answer; `changed` is the newest change of servers that the answering one knows of."""
    if isinstance(result, RequestError):
        ticket = result.ticket if isinstance(result, UngrantedError) else None
        return pack({"known": changed, "error": _Refusal(result.code, str(result)[:TEXT_MAX], ticket)})
    name = _FIELDS[type(result)]
    return pack({"known": changed, **(fields_of(result) if result.is_map() else {name: result})})


def decode_answer(body: bytes) -> tuple[TokenResult, int]:
    """What a node answers, and the newest change of servers that it knows of.

    Raises:
        DecodeError: the bytes are no answer.
    """
    parts = _PARTS.read(body)
    name = next((name for name in _BY_FIELD if name in parts), None)
    if name is None or "known" not in parts:
        raise DecodeError("this is no answer about tokens", "bad_answer")
    found = _ANSWERS[name].read(body if _BY_FIELD[name].is_map() else parts[name])
    return found.error() if isinstance(found, _Refusal) else found, _KNOWN.read(parts["known"])
