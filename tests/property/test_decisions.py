"""Decisions about conflicts, anywhere and at once: what was named is closed on all nodes, and all others stay open."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.client_writes import LocalDecision, LocalSet, WriteDone
from distkv.core.ready import Ready
from distkv.core.replica import Replica
from distkv.model.event import Event, Link, NodeName
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.told import core_settings
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.message import EventRecord, Start
from distkv.wire.value_requests import SetValue
from tests.profiles import examples
from tests.property.histories import outcome

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c", "d", "e")
HERE = Path(["p"])
NETWORK = bytes(8)


@attrs.define
class Nodes:
    """Ready nodes that hear of one another only when the test says so."""

    replicas: list[Replica]
    events: list[Event] = attrs.field(factory=list)
    """All that were ever written at the path."""

    def step(self, at: int, what: LocalSet | LocalDecision) -> Event | None:
        ready: Ready = self.replicas[at].step(2, 1.7e9, what)
        reply = ready.reply
        assert isinstance(reply, WriteDone), reply
        if reply.event is not None:
            self.events.append(reply.event)
        return reply.event

    def tell(self, at: int, event: Event) -> None:
        self.replicas[at].store.replay(EventRecord(event, 1.7e9))

    def exchange(self) -> None:
        """All tell all, what is superseded included, until nothing is new."""
        before: object = None
        while before != (before := [self.open(at) for at in range(len(self.replicas))]):
            for to in self.replicas:
                for source in self.replicas:
                    to.tree.close(source.tree.superseded())
                    for event in list(source.tree.present(source.tree.ledger.held())):
                        if event.path == HERE:
                            to.store.replay(EventRecord(event, 1.7e9))

    def open(self, at: int) -> set[Link]:
        return {loser.link for loser in listed(self.replicas[at].tree)}


def listed(tree: Tree) -> tuple[Event, ...]:
    entry = tree.get(HERE)
    return () if entry is None else entry.conflicts()


def new_nodes() -> Nodes:
    found = []
    for name in NAMES:
        replica = Replica(
            core_settings(NodeName(name), "h:1", Start(1.7e9, 1), alone=True, init_value=b"\x01", network_id=NETWORK),
            Random(0),
        )
        replica.begin(0, 1.7e9)
        found.append(replica)
    return Nodes(found)


WRITES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([None, b"\x01", b"\x02"]), st.none() | st.integers(0, 4)), max_size=12
)
"""Who writes what, and whom he tells."""


def contested(writes: list[tuple[int, bytes | None, int | None]]) -> Nodes:
    nodes = new_nodes()
    for at, value, told in writes:
        event = nodes.step(at, LocalSet(SetValue(1, HERE, value)))
        if event is not None and told is not None:
            nodes.tell(told, event)
    return nodes


DECISIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 15), st.booleans(), st.booleans()), max_size=5)
"""Who decides about which loser, whether it is restored, and whether all hear of it before the next one decides."""


@examples(37)
@given(WRITES, DECISIONS)
def test_named_losers_are_closed_on_all_nodes_and_the_others_stay_open(
    writes: list[tuple[int, bytes | None, int | None]], decisions: list[tuple[int, int, bool, bool]]
) -> None:
    nodes = contested(writes)
    nodes.exchange()
    before = nodes.open(0)
    named: set[Link] = set()
    made: set[Link] = set()
    for at, pick, restores, is_told in decisions:
        losers = [loser for loser in listed(nodes.replicas[at].tree) if loser.link in before - named]
        if losers:
            loser = losers[pick % len(losers)]
            event = nodes.step(at, LocalDecision((Restore if restores else Dismiss)(1, loser.link)))
            assert event is not None
            named.add(loser.link)
            made.add(event.link)
        if is_told:
            nodes.exchange()
    nodes.exchange()
    found = [nodes.open(at) for at in range(len(NAMES))]
    assert found == [found[0]] * len(NAMES)
    assert found[0] & named == set()
    hidden = {event.link for event in nodes.events if not event.value}  # a deletion may be listed no more
    assert (before - named) - found[0] <= hidden
    assert found[0] - before <= made | hidden  # of two who decide at once one loses


@examples(37)
@given(WRITES, DECISIONS)
def test_decisions_leave_what_the_protocol_says_of_all_events(
    writes: list[tuple[int, bytes | None, int | None]], decisions: list[tuple[int, int, bool, bool]]
) -> None:
    nodes = contested(writes)
    nodes.exchange()
    for at, pick, restores, is_told in decisions:
        losers = listed(nodes.replicas[at].tree)
        if losers:
            kind = Restore if restores else Dismiss
            nodes.step(at, LocalDecision(kind(1, losers[pick % len(losers)].link)))
        if is_told:
            nodes.exchange()
    nodes.exchange()
    if nodes.events:
        expected = outcome(nodes.events)
        for replica in nodes.replicas:
            entry = replica.tree.get(HERE)
            assert entry is not None
            assert (entry.head.link, [loser.link for loser in entry.losers]) == (
                expected.winner.link,
                [loser.link for loser in expected.losers],
            )
