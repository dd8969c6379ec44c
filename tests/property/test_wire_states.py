"""What the archive keeps of the state comes back as it was (wire/states.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError
from distkv.model.entry import Entry
from distkv.model.event import Event, NodeName, Tock, first_tick, order
from distkv.model.ledger import WriterLedger
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree
from distkv.wire.message import CeilingRecord, EventRecord, LifeRecord, Record, ResetRecord
from distkv.wire.records import encode_record
from distkv.wire.states import (
    Meta,
    decode_book,
    decode_entry,
    decode_meta,
    encode_book,
    encode_entry,
    encode_meta,
    entry_of_record,
    path_key,
)
from tests.profiles import examples
from tests.property.histories import History, assert_consistent, histories, picture, tree_of
from tests.property.strategies import counts, events, lives, mutated, node_names, paths, ticks, times, tocks

pytestmark = pytest.mark.slow

memories = st.dictionaries(
    st.tuples(node_names, lives),
    st.lists(st.tuples(ticks, st.builds(order, events())), min_size=1, max_size=3),
    max_size=3,
).map(lambda found: found or None)
entries = st.builds(Entry, events(), st.lists(events(), max_size=3).map(tuple), memories)
books = st.builds(
    lambda life, last, held, lost: WriterLedger(first_tick(life), (life << 32) + last, held, lost),
    lives,
    counts,
    st.lists(counts).map(lambda found: Ranges.from_ticks(sorted(found))),
    st.lists(counts).map(lambda found: Ranges.from_ticks(sorted(found))),
)
numbers = st.integers(0, 2**63 - 1)
metas = st.builds(
    Meta, node_names, st.none() | lives, ticks, tocks, tocks, st.integers(0, 2**64 - 1), numbers, st.booleans()
)


@given(entries)
def test_entry_comes_back_with_losers_and_memory(entry: Entry) -> None:
    found = decode_entry(encode_entry(entry))
    assert repr(found) == repr(entry)
    assert found.head.path == entry.head.path


@given(events(), times)
def test_entry_made_of_a_record_is_that_of_its_event(event: Event, arrived: float) -> None:
    assert entry_of_record(encode_record(EventRecord(event, arrived))) == encode_entry(Entry(event))


@pytest.mark.parametrize("record", [ResetRecord(), LifeRecord(NodeName("a"), 1), CeilingRecord(Tock(1 << 40))])
def test_record_of_no_event_makes_no_entry(record: Record) -> None:
    with pytest.raises(ValueError, match="only the record of an event"):
        entry_of_record(encode_record(record))


@given(books)
def test_book_comes_back(book: WriterLedger) -> None:
    found = decode_book(book.first >> 32, encode_book(book))
    assert repr(found) == repr(book)


@given(metas)
def test_meta_comes_back(meta: Meta) -> None:
    assert decode_meta(encode_meta(meta)) == meta


@given(paths, paths)
def test_keys_are_equal_exactly_for_equal_paths(one: Path, other: Path) -> None:
    assert (path_key(one) == path_key(other)) == (one == other)


@given(histories())
@examples(20)
def test_tree_that_was_taken_apart_and_loaded_is_the_same(history: History) -> None:
    tree = tree_of(history.events)
    loaded = Tree()
    loaded.load(
        [(writer, decode_book(writer[1], encode_book(book))) for writer, book in tree.ledger.writers()],
        [decode_entry(encode_entry(entry)) for entry in tree.entries()],
    )
    assert_consistent(loaded)
    assert picture(loaded) == picture(tree)
    assert loaded.ledger.missing() == tree.ledger.missing()
    assert loaded.ledger.ticks() == tree.ledger.ticks()


@given(mutated(entries.map(encode_entry)))
def test_damaged_entry_is_read_or_refused_with_one_error(data: bytes) -> None:
    assert read_or_refused(decode_entry, data)


@given(mutated(books.map(encode_book)))
def test_damaged_book_is_read_or_refused_with_one_error(data: bytes) -> None:
    assert read_or_refused(lambda found: decode_book(0, found), data)


def read_or_refused(read: Callable[[bytes], object], data: bytes) -> bool:
    try:
        return read(data) is not None
    except DecodeError:
        return True


@pytest.mark.parametrize("name", ["node", "life", "tick", "digest"])
@pytest.mark.parametrize("value", [None, b"\xc1", b"\xa1x\xa1x", b"\x90"])
def test_meta_with_a_bad_row_is_refused(name: str, value: bytes | None) -> None:
    meta = decode_meta(encode_meta(Meta(node="a", life=0, tick=1, tock=1, ceiling=1, digest=0, live_count=0)))  # type: ignore[arg-type]
    rows = encode_meta(meta)
    rows.pop(name)
    with pytest.raises(DecodeError):
        decode_meta(rows if value is None else {**rows, name: value})
