"""However nodes sleep, are killed and start anew, and whoever follows: what was said to be copied is with all followers
that were named, and copies become equal.

Knows: rows of a few topics, and entries that change at any moment.  Does not know the rules.
"""

from __future__ import annotations

import random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.topics.comparing import AGAIN_MS
from distkv.model.event import NodeName
from distkv.model.invariant import must
from tests.profiles import examples
from tests.topic_copies import A, B, C, CopyNode, Fleet

TOPICS = ("news", "jobs")
DOINGS = ("put", "put", "put", "forget", "pause", "crash", "wake", "wake", "name", "move", "time", "time", "time")


@attrs.define
class CopyPlay:
    """Nodes, and what was put, and said to be copied."""

    fleet: Fleet
    count: int = 0
    puts: dict[int, tuple[NodeName, str, str]] = attrs.field(factory=dict)
    """By their numbers: the owner, the topic, and the key."""
    forgotten: set[tuple[str, str]] = attrs.field(factory=set)
    seen: set[int] = attrs.field(factory=set)
    """Those that were said to be copied."""

    def do(self, what: str) -> None:
        fleet, chance = self.fleet, self.fleet.chance
        name = chance.choice(TOPICS)
        owner = fleet.nodes[fleet.entries[name].owner]
        node = fleet.nodes[chance.choice([*fleet.nodes])]
        is_awake = owner.is_up and not owner.is_paused
        if what == "put" and is_awake:
            self.count += 1
            key = f"k{self.count}"
            self.puts[self.count] = owner.me, name, key
            owner.put(name, key, bytes(chance.choice((10, 10, 50_000))), self.count)
        elif what == "forget" and is_awake and name in owner.copies and owner.copies[name].rows:
            key = chance.choice(sorted(owner.copies[name].rows))
            self.forgotten.add((name, key))
            owner.put(name, key, None)
        elif what == "pause":
            node.is_paused = True
        elif what == "crash":
            node.crash()
        elif what == "wake":
            self.wake(node)
        elif what == "name":
            others = sorted(fleet.nodes.keys() - {owner.me})
            fleet.name(name, owner.me, *chance.sample(others, chance.randint(0, len(others))))
        elif what == "move" and fleet.entries[name].followers:
            new = chance.choice(sorted(fleet.entries[name].followers))
            fleet.name(name, new, *(fleet.entries[name].followers | {owner.me}) - {new})
        else:
            fleet.pass_time(chance.choice((1, 10, 100, 1000, 5000)), self.check)
        self.check()

    def wake(self, node: CopyNode) -> None:
        if not node.is_up:
            node.start()
        node.is_paused = False
        for other in self.fleet.nodes.values():
            if other.is_up and not other.is_paused:
                for name in TOPICS:
                    other.look(name)

    def check(self) -> None:
        """What was just found to be copied is on the disks of all who follow now."""
        for owner in self.fleet.nodes.values():
            for said in owner.found:
                assert isinstance(said.target, int)
                _, name, key = self.puts[said.target]
                followers = self.fleet.entries[name].followers
                have = [node for node in followers if self.fleet.nodes[node].on_disk(name, key) is not None]
                if (name, key) not in self.forgotten:
                    must(len(have) == len(followers), f"{key} is with {followers}, not only with {have}")
                    must(said.copies == 1 + len(followers), "it is said how many have it")
            owner.found.clear()
            self.seen |= {number for number, _ in owner.done if isinstance(number, int)}

    def end(self) -> None:
        """All are awake, nothing is lost any more, and nothing changes."""
        self.fleet.loss = 0
        for node in self.fleet.nodes.values():
            self.wake(node)
        self.fleet.pass_time(2 * AGAIN_MS + 10_000, self.check)
        for name in TOPICS:
            entry = self.fleet.entries[name]
            copies = [self.fleet.nodes[node].copies.get(name) for node in (entry.owner, *entry.followers)]
            found = {frozenset(copy.rows.items()) if copy is not None else frozenset() for copy in copies}
            must(len(found) == 1, f"all copies of {name} are equal")
            for node in self.fleet.nodes.values():
                if node.me not in (entry.owner, *entry.followers):
                    must(not node.copies.get(name) or not node.copies[name].rows, "who is not named lets go")
        for owner in self.fleet.nodes.values():
            for number, (me, name, key) in self.puts.items():
                if me == owner.me and number in self.seen and (name, key) not in self.forgotten:
                    keys = self.fleet.nodes[self.fleet.entries[name].owner].copies[name].rows
                    must(key in keys, "what was said to be copied is still there")


def play(chance: random.Random, doings: list[str], count: int) -> CopyPlay:
    fleet = Fleet(chance, loss=chance.choice((0.0, 0.3)), delay_ms=chance.choice((5, 200)), disk_ms=50)
    for me in [A, B, C][:count]:
        fleet.add(me)
    for name in TOPICS:
        fleet.name(name, *[A, B, C][:count])
    found = CopyPlay(fleet)
    for what in doings:
        found.do(what)
    found.end()
    return found


@examples(30)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(DOINGS), max_size=50), st.sampled_from([2, 3]))
def test_what_was_said_to_be_copied_is_with_all_followers(
    chance: random.Random, doings: list[str], count: int
) -> None:
    found = play(chance, doings, count)
    assert found.seen <= found.puts.keys()


def test_most_of_what_is_put_is_copied() -> None:
    found = play(random.Random(1), ["put", "time", "put", "wake", "time"] * 10, 3)
    assert len(found.seen) == len(found.puts) == 20
