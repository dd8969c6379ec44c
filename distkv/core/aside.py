"""Inputs whose step failed: which one is tried again, and which is set aside from now on.

Knows: what failed before, and how often.  Does not know why, nor the disk that keeps this from one start to the next.

Whoever fails in the midst of a step may hold half of something, so the node ends. The first time, its input is only
suspected: chance may have had a part in it. An input of many changes is taken apart when it is met again. The second
time it is set aside: what it brings is left out, and the node serves without it, and says so.

Invariant: what ended the node twice never reaches a step again, unless a person or another release wants it tried; what
is remembered is bounded (docs/protocol, ASIDE-1 to ASIDE-5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, assert_never

import attrs

from distkv.core.client_writes import LocalBatch, LocalDecision, LocalSet, ReplaceChange, RetireNode
from distkv.core.edges import EdgeAsked, EdgeEnded, EdgeTaken, EdgeTold, NodeMeasured
from distkv.core.ready import (
    AnnounceDue,
    FollowBegan,
    FollowEnded,
    FollowersSeen,
    FollowTold,
    HeardMessage,
    Input,
    JoinerAsked,
    LendEnded,
    LineLent,
    MembersSeen,
    NodeTold,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    ServiceAsked,
    ServiceContinued,
    ServiceWithdrawn,
    SetAside,
    TransportDown,
    TransportGap,
    TransportUp,
    Wake,
    WorkDone,
)
from distkv.errors import NotFoundError, RequestError
from distkv.model.event import Event, Link, read_tick_text, tick_text
from distkv.model.path import Path
from distkv.wire.gossip import kind_of
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead, TickMaps, Update

ASIDE_MAX: Final = 100
"""So many inputs are set aside; one more ends the node each time that it comes."""
SUSPECTS_MAX: Final = 50
"""So many are suspected; the oldest makes room."""
LINKS_MAX: Final = 2000
"""So many changes of one input are suspected at once; those behind them are not."""
ROW: Final = "row/"
"""Before the path, in hexadecimal, whose value could not be loaded from the archive."""
END: Final = "end/"
"""Before the change whose value is to be ended."""
TEXT_MAX: Final = 300
"""Characters of a text that is kept about one."""
PATH_MAX: Final = 4000
"""Of a path; without it a change cannot be dropped."""
SUSPECTED_S: Final = 86_400.0
"""What failed once, and not again for so long, counts as new."""


@attrs.frozen
class Failed:
    """An input whose step failed."""

    id: str
    """What people name it by: a change as NODE:TICK, all else as WHAT/WHOSE; at most `TEXT_MAX` characters."""
    error: str
    place: str
    """Where it was raised: FILE:LINE."""
    release: str
    """Of distkv, in which it failed."""
    first: float
    """Seconds since 1970."""
    last: float
    count: int = 1
    """How often it ended the node."""
    is_aside: bool = False
    links: tuple[Link, ...] = ()
    """The change that it is; or those among which one is suspected."""
    path: Path | None = None
    """Of the change that it is."""
    tock: int = 0
    content: str = ""
    """Of the change that it is, as a hash: somebody may have lied about a tick, and then its true change is taken."""

    @property
    def is_row(self) -> bool:
        """Whether it is a row of the archive."""
        return self.id.startswith(ROW)

    @property
    def is_hole(self) -> bool:
        """Whether it is a change that this node lacks."""
        return self.is_aside and bool(self.links)


@attrs.frozen
class Sifted:
    """What may be taken of an input."""

    parts: tuple[Input, ...]
    """In this order, each as a step."""
    gone: tuple[Link, ...] = ()
    """The changes that were left out."""
    refused: Failed | None = None
    """Why nothing of it is taken."""


class Asides:
    """Those of one node. Times are seconds since 1970."""

    def __init__(self, failed: Iterable[Failed] = (), release: str = "") -> None:
        """`failed`: as they were kept. What another release set aside is tried once more by this one."""
        self.entries: Final = dict[str, Failed]()
        """By their ids, the oldest first; not to be changed."""
        for one in failed:
            is_other = one.is_aside and one.release != release
            self.entries[one.id] = attrs.evolve(one, is_aside=False, release=release) if is_other else one
        self._release = release
        self._suspected: frozenset[Link] | None = None
        """The changes that are suspected; None: to be seen anew."""

    @property
    def aside(self) -> list[Failed]:
        """Those that are set aside, the oldest first."""
        return [one for one in self.entries.values() if one.is_aside]

    @property
    def holes(self) -> list[Failed]:
        """Those of them that are changes which this node lacks."""
        return [one for one in self.entries.values() if one.is_hole]

    @property
    def resting(self) -> list[Link]:
        """The values that are not ended."""
        links = [read_tick_text(one.id.removeprefix(END)) for one in self.aside if one.id.startswith(END)]
        return [link for link in links if link is not None]

    # -- before a step

    def sift(self, what: Input, name_of: Callable[[Input], str]) -> Sifted:
        """What may be taken of an input; `name_of` tells from whom it came. Changes that are suspected are steps of
        their own, so that the next failure shows which one it was."""
        events = _events(what)
        if events is None:
            id = _id(what, name_of)
            found = self.entries.get(id) if id else None
            return Sifted((), refused=found) if found is not None and found.is_aside else Sifted((what,))
        gone = tuple(event.link for event in events if self.is_left_out(event))
        rest = tuple(event for event in events if not self.is_left_out(event)) if gone else events
        if self._suspected is None:
            self._suspected = frozenset(link for one in self.entries.values() if not one.is_aside for link in one.links)
        if len(rest) > 1 and any(event.link in self._suspected for event in rest):
            return Sifted(tuple(_with(what, (event,), is_first=event is rest[0]) for event in rest), gone)
        return Sifted((_with(what, rest, is_first=True) if gone else what,), gone)

    def is_left_out(self, event: Event) -> bool:
        """Whether a change is set aside, wherever it comes from."""
        found = self.entries.get(tick_text(*event.link))
        return found is not None and found.is_aside and found.content in ("", _content(event))

    # -- after a step

    def taken(self, what: Input) -> bool:
        """A step went well: its changes are not suspected any more. Whether that is news."""
        links = {event.link for event in _events(what) or ()}
        is_news = False
        if not links or (self._suspected is not None and not links & self._suspected):
            return False
        for one in list(self.entries.values()):
            left = tuple(link for link in one.links if link not in links)
            if not one.is_aside and len(left) < len(one.links):
                is_news, self._suspected = True, None
                if left:
                    self.entries[one.id] = attrs.evolve(one, links=left)
                else:
                    del self.entries[one.id]
        return is_news

    def failed(
        self,
        what: Input,
        name_of: Callable[[Input], str],
        error: str,
        place: str,
        now: float,
        ending: Event | None = None,
    ) -> Failed | None:
        """A step failed; what is remembered of it. None: nobody but this node itself is its cause, or there is no room
        for one more that is set aside. `ending`: the value that it was about to end, because its time was over."""
        if ending is not None:
            change = self._change(ending, error[:TEXT_MAX], place[:TEXT_MAX], now)
            return self._remember(attrs.evolve(change, id=f"{END}{change.id}", links=()), now)
        found = self._made(what, name_of, error[:TEXT_MAX], place[:TEXT_MAX], now)
        return None if found is None else self._remember(found, now)

    def not_replayed(self, event: Event, error: str, place: str, now: float) -> Failed | None:
        """The same of an event of the log, at a start."""
        return self._remember(self._change(event, error[:TEXT_MAX], place[:TEXT_MAX], now), now)

    def not_loaded(self, path: bytes, error: str, place: str, now: float) -> Failed | None:
        """The same of a row of the archive; `path` is its key."""
        return self._remember(Failed(_row_id(path), error[:TEXT_MAX], place[:TEXT_MAX], self._release, now, now), now)

    def is_row_left_out(self, path: bytes) -> bool:
        """Whether the row of the archive with this key is set aside."""
        found = self.entries.get(_row_id(path))
        return found is not None and found.is_aside

    def rows_loaded(self) -> list[Failed]:
        """Forget, and return, the rows of the archive that were left out, and those that are suspected no more."""
        gone = [one for one in self.entries.values() if one.is_row]
        for one in gone:
            del self.entries[one.id]
        return [one for one in gone if one.is_aside]

    def replayed(self, event: Event) -> bool:
        """An event of the log went well at a start; whether it was suspected."""
        found = self.entries.get(tick_text(*event.link))
        if found is None or found.is_aside:
            return False
        del self.entries[found.id]
        self._suspected = None
        return True

    def _remember(self, found: Failed, now: float) -> Failed | None:
        before, self._suspected = self._before(found, now), None
        if before is not None:
            found = attrs.evolve(found, first=before.first, count=before.count + 1)
            found = attrs.evolve(found, is_aside=len(found.links) <= 1)
            self.entries.pop(before.id, None)
        if found.is_aside and len(self.aside) >= ASIDE_MAX:
            return None
        suspects = [one for one in self.entries.values() if not one.is_aside and one.id != found.id]
        if not found.is_aside and len(suspects) >= SUSPECTS_MAX:
            del self.entries[suspects[0].id]
        self.entries[found.id] = found
        return found

    # -- what people decide

    def retry(self, id: str) -> Failed:
        """Have it taken when it comes again; should it fail once more, it is set aside at once.

        Raises:
            NotFoundError: nothing of that name is set aside.
        """
        found = self.named(id)
        self.entries[id] = attrs.evolve(found, is_aside=False)
        self._suspected = None
        return found

    def droppable(self, id: str) -> Failed:
        """The change of that name, which is to be replaced by what is here.

        Raises:
            RequestError: nothing of that name is set aside, or it is no change.
        """
        found = self.named(id)
        if not found.links:
            raise RequestError(f"{id} is no change, so there is nothing to drop: 'aside retry {id}' has it taken again")
        if found.path is None:
            raise RequestError(f"the path of {id} is too long to be kept: write that path anew on a node that has it")
        return found

    def named(self, id: str) -> Failed:
        """What is set aside under this name.

        Raises:
            NotFoundError: nothing is.
        """
        found = self.entries.get(id)
        if found is None or not found.is_aside:
            raise NotFoundError(f"nothing is set aside under {id!r}: 'distkv client aside list' tells what is")
        return found

    def forget_held(self, is_held: Callable[[Link], bool]) -> list[Failed]:
        """Forget, and return, those whose change is held here by now, as one that was replaced."""
        gone = [one for one in self.entries.values() if one.links and all(map(is_held, one.links))]
        for one in gone:
            del self.entries[one.id]
        self._suspected = None
        return gone

    # -- inside

    def _before(self, found: Failed, now: float) -> Failed | None:
        """What was remembered of it, or of some among which it was."""
        for one in list(self.entries.values()):
            is_same = one.id == found.id or any(link in one.links for link in found.links)
            if is_same and (one.links or now - one.last < SUSPECTED_S):
                return one
        return None

    def _made(self, what: Input, name_of: Callable[[Input], str], error: str, place: str, now: float) -> Failed | None:
        events = _events(what)
        if events is None:
            id = _id(what, name_of)
            return Failed(id, error, place, self._release, now, now) if id else None
        links = tuple(event.link for event in events[:LINKS_MAX])
        if len(events) > 1:
            id = f"{tick_text(*links[0])}+{len(links) - 1}"
            return Failed(id, error, place, self._release, now, now, links=links)
        return self._change(events[0], error, place, now)

    def _change(self, event: Event, error: str, place: str, now: float) -> Failed:
        path = event.path if len(str(event.path)) <= PATH_MAX else None
        return Failed(
            tick_text(*event.link), error, place, self._release, now, now, links=(event.link,), path=path,
            tock=event.tock, content=_content(event),
        )  # fmt: skip


def _content(event: Event) -> str:
    """A hash of all that a change says."""
    parts = event.path, event.kind, event.value, event.chain, event.tock, event.time, event.ttl, event.fence
    return _digest(repr(parts))


def _events(what: Input) -> tuple[Event, ...] | None:
    """The changes that an input brings; None: it is of another kind, or brings none."""
    if isinstance(what, FollowTold):
        return what.events or None
    if isinstance(what, HeardMessage) and isinstance(what.message, Update):
        return what.message.events or None
    if isinstance(what, PeerAnswered) and isinstance(what.answer, EventBatch):
        return what.answer.events or None
    return None


def _with(what: Input, events: tuple[Event, ...], *, is_first: bool) -> Input:
    """The same input with these changes; what else it says is said with the first."""
    if isinstance(what, FollowTold):
        return FollowTold(what.follow, events, what.known if is_first else {})
    if isinstance(what, HeardMessage) and isinstance(what.message, Update):
        return HeardMessage(attrs.evolve(what.message, events=events))
    return PeerAnswered(what.ask, EventBatch(events)) if isinstance(what, PeerAnswered) else what


def _id(what: Input, name_of: Callable[[Input], str]) -> str:
    """What an input without changes is called, the same each time that it comes; empty: it is of this node itself."""
    return _short(_named(what, name_of))


def _short(id: str) -> str:
    return id if len(id) <= TEXT_MAX else f"{id[: TEXT_MAX - 9]}~{_digest(id)}"


def _row_id(path: bytes) -> str:
    return _short(f"{ROW}{path.hex()}")


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def _named(what: Input, name_of: Callable[[Input], str]) -> str:
    match what:
        case LocalSet(request=request):
            return f"{'delete' if request.value is None else 'set'}/{request.path}"
        case LocalBatch(ops=ops):
            return f"batch/{_digest(' '.join(str(op.path) for op in ops))}"
        case LocalDecision(request=decision):
            return f"decision/{tick_text(*decision.loser)}"
        case ReplaceChange(link=link):
            return f"drop/{tick_text(*link)}"
        case RetireNode(node=node):
            return f"retire/{node}"
        case HeardMessage(message=message):
            return f"{kind_of(message)}/{message.header.node}"
        case PeerOffered(maps=maps):
            return f"exchange/{maps.header.node}"
        case JoinerAsked(node=node):
            return f"join/{node}"
        case NodeTold(name=name, service=service):
            return f"{service}/{name}"
        case ServiceAsked(service=service):
            return f"{service}/client"
        case PeerAnswered(answer=answer):
            return f"{_ANSWERS.get(type(answer), 'page')}/{name_of(what)}"
        case FollowBegan() | FollowTold() | LineLent():
            return f"link/{name_of(what)}"
        case MembersSeen():
            return "members/agent"
        case (
            SetAside() | TransportUp() | TransportDown() | TransportGap() | AnnounceDue() | PeerDone() | FollowEnded()
            | FollowersSeen() | LendEnded() | ServiceContinued() | ServiceWithdrawn() | Wake()
            | WorkDone()
            | EdgeAsked() | EdgeTold() | EdgeTaken() | EdgeEnded() | NodeMeasured()
        ):  # fmt: skip
            return ""
        case _:
            assert_never(what)


_ANSWERS: Final[dict[type, str]] = {
    TickMaps: "maps", EventBatch: "events", PullEnd: "events", SnapshotHead: "download"
}  # fmt: skip
