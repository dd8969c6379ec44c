"""Who waits for a tick is woken exactly when the ledger comes to hold a later one, however that came about."""

from __future__ import annotations

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from distkv.core.update import Store
from distkv.engine.arrivals import Arrivals, Expectation
from distkv.model.event import COUNT_BITS, Event, NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.wire.message import EventRecord, Record
from tests.property.strategies import chains_of, events, few_paths
from tests.shell.nodes import run

names = st.sampled_from([NodeName("a"), NodeName("b"), NodeName("c")])
lives = st.sampled_from([0, 3])
ticks = st.builds(lambda life, count: Tick((life << COUNT_BITS) + count), lives, st.integers(1, 6))
arriving = events(path=few_paths, chain=chains_of(st.tuples(names, ticks)))
known = st.builds(lambda name, tick: {name: Ranges([(tick, tick + 2)])}, names, ticks)
behind = st.dictionaries(names, ticks | st.just(Tick(0)))


@attrs.frozen
class Doing:
    """Something that comes, while somebody waits behind these ticks."""

    what: Event | TickRanges
    ticks: dict[NodeName, Tick]


def taken_in(store: Store, what: Event | TickRanges) -> list[Record]:
    """What a node logs of it."""
    if isinstance(what, Event):
        return [EventRecord(what, 0.0)] if store.remote(what).changed else []
    return store.learn_known(what)[0]


async def was_woken(expectation: Expectation) -> bool:
    with trio.move_on_after(1) as patience:
        await expectation.wait()
    return not patience.cancelled_caught


@settings(deadline=None)
@given(st.lists(st.builds(Doing, arriving | known, behind), max_size=12))
def test_expectation_is_woken_exactly_when_a_later_tick_is_held(doings: list[Doing]) -> None:
    async def main() -> None:
        store, arrivals = Store(NodeName("me"), 5), Arrivals()
        for doing in doings:
            is_here_already = bool(store.tree.ledger.held_past(doing.ticks))
            with arrivals.expect(doing.ticks) as expectation:
                arrivals.note(taken_in(store, doing.what))
                if not is_here_already:
                    assert await was_woken(expectation) == bool(store.tree.ledger.held_past(doing.ticks))
        assert arrivals.count == 0

    run(main)
