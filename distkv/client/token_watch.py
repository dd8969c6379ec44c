"""A watch of tokens over as many connections as it takes: also what became free between two of them is told.

Knows: the frames of such a watch, and which tokens its user takes for held.  Does not know sockets, threads or clocks.

Invariant: a token that was told as held, wanted or with data is told again when it is free, however late that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from distkv.client.outages import Begun, OnConnect, OnDisconnect, Outages
from distkv.client.questions import Question, Repeat
from distkv.errors import BusyError, DistkvError, NotReadyError, UnreachableError
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from distkv.wire.token_errors import NoQuorumError
from distkv.wire.token_fields import read_token
from distkv.wire.token_requests import TokenWatch
from distkv.wire.watch import Mark

TokenItems: TypeAlias = tuple[Mapping[str, object], ...]
"""Tokens as `token_show` gives them."""


class TokenWatching(Outages):
    """One watch of the tokens whose names begin so."""

    def __init__(
        self, prefix: str, *, on_disconnect: OnDisconnect | None = None, on_connect: OnConnect | None = None
    ) -> None:
        super().__init__(on_disconnect, on_connect)
        self._prefix: Final = prefix
        self._shown: Final = dict[str, Mapping[str, object]]()
        """The tokens that were not free when they were told last."""
        self._told: Final = set[str]()
        """Those told on this connection, until all that there are were told."""
        self._is_complete = False
        self._has_begun = False
        """Whether anything was told: who has been told something is told the rest, however long that takes."""

    def question(self) -> Question[TokenItems | Begun]:
        """What to ask on the next connection."""
        self._told.clear()
        self._is_complete = False
        return Question(lambda seq: encode_request(TokenWatch(seq, self._prefix)), self._read, Repeat.ANYWHERE)

    def is_bearable(self, error: DistkvError) -> bool:
        """Whether to try again after an error: it may be over soon."""
        is_soon_over = isinstance(error, BusyError | NoQuorumError | NotReadyError)
        return isinstance(error, UnreachableError) or (self._has_begun and is_soon_over)

    # -- inside

    def _read(self, fields: Fields) -> TokenItems | Begun:
        if fields.get("state") == Mark.UP_TO_DATE:
            return self._complete()
        self._has_begun = True
        item = {name: value for name, value in fields.items() if name != "seq"}
        name = read_token(item.get("token"))
        if item.get("holders") or item.get("waiting") or item.get("data") is not None:
            self._shown[name] = item
        else:
            self._shown.pop(name, None)
        if not self._is_complete:
            self._told.add(name)
        return (item,)

    def _complete(self) -> TokenItems:
        """All that there are were told."""
        self._is_complete = self._has_begun = True
        self.meet()
        gone = [item for name, item in self._shown.items() if name not in self._told]
        self._told.clear()
        for item in gone:
            del self._shown[str(item["token"])]
        return tuple(
            [{"token": item["token"], "server": item.get("server"), "holders": [], "waiting": 0} for item in gone]
        )
