"""What is looked up of many tokens at once: those of a session, and those of which somebody does not know that he lost
them.

Knows: names.  Does not know what a session has to do with a token.

Invariant: as `grants` says after each change of a token; a session without any token is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.tokens.serving.served_token import ServedToken
from distkv.model.invariant import must


class TokenIndex:
    """Of all tokens of one server."""

    def __init__(self) -> None:
        self._by_session: Final = dict[str, dict[str, None]]()
        self.losing: Final = dict[str, ServedToken]()
        """By name: those that were taken from sessions which may not know it. Only read."""

    def sessions(self) -> list[str]:
        """All that hold something, lost it, or wait for it."""
        return list(self._by_session)

    def of(self, session: str) -> list[str]:
        """The tokens that it has to do with."""
        return list(self._by_session.get(session, ()))

    def put(self, session: str, token: str) -> None:
        """It has to do with a token."""
        self._by_session.setdefault(session, {})[token] = None

    def put_all(self, token: ServedToken) -> None:
        """All its sessions have to do with it."""
        for session in token.sessions():
            self.put(session, token.name)
        self.note_losses(token)

    def drop(self, session: str, token: str) -> None:
        """It has nothing to do with a token any more."""
        names = self._by_session.get(session)
        if names is not None:
            names.pop(token, None)
            if not names:
                del self._by_session[session]

    def note_losses(self, token: ServedToken) -> None:
        """They may be others than before."""
        if token.lost:
            self.losing[token.name] = token
        else:
            self.losing.pop(token.name, None)

    def check(self, tokens: Mapping[str, ServedToken]) -> None:
        """
        Raises:
            BrokenInvariantError: it is not in line with these, which are all.
        """
        here = {(session, name) for name, token in tokens.items() for session in token.sessions()}
        known = {(session, name) for session, names in self._by_session.items() for name in names}
        must(here == known, "all are found")
        must({name for name, token in tokens.items() if token.lost} == self.losing.keys(), "all losses are found")
        must(all(self._by_session.values()), "no session is in it without a token")
