"""Entries of topics: whatever nodes write in splits, all that see the same agree, and say what an owner lacks.

Knows: versions of an entry that no one may have written like that, and nodes in splits that write what they do.  Does
not know copies.
"""

from __future__ import annotations

from itertools import permutations

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distkv.core.topics.entries import merged, view_of
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire.topic_entries import AS_OWNER, Holder, HolderInGroup, TopicEntry, read_entry
from tests.profiles import examples
from tests.topic_nodes import A, B, C, D, TopicNode, entries_of, fleet, met

NAMES = (A, B, C, D)
HOLDERS = st.builds(Holder, st.sampled_from(NAMES), st.sampled_from((1, 2)))
NAMINGS = st.integers(AS_OWNER, 3)
MEMBERS = st.builds(lambda one, naming: HolderInGroup(one.node, one.life, naming), HOLDERS, NAMINGS)
GROUPS = st.lists(MEMBERS, min_size=1, max_size=3, unique_by=lambda one: one.holder).map(tuple)
IDS = st.lists(st.sampled_from([f"{number:016x}" for number in range(4)]), min_size=1, unique=True).map(
    lambda some: tuple(sorted(some))
)
TOPICS_ = st.builds(
    lambda followers, **fields: TopicEntry(followers=followers, namings=tuple(range(1, 1 + len(followers))), **fields),
    followers=st.lists(HOLDERS, max_size=2, unique=True).map(tuple),
    ids=IDS,
    owner=HOLDERS,
    lacks=st.lists(GROUPS, max_size=2).map(tuple),
    lost=st.booleans(),
)
DROPPED = st.builds(TopicEntry, dropped=IDS)
VERSIONS = st.lists(TOPICS_ | DROPPED, min_size=1, max_size=4)
LIVES = st.fixed_dictionaries(dict.fromkeys(NAMES, st.sampled_from((1, 2, None))))
TWO_OWNERS = [TopicEntry(ids=(f"{number:016x}",), owner=Holder(name, 1)) for number, name in enumerate((A, B))]


@example(TWO_OWNERS, dict.fromkeys(NAMES, 1))
@given(VERSIONS, LIVES)
def test_owner_is_one_in_whichever_order_versions_come(
    versions: list[TopicEntry], lives: dict[NodeName, int | None]
) -> None:
    views = [view_of("t", some, lives.get) for some in permutations(versions)]
    assert len({None if view is None else view.owner for view in views}) == 1
    assert len({None if view is None else view.ids for view in views}) == 1


@given(VERSIONS, LIVES, st.none() | st.sampled_from(NAMES), st.none() | NAMINGS, st.sets(NAMINGS))
def test_all_that_a_group_had_is_lacked_until_it_is_joined(
    versions: list[TopicEntry],
    lives: dict[NodeName, int | None],
    name: NodeName | None,
    whole: int | None,
    had: set[int],
) -> None:
    life = None if name is None else lives[name]
    taker = None if name is None or life is None else Holder(name, life)
    found = merged(versions, lives.get, taker, whole, had)
    if found is None or found.owner is None:
        return
    groups = [(group, had) for one in versions for group in one.lacks]
    groups += [(one.group, {whole} - {None}) for one in versions if one.owner != found.owner]
    for group, enough in groups:
        left = {one for one in group if lives[one.node] == one.life and one.holder != found.owner}
        if left and not any(one.holder == found.owner and one.naming in enough for one in group):
            assert any(set(lacked) <= left for lacked in found.lacks)
    for lacked in found.lacks:
        assert found.owner not in [one.holder for one in lacked]
        assert any(set(lacked) <= set(group) for group, _ in groups), "nobody is waited for without need"


@given(VERSIONS, LIVES)
def test_entry_that_says_all_versions_says_the_same_as_they_do(
    versions: list[TopicEntry], lives: dict[NodeName, int | None]
) -> None:
    before = view_of("t", versions, lives.get)
    if before is not None:
        after = view_of("t", [before.entry], lives.get)
        assert after is not None
        assert (after.entry, after.owner, after.is_settled) == (before.entry, before.owner, True)


