"""What clients of topics do, what befalls them, and how scenario files write it.

Knows: which actions there are.  Does not know how they are carried out (`crowd`).

Invariant: an action is a plain value; nothing of it depends on what happened before.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from distkv.core.topics.settings import TOPICS
from distkv.sim import forms
from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.forms import Verb, WordForm, flag, mention, node, option, time
from distkv.sim.words import Words, quoted


@attrs.frozen
class OfTopics(ServiceAction):
    """One of them."""

    service = TOPICS


# -- somebody asks a node once ------------------------------------------------------------------------------------


@attrs.frozen
class SubscribeOnce(OfTopics):
    """A client subscribes, or ends a subscription."""

    node: str
    topic: str
    subscriber: str
    op: int | None = None
    is_end: bool = False


@attrs.frozen
class PutOnce(OfTopics):
    """A client puts a message."""

    node: str
    topic: str
    value: str
    producer: str | None = None
    counter: int | None = None
    """Together with `producer`, or neither."""
    floor: int | None = None


@attrs.frozen
class GetOnce(OfTopics):
    """A client gets messages. It may say that it has all that it was given before."""

    node: str
    topic: str
    subscriber: str
    limit: int = 1
    wait_ms: int = 0
    says_done: bool = False


@attrs.frozen
class LimitTopic(OfTopics):
    """A client says how many copies of a topic there must be, and for how long it keeps how much."""

    node: str
    topic: str
    min_replicas: int | None = None
    keep_ms: int | None = None
    keep_bytes: int | None = None


@attrs.frozen
class DropTopic(OfTopics):
    """A client drops a topic."""

    node: str
    topic: str
    is_forced: bool = False


# -- clients that stay --------------------------------------------------------------------------------------------


@attrs.frozen
class StartProducer(OfTopics):
    """A producer with a state of its own begins; a client of this name that runs goes on."""

    node: str
    """The node that it asks first."""
    client: str
    topic: str


@attrs.frozen
class SendMessages(OfTopics):
    """A producer puts so many messages, all at once."""

    client: str
    count: int = 1


@attrs.frozen
class StartConsumer(OfTopics):
    """A consumer begins: it subscribes, gets messages and says that it has them."""

    node: str
    client: str
    topic: str
    subscriber: str = ""
    """Empty: as the client."""
    is_stateless: bool = False
    """Whether it keeps nothing of what it got."""


@attrs.frozen
class EndConsumer(OfTopics):
    """A consumer unsubscribes, and ends."""

    client: str


class StateLeft(StrEnum):
    """What of its state a client that crashed has when it comes back."""

    KEPT = "kept"
    OLD = "old"
    """As it was when it was saved last."""
    NONE = "none"


@attrs.frozen
class CrashClient(OfTopics):
    """A client's process ends, and begins again after a time."""

    client: str
    for_ms: int
    left: StateLeft = StateLeft.KEPT
    waits: int = 0
    """It ends when it waits so often from now on: for its disk, for an answer, or for time to pass."""


@attrs.frozen
class SaveState(OfTopics):
    """Somebody makes a copy of a client's state."""

    client: str


@attrs.frozen
class TwinClient(OfTopics):
    """Another client begins with a copy of the state of this one."""

    node: str
    client: str
    twin: str


@attrs.frozen
class MoveClient(OfTopics):
    """A client connects to another node."""

    client: str
    node: str


@attrs.frozen
class ShowTopics(ShowService):
    """Show who owns each topic, who has copies, and which of them are the same."""

    service = TOPICS


OnceAsked: TypeAlias = SubscribeOnce | PutOnce | GetOnce | LimitTopic | DropTopic
OfClient: TypeAlias = (
    StartProducer | SendMessages | StartConsumer | EndConsumer | CrashClient | SaveState | TwinClient | MoveClient
)  # fmt: skip
TopicAction: TypeAlias = OnceAsked | OfClient

_CLIENT: Final = node("client", usage="CLIENT", is_naming=False)
_TOPIC: Final = forms.text("topic", "the topic")
_SUBSCRIBER: Final = forms.text("subscriber", "the subscriber")
_PRODUCER: Final = forms.text("producer", "the producer")
_OP: Final = option("op", forms.count("op", "the op", "NUMBER"))


def _left(words: Words) -> StateLeft:
    return StateLeft(words.take("what is left of the state"))


_LEFT: Final = WordForm("left", "kept|old|none", _left, quoted)

VERBS: Final = (
    Verb("subscribe", SubscribeOnce, (mention("node"), _TOPIC, _SUBSCRIBER, _OP), {"is_end": False}),
    Verb("unsubscribe", SubscribeOnce, (mention("node"), _TOPIC, _SUBSCRIBER, _OP), {"is_end": True}),
    Verb("put", PutOnce, (
        mention("node"), _TOPIC, forms.text("value", "the value"), option("by", _PRODUCER),
        option("counter", forms.count("counter", "the counter", "NUMBER")),
        option("floor", forms.count("floor", "the floor", "NUMBER")),
    ), wrong=lambda put: "" if (put.producer is None) is (put.counter is None) else "a producer goes with a counter"),
    Verb("get", GetOnce, (
        mention("node"), _TOPIC, _SUBSCRIBER, option("limit", forms.count("limit", "the limit")),
        option("wait", time("wait_ms")), flag("done", "says_done"),
    )),
    Verb("limit-topic", LimitTopic, (
        mention("node"), _TOPIC, option("copies", forms.count("min_replicas")), option("keep", time("keep_ms")),
        option("bytes", forms.count("keep_bytes")),
    )),
    Verb("drop-topic", DropTopic, (mention("node"), _TOPIC, flag("force", "is_forced"))),
    Verb("produce", StartProducer, (mention("node"), _CLIENT, _TOPIC)),
    Verb("send", SendMessages, (_CLIENT, forms.count("count"))),
    Verb("consume", StartConsumer, (
        mention("node"), _CLIENT, _TOPIC, option("as", _SUBSCRIBER), flag("stateless", "is_stateless"),
    )),
    Verb("end", EndConsumer, (_CLIENT,)),
    Verb("crash-client", CrashClient, (
        _CLIENT, time("for_ms"), option("state", _LEFT), option("waits", forms.count("waits")),
    )),
    Verb("save", SaveState, (_CLIENT,)),
    Verb("twin", TwinClient, (mention("node"), _CLIENT, node("twin", usage="CLIENT", is_naming=False))),
    Verb("move-client", MoveClient, (_CLIENT, mention("node"))),
    Verb("topics", ShowTopics),
)  # fmt: skip
