"""What befalls a token, as the clients of the simulator see it, and as rules are told.

Knows: the forms.  Does not know how a client comes to it (`clients`), nor what is right (`rules`).

Invariant: all are values, but for the client itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import attrs

from distkv.model.fence import Fence
from distkv.wire.token_fields import Ticket


class TokenUser(Protocol):
    """A client, in one session."""

    @property
    def name(self) -> str: ...
    @property
    def session(self) -> str:
        """As the servers call it."""
    @property
    def is_frozen(self) -> bool:
        """Whether its process gets no time."""

    def believes(self, token: str) -> bool:
        """Whether it may work under a token now, as far as its own clock says."""


class TokenChange(StrEnum):
    """How a token stands to a client from now on."""

    WANTED = "wanted"
    """It is asked for."""
    QUEUED = "queued"
    """It is asked for, and the server has told a place in the queue."""
    HELD = "held"
    GONE = "gone"
    """It is neither held nor wanted any more, or the client is told so."""


@attrs.frozen
class TokenMoment:
    """One change."""

    user: TokenUser
    token: str
    change: TokenChange
    is_shared: bool = False
    fence: Fence | None = None
    """While it is held."""
    ticket: Ticket | None = None
    """While it is queued."""
    data: bytes | None = None
    """What its data is when it is granted, packed."""


@attrs.frozen
class DataMoment:
    """A holder changes the data of a token, or is told that this is done."""

    user: TokenUser
    token: str
    fence: Fence
    is_shared: bool
    number: int
    """The same for both, of one client."""
    data: bytes | None
    """Packed."""
    is_done: bool
    keeps: bool = True
    """Whether it stays when nobody holds the token."""
