"""A small service for tests: it counts what it is asked, keeps the count, and lets another node say it back.

Knows: the form of a service's machine.  Does not know the node around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from distkv.core.ready import Answer, NodeTold, ServiceAsked, ServiceContinued, ServiceWithdrawn
from distkv.core.service_machine import (
    KeepSlot,
    ServiceEffect,
    ServiceEntry,
    ServiceGround,
    ServiceInput,
    ServiceNodes,
    ServiceWoken,
    TellNode,
    WriteServiceEntry,
)
from distkv.errors import NotFoundError
from distkv.model.event import NodeName

ECHO: Final = "echo"


class Echo:
    """Asked `{to}`, it keeps how often it was asked and tells that node, whose echo keeps what it was told and tells it
    back, and only then it answers. Asked `{wake_ms}`, it answers when that time has come. Asked `{entry}`, it
    writes that into the store and answers twice. Asked anything else, it refuses."""

    def __init__(self) -> None:
        self.restored: list[dict[str, bytes]] = []
        """The slots of each `begin`."""
        self.entries: list[bytes] = []
        """What it was told of its entry in the store."""
        self.nodes: list[int] = []
        """How many nodes belong to the network, as it was told."""
        self.inputs: list[tuple[int, ServiceInput]] = []
        """What it was given since then, and when."""
        self._slots: dict[str, bytes] = {}
        self._open: dict[int, int] = {}
        """Who waits for the echo of which count."""
        self._wakes: dict[int, int] = {}
        """Who waits for which time."""

    def begin(self, boot_ms: int, wall: float, ground: ServiceGround) -> Iterable[ServiceEffect]:  # noqa: ARG002
        slots = dict(ground.slots)
        self._slots, self._open, self._wakes, self.inputs = dict(slots), {}, {}, []
        self.restored.append(slots)
        self.nodes.append(ground.nodes)
        return ()

    @property
    def count(self) -> int:
        return int(self._slots.get("count", b"0"))

    def step(self, boot_ms: int, wall: float, what: ServiceInput) -> Iterable[ServiceEffect]:  # noqa: ARG002
        self.inputs.append((boot_ms, what))
        match what:
            case ServiceAsked(id=id, request={"to": str(name)}):
                count = self.count + 1
                self._open[count] = id
                yield self._keep("count", b"%d" % count)
                yield self._keep("asked", b"%d" % count)
                yield TellNode(NodeName(name), b"ask %d" % count)
            case ServiceAsked(id=id, request={"wake_ms": int(wake_ms)}):
                self._wakes[id] = wake_ms
            case ServiceAsked(id=id, request={"entry": bytes(value)}):
                yield WriteServiceEntry(value)
                yield Answer(id, {"written": True}, is_last=False)
            case ServiceAsked(id=id):
                yield Answer(id, NotFoundError("this is no question for an echo"))
            case ServiceWithdrawn(id=id):
                self._wakes.pop(id, None)
                self._open = {count: other for count, other in self._open.items() if other != id}
            case NodeTold(name=name, body=body):
                yield from self._told(name, *body.split())
            case ServiceContinued(id=id):
                yield Answer(id, {"continued": True})
            case ServiceEntry(value=value):
                self.entries.append(value)
            case ServiceNodes(count=count):
                self.nodes.append(count)
            case ServiceWoken():
                due = [id for id, ms in self._wakes.items() if ms <= boot_ms]
                for id in due:
                    yield Answer(id, {"late_ms": boot_ms - self._wakes.pop(id)})
            case _:
                assert_never(what)

    def wake_ms(self) -> int | None:
        return min(self._wakes.values(), default=None)

    # -- inside

    def _told(self, name: NodeName, kind: bytes, count: bytes) -> Iterable[ServiceEffect]:
        yield self._keep(f"{kind.decode()} of {name}", count)
        if kind == b"ask":
            yield TellNode(name, b"echo " + count)
        elif int(count) in self._open:
            yield Answer(self._open.pop(int(count)), {"count": int(count), "by": name})

    def _keep(self, key: str, value: bytes) -> KeepSlot:
        self._slots[key] = value
        return KeepSlot(key, value)
