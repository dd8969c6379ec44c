"""What a node tells of ticks agrees with plain sets, wherever their content is kept and however small the pages are."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.engine.changes import WON_UNKNOWN, Changes, PageBounds
from distkv.model.event import COUNT_BITS, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.storage.archive import Settlement, open_archive
from distkv.storage.archive_rows import HistoryRow
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_records, encode_record
from distkv.wire.states import path_key
from distkv.wire.values import pack_value
from tests.node.nodes import run
from tests.profiles import examples

pytestmark = pytest.mark.slow

NODES = (NodeName("a"), NodeName("b"))
TICKS = (*range(1, 25), *range(400, 405), *range((3 << COUNT_BITS) + 1, (3 << COUNT_BITS) + 9))
PATHS = (ROOT, Path(["x"]), Path(["x", "y"]), Path(["xy"]), Path([f"n{number}" for number in range(17)]))


@attrs.frozen
class Kept:
    """Where the content of a tick is."""

    in_history: bool
    in_recent: bool
    in_tree: bool
    path: Path
    size: int

    @property
    def is_here(self) -> bool:
        return self.in_history or self.in_recent or self.in_tree


kept = st.builds(Kept, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(PATHS), st.integers(0, 30))
link = st.tuples(st.sampled_from(NODES), st.sampled_from(TICKS))
fleets = st.dictionaries(link, kept) | st.dictionaries(link, kept, min_size=15)
links = st.sets(link)
bounds = st.builds(
    PageBounds,
    st.integers(1, 5),
    st.sampled_from([1, 60, 1000]),
    st.sampled_from([1, 3, 7, 500]),
    st.sampled_from([1, 2, 3, 250]),
)


@attrs.frozen
class Standing:
    """What is present, more than a tree would have of so few paths."""

    events: dict[tuple[NodeName, int], Event]

    def present(self, ranges: TickRanges) -> Iterator[Event]:
        return (self.events[link] for link in sorted(links_of(ranges)) if link in self.events)


def event_of(node: NodeName, tick: int, one: Kept) -> Event:
    return Event(one.path, Kind.SET, pack_value(bytes(one.size)), ((node, Tick(tick)),), Tock(tick), 1.0)


def ranges_of(links: set[tuple[NodeName, int]]) -> TickRanges:
    return {
        node: Ranges.from_ticks(sorted(tick for name, tick in links if name == node))
        for node in NODES
        if any(name == node for name, _ in links)
    }


def links_of(ranges: TickRanges) -> set[tuple[NodeName, int]]:
    return {(node, tick) for node, some in ranges.items() for tick in some}


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@examples(37)
@given(fleets, links, links, st.sampled_from(PATHS), bounds)
def test_each_tick_is_in_one_page_or_elsewhere_or_absent(
    fleet: dict[tuple[NodeName, int], Kept],
    elsewhere: set[tuple[NodeName, int]],
    unwanted: set[tuple[NodeName, int]],
    path: Path,
    bound: PageBounds,
) -> None:
    wanted = (elsewhere | fleet.keys()) - unwanted

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = open_archive(str(FilePath(folder) / "state.sqlite"))
            rows = []
            for lsn, ((node, tick), one) in enumerate(fleet.items()):
                event = event_of(node, tick, one)
                record = encode_record(EventRecord(event, 5.0))
                rows.append((one, HistoryRow(lsn, path_key(one.path), node, tick, 5.0, record, True)))
            tree = Standing({link: event_of(*link, one) for link, one in fleet.items() if one.in_tree})
            history = [row for one, row in rows if one.in_history]
            archive.settle(Settlement(len(fleet), history=history, state_rows=0))
            recent = [row for one, row in rows if one.in_recent]

            def asked() -> Changes:
                return Changes(archive.changes, recent, tree, ranges_of(wanted), path, at_once, bound)

            changes, found = asked(), list[tuple[NodeName, int]]()
            while (page := await changes.next_page()) is not None:
                events = [one.event for one in decode_records(page.records) if isinstance(one, EventRecord)]
                assert 1 <= len(events) <= bound.records
                for event, won in zip(events, page.won, strict=True):
                    one = fleet[event.node, event.tick]
                    assert (event.path, len(event.value)) == (one.path, len(pack_value(bytes(one.size))))
                    assert (won == WON_UNKNOWN) == (not one.in_history and not one.in_recent)
                found += [event.link for event in events]
            here = {link for link in wanted if link in fleet and fleet[link].is_here}
            below = {link for link in here if fleet[link].path.names[: len(path.names)] == path.names}
            assert found == sorted(below)
            assert links_of(changes.absent) == wanted - here
            changes = asked()
            assert links_of(await changes.here()) == below
            assert links_of(changes.absent) == wanted - here
            archive.close()

    run(main)
