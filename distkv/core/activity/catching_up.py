"""A node that begins takes what another one keeps, so that clients can resume there.

Knows: whom it asks, up to which place it has come, and when it gives up.  Does not know what becomes of what it takes.

Invariant: it is over after `PATIENCE_MS`, whoever answers; logins wait so long.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import WINDOW_PAGES, WindowAsked, WindowPage
from distkv.wire.declared import pack

PATIENCE_MS: Final = 5000
ALONE_MS: Final = 1000
"""So long nobody else has to seem alive."""
NEAR_MS: Final = 1000
"""So long only neighbours in the tree are asked."""
PARTLY_MS: Final = 2000
"""So long a node that began a moment ago itself is not believed; nor is it later, while there are others to ask."""
ASK_MS: Final = 1500
LOOK_MS: Final = 100


@attrs.frozen(slots=True)
class WindowPurpose:
    """Why a node was asked."""

    node: NodeName
    place: int


class CatchingUp:
    """That of one start of a node."""

    def __init__(self, others: OtherListeners, now_ms: int) -> None:
        self._others: Final = others
        self._began_ms: Final = now_ms
        self._look_ms = now_ms
        self._asked: WindowPurpose | None = None
        self._start = ""
        self._place = 0
        self._unfit: Final = set[NodeName]()
        """Who did not answer, or began a moment ago itself, since all were asked last."""
        self._ever_unfit: Final = set[NodeName]()
        """The same since it began."""
        self.is_over = False

    def look(self, turn: ServiceTurn) -> None:
        """Ask whom it can, or be over."""
        if self.is_over or turn.boot_ms < self._look_ms:
            return
        self._look_ms = turn.boot_ms + LOOK_MS
        past_ms = turn.boot_ms - self._began_ms
        is_alone = self._others.is_alone or (past_ms >= ALONE_MS and not self._others.seem_alive)
        if is_alone or past_ms >= PATIENCE_MS:
            self._end(turn)
        elif self._asked is None:
            nodes = self._others.neighbours if past_ms < NEAR_MS else self._others.reachable
            node = next((node for node in nodes if node not in self._unfit), None)
            if node is not None:
                self._ask(turn, node)
            elif nodes:
                self._unfit.clear()

    def replied(self, turn: ServiceTurn, purpose: WindowPurpose, reply: object) -> WindowPage | None:
        """A node answered, or did not; what it gives."""
        if purpose != self._asked:
            return None
        self._asked, self._look_ms = None, turn.boot_ms
        try:
            page = WINDOW_PAGES.read(reply) if isinstance(reply, bytes) else None
        except DecodeError:
            page = None
        is_early = turn.boot_ms - self._began_ms < PARTLY_MS
        self._ever_unfit.add(purpose.node)
        is_early = is_early or not self._ever_unfit.issuperset(self._others.reachable)
        if page is None or (page.start != self._start and self._start) or (is_early and not page.is_whole):
            self._unfit.add(purpose.node)
            self._start, self._place = "", 0
            self._look_ms += LOOK_MS
            return None
        self._start, self._place = page.start, page.place
        if page.numbers is not None:
            self._end(turn)
        elif self._place > purpose.place:
            self._ask(turn, purpose.node)
        return page

    def wake_ms(self) -> int | None:
        """When it looks again."""
        return None if self.is_over else self._look_ms

    def _ask(self, turn: ServiceTurn, node: NodeName) -> None:
        self._asked = WindowPurpose(node, self._place)
        body = pack(WindowAsked(self._start, self._place))
        turn.ask_node(node, body, self._asked, patience_ms=ASK_MS, waits=False)

    def _end(self, turn: ServiceTurn) -> None:
        if self._asked is not None:
            turn.withdraw(self._asked)
        self._asked, self.is_over = None, True

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self.is_over or self._asked is None, "nobody is asked when it is over")
