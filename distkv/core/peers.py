"""What a node makes of other nodes over TCP: exchanges and pulls; whole answers go to who wanted them.

Knows: what an exchange or a pull changes, and what is asked next.  Does not know connections, nor what a download
(`download`) or a comparison of trees (`comparison`) makes of its parts.

Invariant: an exchange is idempotent and may break off anywhere (docs/protocol, XCHG-3).
"""

from __future__ import annotations

from itertools import chain, islice
from typing import assert_never

import attrs

from distkv.core.asks import Asked, Why
from distkv.core.comparison import Comparison
from distkv.core.download import Download
from distkv.core.node import Node
from distkv.core.ready import AskEvents, AskMaps, AskSnapshot, PeerAnswered, PeerDone
from distkv.core.sponsor import Sponsor
from distkv.core.steps import take
from distkv.core.turn import Turn
from distkv.core.update import Store
from distkv.errors import NotReadyError, RequestError
from distkv.model.event import Event, NodeName, Tick
from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, count, joined, ranges_of, through, without
from distkv.wire.message import EventBatch, Header, PullEnd, SnapshotHead, TickMaps


class Peers:
    """Talks over TCP for one node."""

    def __init__(self, node: Node, sponsor: Sponsor) -> None:
        self._node = node
        self._sponsor = sponsor
        self._download = Download(node)
        self._comparison = Comparison(node)
        self._compared: TickMaps | None = None
        """What a peer said in this step, before it was seen whom to follow."""
        self._began_ms = 0
        self._losers_asked: tuple[NodeName, Tick] | None = None
        """The last open loser that was asked for, where others still wait for their turn."""

    def begin(self, now_ms: int) -> None:
        """The node starts."""
        self._began_ms = now_ms

    # -- what we asked for

    def answered(self, what: PeerAnswered, turn: Turn) -> None:
        """A part of an answer came."""
        node = self._node
        asked = node.asks.get(what.ask)
        if asked is None or asked.is_void:
            return
        asked.heard_ms = turn.now_ms
        if asked.why is Why.COMPARISON:
            self._comparison.answered(asked, what, turn)
            return
        match asked.ask.what, what.answer:
            case AskMaps(), TickMaps() as maps:
                self._answered_with_maps(asked, maps, turn)
            case AskSnapshot(), SnapshotHead() as head:
                self._download.began(asked, head, turn)
            case (AskEvents() | AskSnapshot()), EventBatch(events=events):
                new = sum(node.apply(event, turn) for event in events)
                if isinstance(asked.ask.what, AskEvents):
                    node.deliveries.events_pulled += len(events)
                    node.deliveries.events_pulled_again += len(events) - new
                asked.brought |= bool(events)
            case AskEvents(doubted=doubted), PullEnd(known=known, lacks=lacks):
                # Of other ticks nobody's word is taken: what nobody made yet would never be applied when it comes.
                # What superseded them may be among what was left to links (PULL-5).
                questions = joined(node.store.tree.ledger.missing(), doubted) if not asked.left else {}
                asked.brought |= bool(node.learn_known(common(questions, known), turn))
                asked.ended = True
                whole = not node.store.missing()
                brought = asked.brought or whole  # else nothing was asked for but what is given up
                node.recovery.pull_ended(asked.name, lacks, turn.now_ms, brought=brought, is_whole=whole)
                self._pull_on(asked, doubted, turn)
            case _:
                turn.ready.note("answer_unasked", node=asked.name)  # a snapshot, say, would void all that is here

    def done(self, what: PeerDone, turn: Turn) -> None:
        """An answer is complete, or will not come."""
        node = self._node
        asked = node.asks.end(what.ask)
        if asked is None:
            return
        if what.error is not None:
            # That a member has no data either is no failure: two nodes that join at once see each other's addresses.
            kind = "peer_empty" if isinstance(what.error, NotReadyError) else "peer_failed"
            turn.ready.note(kind, node=asked.name, addr=asked.ask.addr, error=str(what.error))
        match asked.why:
            case Why.EXCHANGE:
                node.recovery.exchange_ended()
                if what.error is not None:
                    node.recovery.exchange_failed(asked.name, turn.now_ms)
                self._attempt_over(asked, turn)
            case Why.PULL:
                node.following.look_again()
                if not asked.ended:
                    node.recovery.pull_failed(asked.name, turn.now_ms, is_whole=not node.store.missing())
            case Why.DOWNLOAD:
                self._download.done(asked, what, turn)
            case Why.WITNESS if asked.differs and not asked.is_void and what.error is None:
                node.ask(asked.name, asked.ask.addr, AskMaps(), Why.WITNESS, turn)
            case Why.WITNESS:
                node.lives.witnesses.ended(asked.name)
                if not node.is_serving:
                    self._attempt_over(asked, turn)
            case Why.BEHIND:
                pass  # it was told, or will be at its next exchange
            case Why.PRESENCE:
                self._sponsor.silent(asked.name, asked.ask.id, turn.now_ms)
            case Why.NAMESAKE:
                if what.error is not None:
                    node.follow(node.lives.namesake_silent(asked.ask.addr, is_serving=node.is_serving), turn)
            case Why.TOMBSTONES:
                node.deletion.asked(asked.name, turn.now_ms)
                if what.error is not None:
                    node.recovery.unreachable(asked.name, turn.now_ms)
            case Why.COMPARISON:
                self._comparison.done(asked, what, turn)
            case _:
                assert_never(asked.why)

    def _attempt_over(self, asked: Asked, turn: Turn) -> None:
        """An exchange that a start may wait for is over."""
        startup = self._node.startup
        if asked.brought:
            startup.attempt_ended()
        elif not asked.is_void:
            take(startup.attempt_failed(turn.now_ms, asked.name), self._node, turn)

    # -- exchange

    def offered(self, maps: TickMaps, turn: Turn) -> None:
        """A peer started an exchange: take its side, answer with ours. Nobody asked it to, so its tock is limited."""
        node, header = self._node, maps.header
        if header.node == node.store.me:
            if header.start not in (None, node.settings.start) and header.network == node.network_id:
                # Anybody may connect and say so: whoever is there must answer.
                node.follow(node.lives.name_claimed(maps.addr), turn)
            turn.ready.reply = node.maps()
            return
        if node.is_serving and header.tock > node.store.tock + node.settings.limits.tock_jump:
            turn.ready.note("tock_jump", node=header.node, tock=header.tock)
            node.recovery.differed(header.node, turn.now_ms, turn.now_ms)
            turn.ready.reply = RequestError(f"the tock {header.tock} is too far ahead of {node.store.me}'s")
            return
        if self._refuse_foreign(header, turn):
            error = f"{node.store.me} belongs to another network; nodes of two networks never merge"
            turn.ready.reply = RequestError(error)
            return
        whole = self._whole(maps, turn)
        if whole is None:
            turn.ready.reply = node.short_maps(header.node, header.life)
            return
        is_behind = node.recovery.went_back(header, whole.held) or self._is_doubted(maps)  # which `_whole` looked at
        behind = header.life if is_behind else None
        self._maps_came(whole, turn)
        if maps.ticks_hash is not None:
            turn.ready.reply = node.short_maps(header.node, header.life, behind)
        else:
            turn.ready.reply = node.maps(asked=maps.tombstones, behind=behind)

    def _answered_with_maps(self, asked: Asked, maps: TickMaps, turn: Turn) -> None:
        """The other side of an exchange that we started."""
        node, header, what = self._node, maps.header, asked.ask.what
        if maps.ticks_hash is not None and (not isinstance(what, AskMaps) or what.short_for is None):
            turn.ready.note("answer_unasked", node=asked.name)
            return
        whole = self._whole(maps, turn)
        if whole is None:
            asked.differs = True
            return
        what_it_says, maps = maps, whole
        went_back = node.recovery.went_back(header, maps.held) or self._is_doubted(what_it_says)
        asked.brought = self._maps_came(maps, turn, is_answer=True) and header.network is not None
        if asked.missing and (asked.brought or header.network is None):
            # Not what was heard of since: that may have come to the peer since.
            node.recovery.lacks(header.node, asked.missing, maps.held)
        if not asked.brought:
            return
        if header.node == asked.name:
            node.lives.witnesses.shown(header.node)
        if asked.why is Why.TOMBSTONES and not maps.is_stale:
            node.deletion.reported(maps, node.store.tree)
        self._sponsor.answered(header.node, asked.ask, turn.now_ms, is_serving=maps.state.is_serving)
        if went_back and maps.addr:
            node.ask(header.node, maps.addr, AskMaps(behind=header.life), Why.BEHIND, turn)

    def _whole(self, maps: TickMaps, turn: Turn) -> TickMaps | None:
        """What a peer's side stands for; None: it is a short one, and not of just what we hold."""
        tree, maps = self._node.store.tree, self._node.late_joins.as_they_are(maps, turn)
        if maps.ticks_hash is None:
            return maps
        if (maps.digest, maps.ticks_hash) != tree.sums:
            return None
        return attrs.evolve(maps, held=tree.ledger.shared_held(), ticks_hash=None)

    def _is_doubted(self, maps: TickMaps) -> bool:
        """Whether a node is to hear that its disk is stale, which it does not say."""
        return not maps.is_stale and self._node.late_joins.is_doubted(maps.header.node, maps.header.life)

    def _refuse_foreign(self, header: Header, turn: Turn) -> bool:
        """Whether a peer belongs to another network; that is noted."""
        node, network = self._node, header.network
        if network is None or not node.store.has_data or network == node.network_id:
            return False
        turn.ready.note("foreign_network", node=header.node, network=network.hex())
        return True

    def _maps_came(self, maps: TickMaps, turn: Turn, *, is_answer: bool = False) -> bool:
        """Take in a peer's side of an exchange. False: it belongs to another network."""
        node, header = self._node, maps.header
        store = node.store
        if header.network is None:
            return True
        if self._refuse_foreign(header, turn):
            return False
        if header.node == store.me:
            node.follow(node.lives.namesake_met(header), turn)
            return True
        take(node.startup.heard_data(header.node, maps.addr), node, turn)
        if not store.has_data:
            self._download.hand_over(maps, turn)
            return True
        store.tock = max(store.tock, header.tock)
        node.recovery.saw(header.node, maps.addr, turn.now_ms)
        node.following.heard(header.node, turn.now_ms)
        store.hear_ticks(maps.ticks.items())
        node.recovery.maps_came(header.node, maps.held, header)
        node.startup.map_arrived(node.store.missing())
        node.follow(node.lives.heard_maps(maps.behind, is_serving=node.is_serving), turn)
        self._comparison.maps_came(maps, turn, is_answer=is_answer)
        self._compared = maps
        return True

    def do_what_is_due(self, turn: Turn) -> None:
        """Now that it is seen whom to follow: go on with what came of an exchange in this step, and repair."""
        maps = self._compared
        if maps is not None:
            self._compared = None
            self._pull_after_exchange(maps, turn)
            self._download.hand_over(maps, turn)
        if self._node.store.has_data:
            self._repair(turn)

    def _repair(self, turn: Turn) -> None:
        """Pull what is missing, exchange when it is due, give up what nobody has."""
        node, now_ms = self._node, turn.now_ms
        recovery, ledger = node.recovery, node.store.tree.ledger
        if ledger.is_whole:
            recovery.gap_closed()
        elif recovery.is_idle and node.unexpected():
            recovery.gap_seen(now_ms)
        wake_ms = recovery.wake_ms()
        if wake_ms is None or wake_ms > now_ms:
            return
        peer = recovery.next_exchange(now_ms)
        if peer is not None:
            node.ask(peer.name, peer.addr, AskMaps(), Why.EXCHANGE, turn)
        missing = node.store.missing()
        if node.is_up and now_ms - self._began_ms >= 3 * node.settings.clock_ms:
            turn.ready.records += node.store.mark_lost(recovery.lost(missing, node.store.others(), now_ms))
        missing = node.unexpected()
        if not missing:
            recovery.gap_closed()
            return
        peer = recovery.next_pull(now_ms, missing)
        if peer is not None:
            if node.is_too_much(missing) and not peer.holds(missing):
                recovery.exchange_soon(now_ms, peer.name)  # what it lacks need not be asked for piece by piece
            node.ask(peer.name, peer.addr, AskEvents(missing), Why.PULL, turn)

    def _pull_after_exchange(self, maps: TickMaps, turn: Turn) -> None:
        """Fetch what the peer has and we lack, given up or not, and ask what it knows of our open losers.

        Where the digests agree both have the same ones open.
        """
        if maps.addr:
            asks_losers = maps.digest != self._node.store.tree.digest
            self._pull(maps.header.node, maps.addr, maps.held, turn, asks_losers=asks_losers)

    def _pull_on(self, asked: Asked, doubted: TickRanges, turn: Turn) -> None:
        """A pull has room for so much only: go on while open losers are left, or what the peer holds and we gave up.

        What is not given up is pulled in any case; this would wait for the next exchange, a ping for each pull.
        """
        peer = self._node.recovery.peers.get(asked.name)
        is_whole = not self._node.store.missing()
        asks_losers = bool(doubted) and self._losers_asked is not None
        if peer is not None and peer.held is not None and (asks_losers or (is_whole and asked.brought)):
            self._pull(asked.name, asked.ask.addr, peer.held, turn, asks_losers=asks_losers)

    def _pull(self, name: NodeName, addr: str, held: TickRanges, turn: Turn, *, asks_losers: bool) -> None:
        """What we lack comes first: else many open losers, asked for every time, would keep it out of the pull."""
        node = self._node
        if node.recovery.is_pulling:
            return
        missing = node.store.tree.ledger.missing()
        expected = node.following.expected(missing)
        wanted = common(without(missing, expected), held)
        room = node.settings.limits.pull_events_max - count(wanted)
        is_left = expected or node.following.coming()  # what closes open losers may come by a link
        asks_losers &= room > 0 and not is_left
        doubted = self._next_losers(held, room) if asks_losers else {}
        if wanted or doubted:
            node.recovery.pull_started()
            node.ask(name, addr, AskEvents(wanted, doubted), Why.PULL, turn)

    def _next_losers(self, held: TickRanges, room: int) -> TickRanges:
        """The next `room` of the open losers that a peer holds, in order, so that they take turns."""
        none, after = Ranges(), self._losers_asked
        losers = ((event.node, event.tick) for event in self._node.store.tree.open_losers())
        left = sorted(at for at in losers if at[1] in held.get(at[0], none) and (after is None or at > after))
        self._losers_asked = left[room - 1] if len(left) > room else None
        return ranges_of(left[:room])

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._download.check()
        self._comparison.check()
        must(self._compared is None, "what a peer said is used in the step in which it comes")


def answer_pull(store: Store, asked: AskEvents) -> tuple[list[Event], PullEnd]:
    """The answer to a pull, of one instant: the events that are here, and the end, which says what is superseded here
    and what is not here at all.

    That something is superseded is said only together with all that is present here and not there: then whatever has
    superseded it is there, too, when this disk burns (PULL-5). While a download has not brought that, it is not said.
    """
    tree, held, limit = store.tree, store.tree.ledger.shared_held(), asked.limit
    ranges = asked.ranges if asked.ticks is None else joined(asked.ranges, without(held, through(asked.ticks)))
    events = list(islice(tree.present(ranges), None if limit is None else limit + 1))
    lacks = without(joined(asked.ranges, asked.doubted), held)
    if not store.has_data or (limit is not None and len(events) > limit):
        return events[:limit], PullEnd({}, lacks)
    present = ranges_of(event.link for event in chain(events, tree.present(asked.doubted)))
    return events, PullEnd(without(common(joined(ranges, asked.doubted), held), present), lacks)
