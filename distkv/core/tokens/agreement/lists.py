"""From one list of token servers to another: what the next version has of that (docs/protocol, QUORUM-14 to QUORUM-18).

Knows: the steps, and what must be true before each.  Does not know what was heard, nor who proposes.

Invariant: as in Raft's joint consensus, no version has another list than the one before, but by one that has both: so a
majority that knows of the change is in each majority that could decide something else. Whoever joins has the state, and
counts, before it is in a list; whoever leaves serves nothing when it is in none any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from distkv.core.tokens.state import TokenState, has_majority
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import TokenServer


@attrs.frozen(slots=True)
class ListStep:
    """What the next version has."""

    list: tuple[NodeName, ...]
    next: tuple[NodeName, ...]
    servers: Mapping[NodeName, TokenServer]
    """Those who begin to join have no version yet since which they do."""


def next_step(
    state: TokenState,
    wanted: tuple[NodeName, ...] | None,
    lives: Mapping[NodeName, int],
    counting: Collection[NodeName],
) -> ListStep | None:
    """The next step from a state in effect to a list that is wanted (None: none is); None: there is none yet.

    Args:
        state: the state in effect.
        wanted: the list, by name.
        lives: of the servers that are heard.
        counting: the servers that are heard, have this state, and whose vote counts.
    """
    if state.next:
        return _second_step(state, wanted)
    if wanted is None or wanted == state.list:
        stays = {name: state.servers[name] for name in state.list}
        return None if len(stays) == len(state.servers) else ListStep(state.list, (), stays)
    joining = {name: lives.get(name, 0) for name in wanted if name not in state.list}
    anew = {
        name: TokenServer(ServerStanding.DOWN, life, 0) for name, life in joining.items()
        if life and (name not in state.servers or state.servers[name].life != life)
    }  # fmt: skip
    stays = {name: one for name, one in state.servers.items() if name in state.list or name in joining}
    if anew or len(stays) < len(state.servers):
        return ListStep(state.list, (), {**stays, **anew})
    is_majority = has_majority([wanted], counting)  # else nothing could come into effect with both lists
    if is_majority and all(name in state.servers and name in counting for name in joining):
        return ListStep(state.list, wanted, state.servers)
    return None


def _second_step(state: TokenState, wanted: tuple[NodeName, ...] | None) -> ListStep | None:
    """Both lists are in force: on to the later one, or back."""
    if wanted == state.list:
        return ListStep(state.next, state.list, state.servers)
    if not _have_left(state) or _joiners(state, ServerStanding.DOWN, ServerStanding.LEAVING):
        return None
    return ListStep(state.next, (), {name: state.servers[name] for name in state.next})


def leavers(state: TokenState) -> list[NodeName]:
    """Who is in the list in force, and not in the next one."""
    return [name for name in state.list if state.next and name not in state.next]


def are_joined(state: TokenState) -> bool:
    """Whether all who are new in the next list serve: only then those who leave begin to stop."""
    return bool(state.next) and not _joiners(state, *(one for one in ServerStanding if one is not ServerStanding.READY))


def is_leaving(state: TokenState, name: NodeName) -> bool:
    """Whether a server is to stop serving now."""
    return name in leavers(state) and are_joined(state)


def why_waiting(state: TokenState, wanted: tuple[NodeName, ...], lives: Mapping[NodeName, int]) -> str:
    """What a change of the list waits for, in words; empty: it is done."""
    if state.next:
        if are_joined(state) and not _have_left(state):
            return f"{', '.join(leavers(state))} to hand over"
        slow = [n for n in state.next if n not in state.list and state.servers[n].standing is not ServerStanding.READY]
        return f"{', '.join(slow)} to be ready" if slow else "a majority of the servers"
    if wanted == state.list:
        return ""
    silent = [name for name in wanted if name not in state.list and name not in lives]
    return f"{', '.join(silent)} to answer" if silent else "a majority of the servers"


def _have_left(state: TokenState) -> bool:
    return all(state.servers[name].standing is ServerStanding.DOWN for name in leavers(state))


def _joiners(state: TokenState, *standings: ServerStanding) -> list[NodeName]:
    """Who is new in the next list, and stands so."""
    return [n for n in state.next if n not in state.list and state.servers[n].standing in standings]
