"""What comes of one question to many nodes: the pages of a list, or how far a watch is at each of them.

Knows: what each node has said.  Does not know which nodes are asked, nor when, nor what the items are.

Invariant: a list has nothing from behind the end of a page that is not the last one of its node: what stands there is
not known of all nodes. A watch tells an item as gone when a node was said to have it, and it is not among all that this
node has. So nothing is lost when a node begins anew, or its part goes to another one: then each tells anew all that it
has. Nor is it when a node that had an item says late, and after the one that has it, that it was there and is not: then
that one is asked for all anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from distkv.model.event import NodeName

I = TypeVar("I")  # noqa: E741 - an item
I_co = TypeVar("I_co", covariant=True)


class ItemForm(Protocol[I]):
    """What there is to know of items."""

    def name_of(self, item: I) -> str:
        """By this they are told apart, and ordered."""

    def is_there(self, item: I) -> bool:
        """Whether it says that there is something."""

    def gone(self, name: str, node: NodeName) -> I:
        """What says that there is nothing by this name, at this node."""


class PartPage(Protocol[I_co]):
    """What one node has of a list, in the order of names."""

    @property
    def items(self) -> Sequence[I_co]: ...
    @property
    def more(self) -> bool:
        """Whether there are further ones, behind the last name."""


class PartNews(Protocol[I_co]):
    """What one node tells a watch."""

    @property
    def items(self) -> Sequence[I_co]: ...
    @property
    def position(self) -> int:
        """Behind which to ask on."""

    @property
    def is_first(self) -> bool:
        """Whether this begins all that the node has."""

    @property
    def is_last(self) -> bool:
        """Whether there is no more for now."""


P = TypeVar("P", bound=PartPage[object])


class GatheredPages(Generic[P]):
    """Of one list."""

    def __init__(self) -> None:
        self.of: Final = dict[NodeName, P]()
        """What came."""

    def keep_only(self, nodes: Collection[NodeName]) -> None:
        """Others are not asked any more."""
        for node in [node for node in self.of if node not in nodes]:
            del self.of[node]

    def restart(self) -> None:
        """All nodes are asked anew."""
        self.of.clear()


def merged(pages: Iterable[PartPage[I]], form: ItemForm[I], limit: int) -> tuple[tuple[I, ...], bool]:
    """The pages of many nodes as one of so many items at most, and whether there are further ones. Of two items of one
    name the later page's counts."""
    items = dict[str, I]()
    is_more, last = False, None
    for page in pages:
        items |= {form.name_of(item): item for item in page.items}
        if page.more and page.items:  # what is behind its last name is not known
            end = form.name_of(page.items[-1])
            last, is_more = end if last is None else min(last, end), True
    names = sorted(name for name in items if last is None or name <= last)
    return tuple([items[name] for name in names[:limit]]), is_more or len(names) > limit


class GatheredNews(Generic[I]):
    """Of one watch."""

    def __init__(self, form: ItemForm[I]) -> None:
        self._form: Final = form
        self.positions: Final = dict[NodeName, int]()
        """How far it is at each node."""
        self._shown: Final = dict[str, NodeName]()
        """The items of which the client was told last that they are there, and who said so."""
        self._beside: Final = dict[str, dict[NodeName, None]]()
        """Who else had said so, and has not taken it back."""
        self._doubted: Final = dict[NodeName, None]()
        """Who is to be asked for all anew, at once."""
        self._telling: Final = dict[NodeName, dict[str, None]]()
        """Of each node that tells all that it has, what it told so far."""
        self._whole: Final = dict[NodeName, None]()
        """The nodes that have told all that they have."""
        self._is_complete = False

    def keep_only(self, nodes: Collection[NodeName]) -> None:
        """Others are not asked any more."""
        for node in [node for node in self.positions if node not in nodes]:
            del self.positions[node]

    def restart(self) -> None:
        """All nodes are asked anew for all."""
        self.positions.clear()
        self._telling.clear()
        self._whole.clear()
        self._beside.clear()

    def take_doubted(self) -> list[NodeName]:
        """The nodes that are to be asked anew, wherever it waits at them: what they had said was overlaid by another
        one, which had it no more."""
        found = [*self._doubted]
        self._doubted.clear()
        return found

    def complete(self, nodes: Iterable[NodeName]) -> bool:
        """Whether the client knows all, because each of these has told all that it has. That is said once."""
        if self._is_complete or not self._whole.keys() >= set(nodes):
            return False
        self._is_complete = True
        return True

    def teller_of(self, name: str) -> NodeName | None:
        """Who said that an item is there; None: it is not."""
        return self._shown.get(name)

    def lacking(self, nodes: Iterable[NodeName]) -> list[NodeName]:
        """Those of them that have not told all that they have."""
        return [node for node in nodes if node not in self._whole]

    def left(self, nodes: Collection[NodeName]) -> tuple[I, ...]:
        """No others belong to it any more: what they had is gone."""
        gone = [(name, node) for name, node in self._shown.items() if node not in nodes]
        for others in self._beside.values():
            for node in [node for node in others if node not in nodes]:
                del others[node]
        for name, _ in gone:
            self._gone(name)
        for node in [node for node in self._whole if node not in nodes]:
            del self._whole[node]
        return tuple([self._form.gone(name, node) for name, node in gone])

    def take(self, node: NodeName, told: PartNews[I], node_of: Callable[[str], NodeName | None]) -> tuple[I, ...]:
        """What the client is to be told, after a node told something; `node_of`: whose an item is now. No other
        node's word counts that it is gone."""
        form = self._form
        self.positions[node] = told.position
        if told.is_first:
            self._telling[node] = {}
        items = list[I]()
        for item in told.items:
            name = form.name_of(item)
            if node in self._telling:
                self._telling[node][name] = None
            if form.is_there(item):
                self._there(name, node)
            elif node_of(name) == node:
                self._gone(name)
            else:
                self._not_beside(name, node)
                continue  # another one has it
            items.append(item)
        if not (told.is_last and node in self._telling):
            return tuple(items)
        self._whole[node] = None
        there = self._telling.pop(node)
        gone = [name for name in self._shown if name not in there and node_of(name) == node]
        for name in gone:
            self._gone(name)
        for name in [name for name in self._beside if name not in there]:
            self._not_beside(name, node)
        return (*items, *(form.gone(name, node) for name in gone))

    # -- inside

    def _there(self, name: str, node: NodeName) -> None:
        before = self._shown.get(name, node)
        self._shown[name] = node
        self._not_beside(name, node)
        if before != node:
            self._beside.setdefault(name, {})[before] = None

    def _gone(self, name: str) -> None:
        self._shown.pop(name, None)
        for node in self._beside.pop(name, ()):
            self.positions.pop(node, None)
            self._doubted[node] = None

    def _not_beside(self, name: str, node: NodeName) -> None:
        others = self._beside.get(name)
        if others is not None:
            others.pop(node, None)
            if not others:
                del self._beside[name]
