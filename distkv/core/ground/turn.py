"""One step of a service: the time, and what the service wants done, in its order.

Knows: every effect of a service.  Does not know what becomes of it (`services`).

Invariant: what is taken here is carried out as one step when the machine is done: all slots of it are kept, or none,
and what it tells and answers leaves when they are on the disk, unless it says that it does not wait for that. Of a step
that fails nothing is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import Data, check_row, row_size
from distkv.core.ready import Answer, Note, ServiceQuestion, ServiceResult, ServiceTell
from distkv.model.event import NodeName
from distkv.model.fence import Fence
from distkv.wire.announcing import checked_fields
from distkv.wire.edges import FRAME_BYTES_MAX


@attrs.frozen(slots=True)
class SlotKept:
    """A value is kept under a key, durably; None: not any more."""

    key: str
    value: bytes | None


@attrs.frozen(slots=True)
class DataKept:
    """A row of data is kept under a key, durably; None: not any more."""

    key: str
    value: bytes | None


@attrs.frozen(slots=True)
class MadeGood:
    """What was in doubt of the data is so no more."""


@attrs.frozen(slots=True)
class EntryWritten:
    """An entry of this service in the store has a value from now on; None: it is deleted."""

    key: str
    value: bytes | None
    purpose: object = None
    fence: Fence | None = None
    closes: tuple[bytes | None, ...] = ()


@attrs.frozen(slots=True)
class AskedOfNode:
    """The same service of a node is asked something."""

    node: NodeName
    body: bytes
    purpose: object
    patience_ms: int
    is_once: bool = False
    waits: bool = True


@attrs.frozen(slots=True)
class AnsweredNode:
    """A question of a node is answered."""

    call: CallKey
    body: bytes
    waits: bool = True


@attrs.frozen(slots=True)
class AskedOfService:
    """Another service of this node is asked something."""

    service: str
    request: ServiceQuestion
    purpose: object


@attrs.frozen(slots=True)
class AskContinued:
    """An answer to what was asked of another service was taken; there may be more."""

    purpose: object


@attrs.frozen(slots=True)
class AskWithdrawn:
    """What was asked of a node, or of another service, is not wanted any more."""

    purpose: object


@attrs.frozen(slots=True)
class WorkWanted:
    """Something slow is done on a thread."""

    job: Callable[[], object]
    purpose: object


@attrs.frozen(slots=True)
class ToldAll:
    """The same service of all other nodes is told something."""

    body: bytes


@attrs.frozen(slots=True)
class FieldsAnnounced:
    """This node announces these fields of the service from now on; None: nothing."""

    fields: Mapping[str, object] | None


OwnEffect: TypeAlias = AskedOfService | AskContinued | AskWithdrawn | WorkWanted
"""What a service wants of its own node."""
TreeEffect: TypeAlias = ToldAll | FieldsAnnounced
"""What goes over the server tree."""

Effect: TypeAlias = (
    SlotKept | DataKept | MadeGood | EntryWritten | ServiceTell | TreeEffect | AskedOfNode | AnsweredNode | OwnEffect
    | Answer | Note
)


@attrs.define(slots=True)
class ServiceTurn:
    """What a machine is handed with each input."""

    service: str
    """Whose turn it is."""
    boot_ms: int
    """Milliseconds of a clock that goes on while the machine sleeps; they mean nothing on another node, or after a
    restart of the system."""
    wall: float
    """Seconds since 1970; only ever stored or shown."""
    data: Data = attrs.field(factory=Data)
    """What services of the node keep row by row, before this step."""
    effects: list[Effect] = attrs.field(factory=list)
    """In their order."""
    always_waits: bool = False
    """Whether all that leaves waits for the disk: the step follows from one of another service, which may have kept
    something for it."""
    data_bytes: int = 0
    """By how much this step makes the rows larger."""
    written_bytes: int = 0
    """Of the rows that are kept by this step, also in place of others."""
    _row_bytes: dict[str, int] = attrs.field(factory=dict)
    """What each row counts that this step changed."""

    def keep(self, key: str, value: bytes | None) -> None:
        """Keep a promise under a key, durably; None: not any more. All promises of a service are void when one is
        damaged, or the disk is an old one."""
        self.effects.append(SlotKept(key, value))

    def keep_data(self, key: str, value: bytes | None) -> None:
        """Keep a row of data under a key, durably; None: not any more. `ServiceGround.data` shows it from the next step
        on. A row that the disk damages is lost by itself; all others stay, also on an old disk and in a backup.

        Raises:
            BadValueError: the key is empty, no text, or begins with a zero character.
            TooLargeError: the key has more than 1,024 bytes, or the value more than 1 MiB.
            NoSpaceError: the services of the node keep as much as `limits.data_bytes` allows, or the disk is full. A
                row can be removed all the same.
            BusyError: the node has not enough memory now.
        """
        before = self._row_bytes.get(key)
        if before is None:
            found = self.data.find(self.service, key)
            before = 0 if found is None else row_size(key, found)
        check_row(key, value, self.data.bytes_max - self.data.size - self.data_bytes + before)
        after = 0 if value is None else row_size(key, value)
        if value is not None:
            size = self.written_bytes + after
            self.data.check_room(size)
            self.written_bytes = size
        self._row_bytes[key] = after
        self.data_bytes += after - before
        self.effects.append(DataKept(key, value))

    def make_good(self) -> None:
        """What `ServiceGround.data` says to be lost, old or unknown is made good: it is said no more."""
        self.effects.append(MadeGood())

    def tell(self, node: NodeName, body: bytes, *, waits: bool = True) -> None:
        """Tell the same service of another node something. It may get lost, and nobody hears of that. With
        `waits=False` it may leave before the disk has this step, and must promise nothing of it."""
        self.effects.append(ServiceTell(node, self.service, body, waits or self.always_waits))

    def tell_all(self, body: bytes) -> None:
        """Tell the same service of all other nodes something, over the server tree: a frame, which each of them hears
        once (`Heard`), in the order in which this node says them, or is told that it lacks it (`Lacked`). It may leave
        before the disk has this step, and must promise nothing of it.

        Raises:
            ValueError: it has more than `FRAME_BYTES_MAX` bytes.
        """
        if len(body) > FRAME_BYTES_MAX:
            raise ValueError(f"a frame has {len(body)} bytes; the limit is {FRAME_BYTES_MAX}")
        self.effects.append(ToldAll(body))

    def announce(self, fields: Mapping[str, object] | None) -> None:
        """Announce these fields to all nodes, in place of what was announced before; None: nothing any more. A change
        leaves with the next announcement of the node, half a second after the last one at the earliest, and each time
        that the node announces itself. Others may see only the last of several. `tell_all` says what it may promise.

        Raises:
            ValueError: they are no fields, or have more than `FIELDS_BYTES_MAX` bytes.
        """
        self.effects.append(FieldsAnnounced(None if fields is None else checked_fields(fields)))

    def answer(self, id: int, result: ServiceResult, *, is_last: bool = True, waits: bool = True) -> None:
        """Answer a request, whose id `ServiceAsked` gave; nothing happens when nobody waits for it. `waits`: see
        `tell`."""
        self.effects.append(Answer(id, result, is_last, waits or self.always_waits))

    def ask_node(
        self,
        node: NodeName,
        body: bytes,
        purpose: object,
        *,
        patience_ms: int,
        is_once: bool = False,
        waits: bool = True,
    ) -> None:
        """Ask the same service of a node, this one included. It is told until it answers, so it may hear it twice;
        with `is_once` it never does, and where nobody knows whether it heard it the reply is an `UnknownOutcomeError`.
        The answer, or that there is none after `patience_ms`, comes as `Replied(purpose, ...)`. `waits`: see `tell`."""
        self.effects.append(AskedOfNode(node, body, purpose, patience_ms, is_once, waits or self.always_waits))

    def answer_node(self, call: CallKey, body: bytes, *, waits: bool = True) -> None:
        """Answer what `NodeAsked` asked; nothing happens when nobody waits for it. `waits`: see `tell`."""
        self.effects.append(AnsweredNode(call, body, waits or self.always_waits))

    def ask(self, service: str, request: ServiceQuestion, purpose: object) -> None:
        """Ask another service of this node, as a client of it would. Each answer comes as `Replied(purpose, ...)`, as
        does why there is none: the service is absent, off or refuses, or too many requests wait. After an answer that
        is not the last one, more come as soon as `go_on` asks for them. Nothing comes after `withdraw`, nor when this
        machine began anew."""
        self.effects.append(AskedOfService(service, request, purpose))

    def go_on(self, purpose: object) -> None:
        """The last answer to what was asked of another service was taken, and more can be."""
        self.effects.append(AskContinued(purpose))

    def withdraw(self, purpose: object) -> None:
        """Nothing that was asked of a node or of another service, or is worked at, for this purpose is wanted any more.
        """
        self.effects.append(AskWithdrawn(purpose))

    def work(self, job: Callable[[], object], purpose: object) -> None:
        """Do something slow on a thread, such as the hash of a secret. It must be pure: it changes nothing, and reads
        nothing that somebody changes. What it returns comes as `Replied(purpose, ...)`; so does why there is nothing,
        an exception of it included, or that too much waits. After `withdraw` nothing comes, and the work is done for
        nobody."""
        self.effects.append(WorkWanted(job, purpose))

    def write(
        self,
        key: str,
        value: bytes,
        purpose: object = None,
        fence: Fence | None = None,
        closes: tuple[bytes | None, ...] = (),
    ) -> None:
        """Write an entry of this service in the store: what all nodes are to know for good. The key is a name below the
        service's path, or two (`entry_key`); empty: that path. The value is packed. A write that is refused comes back
        as `Replied(purpose, error)`; one that is made shows itself as `EntryChanged`. Who names a purpose is also
        refused when the disk is full.

        The write replaces the winner. Of the versions that lost (`Entries.versions`) it closes those that have one of
        the values in `closes`; all others stay.

        With the fence of a token (its base does not matter) it is refused as `fenced` if the entry has a higher one, or
        that of another token; without, if a token holds the entry. It is refused as `not_ready` until every registered
        node has announced that it knows fences of services."""
        self.effects.append(EntryWritten(key, value, purpose, fence, closes))

    def delete(
        self, key: str, purpose: object = None, fence: Fence | None = None, closes: tuple[bytes | None, ...] = ()
    ) -> None:
        """Delete such an entry. What is deleted under a fence is never forgotten (FENCE-5): who deletes much under
        fences writes that it is free instead."""
        self.effects.append(EntryWritten(key, None, purpose, fence, closes))

    def note(self, id: str, **fields: object) -> None:
        """Something worth counting, under a stable id."""
        self.effects.append(Note(id, fields))
