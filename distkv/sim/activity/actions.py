"""What clients of the activity network do, and how scenario files write it.

Knows: which actions there are.  Does not know how they are carried out (`crowd`).

Invariant: an action is a plain value; nothing of it depends on what happened before.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.core.activity.settings import ACTIVITY
from distkv.sim import forms
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.forms import Verb, mention, node


@attrs.frozen
class OfActivity(ServiceAction):
    """One of them."""

    service = ACTIVITY


@attrs.frozen
class StartChat(OfActivity):
    """A client connects to a node, and stays; one that has hung up comes back."""

    node: str
    client: str


@attrs.frozen
class SayActivities(OfActivity):
    """A client sends so many activities, all at once."""

    client: str
    count: int = 1


@attrs.frozen
class JumpToNode(OfActivity):
    """A client ends its connection, and connects to this node at once."""

    client: str
    node: str


@attrs.frozen
class HangUp(OfActivity):
    """A client ends its connection."""

    client: str


@attrs.frozen
class EndInOrder(OfActivity):
    """A node is told to end: it sends its clients elsewhere first."""

    node: str


@attrs.frozen
class ShowActivity(ShowService):
    """Show how many clients each node has, what it keeps, and what came to each client."""

    service = ACTIVITY


ChatAction: TypeAlias = StartChat | SayActivities | JumpToNode | HangUp | EndInOrder

_CLIENT: Final = node("client", usage="CLIENT", is_naming=False)

VERBS: Final = (
    Verb("chat", StartChat, (mention("node"), _CLIENT)),
    Verb("speak", SayActivities, (_CLIENT, forms.count("count"))),
    Verb("jump", JumpToNode, (_CLIENT, mention("node"))),
    Verb("hang-up", HangUp, (_CLIENT,)),
    Verb("end-in-order", EndInOrder, (mention("node"),)),
    Verb("chats", ShowActivity),
)
