"""Brings each activity to this node once, in the order of its origin, and its own ones to all others.

Knows: what the nodes tell and ask each other, and when something may be given out.  Does not know clients.

Invariant: of each origin the numbers are given out in order, each once at the most. Nothing of a client's earlier epoch
is given out after its later one. An own activity is given out when it is echoed, not before: a client remembers one
number of each origin, and would never get what comes behind a higher one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, assert_never

from distkv.core.activity.ahead import Ahead, AheadPurpose
from distkv.core.activity.catching_up import CatchingUp, WindowPurpose
from distkv.core.activity.client_mark import drawn_hex
from distkv.core.activity.holes import HolePurpose, Holes
from distkv.core.activity.kept import KeptActivities
from distkv.core.activity.knowledge import Knowledge
from distkv.core.activity.origins import Origins, size_of
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.activity.own_activities import OwnActivities
from distkv.core.activity.senders import Senders
from distkv.core.activity.settings import ActivitySettings
from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.node_calls import NodeAsked
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire.activity_bodies import (
    ACTIVITY_QUESTIONS,
    PAGE_BYTES,
    PAGE_MAX,
    START_CHARS,
    WORDS,
    ActivityConfirmed,
    ActivitySaid,
    ClientOffered,
    ClientSent,
    ClientWelcome,
    HoleAnswer,
    HoleAsked,
    KeptActivity,
    OriginsAsked,
    OriginsKnown,
    SenderMark,
    WindowAsked,
    WindowPage,
)
from distkv.wire.declared import evolve, pack

AFTER_MAX: Final = 200
"""So many origins are named that an activity comes after: those that changed last."""
FORCE_MS: Final = 10_000
"""An activity whose earlier ones do not come is given out after this time all the same."""


class GivenOut(Protocol):
    """Who is told what is given out."""

    def give(self, turn: ServiceTurn, activity: KeptActivity) -> None:
        """Every client is given this."""

    def give_gap(self, turn: ServiceTurn, origin: str, first: int, last: int) -> None:
        """These do not come."""

    def expect(self, turn: ServiceTurn, count: int) -> None:
        """So many clients were sent here by another node."""

    def welcome(self, turn: ServiceTurn) -> bool:
        """Another node has a client that cannot say from where it comes: whether it may come here."""


class Delivery:
    """That of one start of a node."""

    def __init__(
        self,
        settings: ActivitySettings,
        rng: Rng,
        ground: ServiceGround,
        others: OtherListeners,
        out: GivenOut,
        now_ms: int,
    ) -> None:
        self._me: Final = ground.me
        self._start: Final = drawn_hex(rng, START_CHARS)
        self._out: Final = out
        self.origins: Final = Origins(self.origin, settings.held_max, settings.held_bytes)
        self.kept: Final = KeptActivities(settings.keep_ms, settings.keep_count, settings.keep_bytes)
        self.senders: Final = Senders(settings.senders_max)
        self.own: Final = OwnActivities(self._start, settings.copies, others)
        self._knowledge: Final = Knowledge(self.origins, others)
        self._holes: Final = Holes(self.origins, self._knowledge, others)
        self._catching: Final = CatchingUp(others, now_ms)
        self.ahead: Final = Ahead(others)
        self._counts: Final = dict.fromkeys(("gaps", "passed_over", "late", "bad"), 0)

    @property
    def origin(self) -> str:
        """The name of this start of this node."""
        return f"{self._me}.{self._start}"

    @property
    def is_ready(self) -> bool:
        """Whether clients may log in."""
        return self._catching.is_over

    # -- what happens

    def say(self, turn: ServiceTurn, activity: bytes, sender: SenderMark | None, client: int) -> None:
        """A client of this node sends something. The first one of an epoch names what it comes after: that need not be
        sent on the connection with which the client came from another node."""
        after = None
        if self.senders.is_first(sender):
            reached = self.origins.reached_last(AFTER_MAX)
            after = {origin: number for origin, number in reached.items() if origin != self.origin} or None
        number = self.own.last + 1
        self.senders.sent(sender)
        self.own.add(KeptActivity(self.origin, number, activity, sender, after), client, turn.boot_ms)
        self.origins.sent_own(number, turn.boot_ms)

    def heard(self, turn: ServiceTurn, node: NodeName, body: bytes, *, is_frame: bool) -> None:
        """Another node said something, to all or to this one."""
        try:
            word = WORDS.read(body)
        except DecodeError as error:
            self._counts["bad"] += 1
            turn.note("activity_bad", node=node, reason=error.reason)
            return
        match word:
            case ActivitySaid():
                self._said(turn, node, word, is_frame=is_frame)
            case ActivityConfirmed(start=start, numbers=numbers):
                self.own.confirmed(node, start, numbers)
            case OriginsKnown(numbers=numbers):
                self._knowledge.heard(node, numbers, turn.boot_ms)
            case ClientSent(count=count):
                self._out.expect(turn, count)
            case _:
                assert_never(word)

    def asked(self, turn: ServiceTurn, asked: NodeAsked) -> None:
        """Another node asks what this one has."""
        try:
            question = ACTIVITY_QUESTIONS.read(asked.body)
        except DecodeError as error:
            self._counts["bad"] += 1
            turn.note("activity_bad", node=asked.node, reason=error.reason)
            return
        answer: HoleAnswer | WindowPage | OriginsKnown | ClientWelcome
        match question:
            case HoleAsked():
                answer = self._hole_answer(question)
            case WindowAsked():
                answer = self._window_page(question)
            case OriginsAsked(names=names):
                had = self.origins.had()
                answer = OriginsKnown({name: had[name] for name in names if name in had})
            case ClientOffered():
                answer = ClientWelcome(self._out.welcome(turn))
            case _:
                assert_never(question)
        turn.answer_node(asked.call, pack(answer), waits=False)

    def replied(self, turn: ServiceTurn, purpose: object, reply: object) -> None:
        """Another node answered, or did not."""
        if isinstance(purpose, HolePurpose):
            found = self._holes.replied(turn, purpose, reply)
            for activity in found:
                self._take(activity, turn.boot_ms)
            if found:
                self._knowledge.tell_now(turn)
        elif isinstance(purpose, WindowPurpose):
            page = self._catching.replied(turn, purpose, reply)
            if page is not None:
                self._take_page(page, turn.boot_ms)
        elif isinstance(purpose, AheadPurpose):
            self._knowledge.answered(purpose.node, self.ahead.replied(purpose, reply), turn.boot_ms)

    def settle(self, turn: ServiceTurn) -> None:
        """Give out what may be, and ask for what is missing; after each input."""
        now_ms = turn.boot_ms
        self._catching.look(turn)
        self._knowledge.look(turn)
        self.own.look(turn)
        self.own.speak(turn)
        if not self._catching.is_over:
            return
        self._give_ready(turn)
        look_ms = self._holes.wake_ms()
        if look_ms is not None and look_ms <= now_ms:
            for hole in self._holes.look(turn):
                self._counts["gaps"] += 1
                self._counts["passed_over"] += hole.last - hole.first + 1
                self.origins.pass_over(hole, now_ms)
                self._out.give_gap(turn, hole.origin, hole.first, hole.last)
            for origin, since_ms in list(self.origins.held_back()):
                if since_ms + FORCE_MS <= now_ms and (activity := self.origins.force(origin, now_ms)) is not None:
                    self._give(turn, activity)
            self._give_ready(turn)

    def wake_ms(self) -> int | None:
        """When something is to be done."""
        due = [self._catching.wake_ms(), self._knowledge.wake_ms(), self.own.wake_ms()]
        if self._catching.is_over:
            due.append(self._holes.wake_ms())
        return min((ms for ms in due if ms is not None), default=None)

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        return {
            "kept": len(self.kept),
            "kept_bytes": self.kept.size,
            "waiting": self.origins.held,
            "unechoed": len(self.own),
            "asked": self._holes.asked,
            "named_again": self.own.named_again,
            "dropped": self.origins.dropped,
            "origins": len(self.origins.all_reached()),
            "origins_forgotten": self.origins.forgotten,
            "senders_forgotten": self.senders.forgotten,
            **self._counts,
        }

    # -- inside

    def _said(self, turn: ServiceTurn, node: NodeName, said: ActivitySaid, *, is_frame: bool) -> None:
        here = list[int]()
        for number, item in enumerate(said.items, said.number):
            activity = KeptActivity(f"{node}.{said.start}", number, item.activity, item.sender, item.after)
            if self._take(activity, turn.boot_ms):
                here.append(number)
        if here and self._me in said.confirm:
            turn.tell(node, pack(ActivityConfirmed(said.start, tuple(here))), waits=False)
        if here and not is_frame:
            self._knowledge.tell_now(turn)

    def _take(self, activity: KeptActivity, now_ms: int) -> bool:
        """Whether it is here now."""
        is_here = self.origins.hear(activity, now_ms)
        if activity.after is not None and activity.number > self.origins.reached(activity.origin):
            for origin, number in activity.after.items():
                self.origins.know(origin, number, now_ms)
        return is_here

    def _give_ready(self, turn: ServiceTurn) -> None:
        while True:
            count = self.kept.place
            while (echo := self.own.take_echo()) is not None:
                self.origins.advance_own(echo.number, turn.boot_ms)
                self._give(turn, echo)
            self.own.speak(turn)
            for activity in self.origins.take_ready(turn.boot_ms):
                self._give(turn, activity)
            if self.kept.place == count:
                return

    def _give(self, turn: ServiceTurn, activity: KeptActivity) -> None:
        if self.senders.is_late(activity.sender):
            self._counts["late"] += 1
            self.kept.add(evolve(activity, is_late=True), turn.boot_ms)
            return
        self.senders.gave(activity)
        self.kept.add(evolve(activity, is_late=False) if activity.is_late else activity, turn.boot_ms)
        self._out.give(turn, activity)

    def _hole_answer(self, asked: HoleAsked) -> HoleAnswer:
        if asked.origin == self.origin:
            here = self.own.between(asked.first, asked.last)
        else:
            here = self.origins.held_of(asked.origin, asked.first, asked.last)
        found = _page([*self.kept.between(asked.origin, asked.first, asked.last), *here])
        is_all = len(found) == 0 or found[-1].number >= asked.last
        return HoleAnswer(found, asked.last if is_all else found[-1].number)

    def _window_page(self, asked: WindowAsked) -> WindowPage:
        place = asked.place if asked.start == self._start else 0
        found, size = list[KeptActivity](), 0
        for placed in self.kept.from_place(place):
            if size >= PAGE_BYTES or len(found) >= PAGE_MAX:
                break
            found.append(placed.activity)
            size += size_of(placed.activity)
            place = placed.place
        numbers = self.origins.all_reached() if place == self.kept.place or not found else None
        return WindowPage(tuple(found), self._start, place, numbers, self._catching.is_over)

    def _take_page(self, page: WindowPage, now_ms: int) -> None:
        for activity in page.items:
            if activity.number > self.origins.reached(activity.origin):
                self.origins.adopt({activity.origin: activity.number}, now_ms)
                self.kept.add(activity, now_ms)
                if not activity.is_late:
                    self.senders.gave(activity)
        if page.numbers is not None:
            self.origins.adopt(page.numbers, now_ms)

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.kept.check(is_whole=is_whole)
        for part in (self.origins, self.senders, self.own, self._knowledge, self._holes, self._catching, self.ahead):
            part.check()


def _page(some: list[KeptActivity]) -> tuple[KeptActivity, ...]:
    """As many of them as go into one answer."""
    size = 0
    for count, activity in enumerate(some, 1):
        size += size_of(activity)
        if size >= PAGE_BYTES or count == PAGE_MAX:
            return tuple(some[:count])
    return tuple(some)
