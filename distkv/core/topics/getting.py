"""Requests that wait: gets for a message, for leases of the followers, or until this node has what other holders had;
for that one without a number that ends a subscription, too.

Knows: who waits in which topic, and until when.  Does not know what a topic has, nor who may be told it (`serving`).

Invariant: a request is here at most once. It is tried again when something of its topic changes, and at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distkv.core.topics.asked import Target, TopicAsked
from distkv.errors import BusyError
from distkv.model.invariant import must

WAITING_MAX: Final = 10_000


class Getting:
    """Those of one node."""

    def __init__(self) -> None:
        self._by_topic: Final = dict[str, dict[Target, TopicAsked]]()
        self._by_target: Final = dict[Target, tuple[str, int]]()
        """Of each the topic, and when it is tried at last (ms)."""
        self._due_ms: int | None = None
        """No end of one is before this; it may be too early, so that a step need not look at all."""

    def __len__(self) -> int:
        return len(self._by_target)

    def wait(self, name: str, asked: TopicAsked, until_ms: int) -> None:
        """Keep it until something changes, or this time.

        Raises:
            BusyError: too many wait.
        """
        if asked.target not in self._by_target and len(self._by_target) >= WAITING_MAX:
            raise BusyError(f"{WAITING_MAX} gets wait on this node: ask again later")
        self._by_target[asked.target] = name, until_ms
        self._by_topic.setdefault(name, {})[asked.target] = asked
        self._due_ms = until_ms if self._due_ms is None else min(self._due_ms, until_ms)

    def take(self, name: str) -> list[TopicAsked]:
        """Those of a topic, in the order in which they were asked; they wait no longer."""
        some = self._by_topic.pop(name, {})
        for target in some:
            del self._by_target[target]
        return list(some.values())

    def take_due(self, now_ms: int) -> list[tuple[str, TopicAsked]]:
        """Those whose time is over."""
        if self._due_ms is None or self._due_ms > now_ms:
            return []
        due = [(target, name) for target, (name, until_ms) in self._by_target.items() if until_ms <= now_ms]
        found = [(name, self._remove(target)) for target, name in due]
        self._due_ms = min((until_ms for _, until_ms in self._by_target.values()), default=None)
        return found

    def gone(self, target: Target) -> None:
        """Nobody waits for this any more."""
        if target in self._by_target:
            self._remove(target)

    def topics(self) -> Iterable[str]:
        """In which somebody waits."""
        return list(self._by_topic)

    def wake_ms(self) -> int | None:
        """When `take_due` may have something."""
        return self._due_ms

    # -- inside

    def _remove(self, target: Target) -> TopicAsked:
        name, _ = self._by_target.pop(target)
        some = self._by_topic[name]
        asked = some.pop(target)
        if not some:
            del self._by_topic[name]
        return asked

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        there = {target: name for name, some in self._by_topic.items() for target in some}
        must(there == {target: name for target, (name, _) in self._by_target.items()}, "each waits in its topic")
        must(all(self._by_topic.values()), "no topic is remembered in which nobody waits")
