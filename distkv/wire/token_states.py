"""What token servers tell each other to agree on their common state, and what their disks keep; to bytes and back.

Knows: the form of these messages and of the slots.  Does not know who leads, nor what a state is good for.

Invariant: what is read is well-formed and bounded, whatever the fields: a list names at most `SERVERS_MAX` servers, and
a standing is one of three words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, assert_never

import attrs

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_flag, read_hash, read_int, read_list, read_map, read_node
from distkv.wire.token_fields import SERVERS_MAX, read_names

JOINT_MAX: Final = 3 * SERVERS_MAX
"""So many servers may have to do with a state: those of two lists, and some that were to join."""
NUMBER_MAX: Final = 2**62 - 1
"""The highest term, version, generation, life, round and time."""
CHANGE_SESSIONS_MAX: Final = 1 << 16
"""A change opens and ends no more sessions than these."""
SESSION_CHARS_MAX: Final = 96
TTL_MS_MAX: Final = 2**40
STANDINGS: Final = ("down", "booting", "ready", "leaving")


class StateId(NamedTuple):
    """Which proposal of a state: the later one is the greater."""

    term: int
    version: int


NO_STATE: Final = StateId(0, 0)


class OwnTime(NamedTuple):
    """A moment on the clock of the node that said it; it means nothing to others, nor after a restart of that node."""

    start: int
    """Which start of the node it is of: a number by chance."""
    ms: int


@attrs.frozen(slots=True)
class ServerLine:
    """One server, as a state has it."""

    standing: str
    """One of `STANDINGS`."""
    life: int
    since: int


@attrs.frozen(slots=True)
class StateHead:
    """All of a state but its sessions."""

    id: StateId
    leader: NodeName
    servers: Mapping[NodeName, ServerLine]
    changed: int
    list: tuple[NodeName, ...] = ()
    """The list in force; empty: all servers."""
    next: tuple[NodeName, ...] = ()
    """The list that is to take its place; empty: there is none."""


@attrs.frozen(slots=True)
class StateChange:
    """How to make a state from the one before it."""

    head: StateHead
    base: StateId | None
    """The state to which it applies; None: to nothing, `opened` are all sessions."""
    opened: Mapping[str, int]
    """The ttl of each new session, in milliseconds."""
    ended: tuple[str, ...] = ()


@attrs.frozen(slots=True)
class Founding:
    """With which directories the token servers began, or went on with another list. It is an entry of the store too."""

    servers: Mapping[NodeName, int]
    """All of the list, with their lives; 0: it was not known."""
    version: int
    """That of the first state, or of the one by which the list came into force."""
    generation: int
    """1, and one more with each `token reset --force`."""


@attrs.frozen(slots=True)
class StateVote:
    """What a voter must never forget."""

    term: int
    candidate: NodeName | None


@attrs.frozen(slots=True)
class TokenHello:
    """The sender has no founding, or one of a lower generation than it just heard of."""

    servers_hash: bytes
    generation: int
    known: int
    """The generation of the founding that it knows, if only of another list; 0: none, and it has no state."""


@attrs.frozen(slots=True)
class FoundingTold:
    """The founding that the sender knows."""

    servers_hash: bytes
    generation: int
    founding: Founding


@attrs.frozen(slots=True)
class VoteAsked:
    """The sender would lead."""

    servers_hash: bytes
    generation: int
    """0: it would found; all must vote."""
    term: int
    is_trial: bool
    """It only asks whether it would get the vote: nothing is promised."""
    accepted: StateId
    """The last state that it accepted."""
    lives: Mapping[NodeName, int]
    """With which lives it would found; else empty."""


@attrs.frozen(slots=True)
class VoteGiven:
    """The answer."""

    servers_hash: bytes
    generation: int
    term: int
    is_trial: bool
    is_given: bool
    voted_term: int
    """The highest term that the sender voted in, or follows."""


@attrs.frozen(slots=True)
class LeaderRound:
    """What the leader says to one server, a few times in each lease."""

    servers_hash: bytes
    generation: int
    term: int
    number: int
    """The rounds of a term count from 1."""
    acked: int
    """The last round that a majority has acknowledged; 0: none."""
    effective: StateId | None
    """What was in effect when the round began; None: the leader does not know yet."""
    heard: OwnTime | None
    """The newest beat of this server that the leader had heard when the round began, and that counts."""
    change: StateChange | None
    """A proposal that this server has not accepted yet, or the state in effect that it does not have."""


@attrs.frozen(slots=True)
class ServerBeat:
    """The answer to a round, and now and then more."""

    servers_hash: bytes
    generation: int
    term: int
    """The leader's; a higher one: the round is refused."""
    number: int
    """The round that is acknowledged; 0: none."""
    sent: OwnTime
    accepted: StateId
    """What is on its disk."""
    is_member: bool
    """Whether it counts: its life was admitted, and it knows that."""
    wanted: str
    """The standing that it wants; `down`: it wants nothing."""
    since: int
    """`since` of itself in the newest state that it knows in effect: a wish is for that standing only."""


