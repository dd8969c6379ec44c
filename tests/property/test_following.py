"""Whom a node follows: never in a circle, whatever each believes; each writer reaches all, in few hops."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from distkv.core.following import CALM_MS, CHECK_MS, RETRY_MAX_MS, Following
from distkv.model.event import NodeName
from tests.property.follows import answer

NAMES = [NodeName(f"n{number:03}") for number in range(100)]


def _new(me: NodeName, fanout: int) -> Following:
    return Following(me, fanout, random.Random(1), is_on=True)


def _begun(following: Following, alive: list[NodeName], now_ms: int = 0) -> dict[NodeName, set[NodeName]]:
    """Whom it follows for whom, when all that it wants answers."""
    for _ in range(3):
        for follow in following.plan(now_ms, alive).values():
            answer(following, follow)
    return {name: set(parent.writers) for name, parent in following.parents.items() if parent.writers}


def _parents(
    names: list[NodeName], fanout: int, beliefs: dict[NodeName, list[NodeName]], broken: set[tuple[NodeName, NodeName]]
) -> dict[NodeName, dict[NodeName, set[NodeName]]]:
    """Per writer and node the parents, when each node believes something else about who is alive."""
    found: dict[NodeName, dict[NodeName, set[NodeName]]] = {}
    for me in names:
        following = _new(me, fanout)
        for now_ms in range(0, 20 * RETRY_MAX_MS, RETRY_MAX_MS):
            while changed := following.plan(now_ms, beliefs[me]):
                for name, follow in changed.items():
                    if (me, name) in broken:
                        following.ended(follow, "silent", now_ms)
                    else:
                        answer(following, follow)
        for parent, state in following.parents.items():
            for writer in state.writers:
                found.setdefault(writer, {}).setdefault(me, set()).add(parent)
    return found


def _has_circle(parents: dict[NodeName, set[NodeName]]) -> bool:
    done: set[NodeName] = set()
    for start in parents:
        seen, rest = set[NodeName](), [start]
        while rest:
            name = rest.pop()
            for parent in parents.get(name, ()):
                if parent == start:
                    return True
                if parent not in seen and parent not in done:
                    seen.add(parent)
                    rest.append(parent)
    return False


def test_everybody_follows_each_writer_itself_up_to_seventeen_nodes() -> None:
    """(docs/protocol, LINK-10)"""
    names = NAMES[:17]
    for me in names:
        others = [name for name in names if name != me]
        assert _begun(_new(me, 16), others) == {name: {name} for name in others}


def test_eighteenth_node_has_one_writer_through_another_node() -> None:
    names = NAMES[:18]
    found = _begun(_new(names[0], 16), names[1:])
    assert found == {**{name: {name} for name in names[2:]}, names[2]: {names[1], names[2]}}


def test_each_writer_reaches_all_in_at_most_three_hops() -> None:
    """(docs/protocol, LINK-10)"""
    for count in (3, 17, 18, 100):
        names = NAMES[:count]
        for me in names[:: max(1, count // 10)]:
            followed = _begun(_new(me, 16), [name for name in names if name != me])
            through = {writer: name for name, writers in followed.items() for writer in writers}
            assert sorted(through) == [name for name in names if name != me]
        assert max(_hops(names, writer) for writer in names[:: max(1, count // 10)]) <= (1 if count <= 17 else 3)


def _hops(names: list[NodeName], writer: NodeName) -> int:
    parents = {}
    for me in names:
        if me != writer:
            followed = _begun(_new(me, 16), [name for name in names if name != me])
            (parents[me],) = (name for name, writers in followed.items() if writer in writers)
    return max(_distance(parents, me, writer) for me in parents)


def _distance(parents: dict[NodeName, NodeName], me: NodeName, writer: NodeName) -> int:
    hops = 0
    while me != writer:
        me, hops = parents[me], hops + 1
    return hops


def test_node_of_a_large_network_follows_few_others() -> None:
    """(docs/protocol, LINK-10)"""
    for count, parents in ((18, 16), (100, 21), (300, 31), (1000, 33)):
        names = [NodeName(f"n{number:04}") for number in range(count)]
        for me in (names[0], names[count // 2]):
            assert len(_begun(_new(me, 16), [name for name in names if name != me])) == parents


def test_newcomer_moves_few_writers_at_once_and_the_others_when_nobody_comes_any_more() -> None:
    me, following = NAMES[60], _new(NAMES[60], 16)
    first = [name for name in NAMES[:80] if name not in (me, NAMES[40])]
    _begun(following, first)
    later = sorted([*first, NAMES[40]])
    began = {name for name, parent in following.parents.items() if parent.writers}
    changed = following.plan(2000, later)
    assert len(changed) <= 12
    for follow in changed.values():
        answer(following, follow)
    while more := following.plan(2100, later):
        for follow in more.values():
            answer(following, follow)
    assert len(began & {name for name, parent in following.parents.items() if parent.writers}) >= len(began) - 2
    now_ms = 2000 + 2 * CALM_MS
    assert _begun(following, later, now_ms) == _begun(_new(me, 16), later)


def test_who_is_alive_is_seen_once_in_a_second_in_a_large_network() -> None:
    """(docs/protocol, LINK-11)"""
    following = _new(NAMES[99], 16)
    _begun(following, NAMES[:50])
    assert following.plan(CHECK_MS - 1, NAMES[:51]) == {}
    wake_ms = following.wake_ms()
    assert wake_ms == CHECK_MS
    assert following.plan(wake_ms, NAMES[:51])


@given(st.integers(2, 9), st.integers(1, 4), st.data())
def test_whatever_nodes_believe_and_whoever_is_cut_off_there_is_no_circle(
    count: int, fanout: int, data: st.DataObject
) -> None:
    """(docs/protocol, LINK-12)"""
    names = NAMES[:count]
    beliefs = {
        me: [name for name in names if name != me and data.draw(st.sampled_from([True, True, False]))] for me in names
    }
    broken = {
        (me, name) for me in names for name in names if me != name and data.draw(st.sampled_from([True, False, False]))
    }
    for writer, parents in _parents(names, fanout, beliefs, broken).items():
        assert not _has_circle(parents), writer


@given(st.integers(2, 9), st.integers(1, 4), st.data())
def test_writer_that_can_be_dialled_by_all_is_followed_by_all(count: int, fanout: int, data: st.DataObject) -> None:
    names = NAMES[:count]
    beliefs = {me: [name for name in names if name != me] for me in names}
    broken = {
        (me, name)
        for me in names
        for name in names
        if name not in (me, names[0]) and data.draw(st.sampled_from([True, False, False]))
    }
    parents = _parents(names, fanout, beliefs, broken).get(names[0], {})
    assert sorted(parents) == names[1:]
    assert all((me, name) not in broken for me, some in parents.items() for name in some)


def _next_try(following: Following, now_ms: int) -> tuple[int, int]:
    """When the only other node is tried again, and the number of that follow."""
    while not (found := following.plan(now_ms, NAMES[1:2])):
        wake_ms = following.wake_ms()
        assert wake_ms is not None
        assert wake_ms > now_ms
        now_ms = wake_ms
    (follow,) = found.values()
    return now_ms, follow


def test_node_that_breaks_is_tried_again_after_longer_and_longer() -> None:
    """(docs/protocol, LINK-13)"""
    following, now_ms, waits = _new(NAMES[0], 16), 0, list[int]()
    for _ in range(10):
        begin = now_ms
        now_ms, follow = _next_try(following, now_ms)
        waits.append(now_ms - begin)
        following.began(follow)
        following.ended(follow, "broken", now_ms)
    assert waits[0] == 0
    assert 125 <= waits[1] <= 375
    assert RETRY_MAX_MS // 2 <= waits[-1] <= RETRY_MAX_MS * 3 // 2


def test_node_that_told_something_is_tried_soon_when_it_breaks() -> None:
    following, now_ms = _new(NAMES[0], 16), 0
    for _ in range(10):
        begin = now_ms
        now_ms, follow = _next_try(following, now_ms)
        assert now_ms - begin <= 375
        following.began(follow)
        following.told(follow, {})
        following.ended(follow, "broken", now_ms)


def test_writer_whose_changes_a_pull_brings_is_followed_when_that_is_over() -> None:
    """(docs/protocol, LINK-16)"""
    (me, writer), alive = NAMES[:2], NAMES[1:2]
    following = _new(me, 16)
    assert following.plan(0, alive, {writer}) == {}
    assert [*following.plan(1, alive)] == [writer]


def test_node_of_an_older_release_is_not_tried_at_once_when_it_is_heard() -> None:
    """(docs/protocol, LINK-17)"""
    following, now_ms, waits = _new(NAMES[0], 16), 0, list[int]()
    for _ in range(10):
        begin = now_ms
        now_ms, follow = _next_try(following, now_ms)
        waits.append(now_ms - begin)
        following.ended(follow, "there is no action 'follow'", now_ms, is_unknown=True)
        following.heard(NAMES[1], now_ms)
    assert waits[-1] >= RETRY_MAX_MS // 2


def test_what_is_about_an_older_follow_changes_nothing() -> None:
    following = _new(NAMES[0], 16)
    (old,) = following.plan(0, NAMES[1:2]).values()
    following.plan(0, [])
    (new,) = following.plan(0, NAMES[1:2]).values()
    following.began(old)
    following.ended(old, "broken", 0)
    assert following.parent_of(old) is None
    assert following.parent_of(new) == NAMES[1]
    assert not following.parents[NAMES[1]].is_up
    assert following.unlinked(NAMES[1:2]) == NAMES[1:2]
    following.began(new)
    assert following.unlinked(NAMES[1:2]) == []


def test_node_that_is_gone_is_followed_no_more() -> None:
    following = _new(NAMES[0], 16)
    _begun(following, NAMES[1:3])
    assert list(following.plan(0, NAMES[1:2])) == [NAMES[2]]
    assert not following.parents[NAMES[2]].writers
