"""Frames to all, over the edges of one node (docs/protocol, TREE-10 to TREE-13)."""

from __future__ import annotations

import pytest

from distkv.core.server_tree.flood import (
    ITEM_BYTES,
    KEPT_BYTES,
    KEPT_FRAMES,
    OWED_BYTES,
    OWED_FRAMES,
    WINDOW_BYTES,
    WINDOW_FRAMES,
    Flood,
)
from distkv.model.event import NodeName
from distkv.wire.edges import FRAME_BYTES_MAX, TreeFrame

ME, UP, ORIGIN, STRANGER = (NodeName(name) for name in ("me", "up", "o", "stranger"))
NODES = {ME, UP, ORIGIN}


def _flood(start: int = 100) -> Flood:
    flood = Flood(ME, NODES.__contains__)
    flood.begin(start)
    return flood


def _frame(number: int, start: int = 7, origin: NodeName = ORIGIN, body: bytes = b"") -> TreeFrame:
    return TreeFrame(origin, start, number, "say", body)


def _due(flood: Flood, edge: int) -> list[TreeFrame]:
    return [frame for frames in flood.due(edge) for frame in frames]


def test_frame_goes_out_on_all_edges_but_the_one_on_which_it_came() -> None:
    flood = _flood()
    for edge in (1, 2, 3):
        flood.open(edge, {}, 0)
    assert flood.take(1, _frame(1), 5)
    assert [_due(flood, edge) for edge in (1, 2, 3)] == [[], [_frame(1)], [_frame(1)]]


def test_frame_that_came_before_is_not_taken_again() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.open(2, {}, 0)
    assert [flood.take(edge, _frame(number), 5) for edge, number in ((1, 1), (2, 1), (1, 2), (2, 1))] == [
        True, False, True, False,
    ]  # fmt: skip
    assert flood.counts.frames_again == 2


def test_frame_that_is_not_sound_is_acknowledged_and_passed_on_to_nobody() -> None:
    flood = _flood()
    for edge in (1, 2):
        flood.open(edge, {}, 0)
    assert not flood.take(1, _frame(1, body=b"bad"), 5, lambda frame: frame.body != b"bad")
    assert _due(flood, 2) == []
    assert flood.have()[ORIGIN] == (7, 1), "it is not asked for again"
    assert flood.take(1, _frame(2), 5, lambda frame: frame.body != b"bad")
    assert _due(flood, 2) == [_frame(2)]


def test_own_frame_that_comes_back_is_not_taken() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    frame = flood.give("say", b"x", 5)
    assert not flood.take(1, frame, 6)


def test_frame_of_a_later_start_is_taken_whatever_its_number() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    assert flood.take(1, _frame(9, start=7), 5)
    assert flood.take(1, _frame(1, start=8), 6)
    assert not flood.take(1, _frame(10, start=7), 7)


def test_frame_of_a_node_that_is_not_registered_is_dropped() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.open(2, {}, 0)
    assert not flood.take(1, _frame(1, origin=STRANGER), 5)
    assert _due(flood, 2) == []
    assert STRANGER not in flood.have()


def test_frame_on_an_edge_that_is_over_is_dropped() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.close(1)
    assert not flood.take(1, _frame(1), 5)


def test_new_neighbour_is_told_what_it_lacks_in_order() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for number in range(1, 6):
        flood.take(1, _frame(number), 10)
    flood.give("say", b"mine", 11)
    flood.open(2, {ORIGIN: (7, 3)}, 0)
    assert [(frame.origin, frame.number) for frame in _due(flood, 2)] == [(ORIGIN, 4), (ORIGIN, 5), (ME, 1)]


def test_new_neighbour_is_not_told_what_was_said_before_it_started() -> None:
    flood = _flood()
    flood.give("say", b"early", 10)
    flood.give("say", b"late", 30)
    flood.open(1, {}, 20)
    assert [frame.body for frame in _due(flood, 1)] == [b"late"]


