"""What must hold after every fault: all nodes equal, nothing missing, and no acknowledged write lost.

Knows: how to learn that from the nodes as any client and any peer can.  Does not know what happened to them.

Of a write that is neither the value of its path nor an open loser, somebody must have known when he wrote over it. That
is judged here, from what the histories of all nodes say of its path: a write is *contained* when one above it, itself
present or contained, names its writer with its tick or a later one. It need not be in a history itself: who came late
learns of it by that chain alone, and who had it may have lost his disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import attrs

from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock, contains, order, same
from distkv.model.path import Path
from distkv.wire.values import pack_value
from tests.netns.lab import Lab
from tests.process.load import Content, Load, events_of, get_many
from tests.process.servers import Server

OWN: Final = "own"
HOT: Final = "hot"
HOT_PATHS: Final = 3
CONTESTED: Final = 12
PAUSE_S: Final = 0.1
"""Between two writes of a load: nobody's processor is the point here."""


@attrs.define
class Written:
    """All that a test writes, under way or done."""

    loads: list[Load] = attrs.field(factory=list)
    contested: dict[Link, Content] = attrs.field(factory=dict)
    """What must stay, as a winner or as an open loser."""

    def load(
        self, lab: Lab, name: str, top: str, *, depth: int = 1, pause_s: float = PAUSE_S, path_count: int | None = None
    ) -> Load:
        """A load whose writes will be asked for; enter it to start it."""
        found = Load(lab[name], top, depth=depth, pause_s=pause_s, path_count=path_count)
        self.loads.append(found)
        return found

    @contextmanager
    def everywhere(self, lab: Lab, names: Iterable[str], word: str = "") -> Iterator[None]:
        """While this is entered each node writes new paths of its own, and all write over the same few."""
        with ExitStack() as stack:
            loads = [self.load(lab, name, f"{OWN}.{name}{word}") for name in names]
            loads += [self.load(lab, name, HOT, path_count=HOT_PATHS) for name in names]
            for load in loads:
                stack.enter_context(load)
            lab.wait(lambda: all(load.events for load in loads), "all loads are under way", 10)
            yield

    def contest(self, lab: Lab, names: Iterable[str]) -> None:
        """While these nodes are apart: each writes to the same paths, which nobody writes to again.

        Of three paths all write to the first, the first node writes to the second, which the others delete, and all
        delete the third.
        """
        for place, name in enumerate(names):
            with lab[name].client() as client:
                for number in range(CONTESTED):
                    path, value = Path(["contested", number]), f"{name} {number}"
                    written: Mapping[str, object] = client.request("set_value", {"path": path.names, "value": value})
                    content: Content = path, Kind.SET, pack_value(value)
                    if number % 3 == 2 or (number % 3 == 1 and place > 0):
                        written = client.request("delete_value", {"path": path.names})
                        content = path, Kind.DELETE, b""
                    self.contested[NodeName(name), Tick(written["tick"])] = content  # type: ignore[arg-type]

    @property
    def acknowledged(self) -> dict[Link, Content]:
        """Every answered write by its tick, which no other has."""
        found = [self.contested, *(load.events for load in self.loads)]
        whole = {link: content for some in found for link, content in some.items()}
        assert len(whole) == sum(map(len, found)), "a tick was used twice"
        return whole

    @property
    def tocks(self) -> dict[Link, Tock]:
        """Those of the loads' writes."""
        return {link: tock for load in self.loads for link, tock in load.tocks.items()}

    @property
    def own(self) -> dict[str, object]:
        """What nobody else wrote over."""
        return {
            path: value
            for load in self.loads
            if load.top.startswith(f"{OWN}.")
            for path, value in load.acknowledged.items()
        }


def assert_kept(lab: Lab, written: Written) -> None:
    """All that is promised, once everybody is connected again and nobody writes."""
    lab.wait_equal(60)
    missing = {server.name: server.state()["missing"] for server in lab}
    assert not any(missing.values()), f"missing: {missing}"
    here, *others = [events_of(server) for server in lab]
    assert all(other == here for other in others), "winners and open losers differ"
    conflicts = {server.name: server.state()["conflicts"] for server in lab}
    assert len(set(conflicts.values())) == 1, f"not as many open losers everywhere: {conflicts}"
    closed = {link: content for link, content in written.contested.items() if here.get(link) != content}
    assert not closed, f"neither winners nor open losers: {closed}"
    for server in lab:
        found = get_many(server, written.own)
        wrong = {path: found.get(path) for path, value in written.own.items() if found.get(path) != value}
        assert not wrong, f"of {server.name}: {wrong}"
    _assert_none_lost(lab, written, here)


def _assert_none_lost(lab: Lab, written: Written, here: Mapping[Link, Content]) -> None:
    acknowledged = written.acknowledged
    for server in lab:
        lacks = lab.lacks(server.name, acknowledged)
        assert not lacks, f"{server.name} lacks {lacks}"
    changed = {link: here[link] for link, content in acknowledged.items() if here.get(link, content) != content}
    assert not changed, f"not as they were written: {changed}"
    by_path: dict[Path, list[Event]] = {}
    for link, (path, kind, value) in acknowledged.items():
        if link not in here:
            by_path.setdefault(path, []).append(Event(path, kind, value, (link,), written.tocks[link], 0.0))
    lost = {path: _not_contained(lab, path, gone, here) for path, gone in by_path.items()}
    assert not any(lost.values()), f"neither there nor contained: {lost}"


def _not_contained(lab: Lab, path: Path, gone: Iterable[Event], here: Mapping[Link, Content]) -> list[Event]:
    """Those of `gone` of which nobody knew when he wrote over them."""
    told = {event.link: event for event in gone}
    for server in lab:
        told |= {event.link: event for event in _history(server, path)}
    accounted: list[Event] = []
    for event in sorted(told.values(), key=order, reverse=True):
        if event.link in here or any(contains(above, event) for above in reversed(accounted)):
            accounted.append(event)
    links = {event.link for event in accounted}
    return [event for event in gone if event.link not in links or not same(told[event.link], event)]


def _history(server: Server, path: Path) -> Iterator[Event]:
    with server.client() as client:
        for past in client.history(path):
            yield Event(path, Kind.SET, pack_value(past.value), past.chain, past.tock, past.time)
