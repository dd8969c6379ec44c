"""Random histories as the protocol allows them, and what docs/protocol says of any set of their events.

Knows: how honest nodes write (chains, tocks, lives, fences, restores, expiries), the true causal past of every event,
and the literal text of 'Order of events', 'Fences', 'Containment' and 'Conflict' over all events seen, with nothing
forgotten.
Uses nothing of the product but the value classes, so that a bug in the product is not repeated here.

Invariant: the same actions give the same history, and every event in it could have been written by a node of a network
that loses, repeats and reorders messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from hashlib import blake2b

import attrs
from hypothesis import strategies as st

from distkv.model.event import Event, Kind, Link, NodeName, Order, Tick, Tock, Writer, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.tree import Tree

NAMES = tuple(map(NodeName, ("ab", "a", "Z", "_")))
"""One is a prefix of another, and their order by bytes is not the one by letters."""

PATHS = (Path(("a",)), Path((1,)), Path((None, "node", "a")))

LIVES_MAX = 3
"""Four nodes with three lives stay below the cap of 16 open losers."""

Action = tuple[str, int, int, int]
"""(what, which node, which path, a number to pick with)."""

KINDS = ("set",) * 6 + ("delete",) * 2 + ("expire", "resolve", "resolve") + ("hear",) * 14 + ("catch", "life")
FENCED_KINDS = (*KINDS, *("fenced",) * 6, "fenced-delete", "refence", "refence-delete")


def random_actions(seed: int, count: int) -> list[Action]:
    """Actions by seed; a smaller count gives the beginning of the same list, so that failures shrink. In half of the
    histories there are tokens."""
    chance = random.Random(seed)
    kinds = FENCED_KINDS if seed % 2 else KINDS
    return [
        (chance.choice(kinds), chance.randrange(len(NAMES)), max(chance.randrange(5) - 2, 0), chance.randrange(64))
        for _ in range(count)
    ]


# -- the text, word for word --------------------------------------------------------------------------------------


def writer_of(link: Link) -> Writer:
    return link[0], link[1] >> 32


def compare(a: Event, b: Event) -> int:
    """'Order of events': above 0 when `a` is above `b`."""
    if a.fence != b.fence:
        key_a, key_b = [(*event.fence[:3], event.fence.token.encode()) for event in (a, b)]
        return 1 if key_a > key_b else -1
    for mine, theirs in ((a.tock, b.tock), (a.kind is not Kind.EXPIRE, b.kind is not Kind.EXPIRE), (a.tick, b.tick)):
        if mine != theirs:
            return 1 if mine > theirs else -1
    if a.node != b.node:
        return 1 if a.node.encode() < b.node.encode() else -1
    hashes = [blake2b(bytes([event.kind]) + event.value, digest_size=16).digest() for event in (a, b)]
    return (hashes[0] > hashes[1]) - (hashes[0] < hashes[1])


def names(a: Event, b: Event) -> bool:
    """Whether a link of a's chain speaks for `b`."""
    return any(writer_of(link) == b.writer and link[1] >= b.tick for link in a.chain)


def is_contained(event: Event, events: Iterable[Event]) -> bool:
    """'Containment': one of `events` is above it and names its writer at its tick or later."""
    return any(compare(other, event) > 0 and names(other, event) for other in events)


@attrs.frozen
class Outcome:
    """What a path comes to."""

    winner: Event
    losers: tuple[Event, ...]
    """The open ones, the highest first."""

    @property
    def listed(self) -> tuple[Event, ...]:
        """A delete that lost to a delete is no conflict."""
        return tuple(e for e in self.losers if self.winner.kind is Kind.SET or e.kind is Kind.SET)


def outcome(events: Iterable[Event]) -> Outcome:
    """'Entry' and 'Conflict' for all events seen on one path; at least one."""
    rows = sorted(events, key=cmp_to_key(compare), reverse=True)
    losers = tuple(e for e in rows[1:] if e.kind is not Kind.EXPIRE and not is_contained(e, rows))
    return Outcome(rows[0], losers)


def outcomes(events: Iterable[Event]) -> dict[Path, Outcome]:
    by_path: dict[Path, dict[Link, Event]] = {}
    for event in events:
        by_path.setdefault(event.path, {})[event.link] = event
    return {path: outcome(found.values()) for path, found in by_path.items()}