def test_no_more_than_the_window_is_under_way() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for _ in range(WINDOW_FRAMES + 10):
        flood.give("say", b"", 5)
    assert len(_due(flood, 1)) == WINDOW_FRAMES
    assert _due(flood, 1) == []
    flood.acked(1, 3)
    assert [frame.number for frame in _due(flood, 1)][:1] == [WINDOW_FRAMES + 1]


def test_item_is_bounded_in_bytes() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for _ in range(4):
        flood.give("say", bytes(FRAME_BYTES_MAX // 2), 5)
    assert [len(frames) for frames in flood.due(1)] == [2, 2]


@pytest.mark.parametrize("size", [0, OWED_BYTES // 4])
def test_frames_are_acknowledged_when_that_is_worth_a_word(size: int) -> None:
    flood, most = _flood(), 4 if size else OWED_FRAMES
    flood.open(1, {}, 0)
    assert [flood.came(1, 1, size) for _ in range(most)] == [*[0] * (most - 1), most]
    assert list(flood.all_owed()) == []


def test_what_is_left_to_acknowledge_is_so_once() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.open(2, {}, 0)
    flood.came(1, 3, 0)
    assert [list(flood.all_owed()), list(flood.all_owed())] == [[(1, 3)], []]


def test_frame_on_an_edge_that_is_over_is_acknowledged_at_once() -> None:
    assert _flood().came(1, 2, 0) == 2


def test_frame_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="the limit is 81920"):
        _flood().give("say", bytes(FRAME_BYTES_MAX + 1), 5)


def test_what_had_to_go_before_it_was_told_is_counted() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for _ in range(KEPT_FRAMES + 7):
        flood.give("say", b"", 5)
    assert _due(flood, 1)[0].number == 8
    assert flood.counts.frames_overtaken == 7


def test_what_is_kept_is_bounded_in_bytes() -> None:
    flood = _flood()
    count = KEPT_BYTES // FRAME_BYTES_MAX + 5
    for _ in range(count):
        flood.give("say", bytes(FRAME_BYTES_MAX), 5)
    flood.open(1, {}, 0)
    first = next(iter(flood.due(1)))[0]
    assert (count - first.number + 1) * FRAME_BYTES_MAX <= KEPT_BYTES


def test_numbers_tell_what_was_missed() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for number in (1, 2, 6):
        flood.take(1, _frame(number), 5)
    assert flood.counts.frames_missed == 3


def test_node_whose_clock_went_back_is_heard_all_the_same() -> None:
    flood = _flood(start=100)
    flood.give("say", b"waits", 5)
    flood.open(1, {ME: (500, 9)}, 0)
    flood.give("say", b"new", 6)
    assert [(frame.start, frame.number, frame.body) for frame in _due(flood, 1)] == [
        (501, 1, b"waits"), (501, 2, b"new"),
    ]  # fmt: skip


def test_node_that_is_registered_no_more_is_forgotten() -> None:
    nodes = {ME, ORIGIN}
    flood = Flood(ME, nodes.__contains__)
    flood.open(1, {}, 0)
    flood.take(1, _frame(1), 5)
    nodes.discard(ORIGIN)
    flood.forget_strangers()
    assert flood.have() == {}


def test_node_that_was_retired_and_is_back_is_heard_once_all_the_same() -> None:
    """(docs/protocol, TREE-18)"""
    registered = set(NODES)
    flood = Flood(ME, registered.__contains__)
    flood.begin(100)
    flood.open(1, {}, 0)
    assert flood.take(1, _frame(1), 5)
    registered.remove(ORIGIN)
    flood.forget_strangers()
    registered.add(ORIGIN)
    assert not flood.take(1, _frame(1), 6)
    assert flood.take(1, _frame(2), 6)


def test_neighbour_that_tells_of_an_earlier_start_is_told_of_the_later_one_once() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.take(1, _frame(4, start=9), 5)
    flood.close(1)
    flood.open(2, {}, 50)  # it runs since then, so that frame would not be for it
    assert _due(flood, 2) == []
    assert not flood.take(2, _frame(1, start=7), 60)
    assert [_due(flood, 2), _due(flood, 2)] == [[_frame(4, start=9)], []]
    assert not flood.take(2, _frame(2, start=7), 61)
    assert _due(flood, 2) == []


def test_neighbour_that_knows_a_later_start_is_told_of_the_earlier_one_that_is_the_last_here() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.open(2, {ORIGIN: (9, 4)}, 0)
    flood.take(1, _frame(1, start=7), 5)
    assert _due(flood, 2) == [_frame(1, start=7)]
    assert flood.take(2, _frame(4, start=9), 6)
    assert (_due(flood, 1), _due(flood, 2)) == ([_frame(4, start=9)], [])


# -- what is gone (docs/protocol, TREE-19)


def test_neighbour_is_told_what_is_gone_behind_all_that_is_kept() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    flood.take(1, _frame(1), 5)
    for _ in range(KEPT_FRAMES):
        flood.give("say", b"", 5)
    flood.open(2, {}, 0)
    assert flood.gone(2) == {}, "all that is kept comes first"
    while _due(flood, 2):
        assert flood.gone(2) == {}
        flood.acked(2, WINDOW_FRAMES)
    assert flood.gone(2) == {ORIGIN: (7, 1)}
    assert flood.gone(2) == {}, "it is told once"
    flood.check()


def test_what_was_said_before_a_neighbour_started_is_gone_to_it() -> None:
    flood = _flood()
    flood.give("say", b"early", 10)
    flood.open(1, {}, 20)
    assert (_due(flood, 1), flood.gone(1)) == ([], {ME: (100, 1)})


def test_what_is_gone_is_passed_on_to_whoever_lacks_it() -> None:
    flood = _flood()
    for edge in (1, 2, 3):
        flood.open(edge, {ORIGIN: (7, 9)} if edge == 3 else {}, 0)
    flood.take(1, _frame(1), 5)
    assert [(len(_due(flood, edge)), flood.gone(edge)) for edge in (1, 2, 3)] == [(0, {}), (1, {}), (0, {})]
    assert flood.lacked(1, {ORIGIN: (7, 4), STRANGER: (1, 1), ME: (100, 0)}) == {ORIGIN: (7, 4)}
    assert [flood.gone(edge) for edge in (1, 2, 3)] == [{}, {ORIGIN: (7, 4)}, {}]
    assert flood.lacked(2, {ORIGIN: (7, 3)}) == {}, "it is known"
    assert not flood.take(2, _frame(4), 6), "what was said to be gone does not come any more"
    assert flood.counts.frames_missed == 3


def test_who_hears_in_its_own_name_what_it_did_not_say_goes_on_above_that() -> None:
    """(docs/protocol, JUMP-4)"""
    flood = _flood(start=100)
    flood.open(1, {}, 0)
    assert flood.lacked(1, {ME: (100, 2**40)}) == {}
    flood.give("say", b"on", 5)
    assert [(frame.start, frame.number) for frame in _due(flood, 1)] == [(101, 1)]


def test_flood_of_announcements_tells_nobody_what_is_gone() -> None:
    flood = Flood(ME, NODES.__contains__, tells_gone=False)
    flood.give("announce", b"early", 10)
    flood.open(1, {}, 20)
    assert [*flood.all_due()] == []


def test_no_more_bytes_than_the_window_has_are_under_way() -> None:
    flood = _flood()
    flood.open(1, {}, 0)
    for _ in range(40):
        flood.give("say", bytes(FRAME_BYTES_MAX), 5)
    sent = _due(flood, 1)
    assert WINDOW_BYTES <= sum(len(frame.body) for frame in sent) < WINDOW_BYTES + ITEM_BYTES + FRAME_BYTES_MAX
    assert _due(flood, 1) == []
    flood.acked(1, len(sent))
    assert len(_due(flood, 1)) == len(sent)
    flood.check()
