"""A stream over a fleet that is nothing but sets, while nodes write, forget, burn, go away and come back.

Knows: what each node has, who answers, and which batches a stream made. Does not know Spark, sockets nor real time.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.client.changes import Located
from distkv.model.event import COUNT_BITS, Link, NodeName, Tick
from distkv.model.tick_ranges import TickRanges, common, count, overlap, ranges_of, without
from distkv.spark.nodes.planning import ALIVE, RETIRED, KnownNode, Plan, View, chase, held_by, plan
from distkv.spark.source.offsets import Offset, read_offset
from distkv.spark.source.progress import RETRY_S, AwaitedTicks, StreamState, batch_of

pytestmark = pytest.mark.slow

NODES = tuple(NodeName(name) for name in "abc")
NET = bytes(8)
GAP_WAIT_S = 60.0


@attrs.define
class Host:
    """A node of the fleet."""

    content: set[Link] = attrs.field(factory=set)
    heard: set[Link] = attrs.field(factory=set)
    """What it holds, be it without content."""
    answers: bool = True
    is_retired: bool = False
    life: int = 0
    count: int = 0


@attrs.define
class Fleet:
    """All nodes; every one of them is named by the stream."""

    hosts: dict[NodeName, Host] = attrs.field(factory=lambda: {node: Host() for node in NODES})

    # -- what happens to it

    def write(self, node: NodeName, skipped: int) -> None:
        """A change; `skipped` ticks before it are heard of by nobody."""
        host = self.hosts[node]
        host.count += 1 + skipped
        link = (node, Tick((host.life << COUNT_BITS) + host.count))
        host.content.add(link)
        host.heard.add(link)

    def tell(self, node: NodeName, other: NodeName, with_content: bool) -> None:
        """One node gets to hold what another one holds, with the content or by hearsay: superseded meanwhile."""
        self.hosts[other].heard |= self.hosts[node].heard
        if with_content:
            self.hosts[other].content |= self.hosts[node].content

    def forget(self, node: NodeName) -> None:
        """History lets go what was overwritten: here, all."""
        self.hosts[node].content.clear()

    def burn(self, node: NodeName) -> None:
        """A disk is gone; the node writes on in another life."""
        host = self.hosts[node]
        self.hosts[node] = Host(answers=host.answers, is_retired=host.is_retired, life=host.life + 1)

    # -- what the stream sees

    def views(self) -> list[View]:
        members = tuple(
            KnownNode(node, f"{node}:1", RETIRED if host.is_retired else ALIVE if host.answers else "away")
            for node, host in self.hosts.items()
        )
        return [
            View(f"{node}:1", node, NET, ranges_of(host.heard), {}, {}, members)
            for node, host in self.hosts.items()
            if host.answers
        ]

    def carry_out(self, ticks: TickRanges) -> Plan:
        planning = plan(self.views(), ticks)
        try:
            ask = next(planning)
            while True:
                here = common(ask.ticks, ranges_of(self.hosts[NodeName(ask.addr[0])].content))
                is_there = self.hosts[NodeName(ask.addr[0])].answers
                ask = planning.send(Located(here, without(ask.ticks, here)) if is_there else None)
        except StopIteration as end:
            found: Plan = end.value
            return found

    def reachable(self) -> set[Link]:
        """What has content where somebody answers."""
        return {link for host in self.hosts.values() if host.answers for link in host.content}

    def held(self) -> set[Link]:
        return {link for host in self.hosts.values() if host.answers for link in host.heard}


@attrs.define
class Stream:
    """What Spark does with a stream: each batch from the end of the last one; after a crash the last batch again."""

    progress: StreamState = attrs.field(factory=lambda: StreamState(GAP_WAIT_S))
    end: Offset = attrs.field(factory=lambda: Offset(NET, {}))
    delivered: list[Link] = attrs.field(factory=list)
    gaps: list[Link] = attrs.field(factory=list)

    def run(self, fleet: Fleet, now_s: float, count_max: int | None) -> bool:
        """One batch; whether there was one."""
        views = fleet.views()
        if not views:
            return False
        new = without(held_by(views), self.end.ticks)
        begin = self.end
        found, planned = self.progress.next_offset(begin, new, count_max, fleet.carry_out, now_s)
        if found is begin:
            assert planned is None
            return False
        # Only what stands in the checkpoint outlives a crash.
        first, last = (read_offset(offset.to_plain(), NET) for offset in (begin, found))
        batch = batch_of(first, last)
        assert batch == batch_of(begin, found)
        assert count_max is None or count(batch.ticks) + count(batch.gaps) <= count_max
        assert planned is not None
        assert planned.ticks == batch.ticks
        ticks, gaps = (
            {(node, tick) for node, some in part.items() for tick in some} for part in (batch.ticks, batch.gaps)
        )
        assert ticks <= fleet.reachable()
        assert not gaps & fleet.reachable()
        assert ticks | gaps <= fleet.held()
        self.delivered += ticks
        self.gaps += gaps
        self.end = last
        return True

    def restart(self) -> None:
        """In a new process."""
        self.progress = StreamState(GAP_WAIT_S)


nodes = st.sampled_from(NODES)
limits = st.none() | st.integers(1, 4)
steps = st.one_of(
    st.tuples(st.just("write"), nodes, st.integers(0, 2)),
    st.tuples(st.just("tell"), nodes, nodes, st.booleans()),
    st.tuples(st.sampled_from(["forget", "burn", "leave", "come", "retire"]), nodes),
    st.tuples(st.just("run"), limits, st.floats(0.1, 40.0)),
    st.tuples(st.just("restart")),
)


def carry_on(fleet: Fleet, stream: Stream, step: tuple[object, ...], now_s: float) -> float:
    """One step; what time it is then."""
    match step:
        case ["write", node, int(skipped)]:
            fleet.write(NodeName(str(node)), skipped)
        case ["tell", node, other, with_content]:
            fleet.tell(NodeName(str(node)), NodeName(str(other)), bool(with_content))
        case ["forget", node]:
            fleet.forget(NodeName(str(node)))
        case ["burn", node]:
            fleet.burn(NodeName(str(node)))
        case ["leave", node]:
            fleet.hosts[NodeName(str(node))].answers = False
        case ["come", node]:
            fleet.hosts[NodeName(str(node))].answers = True
        case ["retire", node]:
            fleet.hosts[NodeName(str(node))].is_retired = True
        case ["run", limit, float(passed_s)]:
            now_s += passed_s
            stream.run(fleet, now_s, limit if isinstance(limit, int) else None)
        case ["restart"]:
            stream.restart()
    return now_s


@given(st.lists(steps, max_size=40), limits)
def test_each_tick_is_delivered_once_or_a_gap_once_and_what_nobody_holds_stays_new(
    happened: list[tuple[object, ...]], limit: int | None
) -> None:
    fleet, stream, now_s = Fleet(), Stream(), 0.0
    for step in happened:
        now_s = carry_on(fleet, stream, step, now_s)
    for _ in range(3):  # what is away is waited for, and looked for once more
        now_s += GAP_WAIT_S
        while stream.run(fleet, now_s, limit):
            pass
    told = stream.delivered + stream.gaps
    assert len(set(told)) == len(told)
    assert ranges_of(told) == stream.end.ticks
    assert fleet.held() <= set(told)
    assert fleet.reachable() - set(stream.gaps) <= set(stream.delivered)


@given(st.lists(steps, max_size=30), limits)
def test_nothing_is_waited_for_longer_than_it_is_tried_again(
    happened: list[tuple[object, ...]], limit: int | None
) -> None:
    """Nobody asks without a pause, and while nothing waits nobody asks at all."""
    fleet, stream, now_s = Fleet(), Stream(), 0.0
    for step in happened:
        now_s = carry_on(fleet, stream, step, now_s)
    while stream.run(fleet, now_s, limit):
        pass
    left = fleet.held() - set(stream.delivered) - set(stream.gaps)
    due_s = stream.progress.due_s(now_s)
    if fleet.views():
        assert (due_s is not None) == bool(left)
        assert due_s is None or due_s > 0


@given(st.integers(0, 5), st.integers(0, 5), limits)
def test_content_of_a_writer_that_comes_back_in_time_is_no_gap(before: int, behind: int, limit: int | None) -> None:
    fleet, stream = Fleet(), Stream()
    a, b = NODES[:2]
    for _ in range(before + 1):
        fleet.write(a, 0)
    fleet.tell(a, b, with_content=False)
    fleet.hosts[a].answers = False
    for at in range(behind + 1):
        fleet.write(b, 0)
        assert stream.run(fleet, 10.0 * at, limit), "what waits holds up nobody"
    fleet.hosts[a].answers = True
    while stream.run(fleet, GAP_WAIT_S - 0.1, limit):
        pass
    assert not stream.gaps
    assert len(stream.delivered) == before + behind + 2


def test_content_that_is_away_is_looked_for_again_and_again_and_is_a_gap_in_the_end() -> None:
    fleet, stream = Fleet(), Stream()
    a, b = NODES[:2]
    fleet.write(a, 0)
    fleet.tell(a, b, with_content=False)
    fleet.hosts[a].answers = False
    now_s, looked = 0.0, 0
    while not stream.run(fleet, now_s, None):
        due_s = stream.progress.due_s(now_s)
        assert due_s is not None
        assert 0 < due_s <= RETRY_S
        now_s += due_s
        looked += 1
    assert now_s == GAP_WAIT_S
    assert looked == GAP_WAIT_S / RETRY_S
    assert stream.gaps == [(a, 1)]
    assert stream.progress.due_s(now_s) is None


@given(st.lists(steps, max_size=30))
def test_lost_content_is_looked_for_at_every_host_that_may_come_back(happened: list[tuple[object, ...]]) -> None:
    fleet = Fleet()
    for step in happened:
        carry_on(fleet, Stream(), step, 0.0)
    views = fleet.views()
    if not views:
        return
    lost = held_by(views)
    named = [f"{node}:1" for node in NODES]
    reads = list(chase(views, lost, named))
    assert {read.node: read.ticks for read in reads} == lost
    for read in reads:
        assert set(read.addrs) >= set(named)
        assert len(set(read.addrs)) == len(read.addrs)
        if not fleet.hosts[read.node].is_retired:
            assert read.addrs[0] == f"{read.node}:1"


@given(st.sets(st.tuples(nodes, st.integers(1, 20))), st.sets(st.tuples(nodes, st.integers(1, 20))))
def test_offset_comes_back_with_its_gaps(ticks: set[tuple[NodeName, int]], gaps: set[tuple[NodeName, int]]) -> None:
    offset = Offset(
        NET, ranges_of((n, Tick(t)) for n, t in ticks | gaps), ranges_of((n, Tick(t)) for n, t in gaps - ticks)
    )
    plain = offset.to_plain()
    again = read_offset(plain, NET)
    assert again == offset
    assert list(again.to_plain()) == list(plain)
    assert str(again.to_plain()) == str(plain)
    assert not overlap(batch_of(Offset(NET, {}), offset).ticks, offset.gaps)


@given(st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 8)), min_size=1, unique=True), st.integers(1, 3))
def test_what_is_away_is_given_up_after_the_wait_however_the_questions_are_cut(
    links: list[Link], size: int
) -> None:
    """Each part is asked for by itself, as an archive does; a wait outlives the answer to another part."""
    waits = AwaitedTicks(GAP_WAIT_S)
    parts = [ranges_of(set(links[at : at + size])) for at in range(0, len(links), size)]
    assert [waits.note(part, part, 0.0) for part in parts] == [{}] * len(parts)
    assert waits.ticks() == ranges_of(set(links))
    assert [waits.note(part, part, GAP_WAIT_S - 0.1) for part in parts] == [{}] * len(parts)
    assert [waits.note(part, part, GAP_WAIT_S) for part in parts] == parts
    assert waits.ticks() == {}