StateMessage: TypeAlias = TokenHello | FoundingTold | VoteAsked | VoteGiven | LeaderRound | ServerBeat


# -- to bytes -----------------------------------------------------------------------------------------------------


def state_fields(message: StateMessage) -> dict[str, object]:
    """A message as fields of a map."""
    fields: dict[str, object] = {"list": message.servers_hash, "gen": message.generation}
    match message:
        case TokenHello(known=known):
            return fields | {"kind": "hello", "known": known}
        case FoundingTold(founding=founding):
            return fields | {"kind": "founding", "founding": _founding_list(founding)}
        case VoteAsked(term=term, is_trial=is_trial, accepted=accepted, lives=lives):
            return fields | {
                "kind": "vote?", "term": term, "trial": is_trial, "accepted": [*accepted], "lives": dict(lives),
            }
        case VoteGiven(term=term, is_trial=is_trial, is_given=is_given, voted_term=voted_term):
            return fields | {"kind": "vote", "term": term, "trial": is_trial, "given": is_given, "voted": voted_term}
        case LeaderRound():
            return fields | _round_fields(message)
        case ServerBeat():
            return fields | _beat_fields(message)
        case _:
            assert_never(message)


def _round_fields(message: LeaderRound) -> dict[str, object]:
    return {
        "kind": "round",
        "term": message.term,
        "round": message.number,
        "acked": message.acked,
        "effective": message.effective and [*message.effective],
        "heard": message.heard and [*message.heard],
        "change": message.change and _change_list(message.change),
    }


def _beat_fields(message: ServerBeat) -> dict[str, object]:
    return {
        "kind": "beat",
        "term": message.term,
        "round": message.number,
        "sent": [*message.sent],
        "accepted": [*message.accepted],
        "member": message.is_member,
        "wanted": message.wanted,
        "since": message.since,
    }


def _change_list(change: StateChange) -> list[object]:
    base = change.base and [*change.base]
    return [_head_list(change.head), base, dict(change.opened), [*change.ended]]


def _head_list(head: StateHead) -> list[object]:
    servers = {name: [line.standing, line.life, line.since] for name, line in head.servers.items()}
    lists = [[*head.list], [*head.next]] if head.list else []
    return [*head.id, head.leader, servers, head.changed, *lists]


def _founding_list(founding: Founding) -> list[object]:
    return [dict(founding.servers), founding.version, founding.generation]


def encode_head(head: StateHead) -> bytes:
    """The slot `state`."""
    return packing.pack(_head_list(head))


def encode_founding(founding: Founding) -> bytes:
    """The slot `founding`, and the value of the entry in the store."""
    return packing.pack(_founding_list(founding))


def encode_vote(vote: StateVote) -> bytes:
    """The slot `vote`."""
    return packing.pack([vote.term, vote.candidate])


def encode_number(number: int) -> bytes:
    """The slots `life`, `admitted` and `session/ID`."""
    return packing.pack(number)


