"""A small service for tests: it counts what it is asked, keeps the count, and lets another node say it back.

Knows: the form of a service's machine.  Does not know the node around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.core.ground.machine import (
    EntryChanged,
    NodesChanged,
    ServiceGround,
    ServiceInput,
    ServiceWoken,
    Setting,
)
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import NodeTold, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.errors import DistkvError, NotFoundError
from distkv.model.event import NodeName

ECHO: Final = "echo"
PATIENCE_MS: Final = 10_000
SILENCE: Final = b"say nothing"
"""To this no echo comes back."""


class Echo:
    """Asked `{to}`, it keeps how often it was asked and tells that node, whose echo keeps what it was told and tells it
    back, and only then it answers. Asked `{wake_ms}`, it answers when that time has come. Asked `{entry}`, it
    writes that into the store and answers twice; asked `{key, value}`, it writes, or deletes, an entry by that key, and
    answers only when that is refused. Asked `{node, question}`, it asks that node, whose echo says it backwards, and
    answers with what it heard. Asked anything else, it refuses."""

    def __init__(self) -> None:
        self.restored: list[dict[str, bytes]] = []
        """The slots of each `begin`."""
        self.entries: list[bytes] = []
        """What it found at its own path in the store, whenever that changed."""
        self.ground: ServiceGround | None = None
        self.inputs: list[tuple[int, ServiceInput]] = []
        """What it was given since then, and when."""
        self._slots: dict[str, bytes] = {}
        self._open: dict[int, int] = {}
        """Who waits for the echo of which count."""
        self._wakes: dict[int, int] = {}
        """Who waits for which time."""

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:  # noqa: ARG002
        self.ground = ground
        slots = dict(ground.slots)
        self._slots, self._open, self._wakes, self.inputs = dict(slots), {}, {}, []
        self.restored.append(slots)

    @property
    def count(self) -> int:
        return int(self._slots.get("count", b"0"))

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        self.inputs.append((turn.boot_ms, what))
        match what:
            case ServiceAsked(id=id, request={"to": str(name)}):
                count = self.count + 1
                self._open[count] = id
                self._keep(turn, "count", b"%d" % count)
                self._keep(turn, "asked", b"%d" % count)
                turn.tell(NodeName(name), b"ask %d" % count)
            case ServiceAsked(id=id, request={"wake_ms": int(wake_ms)}):
                self._wakes[id] = wake_ms
            case ServiceAsked(id=id, request={"entry": bytes(value)}):
                turn.write("", value)
                turn.answer(id, {"written": True}, is_last=False)
            case ServiceAsked(id=id, request={"key": str(key), "value": bytes(value)}):
                turn.write(key, value, ("wrote", id))
            case ServiceAsked(id=id, request={"key": str(key)}):
                turn.delete(key, ("wrote", id))
            case ServiceAsked(id=id, request={"node": str(name), "question": bytes(body)}):
                turn.ask_node(NodeName(name), body, ("asked", id), patience_ms=PATIENCE_MS)
            case ServiceAsked(id=id):
                turn.answer(id, NotFoundError("this is no question for an echo"))
            case ServiceWithdrawn(id=id):
                self._wakes.pop(id, None)
                self._open = {count: other for count, other in self._open.items() if other != id}
            case NodeTold(name=name, body=body):
                self._told(turn, name, *body.split())
            case ServiceContinued(id=id):
                turn.answer(id, {"continued": True})
            case NodeAsked(call=call, body=body):
                if body != SILENCE:
                    turn.answer_node(call, bytes(reversed(body)))
            case Replied(purpose=(_, int(id)), reply=DistkvError() as error):
                turn.answer(id, error)
            case Replied(purpose=(_, int(id)), reply=reply):
                turn.answer(id, {"reply": reply})
            case EntryChanged(key=""):
                assert self.ground is not None
                self.entries += [value for value in self.ground.entries.versions("") if value is not None]
            case EntryChanged() | NodesChanged() | NodeGaveUp() | Replied():
                pass  # a test looks for itself
            case ServiceWoken():
                due = [id for id, ms in self._wakes.items() if ms <= turn.boot_ms]
                for id in due:
                    turn.answer(id, {"late_ms": turn.boot_ms - self._wakes.pop(id)})
            case _:
                assert_never(what)

    def wake_ms(self) -> int | None:
        return min(self._wakes.values(), default=None)

    def statistics(self) -> Mapping[str, object]:
        return {"count": self.count}

    def alike(self) -> Mapping[str, Setting]:
        return {}

    # -- inside

    def _told(self, turn: ServiceTurn, name: NodeName, kind: bytes, count: bytes) -> None:
        self._keep(turn, f"{kind.decode()} of {name}", count)
        if kind == b"ask":
            turn.tell(name, b"echo " + count)
        elif int(count) in self._open:
            turn.answer(self._open.pop(int(count)), {"count": int(count), "by": name})

    def _keep(self, turn: ServiceTurn, key: str, value: bytes) -> None:
        self._slots[key] = value
        turn.keep(key, value)
