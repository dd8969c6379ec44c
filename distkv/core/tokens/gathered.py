"""What comes of a question to all token servers: the pages of a list, or how far a watch is at each of them.

Knows: what each server has answered.  Does not know which servers are asked, nor when.

Invariant: a list has nothing from behind the end of a page that is not the last one of its server: what stands there is
not known of all servers.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from distkv.core.tokens.watch_view import WatchView
from distkv.model.event import NodeName
from distkv.wire.token_replies import TokenItem, TokensListed


@attrs.define(slots=True)
class GatheredAnswers:
    """Of one request."""

    pages: dict[NodeName, TokensListed] = attrs.field(factory=dict)
    """What came of a list."""
    positions: dict[NodeName, int] = attrs.field(factory=dict)
    """How far a watch is."""
    known: int = 0
    """The change of servers since which they count: after another one all is told anew. A page from before does not say
    that its server lacks what it has to find out since."""
    view: WatchView = attrs.field(factory=WatchView)

    def keep_only(self, servers: Collection[NodeName]) -> None:
        """Others are not asked any more."""
        for some in (self.positions, self.pages):
            for name in [name for name in some if name not in servers]:
                del some[name]

    def restart(self, known: int) -> None:
        """Other servers serve since this change: what became free meanwhile nobody may know."""
        self.positions.clear()
        self.pages.clear()
        self.view.restart()
        self.known = known

    def merged(self, limit: int) -> TokensListed:
        """The pages of all servers as one."""
        items = dict[str, TokenItem]()
        is_more, is_partial = False, any(page.partial for page in self.pages.values())
        last: str | None = None
        for page in self.pages.values():
            items |= {item.token: item for item in page.items}
            if page.more and page.items:  # what is behind its last name is not known
                end = page.items[-1].token
                last, is_more = end if last is None else min(last, end), True
        names = sorted(name for name in items if last is None or name <= last)
        is_more |= len(names) > limit
        return TokensListed(tuple([items[name] for name in names[:limit]]), is_more, is_partial)
