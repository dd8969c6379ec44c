"""Who waits is woken exactly when the ledger comes to hold a tick that he waits for, however that came about."""

from __future__ import annotations

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.update import Store
from distkv.engine.arrivals import Arrivals, Expectation
from distkv.model.event import COUNT_BITS, Event, NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.wire.message import EventRecord, Record
from tests.node.nodes import run
from tests.property.strategies import chains_of, events, few_paths

names = st.sampled_from([NodeName("a"), NodeName("b"), NodeName("c")])
lives = st.sampled_from([0, 3])
ticks = st.builds(lambda life, count: Tick((life << COUNT_BITS) + count), lives, st.integers(1, 6))
arriving = events(path=few_paths, chain=chains_of(st.tuples(names, ticks)))
known = st.builds(lambda name, tick: {name: Ranges([(tick, tick + 2)])}, names, ticks)
behind = st.dictionaries(names, ticks | st.just(Tick(0))).map(up_to)
beside = st.dictionaries(names, st.sets(ticks).map(lambda some: Ranges.from_ticks(sorted(some))))


@attrs.frozen
class Doing:
    """Something that comes, while somebody waits for others than these ticks."""

    what: Event | TickRanges
    ticks: TickRanges
    others: bool


def taken_in(store: Store, what: Event | TickRanges) -> list[Record]:
    """What a node logs of it."""
    if isinstance(what, Event):
        return [EventRecord(what, 0.0)] if store.remote(what).changed else []
    return store.learn_known(what)[0]


async def was_woken(expectation: Expectation) -> bool:
    with trio.move_on_after(1) as patience:
        await expectation.wait()
    return not patience.cancelled_caught


@given(st.lists(st.builds(Doing, arriving | known, behind | beside, st.booleans()), max_size=12))
def test_expectation_is_woken_when_another_tick_is_held(doings: list[Doing]) -> None:
    def is_here(store: Store, doing: Doing) -> bool:
        return bool(store.tree.ledger.held_beside(doing.ticks, others=doing.others))

    async def main() -> None:
        store, arrivals = Store(NodeName("me"), 5), Arrivals()
        for doing in doings:
            is_here_already = is_here(store, doing)
            with arrivals.expect(doing.ticks, others=doing.others) as expectation:
                arrivals.note(taken_in(store, doing.what))
                if not is_here_already:
                    assert await was_woken(expectation) == is_here(store, doing)
        assert arrivals.count == 0

    run(main)
