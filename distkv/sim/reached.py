"""Which rules of the protocol a run came by, so that a rule that no run reaches is seen.

Knows: by what each rule shows itself from outside: a note, a record, a message, an answer.  Does not know
whether the rule was followed: other observers do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from distkv.core.client_writes import LocalDecision, Retired, RetireNode, WriteDone
from distkv.core.election import has_data
from distkv.core.ready import (
    Ask,
    AskEvents,
    AskMaps,
    AskPages,
    AskSnapshot,
    FollowTold,
    HeardMessage,
    Input,
    JoinerAsked,
    PathChange,
    PeerAnswered,
    PeerOffered,
    Ready,
    Wake,
)
from distkv.core.replica import Replica
from distkv.model.event import Event, Kind, is_above, order
from distkv.model.state import State
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.decisions import Restore
from distkv.wire.message import (
    CeilingRecord,
    EventRecord,
    Info,
    KnownRecord,
    LifeRecord,
    LostRecord,
    Message,
    Ping,
    PullEnd,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    StaleRecord,
    Update,
)

SIGNS: Final[dict[str, str]] = {
    "a write replaces another writer's": "CHAIN-3",
    "a chain is cut": "CHAIN-3",
    "an event arrives that does not win": "APPLY-1",
    "an open loser": "OPEN-1",
    "an open loser is closed": "OPEN-1",
    "a loser is restored": "OPEN-6",
    "a loser is dismissed": "OPEN-6",
    "a decision begins a life": "OPEN-7",
    "a deletion": "VALUE-3",
    "an expiry": "TTL-3",
    "an expiry by another node than the writer": "TTL-4",
    "a deletion is purged": "PURGE-1",
    "ticks known as superseded": "PULL-2",
    "ticks that a peer lacks": "PULL-2",
    "a tick given up as lost": "LOST-1",
    "a new tock ceiling": "TOCK-2",
    "a life begins": "TICK-3",
    "a download begins": "START-14",
    "a ping": "PING-1",
    "an initial ping": "START-10",
    "an answer to an initial ping": "START-12",
    "an info with a reason": "REC-7",
    "an announcement": "UPD-1",
    "an exchange is asked for": "XCHG-1",
    "an exchange is answered": "XCHG-1",
    "a pull": "GAP-1",
    "a download is asked for": "START-13",
    "a joiner is sponsored": "REG-2",
    "a node is retired": "RETIRE-2",
    "ready": "START-7",
    "ready without a transport": "START-9",
    "an update reaches a node without data": "UPD-2",
    "dropped_no_space": "UPD-3",
    "outbox_full": "UPD-1",
    "purged": "PURGE-1",
    "expired": "TTL-3",
    "gossip_lost": "GAP-1",
    "new_life": "LIFE-2",
    "rolled_back": "LIFE-1",
    "own_missing": "LIFE-11",
    "later_life": "LIFE-11",
    "stood_in": "NAME-5",
    "late_join": "NAME-11",
    "an old disk is told from the others": "LIFE-11",
    "stale": "LIFE-10",
    "damaged": "LIFE-12",
    "retired": "LIFE-7",
    "unwitnessed": "LIFE-4",
    "name_claimed": "NAME-1",
    "name_twice": "NAME-1",
    "split_healed": "PING-10",
    "split_told": "REC-6",
    "split_took_over": "REC-6",
    "digest_differs": "REC-5",
    "a look at pages": "SYNC-2",
    "resynced": "SYNC-3",
    "an event is taken whatever the ledger says": "SYNC-4",
    "unregistered": "REG-6",
    "foreign_network": "NET-2",
    "two_contents": "ORDER-4",
    "tock_jump": "TOCK-3",
    "tick_jump": "INFO-2",
    "an event comes by a link": "LINK-1",
    "a node has its writer through another one": "LINK-2",
    "link_lost": "LINK-3",
    "follow_overtaken": "LINK-1",
    "nobody needs updates by gossip": "LINK-7",
    "peer_failed": "XCHG-3",
    "peer_empty": "XCHG-4",
    "same_address": "NAME-2",
    "a node gets a parent": "TREE-2",
    "a parent is lost": "TREE-4",
    "a frame comes by the tree": "TREE-10",
    "an edge overruns": "TREE-11",
    "watch_missed": "watch",
    "watch_resync": "watch",
    "watch_went_on": "watch",
}
"""What shows that a rule was reached, and its label in docs/protocol; of watches docs/client-protocol tells. Names
without a blank are notes, as they are."""

NOT_LEGAL: Final[dict[str, str]] = {
    "two_contents": "needs a tick that is used twice, which no fault here brings about",
}
"""What no run shows unless something is wrong, and why."""

_BY_RECORD: Final[dict[type[Record], str]] = {
    KnownRecord: "ticks known as superseded",
    LostRecord: "a tick given up as lost",
    CeilingRecord: "a new tock ceiling",
    LifeRecord: "a life begins",
    PurgeRecord: "a deletion is purged",
    ResetRecord: "a download begins",
    StaleRecord: "an old disk is told from the others",
    ReleaseRecord: "an event is taken whatever the ledger says",
}
_BY_ASK: Final = {
    AskMaps: "an exchange is asked for",
    AskEvents: "a pull",
    AskSnapshot: "a download is asked for",
    AskPages: "a look at pages",
}


_OF_THE_TREE: Final = {
    "parents": "a node gets a parent",
    "parents_lost": "a parent is lost",
    "frames_in": "a frame comes by the tree",
    "edge_overrun": "an edge overruns",
}


class Reached(Observer):
    """Counts the signs."""

    def __init__(self) -> None:
        self.signs: Counter[str] = Counter()

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        signs = self.signs
        for note in ready.notes:
            if note.id == "ready" and note.fields["state"] == State.CUT_OFF.value:
                signs["ready without a transport"] += 1
        for record in ready.records:
            sign = _BY_RECORD.get(type(record))
            if sign is not None:
                signs[sign] += 1
            elif isinstance(record, EventRecord):
                self._event(process, record)
        for change in ready.changes:
            if not change.won:
                signs["an event arrives that does not win"] += 1
                entry = process.replica.tree.get(change.event.path)
                if entry is not None and change.event in entry.conflicts():
                    signs["an open loser"] += 1
            if _losers_closed(process, change):
                signs["an open loser is closed"] += 1
            if change.event.kind is Kind.EXPIRE and isinstance(what, Wake) and change.closed:  # it was made here
                ended = _highest(change.closed)
                is_writer = ended.node == change.event.node
                signs["an expiry" if is_writer else "an expiry by another node than the writer"] += 1
        if isinstance(what, JoinerAsked):
            signs["a joiner is sponsored"] += 1
        elif isinstance(what, PeerOffered):
            signs["an exchange is answered"] += 1
        elif isinstance(what, LocalDecision) and isinstance(ready.reply, WriteDone):
            signs["a loser is restored" if isinstance(what.request, Restore) else "a loser is dismissed"] += 1
            signs["a decision begins a life"] += any(isinstance(record, LifeRecord) for record in ready.records)
        elif isinstance(what, RetireNode) and isinstance(ready.reply, Retired):
            signs["a node is retired"] += 1

    def left(self, process: Process, message: Message | Ask) -> None:  # noqa: ARG002
        if isinstance(message, Ask):
            self.signs[_BY_ASK[type(message.what)]] += 1
        elif isinstance(message, Ping):
            self.signs["a ping" if has_data(message.chain) else "an initial ping"] += 1
        elif isinstance(message, Info):
            self.signs["an info with a reason"] += message.reason is not None
            self.signs["an answer to an initial ping"] += message.ping is not None
            is_announcement = message.ticks is not None and [*message.ticks] == [message.header.node]
            self.signs["an announcement"] += is_announcement

    def delivered(self, host: Host, what: Input) -> None:
        if isinstance(what, HeardMessage) and isinstance(what.message, Update) and host.live.life is None:
            self.signs["an update reaches a node without data"] += 1
        if isinstance(what, FollowTold) and what.events:
            self.signs["an event comes by a link"] += 1
            self.signs["a node has its writer through another one"] += (
                host.live.followed(what.follow) != what.events[0].node
            )
            self.signs["nobody needs updates by gossip"] += host.live.following.reaches_all
        if isinstance(what, PeerAnswered) and isinstance(what.answer, PullEnd) and what.answer.lacks:
            self.signs["ticks that a peer lacks"] += 1

    def settled(self, fleet: Observed) -> None:
        self.signs.update(fleet.notes)
        for host in fleet.ours():
            self._tree(host.live)

    def ended(self, process: Process) -> None:
        self._tree(process.replica)

    def _tree(self, replica: Replica) -> None:
        counts = {} if replica.server_tree is None else replica.server_tree.statistics()
        self.signs.update({sign: counts[name] for name, sign in _OF_THE_TREE.items() if counts.get(name)})

    def _event(self, process: Process, record: EventRecord) -> None:
        event = record.event
        if event.kind is Kind.DELETE:
            self.signs["a deletion"] += 1
        if event.truncated:
            self.signs["a chain is cut"] += 1
        if event.older and event.node == process.host.name:
            self.signs["a write replaces another writer's"] += 1


def _highest(events: Sequence[Event]) -> Event:
    return events[0] if len(events) == 1 else max(events, key=order)


def _losers_closed(process: Process, change: PathChange) -> int:
    """How many of what a change closed were open losers: the former winner, which is above all of these, was none."""
    if not change.closed or not change.won:
        return len(change.closed)
    entry, highest = process.replica.tree.get(change.event.path), _highest(change.closed)
    has_former = entry is None or all(is_above(highest, loser) for loser in entry.losers)
    return len(change.closed) - has_former
