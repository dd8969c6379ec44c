"""The machine of one node in the server tree, told things one by one (docs/protocol, TREE-1 to TREE-9)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.edges import (
    TAKEN_ITEMS,
    Close,
    Dial,
    EdgeAsked,
    EdgeEffect,
    EdgeEnded,
    EdgeTaken,
    EdgeTold,
    FramesGiven,
    NodeMeasured,
    Say,
    TreeInput,
    TreeTurn,
)
from distkv.core.server_tree.backlog import ITEMS_MAX
from distkv.core.server_tree.children import TELL_MS
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import DEPTH_MAX, TreePeer, candidates
from distkv.core.server_tree.phase import TRANSITIONS, TreeCause, TreePhase
from distkv.core.server_tree.search import INQUIRY_MS
from distkv.core.server_tree.settings import TreeSettings
from distkv.model.event import NodeName
from distkv.wire.announcing import Announcement
from distkv.wire.edges import (
    EdgeItem,
    FramesAcked,
    FramesHeld,
    Join,
    ParentOffer,
    ParentRefusal,
    ServerInfo,
    ServiceAcked,
    ServiceFrames,
    SignOfLife,
    SubtreeHeight,
    SubtreeTold,
    TreeFrame,
    TreeFrames,
)

ANNOUNCE_MS = 5000
ME, A, B, C, D = (NodeName(name) for name in "mabcd")
NODES = (A, B, C, D)
NOTHING = FramesHeld({}, 0)


def _peers(*names: NodeName) -> dict[NodeName, TreePeer]:
    return {name: TreePeer(f"{name}:1", 1.0) for name in names}


class _Ground:
    """What the machine looks up."""

    def __init__(self, peers: dict[NodeName, TreePeer]) -> None:
        self.seen = peers

    def is_registered(self, name: NodeName, life: int | None = None) -> bool:
        return name in {ME, *NODES} and life in (None, 1)

    def peers(self, now_ms: int) -> dict[NodeName, TreePeer]:  # noqa: ARG002
        return self.seen


class _Tree(ServerTree):
    """The machine, and what it wants done."""

    def __init__(self, *peers: NodeName, fanout: int = 2) -> None:
        self.ground = _Ground(_peers(*peers))
        self._turn, self._asks = TreeTurn(0), 0
        super().__init__(TreeSettings(ME, "m:1", fanout, ANNOUNCE_MS), Random(1), self.ground)

    def do(self, now_ms: int, what: TreeInput | None) -> None:
        turn = TreeTurn(now_ms)
        self.step(turn, what)
        self.check()
        self._turn.effects += turn.effects

    def start(self) -> None:
        self.begin(self._turn, 1)

    def woken(self, now_ms: int) -> None:
        self.do(now_ms, None)

    def asked(self, name: NodeName, now_ms: int, life: int = 1) -> int:
        self._asks += 1
        self.do(now_ms, EdgeAsked(self._asks, name, life))
        return self._asks

    def told(self, edge: int, item: EdgeItem, now_ms: int) -> None:
        self.do(now_ms, EdgeTold(edge, item))

    def ended(self, edge: int, now_ms: int) -> None:
        self.do(now_ms, EdgeEnded(edge))

    def take(self) -> list[EdgeEffect]:
        found = self._turn.effects[:]
        self._turn.effects.clear()
        return found


def _tree(*peers: NodeName, fanout: int = 2) -> _Tree:
    """A node that has just begun to serve, at time 0."""
    tree = _Tree(*peers, fanout=fanout)
    tree.start()
    return tree


def _root(*peers: NodeName, fanout: int = 2) -> _Tree:
    """A node that found nobody in time."""
    tree = _tree(fanout=fanout)
    tree.woken(ANNOUNCE_MS)
    tree.ground.seen = _peers(*peers)
    tree.take()
    assert tree.phase is TreePhase.ROOT
    return tree


def _dialled(effects: Sequence[EdgeEffect]) -> tuple[int, NodeName]:
    (found,) = ((effect.edge, effect.name) for effect in effects if isinstance(effect, Dial))
    return found


def _said(effects: Sequence[EdgeEffect], edge: int) -> list[EdgeItem]:
    return [effect.item for effect in effects if isinstance(effect, Say) and effect.edge == edge]


def _closed(effects: Sequence[EdgeEffect]) -> list[int]:
    return [effect.edge for effect in effects if isinstance(effect, Close)]


def _attached(path: tuple[NodeName, ...] = (A,)) -> tuple[_Tree, int]:
    """A child of the first of `path`, at time 0, and the edge."""
    tree = _tree(*NODES)
    tree.woken(0)
    while (found := _dialled(tree.take()))[1] != path[0]:
        tree.told(found[0], ParentRefusal("circle"), 0)
    edge, _ = found
    tree.told(edge, ParentOffer(path, 1), 0)
    tree.told(edge, ServerInfo(path, 1, 1, *NOTHING), 0)
    tree.take()
    assert tree.phase is TreePhase.ATTACHED
    return tree, edge


def _child(tree: _Tree, name: NodeName, height: int = 0, now_ms: int = 0) -> int:
    edge = tree.asked(name, now_ms)
    tree.told(edge, Join(height, *NOTHING), now_ms)
    return edge


# -- phases -------------------------------------------------------------------------------------------------------


def test_every_phase_can_be_left_and_each_but_the_first_is_reached() -> None:
    assert {before for before, _ in TRANSITIONS} == set(TreePhase)
    assert {*TRANSITIONS.values()} == set(TreePhase) - {TreePhase.OUT}
    assert {cause for _, cause in TRANSITIONS} == set(TreeCause)


def test_node_that_does_not_serve_is_no_parent() -> None:
    tree = _Tree()
    edge = tree.asked(A, 0)
    assert _said(tree.take(), edge) == [ParentRefusal("out")]
    assert tree.wake_ms() is None
    tree.woken(0)
    assert tree.take() == []


def test_node_that_finds_nobody_is_a_root_after_the_time_of_an_announcement() -> None:
    tree = _tree()
    tree.woken(ANNOUNCE_MS - 1)
    assert tree.phase is TreePhase.LOOKING
    tree.woken(2 * ANNOUNCE_MS)
    assert (tree.phase, tree.path, tree.level) == (TreePhase.ROOT, (ME,), 0)


# -- asking -------------------------------------------------------------------------------------------------------


def test_node_that_does_not_answer_is_given_up() -> None:
    tree = _tree(A, B)
    tree.woken(0)
    edge, first = _dialled(tree.take())
    tree.woken(INQUIRY_MS)
    effects = tree.take()
    assert _closed(effects) == [edge]
    assert _dialled(effects)[1] != first


@pytest.mark.parametrize("path", [(), (A, ME), (A, B, ME)])
def test_offer_that_would_be_a_circle_is_not_taken(path: tuple[NodeName, ...]) -> None:
    tree = _tree(A)
    tree.woken(0)
    edge, _ = _dialled(tree.take())
    tree.told(edge, ParentOffer(path, 1), 0)
    assert edge in _closed(tree.take())
    assert tree.parent is None


def test_offer_that_is_too_deep_leads_to_the_nodes_above() -> None:
    """(docs/protocol, TREE-15)"""
    tree = _tree(A, B)
    tree.woken(0)
    edge, name = _dialled(tree.take())
    above = A if name == B else B
    way = [NodeName(f"x{number}") for number in range(DEPTH_MAX - 1)]
    tree.told(edge, ParentOffer((name, *way, above), 1), 0)
    assert _dialled(tree.take())[1] == above


def test_refusal_that_names_others_leads_to_them() -> None:
    """(docs/protocol, TREE-15)"""
    tree = _tree(A, B, C)
    tree.woken(0)
    edge, name = _dialled(tree.take())
    other = next(one for one in (C, B, A) if one != name)
    tree.told(edge, ParentRefusal("full", (other,)), 0)
    assert _dialled(tree.take())[1] == other


def test_second_offer_and_early_info_change_nothing() -> None:
    tree = _tree(A)
    tree.woken(0)
    edge, _ = _dialled(tree.take())
    tree.told(edge, ServerInfo((A,), 1, 1, *NOTHING), 0)
    assert tree.parent is None
    tree.told(edge, ParentOffer((A,), 1), 0)
    tree.told(edge, ParentOffer((A, B), 1), 0)
    assert [type(item) for item in _said(tree.take(), edge)] == [Join]


def test_parent_that_tells_a_circle_is_left() -> None:
    tree, edge = _attached()
    tree.told(edge, ServerInfo((A, ME), 1, 2), 10)
    assert edge in _closed(tree.take())
    assert tree.statistics()["parents_lost"] == 1


def test_parent_that_announces_nothing_is_left() -> None:
    tree, edge = _attached()
    tree.woken(3 * ANNOUNCE_MS)
    assert tree.parent == A
    tree.woken(3 * ANNOUNCE_MS + 1)
    assert edge in _closed(tree.take())


# -- telling all below --------------------------------------------------------------------------------------------


def test_node_joins_only_when_all_below_were_told() -> None:
    tree, edge = _attached()
    child = _child(tree, B)
    tree.take()
    tree.ended(edge, 100)
    effects = tree.take()
    (told,) = (item for item in _said(effects, child) if isinstance(item, ServerInfo))
    assert told.path == ()
    inquiry, name = _dialled(effects)
    while name != C:
        tree.told(inquiry, ParentRefusal("circle"), 100)
        inquiry, name = _dialled(tree.take())
    tree.told(inquiry, ParentOffer((C,), 1), 100)
    assert _said(tree.take(), inquiry) == []
    tree.told(child, SubtreeTold(told.turn), 150)
    assert [type(item) for item in _said(tree.take(), inquiry)] == [Join]


def test_child_that_does_not_say_that_all_were_told_is_a_child_no_longer() -> None:
    tree, edge = _attached()
    child = _child(tree, B)
    tree.ended(edge, 100)
    tree.take()
    tree.woken(100 + 2 * TELL_MS)
    assert child in _closed(tree.take())
    assert tree.children == []


def test_node_below_a_lost_parent_takes_no_children_and_says_so() -> None:
    tree, edge = _attached((A, B))
    asking = tree.asked(C, 0)
    tree.take()
    tree.told(edge, ServerInfo((), 1, 5), 10)
    effects = tree.take()
    assert _said(effects, asking) == [ParentRefusal("detached")]
    assert _said(effects, edge) == [SubtreeTold(5)]
    assert (tree.phase, tree.level) == (TreePhase.PENDING, None)
    other = tree.asked(D, 20)
    assert _said(tree.take(), other) == [ParentRefusal("detached")]
    tree.told(edge, ServerInfo((A, C), 1, 6), 30)
    assert (tree.phase, tree.path) == (TreePhase.ATTACHED, (ME, A, C))


def test_node_says_that_all_were_told_only_after_each_of_its_children_did() -> None:
    """docs/protocol, TREE-3: else a node above could join below itself."""
    tree, edge = _attached((A, B))
    children = [_child(tree, name) for name in (C, D)]
    tree.take()
    tree.told(edge, ServerInfo((), 1, 5), 10)
    effects = tree.take()
    assert _said(effects, edge) == []
    for at, child in enumerate(children):
        (told,) = (item for item in _said(effects, child) if isinstance(item, ServerInfo))
        assert told.path == ()
        tree.told(child, SubtreeTold(told.turn), 20 + at)
        assert _said(tree.take(), edge) == ([SubtreeTold(5)] if at else [])


# -- children -----------------------------------------------------------------------------------------------------


def test_node_in_our_path_is_no_child() -> None:
    tree, _ = _attached((A, B))
    edge = tree.asked(B, 0)
    assert _said(tree.take(), edge) == [ParentRefusal("circle")]


def test_node_with_its_number_of_children_names_them() -> None:
    tree = _root(fanout=2)
    _child(tree, A)
    _child(tree, B)
    tree.take()
    edge = tree.asked(C, 0)
    assert _said(tree.take(), edge) == [ParentRefusal("full", (A, B))]


def test_child_that_makes_the_tree_too_deep_is_refused() -> None:
    tree = _root()
    edge = tree.asked(A, 0)
    tree.told(edge, Join(DEPTH_MAX, *NOTHING), 0)
    effects = tree.take()
    assert ParentRefusal("deep", ()) in _said(effects, edge)
    assert tree.children == []


def test_child_that_attaches_again_takes_its_own_place() -> None:
    tree = _root(fanout=1)
    older = _child(tree, A, 1)
    tree.take()
    edge = _child(tree, A)
    effects = tree.take()
    assert older in _closed(effects)
    assert tree.children == [A]
    infos = [item for item in _said(effects, edge) if isinstance(item, ServerInfo)]
    assert [item.past is not None for item in infos] == [True, *[False] * (len(infos) - 1)]
    assert len(infos) > 1, "it loses the older child, and is not as high as before"


def test_node_that_asked_and_never_joins_is_given_up() -> None:
    tree = _root()
    edge = tree.asked(A, 0)
    tree.take()
    tree.woken(60_000)
    assert edge in _closed(tree.take())


def test_height_goes_up_to_the_root() -> None:
    tree, up = _attached()
    child = _child(tree, B)
    assert _said(tree.take(), up) == [SubtreeHeight(1)]
    tree.told(child, SubtreeHeight(3), 0)
    assert _said(tree.take(), up) == [SubtreeHeight(4)]
    tree.ended(child, 0)
    assert _said(tree.take(), up) == [SubtreeHeight(0)]


# -- edges ---------------------------------------------------------------------------------------------------------


def test_edge_whose_other_end_takes_nothing_ends() -> None:
    """docs/protocol, TREE-11."""
    tree = _root()
    child = _child(tree, A)
    said, frames = len(_said(tree.take(), child)), 0
    while child not in _closed(effects := tree.take()):
        assert not effects or len(_said(effects, child)) == 1
        frames += 1
        frame = TreeFrame(A, 1, frames, "say", b"")
        tree.told(child, TreeFrames((frame,)), 0)
    assert said + frames == ITEMS_MAX + 1
    assert tree.children == []
    assert tree.statistics()["edge_overrun"] == 1


def test_edge_whose_other_end_takes_what_is_said_goes_on() -> None:
    tree = _root()
    child = _child(tree, A)
    for number in range(1, 4 * ITEMS_MAX):
        tree.told(child, TreeFrames((TreeFrame(A, 1, number, "say", b""),)), 0)
        if number % TAKEN_ITEMS == 0:
            tree.do(0, EdgeTaken(child, TAKEN_ITEMS))
    assert tree.children == [A]


def test_node_is_no_parent_of_itself_nor_of_an_earlier_life_nor_of_a_stranger() -> None:
    tree = _root()
    edges = [tree.asked(ME, 0), tree.asked(A, 0, life=2), tree.asked(NodeName("stranger"), 0)]
    effects = tree.take()
    assert [_said(effects, edge) for edge in edges] == [[ParentRefusal("unknown")]] * 3
    assert _closed(effects) == edges


def test_node_that_answers_at_the_address_of_another_one_is_no_parent() -> None:
    """(docs/protocol, TREE-17)"""
    tree = _tree(A)
    tree.woken(0)
    edge, _ = _dialled(tree.take())
    tree.told(edge, ParentOffer((B,), 1), 0)
    assert edge in _closed(tree.take())
    assert tree.parent is None


def test_load_is_announced() -> None:
    tree = _tree()
    tree.do(0, NodeMeasured(7, {}))
    tree.woken(ANNOUNCE_MS)
    tree.woken(2 * ANNOUNCE_MS)
    assert tree.announced[ME].load == 7


# -- two trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offer", "goes"),
    [
        (ParentOffer((A,), 3), True),
        (ParentOffer((A,), 0), True),
        (ParentOffer((A, NodeName("z")), 0), False),
        (ParentOffer((A, NodeName("z")), 3), True),
    ],
    ids=["higher", "smaller root", "larger root", "higher, larger root"],
)
def test_root_attaches_to_the_better_tree(offer: ParentOffer, goes: bool) -> None:
    tree = _root(A)
    tree.woken(2 * ANNOUNCE_MS)
    edge, _ = _dialled(tree.take())
    tree.told(edge, offer, 2 * ANNOUNCE_MS)
    assert [type(item) for item in _said(tree.take(), edge)] == ([Join] if goes else [])
    assert tree.phase is (TreePhase.LOOKING if goes else TreePhase.ROOT)


def test_nodes_of_which_nothing_comes_are_apart() -> None:
    tree = _root(A, B)
    assert tree.apart(0) == [A, B]


# -- whom to ask --------------------------------------------------------------------------------------------------


def _announcement(level: int, *, children: int = 0, parent: NodeName | None = None) -> Announcement:
    return Announcement("h:1", 0, level, 0, children, parent)


def test_shallowest_node_with_a_free_place_is_asked_first() -> None:
    """(docs/protocol, TREE-5)"""
    announced = {A: _announcement(1), B: _announcement(0, children=2), C: _announcement(0), D: _announcement(5)}
    assert candidates(ME, 1, 2, _peers(*NODES), announced, None) == [C, A]


def test_nearer_node_is_asked_first_on_one_level() -> None:
    """(docs/protocol, TREE-5)"""
    peers = {A: TreePeer("a:1", 9.0), B: TreePeer("b:1", 1.0), C: TreePeer("c:1", 1.0)}
    announced = {name: _announcement(1) for name in peers}
    assert candidates(ME, 0, 2, peers, announced, None) == [B, C, A]


def test_nodes_without_a_connection_are_asked_when_there_are_no_others() -> None:
    """(docs/protocol, TREE-5)"""
    peers = {A: TreePeer("a:1"), B: TreePeer("b:1", 1.0)}
    announced = {name: _announcement(1) for name in peers}
    assert candidates(ME, 0, 2, peers, announced, None) == [B]
    assert candidates(ME, 0, 2, {A: peers[A]}, announced, None) == [A]


@pytest.mark.parametrize(("fanout", "expected"), [(2, [B, A, C, D]), (1, [D, C, B, A]), (4, [A, B, C, D])])
def test_node_that_knows_no_place_asks_its_parent_by_name_first(fanout: int, expected: list[NodeName]) -> None:
    """Ours is the last name of five; so many nodes that start at once do not all ask one (docs/protocol, TREE-14)."""
    assert candidates(ME, 0, fanout, _peers(*NODES), {}, None) == expected


def test_node_with_a_free_place_is_asked_before_those_that_announced_nothing() -> None:
    """(docs/protocol, TREE-14)"""
    assert candidates(ME, 0, 2, _peers(*NODES), {D: _announcement(1)}, None)[0] == D


def test_children_of_a_lost_root_ask_those_before_them() -> None:
    """(docs/protocol, TREE-16)"""
    announced = {A: _announcement(0), B: _announcement(1, parent=A), NodeName("z"): _announcement(1, parent=A)}
    peers = _peers(A, B, NodeName("z"))
    assert candidates(ME, 0, 2, peers, announced, A) == [A, B]


# -- nonsense -----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from([ME, *NODES, NodeName("stranger")])
PATHS = st.lists(NAMES, max_size=4, unique=True).map(tuple)
LAST = st.dictionaries(NAMES, st.tuples(st.integers(0, 9), st.integers(0, 9)))
SERVICES = st.none() | st.dictionaries(st.sampled_from(["say", "hum"]), LAST)
FRAMES = st.builds(
    TreeFrame, NAMES, st.integers(0, 5), st.integers(0, 5), st.sampled_from(["announce", "say"]), st.binary(max_size=9)
)
ITEMS: st.SearchStrategy[EdgeItem] = st.one_of(
    st.builds(ParentOffer, PATHS, st.integers(0, 9)),
    st.builds(ParentRefusal, st.sampled_from(["full", "deep", "detached", "?"]), PATHS),
    st.builds(Join, st.integers(0, 9), LAST, st.integers(0, 99), SERVICES),
    st.builds(ServerInfo, PATHS, st.integers(0, 9), st.integers(0, 9), st.none() | LAST, st.integers(0, 99), SERVICES),
    st.builds(SubtreeHeight, st.integers(0, 9)),
    st.builds(SubtreeTold, st.integers(0, 2**40)),
    st.builds(TreeFrames, st.lists(FRAMES, max_size=3).map(tuple)),
    st.builds(FramesAcked, st.integers(0, 2**40)),
    st.builds(
        ServiceFrames, st.just("say"), st.lists(FRAMES.filter(lambda one: one.service == "say"), max_size=3).map(tuple),
        st.dictionaries(NAMES, st.tuples(st.integers(0, 9), st.integers(0, 2**40)), max_size=2),
    ),
    st.builds(ServiceAcked, st.just("say"), st.integers(0, 2**40)),
    st.just(SignOfLife()),
)
DEEDS = st.one_of(
    st.tuples(st.just("told"), st.integers(-8, 8), ITEMS),
    st.tuples(st.just("ended"), st.integers(-8, 8), st.none()),
    st.tuples(st.just("taken"), st.integers(-8, 8), st.none()),
    st.tuples(st.just("asked"), NAMES, st.none()),
    st.tuples(st.just("woken"), st.integers(1, 9000), st.none()),
    st.tuples(st.just("give"), st.binary(max_size=9), st.none()),
)


@given(deeds=st.lists(DEEDS, max_size=60))
def test_whatever_others_say_the_machine_stays_in_one_piece(deeds: list[tuple[str, object, EdgeItem | None]]) -> None:
    tree, now_ms, open_edges = _tree(*NODES), 0, set[int]()
    for deed, what, item in deeds:
        if deed == "told" and isinstance(what, int) and item is not None:
            tree.told(what, item, now_ms)
        elif deed == "ended" and isinstance(what, int):
            open_edges.discard(what)
            tree.ended(what, now_ms)
        elif deed == "taken" and isinstance(what, int):
            tree.do(now_ms, EdgeTaken(what, TAKEN_ITEMS))
        elif deed == "asked":
            open_edges.add(tree.asked(NodeName(str(what)), now_ms))
        elif deed == "woken" and isinstance(what, int):
            now_ms += what
            tree.woken(now_ms)
        elif isinstance(what, bytes):
            tree.do(now_ms, FramesGiven("say", [what]))
        for effect in tree.take():
            match effect:
                case Dial(edge=edge):
                    open_edges.add(edge)
                case Close(edge=edge):
                    open_edges.discard(edge)
                case Say(edge=edge):
                    assert edge in open_edges, "nothing is said on an edge that is over"
        assert bool(tree.path) == (tree.phase in (TreePhase.ROOT, TreePhase.ATTACHED))
        assert not tree.path or (tree.path[0] == ME and len({*tree.path}) == len(tree.path) <= DEPTH_MAX + 1)
        assert len(tree.children) <= 2
        assert ME not in tree.children
        assert tree.wake_ms() is not None
