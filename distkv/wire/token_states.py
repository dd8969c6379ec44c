"""What token servers tell each other to agree on their common state, and what their disks keep.

Knows: the form of these messages and of the slots.  Does not know who leads, nor what a state is good for.

Invariant: as in `declared`; a list names at most `SERVERS_MAX` servers, all of them in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

from distkv.errors import DecodeError
from distkv.model.standing import ServerStanding
from distkv.wire.declared import BodyReader, Bounds, Declared, Hash, Node, Raw, field
from distkv.wire.token_fields import SERVERS_MAX

JOINT_MAX: Final = 3 * SERVERS_MAX
"""So many servers may have to do with a state: those of two lists, and some that were to join."""
NUMBER_MAX: Final = 2**62 - 1
"""The highest term, version, generation, life, round and time."""
CHANGE_SESSIONS_MAX: Final = 1 << 16
"""A change opens and ends no more sessions than these."""
SESSION_CHARS_MAX: Final = 96
TTL_MS_MAX: Final = 2**40

Number: TypeAlias = Annotated[int, Bounds(ge=0, le=NUMBER_MAX)]
Count: TypeAlias = Annotated[int, Bounds(ge=1, le=NUMBER_MAX)]
Ttl: TypeAlias = Annotated[int, Bounds(ge=1, le=TTL_MS_MAX)]
SessionName: TypeAlias = Annotated[str, Bounds(pattern=rf"\A[ -~]{{1,{SESSION_CHARS_MAX}}}\Z")]
Lives: TypeAlias = Annotated[Mapping[Node, Number], Bounds(max_length=SERVERS_MAX)]
ServerNames: TypeAlias = Annotated[tuple[Node, ...], Bounds(max_length=SERVERS_MAX)]


class StateId(NamedTuple):
    """Which proposal of a state: the later one is the greater."""

    term: Number
    version: Number


NO_STATE: Final = StateId(0, 0)


class OwnTime(NamedTuple):
    """A moment on the clock of the node that said it; it means nothing to others, nor after a restart of that node."""

    start: Number
    """Which start of the node it is of: a number by chance."""
    ms: Number


class TokenServer(Declared, array_like=True):
    """One of the named servers, as a state has it."""

    standing: ServerStanding
    life: Number
    """The life of its directory. Under another one it has lost its disk, and is not asked before that is admitted."""
    since: Number
    """The version in which it came to its standing."""


class StateHead(Declared, array_like=True):
    """All of a state but its sessions: the slot `state`."""

    term: Number
    version: Number
    leader: Node
    servers: Annotated[Mapping[Node, TokenServer], Bounds(max_length=JOINT_MAX)]
    changed: Number
    list: ServerNames = ()
    """The list in force, by name; empty: all servers."""
    next: ServerNames = ()
    """The list that is to take its place, by name; empty: there is none."""

    def __post_init__(self) -> None:
        for names in (self.list, self.next):
            if names != tuple(sorted({*names})) or not self.servers.keys() >= {*names}:
                raise ValueError("a list must have servers of the state, each once, by name")
        if self.next and not self.list:
            raise ValueError("there must be a list in force before another one can take its place")

    @property
    def id(self) -> StateId:
        return StateId(self.term, self.version)


class StateChange(Declared, array_like=True):
    """How to make a state from the one before it."""

    head: StateHead
    base: StateId | None
    """The state to which it applies; None: to nothing, `opened` are all sessions."""
    opened: Annotated[Mapping[SessionName, Ttl], Bounds(max_length=CHANGE_SESSIONS_MAX)]
    """The ttl of each new session, in milliseconds."""
    ended: Annotated[tuple[SessionName, ...], Bounds(max_length=CHANGE_SESSIONS_MAX)] = ()


class Founding(Declared, array_like=True):
    """With which directories the token servers began, or went on with another list: the slot `founding`, and an entry
    of the store too."""

    servers: Lives
    """All of the list, with their lives; 0: it was not known."""
    version: Count
    """That of the first state, or of the one by which the list came into force."""
    generation: Count
    """1, and one more with each `token reset --force`."""


class StateVote(Declared, array_like=True):
    """What a voter must never forget: the slot `vote`."""

    term: Number
    candidate: Node | None


class _StateSaid(Declared, tag_field="kind"):
    servers_hash: Hash = field(name="list")
    generation: Number = field(name="gen")


class TokenHello(_StateSaid, tag="hello"):
    """The sender has no founding, or one of a lower generation than it just heard of."""

    known: Number
    """The generation of the founding that it knows, if only of another list; 0: none, and it has no state."""


class FoundingTold(_StateSaid, tag="founding"):
    """The founding that the sender knows."""

    founding: Founding


class VoteAsked(_StateSaid, tag="vote?"):
    """The sender would lead. Generation 0: it would found; all must vote."""

    term: Count
    is_trial: bool = field(name="trial")
    """It only asks whether it would get the vote: nothing is promised."""
    accepted: StateId
    """The last state that it accepted."""
    lives: Lives
    """With which lives it would found; else empty."""


class VoteGiven(_StateSaid, tag="vote"):
    """The answer."""

    term: Count
    is_trial: bool = field(name="trial")
    is_given: bool = field(name="given")
    voted_term: Number = field(name="voted")
    """The highest term that the sender voted in, or follows."""


class LeaderRound(_StateSaid, tag="round"):
    """What the leader says to one server, a few times in each lease."""

    term: Count
    number: Count = field(name="round")
    """The rounds of a term count from 1."""
    acked: Number
    """The last round that a majority has acknowledged; 0: none."""
    effective: StateId | None = None
    """What was in effect when the round began; None: the leader does not know yet."""
    heard: OwnTime | None = None
    """The newest beat of this server that the leader had heard when the round began, and that counts."""
    change: StateChange | None = None
    """A proposal that this server has not accepted yet, or the state in effect that it does not have."""


class ServerBeat(_StateSaid, tag="beat"):
    """The answer to a round, and now and then more."""

    term: Count
    """The leader's; a higher one: the round is refused."""
    number: Number = field(name="round")
    """The round that is acknowledged; 0: none."""
    sent: OwnTime
    accepted: StateId
    """What is on its disk."""
    is_member: bool = field(name="member")
    """Whether it counts: its life was admitted, and it knows that."""
    wanted: ServerStanding
    """The standing that it wants; `down`: it wants nothing."""
    since: Number
    """`since` of itself in the newest state that it knows in effect: a wish is for that standing only."""


StateMessage: TypeAlias = TokenHello | FoundingTold | VoteAsked | VoteGiven | LeaderRound | ServerBeat

_MESSAGES: Final = BodyReader[StateMessage](StateMessage, "message")
decode_head: Final[Callable[[bytes], StateHead]] = BodyReader[StateHead](StateHead, "state").read
decode_founding: Final[Callable[[bytes], Founding]] = BodyReader[Founding](Founding, "founding").read
decode_vote: Final[Callable[[bytes], StateVote]] = BodyReader[StateVote](StateVote, "vote").read
decode_number: Final[Callable[[bytes], int]] = BodyReader[int](Number, "number").read
"""The slots `life`, `admitted` and `session/ID`."""


def read_state_message(data: bytes | Raw) -> StateMessage:
    """A message.

    Raises:
        DecodeError: it is none.
    """
    message = _MESSAGES.read(data)
    change = message.change if isinstance(message, LeaderRound) else None
    # Not in the class: to propose too much is no fault that ends a leader.
    if change is not None and len(change.opened) + len(change.ended) > CHANGE_SESSIONS_MAX:
        raise DecodeError(f"a change has more than {CHANGE_SESSIONS_MAX} sessions", "bad_change")
    return message
