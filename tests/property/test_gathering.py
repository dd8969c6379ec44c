"""Whatever nodes have, and however it moves: a list of all has each item once, in order; a watch knows all in the end.

Knows: nodes with items, of which each node says its part in its own time.  Does not know who is asked, nor how.
"""

from __future__ import annotations

import random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.ground.gathering import GatheredNews, GatheredPages, merged
from distkv.model.event import NodeName
from tests.profiles import examples

NODES = tuple(map(NodeName, "abc"))
NAMES = [f"n{number}" for number in range(12)]


@attrs.frozen
class Item:
    name: str
    value: int
    """0: there is nothing."""


class Items:
    @staticmethod
    def name_of(item: Item) -> str:
        return item.name

    @staticmethod
    def is_there(item: Item) -> bool:
        return item.value > 0

    @staticmethod
    def gone(name: str, node: NodeName) -> Item:  # noqa: ARG004
        return Item(name, 0)


@attrs.frozen
class SomePage:
    items: tuple[Item, ...]
    more: bool = False


@attrs.frozen
class SomeNews:
    items: tuple[Item, ...]
    position: int = 1
    is_first: bool = False
    is_last: bool = True


parts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NODES))


@examples(200)
@given(parts, st.integers(1, 5), st.integers(1, 5))
def test_pages_of_many_nodes_are_one_list_in_order_without_gaps(
    owners: dict[str, NodeName], page_max: int, limit: int
) -> None:
    """ROUTE-5."""
    found, after, is_more = list[str](), "", True
    while is_more:
        gathered = GatheredPages[SomePage]()
        for node in NODES:
            names = sorted(name for name in owners if owners[name] == node and name > after)
            items = tuple([Item(name, 1) for name in names[:page_max]])
            gathered.of[node] = SomePage(items, len(names) > page_max)
        page, is_more = merged(gathered.of.values(), Items(), limit)
        assert len(page) <= limit
        found += [item.name for item in page]
        after = found[-1] if found else ""
    assert found == sorted(owners)


def test_item_that_two_nodes_name_is_listed_once() -> None:
    pages = [SomePage((Item("n", 1),)), SomePage((Item("n", 2), Item("o", 1)))]
    assert merged(pages, Items(), 9) == ((Item("n", 2), Item("o", 1)), False)


class Watched:
    """What each node has, what a watch has to be told of it, and what its client knows."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.owners = dict[str, NodeName]()
        self.news = GatheredNews[Item](Items())
        self.untold = {node: dict[str, None]() for node in NODES}
        """By node what has changed since it told the last time."""
        self.begins = dict.fromkeys(NODES, True)
        """Whether it begins with all that it has."""
        self.known = set[str]()

    def change(self) -> None:
        name = self.chance.choice(NAMES)
        node = self.owners.pop(name, None)
        if node is None:
            node = self.owners[name] = self.chance.choice(NODES)
        self.untold[node][name] = None

    def lose(self) -> None:
        """A node begins anew: it knows nothing of what it has not told."""
        node = self.chance.choice(NODES)
        self.begins[node] = True
        for name in [name for name in self.owners if self.owners[name] == node and self.chance.random() < 0.5]:
            del self.owners[name]

    def move(self) -> None:
        """What one node had another one has from now on; all are asked anew."""
        one, other = self.chance.sample(NODES, 2)
        for name in [name for name in self.owners if self.owners[name] == one]:
            self.owners[name] = other
        self.begins = dict.fromkeys(NODES, True)
        self.news.restart()

    def tell(self, node: NodeName) -> None:
        names = [name for name in self.owners if self.owners[name] == node]
        is_first = self.begins[node]
        if not is_first:
            names = list(self.untold[node])
        items = [Item(name, int(self.owners.get(name) == node)) for name in names]
        cut = self.chance.randint(0, len(items))
        told = [SomeNews(tuple(items[:cut]), 1, is_first, is_last=False), SomeNews(tuple(items[cut:]))]
        for some in told if self.chance.random() < 0.5 else [SomeNews(tuple(items), 1, is_first)]:
            for item in self.news.take(node, some, lambda name: self.owners.get(name, node)):
                (self.known.add if item.value else self.known.discard)(item.name)
        self.begins[node] = False
        self.untold[node].clear()


@examples(200)
@given(
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(("change", "change", "change", "tell", "tell", "lose", "move")), max_size=60),
)
def test_watch_of_many_nodes_knows_in_the_end_what_there_is(chance: random.Random, doings: list[str]) -> None:
    watched = Watched(chance)
    for what in doings:
        if what == "tell":
            watched.tell(chance.choice(NODES))
        else:
            getattr(watched, what)()
    for node in NODES:
        watched.tell(node)
    assert watched.known == set(watched.owners)
    assert watched.news.complete(NODES)
    assert not watched.news.complete(NODES), "that is said once"


def test_item_that_another_node_had_and_says_so_late_is_asked_for_anew_when_that_is_over() -> None:
    """ROUTE-6."""
    one, other, _ = NODES
    news = GatheredNews[Item](Items())
    for node, value in ((other, 2), (one, 1), (one, 0)):
        told = SomeNews((Item("n", value),))
        assert news.take(node, told, lambda name, node=node: news.teller_of(name) or node) == told.items  # type: ignore[misc]
    assert other not in news.positions
    assert news.take_doubted() == [other]
    assert news.take_doubted() == []


def test_item_that_was_taken_back_before_another_node_had_it_is_asked_for_at_nobody() -> None:
    one, other, _ = NODES
    news = GatheredNews[Item](Items())
    for node, value in ((one, 1), (other, 2), (one, 0), (other, 0)):
        news.take(node, SomeNews((Item("n", value),)), lambda name, node=node: news.teller_of(name) or node)  # type: ignore[misc]
    assert news.take_doubted() == []


def test_only_who_has_an_item_says_that_it_is_gone() -> None:
    """The one that had it before may say so late (ROUTE-6)."""
    one, other, _ = NODES
    news = GatheredNews[Item](Items())
    assert news.take(one, SomeNews((Item("n", 1),)), lambda name: news.teller_of(name) or one) == (Item("n", 1),)
    assert news.take(other, SomeNews((Item("n", 2),)), lambda name: news.teller_of(name) or other) == (Item("n", 2),)
    assert news.take(one, SomeNews((Item("n", 0),)), lambda name: news.teller_of(name) or one) == ()
    assert news.take(other, SomeNews((Item("n", 0),)), lambda name: news.teller_of(name) or other) == (Item("n", 0),)


def test_page_of_a_node_that_is_not_asked_any_more_is_left_out() -> None:
    pages = GatheredPages[SomePage]()
    pages.of.update({node: SomePage((Item(f"of {node}", 1),)) for node in NODES[:2]})
    pages.keep_only(NODES[1:])
    assert [*pages.of] == [NODES[1]]
