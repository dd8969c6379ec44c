"""Which writes are refused: what a client may ask of a path before its write is made.

Knows: reserved paths, fences, the conditions `new`, `chain` and `prev`, and when an open loser can be decided about.
Does not know how a write is made.

Invariant: nothing is changed here; a refusal says what holds instead.
"""

from __future__ import annotations

from distkv.errors import (
    ChainMismatchError,
    ExistsError,
    FencedError,
    NotFoundError,
    RequestError,
    ValueMismatchError,
)
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, tick_text
from distkv.model.fence import FENCE_MAX, NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.sameness import same_value, says_same
from distkv.model.tree import Tree
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.value_requests import SetValue


def refuse_reserved(path: Path) -> None:
    """Clients do not write below a null first name.

    Raises:
        RequestError: the path is the system's own.
    """
    if path.is_reserved:
        raise RequestError(f"{path} belongs to the system (its first name is null) and cannot be written")


def refuse_to_decide_for_the_system(event: Event) -> None:
    """Nobody decides about a change of a reserved path: such paths are no conflicts of users.

    Raises:
        NotFoundError: it is one.
    """
    if event.path.is_reserved:
        raise NotFoundError(
            f"{tick_text(*event.link)} is no conflict to decide about: it is a change of a path that belongs to the"
            " system and settles itself; 'conflicts' lists what is open"
        )


def next_fence(request: SetValue, head: Event | None) -> Fence:
    """The fence that a write leaves; `head` is the winner of its path, deleted or not (docs/protocol, FENCE-2 to
    FENCE-4).

    Raises:
        FencedError: a token holds the path, and the write is not its latest holder's.
    """
    here = NO_FENCE if head is None else head.fence
    if request.refence:
        return _lifted(here, request.path)
    asked = request.fence
    if not here.holds:
        return here if asked is None else asked._replace(base=here.base)
    if asked is None:
        given = "the write has no fence"
    elif asked.token != here.token:
        given = f"the write has the fence {asked} of another token"
    elif asked[1:3] < here[1:3]:
        given = f"the write has the fence {asked} of an earlier holder"
    else:
        return asked._replace(base=here.base)
    raise FencedError(
        f"{request.path} was last written under the fence {here}, and {given}: acquire the token, or lift the fence"
    )


def decided_fence(request: Restore | Dismiss, head: Event) -> Fence:
    """The fence that a decision leaves: what won keeps its fence, and a loser that is restored lifts it.

    Raises:
        FencedError: as `next_fence`.
    """
    is_lifted = isinstance(request, Restore) and head.fence.holds
    return _lifted(head.fence, head.path) if is_lifted else head.fence


def has_condition(request: SetValue) -> bool:
    """Whether a write asks for something of what is there. The usual one does not, and making its path's text would
    cost more than all its checks."""
    return request.new or request.chain is not None or request.prev is not None


def check_conditions(request: SetValue, before: Event | None) -> None:
    """Whether the conditions of a write hold; `before` is the event that gives its path a value now, if any does.

    Raises:
        RequestError: one does not.
    """
    where = f"{request.path}"
    if request.new and before is not None:
        raise ExistsError(f"{where} exists already, written by {tick_text(*before.link)}")
    if request.chain is not None:
        link = request.chain[0] if request.chain else None
        if link != (before.link if before is not None else None):
            now = f"at {tick_text(*before.link)}" if before is not None else "not there"
            raise ChainMismatchError(f"{where} is {now}, the condition says {tick_text(*link) if link else 'absent'}")
    if request.prev is not None:
        if before is None:
            raise NotFoundError(f"{where} has no value to compare with")
        if not same_value(before.value, request.prev):
            raise ValueMismatchError(f"{where} has another value than the condition says; read it and decide again")


def check_decision(request: Restore | Dismiss, tree: Tree) -> tuple[Entry, Event]:
    """The open loser that is decided about, behind the entry of its path.

    Raises:
        RequestError: there is no such open loser, its path is reserved, or the path holds something else than the
            request says.
    """
    loser = tree.event(request.loser)
    entry = None if loser is None else tree.get(loser.path)
    text = tick_text(*request.loser)
    if loser is None or entry is None:
        known = tree.ledger.has(request.loser)
        raise NotFoundError(f"{text} is {'no open conflict any more' if known else 'not known here'}")
    refuse_to_decide_for_the_system(loser)
    if loser is entry.head:
        raise NotFoundError(f"{text} is what {loser.path} holds: there is nothing to decide")
    if says_same(loser, entry.head):
        did = f"deleted {loser.path}" if loser.kind is not Kind.SET else f"gave {loser.path} the value that it has"
        raise NotFoundError(f"{text} {did}, and so did what won: there is nothing to decide")
    if request.head is not None and request.head != entry.head.link:
        now, said = tick_text(*entry.head.link), tick_text(*request.head)
        raise ChainMismatchError(f"{loser.path} is at {now}, the condition says {said}")
    return entry, loser


# -- inside -------------------------------------------------------------------------------------------------------


def _lifted(fence: Fence, path: Path) -> Fence:
    """What is left when a fence is lifted: it is above all that were here, and any token may write above it."""
    if fence.base >= FENCE_MAX:
        raise FencedError(f"the fence of {path} cannot be lifted any more: use another path")
    return Fence(fence.base + 1, 0, 0, "")