@given(VERSIONS)
def test_entry_is_read_as_it_was_written(versions: list[TopicEntry]) -> None:
    assert [read_entry(one.packed()) for one in versions] == versions


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_refused(value: bytes) -> None:
    try:
        found = read_entry(value)
    except DecodeError:
        return
    assert (found.owner is None) == (not found.ids)


class Splits(RuleBasedStateMachine):
    """Four nodes that put into a topic, take over, replace each other and drop, in any split."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = fleet(*NAMES, replicas=2)

    @rule(node=st.integers(0, 3), alive=st.sets(st.sampled_from(NAMES)))
    def see(self, node: int, alive: set[NodeName]) -> None:
        self.nodes[node].alive(*(alive - {self.nodes[node].name}))

    @rule(node=st.integers(0, 3), over=st.sets(st.sampled_from(NAMES)), is_whole=st.booleans())
    def lease(self, node: int, over: set[NodeName], is_whole: bool) -> None:
        self.nodes[node].leases.over = over - {self.nodes[node].name}
        self.nodes[node].copies.is_whole = is_whole

    @rule(node=st.integers(0, 3))
    def put(self, node: int) -> None:
        if self.nodes[node].owners.may_begin("t"):
            self.nodes[node].put()
            assert self.nodes[node].owners.is_mine("t")

    @rule(node=st.integers(0, 3), silent=st.sets(st.sampled_from(NAMES)))
    def pass_time(self, node: int, silent: set[NodeName]) -> None:
        self.nodes[node].leases.silent = silent
        self.nodes[node].pass_ms(2000)

    @rule(one=st.integers(0, 3), other=st.integers(0, 3))
    def meet(self, one: int, other: int) -> None:
        met(self.nodes[one], self.nodes[other])

    @rule(node=st.integers(0, 3), joined=st.sampled_from(NAMES), had=st.sets(st.just(AS_OWNER)))
    def join(self, node: int, joined: NodeName, had: set[int]) -> None:
        self.nodes[node].do(lambda owners, turn: owners.joined(turn, "t", joined, had))

    @precondition(lambda self: self.nodes[0].owners.view("t") is not None)
    @rule(node=st.integers(0, 3))
    def drop(self, node: int) -> None:
        self.nodes[node].do(lambda owners, turn: owners.drop(turn, "t"))

    @rule(node=st.integers(0, 3))
    def lose(self, node: int) -> None:
        """A disk is lost: its node begins a new life."""
        lost = self.nodes[node]
        lost.life += 1
        for other in self.nodes:
            other.lives(**{lost.name: lost.life})
        lost.copies.ids.clear()
        lost.begin()

    @invariant()
    def all_that_is_lacked_is_said(self) -> None:
        for node in self.nodes:
            view = node.owners.view("t")
            if view is not None:
                must_say(node, view.entry)

    def teardown(self) -> None:
        met(*self.nodes)
        for _ in range(5):
            for node in self.nodes:
                node.leases.silent, node.leases.over = set(), set()
                node.alive(*(set(NAMES) - {node.name}))
                node.pass_ms(2000)
            met(*self.nodes)
        owners = {None if (view := node.owners.view("t")) is None else view.owner for node in self.nodes}
        assert len(owners) == 1
        assert sum(node.owners.is_mine("t") for node in self.nodes) == len(owners - {None})
        assert owners == {None} or len([*entries_of(self.nodes[0])]) == 1, "its owner said it as one"


def must_say(node: TopicNode, entry: TopicEntry) -> None:
    """The owner that a node sees is said to lack what others had at the same time."""
    lives = {one.name: one.life for one in (node,)} | {name: node.nodes.life_of(name) for name in NAMES}
    for value in entries_of(node):
        one = None if value is None else read_entry(value)
        for group in () if one is None or one.owner is None else (one.group, *one.lacks):
            left = {one for one in group if lives[one.node] == one.life and one.holder != entry.owner}
            if left and entry.owner not in [one.holder for one in group]:
                assert any(set(lacked) <= left for lacked in entry.lacks)


TestSplits = Splits.TestCase
TestSplits.settings = examples(80, stateful_step_count=30)

