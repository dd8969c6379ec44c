"""What clients of tokens do, and what befalls them.

Knows: which actions there are, and how scenario files write them.  Does not know how they are carried out (`crowd`).

Invariant: an action is a plain value; nothing of it depends on what happened before.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.core.tokens.machine import TOKENS
from distkv.sim import forms
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.forms import Verb, flag, mention, node, nodes, option, time


@attrs.frozen
class OfTokens(ServiceAction):
    """One of them."""

    service = TOKENS


@attrs.frozen
class StartClient(OfTokens):
    """A client opens a session, or another one of the same name when that one is over."""

    node: str
    """The node that it asks first."""
    client: str
    ttl_ms: int | None = None
    """None: what the servers give."""
    rate: float = 1.0
    """Milliseconds of its clock per true one."""


@attrs.frozen
class AcquireToken(OfTokens):
    """A client asks for a token."""

    client: str
    token: str
    is_shared: bool = False
    wait_ms: int | None = None
    """None: it tries once."""
    hold_ms: int | None = None
    """It gives it up after so long; None: when it is told to."""
    writes: bool = False
    """Whether it writes under the fence when it gets the token, before it gives it up, and after it was frozen."""


@attrs.frozen
class ReleaseToken(OfTokens):
    """A client gives up a token, or the wish to have it."""

    client: str
    token: str


@attrs.frozen
class BreakToken(OfTokens):
    """A client takes a token from its holders."""

    node: str
    token: str


@attrs.frozen
class SetData(OfTokens):
    """A client that holds a token changes its data."""

    client: str
    token: str
    value: object
    keeps: bool = False
    """Whether the data stays when nobody holds the token."""


@attrs.frozen
class SetServers(OfTokens):
    """A client says which nodes are to be the token servers."""

    node: str
    servers: tuple[str, ...]


@attrs.frozen
class ResetTokens(OfTokens):
    """A client says that a majority of the token servers is gone for good."""

    node: str
    """A token server."""


@attrs.frozen
class CloseSession(OfTokens):
    """A client ends its session."""

    client: str


@attrs.frozen
class FreezeClient(OfTokens):
    """A client's process gets no time; its clock goes on."""

    client: str
    for_ms: int


@attrs.frozen
class ShowServers(ShowService):
    """Show what each token server knows of all, and whether it may grant."""

    service = TOKENS


TokenAction: TypeAlias = (
    StartClient | AcquireToken | ReleaseToken | SetData | BreakToken | ResetTokens | CloseSession | FreezeClient
    | SetServers
)  # fmt: skip

_CLIENT: Final = node("client", usage="CLIENT", is_naming=False)
_TOKEN: Final = forms.text("token", "the token")
_RATE: Final = forms.positive("rate", "the rate", "a rate is more than 0")

VERBS: Final = (
    Verb("open", StartClient, (mention("node"), _CLIENT, option("ttl", time("ttl_ms")), option("rate", _RATE))),
    Verb("acquire", AcquireToken, (
        _CLIENT, _TOKEN, flag("shared", "is_shared"), option("wait", time("wait_ms")), option("for", time("hold_ms")),
        flag("writing", "writes"),
    )),
    Verb("release", ReleaseToken, (_CLIENT, _TOKEN)),
    Verb("data", SetData, (_CLIENT, _TOKEN, forms.value(), flag("keep", "keeps"))),
    Verb("break", BreakToken, (mention("node"), _TOKEN)),
    Verb("reset", ResetTokens, (mention("node"),)),
    Verb("change", SetServers, (mention("node"), nodes("servers", usage="SERVER…", is_naming=False))),
    Verb("close", CloseSession, (_CLIENT,)),
    Verb("freeze", FreezeClient, (_CLIENT, time("for_ms"))),
    Verb("servers", ShowServers),
)  # fmt: skip
