"""What must be true of an echo.

Knows: what is said and what comes back.  Does not know how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.ground.frames import Heard, Lacked
from distkv.core.ready import Answer, Input, Ready, ServiceAsked
from distkv.errors import BadValueError, BusyError, InternalError, NotReadyError
from distkv.model.event import NodeName
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import DataRecord, Record
from tests.proof.core.echo.machine import ECHO, Echo, sealed
from tests.proof.sim.echo.crowd import LAST
from tests.proof.wire.echo import EchoAsk, EchoHeard, EchoSeal, EchoShout

FAILS: Final = {"refused": BadValueError, "fault": InternalError}
"""What becomes of the texts that are not sealed."""


class EchoIsTrue(Observer):
    """What comes back is what was said, backwards, or the seal of it; once all is well nobody waits for long."""

    rule = "an echo says what was said"

    def __init__(self) -> None:
        self.heard_count = 0
        self.sealed_count = 0
        self._said: dict[tuple[Process, int], EchoAsk | EchoSeal] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked) and isinstance(what.request, EchoAsk | EchoSeal):
            self._said[process, what.id] = what.request
        for answer in ready.answers:
            self._answered(process, answer)

    def ended(self, process: Process) -> None:
        for key in [key for key in self._said if key[0] is process]:
            del self._said[key]

    def settled(self, fleet: Observed) -> None:  # noqa: ARG002
        if self._said:
            raise self.broken(f"nobody answered {[*self._said.values()]}")

    def _answered(self, process: Process, answer: Answer) -> None:
        said = self._said.pop((process, answer.id), None)
        if isinstance(said, EchoAsk) and isinstance(answer.result, EchoHeard):
            self.heard_count += 1
            if answer.result.text != said.text[::-1]:
                raise self.broken(f"{process.host.name} heard {answer.result.text} of {said.text}")
        elif isinstance(said, EchoSeal) and not isinstance(answer.result, BusyError | NotReadyError):
            self.sealed_count += 1
            if answer.result != EchoHeard(_seal_of(said.text)) and type(answer.result) is not FAILS.get(said.text):
                raise self.broken(f"{process.host.name} was answered {answer.result} for the seal of {said.text}")


class RowsStay(Observer):
    """What was kept and is durable is there at the next start, whatever befell the host but the loss of its disk. Of
    what was under way a first part may be there; and of a step all, or nothing."""

    rule = "rows of data stay"

    def __init__(self) -> None:
        self.start_count = 0
        """How many starts found rows."""
        self._durable: dict[str, dict[str, bytes | None]] = {}
        """By host; a host whose disk was lost is not among them."""
        self._under_way: dict[Process, list[list[DataRecord]]] = {}
        """Of each step."""

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        name, data = process.host.name, process.replica.store.data
        found = {key: data.find(service, key) for service, key in data.rows() if service == ECHO}
        known = self._durable.get(name, found)
        before = [steps for other, steps in self._under_way.items() if other.host is process.host]
        allowed = [known]
        for step in before[-1] if before else []:
            known = _after(known, step)
            allowed.append(known)
        if found not in allowed:
            raise self.broken(f"{name} starts with {found}, and not with one of {allowed}")
        self.start_count += bool(found)
        self._durable[name], self._under_way[process] = found, []

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        kept = [record for record in ready.records if isinstance(record, DataRecord)]
        if kept:
            self._under_way.setdefault(process, []).append(kept)

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        left, name = sum(isinstance(record, DataRecord) for record in records), process.host.name
        while left > 0:
            step = self._under_way[process].pop(0)
            self._durable[name] = _after(self._durable.get(name, {}), step)
            left -= len(step)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:  # noqa: ARG002
        self._durable.pop(host.name, None)
        for process in [one for one in self._under_way if one.host is host]:
            del self._under_way[process]


class ShoutsAreTold(Observer):
    """Since it began, each echo is told each number of an origin once, from 1 on, in order: it hears or lacks it. Once
    all is well, the last word of each reaches all."""

    rule = "a shout is heard once, or lacked"

    def __init__(self) -> None:
        self.heard_count = self.lacked_count = 0
        self._told: dict[Process, tuple[list[Heard | Lacked], int, dict[NodeName, tuple[int, int]]]] = {}
        """What each was told, how much of it was looked at, and the start and number of each origin."""
        self._lasts: dict[Process, set[NodeName]] = {}

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        machine = process.replica.services.get(ECHO)
        if not isinstance(machine, Echo):
            return
        if isinstance(what, ServiceAsked) and isinstance(what.request, EchoShout) and what.request.text == LAST:
            self._lasts.setdefault(process, set())
        heard, count, numbers = self._told.get(process, (machine.heard, 0, {}))
        if heard is not machine.heard:
            heard, count, numbers = machine.heard, 0, {}
        for told in heard[count:]:
            self._look(process, told, numbers)
        self._told[process] = heard, len(heard), numbers

    def ended(self, process: Process) -> None:
        self._told.pop(process, None)
        self._lasts.pop(process, None)

    def settled(self, fleet: Observed) -> None:
        hosts = [host for host in fleet.ours() if host.process in self._lasts and host.live.server_tree is not None]
        spoke = {host.node: host.process for host in hosts if host.process is not None}
        for name, process in spoke.items():
            if lacks := spoke.keys() - {name} - self._lasts[process]:
                raise self.broken(f"{name} did not hear the last word of {', '.join(sorted(lacks))}")

    def _look(self, process: Process, told: Heard | Lacked, numbers: dict[NodeName, tuple[int, int]]) -> None:
        origin, name = told.origin, process.host.name
        first, last = (told.number, told.number) if isinstance(told, Heard) else (told.first, told.last)
        start, before = numbers.get(origin.node, (0, 0))
        expected = before + 1 if origin.start == start else 1
        if first != expected or last < first or origin.start < start or origin.node == process.host.node:
            raise self.broken(f"{name} is told {first} to {last} of {origin}, and not {expected} of {start}")
        numbers[origin.node] = origin.start, last
        if isinstance(told, Lacked):
            self.lacked_count += last - first + 1
            return
        self.heard_count += 1
        if told.body.partition(b" ")[2].decode() == LAST and process in self._lasts:
            self._lasts[process].add(origin.node)


class FieldsAreSeen(Observer):
    """Once all is well, each echo sees what all others announce."""

    rule = "announced fields are seen"

    def __init__(self) -> None:
        self.seen_count = 0

    def settled(self, fleet: Observed) -> None:
        hosts = [host for host in fleet.ours() if host.process is not None and host.live.server_tree is not None]
        machines = {host.node: host.live.services.get(ECHO) for host in hosts}
        echoes = {name: machine for name, machine in machines.items() if isinstance(machine, Echo) and machine.shouts}
        for name, echo in echoes.items():
            for other, told in echoes.items():
                seen = None if echo.ground is None else echo.ground.announced.of(other)
                if seen != {"shouts": told.shouts}:
                    raise self.broken(f"{name} sees {seen} of {other}, which said {told.shouts}")
                self.seen_count += 1


def _seal_of(text: str) -> str:
    return "" if text in FAILS else sealed(text).decode()


def _after(rows: Mapping[str, bytes | None], step: Sequence[DataRecord]) -> dict[str, bytes | None]:
    changed = {**rows, **{record.key: record.value for record in step}}
    return {key: value for key, value in changed.items() if value is not None}