# -- from bytes ---------------------------------------------------------------------------------------------------


def read_state_message(fields: Fields) -> StateMessage:
    """A message.

    Raises:
        DecodeError: it is none.
    """
    kind = fields.get("kind")
    read = _READERS.get(kind) if type(kind) is str else None
    if read is None:
        raise bad("kind", f"one of {', '.join(_READERS)}", kind)
    return read(fields, read_hash(fields.get("list"), "list"), read_int(fields, "gen", NUMBER_MAX))


def _read_hello(fields: Fields, servers_hash: bytes, generation: int) -> TokenHello:
    return TokenHello(servers_hash, generation, read_int(fields, "known", NUMBER_MAX))


def _read_founding_told(fields: Fields, servers_hash: bytes, generation: int) -> FoundingTold:
    return FoundingTold(servers_hash, generation, _read_founding(fields.get("founding")))


def _read_asked(fields: Fields, servers_hash: bytes, generation: int) -> VoteAsked:
    return VoteAsked(
        servers_hash,
        generation,
        read_int(fields, "term", NUMBER_MAX, 1),
        read_flag(fields, "trial"),
        _read_id(fields.get("accepted"), "accepted"),
        _read_lives(fields.get("lives"), "lives"),
    )


def _read_given(fields: Fields, servers_hash: bytes, generation: int) -> VoteGiven:
    return VoteGiven(
        servers_hash,
        generation,
        read_int(fields, "term", NUMBER_MAX, 1),
        read_flag(fields, "trial"),
        read_flag(fields, "given"),
        read_int(fields, "voted", NUMBER_MAX),
    )


def _read_round(fields: Fields, servers_hash: bytes, generation: int) -> LeaderRound:
    effective, heard, change = fields.get("effective"), fields.get("heard"), fields.get("change")
    return LeaderRound(
        servers_hash,
        generation,
        read_int(fields, "term", NUMBER_MAX, 1),
        read_int(fields, "round", NUMBER_MAX, 1),
        read_int(fields, "acked", NUMBER_MAX),
        None if effective is None else _read_id(effective, "effective"),
        None if heard is None else OwnTime(*_read_numbers(heard, "heard", 2)),
        None if change is None else _read_change(change),
    )


def _read_beat(fields: Fields, servers_hash: bytes, generation: int) -> ServerBeat:
    return ServerBeat(
        servers_hash,
        generation,
        read_int(fields, "term", NUMBER_MAX, 1),
        read_int(fields, "round", NUMBER_MAX),
        OwnTime(*_read_numbers(fields.get("sent"), "sent", 2)),
        _read_id(fields.get("accepted"), "accepted"),
        read_flag(fields, "member"),
        _read_standing(fields.get("wanted"), "wanted"),
        read_int(fields, "since", NUMBER_MAX),
    )


_READERS: Final[Mapping[str, Callable[[Fields, bytes, int], StateMessage]]] = {
    "hello": _read_hello,
    "founding": _read_founding_told,
    "vote?": _read_asked,
    "vote": _read_given,
    "round": _read_round,
    "beat": _read_beat,
}


def decode_head(data: bytes) -> StateHead:
    """The slot `state`.

    Raises:
        DecodeError: it is none.
    """
    return _read_head(packing.unpack_whole(data))


def decode_founding(data: bytes) -> Founding:
    """The slot `founding`, or the value of the entry in the store.

    Raises:
        DecodeError: it is none.
    """
    return _read_founding(packing.unpack_whole(data))


def decode_vote(data: bytes) -> StateVote:
    """The slot `vote`.

    Raises:
        DecodeError: it is none.
    """
    parts = _read_parts(packing.unpack_whole(data), "vote", 2)
    (term,) = _read_numbers(parts[:1], "vote", 1)
    return StateVote(term, None if parts[1] is None else read_node(parts[1], "vote"))


def decode_number(data: bytes, name: str) -> int:
    """The slots `life`, `admitted` and `session/ID`.

    Raises:
        DecodeError: it is no number.
    """
    (number,) = _read_numbers([packing.unpack_whole(data)], name, 1)
    return number


