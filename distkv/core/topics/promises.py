"""What a follower has promised owners: for a while it takes over nothing from them.

Knows: when each node asked last, and which are silent although they were asked.  Does not know topics.

Invariant: a node may be taken over from only when the promise is over on the slowest clock, and it left a question
unanswered that was asked since then, while this node was awake all the time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from distkv.core.topics.settings import TopicSettings
from distkv.model.event import NodeName
from distkv.model.invariant import must


class Promises:
    """Those of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, settings: TopicSettings, now_ms: int) -> None:
        self._settings: Final = settings
        self._start_ms: Final = now_ms
        """A promise of before the start may still be relied on."""
        self._until: Final = dict[NodeName, int]()
        """To each node that asked, until when."""
        self._heard: Final = dict[NodeName, int]()
        """When each node said anything last."""
        self._probes: Final = dict[NodeName, int]()
        """When those were asked that have not answered yet."""
        self._silent: Final = dict[NodeName, int]()
        """When those were asked that did not answer in time."""

    def promise(self, node: NodeName, now_ms: int) -> None:
        """That node asks for it."""
        self._until[node] = now_ms + self._settings.long_ms
        self.hear(node, now_ms)

    def hear(self, node: NodeName, now_ms: int) -> None:
        """That node works."""
        self._heard[node] = now_ms
        self._probes.pop(node, None)
        self._silent.pop(node, None)

    def last_heard_ms(self, node: NodeName) -> int | None:
        """When that node said something; None: never since the start."""
        return self._heard.get(node)

    def until_ms(self, node: NodeName) -> int:
        """Until when nothing is taken over from that node."""
        start_ms = self._start_ms + self._settings.long_ms
        return max(self._until.get(node, start_ms), start_ms)

    def may_take_over(self, node: NodeName, now_ms: int) -> bool:
        """Whether topics of that node can be taken over."""
        return node in self._silent and now_ms >= self.until_ms(node)

    def has_any(self, now_ms: int) -> bool:
        """Whether somebody asked lately, who may be silent from now on."""
        return any(until_ms + self._settings.lease_ms > now_ms for until_ms in self._until.values())

    # -- questions

    def probe(self, suspects: Collection[NodeName], now_ms: int) -> list[NodeName]:
        """Which of some nodes that seem away are to be asked now whether they work: again and again, for a question may
        get lost; the first one counts."""
        for node in [node for node in (*self._probes, *self._silent) if node not in suspects]:
            self._probes.pop(node, None)
            self._silent.pop(node, None)
        due = [node for node in suspects if now_ms >= self.until_ms(node)]
        for node in due:
            self._probes.setdefault(node, now_ms)
        return due

    def unanswered(self, node: NodeName, asked_ms: int, now_ms: int) -> None:
        """A question that was asked then was not answered for a lease."""
        if self._probes.get(node) == asked_ms and now_ms - asked_ms >= self._settings.lease_ms:
            del self._probes[node]
            self._silent[node] = asked_ms

    def woke(self) -> list[tuple[NodeName, int]]:
        """This node slept: what it did not hear meanwhile says nothing. The questions that are void, each with the time
        when it was asked."""
        void = list(self._probes.items())
        self._probes.clear()
        self._silent.clear()
        return void

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for node, asked_ms in self._silent.items():
            must(asked_ms >= self.until_ms(node), "who is silent was asked when the promise was over")
            must(asked_ms >= self._heard.get(node, asked_ms), "who is silent said nothing since it was asked")