def digest_of(results: Iterable[Outcome]) -> int:
    """'State digest', from scratch."""
    total = 0
    for result in results:
        live = [(b"live", result.winner)] if result.winner.kind is Kind.SET else []
        for tag, event in live + [(b"open", loser) for loser in result.listed]:
            fence = "" if event.fence == NO_FENCE else "{} {} {} {}\n".format(*event.fence)
            head = f"{fence}{event.path}\n{event.node}\n{event.tick}\n{event.tock}\n{int(event.kind)}\n".encode()
            total ^= int.from_bytes(blake2b(head + event.value, digest_size=8, person=tag).digest(), "big")
    return total


# -- histories ----------------------------------------------------------------------------------------------------


@attrs.define
class History:
    """All events of a run in the order in which they were written, and the true causal past of each on its path."""

    events: list[Event] = attrs.field(factory=list)
    past: dict[Link, frozenset[Link]] = attrs.field(factory=dict)
    seen_by: dict[NodeName, list[Event]] = attrs.field(factory=dict)
    """What each node wrote or heard, in that order."""

    @property
    def by_link(self) -> dict[Link, Event]:
        return {event.link: event for event in self.events}


@attrs.define
class _Node:
    """A node that forgets nothing."""

    name: NodeName
    life: int = 0
    count: int = 0
    tock: int = 0
    seen: dict[Link, Event] = attrs.field(factory=dict)

    def hear(self, event: Event) -> None:
        self.tock = max(self.tock, event.tock)
        self.seen[event.link] = event

    def on(self, path: Path) -> list[Event]:
        return [event for event in self.seen.values() if event.path == path]


def chain_of(me: Link, sources: Sequence[Event], length: int) -> tuple[tuple[Link, ...], bool]:
    """The chain of a write: the heads of all it replaces, never cut, then their older links, then the cut."""
    highest: dict[Writer, Link] = {}
    for link in [source.link for source in sources] + [link for source in sources for link in source.chain[1:]]:
        known = highest.get(writer_of(link))
        highest[writer_of(link)] = max(known, link) if known else link
    highest.pop(writer_of(me), None)
    links = list(highest.values())
    room = max(length - 1, len(sources))
    return (me, *links[:room]), len(links) > room or any(source.truncated for source in sources)


def fence_of(what: str, pick: int, here: Fence) -> Fence | None:
    """What a write leaves at a path whose winner has the fence `here`; None: it is refused."""
    if what == "resolve":
        return Fence(here.base + 1, 0, 0, "") if here.token else here
    if what.startswith("refence"):
        return Fence(here.base + 1, 0, 0, "")
    if what.startswith("fenced"):
        token, epoch, counter = "tu"[pick % 8 == 0], pick // 8 % 2, pick // 16
        is_late = here.token and (token != here.token or (epoch, counter) < (here.epoch, here.counter))
        return None if is_late else Fence(here.base, epoch, counter, token)
    return None if here.token and what != "expire" else here


class World:
    """A few nodes that write and hear. Who hears what is up to the actions."""

    def __init__(self, chain_length: int) -> None:
        self.chain_length = chain_length
        self.history = History(seen_by={name: [] for name in NAMES})
        self.nodes = [_Node(name) for name in NAMES]

    def do(self, action: Action) -> None:
        what, who, where, pick = action
        node, path = self.nodes[who], PATHS[where]
        if what == "life":
            if node.life + 1 < LIVES_MAX and node.count:
                node.life, node.count = node.life + 1 + pick % 2, 0
        elif what == "hear":
            if self.history.events:
                self._hear(node, self.history.events[-1 - pick % len(self.history.events)])
        elif what == "catch":
            for event in list(self.nodes[pick % len(self.nodes)].seen.values()):
                self._hear(node, event)
        else:
            self._write(node, path, what, pick)

    def _hear(self, node: _Node, event: Event) -> None:
        node.hear(event)
        self.history.seen_by[node.name].append(event)

    def _write(self, node: _Node, path: Path, what: str, pick: int) -> None:
        events = node.on(path)
        now = outcome(events) if events else None
        is_live = now is not None and now.winner.kind is Kind.SET
        fence = fence_of(what, pick, NO_FENCE if now is None else now.winner.fence)
        if fence is None or (path.is_reserved and fence != NO_FENCE):
            return  # it is refused; paths of the system have no fences (FENCE-6)
        if (what in ("delete", "expire") and not is_live) or (what == "resolve" and (now is None or not now.listed)):
            return
        sources: list[Event] = []
        if now is not None:
            hidden = [loser for loser in now.losers if loser not in now.listed]
            chosen = [now.listed[pick % len(now.listed)]] if what == "resolve" else []
            sources = [now.winner, *chosen, *hidden]
        kind = Kind.EXPIRE if what == "expire" else Kind.DELETE if what.endswith("delete") else Kind.SET
        node.count += 1
        node.tock += 1
        me = (node.name, Tick((node.life << 32) + node.count))
        tock = sources[0].tock + 1 if kind is Kind.EXPIRE else node.tock
        chain, truncated = chain_of(me, sources, self.chain_length)
        value = bytes([pick]) if kind is Kind.SET else b""
        event = new_event(path, kind, value, chain, Tock(tock), 0.0, truncated, fence=fence)
        own = [e for e in events if e.writer == event.writer]
        self.history.past[me] = frozenset(e.link for e in sources + own).union(
            *(self.history.past[e.link] for e in sources + own)
        )
        self.history.events.append(event)
        self._hear(node, event)


