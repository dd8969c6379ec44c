"""Makes a trace: what a step was told, what it wanted done, and how the node is after it, become a `Moment`.

Knows: every input and output of the core, and which of them are worth a line.  Does not know who drives the node: the
simulator and the engine both hand in what they see.

Invariant: it changes nothing, and what it keeps is bounded by the requests that are under way.  A step that changed and
said nothing gives no moment; every message that arrives from another node does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, assert_never

import attrs

from distkv.core.client_writes import LocalBatch, LocalDecision, LocalSet, ReplaceChange, RetireNode, WriteDone
from distkv.core.edges import EdgeAsked, EdgeEnded, EdgeInput, EdgeTaken, EdgeTold, NodeMeasured
from distkv.core.election import has_data
from distkv.core.ready import (
    AnnounceDue,
    Ask,
    AskEvents,
    AskMaps,
    AskPages,
    AskSnapshot,
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
    Note,
    PathChange,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    Ready,
    Reply,
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
from distkv.core.replica import Replica
from distkv.errors import DistkvError
from distkv.graph.trace import EVENTS_SHOWN, EventShown, Moment, Said, StepKind
from distkv.model.event import COUNT_BITS, Event, Kind, Link, is_above, life_of, order, tick_text
from distkv.model.pages import Page
from distkv.model.path import Path
from distkv.model.tick_ranges import TickRanges, lives, ranges_of
from distkv.wire.gossip import GossipKind, kind_of
from distkv.wire.hidden import is_hidden, without_content
from distkv.wire.message import (
    CeilingRecord,
    EventBatch,
    EventRecord,
    Header,
    Info,
    Message,
    Ping,
    PingChain,
    PullEnd,
    SnapshotHead,
    TickMap,
    TickMaps,
    Update,
)
from distkv.wire.values import unpack_value

RANGES_SHOWN: Final = 32
"""So many ranges are written out; then `…` says that there are more."""
VALUE_CHARACTERS: Final = 40


class Recorder:
    """Of one start of one node. `step` is called once for each step, in their order."""

    def __init__(self) -> None:
        self._asks: dict[int, Said] = {}
        self._shown: tuple[str, str] = ("", "")

    def step(self, at_ms: int, what: Input | None, ready: Ready, replica: Replica) -> Moment | None:
        """The moment of a step that was taken, and not yet carried out; None when there is nothing to show.

        `what` is None when the process began.
        """
        kind, heard, arrived = self._arrival(what, replica)
        sent = [self._leaving(message, replica) for message in ready.messages] + self._answer(what, ready.reply)
        came = {event.link for event in arrived}
        written = [record.event for record in ready.records if isinstance(record, EventRecord)]
        made = [event for event in written if event.node == replica.name and event.link not in came]
        events = [*arrived, *made]
        now = _now(at_ms, kind, replica)
        shown = now.state, now.chain
        if _is_silent(what, ready, replica) and shown == self._shown:
            return None
        self._shown = shown
        return attrs.evolve(
            now,
            heard=heard,
            sent=tuple(sent),
            events=tuple(_shown(events, {event.link for event in made}, ready, replica)),
            ticks=ranges_text(ranges_of(event.link for event in events)),
            closed=ranges_text(ranges_of(event.link for change in ready.changes for event in _closed(change, replica))),
            notes=tuple(_notes(ready)),
        )

    def seen(self, at_ms: int, replica: Replica) -> Moment:
        """No step: the node as it is, for one who begins to listen."""
        now = _now(at_ms, StepKind.SEEN, replica)
        self._shown = now.state, now.chain
        return now

    # -- what arrives

    def _arrival(
        self, what: Input | None, replica: Replica
    ) -> tuple[StepKind | GossipKind, Said | None, Iterable[Event]]:
        """What kind of step this is, the message that set it off, and the events in it."""
        match what:
            case None:
                return StepKind.STARTED, None, ()
            case LocalSet(request=request):
                return (StepKind.SET if request.value is not None else StepKind.DELETE), None, ()
            case LocalBatch():
                return StepKind.BATCH, None, ()
            case HeardMessage(message=message):
                events = message.events if isinstance(message, Update) else ()
                return kind_of(message), _gossip(message), events
            case PeerAnswered(ask=ask, answer=answer):
                return self._answered(ask, answer)
            case FollowBegan(follow=follow) | FollowTold(follow=follow):
                return StepKind.LINKED, *self._linked(what, replica.followed(follow) or "", replica.name)
            case FollowEnded() | FollowersSeen() | LendEnded() | LineLent():
                return StepKind.LINKED, None, ()
            case PeerDone(ask=ask, error=error):
                asked = self._asks.pop(ask, None) or _unknown(replica.name, ask)
                about = "" if error is None else str(error)
                return StepKind.DONE, Said("done", asked.key, asked.to, replica.name, asked.key, about=about), ()
            case PeerOffered(maps=maps):
                return StepKind.OFFERED, _maps(maps, replica.name, ""), ()
            case JoinerAsked(node=node):
                return StepKind.JOINER, Said("ask snapshot", "", node, replica.name), ()
            case MembersSeen(alive=alive):
                return StepKind.MEMBERS, Said("members", "", "", replica.name, about=" ".join(sorted(alive))), ()
            case TransportUp() | TransportDown() | TransportGap() | AnnounceDue() | Wake():
                return _KINDS[type(what)], None, ()
            case NodeTold(name=name, service=service):
                return StepKind.TOLD, Said("told", "", name, replica.name, about=service), ()
            case SetAside() | ReplaceChange():
                return StepKind.REQUEST, None, ()
            case EdgeAsked() | EdgeTold() | EdgeTaken() | EdgeEnded() | NodeMeasured():
                return StepKind.LINKED, None, ()
            case RetireNode() | LocalDecision() | ServiceAsked() | ServiceContinued() | ServiceWithdrawn() | WorkDone():
                return StepKind.REQUEST, None, ()
        assert_never(what)

    def _linked(self, what: FollowBegan | FollowTold, parent: str, me: str) -> tuple[Said, Iterable[Event]]:
        if isinstance(what, FollowBegan):
            return Said("linked", "", parent, me, about="it begins"), ()
        if what.known:
            return Said("linked", "", parent, me, about=f"known {ranges_text(what.known)}"), ()
        ticks = ranges_text(ranges_of(event.link for event in what.events))
        return Said("linked", "", parent, me, ticks=ticks), what.events

    def _answered(
        self, ask: int, answer: TickMaps | EventBatch | PullEnd | SnapshotHead | Page
    ) -> tuple[StepKind, Said, Iterable[Event]]:
        asked = self._asks.get(ask) or _unknown("", ask)
        me, key = asked.sender, asked.key
        match answer:
            case TickMaps():
                return StepKind.MAPS, _maps(answer, me, key), ()
            case SnapshotHead():
                return StepKind.SNAPSHOT, _snapshot(answer, me, key), ()
            case EventBatch(events=events):
                ticks = ranges_text(ranges_of(event.link for event in events))
                return StepKind.EVENTS, Said("events", key, asked.to, me, key, ticks), events
            case PullEnd(known=known, lacks=lacks):
                about = f"lacks {ranges_text(lacks)}" if lacks else ""
                return StepKind.KNOWN, Said("known", key, asked.to, me, key, ranges_text(known), about=about), ()
            case Page(until=until, digest=digest):
                last = "the last" if until is None else _path_text(until)
                about = f"the digest {digest:016x} of its paths up to {last}"
                return StepKind.PAGES, Said("pages", key, asked.to, me, key, about=about), ()
        assert_never(answer)

    # -- what leaves

    def _leaving(self, message: Message | Ask, replica: Replica) -> Said:
        if not isinstance(message, Ask):
            return _gossip(message)
        me, what = replica.name, message.what
        to = replica.asked_name(message.id) or message.addr
        key = f"{me}#{message.id}@{replica.tock}"
        said = Said(_ASKS[type(what)], key, me, to, key)
        if isinstance(what, AskEvents):
            about = f"whether {ranges_text(what.doubted)} is superseded" if what.doubted else ""
            said = attrs.evolve(said, ticks=ranges_text(what.ranges), about=about)
        if isinstance(what, AskMaps) and what.short_for is not None:
            said = attrs.evolve(said, about="hash")
        if isinstance(what, AskPages):
            said = attrs.evolve(said, about=_stretch(what))
        self._asks[message.id] = said
        return said

    def _answer(self, what: Input | None, reply: Reply | None) -> list[Said]:
        """What goes back to a peer at once."""
        if isinstance(reply, TickMaps) and isinstance(what, PeerOffered):
            return [_maps(reply, what.maps.header.node, "")]
        if isinstance(reply, SnapshotHead) and isinstance(what, JoinerAsked):
            return [_snapshot(reply, what.node, "")]
        return []


def outside(at_ms: int, node: str, kind: str, about: str = "") -> Moment:
    """What befell a node (or, with an empty name, the network) and is no step of it."""
    return Moment(at_ms, node, kind, notes=(about,) if about else ())


# -- as text ------------------------------------------------------------------------------------------------------


def chain_text(chain: PingChain) -> str:
    """`b:3 a:2`; a link without a tick is its name alone."""
    return " ".join(tick_text(link.node, link.tick) if link.tick else link.node for link in chain)


def ranges_text(ranges: TickRanges) -> str:
    """`a:1-5,9 b:350.1-3`: for each writer its ticks, the last ones inside."""
    parts: list[str] = []
    found = ((node, begin, end) for node in sorted(ranges) for begin, end in lives(ranges[node]))
    writer = None
    for node, begin, end in islice(found, RANGES_SHOWN):
        text = tick_text(node, begin)
        if writer == (node, life_of(begin)):
            parts[-1] += "," + str(begin & ((1 << COUNT_BITS) - 1))
        else:
            parts.append(text)
        if end - 1 > begin:
            parts[-1] += "-" + str((end - 1) & ((1 << COUNT_BITS) - 1))
        writer = (node, life_of(begin))
    return " ".join(parts) + (" …" if next(found, None) is not None else "")


def _tick_map_text(ticks: TickMap) -> str:
    shown = [tick_text(node, tick) for node, lasts in sorted(ticks.items()) for tick in lasts]
    return " ".join(shown[:RANGES_SHOWN]) + (" …" if len(shown) > RANGES_SHOWN else "")


def value_text(event: Event) -> str | None:
    """For people; None when it is deleted."""
    if event.kind is not Kind.SET:
        return None
    text = repr(unpack_value(event.value)) if len(event.value) <= VALUE_CHARACTERS else f"{len(event.value)} bytes"
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


# -- inside -------------------------------------------------------------------------------------------------------


def _now(at_ms: int, kind: StepKind | GossipKind, replica: Replica) -> Moment:
    """The node as it is."""
    ledger = replica.tree.ledger
    return Moment(
        at_ms=at_ms,
        node=replica.name,
        kind=kind,
        state=str(replica.state),
        tick=tick_text(replica.name, replica.tick) if replica.life is not None else "",
        tock=replica.tock,
        digest=f"{replica.tree.digest:016x}",
        chain=chain_text(replica.ping_chain),
        missing=ranges_text(ledger.missing(but_lost=True)),
        lost=ranges_text(ledger.lost()),
    )


_KINDS: Final[dict[type, StepKind]] = {
    TransportUp: StepKind.UP,
    TransportDown: StepKind.DOWN,
    TransportGap: StepKind.GAP,
    AnnounceDue: StepKind.ANNOUNCE,
    Wake: StepKind.WAKE,
}
_ASKS: Final[dict[type, str]] = {
    AskMaps: "ask maps", AskEvents: "ask events", AskPages: "ask pages", AskSnapshot: "ask snapshot"
}  # fmt: skip


def _path_text(path: Path) -> str:
    return "one that is hidden" if is_hidden(path) else str(path)


def _stretch(what: AskPages) -> str:
    """Which paths are to be compared."""
    after = "" if what.after is None else f" behind {_path_text(what.after)}"
    until = "" if what.until is None else f" up to {_path_text(what.until)}"
    return f"digests of the paths{after}{until}, {what.size} to a page"


def _key(header: Header) -> str:
    return f"{header.node}@{header.tock}"


def _gossip(message: Message) -> Said:
    said = Said(kind_of(message), _key(message.header), message.header.node)
    match message:
        case Update(events=events):
            return attrs.evolve(said, ticks=ranges_text(ranges_of(event.link for event in events)))
        case Ping(chain=chain):
            about = "" if has_data(chain) else "initial"
            return attrs.evolve(said, chain=chain_text(chain), about=about)
        case Info(ticks=ticks, reason=reason, ping=ping):
            about = "reason" if reason else "answer" if ping else ""
            shown = chain_text(reason or ping or ())
            return attrs.evolve(said, ticks=_tick_map_text(ticks or {}), chain=shown, about=about)
    assert_never(message)


def _maps(maps: TickMaps, to: str, ask: str) -> Said:
    about = "no data" if maps.header.network is None else "hash" if maps.ticks_hash is not None else ""
    return Said("maps", _key(maps.header), maps.header.node, to, ask, ranges_text(maps.held), about=about)


def _snapshot(head: SnapshotHead, to: str, ask: str) -> Said:
    about = f"life {head.life}, {head.entry_count} entries"
    return Said("snapshot", _key(head.header), head.header.node, to, ask, _tick_map_text(head.ticks), about=about)


def _unknown(asker: str, ask: int) -> Said:
    """The request to which an answer belongs was made before anybody listened."""
    return Said("", f"{asker}#{ask}", asker)


def _closed(change: PathChange, replica: Replica) -> Iterable[Event]:
    """The open losers that a change closed. The former winner may be among what went, too: it was above all others."""
    if not change.won or not change.closed:
        return change.closed
    highest, entry = max(change.closed, key=order), replica.tree.get(change.event.path)
    if entry is not None and any(is_above(loser, highest) for loser in entry.losers):
        return change.closed  # the former winner is one of the losers now
    return [event for event in change.closed if event is not highest]


def _shown(events: list[Event], made: set[Link], ready: Ready, replica: Replica) -> Iterable[EventShown]:
    recorded = {record.event.link for record in ready.records if isinstance(record, EventRecord)}
    won = {change.event.link for change in ready.changes if change.won}
    for event in events[:EVENTS_SHOWN]:
        if event.link in made:
            fate = "made"
        elif event.link in won:
            fate = "won"
        elif event.link in recorded:
            fate = "open loser" if replica.tree.event(event.link) is not None else "superseded"
        else:
            fate = "known" if replica.tree.ledger.has(event.link) else "refused"
        if is_hidden(event.path):
            event = without_content(event)
        yield EventShown(tick_text(*event.link), str(event.path), value_text(event), fate)


def _notes(ready: Ready) -> Iterable[str]:
    yield from map(_note_text, ready.notes)
    if isinstance(ready.reply, DistkvError):
        yield f"refused code={ready.reply.code}"
    elif isinstance(ready.reply, WriteDone) and ready.reply.event is None:
        yield "unchanged"
    if ready.fatal is not None:
        yield f"fatal {ready.fatal}"


def _note_text(note: Note) -> str:
    return " ".join([note.id, *(f"{name}={value}" for name, value in note.fields.items())])


def _is_silent(what: Input | None, ready: Ready, replica: Replica) -> bool:
    """Whether nobody would miss this step."""
    if isinstance(what, HeardMessage):
        header = what.message.header
        is_expected = header.node == replica.name and header.start in (None, replica.settings.start)
    elif isinstance(what, PeerDone):
        is_expected = what.error is None
    elif isinstance(what, FollowTold):
        is_expected = not (what.events or what.known)
    else:
        is_expected = isinstance(what, Wake | MembersSeen | AnnounceDue | FollowersSeen | EdgeInput)
    records = [record for record in ready.records if not isinstance(record, CeilingRecord)]
    return is_expected and not (records or ready.messages or ready.changes or ready.notes or ready.fatal)
