"""What the listener of a node asks the service `activity`, and what it is answered.

Knows: the fields of that.  Does not know who is connected, nor how an activity reaches another node.

No client of the store can ask any of this: none of it is a row of the service's `FORM`.

Invariant: values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

from distkv.wire.activity_answers import broadcast_line
from distkv.wire.services import ServiceReply, ServiceRequest


@attrs.frozen
class ActivityItem:
    """An activity, as every client is given it."""

    origin: str
    """NODE.START: the node whose client sent it, and which start of its service."""
    number: int
    """The first one of an origin is 1."""
    activity: bytes
    """The JSON text of the object, with the name of who sent it."""

    @cached_property
    def line(self) -> bytes:
        """What every client is sent; made once for all of them."""
        return broadcast_line(self.origin, self.number, self.activity)


@attrs.frozen
class ActivityGap:
    """Activities of an origin that will not come. Only clients that resume are told of them."""

    origin: str
    first: int
    last: int


@attrs.frozen
class Attend(ServiceRequest):
    """The listener is there, at this address. There is one of each node. It ends when it is withdrawn."""

    seq: int
    host: str
    port: int


@attrs.frozen
class Login(ServiceRequest):
    """Somebody is logged in, until this is withdrawn. The number of the request names the client."""

    seq: int
    user: str
    resume: Mapping[str, int] | None = None
    """Up to which number the client was told of each origin; empty: nothing yet. None: it does not resume."""
    client: str | None = None
    """What `LoggedIn.client` said, at whichever node it was last."""
    source: int = 0
    """The number of the host from which it comes; 0: this one."""


@attrs.frozen
class SendActivity(ServiceRequest):
    """A client says something to everybody, perhaps several things, in their order."""

    seq: int
    client: int
    """The number of its `Login`."""
    activities: tuple[bytes, ...]
    """Each as `ActivityItem.activity`."""


@attrs.frozen
class EndActivity(ServiceRequest):
    """The node ends in order: its clients go elsewhere."""

    seq: int


@attrs.frozen
class ActivityGiven(ServiceReply):
    """To `Attend`: for every client that is logged in; a gap for every one of them that resumes."""

    item: ActivityItem | ActivityGap


@attrs.frozen
class Shut(ServiceReply):
    """To `Attend`: no further client is taken."""


@attrs.frozen
class LoggedIn(ServiceReply):
    """To `Login`: the client hears all that is given after this answer."""

    at: Mapping[str, int] | None = None
    """To start its map with; None: it does not resume."""
    client: str | None = None
    """For its next login."""
    missed: tuple[ActivityItem | ActivityGap, ...] = ()
    """What it lacks, in its order."""


@attrs.frozen
class MoveOn(ServiceReply):
    """To `Login`: the client is to go to that node, and its connection here ends."""

    host: str
    port: int
    resume: Mapping[str, int] | None = None
    """Its map so far; None: it does not resume."""


@attrs.frozen
class Taken(ServiceReply):
    """To `SendActivity`: the client's next activity may be read, and these are called so."""

    origin: str
    first: int
    last: int


@attrs.frozen
class Ended(ServiceReply):
    """To `EndActivity`: no client is left, or none can go anywhere."""


ListenerRequest: TypeAlias = Attend | Login | SendActivity | EndActivity
