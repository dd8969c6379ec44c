"""The services of this node: who is asked and told what, and what becomes of what they want.

Knows: which services there are, and when they may work.  Does not know what any of them does.

They work while the node serves clients. Before that it may find out that its disk is an old one, and what it promised
then is void: so nothing is promised until this is known. Whenever the slots become void, each begins anew without any.

Invariant: a machine is never given an input before `begin`, and keeps nothing but its slots over a restart; every
request is answered by its machine, or refused here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.core.node import Node, Turn
from distkv.core.ready import Answer, NodeTold, Note, ServiceAsked, ServiceContinued, ServiceTell, ServiceWithdrawn
from distkv.core.registry import service_path
from distkv.core.service_machine import (
    KeepSlot,
    ServiceEffect,
    ServiceEntry,
    ServiceGround,
    ServiceInput,
    ServiceMachine,
    ServiceNodes,
    ServiceWoken,
    TellNode,
    WriteServiceEntry,
)
from distkv.errors import InternalError, NotReadyError, RequestError, place_of
from distkv.model.event import Event, Kind


class Services:
    """All of them; a node may have none."""

    def __init__(self, node: Node, machines: Mapping[str, ServiceMachine]) -> None:
        """`machines`: each by the name of its service."""
        self._node: Final = node
        self._machines: Final = dict(machines)
        self._seen_changes = 0
        """`Registry.service_changes`, when the entries of services were looked at last."""
        self._nodes = 0
        """How many nodes they were told of last."""
        self._due_ms: int | None = None
        """When the first of them wants to be woken. Kept, because it is asked for after every write."""
        self._is_working = False
        self._void_count = 0
        self._was_stale = False
        self._failed: Final = set[str]()
        """The services that are off until the next start."""
        self._open: Final[dict[int, str]] = {}
        """The requests that are not answered, and whom they ask."""
        self._entries: Final[dict[str, tuple[Event, ...]]] = {}
        """Of each service what it was told of its entry in the store."""
        self._ahead_ms = 0
        """By how much the clock that goes on while the machine sleeps is ahead of the monotonic one."""

    @property
    def failed(self) -> frozenset[str]:
        """The services that are off until the next start, because they failed."""
        return frozenset(self._failed)

    def begin(self, *, is_void: bool) -> None:
        """The log is replayed; `is_void`: what is on the disk was promised in a life that is over."""
        self._was_stale = self._node.store.own.is_stale and not is_void

    def take(self, what: ServiceAsked | ServiceContinued | ServiceWithdrawn | NodeTold, turn: Turn) -> None:
        """Hand an input to its machine, if there is one and it may work."""
        machine = self._machines.get(what.service)
        if isinstance(what, ServiceAsked):
            self._open[what.id] = what.service
            refusal = self._refusal(what.service, machine)
            if refusal is not None:
                self._answer(Answer(what.id, refusal), turn)
                return
        elif isinstance(what, ServiceWithdrawn):
            if self._open.pop(what.id, None) is None:
                return  # it was answered meanwhile
        elif isinstance(what, ServiceContinued):
            if what.id not in self._open:
                return
        elif not self._is_heard(what, machine, turn):
            return
        if machine is not None and self._is_working:
            self._carry_out(what.service, machine, what, turn)

    def do_what_is_due(self, turn: Turn) -> None:
        """See whether they may work (still), and wake those whose time has come; after every input."""
        self._ahead_ms = turn.boot_ms - turn.now_ms
        store = self._node.store
        is_stale = store.own.is_stale
        if is_stale and not self._was_stale:  # it was just found out, or the disk is a restored one
            turn.ready.records += store.kept.void()
        self._was_stale = is_stale
        self._begin_or_end(turn)
        if not self._is_working:
            return
        if self._seen_changes != store.registry.service_changes:
            self._seen_changes = store.registry.service_changes
            for name, machine in list(self._machines.items()):
                self._tell_entry(name, machine, turn)
        nodes = len(store.registry.nodes)
        if nodes != self._nodes:
            self._nodes = nodes
            for name, machine in list(self._machines.items()):
                self._carry_out(name, machine, ServiceNodes(nodes), turn)
        if self._due_ms is None or self._due_ms > turn.boot_ms:
            return
        for name, machine in list(self._machines.items()):
            wake_ms = machine.wake_ms()
            if wake_ms is not None and wake_ms <= turn.boot_ms:
                self._carry_out(name, machine, ServiceWoken(), turn)

    def wake_ms(self) -> int | None:
        """When one of them wants to be woken, by the monotonic clock, as far as the two clocks differ now."""
        return self._due_ms - self._ahead_ms if self._due_ms is not None and self._is_working else None

    # -- inside

    def _begin_or_end(self, turn: Turn) -> None:
        """Begin when clients are served from now on, and again whenever what was kept is void."""
        slots, is_serving = self._node.store.kept, self._node.is_serving
        if is_serving == self._is_working and slots.void_count == self._void_count:
            return
        self._is_working, self._void_count = is_serving, slots.void_count
        for id in list(self._open):
            self._answer(Answer(id, self._not_ready()), turn)
        if is_serving:
            for name, machine in list(self._machines.items()):
                self._begin(name, machine, turn)
            self._see_when_due()

    def _begin(self, name: str, machine: ServiceMachine, turn: Turn) -> None:
        """Slots that it cannot read are such a failure, too: they cost the service, not the node."""
        try:
            effects = list(machine.begin(turn.boot_ms, turn.wall, self._ground(name)))
        except Exception as error:
            self._contain(name, error, turn)
            return
        for effect in effects:
            self._do(name, effect, turn)

    def _ground(self, name: str) -> ServiceGround:
        store = self._node.store
        network = store.registry.network
        created = 0.0 if network is None else network.created
        entry = store.tree.get(service_path(name))
        self._entries[name] = () if entry is None else (entry.head, *entry.losers)
        values = tuple(event.value for event in self._entries[name] if event.kind is Kind.SET)
        self._nodes = len(store.registry.nodes)
        return ServiceGround(store.me, store.own.life or 0, created, dict(store.kept.of(name)), values, self._nodes)

    def _tell_entry(self, name: str, machine: ServiceMachine, turn: Turn) -> None:
        """What the store has of a service, when it is another than before. Of two nodes that wrote it at once each may
        have been heard first: so those that lost are told, too."""
        entry = self._node.store.tree.get(service_path(name))
        now = () if entry is None else (entry.head, *entry.losers)
        if now != self._entries.get(name, ()):
            self._entries[name] = now
            for event in now:
                if event.kind is Kind.SET:
                    self._carry_out(name, machine, ServiceEntry(event.value), turn)

    def _refusal(self, name: str, machine: ServiceMachine | None) -> RequestError | None:
        if name in self._failed:
            return self._off(name)
        if machine is None:
            return RequestError(f"{self._node.store.me} has no service {name}: ask for one that this release has")
        return None if self._is_working else self._not_ready()

    def _not_ready(self) -> NotReadyError:
        node = self._node
        return NotReadyError(f"{node.store.me} is {node.state}, and its services begin anew; ask again in a moment")

    def _is_heard(self, what: NodeTold, machine: ServiceMachine | None, turn: Turn) -> bool:
        """Whether what a node says counts; it is dropped otherwise, and counted."""
        store = self._node.store
        dropped = ""
        if machine is None:
            dropped = "service_unknown"
        elif what.name == store.me or what.name not in store.registry.nodes:
            dropped = "service_stranger"
        elif not self._is_working:
            dropped = "service_not_ready"
        if dropped:
            turn.ready.note(dropped, node=what.name, service=what.service)
        return not dropped

    def _carry_out(self, name: str, machine: ServiceMachine, what: ServiceInput, turn: Turn) -> None:
        if self._machines.get(name) is not machine:
            return  # it failed a moment ago
        try:
            effects = list(machine.step(turn.boot_ms, turn.wall, what))
        except Exception as error:
            self._contain(name, error, turn)
            return
        for effect in effects:
            self._do(name, effect, turn)
        self._see_when_due()

    def _contain(self, name: str, error: Exception, turn: Turn) -> None:
        """A machine failed in the midst of a step: what it holds may be half of something. Nothing of that step leaves,
        and this service is off until the next start, which begins with what is on the disk. The node goes on."""
        del self._machines[name]
        self._failed.add(name)
        turn.ready.note("service_failed", service=name, error=f"{type(error).__name__}: {error}", at=place_of(error))
        for id in [id for id, service in self._open.items() if service == name]:
            self._answer(Answer(id, self._off(name)), turn)
        self._see_when_due()

    def _off(self, name: str) -> InternalError:
        return InternalError(
            f"the service {name} of {self._node.store.me} has failed, and is off: the log of the server says why;"
            " start the server again"
        )

    def _see_when_due(self) -> None:
        found = [ms for machine in self._machines.values() if (ms := machine.wake_ms()) is not None]
        self._due_ms = min(found, default=None)

    def _do(self, name: str, effect: ServiceEffect, turn: Turn) -> None:
        match effect:
            case KeepSlot(key=key, value=value):
                turn.ready.records += self._node.store.kept.keep(name, key, value)
            case TellNode(name=node, body=body, waits=waits):
                turn.ready.tells.append(ServiceTell(node, name, body, waits))
            case WriteServiceEntry(value=value):
                store = self._node.store
                self._node.check_life(turn)
                self._node.publish(store.write(service_path(name), Kind.SET, value, turn.wall), turn)
            case Answer():
                self._answer(effect, turn)
            case Note():
                turn.ready.notes.append(effect)
            case _:
                assert_never(effect)

    def _answer(self, answer: Answer, turn: Turn) -> None:
        if answer.id in self._open:  # else it was withdrawn, or answered before
            turn.ready.answers.append(answer)
            if answer.is_last:
                del self._open[answer.id]
