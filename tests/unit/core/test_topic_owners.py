"""Who owns a topic: where it begins, who takes over, and what is said about what an owner may lack.

Knows: nodes whose stores hear of each other when a test says so.  Does not know copies or leases.
"""

from __future__ import annotations

import pytest

from distkv.core.ground.frames import Announced
from distkv.core.ground.machine import NodesChanged, ServiceWoken
from distkv.core.ground.node_calls import NodesSilent
from distkv.core.topics.taking_over import AWAY_MS, LOOK_MS, WRITES_MAX
from distkv.core.topics.topic_servers import SERVE, SILENT_MS
from distkv.core.topics.unfit_followers import UNFIT_MS
from distkv.errors import NotReadyError
from distkv.wire.declared import pack
from distkv.wire.topic_entries import (
    AS_OWNER,
    Holder,
    ServerEntry,
    TopicEntry,
    as_owner,
    read_entry,
    read_server,
    server_key,
    topic_key,
)
from distkv.wire.topic_requests import TopicSet
from distkv.wire.values import pack_value
from tests.service_steps import LIFE
from tests.topic_nodes import A, B, C, D, TopicNode, Written, entries_of, fleet, met

ANEW = LIFE + 1


def only_entry(node: TopicNode, topic: str = "t") -> TopicEntry:
    (value,) = entries_of(node, topic)
    assert value is not None
    return read_entry(value)


def begun() -> list[TopicNode]:
    """Three nodes; `a` owns the topic, and `b` follows."""
    a, b, c = fleet(A, B, C)
    a.put()
    met(a, b, c)
    b.copies.ids |= b.view().ids
    return [a, b, c]


# -- a topic begins


def test_topic_without_an_entry_goes_to_the_server_with_the_fewest() -> None:
    """TOPIC-3."""
    nodes = fleet(A, B, C)
    a, b, _ = nodes
    assert [node.owners.server_for("t") for node in nodes] == [A, A, A]
    a.put("one")
    b.put("two")
    met(*nodes)
    assert [node.owners.server_for("u") for node in nodes] == [C, C, C]


def test_topic_that_begins_has_an_owner_and_followers_behind_it() -> None:
    """TOPIC-1, TOPIC-3."""
    a, b, c = fleet(A, B, C)
    b.put()
    view = b.view()
    assert (view.owner, view.followers, view.lacking, view.is_lost) == (B, (C,), (), False)
    assert b.owners.is_mine("t")
    met(a, b, c)
    assert a.view() == b.view()


def test_ring_of_names_goes_on_with_the_first() -> None:
    *_, c = fleet(A, B, C, replicas=3)
    c.put()
    assert c.view().followers == (A, B)


def test_fewer_servers_are_enough_to_begin() -> None:
    a, *_ = fleet(A, B, C)
    a.alive()
    a.put()
    assert a.view().followers == ()
    assert a.owners.wanted_copies("t") == 2, "which people are told"


def test_node_that_is_alone_wants_one_copy_unless_the_topic_does() -> None:
    (a,) = fleet(A)
    a.put()
    assert a.owners.wanted_copies("t") == 1
    a.do(lambda owners, turn: owners.set_settings(turn, TopicSet(0, "t", min_replicas=3)))
    assert a.owners.wanted_copies("t") == 3


def test_choice_stays_while_other_topics_begin() -> None:
    a, b, c = fleet(A, B, C)
    assert c.owners.server_for("t") == A
    a.put("other")
    met(a, b, c)
    assert c.owners.server_for("t") == A
    assert c.owners.server_for("new") == B


def test_server_has_its_entry_before_it_keeps_its_first_topic() -> None:
    """TOPIC-2."""
    a, b, c = fleet(A, B, C)
    assert a.owners.keepers() == frozenset()
    written = a.do(lambda owners, turn: owners.begin_topic(turn, "t"))
    assert [one.key for one in written] == [server_key(A), topic_key("t")]
    assert read_server(written[0].value or b"") == LIFE
    met(a, b, c)
    assert c.owners.keepers() == {A, B}, "and a follower as soon as it is one"


