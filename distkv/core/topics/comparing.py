"""Copies of topics are compared with those of their owners, and both get what they lack.

Knows: which copy is to be compared when, with whom, and how far that is.  Does not know what a row means, nor how an
owner answers (`compare_answers`).

A copy is compared when the entry or the owner's node changed, when the owner has started anew or says that it lacks
something, and each minute. As long as the entry names this node as one that has what the owner lacks, it compares each
second, also if it has nothing. First a digest; then those of all parts; then the rows of each part that differs, in
pages, both ways. A node that the entry does not name sends what it has, and lets its messages go.

Invariant: a copy is *clean* towards one start of an owner when that owner has all that is in it on its disk, and so
have its followers, if this node is none. It is *whole* (`whole_copies`) when it has every operation that was answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.compare_answers import CompareAnswers, ExchangeTarget, OwnedCopies
from distkv.core.topics.compared_copy import ComparedCopy, NoCopy, SentRows, page_of, pairs_of
from distkv.core.topics.copying import Copying
from distkv.core.topics.late_pages import GoneRows
from distkv.core.topics.whole_copies import WholeCopies
from distkv.errors import DecodeError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.topic_messages import (
    COMPARE_REPLIES,
    Compare,
    CompareDiffers,
    CompareEqual,
    CompareReply,
    CompareWanted,
    Exchange,
    Exchanged,
    NotCompared,
)

RUNS_MAX: Final = 4
"""How many copies are compared at a time."""
AGAIN_MS: Final = 60_000
"""From one comparison to the next, when nothing changes."""
RETRY_MS: Final = 1000
"""From one that failed to the next; no copy is compared more often."""
PATIENCE_MS: Final = 10_000
RUNS_OF_A_START: Final = 1 << 20


class CompareHost(OwnedCopies, Protocol):
    """The copies of topics of this node, and what the store says of them."""

    def names(self) -> Iterable[str]:
        """Of all topics of which there are copies here, or which name this node as a follower."""

    def owner_of(self, name: str) -> NodeName | None:
        """The owner, as this node sees it."""

    def is_alive(self, node: NodeName) -> bool:
        """Whether another node seems to be."""

    def naming_of(self, name: str) -> int | None:
        """A number that is another each time that this node is named as a follower of a topic; None: it is none."""

    def is_lacking(self, name: str) -> bool:
        """Whether the entry says that the owner may lack what this node has."""

    def copy_of(self, name: str) -> ComparedCopy | None:
        """The copy that has an id of the entry; `NoCopy` if there is none, and this node follows, or the owner may lack
        one."""

    def begin_copy(self, turn: ServiceTurn, name: str) -> bool:
        """This node is named as a follower, and has no copy: it makes an empty one. False: it cannot."""

    def let_go(self, turn: ServiceTurn, name: str) -> None:
        """All messages of this copy are forgotten."""

    def given(self, name: str) -> None:
        """The owner has all that is in this copy; the entry may be another by that."""


@attrs.frozen(slots=True)
class ComparePurpose:
    """A question to an owner."""

    name: str
    run: int


@attrs.frozen(slots=True)
class _CopyStanding:
    """Of this node towards a topic."""

    owner: NodeName | None
    is_alive: bool
    naming: int | None
    is_lacking: bool

    @property
    def is_named(self) -> bool:
        return self.naming is not None


@attrs.define(slots=True, eq=False)
class _CopyRun:
    name: str
    number: int
    standing: _CopyStanding
    start: int | None = None
    """Of the owner, when it has answered."""
    buckets: deque[int] = attrs.field(factory=deque)
    """The parts that are not exchanged yet; the first is."""
    mine_after: str | None = ""
    """Up to where it was sent; None: it was to its end."""
    theirs_after: str | None = ""
    """Up to where it came."""
    is_last: bool = False
    """Whether all parts are through, and the owner is told so: its answer waits until its followers have them."""
    is_stale: bool = False
    """Whether another node sent something meanwhile."""
    gone: GoneRows = attrs.field(factory=GoneRows)
    """What the owner forgot while its page was under way."""


@attrs.define(slots=True, eq=False)
class _Times:
    """Which copies are to be compared."""

    soon: dict[str, None] = attrs.field(factory=dict)
    retry: dict[str, int] = attrs.field(factory=dict)
    """When; rising."""
    again: dict[str, int] = attrs.field(factory=dict)
    """When; rising."""

    def drop(self, name: str) -> None:
        self.soon.pop(name, None)
        self.retry.pop(name, None)
        self.again.pop(name, None)

    @staticmethod
    def later(times: dict[str, int], name: str, due_ms: int) -> None:
        """One of them is due then; no other is later."""
        times.pop(name, None)
        times[name] = due_ms

    def take_due(self, now_ms: int) -> str | None:
        """The next one; it is none of these any more."""
        name = next(iter(self.soon), None)
        for later in (self.retry, self.again):
            first = next(iter(later), None)
            if name is None and first is not None and later[first] <= now_ms:
                name = first
        if name is not None:
            self.drop(name)
        return name

    def due_ms(self) -> int | None:
        """When `take_due` has something."""
        if self.soon:
            return 0
        return min([ms for later in (self.retry, self.again) for ms in [*later.values()][:1]], default=None)


class Comparing:
    """That of one node, since its machine began, as one that compares and as an owner. All times are those of
    `ServiceTurn.boot_ms`."""

    def __init__(self, host: CompareHost, copying: Copying, me: NodeName, start: int) -> None:
        """`start`: which start of the node this is, below 2**42; it never comes again."""
        self._host: Final = host
        self._me: Final = me
        self.start: Final = start
        self._answers: Final = CompareAnswers(host, copying, start)
        self._standings: Final = dict[str, _CopyStanding]()
        self._runs: Final = dict[str, _CopyRun]()
        self._times: Final = _Times()
        self._clean: Final = dict[str, tuple[NodeName, int]]()
        """Towards which owner, and which start of it, a copy is clean."""
        self._whole: Final = WholeCopies()
        self._refused: Final = set[str]()
        """Of which topics this node could not take what the owner sent; the owner is told with the next question."""
        self._ended: Final = dict[str, int]()
        """When each was compared last."""
        self._last = 0

    def begin(self, turn: ServiceTurn, data: ServiceRows) -> None:
        """With what was kept."""
        self._whole.begin(turn, data)
        self.look_all(turn)

    # -- for the machine

    def whole(self, name: str) -> int | None:
        """By which naming this node follows and its copy has every operation that was answered; None: by none."""
        naming = self._host.naming_of(name)
        return naming if self._whole.is_whole(name, naming) else None

    def had(self, name: str) -> frozenset[int]:
        """By which namings it ever had every operation that was answered."""
        return self._whole.had(name)

    def is_clean(self, name: str, owner: NodeName, start: int) -> bool:
        """Whether this start of an owner, and its followers, have all that is in this copy."""
        return self._clean.get(name) == (owner, start)

    def asking(self) -> list[ComparePurpose]:
        """What is asked of owners now."""
        return [ComparePurpose(run.name, run.number) for run in self._runs.values()]

    def look_all(self, turn: ServiceTurn) -> None:
        """Others may own the copies here, or those that should be here, or be alive."""
        for name in sorted({*self._host.names(), *self._standings}):
            self._look_at(turn, name)
        self._go_on(turn)

    def look(self, turn: ServiceTurn, name: str) -> None:
        """The entry of a topic is another, or there is a new copy of it here, or none any more."""
        self._look_at(turn, name)
        self._go_on(turn)

    def came(self, name: str, sender: NodeName, rows: SentRows) -> None:
        """That node sent these rows of a topic: what the owner has not sent, it may not have."""
        clean = self._clean.get(name)
        run = self._runs.get(name)
        if run is not None:
            run.is_stale = run.is_stale or run.standing.owner != sender
            if run.standing.owner == sender:
                run.gone.see(rows)
        if clean is not None and clean[0] != sender:
            del self._clean[name]
            if run is None:
                self._times.soon[name] = None

    def met(self, turn: ServiceTurn, owner: NodeName, start: int, names: Iterable[str]) -> None:
        """A node says of these topics that it owns them, and which start of it this is: what was compared with an
        earlier one is compared anew. That it was away may have been too short to be seen."""
        for name in names:
            known = self._clean.get(name)
            if known is not None and known[0] == owner and known[1] != start:
                del self._clean[name]
                self._times.soon[name] = None
        self._go_on(turn)

    def missed(self, turn: ServiceTurn, name: str) -> None:
        """This node did not take rows of the owner, which may answer for them without this copy: it is not whole."""
        if name in self._standings and self._standings[name].is_named:
            self._doubt(turn, name)

    def slept(self, turn: ServiceTurn) -> None:
        """This node did not answer for a while: owners may have gone on without it."""
        for name in [name for name, standing in self._standings.items() if standing.is_named]:
            self._doubt(turn, name)
        self._go_on(turn)

    def asked(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange | CompareWanted) -> None:
        """A node compares its copy with that of this one; or an owner says that this node lacks something."""
        if not isinstance(question, CompareWanted):
            self._answers.asked(turn, call, question)
            return
        turn.answer_node(call, pack(CompareEqual(self.start)), waits=False)
        for name in question.names:
            if name in self._standings and self._standings[name].owner == call.peer:
                self._end(turn, name)
                self._times.soon[name] = None
        self._go_on(turn)

    def park(self, turn: ServiceTurn) -> None:
        """The changes of this step are on their way to the followers (`Copying.send`)."""
        self._answers.park(turn)

    def copied(self, turn: ServiceTurn, target: ExchangeTarget) -> None:
        """What `Copying` was to wait for is done."""
        self._answers.copied(turn, target)

    def refuse(self, turn: ServiceTurn, target: ExchangeTarget) -> None:
        """`Copying` waits for it no more: this node is not the owner."""
        self._answers.refuse(turn, target)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Whatever the machine is told; whether it was for this."""
        is_own = self._answers.step(turn, what)
        if isinstance(what, Replied) and isinstance(what.purpose, ComparePurpose):
            is_own, run = True, self._runs.get(what.purpose.name)
            if run is not None and run.number == what.purpose.run:
                self._replied(turn, run, what.reply)
        self._go_on(turn)
        return is_own

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return None if len(self._runs) >= RUNS_MAX else self._times.due_ms()

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._answers.check()
        self._whole.check()
        must(len(self._runs) <= RUNS_MAX, "few copies are compared at a time")
        must(self._runs.keys() <= self._standings.keys(), "who is compared is known")
        for run in self._runs.values():
            run.gone.check()
        for times in (self._times.retry, self._times.again):
            must([*times.values()] == sorted(times.values()), "what comes later has an order")

    # -- inside

    def _look_at(self, turn: ServiceTurn, name: str) -> None:
        host = self._host
        owner, naming = host.owner_of(name), host.naming_of(name)
        is_alive = owner is not None and owner != self._me and host.is_alive(owner)
        copy = self._copy(turn, name, is_wanted=naming is not None and is_alive)
        if copy is None:
            self._forget(turn, name)
            return
        if isinstance(copy, NoCopy):
            self._whole.forget(turn, name)
        standing = _CopyStanding(owner, is_alive, naming, host.is_lacking(name))
        before = self._standings.get(name)
        if standing == before:
            return
        self._standings[name] = standing
        if before is not None and before.is_named and not standing.is_named:
            self._clean.pop(name, None)  # what the owner has is not yet with those who are named now
        self._whole.see(turn, name, naming, is_mine=owner == self._me)
        self._end(turn, name)
        if self._clean.get(name, (owner,))[0] != owner:  # whoever owns it may be told what that one never hears
            del self._clean[name]
        if standing.is_alive:
            self._times.soon[name] = None

    def _copy(self, turn: ServiceTurn, name: str, *, is_wanted: bool) -> ComparedCopy | None:
        """That of this node; if it is to follow, and has room, it makes one."""
        copy = self._host.copy_of(name)
        is_made = isinstance(copy, NoCopy) and is_wanted and self._host.begin_copy(turn, name)
        return self._host.copy_of(name) if is_made else copy

    def _forget(self, turn: ServiceTurn, name: str) -> None:
        """There is no copy any more."""
        self._end(turn, name)
        self._times.drop(name)
        self._standings.pop(name, None)
        self._clean.pop(name, None)
        self._ended.pop(name, None)
        self._refused.discard(name)
        self._whole.forget(turn, name)

    def _doubt(self, turn: ServiceTurn, name: str) -> None:
        """A follower may lack something: it compares its copy anew."""
        self._end(turn, name)
        self._whole.doubt(name)
        self._times.soon[name] = None

    def _end(self, turn: ServiceTurn, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self._ended[name] = turn.boot_ms
            turn.withdraw(ComparePurpose(name, run.number))

    def _go_on(self, turn: ServiceTurn) -> None:
        """Compare what is due."""
        while len(self._runs) < RUNS_MAX and (name := self._times.take_due(turn.boot_ms)) is not None:
            if turn.boot_ms < self._ended.get(name, -RETRY_MS) + RETRY_MS:
                self._times.later(self._times.retry, name, turn.boot_ms + RETRY_MS)
            else:
                self._begin_run(turn, name)

    def _begin_run(self, turn: ServiceTurn, name: str) -> None:
        standing = self._standings.get(name)
        if standing is None or not standing.is_alive or name in self._runs:
            return
        copy = self._copy(turn, name, is_wanted=standing.is_named)
        if copy is None:
            return
        self._last += 1
        run = self._runs[name] = _CopyRun(name, self.start * RUNS_OF_A_START + self._last % RUNS_OF_A_START, standing)
        self._compare(turn, run, copy)

    def _compare(self, turn: ServiceTurn, run: _CopyRun, copy: ComparedCopy) -> None:
        ids, had, naming = tuple(sorted(copy.ids)), tuple(sorted(self._whole.had(run.name))), run.standing.naming
        has_no_room = isinstance(copy, NoCopy) and naming is not None
        is_refused = has_no_room or run.name in self._refused
        self._refused.discard(run.name)
        body = Compare(run.name, ids, copy.digest, run.number, had, run.is_last, naming, is_refused)
        self._ask(turn, run, pack(body))

    def _ask(self, turn: ServiceTurn, run: _CopyRun, body: bytes) -> None:
        if run.standing.owner is not None:
            purpose = ComparePurpose(run.name, run.number)
            turn.ask_node(run.standing.owner, body, purpose, patience_ms=PATIENCE_MS)

    def _replied(self, turn: ServiceTurn, run: _CopyRun, reply: object) -> None:
        said, copy = _read(reply), self._host.copy_of(run.name)
        if said is None or copy is None:
            self._finish(turn, run, is_done=False)
        elif isinstance(said, NotCompared):
            turn.note("topic_not_compared", topic=run.name, node=run.standing.owner, reason=said.why)
            self._finish(turn, run, is_done=False)
        elif run.start is not None and said.start != run.start:
            self._finish(turn, run, is_done=False)
        elif isinstance(said, Exchanged):
            self._exchanged(turn, run, said, copy)
        else:
            self._compared(turn, run, said, copy)

    def _compared(
        self, turn: ServiceTurn, run: _CopyRun, said: CompareEqual | CompareDiffers, copy: ComparedCopy
    ) -> None:
        run.start, name, is_named = said.start, run.name, run.standing.is_named
        if run.is_last and is_named and isinstance(said, CompareDiffers):
            turn.note("topic_copies_differ", topic=name, node=run.standing.owner)
        is_clean = self._clean.get(name) == (run.standing.owner, run.start)
        is_let_go = is_clean and not is_named and not run.standing.is_lacking
        if run.is_last or is_let_go or (is_named and isinstance(said, CompareEqual)):
            self._finish(turn, run, is_done=True)
            return
        if isinstance(said, CompareDiffers):
            both = zip(copy.buckets(), said.digests, strict=False)
            run.buckets.extend(at for at, (mine, theirs) in enumerate(both) if mine != theirs)
        self._begin_bucket(turn, run, copy)

    def _begin_bucket(self, turn: ServiceTurn, run: _CopyRun, copy: ComparedCopy) -> None:
        """The rows of the next part; or tell the owner that there is none."""
        if run.buckets:
            run.mine_after, run.theirs_after = "", "" if run.standing.is_named else None
            self._exchange(turn, run, copy)
        else:
            run.is_last = True
            self._compare(turn, run, copy)

    def _exchange(self, turn: ServiceTurn, run: _CopyRun, copy: ComparedCopy) -> None:
        """Send the next page, and ask for the owner's."""
        rows, more = ((), False) if run.mine_after is None else page_of(copy, run.buckets[0], run.mine_after)
        run.mine_after = rows[-1].key if more else None
        run.gone.ask()
        body = Exchange(run.name, tuple(sorted(copy.ids)), run.buckets[0], rows, run.theirs_after)
        self._ask(turn, run, pack(body))

    def _exchanged(self, turn: ServiceTurn, run: _CopyRun, said: Exchanged, copy: ComparedCopy) -> None:
        owner, name = run.standing.owner, run.name
        if owner is None or not run.buckets or run.gone.is_over:
            self._finish(turn, run, is_done=False)
            return
        try:
            if rows := run.gone.rest(pairs_of(said.rows)):
                self._host.take_copy(turn, name, tuple(copy.ids), rows, owner)
        except (DecodeError, RequestError) as error:
            turn.note("topic_exchange_refused", topic=name, node=owner, reason=str(error))
            self._refused.add(name)
            self._finish(turn, run, is_done=False)
            return
        run.theirs_after = said.rows[-1].key if said.more and said.rows else None
        if run.mine_after is not None or run.theirs_after is not None:
            self._exchange(turn, run, copy)
        else:
            run.buckets.popleft()
            self._begin_bucket(turn, run, copy)

    def _finish(self, turn: ServiceTurn, run: _CopyRun, *, is_done: bool) -> None:
        """A run is over."""
        name, now_ms, owner = run.name, turn.boot_ms, run.standing.owner
        del self._runs[name]
        self._ended[name] = now_ms
        if not is_done:
            self._times.later(self._times.retry, name, now_ms + RETRY_MS)
            return
        if self._host.is_lacking(name):  # the owner may not have seen yet that it lacks this, or write so soon
            self._times.later(self._times.retry, name, now_ms + RETRY_MS)
        else:
            self._times.later(self._times.again, name, now_ms + AGAIN_MS)
        if run.standing.naming is not None:
            self._whole.compared(name, run.standing.naming)
        if run.is_stale or owner is None or run.start is None:
            self._times.soon[name] = None
            return
        is_new = self._clean.get(name) != (owner, run.start)
        self._clean[name] = owner, run.start
        if is_new and not run.standing.is_named:
            self._whole.forget(turn, name)
            self._host.let_go(turn, name)
        self._host.given(name)
        self._look_at(turn, name)


def _read(reply: object) -> CompareReply | None:
    """What an owner said; None: nothing that can be read."""
    try:
        return COMPARE_REPLIES.read(reply) if isinstance(reply, bytes) else None
    except DecodeError:
        return None
