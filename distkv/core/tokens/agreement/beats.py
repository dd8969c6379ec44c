"""What a leader hears of the other servers.

Knows: the beats of one term.  Does not know what is proposed.

Invariant: of each server the newest beat counts, in whatever order they come. A beat by which a server says that it
forgot what it serves, or that is of another life than the state has, is no sign that what it was is alive.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import OwnTime, ServerBeat, StateId, TokenServer


@attrs.frozen(slots=True)
class WholeSent:
    """A whole state is on its way to a server; it may be large."""

    number: int
    """Of the round."""
    ms: int


@attrs.define(slots=True)
class ServerSeen:
    """One server."""

    life: int
    first_ms: int
    """When this life was first heard, on the leader's clock."""
    newest: ServerBeat
    heard_ms: int
    """When the last beat came that counts."""
    acked: int = 0
    """The highest round that it acknowledged."""
    counting: OwnTime | None = None
    """The own time of the newest beat that counts: rounds name it."""
    whole: WholeSent | None = None
    """The last whole state that went there."""

    @property
    def accepted(self) -> StateId:
        """What it has on its disk."""
        return self.newest.accepted

    def wish(self, server: TokenServer) -> ServerStanding | None:
        """What it wants in the standing that it has: a wish of an earlier one may come late."""
        return self.newest.wanted if self.newest.since == server.since else None

    def has_whole_to_come(self, since_ms: int) -> bool:
        """Whether a whole state went there since then, and it has not acknowledged that round, nor a later one."""
        return self.whole is not None and self.newest.number < self.whole.number and self.whole.ms > since_ms


class Beats:
    """All that were heard since the election."""

    def __init__(self, elected_ms: int) -> None:
        self.seen: Final = dict[NodeName, ServerSeen]()
        self.elected_ms: Final = elected_ms

    def take(self, name: NodeName, life: int, beat: ServerBeat, server: TokenServer | None, now_ms: int) -> None:
        """A beat to this leader in its term; `server` is what the sender is in the newest state, proposed or not."""
        seen = self.seen.get(name)
        if seen is None or (seen.life != life and beat.number >= seen.newest.number):
            seen = self.seen[name] = ServerSeen(life, now_ms, beat, now_ms)
        elif seen.life != life or _is_older(beat, seen.newest):
            if seen.life == life:
                seen.acked = max(seen.acked, beat.number)
            return
        seen.newest, seen.acked = beat, max(seen.acked, beat.number)
        has_forgotten = server is not None and server.standing is ServerStanding.READY
        has_forgotten = has_forgotten and beat.wanted is ServerStanding.BOOTING
        if not has_forgotten:
            seen.heard_ms, seen.counting = now_ms, beat.sent

    def lives(self, since_ms: int) -> dict[NodeName, int]:
        """Of all that were heard since then."""
        return {name: seen.life for name, seen in self.seen.items() if seen.heard_ms > since_ms}

    def alive_ms(self, name: NodeName, server: TokenServer) -> int:
        """When the server that the state has was heard last, or may have been: a new leader counts from its
        election."""
        seen = self.seen.get(name)
        if seen is None:
            return self.elected_ms
        return max(self.elected_ms, seen.heard_ms if seen.life == server.life else seen.first_ms)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for name, seen in self.seen.items():
            must(self.elected_ms <= seen.first_ms <= seen.heard_ms, f"{name} was heard after the election")
            must(seen.acked >= seen.newest.number, f"the newest beat of {name} acknowledges no later round than counts")


def _is_older(beat: ServerBeat, newest: ServerBeat) -> bool:
    """Whether it was sent before the newest one. Two starts of a server have no common clock; rounds count for both."""
    if beat.sent.start == newest.sent.start:
        return beat.sent.ms < newest.sent.ms
    return beat.number < newest.number