def test_second_topic_needs_no_entry_of_the_server() -> None:
    a, *_ = fleet(A, B)
    a.put()
    assert [one.key for one in a.do(lambda owners, turn: owners.begin_topic(turn, "u"))] == [topic_key("u")]


def test_node_that_announces_that_it_keeps_no_topics_is_given_none() -> None:
    """TOPIC-2."""
    a, b, _ = fleet(A, B, C)
    b.fields.found[A] = {SERVE: False}
    assert b.owners.server_for("t") == B
    b.put()
    assert b.view().followers == (C,)
    assert a.owners.may_begin("u")


def test_topic_that_began_before_others_announced_themselves_gets_its_follower_then() -> None:
    """TOPIC-9."""
    a, *_ = fleet(A, B)
    del a.fields.found[B]
    a.put()
    a.pass_ms(2000)
    assert a.view().followers == ()
    a.fields.found[B] = {SERVE: True}
    a.step(Announced(B))
    a.pass_ms(2000)
    assert a.view().followers == (B,)


def test_node_that_is_set_to_keep_none_begins_none() -> None:
    a = TopicNode(A, (A, B), serve=False)
    assert not a.owners.may_begin("t")
    assert a.owners.server_for("t") == B
    a.alive()
    assert isinstance(a.owners.server_for("t"), NotReadyError)


def test_two_proxies_at_one_instant_make_one_topic_of_it() -> None:
    """TOPIC-4, TOPIC-5."""
    a, b, c = fleet(A, B, C)
    b.put()
    a.put()
    met(a, b, c)
    assert {node.view().owner for node in (a, b, c)} == {A}
    assert all(len(node.view().ids) == 2 for node in (a, b, c))
    assert not b.owners.is_mine("t")
    assert a.view().lacking == (B, C), "one of them is to be joined"


def test_owner_closes_the_other_versions_with_its_next_write() -> None:
    """TOPIC-4."""
    a, b, c = fleet(A, B, C)
    b.put()
    a.put()
    met(a, b, c)
    assert len([*entries_of(c)]) == 2
    a.pass_ms(2000)
    met(a, b, c)
    assert only_entry(c) == c.view().entry
    assert [node.pass_ms(5000) for node in (a, b, c)] == [0, 0, 0]


def test_version_that_nobody_was_told_of_yet_is_not_closed_unread() -> None:
    """TOPIC-4: of two entries that change at once the owner is told one after the other, and writes about both."""
    a, b, c = fleet(A, B, C)
    for name in ("t", "u"):
        b.put(name)
        a.put(name)
    a.owners.want("u")
    a.leases.silent.add(B)  # so there is something to write about u
    a.now_ms += 1000
    met(a, b, c)
    assert {name: a.view(name).ids for name in "tu"} == {name: b.view(name).ids for name in "tu"}
    assert all(len(a.view(name).ids) == 2 for name in "tu")


def test_entry_of_a_server_from_two_of_its_lives_becomes_one() -> None:
    """TOPIC-2, TOPIC-4."""
    a, *_ = begun()
    before = pack(ServerEntry(LIFE - 1))
    a.hear([Written((99, "a"), server_key(A), before, frozenset())])
    assert [read_server(value or b"") for value in a.entries.versions(server_key(A))] == [LIFE]


def test_deletion_that_lost_against_a_topic_is_closed() -> None:
    """TOPIC-4."""
    a, *_ = begun()
    a.hear([Written((0, "x"), topic_key("t"), None, frozenset())])
    assert len(a.entries.versions(topic_key("t"))) == 2
    a.pass_ms(2000)
    assert len(a.entries.versions(topic_key("t"))) == 1


# -- who takes over


def test_follower_takes_over_only_when_the_promise_is_over() -> None:
    """TOPIC-7, TOPIC-10."""
    a, b, c = begun()
    b.alive(C)
    b.do(lambda owners, _: owners.want("t"))
    assert b.pass_ms(5000) == 0
    assert not b.owners.may_begin("t")
    b.leases.over.add(A)
    b.do(lambda owners, _: owners.want("t"))
    assert b.pass_ms(1000) > 0
    assert (b.view().owner, b.view().followers, b.view().lacking) == (B, (C,), ())
    assert b.leases.taken == [("t", A)]
    met(a, b, c)
    assert not a.owners.is_mine("t")