# -- parts --------------------------------------------------------------------------------------------------------


def _read_parts(data: object, name: str, count: int) -> list[object]:
    parts = read_list(data, name)
    if len(parts) != count:
        raise DecodeError(f"the field '{name}' must have {count} parts, not {len(parts)}", f"bad_{name}")
    return parts


def _read_numbers(data: object, name: str, count: int) -> list[int]:
    return [read_int({name: part}, name, NUMBER_MAX) for part in _read_parts(data, name, count)]


def _read_id(data: object, name: str) -> StateId:
    return StateId(*_read_numbers(data, name, 2))


def _read_standing(data: object, name: str) -> str:
    if type(data) is not str or data not in STANDINGS:
        raise bad(name, f"one of {', '.join(STANDINGS)}", data)
    return data


def _read_servers(data: object, name: str, limit: int = SERVERS_MAX) -> Fields:
    found = read_map(data, name)
    if len(found) > limit:
        raise DecodeError(f"the field '{name}' names {len(found)} servers; the limit is {limit}", f"bad_{name}")
    return found


def _read_names(data: object, servers: Mapping[NodeName, ServerLine]) -> tuple[NodeName, ...]:
    """A list: each name once, in their order, and in the state."""
    found = read_names(data, "state")
    if found != tuple(sorted(found)) or not servers.keys() >= set(found):
        raise bad("state", "of lists of its servers, by name", data)
    return found


def _read_lives(data: object, name: str) -> dict[NodeName, int]:
    found = _read_servers(data, name)
    return {read_node(node, name): read_int({name: life}, name, NUMBER_MAX) for node, life in found.items()}


def _read_founding(data: object) -> Founding:
    parts = _read_parts(data, "founding", 3)
    version, generation = _read_numbers(parts[1:], "founding", 2)
    if not version or not generation:
        raise bad("founding", "of a version and a generation from 1", min(version, generation))
    return Founding(_read_lives(parts[0], "founding"), version, generation)


def _read_head(data: object) -> StateHead:
    parts = read_list(data, "state")
    if len(parts) not in (5, 7):
        raise DecodeError(f"the field 'state' must have 5 or 7 parts, not {len(parts)}", "bad_state")
    term, version, changed = _read_numbers([*parts[:2], parts[4]], "state", 3)
    found = _read_servers(parts[3], "state", JOINT_MAX)
    servers = {read_node(name, "state"): _read_line(line) for name, line in found.items()}
    lists = [_read_names(part, servers) for part in parts[5:]] or [(), ()]
    if parts[5:] and not lists[0]:
        raise bad("state", "of a list that is in force", parts[5])
    return StateHead(StateId(term, version), read_node(parts[2], "state"), servers, changed, *lists)


def _read_line(data: object) -> ServerLine:
    parts = _read_parts(data, "state", 3)
    return ServerLine(_read_standing(parts[0], "state"), *_read_numbers(parts[1:], "state", 2))


def _read_change(data: object) -> StateChange:
    parts = _read_parts(data, "change", 4)
    opened, ended = read_map(parts[2], "change"), read_list(parts[3], "change")
    if len(opened) + len(ended) > CHANGE_SESSIONS_MAX:
        raise DecodeError(f"a change has {len(opened) + len(ended)} sessions; the limit is {CHANGE_SESSIONS_MAX}",
                          "bad_change")
    return StateChange(
        _read_head(parts[0]),
        None if parts[1] is None else _read_id(parts[1], "change"),
        {_read_session(one): read_int({"change": ttl}, "change", TTL_MS_MAX, 1) for one, ttl in opened.items()},
        tuple(map(_read_session, ended)),
    )


def _read_session(data: object) -> str:
    if type(data) is not str or not 0 < len(data) <= SESSION_CHARS_MAX or not data.isascii() or not data.isprintable():
        raise bad("change", f"of sessions of 1 to {SESSION_CHARS_MAX} characters", data)
    return data