def history_of(todo: Iterable[Action], chain_length: int = 5) -> History:
    world = World(chain_length)
    for action in todo:
        world.do(action)
    return world.history


def histories(size: int = 100, lengths: Sequence[int] = (2, 2, 3, 5, 64)) -> st.SearchStrategy[History]:
    """Histories with short chains more often than not, so that links are forgotten."""
    todo = st.builds(random_actions, st.integers(0, 1 << 32), st.integers(0, size))
    return st.builds(history_of, todo, st.sampled_from(lengths))


# -- trees --------------------------------------------------------------------------------------------------------


def tree_of(events: Iterable[Event]) -> Tree:
    tree = Tree()
    for event in events:
        tree.apply(event)
    return tree


def memory_of(tree: Tree) -> dict[Path, dict[Writer, list[tuple[int, Order]]]]:
    """What entries remember beyond the chains of the events they keep."""
    entries = [entry for entry in tree.entries() if entry.memory]
    return {e.head.path: {writer: sorted(rows) for writer, rows in (e.memory or {}).items()} for e in entries}


def picture(tree: Tree) -> dict[str, object]:
    """All that two trees must have in common to be the same replicated state; comparable with ==."""
    return {
        "paths": {e.head.path: (e.head.link, tuple(x.link for x in e.losers)) for e in tree.entries()},
        "ttls": {e.head.path: [x.ttl for x in (e.head, *e.losers)] for e in tree.entries()},
        "listed": {e.head.path: tuple(x.link for x in e.conflicts()) for e in tree.entries()},
        "memory": memory_of(tree),
        "held": {node: ranges.to_list() for node, ranges in tree.ledger.held().items()},
        "superseded": {node: ranges.to_list() for node, ranges in tree.superseded().items()},
        "hash": tree.ledger.hash(),
        "digest": tree.digest,
        "live_count": tree.live_count,
    }


def assert_consistent(tree: Tree) -> None:
    """The invariants of a tree, its indexes recomputed from its entries."""
    entries = list(tree.entries())
    gaps = {(node, tick) for (node, _), book in tree.ledger.writers() for tick in book.missing}
    assert {(node, tick) for node, ticks in tree.ledger.missing().items() for tick in ticks} == gaps
    assert tree.ledger.is_whole == (not gaps)
    kept = {event.link: event for entry in entries for event in (entry.head, *entry.losers)}
    held = tree.ledger.held()
    assert {e.link: e for e in tree.present(held)} == kept
    assert all(tree.event(link) is event for link, event in kept.items())
    assert all(tree.ledger.has(link) for link in kept)
    assert {e.link for e in tree.open_losers()} == {e.link for entry in entries for e in entry.losers}
    contested = [entry for entry in entries if entry.losers]
    assert {entry.head.link for entry in tree.conflicted()} == {entry.head.link for entry in contested}
    assert tree.conflict_count == sum(len(entry.conflicts()) for entry in contested if not entry.head.path.is_reserved)
    assert len(tree) == len(entries)
    assert tree.live_count == sum(entry.head.kind is Kind.SET for entry in entries)
    assert tree.digest == digest_of(Outcome(entry.head, entry.losers) for entry in entries)
    for entry in entries:
        assert tree.head(entry.head.path) is entry.head
        assert all(compare(entry.head, loser) > 0 for loser in entry.losers)
        assert list(entry.losers) == sorted(entry.losers, key=cmp_to_key(compare), reverse=True)
        assert not any(is_contained(loser, (entry.head, *entry.losers)) for loser in entry.losers)
