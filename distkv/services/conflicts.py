"""Conflicts: which changes lost without the winner having known them, and what somebody decides about one.

Knows: what the answers hold, how a long one is cut into pages, and how history tells which losers were closed.  Does
not know how a decision is written (core).

Invariant: what is looked at is what is contested, whatever the size of the tree; a page holds whole paths. What is
decided here closes the loser everywhere, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.core.client_writes import LocalDecision, WriteDone
from distkv.core.conditions import refuse_to_decide_for_the_system
from distkv.engine.driver import Driver
from distkv.engine.settler import Settler
from distkv.errors import ChainMismatchError, NotFoundError
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, Link, contains, new_event, tick_text
from distkv.model.path import Path
from distkv.model.sameness import says_same
from distkv.services import kv
from distkv.services.core_replies import expected
from distkv.services.history import read_event, settler_of
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from distkv.wire.events import shown_fence
from distkv.wire.hidden import is_hidden
from distkv.wire.replies import encode_items, encode_reply, encode_result
from distkv.wire.room import EVENT_BYTES, LINK_BYTES
from distkv.wire.value_requests import SetValue

PAGE_ITEMS: Final = 1000
PAGE_BYTES: Final = 256 << 10
"""A page ends with the path that takes it so far."""
PAGE_ENTRIES: Final = 5000
"""It also ends when so many paths were looked at: a path may have losers that nobody is told of."""
CLOSED_ROWS: Final = 2000
"""So many of the last changes of a path are looked at for losers that were closed."""
CLOSED_BYTES: Final = 8 << 20
"""When they have so much, no more of them are shown."""
ROWS_AT_ONCE: Final = 200


def get_conflicts(driver: Driver, request: GetConflicts) -> bytes:
    """A page of the open losers, by path and the highest first; it may leave when `driver.position` is durable. What a
    path held that was lost, its losers included, is not among them, and the page says so."""
    lost = driver.replica.store.losses.lack_below(request.path)
    items: list[bytes] = []
    size, last, count_max = 0, None, min(PAGE_ITEMS, request.limit or PAGE_ITEMS)
    for step, entry in enumerate(driver.replica.tree.conflicted_below(request.path, request.after)):
        if len(items) >= count_max or size >= PAGE_BYTES or step >= PAGE_ENTRIES:
            return encode_items(request.seq, items, last, lost)
        last = entry.head.path
        if not last.is_reserved or (request.path.is_reserved and not is_hidden(last)):  # as where a tree is read
            losers, head = entry.conflicts(), entry.head
            winner = {"winner": _link(head.link), "winner_time": head.time}
            new = [_item(loser, winner, None if at else head) for at, loser in enumerate(losers)]
            items += new
            size += sum(map(len, new))
    return encode_items(request.seq, items, None, lost)


def decide(driver: Driver, request: Restore | Dismiss) -> bytes:
    """Close an open loser by a write; the reply may leave when `driver.position` is durable.

    Raises:
        RequestError: there is no such open loser at or below the path, a condition does not hold, the node is not
            ready, or the disk is full; nothing changed.
    """
    tree = driver.replica.tree
    loser = tree.event(request.loser)
    entry = None if loser is None else tree.get(loser.path)
    if loser is not None and entry is not None:
        refuse_to_decide_for_the_system(loser)
        _check_below(loser, request.path)
        kept = loser if isinstance(request, Restore) else entry.head
        driver.check_room(_size(kept, 2 + len(entry.losers)))
    reply = expected(driver.step(LocalDecision(request)), WriteDone)
    return encode_reply(request.seq, kv.done(reply, request.nchain))


# -- what was closed ----------------------------------------------------------------------------------------------


async def get_closed(driver: Driver, request: GetConflicts) -> bytes:
    """The losers of one path that are open no more, as far as history knows, the one that lost last first.

    Raises:
        RequestError: the node does not serve clients yet, or keeps no history.
    """
    settler = settler_of(driver)
    events: list[Event] = []
    before = None
    while len(events) < CLOSED_ROWS:
        rows = await settler.history(request.path, ROWS_AT_ONCE, before)
        events += [_without_value(read_event(row)) for row in rows]
        if len(rows) < ROWS_AT_ONCE:
            break
        before = rows[-1].lsn
    items: list[bytes] = []
    size = 0
    for link, loss in _closed(events):
        if len(items) == request.limit or size >= CLOSED_BYTES:
            break
        row = None if driver.replica.tree.event(link) is not None else await settler.change(link)
        if row is not None and await _was_listed(settler, loser := read_event(row), loss.heads):
            by = {} if loss.closed_by is None else {"closed_by": _link(loss.closed_by)}
            items.append(_item(loser, by))
            size += len(items[-1])
    return encode_items(request.seq, items, None, settler.lost_past(request.path))


async def restore_closed(driver: Driver, request: Restore) -> bytes:
    """Write again what history knows of a change, whether it was a loser or not; the reply may leave when
    `driver.position` is durable. It is a write like any other, but one of an open loser, which is as by `decide`.

    Raises:
        RequestError: history does not know the change, it is what its path holds, or as for `decide`.
    """
    row = await settler_of(driver).change(request.loser)
    if row is None or driver.replica.tree.event(request.loser) is not None:
        if row is None and driver.replica.tree.event(request.loser) is None:
            raise NotFoundError(f"{tick_text(*request.loser)} is not in the history of {driver.replica.name}")
        return decide(driver, request)
    event = read_event(row)
    refuse_to_decide_for_the_system(event)
    _check_below(event, request.path)
    entry = driver.replica.tree.get(event.path)
    if request.head is not None and (entry is None or entry.head.link != request.head):
        now = "never written" if entry is None else f"at {tick_text(*entry.head.link)}"
        raise ChainMismatchError(f"{event.path} is {now}, the condition says {tick_text(*request.head)}")
    value = event.value if event.kind is Kind.SET else None
    refence = entry is not None and entry.head.fence.holds  # people decide above tokens
    written = kv.write(driver, SetValue(request.seq, event.path, value, refence=refence), _size(event, 1))
    return encode_reply(request.seq, kv.done(written, request.nchain))


# -- inside -------------------------------------------------------------------------------------------------------


def _item(loser: Event, more: Mapping[str, object], winner: Event | None = None) -> bytes:
    """`winner` is that of the first of a path: its value may be large."""
    fields: dict[str, object] = {
        "id": tick_text(*loser.link), "path": loser.path.names, **_link(loser.link), "tock": loser.tock,
        "time": loser.time, **shown_fence(loser.fence), **more,
    }  # fmt: skip
    raw = {"value": loser.value} if loser.kind is Kind.SET else {}
    if winner is not None and winner.kind is Kind.SET:
        raw["winner_value"] = winner.value
    return encode_result(fields, raw)


def _link(link: Link) -> dict[str, object]:
    return {"node": link[0], "tick": link[1]}


def _check_below(event: Event, path: Path) -> None:
    if event.path.key[: len(path)] != path.key:
        raise NotFoundError(f"{tick_text(*event.link)} is a change of {event.path}, which is not at or below {path}")


def _size(event: Event, links: int) -> int:
    return EVENT_BYTES + LINK_BYTES * (len(event.chain) + links) + len(str(event.path).encode()) + len(event.value)


def _without_value(event: Event) -> Event:
    """Enough of it to see who knew whom."""
    rest = event.chain, event.tock, event.time, event.truncated
    return new_event(event.path, event.kind, b"", *rest, fence=event.fence)


@attrs.define
class _Loss:
    """What became of a loser."""

    heads: list[Link] = attrs.field(factory=list)
    """What won while it was open, the first one first."""
    closed_by: Link | None = None


def _closed(events: list[Event]) -> list[tuple[Link, _Loss]]:
    """Which of the changes of a path, the latest first, were open losers, and which change closed each; None: it is
    open, or none that came here. The one that was opened last comes first.

    Their values are not here. So those are among them that always had the winner's value (OPEN-4).
    """
    entry: Entry | None = None
    opened: dict[Link, _Loss] = {}
    for event in reversed(events):
        if entry is None:
            entry = Entry(event)
            continue
        gone = entry.settle(event, event.older)
        for loser in gone:
            # What only found no room any more (OPEN-3) was not closed by the change that took it.
            if loser.link in opened and contains(event, loser):
                opened[loser.link].closed_by = event.link
        for loser in entry.losers:
            loss = opened.setdefault(loser.link, _Loss())
            loss.closed_by = None
            if entry.head.link not in loss.heads:
                loss.heads.append(entry.head.link)
    return list(opened.items())[::-1]


async def _was_listed(settler: Settler, loser: Event, heads: list[Link]) -> bool:
    """Whether one of these winners said something else, so that people were told of a conflict."""
    for head in heads:
        row = await settler.change(head)
        if row is None or not says_same(loser, read_event(row)):
            return True
    return False