def test_taker_keeps_a_follower_that_seems_alive_though_it_did_not_answer_once() -> None:
    """TOPIC-7."""
    a, b, c = begun()
    a.do(lambda owners, turn: owners.set_settings(turn, TopicSet(0, "t", min_replicas=3)))
    a.pass_ms(2000)
    met(a, b, c)
    b.alive(C)
    b.step(NodesSilent(frozenset({C})))
    b.leases.over.add(A)
    b.do(lambda owners, _: owners.want("t"))
    b.pass_ms(1000)
    assert (b.view().owner, b.view().followers, b.view().lacking) == (B, (C,), ())
    assert b.leases.taken == [("t", A)]


def test_nobody_waits_so_it_is_taken_over_later() -> None:
    """TOPIC-16."""
    _, b, _ = begun()
    b.alive(C)
    b.leases.over.add(A)
    assert b.pass_ms(AWAY_MS - 1000) == 0
    b.pass_ms(3000)
    assert b.view().owner == B


def test_topic_that_is_asked_for_again_and_again_is_not_looked_at_as_often_while_nobody_is_silent() -> None:
    """TOPIC-16."""
    a, *_ = begun()
    a.pass_ms(2 * LOOK_MS)
    looks = 0
    for _ in range(100):
        a.owners.want("t")
        wake_ms, a.now_ms = a.owners.wake_ms(), a.now_ms + 100
        looks += wake_ms is not None and wake_ms <= a.now_ms
        a.step(ServiceWoken())
    assert looks <= 100 * 100 // LOOK_MS + 2


