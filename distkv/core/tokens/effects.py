"""What the machines of the token service want done.

Knows: the effects, and what must be true before each may leave.  Does not know who does them: a server, or a simulator.

Invariant: the slots of one step are one batch, all or nothing, and are durable before anything else of this step leaves
or of a later one, unless it says that it does not wait for that.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.core.ready import Note
from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.wire.calls import CallMessage
from distkv.wire.token_replies import TokenReply
from distkv.wire.token_requests import TokenRelease, TokenRequest
from distkv.wire.token_states import Founding, StateMessage

TokenMessage: TypeAlias = CallMessage | StateMessage
"""All that nodes tell each other for the token service."""


@attrs.frozen(slots=True)
class SlotWrite:
    """A value to be kept on the disk."""

    key: str
    """`vote`, `state`, `session/ID`, `token/NAME` and the like."""
    value: bytes | None
    """None: remove it."""


@attrs.frozen(slots=True)
class Tell:
    """A message to one node; it may get lost, come twice, late, or after a later one."""

    to: NodeName
    message: TokenMessage
    waits: bool = True
    """False: it may leave before the slots of this step are durable."""


@attrs.frozen(slots=True)
class TokenAnswer:
    """The reply to an earlier request of a client, by the id it was given in. Of a watch there may be many."""

    id: int
    result: TokenReply | DistkvError
    waits: bool = True
    """As that of `Tell`."""


def must_wait(request: TokenRequest) -> bool:
    """Whether the answer to a request may leave only when its slots are durable: all but the release of a client that
    names the fence. Such a client goes on to say what it holds, so that a release which a crash undid is done again; of
    others nobody hears that (docs/protocol, TOKEN-17)."""
    return not isinstance(request, TokenRelease) or request.fence is None


@attrs.define(slots=True)
class TokenEffects:
    """Those that are not taken yet, each kind in its order."""

    slots: list[SlotWrite] = attrs.field(factory=list)
    """Of two for one key the later one counts."""
    tells: list[Tell] = attrs.field(factory=list)
    answers: list[TokenAnswer] = attrs.field(factory=list)
    notes: list[Note] = attrs.field(factory=list)
    founding: Founding | None = None
    """To be written into the store."""

    def note(self, id: str, **fields: object) -> None:
        """Something worth counting."""
        self.notes.append(Note(id, fields))

    def say(self, peer: NodeName, message: CallMessage, *, waits: bool = True) -> None:
        """For `Calls`."""
        self.tells.append(Tell(peer, message, waits))

    def call_note(self, id: str, **fields: object) -> None:
        """For `Calls`."""
        self.note(f"token_{id}", **fields)

    def take(self) -> TokenEffects:
        """All; none is left."""
        found = TokenEffects(self.slots, self.tells, self.answers, self.notes, self.founding)
        self.slots, self.tells, self.answers, self.notes, self.founding = [], [], [], [], None
        return found
