"""Finding and fetching what this node lacks.

Knows: the peers, what each was last known to hold, and when the next pull or exchange is due.
Does not know the tree: it is handed what is missing.  Does not talk: it says whom to ask for what.

Invariant: at most one pull and one exchange are under way; while something is missing and a peer is reachable, a pull
or an exchange is due within bounded time (docs/protocol, GAP-1 to GAP-4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.tick_ranges import TickRanges, common, is_within, joined, overlap, without
from distkv.wire.message import Header

GAP_MS: Final = (500, 1500)
"""A gap this old (drawn evenly) is pulled, so that no stampede hits one host."""
AGAIN_MS: Final = (20, 120)
"""After a pull that brought something while more is missing."""
QUIET_MS: Final = 1000
"""Digests that differ for this long without changes by others start an exchange.

Own writes do not count: at 20 writes/s each of four nodes exchanges once in five clocks or less, either way.
"""
BACK_OFF_MS: Final = 1000
"""A peer that failed is not preferred for so long."""
ALIVE_CLOCKS: Final = 3
"""A node that spoke within so many is alive: no round of pings takes longer (PING-3)."""
PEERS_MAX: Final = 1024


@attrs.define(slots=True)
class Peer:
    """Another node, as far as pulls are concerned."""

    name: NodeName
    addr: str = ""
    heard_ms: int | None = None
    """When it last said something; None: only known from the registry or the transport."""
    entry_addr: str = ""
    """What the registry says; with the two below it is seen which of them is news."""
    tag_addr: str = ""
    """What the transport says: the tag of an agent may be older than anything else."""
    is_member: bool = False
    """Whether the transport believes it alive."""
    held: TickRanges | None = None
    """What it held at our last exchange."""
    said_by: Header | None = None
    """With which words it said so."""
    lacks: TickRanges = attrs.field(factory=dict)
    """What it said it lacks, when we asked."""
    failed_ms: int | None = None
    is_reachable: bool = True
    """False from a request that failed to its next word."""

    def holds(self, missing: TickRanges) -> bool:
        """Whether it was seen to hold some of what is missing."""
        return self.held is not None and overlap(missing, self.held)

    def lacks_all(self, missing: TickRanges) -> bool:
        """Whether it said of everything that is missing that it lacks it, too."""
        return is_within(missing, self.lacks)


@attrs.define(slots=True)
class Recovery:
    """The machine. All times are monotonic milliseconds."""

    me: NodeName
    clock_ms: int
    rng: Rng
    is_registered: Callable[[NodeName], bool] = lambda _: False
    peers: dict[NodeName, Peer] = attrs.field(factory=dict)
    """At most `PEERS_MAX`; who is registered, or a member, has the place of a stranger when there is none left."""
    is_pulling: bool = False
    """Whether a pull is under way."""
    changed_ms: int = 0
    """When somebody else's event last changed what is held here."""
    _pull_ms: int | None = None
    _exchange_ms: int | None = None
    _exchange_name: NodeName | None = None
    _is_exchanging: bool = False
    _wanted: NodeName | None = None
    """With whom in particular an exchange is under way; None: with anybody."""

    # -- who is there

    def saw(self, name: NodeName, addr: str, now_ms: int) -> None:
        """A node spoke."""
        peer = self._peer(name)
        if peer is not None:
            peer.heard_ms = now_ms
            peer.is_reachable = True
            peer.addr = addr or peer.addr

    def registered(self, name: NodeName, addr: str) -> None:
        """A node is in the registry. What it said itself counts more, until its entry changes: it has moved."""
        peer = self._peer(name)
        if peer is not None and addr != peer.entry_addr:
            has_moved, peer.entry_addr = bool(peer.entry_addr), addr
            if has_moved or not peer.addr:
                peer.addr = addr

    def members_seen(self, alive: dict[NodeName, str]) -> list[NodeName]:
        """The transport's view, whole; those that it believes alive again."""
        back = [peer.name for peer in self.peers.values() if not peer.is_member and peer.name in alive]
        for peer in self.peers.values():
            peer.is_member = peer.name in alive
        for name, addr in alive.items():
            member = self._peer(name, is_member=True)
            if member is not None:
                member.is_member = True
                if addr not in ("", member.tag_addr):
                    member.addr = member.tag_addr = addr
        return back

    def is_alive(self, name: NodeName, now_ms: int) -> bool:
        """Whether a node spoke lately, or is a member of whom nothing else is known: an agent outlives its server."""
        return bool(self.alive((name,), now_ms))

    def alive(self, names: Iterable[NodeName], now_ms: int) -> list[NodeName]:
        """Those of `names` of whom `is_alive` is true, in their order: a thousand are looked at in each second."""
        peers, since_ms = self.peers, now_ms - ALIVE_CLOCKS * self.clock_ms
        return [
            name
            for name in names
            if (peer := peers.get(name)) is not None
            and (
                (peer.is_member and peer.is_reachable)
                or (peer.heard_ms is not None and peer.heard_ms >= since_ms)
            )
        ]

    def has_returned(self, name: NodeName, said_ms: int | None) -> bool:
        """Whether a member said something, perhaps to others, after it did not answer this node."""
        peer = self.peers.get(name)
        if peer is None or not peer.is_member or said_ms is None:
            return False
        return peer.failed_ms is None or said_ms > peer.failed_ms

    def has_spoken(self, name: NodeName, now_ms: int) -> bool:
        """Whether a node said something lately, whatever the transport believes of it."""
        peer = self.peers.get(name)
        return peer is not None and peer.heard_ms is not None and peer.heard_ms >= now_ms - ALIVE_CLOCKS * self.clock_ms

    # -- what sets off a repair

    def gap_seen(self, now_ms: int) -> None:
        """Something is missing."""
        if self.is_idle:
            self._pull_ms = now_ms + self._draw(GAP_MS)

    def gap_closed(self) -> None:
        """Nothing is missing."""
        self._pull_ms = None

    def differed(self, name: NodeName, changed_ms: int, now_ms: int) -> None:
        """A peer's digest or hash is not ours; `changed_ms` is when ours last changed."""
        quiet_ms = max(changed_ms, now_ms - QUIET_MS // 2) + QUIET_MS
        self._plan_exchange(name, quiet_ms + int(self.rng.random() * self.clock_ms / 4))

    def agreed(self, name: NodeName) -> None:
        """A peer's digest and hash are ours: an exchange planned with it is not needed."""
        if self._exchange_name == name:
            self._exchange_ms = self._exchange_name = None

    def exchange_soon(self, now_ms: int, name: NodeName | None = None) -> None:
        """Something may have been missed: compare with `name`, or with anybody."""
        self._plan_exchange(name, now_ms + self._draw(AGAIN_MS))

    # -- what is due

    def next_pull(self, now_ms: int, missing: TickRanges) -> Peer | None:
        """Whom to pull `missing` from now; None when it is not time, or nobody can be asked."""
        if self.is_pulling or self._pull_ms is None or now_ms < self._pull_ms:
            return None
        peer = self._choose(now_ms, missing)
        if peer is None:
            self._pull_ms = now_ms + self._draw(GAP_MS)
            return None
        self._pull_ms = None
        self.is_pulling = True
        return peer

    def pull_started(self) -> None:
        """A pull begins for a reason of the caller's, who has seen that none is under way."""
        self.is_pulling = True
        self._pull_ms = None

    @property
    def is_idle(self) -> bool:
        """Whether no pull is planned or under way."""
        return self._pull_ms is None and not self.is_pulling

    def next_exchange(self, now_ms: int) -> Peer | None:
        """With whom to exchange tick maps now."""
        if self._is_exchanging or self._exchange_ms is None or now_ms < self._exchange_ms:
            return None
        peer = self.peers.get(self._exchange_name) if self._exchange_name is not None else None
        if peer is not None and peer.addr:
            self._wanted = peer.name
        else:
            peer, self._wanted = self._choose(now_ms, {}), None
        self._exchange_ms = self._exchange_name = None
        self._is_exchanging = peer is not None
        return peer

    def wake_ms(self) -> int | None:
        """When `next_pull` or `next_exchange` wants to be asked again."""
        pull = None if self.is_pulling else self._pull_ms
        exchange = None if self._is_exchanging else self._exchange_ms
        if pull is None or exchange is None:
            return exchange if pull is None else pull
        return min(pull, exchange)

    # -- what came of it

    def went_back(self, header: Header, held: TickRanges) -> bool:
        """Whether a peer lacks now what it held in this same life, before its last start: its disk was set back."""
        peer = self.peers.get(header.node)
        before = peer.said_by if peer is not None else None
        if peer is None or before is None or peer.held is None or before.life != header.life:
            return False
        if before.start is None or header.start is None or before.start == header.start:
            return False  # within one start a map that lacks something is an older one that came late
        if header.start.time < before.start.time and header.tock < before.tock:
            return False
        return not is_within(peer.held, held)

    def maps_came(self, name: NodeName, held: TickRanges, said_by: Header | None = None) -> None:
        """A peer's map: what it holds it no longer lacks."""
        peer = self._peer(name)
        if peer is None:
            return
        peer.held, peer.said_by = held, said_by
        peer.failed_ms = None
        peer.is_reachable = True
        peer.lacks = without(peer.lacks, held)

    def lacks(self, name: NodeName, missing: TickRanges, held: TickRanges) -> None:
        """A peer, asked when this was `missing`, holds `held`, so it lacks the rest; pulls would say it bit by bit."""
        peer = self.peers.get(name)
        if peer is not None:
            peer.lacks = joined(peer.lacks, without(missing, held))

    def pull_ended(self, name: NodeName, lacks: TickRanges, now_ms: int, *, brought: bool, is_whole: bool) -> None:
        """A pull was answered: of what was asked, `lacks` is not there."""
        self.is_pulling = False
        peer = self.peers.get(name)
        if peer is not None:
            peer.is_reachable = True
            peer.lacks = joined(peer.lacks, lacks)
            if not brought:
                peer.failed_ms = now_ms
        if not is_whole:
            self._pull_ms = now_ms + self._draw(AGAIN_MS if brought else GAP_MS)

    def exchange_ended(self) -> None:
        """Answered or not."""
        self._is_exchanging = False

    def exchange_failed(self, name: NodeName, now_ms: int) -> None:
        """A peer could not be asked for its maps. Others may have what it has: it may be that only this node cannot
        reach it (docs/protocol, REC-3)."""
        self.unreachable(name, now_ms)
        wanted, self._wanted = self._wanted, None
        if wanted == name and any(peer.addr and peer.name != name for peer in self.peers.values()):
            self._plan_exchange(None, now_ms + self._draw(AGAIN_MS))

    def unreachable(self, name: NodeName, now_ms: int) -> None:
        """A peer could not be asked something."""
        peer = self.peers.get(name)
        if peer is not None:
            peer.failed_ms = now_ms
            peer.is_reachable = False

    def pull_failed(self, name: NodeName, now_ms: int, *, is_whole: bool) -> None:
        """A pull was not answered, or not to its end."""
        self.unreachable(name, now_ms)
        self.is_pulling = False
        if not is_whole:
            self._pull_ms = now_ms + self._draw(GAP_MS)

    def lost(self, missing: TickRanges, others: list[NodeName], now_ms: int) -> TickRanges:
        """What of `missing` every alive one of `others` (the registered nodes) has said it lacks."""
        left = missing
        for name in others:
            if self.is_alive(name, now_ms):
                left = common(left, self.peers[name].lacks)
        return left

    # -- inside

    def _peer(self, name: NodeName, *, is_member: bool = False) -> Peer | None:
        if name == self.me:
            return None
        peer = self.peers.get(name)
        if peer is None and len(self.peers) >= PEERS_MAX and (is_member or self.is_registered(name)):
            self._drop_stranger()
        if peer is None and len(self.peers) < PEERS_MAX:
            peer = self.peers[name] = Peer(name)
        return peer

    def _drop_stranger(self) -> None:
        """Forget the first peer that is neither registered nor a member, if there is one."""
        for name, peer in self.peers.items():
            if not peer.is_member and not self.is_registered(name):
                del self.peers[name]
                return

    def _draw(self, bounds_ms: tuple[int, int]) -> int:
        low, high = bounds_ms
        return low + int(self.rng.random() * (high - low))

    def _plan_exchange(self, name: NodeName | None, at_ms: int) -> None:
        if self._exchange_ms is None or at_ms < self._exchange_ms:
            self._exchange_ms, self._exchange_name = at_ms, name

    def _choose(self, now_ms: int, missing: TickRanges) -> Peer | None:
        """A random peer among the best: first known holders, then the writer, then any other peer.

        A peer that said that it lacks everything comes last. So all are asked in the end, and a tick can be given up.
        """

        def cost(peer: Peer) -> tuple[bool, bool, int, float]:
            failed = peer.failed_ms is not None and now_ms - peer.failed_ms < BACK_OFF_MS
            if missing and peer.lacks_all(missing):
                has = 3
            elif peer.name in missing:
                has = 1
            else:
                has = 0 if peer.holds(missing) else 2
            return failed, not self.is_alive(peer.name, now_ms), has, self.rng.random()

        return min((peer for peer in self.peers.values() if peer.addr), key=cost, default=None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self.peers) <= PEERS_MAX, "there are not too many peers")
        must(all(name == peer.name for name, peer in self.peers.items()), "each peer is known by its name")
        must(self.me not in self.peers, "nobody is his own peer")
