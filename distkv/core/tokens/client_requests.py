"""What a node keeps of its clients' requests about tokens until servers answered.

Knows: where each waits.  Does not know who answers it.

Invariant: what is kept here changes nothing by itself; `proxy` looks after it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.core.ground.gathering import GatheredNews, GatheredPages, merged
from distkv.core.ground.routes import RoutedRequest
from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.wire.token_fields import Ticket
from distkv.wire.token_replies import TokenItem, TokensListed
from distkv.wire.token_requests import TokenRequest


class ShownTokens:
    """What lists and watches have to know of their items."""

    @staticmethod
    def name_of(item: TokenItem) -> str:
        return item.token

    @staticmethod
    def is_there(item: TokenItem) -> bool:
        """Whether it is held, wanted, or has data."""
        return bool(item.holders or item.waiting or item.data is not None)

    @staticmethod
    def gone(name: str, node: NodeName) -> TokenItem:
        """It is free."""
        return TokenItem(name, node, (), 0, None)


SHOWN: Final = ShownTokens()
TokenPages: TypeAlias = GatheredPages[TokensListed]
TokenNews: TypeAlias = GatheredNews[TokenItem]


@attrs.define(slots=True, eq=False)
class ClientRequest(RoutedRequest):
    """One that is under way."""

    request: TokenRequest
    tag: str = ""
    """Names the session that is to be opened."""
    ticket: Ticket | None = None
    """The place in the queue that it has kept."""
    gathered: TokenPages | TokenNews | None = None
    """Of a list, or a watch, which all servers are asked for."""
    known: int = 0
    """The change of servers since which that counts: after another one all is told anew. A page from before does not
    say that its server lacks what it has to find out since."""
    highest: GrantNumber | None = None
    """Of a break: the highest grant of the holders that it means. They are asked for first. So it takes the token from
    nobody who got it since, if it has to be asked again because its answer was lost with a server."""


def as_one(pages: TokenPages, limit: int) -> TokensListed:
    """A list of what all servers said."""
    items, is_more = merged(pages.of.values(), SHOWN, limit)
    return TokensListed(items, is_more, any(page.partial for page in pages.of.values()))