def test_follower_that_refuses_a_topic_which_is_asked_for_is_replaced_within_an_eighth_of_a_lease() -> None:
    """TOPIC-9."""
    a, *_ = begun()
    a.pass_ms(2 * LOOK_MS)
    a.owners.want("t")
    a.pass_ms(LOOK_MS + a.settings.lease_ms // 6)
    a.owners.replace_follower("t", B)
    a.pass_ms(a.settings.lease_ms // 8)
    assert a.view().followers == (C,)


def test_topics_that_nobody_asks_for_wake_nobody() -> None:
    a, *_ = begun()
    a.pass_ms(2 * LOOK_MS)
    assert a.owners.wake_ms() is None


def test_owner_that_hangs_is_no_reason_to_ask_it_for_ever() -> None:
    """TOPIC-6."""
    _, b, c = begun()
    c.step(NodesSilent(frozenset({A})))
    assert c.owners.server_for("t") == B
    assert b.owners.server_for("t") == A, "its promise is not over"
    b.leases.over.add(A)
    assert b.owners.server_for("t") == B
    c.now_ms += SILENT_MS
    c.step(NodesSilent(frozenset()))
    assert c.owners.server_for("t") == A


def test_follower_that_is_not_whole_says_what_it_lacks() -> None:
    """TOPIC-7."""
    _, b, _ = begun()
    b.copies.is_whole = False
    b.leases.over.add(A)
    b.alive(C)
    b.put()
    assert (b.view().owner, b.view().lacking) == (B, (A,))
    assert b.view().entry.lacks == ((as_owner(Holder(A, LIFE)),),)


def test_owner_that_followed_the_other_one_lacks_what_that_took_at_once() -> None:
    """TOPIC-5."""
    a, b, c = fleet(A, B, C)
    a.alive()
    a.put()
    c.alive(A)
    c.put()
    assert c.view().followers == (A,)
    a.hear([*c.changes.values()])
    assert a.view().lacking == (C,)
    a.pass_ms(2000)
    assert (a.view().owner, a.view().lacking) == (A, (C,))
    met(a, b, c)
    assert b.view() == a.view()


def test_node_that_holds_nothing_begins_when_no_holder_is_reached() -> None:
    """TOPIC-8."""
    a, _, c = begun()
    c.alive(B)
    assert not c.owners.may_begin("t")
    c.alive()
    assert c.owners.may_begin("t")
    assert c.owners.server_for("t") == C
    c.put()
    assert (c.view().owner, c.view().lacking, c.view().ids) == (C, (A, B), a.view().ids)
    assert c.leases.taken == [("t", A), ("t", B)]


def test_what_was_joined_is_lacked_no_more() -> None:
    """TOPIC-5."""
    _, b, c = begun()
    c.alive()
    c.put()
    c.do(lambda owners, turn: owners.joined(turn, "t", B, {b.owners.naming_of("t")}))
    assert c.view().lacking == ()
    assert only_entry(c).lacks == ()


def test_holders_that_are_not_whole_are_all_to_be_joined() -> None:
    """TOPIC-5."""
    _, _, c = begun()
    c.alive()
    c.put()
    c.do(lambda owners, turn: owners.joined(turn, "t", B, ()))
    assert c.view().lacking == (A,)
    c.do(lambda owners, turn: owners.joined(turn, "t", A, ()))
    assert c.view().lacking == ()


def named_by_both() -> tuple[TopicNode, TopicNode, TopicNode]:
    """`b` owns a topic, and `a` follows; `c` began it beyond a split, and names `a` in the moment in which that heals:
    so the owner lacks what `c` has, and `a`, if that was whole for `c`."""
    a, b, c = fleet(A, B, C)
    b.alive(A)
    b.put()
    c.alive(A)
    c.put()
    a.hear([*b.changes.values()])
    b.hear([*c.changes.values()])
    assert (b.view().owner, b.view().followers, b.view().lacking) == (B, (A,), (A, C))
    return a, b, c


def test_copy_that_was_whole_by_another_naming_is_joined_as_a_part() -> None:
    """TOPIC-18: `a` is whole for `b`, and has nothing of what `c` took."""
    a, b, _ = named_by_both()
    b.do(lambda owners, turn: owners.joined(turn, "t", A, {a.owners.naming_of("t")}))
    assert b.view().lacking == (C,)
    b.do(lambda owners, turn: owners.joined(turn, "t", C, {AS_OWNER}))
    assert b.view().lacking == ()


def test_copy_that_was_whole_by_the_naming_that_is_meant_is_enough() -> None:
    """TOPIC-18."""
    _, b, c = named_by_both()
    b.do(lambda owners, turn: owners.joined(turn, "t", A, {c.owners.view("t").naming_of(A)}))
    assert b.view().lacking == ()


@pytest.mark.parametrize("is_meant", [False, True])
def test_taker_lacks_what_its_owner_lacked_unless_it_was_whole_by_the_naming_that_is_meant(is_meant: bool) -> None:
    """TOPIC-18, TOPIC-7."""
    a, b, c = named_by_both()
    b.pass_ms(2000)
    a.hear([*b.changes.values()])
    if is_meant:
        a.copies.former.add(c.view().naming_of(A))
    a.leases.over.add(B)
    a.alive()
    a.put()
    assert (a.view().owner, a.view().lacking) == (A, () if is_meant else (C,))


@pytest.mark.parametrize("is_whole", [False, True])
def test_follower_that_stays_is_named_anew_by_who_is_not_whole(is_whole: bool) -> None:
    """TOPIC-11: else it would be whole for the new owner, and seem to have been so for the one before."""
    a, b, c = fleet(A, B, C, replicas=3)
    a.put()
    met(a, b, c)
    before = c.owners.naming_of("t")
    b.copies.is_whole = is_whole
    b.leases.over.add(A)
    b.alive(C)
    b.put()
    c.hear([*b.changes.values()])
    assert b.view().followers == (C,)
    assert (c.owners.naming_of("t") == before) == is_whole


def test_who_is_not_the_owner_has_joined_nothing() -> None:
    _, b, c = begun()
    c.alive()
    c.put()
    b.hear([*c.changes.values()])
    assert b.do(lambda owners, turn: owners.joined(turn, "t", A, {AS_OWNER})) == []
    assert b.view().lacking == (A, B)


def test_nothing_is_taken_when_there_is_no_room_to_keep_that() -> None:
    _, b, _ = begun()
    b.leases.over.add(A)
    b.leases.is_full = True
    b.alive(C)
    b.do(lambda owners, _: owners.want("t"))
    assert b.pass_ms(1000) == 0
    assert "topic_not_taken" in b.notes
    assert not b.owners.is_mine("t")


# -- silent followers


def test_silent_follower_is_replaced() -> None:
    """TOPIC-9, TOPIC-10."""
    a, *_ = begun()
    a.leases.silent.add(B)
    a.pass_ms(2000)
    assert a.view().followers == (C,)
    assert a.leases.taken == [("t", B)]


def test_follower_that_is_passed_over_as_a_server_before_is_replaced_when_its_lease_is_over() -> None:
    """TOPIC-9: although nobody waits for the topic."""
    a, *_ = begun()
    a.step(NodesSilent(frozenset({B})))
    a.pass_ms(1000)
    assert a.view().followers == (B,)
    a.leases.silent.add(B)
    a.pass_ms(2000)
    assert a.view().followers == (C,)


def test_follower_that_cannot_keep_the_topic_is_replaced_and_not_asked_again_for_a_while() -> None:
    """TOPIC-9."""
    a, b, _ = begun()
    a.do(lambda owners, _: owners.replace_follower("t", B))
    a.pass_ms(2000)
    assert (a.view().followers, a.leases.taken) == ((C,), [("t", B)])
    a.leases.silent.add(C)
    a.pass_ms(2000)
    assert a.view().followers == ()
    a.pass_ms(UNFIT_MS)
    assert a.view().followers == (B,)
    assert b.owners.is_up(A)


def test_owner_lacks_what_a_silent_follower_has_that_gave_no_lease_since_its_start() -> None:
    """TOPIC-17."""
    a, *_ = begun()
    a.leases.silent.add(B)
    a.leases.unheard.add(B)
    a.pass_ms(2000)
    assert (a.view().followers, a.view().lacking) == ((C,), (B,))
    a.do(lambda owners, turn: owners.joined(turn, "t", B, {AS_OWNER}))
    assert a.view().lacking == ()


def test_two_followers_that_cannot_keep_the_topic_do_not_take_each_others_place_for_ever() -> None:
    """TOPIC-9."""
    a, *_ = begun()
    written = 0
    for _ in range(UNFIT_MS // 1000):  # whoever follows refuses
        for node in a.view().followers:
            a.do(lambda owners, _, node=node: owners.replace_follower("t", node))
        written += a.pass_ms(1000)
    assert (written, a.view().followers) == (2, ())


def test_owner_whose_followers_could_not_keep_the_topic_asks_them_again_though_nobody_waits() -> None:
    """TOPIC-9."""
    a, *_ = begun()
    for node in (B, C):
        a.do(lambda owners, _, node=node: owners.replace_follower("t", node))
    a.pass_ms(2000)
    assert a.view().followers == ()
    a.pass_ms(UNFIT_MS)
    assert a.view().followers == (B,)


def test_follower_that_cannot_keep_one_topic_keeps_the_others() -> None:
    a, *_ = begun()
    a.put("other")
    a.do(lambda owners, _: owners.replace_follower("t", B))
    a.pass_ms(2000)
    assert (a.view().followers, a.view("other").followers) == ((C,), (B,))


def test_follower_that_is_named_again_sees_that() -> None:
    """TOPIC-11."""
    a, b, _ = begun()
    first = b.owners.naming_of("t")
    assert first is not None
    a.leases.silent.add(B)
    a.pass_ms(2000)
    a.leases.silent = {C}
    a.pass_ms(SILENT_MS + 2000)
    b.hear([*a.changes.values()])
    assert b.view().followers == (B,)
    assert b.owners.naming_of("t") not in (None, first)


def test_follower_that_stays_has_the_number_of_its_naming() -> None:
    a, b, _ = begun()
    first = b.owners.naming_of("t")
    a.do(lambda owners, turn: owners.set_settings(turn, TopicSet(0, "t", min_replicas=3)))
    a.pass_ms(2000)
    b.hear([*a.changes.values()])
    assert (b.view().followers, b.owners.naming_of("t")) == ((B, C), first)


def test_owner_goes_on_alone_where_there_is_nobody_else() -> None:
    a, b = fleet(A, B)
    a.put()
    a.leases.silent.add(B)
    a.alive()
    a.pass_ms(2000)
    assert a.view().followers == ()
    a.leases.silent.clear()
    a.alive(B)
    a.pass_ms(SILENT_MS + 2000)
    assert a.view().followers == (B,)
    assert b.owners.view("t") is None


def test_more_copies_that_are_wanted_bring_more_followers() -> None:
    a, *_ = begun()
    a.do(lambda owners, turn: owners.set_settings(turn, TopicSet(0, "t", min_replicas=3, keep_bytes=5)))
    a.pass_ms(2000)
    view = a.view()
    assert (view.followers, view.min_replicas, view.keep_s, view.keep_bytes) == ((B, C), 3, 0.0, 5)


def test_many_topics_are_mended_some_at_a_time() -> None:
    """TOPIC-16."""
    a, *_ = fleet(A, B, C)
    for number in range(3 * WRITES_MAX):
        a.put(f"t{number}")
    a.leases.silent.add(B)
    assert 0 < a.pass_ms(1000) <= 2 * WRITES_MAX
    a.pass_ms(5000)
    assert {a.view(name).followers for name in a.owners.owned()} == {(C,)}


# -- lost disks, and nodes that are gone


def test_owner_whose_disk_is_lost_owns_nothing() -> None:
    """TOPIC-1, TOPIC-7."""
    _, b, c = begun()
    for node in (b, c):
        node.lost(a=ANEW)
    assert (c.view().owner, c.view().holders, c.owners.server_for("t")) == (None, (B,), B)
    b.pass_ms(2000)
    assert (b.view().owner, b.view().lacking) == (B, ())


def test_owner_of_two_that_lost_its_disk_counts_no_more() -> None:
    a, b, c = fleet(A, B, C)
    b.put()
    a.put()
    met(a, b, c)
    assert c.view().owner == A
    c.lost(a=ANEW)
    assert (c.view().owner, c.view().followers) == (B, (C,))


def test_copies_that_are_all_lost_let_the_topic_begin_anew() -> None:
    """TOPIC-12."""
    a, _, c = begun()
    before = c.view().ids
    c.lost(a=ANEW, b=ANEW)
    assert (c.view().is_lost, c.view().owner, c.owners.may_begin("t")) == (True, None, True)
    c.put()
    view = c.view()
    assert (view.owner, view.is_lost, view.lacking) == (C, True, ())
    assert view.ids > before, "a node that was left out before may still have a copy"
    assert a.owners.is_mine("t"), "it has not heard of that"


def test_old_disk_in_a_new_life_is_better_than_none() -> None:
    """TOPIC-12."""
    a, *_ = begun()
    a.copies.ids |= a.view().ids
    ids = a.view().ids
    a.lost(a=ANEW, b=ANEW)
    a.pass_ms(2000)
    assert (a.view().owner, a.view().ids) == (A, ids)
    assert only_entry(a).owner == Holder(A, ANEW)


def test_node_that_goes_on_in_a_new_life_has_its_disk() -> None:
    """TOPIC-1: to begin a new life is no loss; only the node itself knows."""
    a, b, c = begun()
    before = c.view()
    for node in (a, b, c):
        node.lives(a=ANEW, b=ANEW)
    assert [node.view() for node in (a, b, c)] == [before] * 3
    a.begin()
    assert (a.owners.is_mine("t"), a.pass_ms(2000)) == (True, 0)
    assert c.owners.keepers() == {A, B}


def test_node_that_keeps_its_first_topic_in_a_later_life_is_known_by_it() -> None:
    """TOPIC-1, TOPIC-2."""
    a, b, c = fleet(A, B, C)
    for node in (a, b, c):
        node.lives(a=ANEW)
    a.put()
    met(a, b, c)
    assert a.view().entry.owner == Holder(A, ANEW)
    assert c.view() == a.view()


def test_node_that_lost_its_disk_says_so_before_it_keeps_anything() -> None:
    """TOPIC-2."""
    a, b, c = begun()
    for node in (b, c):
        node.lives(a=ANEW)
    a.lost(a=ANEW)
    assert read_server(a.entries.versions(server_key(A))[0] or b"") == ANEW
    c.hear([*a.changes.values()])
    assert c.view().owner is None


def test_entry_of_a_disk_that_the_store_refuses_is_written_again() -> None:
    """TOPIC-2."""
    a, *_ = begun()
    a.is_refusing = True
    a.lost(a=ANEW)
    a.is_refusing = False
    a.step(NodesChanged())
    assert read_server(a.entries.versions(server_key(A))[0] or b"") == ANEW


def test_who_is_retired_is_waited_for_no_more() -> None:
    """TOPIC-5."""
    _, _, c = begun()
    c.alive()
    c.put()
    c.lost(a=ANEW)
    assert c.view().lacking == (B,)
    c.nodes.registered -= {B}
    c.alive()
    assert c.view().lacking == ()
    c.pass_ms(2000)
    assert only_entry(c).lacks == ()


def test_who_is_registered_again_with_its_disk_is_waited_for_again() -> None:
    """TOPIC-5."""
    _, _, c = begun()
    c.alive()
    c.put()
    c.lost(a=ANEW)
    c.nodes.registered -= {B}
    c.alive()
    assert c.view().lacking == ()
    c.nodes.registered |= {B}
    c.alive()
    assert c.view().lacking == (B,)
    c.owners.check()


def test_owner_without_its_copy_lacks_what_its_followers_have() -> None:
    """TOPIC-13."""
    a, *_ = begun()
    a.copies.ids.clear()
    a.begin()
    assert (a.view().owner, a.view().lacking, a.view().is_lost) == (A, (B,), False)


def test_owner_whose_disk_lost_a_row_lacks_what_its_followers_have() -> None:
    """TOPIC-13."""
    a, *_ = begun()
    a.copies.is_damaged = True
    a.begin()
    assert (a.view().owner, a.view().lacking, a.view().is_lost) == (A, (B,), False)


def test_owner_alone_without_its_copy_says_that_it_is_lost() -> None:
    (a,) = fleet(A)
    a.put()
    a.copies.ids.clear()
    a.begin()
    assert (a.view().owner, a.view().is_lost) == (A, True)


# -- dropped


def test_dropped_topic_is_none_and_its_ids_are_known() -> None:
    a, b, c = begun()
    ids = a.view().ids
    a.do(lambda owners, turn: owners.drop(turn, "t"))
    met(a, b, c)
    assert [node.owners.view("t") for node in (a, b, c)] == [None] * 3
    assert [node.owners.dropped("t") for node in (a, b, c)] == [ids] * 3
    a.do(lambda owners, turn: owners.forget_dropped(turn, "t"))
    met(a, b, c)
    assert [*entries_of(c)] == [None]
    assert c.owners.dropped("t") == frozenset()


def test_topic_that_begins_where_one_was_dropped_is_another_one() -> None:
    """TOPIC-14."""
    a, *_ = begun()
    ids = a.view().ids
    a.do(lambda owners, turn: owners.drop(turn, "t"))
    a.put()
    assert a.view().ids.isdisjoint(ids)
    assert a.owners.dropped("t") == ids
    a.do(lambda owners, turn: owners.forget_dropped(turn, "t"))
    assert a.owners.dropped("t") == frozenset()
    assert a.owners.is_mine("t")


def test_write_of_a_holder_that_did_not_know_of_the_drop_keeps_the_topic() -> None:
    """TOPIC-14."""
    a, b, c = begun()
    ids = a.view().ids
    a.do(lambda owners, turn: owners.drop(turn, "t"))
    b.leases.over.add(A)
    b.alive()
    b.put()
    met(a, b, c)
    assert {node.view().owner for node in (a, b, c)} == {B}
    assert (c.view().ids, c.owners.dropped("t")) == (ids, frozenset())


# -- what cannot be read


@pytest.mark.parametrize("value", [b"\xc0", b"\x80", pack_value({"owner": ["a", 7]}), pack_value("text")])
def test_entry_that_nobody_can_read_costs_its_topic_and_no_other(value: bytes) -> None:
    """TOPIC-15."""
    a, *_ = begun()
    a.hear([Written((99, "x"), topic_key("bad"), value, frozenset())])
    assert "topic_entry_bad" in a.notes
    assert isinstance(a.owners.server_for("bad"), NotReadyError)
    assert not a.owners.may_begin("bad")
    assert a.owners.is_mine("t")
    with pytest.raises(NotReadyError, match=r"the entry of the topic 'bad' cannot be read here"):
        a.put("bad")


def test_version_that_can_be_read_counts_beside_one_that_cannot() -> None:
    a, *_ = begun()
    a.hear([Written((99, "x"), topic_key("t"), b"\xc0", frozenset())])
    assert a.owners.is_mine("t")
    a.pass_ms(2000)
    assert only_entry(a) == a.view().entry


def test_entries_that_are_no_topic_or_server_are_passed_over() -> None:
    a, *_ = begun()
    for number, key in enumerate(("", "topic", "other\0x", "topic\0a\x07", "server\0not a name"), 90):
        a.hear([Written((number, "x"), key, pack_value({"life": 1}), frozenset())])
    a.hear([Written((99, "x"), server_key(D), pack_value("text"), frozenset())])
    assert a.owners.names() == ["t"]
    assert "topic_server_bad" in a.notes
    assert D not in a.owners.keepers()


def test_write_that_the_store_refuses_is_made_again() -> None:
    a, *_ = fleet(A, B)
    a.is_refusing = True
    a.put()
    assert [*entries_of(a)] == []
    assert a.owners.is_mine("t"), "what was stored meanwhile belongs to this topic"
    a.is_refusing = False
    a.pass_ms(2000)
    assert only_entry(a) == a.view().entry


# -- for leases


def test_leases_are_needed_of_followers_and_owners_that_are_quiet_are_asked() -> None:
    a, b, c = begun()
    assert (a.owners.needed(), b.owners.needed()) == ({B}, frozenset())
    assert (a.owners.peers(), b.owners.peers()) == ({B}, frozenset())
    assert (b.owners.suspects(), c.owners.suspects()) == ({A}, frozenset())


def test_what_was_taken_is_known_when_the_store_shows_it() -> None:
    a, b, c = begun()
    assert not a.owners.knows_taken("t", B)
    b.leases.over.add(A)
    b.alive(C)
    b.put()
    a.hear([*b.changes.values()])
    assert a.owners.knows_taken("t", B)
    assert c.owners.knows_taken("t", B), "it is no topic of this node"


def test_what_was_taken_and_lost_again_is_known_when_the_store_shows_it() -> None:
    a, b, _ = begun()
    b.leases.over.add(A)
    b.alive(C)
    b.put()
    assert not b.owners.is_taken_back("t", A)
    a.do(lambda owners, turn: owners.set_settings(turn, TopicSet(0, "t", keep_bytes=5)))
    b.hear([*a.changes.values()])
    assert (b.view().owner, b.owners.is_taken_back("t", A)) == (A, False), "its version is still there"
    a.hear([*b.changes.values()])
    a.pass_ms(2000)
    b.hear([*a.changes.values()])
    assert b.owners.is_taken_back("t", A)


def test_nothing_stays_taken_from_a_node_that_is_gone() -> None:
    a, b, _ = begun()
    b.leases.over.add(A)
    b.alive(C)
    b.put()
    b.nodes.registered -= {A}
    assert b.owners.is_taken_back("t", A)
    a.nodes.registered -= {B}
    assert a.owners.knows_taken("t", B)


def test_silent_node_is_asked_first_again_when_its_time_is_over() -> None:
    _, _, c = begun()
    d = TopicNode(D, (A, B, C, D))
    d.hear([*c.changes.values()])
    d.step(NodesSilent(frozenset({A})))
    assert d.owners.server_for("t") == B
    d.pass_ms(SILENT_MS + 2000)
    assert (d.owners.server_for("t"), d.owners.wake_ms()) == (A, None)


def test_entry_that_the_store_refused_counts_until_another_owner_has_what_was_taken_under_it() -> None:
    """TOPIC-4."""
    a, b, _ = fleet(A, B, C)
    b.is_refusing = True
    b.put()
    assert b.view().owner == B
    a.put()
    b.hear(list(a.changes.values()))
    assert (b.view().owner, b.view().lacking) == (A, (B, C))
    b.owners.given("t")
    assert b.view() == a.view()


def test_entry_that_the_store_refused_stays_with_its_owner() -> None:
    _, b, _ = fleet(A, B, C)
    b.is_refusing = True
    b.put()
    b.owners.given("t")
    assert b.view().owner == B
