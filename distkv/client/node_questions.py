"""What a client may ask of a node itself: its state, its disk, other nodes, and any request that has no method.

Knows: these requests, and how their replies are read.  Does not know how they travel (`protocol`).

Invariant: as in `questions`: what `read` returns was checked; a reply that is nonsense raises `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Mapping

from distkv.client import arguments
from distkv.client.questions import Question, Repeat, question_of
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields, bad, read_flag
from distkv.wire.node_requests import (
    Backup,
    DecideAside,
    GetState,
    LookForDamage,
    PingRequest,
    RetireNodeRequest,
    Stop,
    TraceSteps,
)
from distkv.wire.values import pack_value


def get_state() -> Question[Mapping[str, object]]:
    """What the node says of itself."""
    return question_of(GetState, _rest, Repeat.ANYWHERE)


def retire_node(name: str, *, force: bool = False) -> Question[bool]:
    """A node is gone for good; whether that is news.

    Raises:
        RequestError: no node can have this name.
    """
    node = arguments.as_node(name)
    arguments.check_flag("force", force)
    return question_of(
        lambda seq: RetireNodeRequest(seq, node, force), lambda reply: read_flag(reply, "changed"), Repeat.NEVER
    )


def decide_aside(id: str, *, is_dropped: bool) -> Question[bool]:
    """What becomes of something that is set aside; whether that changed anything.

    Raises:
        RequestError: it is no text.
    """
    arguments.check_text("id", id)
    return question_of(
        lambda seq: DecideAside(seq, id, is_dropped), lambda reply: read_flag(reply, "changed"), Repeat.NEVER
    )


def backup() -> Question[bytes]:
    """A copy of the whole node, in parts: a long result."""

    def read(item: Fields) -> bytes:
        data = item.get("data")
        if type(data) is not bytes:
            raise bad("data", "bytes", data)
        return data

    return question_of(Backup, read, Repeat.NEVER)


def scrub(*, fast: bool = False, drop: bool = False) -> Question[Mapping[str, object]]:
    """A look at all that is on the node's disk: a long result of its progress, and last what it found."""
    arguments.check_flag("fast", fast)
    arguments.check_flag("drop", drop)
    return question_of(lambda seq: LookForDamage(seq, fast, drop), _rest, Repeat.NEVER)


def trace() -> Question[Mapping[str, object]]:
    """Every step of the node from now on: a long result, its start included."""
    return Question(lambda seq: encode_request(TraceSteps(seq)), _rest, Repeat.NEVER, tells_start=True)


def stop(task: int) -> Question[Mapping[str, object]]:
    """Let the long result that has this `seq` come to its end."""
    return question_of(lambda seq: Stop(seq, task), _rest, Repeat.NEVER)


def ping() -> Question[None]:
    """A round trip."""
    return question_of(PingRequest, _nothing, Repeat.ANYWHERE)


def anything(action: str, fields: Mapping[str, object], *, is_read: bool) -> Question[Mapping[str, object]]:
    """A request that has no method here.

    Raises:
        RequestError: action, fields or `is_read` are none.
        BadValueError, TooLargeError: a field cannot be sent.
    """
    arguments.check_action(action, fields)
    arguments.check_flag("is_read", is_read)
    repeat = Repeat.ANYWHERE if is_read else Repeat.NEVER
    question = Question(lambda seq: pack_value({**fields, "seq": seq, "action": action}), _rest, repeat)
    question.encode(1)  # what cannot be sent is told before anything is
    return question


# -- inside -------------------------------------------------------------------------------------------------------


def _rest(reply: Fields) -> Mapping[str, object]:
    return {name: value for name, value in reply.items() if name != "seq"}


def _nothing(_: Fields) -> None:
    return None
