"""What a node believes about all nodes, and the order in which one belief replaces another.

Knows: records, states, who lives, and a hash over those who live.  Does not know who said it, nor what follows.

Invariant: the order is a join (docs/protocol, SWIM-20): whatever order words come in, and however often, the belief is
the same. The hash, the lists and the indices are those of the beliefs at any moment; none of them is made anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.inputs import Member, SwimRng
from distkv.wire.swim_records import Address, MemberState, NodeId, NodeRecord, Rumour, numeric_address

MEMBERS_MAX: Final = 4096
"""Of more nodes than this nothing is believed."""
ABSENT_KEPT_MS: Final = 24 * 3_600_000
"""So long a member that is gone is remembered; a registered one for ever."""
LINK_FRESH_MS: Final = 2500
"""So long after something came on a link its node is not suspected. An idle link says something each second."""


@attrs.frozen(slots=True)
class Belief:
    """What is believed about one node; the record may be of an earlier generation than the state."""

    generation: int
    state: MemberState
    record: NodeRecord


def joined(mine: Belief, theirs: Belief) -> Belief:
    """Of the states the one of the higher generation, at one generation the later state; of the records the one of the
    higher generation. Two records of one generation are of two nodes of one name: any order does, if it is one."""
    generation, state = max((mine.generation, mine.state), (theirs.generation, theirs.state))
    return Belief(generation, state, max(mine.record, theirs.record, key=_record_order))


def _record_order(record: NodeRecord) -> tuple[object, ...]:
    return record.generation, record.start, record.addresses, record.capacity, record.interval_ms, record.keys


def table_digest(node: str, generation: int) -> int:
    """The part of one live member in the hash of a table."""
    data = b"%d %s" % (generation, node.encode())
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


@attrs.define(slots=True, eq=False)
class MemberEntry:
    """A belief as the table keeps it."""

    record: NodeRecord
    generation: int
    state: MemberState
    since_ms: int
    address: Address
    link_ms: int | None = None
    """When something came on a link."""
    is_mapped: bool = False
    """Whether its last ping came from an address that its record does not have."""

    @property
    def id(self) -> NodeId:
        return NodeId(self.record.node, self.generation)

    @property
    def is_live(self) -> bool:
        """Suspects live until they are dead."""
        return self.state <= MemberState.SUSPECT

    @property
    def belief(self) -> Belief:
        return Belief(self.generation, self.state, self.record)

    def has_fresh_link(self, now_ms: int) -> bool:
        return self.link_ms is not None and now_ms - self.link_ms <= LINK_FRESH_MS

    def as_rumour(self, by: str = "") -> Rumour:
        """What this node says of it; its record is left out when it is of another generation."""
        record = self.record if self.record.generation == self.generation else None
        return Rumour(self.state, self.id, by if self.state is MemberState.SUSPECT else "", record)

    def as_member(self) -> Member:
        record = self.record
        return Member(
            record.node, self.address, self.state, self.generation, self.since_ms, record.start, record.addresses,
            record.interval_ms, record.keys,
        )  # fmt: skip


class MemberTable:
    """All beliefs of one node, that about itself included."""

    def __init__(self, own: NodeRecord, now_ms: int) -> None:
        self.entries = dict[str, MemberEntry]()
        self.hash = 0
        """Over the names and generations of those who live."""
        self.names = list[str]()
        """In order."""
        self.live = list[str]()
        """All that live but this node, in no order."""
        self.gone = dict[str, None]()
        """Those who are dead or left, the longest first."""
        self._own = own.node
        self._families = {":" in host for host, _ in map(_numeric, own.addresses)}
        self._places = dict[str, int]()
        self._starts = dict[bytes, str]()
        self._addresses = dict[Address, str]()
        """Where those are who live."""
        self.put(Belief(own.generation, MemberState.ALIVE, own), now_ms)

    @property
    def own(self) -> MemberEntry:
        return self.entries[self._own]

    @property
    def size(self) -> int:
        """How many live, this node included."""
        return len(self.live) + 1

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= MEMBERS_MAX

    def others(self) -> Iterator[MemberEntry]:
        return (self.entries[name] for name in self.live)

    def by_start(self, start: bytes) -> MemberEntry | None:
        """The member with this start, also one that is gone."""
        name = self._starts.get(start)
        return None if name is None else self.entries[name]

    def ping_came(self, entry: MemberEntry, origin: Address) -> None:
        """A member sent a ping, which came from there. An answer would say nothing: a mapping takes it back the way
        that the ping came."""
        entry.is_mapped = origin != entry.address and origin not in map(_numeric, entry.record.addresses)

    def mapped(self) -> list[str]:
        """The live ones whose pings come from elsewhere than their records say, by name."""
        return sorted(entry.record.node for entry in self.others() if entry.is_mapped)

    def living_at(self, address: Address) -> str | None:
        """Which live node is there."""
        return self._addresses.get(address)

    def after(self, position: int) -> list[MemberEntry]:
        """From a place in the order of names on."""
        return [self.entries[name] for name in self.names[position : position + 64]]

    def between(self, first: str, last: str | None) -> list[str]:
        """Names from the one to the other, both included; None: to the end."""
        begin = bisect_left(self.names, first)
        end = len(self.names) if last is None else bisect_left(self.names, last)
        return self.names[begin : end + 1]

    def put(self, belief: Belief, now_ms: int) -> MemberEntry:
        """Believe this; the caller has joined it with what was believed."""
        record, name = belief.record, belief.record.node
        entry = self.entries.get(name)
        if entry is None:
            entry = MemberEntry(record, belief.generation, belief.state, now_ms, self._address_of(record))
            self.entries[name] = entry
            insort(self.names, name)
        else:
            self._leave_lists(entry)
            entry.since_ms = entry.since_ms if entry.state is belief.state else now_ms
            entry.record, entry.generation, entry.state = record, belief.generation, belief.state
            entry.address = self._address_of(record)
        self._enter_lists(entry)
        return entry

    def forget(self, name: str) -> None:
        entry = self.entries.pop(name)
        self._leave_lists(entry)
        self.names.pop(bisect_left(self.names, name))

    def old_ones(self, now_ms: int) -> list[str]:
        """Those who are gone for too long."""
        return [name for name in self.gone if now_ms - self.entries[name].since_ms > ABSENT_KEPT_MS]

    def some_live(self, number: int, rng: SwimRng, without: str = "") -> list[MemberEntry]:
        """So many live ones by chance, or as many as there are."""
        live = self.live
        if len(live) <= number + 1:
            chosen = [name for name in live if name != without]
            if len(chosen) > number:
                chosen.pop(int(rng.random() * len(chosen)))
            return [self.entries[name] for name in chosen]
        found = dict[str, None]()
        while len(found) < number:
            name = live[int(rng.random() * len(live))]
            if name != without:
                found[name] = None
        return [self.entries[name] for name in found]

    def check(self) -> None:
        live = [entry for name, entry in self.entries.items() if entry.is_live and name != self._own]
        must({*self.live} == {entry.record.node for entry in live}, "those who live are listed")
        must(len(self.live) == len(live), "each is listed once")
        must(all(self.live[place] == name for name, place in self._places.items()), "each is at its place")
        must(self.names == sorted(self.entries), "names are in order")
        must({*self.gone} == {*self.entries} - {*self.live} - {self._own}, "those who are gone are listed")
        parts = [table_digest(entry.record.node, entry.generation) for entry in [*live, self.own] if entry.is_live]
        found = 0
        for part in parts:
            found ^= part
        must(found == self.hash, "the hash is that of those who live")

    def _enter_lists(self, entry: MemberEntry) -> None:
        name = entry.record.node
        self._starts[entry.record.start] = name
        if not entry.is_live:
            self.gone[name] = None
            return
        self.hash ^= table_digest(name, entry.generation)
        self._addresses[entry.address] = name
        if name != self._own:
            self._places[name] = len(self.live)
            self.live.append(name)

    def _leave_lists(self, entry: MemberEntry) -> None:
        name = entry.record.node
        if self._starts.get(entry.record.start) == name:
            del self._starts[entry.record.start]
        if not entry.is_live:
            self.gone.pop(name, None)
            return
        self.hash ^= table_digest(name, entry.generation)
        if self._addresses.get(entry.address) == name:
            del self._addresses[entry.address]
        place = self._places.pop(name, None)
        if place is not None:
            last = self.live.pop()
            if last != name:
                self.live[place] = last
                self._places[last] = place

    def _address_of(self, record: NodeRecord) -> Address:
        """The first of a family that this node has."""
        found = [*map(_numeric, record.addresses)]
        return next((address for address in found if (":" in address[0]) in self._families), found[0])


def _numeric(text: str) -> Address:
    found = numeric_address(text)
    must(found is not None, "the addresses of a record are numeric")
    return found or ("", 0)
