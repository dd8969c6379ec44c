"""However events come, are lost on the way and come again: what a purged deletion knew of never comes back.

Knows: four nodes that write, hear, compare ledgers and purge, all by the product's rules; and who truly knew of what.
"""

from __future__ import annotations

import random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.deletion import Deletion, outlives
from distkv.core.update import Store
from distkv.model.event import Event, Kind, Link, NodeName, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.wire.message import Header, TickMaps
from distkv.wire.values import pack_value
from tests.profiles import examples
from tests.property.histories import assert_consistent

NAMES = tuple(map(NodeName, "abcd"))
PATHS = (Path(("p",)), Path(("q",)))
DOINGS = ("set", "delete", "hear", "hear", "hear", "sync", "sync", "ticks", "lose", "purge", "purge", "purge")


@attrs.define
class Fleet:
    """Four nodes, everything that they ever made, and what each change truly knew of."""

    chance: random.Random
    chain_length: int
    nodes: list[Store] = attrs.field(factory=list)
    made: list[Event] = attrs.field(factory=list)
    past: dict[Link, frozenset[Link]] = attrs.field(factory=dict)
    gone: dict[NodeName, frozenset[Link]] = attrs.field(factory=dict)
    """Per node what the deletions that it purged knew of, and they themselves."""

    def __attrs_post_init__(self) -> None:
        for name in NAMES:
            store = Store(name, self.chain_length)
            store.own.begin_life(0)
            self.nodes.append(store)
            self.gone[name] = frozenset()

    def do(self, what: str) -> None:
        one, other = self.chance.sample(self.nodes, 2)
        match what:
            case "set" | "delete":
                self.write(one, self.chance.choice(PATHS), Kind.SET if what == "set" else Kind.DELETE)
            case "hear" if self.made:
                one.remote(self.made[-1 - self.chance.randrange(min(len(self.made), 8))])
            case "sync":
                self.sync(one, other)
            case "ticks":
                one.hear_ticks(other.tree.ledger.ticks().items())
            case "lose":
                one.mark_lost(one.tree.ledger.missing())
            case "purge":
                self.purge(one)

    def write(self, node: Store, path: Path, kind: Kind) -> None:
        entry = node.tree.get(path)
        before = [] if entry is None else entry.sources()
        if entry is not None:  # a writer's own earlier change is known to it without a link
            before += [loser for loser in entry.losers if loser.node == node.me and loser not in before]
        if kind is Kind.DELETE and (entry is None or not entry.is_live):
            return
        value = pack_value(len(self.made)) if kind is Kind.SET else b""
        event = node.write(path, kind, value, 0.0).event
        known = frozenset[Link]().union(*(self.past[one.link] for one in before))
        self.past[event.link] = known | {event.link}
        self.made.append(event)

    def sync(self, node: Store, other: Store) -> None:
        """What an exchange and its pulls bring: what is missing, and what became of open losers."""
        node.hear_ticks(other.tree.ledger.ticks().items())
        held, none = other.tree.ledger.held(), Ranges()
        wanted = {name: found for name, r in node.tree.ledger.missing().items() if (found := r & held.get(name, none))}
        for loser in node.tree.open_losers():
            if other.tree.ledger.has(loser.link):
                wanted.setdefault(loser.node, Ranges()).add(loser.tick)
        events = list(other.tree.present(wanted))
        for event in self.chance.sample(events, len(events)):
            node.remote(event)
        present = {event.link for event in events}
        known: dict[NodeName, Ranges] = {}
        for name, ranges in wanted.items():
            for tick in ranges & held.get(name, none):
                if (name, tick) not in present:
                    known.setdefault(name, Ranges()).add(tick)
        node.learn_known(known)

    def purge(self, node: Store, *, is_quiet: bool = False) -> None:
        """One round; behind each answer anything may happen."""
        for other in self.nodes:
            if other is not node and (is_quiet or self.chance.random() < 0.5):
                self.sync(node, other)
        lives = {other.me: 0 for other in self.nodes if other is not node}
        deletion = Deletion(1000, 0, self.chance)
        deletion.begin([entry.head for entry in node.tree.entries() if not entry.is_live], 0, 0.0)
        deletion.begin_round(node.tree, 0)
        while (question := deletion.next_to_ask(lives)) is not None:
            name, stones = question
            tree = next(other.tree for other in self.nodes if other.me == name)
            header = Header(name, node.own.tick, Tock(1), 0, bytes(8), None)
            said = TickMaps(
                header, "h:1", State.READY, {}, tree.ledger.held(), {}, 0, outlived=tuple(outlives(tree, stones))
            )
            for _ in range(0 if is_quiet else self.chance.randrange(3)):
                self.do(self.chance.choice([doing for doing in DOINGS if doing != "purge"]))
            deletion.reported(said, node.tree)
            deletion.asked(name, 0)
        for stone in deletion.decide(node.tree, lives, 0):
            for link in stone.links:
                self.gone[node.me] |= self.past[link]
            assert node.purge(stone.path)

    def check(self) -> None:
        for node in self.nodes:
            shown = {event.link for entry in node.tree.entries() for event in (entry.head, *entry.losers)}
            assert not shown & self.gone[node.me]


@examples(37)
@given(st.integers(0, 1 << 32), st.integers(0, 120), st.sampled_from([2, 3, 5]))
def test_what_a_purged_deletion_knew_of_never_comes_back(seed: int, count: int, chain_length: int) -> None:
    fleet = Fleet(random.Random(seed), chain_length)
    for _ in range(count):
        fleet.do(fleet.chance.choice(DOINGS))
        fleet.check()
    for node in fleet.nodes:
        assert_consistent(node.tree)


@examples(20)
@given(st.integers(0, 1 << 32), st.integers(0, 120), st.sampled_from([2, 3, 5]))
def test_nodes_that_compare_ledgers_come_to_the_same_whoever_purged_what(
    seed: int, count: int, chain_length: int
) -> None:
    fleet = Fleet(random.Random(seed), chain_length)
    for _ in range(count):
        fleet.do(fleet.chance.choice(DOINGS))
    for _ in range(3):
        for one in fleet.nodes:
            for other in fleet.nodes:
                fleet.sync(one, other)
    fleet.check()
    assert len({node.tree.digest for node in fleet.nodes}) == 1
    assert len({node.tree.ledger.hash() for node in fleet.nodes}) == 1
    for node in fleet.nodes:
        fleet.purge(node, is_quiet=True)
        assert all(entry.is_live or entry.conflicts() for entry in node.tree.entries())
