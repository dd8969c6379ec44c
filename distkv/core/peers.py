"""What a node makes of other nodes over TCP: exchanges, pulls, downloads.

Knows: what an answer changes and what is asked next.  Does not know connections.

Invariant: an exchange is idempotent and may break off anywhere; a download that breaks off leaves nothing that a later
one does not void (docs/protocol, XCHG-3, SNAP-2).
"""

from __future__ import annotations

import attrs

from distkv.core.node import Asked, Node, Turn
from distkv.core.ready import AskEvents, AskMaps, AskSnapshot, PeerAnswered, PeerDone
from distkv.core.sponsor import Sponsor
from distkv.errors import BusyError, DuplicateNameError, ExistsError, NotReadyError, RequestError, StaleError
from distkv.model.event import NodeName
from distkv.model.ledger import TickRanges
from distkv.model.pages import Page
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree
from distkv.wire.message import EventBatch, Header, PullEnd, SnapshotHead, TickMaps


class Peers:
    """Talks over TCP for one node."""

    def __init__(self, node: Node, sponsor: Sponsor) -> None:
        self._node = node
        self._sponsor = sponsor
        self._joining_life: int | None = None
        self._losers_asked = 0

    # -- what we asked for

    def answered(self, what: PeerAnswered, turn: Turn) -> None:
        """A part of an answer came."""
        node = self._node
        asked = node.asks.get(what.ask)
        if asked is None or asked.is_void:
            return
        if asked.is_resync:
            self._resync_answered(asked, what, turn)
            return
        match asked.ask.what, what.answer:
            case AskMaps(), TickMaps() as maps:
                self._answered_with_maps(asked, maps, turn)
            case AskSnapshot(), SnapshotHead() as head:
                self._download_began(asked, head, turn)
            case (AskEvents() | AskSnapshot()), EventBatch(events=events):
                new = sum(node.apply(event, turn) for event in events)
                if isinstance(asked.ask.what, AskEvents):
                    node.deliveries.events_pulled += len(events)
                    node.deliveries.events_pulled_again += len(events) - new
                asked.brought |= bool(events)
            case AskEvents(ranges=ranges, doubted=doubted), PullEnd(known=known, lacks=lacks):
                asked.brought |= bool(node.learn_known(_among(known, ranges, doubted), turn))
                asked.ended = True
                whole = not node.missing()
                brought = asked.brought or not ranges
                node.recovery.pull_ended(asked.name, lacks, turn.now_ms, brought=brought, is_whole=whole)
                if whole and asked.brought:
                    self._pull_given_up(asked, turn)
            case _:
                turn.ready.note("answer_unasked", node=asked.name)  # a snapshot, say, would void all that is here

    def done(self, what: PeerDone, turn: Turn) -> None:
        """An answer is complete, or will not come."""
        node = self._node
        asked = node.asks.pop(what.ask, None)
        if asked is None:
            return
        if what.error is not None:
            # That a member has no data either is no failure: two nodes that join at once see each other's addresses.
            kind = "peer_empty" if isinstance(what.error, NotReadyError) else "peer_failed"
            turn.ready.note(kind, node=asked.name, addr=asked.ask.addr, error=str(what.error))
        match asked.ask.what:
            case _ if asked.is_resync:
                self._resync_done(asked, what, turn)
            case AskSnapshot() if asked.is_void:
                pass  # it came too late, and nothing of it was taken
            case AskSnapshot():
                self._download_ended(asked.name, what, turn)
            case AskEvents():
                if not asked.ended:
                    whole = not node.missing()
                    node.recovery.failed(asked.name, turn.now_ms, pulling=True, is_whole=whole)
            case AskMaps() if asked.is_witness and asked.differs and not asked.is_void and what.error is None:
                node.ask(asked.name, asked.ask.addr, AskMaps(), turn, is_witness=True)
            case AskMaps() if asked.is_witness:
                node.witnesses.ended(asked.name)
                self._sponsor.silent(asked.name, asked.ask.addr)
                if not node.is_serving:
                    self._attempt_over(asked, turn)
            case AskMaps(tombstones=tombstones) if tombstones:
                node.deletion.asked(asked.name, turn.now_ms)
                if what.error is not None:
                    node.recovery.unreachable(asked.name, turn.now_ms)
            case AskMaps() if asked.name == node.store.me:
                # Who is there with our name was asked, beside whatever exchange is under way.
                if what.error is not None:
                    node.reclaim_name(asked.ask.addr, turn)
            case AskMaps():
                node.recovery.exchange_ended()
                if what.error is not None:
                    node.recovery.failed(asked.name, turn.now_ms, pulling=False, is_whole=True)
                self._attempt_over(asked, turn)

    def _attempt_over(self, asked: Asked, turn: Turn) -> None:
        """An exchange that a start may wait for is over."""
        startup = self._node.startup
        if asked.brought:
            startup.attempt_ended()
        elif not asked.is_void:
            self._node.take(startup.attempt_failed(turn.now_ms, asked.name), turn)

    # -- exchange

    def offered(self, maps: TickMaps, turn: Turn) -> None:
        """A peer started an exchange: take its side, answer with ours. Nobody asked it to, so its tock is limited."""
        node, header = self._node, maps.header
        if header.node == node.store.me:
            if header.start not in (None, node.settings.start) and header.network == node.network_id:
                node.ask_namesake(maps.addr, turn)  # anybody may connect and say so: whoever is there must answer
            turn.ready.reply = node.maps()
            return
        if node.is_serving and header.tock > node.store.tock + node.settings.tock_jump:
            turn.ready.note("tock_jump", node=header.node, tock=header.tock)
            node.recovery.differs(header.node, turn.now_ms, turn.now_ms)
            turn.ready.reply = RequestError(f"the tock {header.tock} is too far ahead of {node.store.me}'s")
            return
        whole = self._whole(maps)
        if whole is None:
            turn.ready.reply = node.short_maps(header.node, header.life)
            return
        behind = header.life if node.recovery.went_back(header, whole.held) else None
        if not self._maps_came(whole, turn):
            error = f"{node.store.me} belongs to another network; nodes of two networks never merge"
            turn.ready.reply = RequestError(error)
        elif maps.ticks_hash is not None:
            turn.ready.reply = node.short_maps(header.node, header.life, behind)
        else:
            turn.ready.reply = node.maps(asked=maps.tombstones, behind=behind)

    def _answered_with_maps(self, asked: Asked, maps: TickMaps, turn: Turn) -> None:
        """The other side of an exchange that we started."""
        node, header, what = self._node, maps.header, asked.ask.what
        if maps.ticks_hash is not None and (not isinstance(what, AskMaps) or what.short_for is None):
            turn.ready.note("answer_unasked", node=asked.name)
            return
        whole = self._whole(maps)
        if whole is None:
            asked.differs = True
            return
        maps = whole
        went_back = node.recovery.went_back(header, maps.held)
        asked.brought = self._maps_came(maps, turn, is_answer=True) and header.network is not None
        if not asked.brought:
            return
        if header.node == asked.name:
            node.witnesses.shown(header.node)
        if isinstance(what, AskMaps) and what.tombstones and not maps.is_stale:
            node.deletion.reported(maps, node.store.tree)
        self._sponsor.answered(header.node, asked.ask.addr, is_serving=maps.state.is_serving)
        if went_back and maps.addr:
            node.ask(header.node, maps.addr, AskMaps(behind=header.life), turn, is_witness=True)

    def _whole(self, maps: TickMaps) -> TickMaps | None:
        """What a peer's side stands for; None: it is a short one, and not of just what we hold."""
        tree = self._node.store.tree
        if maps.ticks_hash is None:
            return maps
        if (maps.ticks_hash, maps.digest) != (tree.ledger.hash(), tree.digest):
            return None
        return attrs.evolve(maps, held=tree.ledger.shared_held(), ticks_hash=None)

    def _maps_came(self, maps: TickMaps, turn: Turn, *, is_answer: bool = False) -> bool:
        """Take in a peer's side of an exchange. False: it belongs to another network."""
        node, header = self._node, maps.header
        store = node.store
        if header.network is None:
            return True
        if store.has_data and header.network != node.network_id:
            turn.ready.note("foreign_network", node=header.node, network=header.network.hex())
            return False
        if header.node == store.me:
            self._met_namesake(header, turn)
            return True
        node.take(node.startup.heard_data(header.node, maps.addr), turn)
        if not store.has_data:
            self._hand_over(maps, turn)
            return True
        store.tock = max(store.tock, header.tock)
        node.recovery.saw(header.node, maps.addr, turn.now_ms)
        store.hear_ticks(maps.ticks.items())
        node.recovery.maps_came(header.node, maps.held, header)
        if is_answer and not store.tree.ledger.is_whole and node.is_too_much(missing := node.missing()):
            node.recovery.lacks(header.node, missing, maps.held)
        if node.startup.map_arrived():
            node.waits_for = node.missing()
        if node.is_rolled_back or (maps.behind is not None and maps.behind == store.own.life):
            node.found_stale("rolled_back", turn)
        self._pull_after_exchange(maps, turn)
        self._compare(maps, turn, is_answer=is_answer)
        self._hand_over(maps, turn)
        return True

    def _hand_over(self, maps: TickMaps, turn: Turn) -> None:
        """Download from a peer that has taken over all that our disk held. It must be ready, so that it keeps it."""
        node, none = self._node, Ranges()
        startup, is_kept = node.startup, maps.state.is_serving and not maps.is_stale
        if not startup.hands_over or not is_kept or not maps.addr or maps.header.network != node.network_id:
            return
        if any(isinstance(asked.ask.what, AskSnapshot) for asked in node.asks.values()):
            return
        if not any(ranges - maps.held.get(name, none) for name, ranges in node.found.items()):
            startup.asked()
            node.ask(maps.header.node, maps.addr, AskSnapshot(), turn)

    def _met_namesake(self, header: Header, turn: Turn) -> None:
        """Somebody with our name is there, perhaps ourselves: of two starts the younger ends."""
        node = self._node
        mine, other = node.settings.start, header.start
        if other is None or other == mine:
            return
        if (mine.time, mine.id) > (other.time, other.id):
            turn.ready.fatal = DuplicateNameError(
                f"another live node is called {node.store.me} and started earlier: give this one a name of its own"
            )
        else:
            turn.ready.note("name_twice", start=other.time)
            if node.store.has_data and header.life == node.store.own.life:
                node.begin_new_life(turn)  # a copy of our directory: it may have used the ticks that we would use next

    def _pull_after_exchange(self, maps: TickMaps, turn: Turn) -> None:
        """Fetch what the peer has and we lack, given up or not, and ask what it knows of our open losers.

        What we lack comes first: else many open losers, which are asked for every time, would keep it out of the pull.
        Where the digests agree both have the same ones open.
        """
        node, tree, none = self._node, self._node.store.tree, Ranges()
        missing = tree.ledger.missing()
        wanted = {name: found for name, ranges in missing.items() if (found := ranges & maps.held.get(name, none))}
        room = max(0, node.settings.pull_events_max - sum(map(len, wanted.values())))
        open_losers = tree.open_losers() if maps.digest != tree.digest else ()
        losers = [event for event in open_losers if event.tick in maps.held.get(event.node, none)]
        if len(losers) > room:  # they take turns
            begin = self._losers_asked % len(losers)
            losers = (losers[begin:] + losers[:begin])[:room]
            self._losers_asked += room
        doubted: TickRanges = {}
        for event in losers:
            doubted.setdefault(event.node, Ranges()).add(event.tick)
        if (wanted or doubted) and maps.addr and node.recovery.start_pull():
            node.ask(maps.header.node, maps.addr, AskEvents(wanted, doubted), turn)

    def _pull_given_up(self, asked: Asked, turn: Turn) -> None:
        """A pull has room for so much only: go on while the peer holds what we gave up as lost.

        What is not given up is pulled in any case; this would wait for the next exchange, a ping for each pull.
        """
        node, peer = self._node, self._node.recovery.peers.get(asked.name)
        held = peer.held if peer is not None and peer.held is not None else {}
        lost, none = node.store.tree.ledger.missing(), Ranges()
        wanted = {name: found for name, ranges in lost.items() if (found := ranges & held.get(name, none))}
        if wanted and node.recovery.start_pull():
            node.ask(asked.name, asked.ask.addr, AskEvents(wanted), turn)

    # -- comparing whole trees

    def _compare(self, maps: TickMaps, turn: Turn, *, is_answer: bool) -> None:
        """What follows when a peer holds what we hold; or the same ticks and other values, which should not be."""
        node, name = self._node, maps.header.node
        store, tree = node.store, node.store.tree
        is_good, has_same_ticks = maps.state.is_serving and not maps.is_stale, maps.held == tree.ledger.held()
        if has_same_ticks and maps.digest == tree.digest:
            node.agreed(name, turn, is_good=is_good)
        elif node.is_serving and is_good and store.own.is_stale:
            if not is_answer:  # anybody may connect and say so
                node.recovery.exchange_soon(turn.now_ms, name)
            elif name in store.registry.nodes and node.old_disk.differs(turn.now_ms, has_same_ticks=has_same_ticks):
                turn.ready.note("stale", node=name)
                error = f"the disk of {store.me} is older than that of {name}: it must start anew, and download"
                turn.ready.fatal = StaleError(error)
        elif name not in store.registry.nodes:
            pass  # it is none of us, or not yet
        elif has_same_ticks and node.is_serving and maps.state.is_serving and maps.is_stale == store.own.is_stale:
            # What an old disk shows, and we do not, may be what we have forgotten.
            if node.resync.differs((tree.digest, tree.ledger.hash()), maps.digest, turn.now_ms):
                self._resync(name, maps.digest, turn)

    def _resync(self, name: NodeName, digest: int, turn: Turn) -> None:
        node, peer = self._node, self._node.recovery.peers.get(name)
        ask = node.resync.begin(name, digest, turn.now_ms) if peer is not None and peer.addr else None
        if ask is not None and peer is not None:
            turn.ready.note("digest_differs", node=name, digest=f"{digest:016x}")
            node.ask(name, peer.addr, ask, turn, is_resync=True)

    def _resync_answered(self, asked: Asked, what: PeerAnswered, turn: Turn) -> None:
        node = self._node
        match what.answer:
            case Page() as page:
                node.resync.page_came(page, node.store.tree)
            case EventBatch(events=events):
                node.resync.merged += sum(node.merge(event, turn) for event in events)
            case PullEnd():
                asked.ended = True  # what the peer's ledger says is what led here

    def _resync_done(self, asked: Asked, what: PeerDone, turn: Turn) -> None:
        node = self._node
        ask = node.resync.next_ask() if what.error is None and not asked.is_void else None
        if ask is not None:
            node.ask(asked.name, asked.ask.addr, ask, turn, is_resync=True)
            return
        node.resync.end(is_whole=what.error is None)
        turn.ready.note("resynced", node=asked.name, events=node.resync.merged)
        node.recovery.exchange_soon(turn.now_ms, asked.name)  # which shows the peer our digest, in its turn

    # -- downloads

    def _download_began(self, asked: Asked, head: SnapshotHead, turn: Turn) -> None:
        """First what the sponsor's ledger says; what is present comes from what arrives."""
        node = self._node
        if node.store.has_data and not node.startup.hands_over:
            asked.is_void = True  # it came too late: we serve what we have
            return
        for other in node.asks.values():  # what they answer is about what was here
            other.is_void = other is not asked
        turn.ready.records += node.store.reset() + node.store.own.mark_stale(head.is_stale)
        node.election.sleep(turn.now_ms)
        node.startup.download_began()
        self._joining_life = head.life
        node.store.tock = max(node.store.tock, head.header.tock)
        node.store.hear_ticks(head.ticks.items())
        node.learn_known(head.superseded, turn)

    def _download_ended(self, name: NodeName, what: PeerDone, turn: Turn) -> None:
        node, life = self._node, self._joining_life
        if isinstance(what.error, ExistsError) and not node.store.has_data:  # else it may be we, at another address
            turn.ready.fatal = DuplicateNameError(str(what.error))
            return
        mine = node.store.registry.nodes.get(node.store.me)
        stands = mine is not None and mine.life == life and node.network_id is not None
        if what.error is not None or life is None or not stands:
            if node.network_id is not None and not node.store.has_data:
                node.found = node.store.tree.ledger.held()
                node.startup.must_hand_over(turn.now_ms)
            if isinstance(what.error, BusyError):
                node.startup.attempt_postponed(turn.now_ms, name)
                return
            is_empty = isinstance(what.error, NotReadyError)
            node.take(node.startup.attempt_failed(turn.now_ms, name, is_empty=is_empty), turn)
            return
        turn.ready.records += node.store.own.begin_life(life)
        node.witnesses.is_needed = False
        node.waits_for = node.missing()
        node.startup.download_ended()
        if node.is_up:
            node.election.wake(turn.now_ms)


def pull_end(tree: Tree, asked: TickRanges, doubted: TickRanges) -> PullEnd:
    """The end of the answer to a pull: what is superseded here, and what is not here at all; the rest was sent."""
    asked = {**asked, **{name: asked.get(name, Ranges()) | ranges for name, ranges in doubted.items()}}
    held = tree.ledger.held(asked)
    present: TickRanges = {}
    for event in tree.present(asked):
        present.setdefault(event.node, Ranges()).add(event.tick)
    none = Ranges()
    lacks = {name: ranges - held.get(name, none) for name, ranges in asked.items()}
    known = {name: ranges - lacks[name] - present.get(name, none) for name, ranges in asked.items()}
    return PullEnd({n: r for n, r in known.items() if r}, {n: r for n, r in lacks.items() if r})


def _among(known: TickRanges, *asked: TickRanges) -> TickRanges:
    """What was asked of it: of other ticks nobody's word is taken, they would never be applied when they come."""
    found: TickRanges = {}
    for ranges in asked:
        for name, wanted in ranges.items():
            if here := wanted & known.get(name, Ranges()):
                found.setdefault(name, Ranges()).update(here)
    return found
