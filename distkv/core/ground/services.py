"""The services of this node: who is asked and told what, and what becomes of what they want.

Knows: which services there are, and when they may work.  Does not know what any of them does.

They work while the node serves clients. Before that it may find out that its disk is an old one, and what it promised
then is void: so nothing is promised until this is known. Whenever the slots become void, each begins anew without any.

Invariant: a machine is never given an input before `begin`, and keeps nothing but its slots over a restart; every
request is answered by its machine, or refused here. Of a step that fails nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, assert_never

import attrs

from distkv.core.edges import FieldsChanged, FramesGone
from distkv.core.ground.contained import MachineFault, fault_of
from distkv.core.ground.data import Data
from distkv.core.ground.footing import Footing
from distkv.core.ground.frames import Announced, HeardNumbers
from distkv.core.ground.machine import (
    EntryChanged,
    NodesChanged,
    ServiceGround,
    ServiceInput,
    ServiceMachine,
    ServiceWoken,
)
from distkv.core.ground.node_calls import BOOT_SLOT, CallInput, NodeCalls, Replied
from distkv.core.ground.reception import Reception
from distkv.core.ground.requests import Requests, WordWithin
from distkv.core.ground.seen_nodes import SeenNodes
from distkv.core.ground.turn import (
    AnsweredNode,
    AskContinued,
    AskedOfNode,
    AskedOfService,
    AskWithdrawn,
    DataKept,
    EntryWritten,
    FieldsAnnounced,
    MadeGood,
    ServiceTurn,
    SlotKept,
    ToldAll,
    WorkWanted,
)
from distkv.core.ready import (
    Answer,
    ForServices,
    NodeTold,
    Note,
    Rng,
    ServiceAsked,
    ServiceContinued,
    ServiceTell,
    ServiceWithdrawn,
    WorkDone,
)
from distkv.core.turn import Turn
from distkv.errors import RequestError
from distkv.model.invariant import must
from distkv.wire.edges import TreeFrame

FIRST_MAX: Final = 1 << 40
"""The numbers of questions to other nodes begin at one of so many, so that nobody can guess them."""
STEPS_MAX: Final = 1000
"""So many steps follow from one input, because services answer themselves or each other; the rest comes a moment later,
so that what asks itself for ever delays nobody else."""


class Services:
    """All of them; a node may have none."""

    def __init__(self, footing: Footing, machines: Mapping[str, ServiceMachine], rng: Rng) -> None:
        """`machines`: each by the name of its service."""
        self._footing: Final = footing
        self._reception: Final = Reception(footing)
        self._slots: Final = footing.slots
        self._rng: Final = rng
        self._mounted: Final = {
            name: Mounted(name, machine, footing.data, self._new_calls()) for name, machine in machines.items()
        }
        """Those that have not failed."""
        self._nodes: Final = SeenNodes(footing)
        self._due_ms: int | None = None
        """When the first of them wants to be woken. Kept, because it is asked for after every write."""
        self._void_count = 0
        self._was_stale = False
        self._requests: Final = Requests()
        self._has_written = False
        """Whether a service wrote into the store since the last input began."""
        self._ahead_ms = 0
        """By how much the clock that goes on while the machine sleeps is ahead of the monotonic one."""

    @property
    def failed(self) -> frozenset[str]:
        """The services that are off until the next start, because they failed."""
        return frozenset(self._reception.failed)

    def begin(self, *, is_stale: bool, is_void: bool) -> None:
        """The log is replayed. `is_stale`: the disk is known to be an old one; `is_void`: what is on it was promised in
        a life that is over."""
        self._was_stale = is_stale and not is_void

    def take(self, what: ForServices, turn: Turn) -> None:
        """Hand an input to its machine, if there is one and it may work."""
        mounted = self._mounted.get(what.service)
        self._ahead_ms, self._has_written = turn.boot_ms - turn.now_ms, False
        if isinstance(what, ServiceAsked):
            self._requests.open[what.id] = what.service
            if mounted is None or not self._reception.is_working:
                self._answer(Answer(what.id, self._reception.refusal(what.service, mounted)), turn)
                return
        elif isinstance(what, ServiceWithdrawn):
            if self._requests.open.pop(what.id, None) is None:
                return  # it was answered meanwhile
        elif isinstance(what, ServiceContinued):
            if what.id not in self._requests.open:
                return
        elif isinstance(what, WorkDone):
            self._requests.worked(what)
            if mounted is not None:
                self._carry_out_own(mounted, turn)
                self._see_when_due(mounted)
            return
        elif not self._reception.admit(what, turn, is_mounted=mounted is not None):
            return
        if mounted is None or not self._reception.is_working:
            return
        if isinstance(what, NodeTold) and NodeCalls.is_for(what.body):
            self._do_calls(mounted, turn, lambda calls, taken: calls.told(what.name, what.body, taken))
        else:
            self._carry_out(mounted, what, turn)

    def is_at_rest(self, turn: Turn) -> bool:
        """Whether the last input that was taken changed nothing of the node but what services keep, and nobody wants to
        be woken: then nothing else of the node has anything to do about it."""
        return not self._has_written and (self._due_ms is None or self._due_ms > turn.boot_ms)

    def do_what_is_due(self, turn: Turn, changes: int, *, is_serving: bool, is_stale: bool) -> None:
        """See whether they may work (still), and wake those whose time has come; after every input.

        Args:
            turn: the step.
            changes: how often it may have changed who belongs to the network, or what an entry of a service says.
            is_serving: whether clients are served; services work meanwhile, and only then.
            is_stale: whether the disk is known to be an old one.
        """
        self._ahead_ms = turn.boot_ms - turn.now_ms
        if is_stale and not self._was_stale:  # it was just found out, or the disk is a restored one
            turn.ready.records += [*self._slots.void(), *self._footing.data.mark_old()]
        self._was_stale = is_stale
        if is_serving != self._reception.is_working or self._slots.void_count != self._void_count:
            self._begin_or_end(turn, is_serving=is_serving)
        if not self._reception.is_working:
            self._footing.heard.clear()
            return
        if self._footing.heard:
            self._hear(turn)
        if changes != self._nodes.as_of or (self._mounted and turn.now_ms >= self._nodes.look_ms):
            self._nodes.as_of = changes
            self._see_what_changed(turn)
        if self._due_ms is None or self._due_ms > turn.boot_ms:
            return
        for mounted in list(self._mounted.values()):
            calls_ms, machine_ms = mounted.calls.wake_ms(), mounted.machine.wake_ms()
            if calls_ms is not None and calls_ms <= turn.boot_ms:
                self._do_calls(mounted, turn, lambda calls, taken: calls.woken(taken))
            if machine_ms is not None and machine_ms <= turn.boot_ms:
                self._carry_out(mounted, ServiceWoken(), turn)
        if self._requests.again_ms is not None and self._requests.again_ms <= turn.boot_ms:
            self._carry_out_all_own(turn)

    def wake_ms(self) -> int | None:
        """When one of them wants to be woken, by the monotonic clock, as far as the two clocks differ now."""
        return self._due_ms - self._ahead_ms if self._due_ms is not None and self._reception.is_working else None

    # -- when they work

    def _see_what_changed(self, turn: Turn) -> None:
        for name, key in self._footing.take_entry_changes():
            if name in self._mounted:
                self._carry_out(self._mounted[name], EntryChanged(key), turn)
        if self._mounted and self._nodes.look(turn.now_ms):
            for mounted in list(self._mounted.values()):
                self._carry_out(mounted, NodesChanged(), turn)

    def _begin_or_end(self, turn: Turn, *, is_serving: bool) -> None:
        """Begin when clients are served from now on, and again whenever what was kept is void."""
        self._reception.is_working, self._void_count = is_serving, self._slots.void_count
        self._requests.clear()
        for id in list(self._requests.open):
            self._answer(Answer(id, self._reception.not_ready()), turn)
        if is_serving and self._mounted:
            self._footing.take_entry_changes()  # each looks at all there is when it begins
            self._footing.heard.clear()
            self._nodes.look(turn.now_ms)
            for mounted in list(self._mounted.values()):
                self._begin(mounted, turn)
            self._carry_out_all_own(turn)

    def _begin(self, mounted: Mounted, turn: Turn) -> None:
        """Slots that it cannot read are such a failure, too: they cost the service, not the node."""
        footing, name = self._footing, mounted.name
        slots = dict(self._slots.of(name))
        mounted.calls, mounted.numbers = self._new_calls(slots.pop(BOOT_SLOT, None)), HeardNumbers()
        footing.announce(name, None)
        ground = ServiceGround(
            footing.me, footing.life, footing.created, slots, mounted.data.of(name), footing.entries(name), self._nodes,
            footing.announced(name),
        )  # fmt: skip
        taken = ServiceTurn(name, turn.boot_ms, turn.wall, mounted.data)
        fault = fault_of(mounted.machine.begin, taken, ground)
        if fault is not None:
            self._turn_off(name, fault, turn)
        else:
            self._do(mounted, taken, turn)
            for origin, number in footing.frames(name).items():
                if origin != footing.me:
                    self._told(mounted, mounted.numbers.gone(origin, *number), turn)

    def _new_calls(self, kept: bytes | None = None) -> NodeCalls:
        footing = self._footing
        return NodeCalls(footing.me, footing.life, kept, lambda: int(self._rng.random() * FIRST_MAX))

    # -- one step

    def _carry_out(self, mounted: Mounted, what: ServiceInput, turn: Turn) -> None:
        self._step(mounted, what, turn)
        if mounted.calls.own or self._requests.following:
            self._carry_out_own(mounted, turn)
        self._see_when_due(mounted)

    def _carry_out_all_own(self, turn: Turn) -> None:
        for mounted in list(self._mounted.values()):
            if self._requests.again_ms is None or self._requests.again_ms <= turn.boot_ms:
                self._carry_out_own(mounted, turn)
            self._see_when_due(mounted)

    def _hear(self, turn: Turn) -> None:
        """What came by the server tree."""
        heard = [*self._footing.heard]
        self._footing.heard.clear()
        for what in heard:
            mounted = self._mounted.get(what.service)
            if mounted is None:
                continue
            match what:
                case TreeFrame():
                    self._told(mounted, mounted.numbers.came(what.origin, what.start, what.number, what.body), turn)
                case FramesGone():
                    self._told(mounted, mounted.numbers.gone(what.origin, what.start, what.number), turn)
                case FieldsChanged(node=node):
                    self._carry_out(mounted, Announced(node), turn)
                case _:
                    assert_never(what)

    def _told(self, mounted: Mounted, inputs: Iterable[ServiceInput], turn: Turn) -> None:
        for what in inputs:
            self._carry_out(mounted, what, turn)

    def _carry_out_own(self, mounted: Mounted, turn: Turn) -> None:
        """What it asked and answered itself meanwhile, then what services asked and answered each other, and what
        follows from that; soon again, when that is too much for one step."""
        requests, left = self._requests, STEPS_MAX
        requests.again_ms = None
        while True:
            if mounted.calls.own:
                self._step(mounted, mounted.calls.own.popleft(), turn)
            elif requests.following:
                if mounted.name not in self._reception.failed:
                    mounted.note_due()
                mounted = self._follow(requests.following.popleft(), turn) or mounted
            else:
                break
            left -= 1
            if not left:
                requests.again_ms = turn.boot_ms + 1
                turn.ready.note("service_steps_put_off", service=mounted.name)
                break
        if mounted.name not in self._reception.failed:
            mounted.note_due()

    def _follow(self, word: WordWithin, turn: Turn) -> Mounted | None:
        """A service hears what another one of this node wants of it, or answers it."""
        name, what, id = word
        mounted, is_open = self._mounted.get(name), self._requests.open
        if isinstance(what, ServiceAsked):
            is_open[id] = name
            if mounted is None or not self._reception.is_working:
                self._answer(Answer(id, self._reception.refusal(name, mounted)), turn)
        elif isinstance(what, ServiceWithdrawn):
            if is_open.pop(id, None) is None:
                return None  # it was answered meanwhile
        elif isinstance(what, ServiceContinued) and id not in is_open:
            return None
        if mounted is not None:
            self._step(mounted, what, turn, always_waits=True)
        return mounted

    def _step(self, mounted: Mounted, what: ServiceInput, turn: Turn, *, always_waits: bool = False) -> None:
        if mounted.name in self._reception.failed:
            return  # a moment ago
        taken = ServiceTurn(mounted.name, turn.boot_ms, turn.wall, mounted.data)
        taken.always_waits = always_waits
        fault = fault_of(mounted.machine.step, taken, what)
        if fault is not None:
            self._turn_off(mounted.name, fault, turn)
            return
        self._do(mounted, taken, turn)

    def _do_calls(
        self, mounted: Mounted, turn: Turn, happens: Callable[[NodeCalls, ServiceTurn], list[CallInput]]
    ) -> None:
        """Something happens to the calls of a service; it is told what follows from that."""
        taken = ServiceTurn(mounted.name, turn.boot_ms, turn.wall, mounted.data)
        found = happens(mounted.calls, taken)
        self._do(mounted, taken, turn)
        for what in found:
            self._step(mounted, what, turn)
        self._carry_out_own(mounted, turn)
        self._see_when_due(mounted)

    def _turn_off(self, name: str, fault: MachineFault, turn: Turn) -> None:
        """A machine failed in the midst of a step. Nothing of that step leaves, and this service is off until the next
        start, which begins with what is on the disk. The node goes on."""
        del self._mounted[name]
        self._reception.failed.add(name)
        self._has_written = True
        self._footing.announce(name, None)
        fault.note(turn, "service_failed", service=name)
        self._requests.gone(name)
        for id in [id for id, service in self._requests.open.items() if service == name]:
            self._answer(Answer(id, self._reception.off(name)), turn)

    def _see_when_due(self, mounted: Mounted) -> None:
        """Of the others nothing has changed."""
        if mounted.name not in self._reception.failed:
            mounted.note_due()
        due_ms = min((one.due_ms for one in self._mounted.values() if one.due_ms is not None), default=None)
        again_ms = self._requests.again_ms
        self._due_ms = again_ms if due_ms is None or (again_ms is not None and again_ms < due_ms) else due_ms

    # -- what it wants

    def _do(self, mounted: Mounted, taken: ServiceTurn, turn: Turn) -> None:
        for effect in taken.effects:
            match effect:
                case SlotKept(key=key, value=value):
                    turn.ready.records += self._slots.keep(mounted.name, key, value)
                case Answer():
                    self._answer(effect, turn)
                case ServiceTell():
                    turn.ready.tells.append(effect)
                case Note():
                    turn.ready.notes.append(effect)
                case AskedOfNode() | AnsweredNode():
                    after = ServiceTurn(mounted.name, turn.boot_ms, turn.wall, mounted.data)
                    mounted.calls.take(effect, after)
                    self._do(mounted, after, turn)
                case ToldAll(body=body):
                    self._has_written = True
                    self._footing.tell_all(mounted.name, body)
                case FieldsAnnounced(fields=fields):
                    self._has_written = True
                    self._footing.announce(mounted.name, fields)
                case EntryWritten():
                    self._write(mounted, effect, turn)
                case AskedOfService():
                    self._requests.ask(mounted.name, effect)
                case WorkWanted():
                    turn.ready.works += self._requests.work(mounted.name, effect)
                case AskContinued():
                    self._requests.go_on(mounted.name, effect)
                case AskWithdrawn():
                    self._requests.withdraw(mounted.name, effect)
                    after = ServiceTurn(mounted.name, turn.boot_ms, turn.wall, mounted.data)
                    mounted.calls.withdraw(effect.purpose, after)
                    self._do(mounted, after, turn)
                case DataKept(key=key, value=value):
                    turn.ready.records += mounted.data.keep(mounted.name, key, value)
                case MadeGood():
                    turn.ready.records += mounted.data.make_good(mounted.name)
                case _:
                    assert_never(effect)

    def _write(self, mounted: Mounted, written: EntryWritten, turn: Turn) -> None:
        self._has_written = True
        try:
            self._footing.write(mounted.name, written, turn)
        except RequestError as error:
            mounted.calls.reply(Replied(written.purpose, error))

    def _answer(self, answer: Answer, turn: Turn) -> None:
        requests = self._requests
        if answer.id in requests.open:  # else it was withdrawn, or answered before
            if answer.id > 0:
                turn.ready.answers.append(answer)
            else:
                requests.answered(answer)
            if answer.is_last:
                del requests.open[answer.id]

    def check(self, *, is_whole: bool) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for mounted in self._mounted.values():
            mounted.calls.check()
            mounted.machine.check(is_whole=is_whole)
        self._nodes.check()
        must(self._mounted.keys().isdisjoint(self._reception.failed), "what failed is off")
        self._requests.check()
        must(
            set(self._requests.open.values()) <= self._mounted.keys(),
            "whoever waits, waits for a service that is there",
        )


@attrs.define(slots=True)
class Mounted:
    """One service that works on this node: its machine, and what goes between it and itself on other nodes."""

    name: str
    machine: ServiceMachine
    data: Data
    """What all services of the node keep row by row."""
    calls: NodeCalls
    """Since the machine began; so are the numbers."""
    numbers: HeardNumbers = attrs.field(factory=HeardNumbers)
    """Of the frames that it was told."""

    due_ms: int | None = None
    """When there is something to do, if nothing happens before; since the last step."""

    def note_due(self) -> None:
        """A step is over."""
        machine_ms, calls_ms = self.machine.wake_ms(), self.calls.wake_ms()
        self.due_ms = calls_ms if machine_ms is None or (calls_ms is not None and calls_ms < machine_ms) else machine_ms
