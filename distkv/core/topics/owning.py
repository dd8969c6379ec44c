"""Who owns each topic, as this node sees it, and what it writes about that.

Knows: the entries, who is up, and which copies this node has.  Does not know what is in a copy, nor how it is copied.

A topic without an entry goes to the server that has the fewest. The first holder that is up answers for a topic; when
it is not the owner, it becomes one. Only the owner changes an entry, or who takes its place.

Invariant: this node is the owner of a topic if, and only if, its view of the entry says so. Whoever had something of a
topic that an owner may lack is named by the entry until it was joined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from distkv.core.ground.frames import Announced
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput
from distkv.core.ground.node_calls import NodesSilent, Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng
from distkv.core.topics.begun_topics import BegunTopics
from distkv.core.topics.copies_here import CopiesHere
from distkv.core.topics.entries import TopicView, merged, pruned, without
from distkv.core.topics.known_topics import KnownTopics
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.taking_over import TakenLeases, TakingOver
from distkv.core.topics.topic_servers import EntryWrite, TopicServers
from distkv.core.topics.unfit_followers import UnfitFollowers
from distkv.errors import DistkvError, NotReadyError
from distkv.model.event import NodeName
from distkv.wire.declared import evolve
from distkv.wire.topic_entries import AS_OWNER, IDS_MAX, Holder, TopicEntry, as_owner, topic_key
from distkv.wire.topic_requests import TopicSet

NOBODY: Final = frozenset[NodeName]()
CHOSEN_MAX: Final = 10_000
"""Of so many topics without an entry it is remembered which server was chosen, so that all are asked of one."""
NAMINGS: Final = 1 << 48


class Owners:
    """Those of one node, since its machine began."""

    def __init__(
        self,
        settings: TopicSettings,
        ground: ServiceGround,
        leases: TakenLeases,
        copies: CopiesHere,
        rng: Rng,
        now_ms: int,
    ) -> None:
        self._settings: Final = settings
        self.me: Final = ground.me
        self._copies: Final = copies
        self._rng: Final = rng
        self._servers: Final = TopicServers(ground, serve=settings.serve)
        self._known: Final = KnownTopics(ground, self._servers.disk_of)
        self._leases: Final = leases
        self._taking_over: Final = TakingOver(self, settings, leases)
        self._chosen: Final = dict[str, NodeName]()
        self._unfit: Final = UnfitFollowers()
        self._begun: Final = BegunTopics()
        self._now_ms = now_ms

    def begin(self, turn: ServiceTurn) -> None:
        """The machine begins: look at all that is there. Copies are known already."""
        self._now_ms = turn.boot_ms
        self._servers.begin(turn)
        self._known.begin(turn)
        if self._known.count(self.me) or self._known.followed():
            self._servers.register(turn)
        for name in self.owned():
            view = self._known.view(name)
            if view is not None and not self._copies.has_all(name, view.ids):
                self.doubt(turn, name)
        self._taking_over.look_at_all()

    # -- what the entries say

    def view(self, name: str) -> TopicView | None:
        """A topic; None: there is none of this name, or it is dropped, or nobody can read its entry."""
        return self._known.view(name)

    def names(self) -> list[str]:
        """Of all topics."""
        return [*self._known.names()]

    def owned(self) -> list[str]:
        """The topics of this node."""
        return [name for name in self._known.of_me if self.is_mine(name)]

    def followed(self) -> list[str]:
        """Those of which it is a follower."""
        return [name for name in self._known.of_me if self.follows(name)]

    def is_mine(self, name: str) -> bool:
        """Whether this node owns a topic."""
        view = self._known.view(name)
        return view is not None and view.owner == self.me

    def follows(self, name: str) -> bool:
        """Whether it is a follower of the owner."""
        view = self._known.view(name)
        return view is not None and view.owner != self.me and self.me in view.followers

    def followers(self, name: str) -> frozenset[NodeName]:
        """Of the owner of a topic."""
        view = self._known.view(name)
        return frozenset(view.followers) if view is not None and view.followers else NOBODY

    def is_unreadable(self, name: str) -> bool:
        """Whether there is an entry, and nobody here can read it."""
        return name in self._known.unreadable

    def naming_of(self, name: str) -> int | None:
        """A number that is another each time that this node is named as a follower of a topic; None: it is none."""
        view = self._known.view(name)
        return None if view is None else view.naming_of(self.me)

    def dropped(self, name: str) -> frozenset[str]:
        """The ids of topics of this name of which nobody is to keep a copy."""
        return self._known.dropped(name)

    def dropped_names(self) -> list[str]:
        """The names of all topics of which some are dropped."""
        return [*self._known.dropped_names()]

    # -- who is there

    def servers(self) -> frozenset[NodeName]:
        """All nodes that are given topics."""
        return self._servers.servers()

    def keepers(self) -> frozenset[NodeName]:
        """All nodes that keep topics, or did, by their entries."""
        return self._servers.keepers()

    def may_keep(self) -> frozenset[NodeName]:
        """These, and all of which it is not known that they keep none."""
        return self._servers.may_keep()

    def reachable_servers(self) -> frozenset[NodeName]:
        """Those servers that are up, but this node."""
        return frozenset(self._servers.behind(self.me, self._now_ms, ()))

    def wanted_copies(self, name: str) -> int:
        """On how many nodes a topic should be: as the settings say, as far as there are so many servers, be they away
        or not; and as the topic wants it."""
        view = self._known.view(name)
        usual = min(self._settings.replicas, len(self.servers() | {self.me}))
        return max(usual, 1 if view is None else view.min_replicas)

    def is_up(self, node: NodeName) -> bool:
        """Whether a node seems alive, and answers."""
        return self._servers.is_up(node, self._now_ms) and not self._leases.may_take_over(node, self._now_ms)

    def is_alive(self, node: NodeName) -> bool:
        """Whether a node seems alive."""
        return self._servers.is_alive(node)

    def server_for(self, name: str) -> NodeName | DistkvError:
        """Which node is to be asked about a topic now; it may have to become the owner first."""
        view = self._known.view(name)
        if view is None:
            return self._server_without_entry(name)
        holders = view.holders or sorted(view.named & self.servers())  # who lost his disk may have an old one
        for is_there in (self.is_up, self.is_alive):
            found = next(filter(is_there, holders), None)
            if found is not None:
                return found
        return self._least_loaded(name)

    def may_begin(self, name: str) -> bool:
        """Whether this node may become the owner now: nobody is, or no holder before it is reached."""
        view = self._known.view(name)
        if view is None:
            is_known = name in self._known.unreadable or self._begun_by(name) is not None
            return self._settings.serve and not is_known
        if view.owner == self.me:
            return True
        for node in view.holders:
            if node == self.me:
                return True
            may_follow = node != view.owner or self.me not in view.followers
            if self.is_alive(node) if may_follow else not self._leases.may_take_over(node, self._now_ms):
                return False
        return self._settings.serve

    def came(self, name: str, node: NodeName, ids: Collection[str], now_ms: int) -> None:
        """That node sent rows of a topic: if there is no entry here, it has begun it."""
        if self._known.view(name) is None and not self._known.dropped(name).issuperset(ids):
            self._begun.came(name, node, ids, now_ms)

    # -- LeaseHost and EntryView

    def needed(self) -> frozenset[NodeName]:
        """The followers of all topics of this node."""
        return self._known.following()

    def peers(self) -> frozenset[NodeName]:
        """All others that keep topics, if this node owns one."""
        owns = self._known.count(self.me) > 0
        return self.keepers() - {self.me} if owns else frozenset()

    def suspects(self) -> frozenset[NodeName]:
        """The owners of topics that this node follows, which seem away."""
        taking_over = self._taking_over
        return frozenset(one for one in self._known.followed() if not self.is_up(one) or taking_over.is_quiet(one))

    def knows_taken(self, name: str, node: NodeName) -> bool:
        """Whether the store shows that `node` took a topic from this one, or that `node` is gone."""
        if not self.is_mine(name) or self._known.life_of(node) is None:
            return True
        return node in self._known.owners_of(name)

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        """Whether the store shows that a topic which this node took from `node` is that one's again, or that `node` is
        gone."""
        view = self._known.view(name)
        is_theirs = view is not None and view.owner == node and self.me not in self._known.owners_of(name)
        return is_theirs or self._known.life_of(node) is None

    # -- what this node decides

    def begin_topic(self, turn: ServiceTurn, name: str) -> TopicView:
        """This node becomes the owner: of a new topic, or of one whose owner is not reached.

        Raises:
            NotReadyError: its entry cannot be read.
            RequestError: there is no room to keep from whom it was taken.
        """
        self._now_ms = turn.boot_ms
        view = self._known.fresh(name)
        if view is not None and view.owner == self.me:
            return view
        versions = self._known.versions(name)
        if versions.is_unreadable:
            raise _unreadable(name)
        whole, had = self._copies.whole(name), self._copies.had(name)
        entry = merged(versions.found, self._known.life_of, self._known.me, whole, had)
        if view is None or entry is None:
            entry = self._first_entry(name, () if entry is None else entry.dropped)
        elif not view.holders and not self._copies.has(name, view.ids):
            entry = evolve(entry, ids=(*entry.ids, self._new_id())[-IDS_MAX:], lost=True)
        for node in () if view is None or view.owner is None else (view.owner, *view.followers):
            if node != self.me and not self._stays(node, entry):
                self._leases.took(turn, name, node)
        kept = {one for one in entry.followers if self._stays(one.node, entry)}
        if view is not None and (whole is None or whole != view.naming_of(self.me)):  # by these they followed another
            entry = evolve(entry, namings=tuple([self._new_naming() for _ in entry.followers]))
        return self._write(turn, name, self._filled(name, entry, kept))

    def mend(self, turn: ServiceTurn, name: str) -> bool:
        """The owner writes what is to be written: other versions as one, followers that are there. Whether it did.

        Raises:
            RequestError: there is no room to keep who is left out.
        """
        view = self._own(name)
        if view is None:
            return False
        entry, now_ms = view.entry, turn.boot_ms
        silent = {one for one in entry.followers if self._leases.is_silent(one.node, now_ms)}
        unfit = {one for one in entry.followers if one.node in self._unfit.of(name)}
        kept = {one for one in entry.followers if one not in silent and one not in unfit}
        self._servers.silent((one.node for one in silent), now_ms)
        for one in silent | unfit:
            self._leases.took(turn, name, one.node)
        unheard = [(as_owner(one),) for one in silent if not self._leases.has_answered(one.node)]  # it may be one
        lacks = pruned((*entry.lacks, *unheard), self._known.life_of, self._known.me)
        filled = evolve(self._filled(name, entry, kept), lacks=lacks)
        if filled == entry and view.is_settled:
            return False
        self._write(turn, name, filled)
        return True

    def joined(self, turn: ServiceTurn, name: str, node: NodeName, had: Collection[int]) -> None:
        """This owner has all of a node's copy, which had all that was answered by these namings."""
        view, holder = self._own(name), self._known.holder(node)
        if view is None or holder is None:
            return
        left = without(view.entry.lacks, holder, had)
        self._write_if_other(turn, view, evolve(view.entry, lacks=pruned(left, self._known.life_of, self._known.me)))

    def given(self, name: str) -> None:
        """The owner has all of this node's copy."""
        if not self.is_mine(name):
            self._known.given(name)

    def doubt(self, turn: ServiceTurn, name: str) -> None:
        """The owner's own copy is gone, or lacks rows: what its followers have is to be joined."""
        view = self._own(name)
        if view is None:
            return
        entry = view.entry
        lacks = pruned((*entry.lacks, entry.group[1:]), self._known.life_of, self._known.me)
        is_lost = not lacks and not self._copies.has(name, view.ids)
        self._write_if_other(turn, view, evolve(entry, lacks=lacks, lost=entry.lost or is_lost))

    def set_settings(self, turn: ServiceTurn, request: TopicSet) -> None:
        """The owner of a topic changes what it is kept by."""
        view = self._own(request.topic)
        if view is not None:
            asked = (request.min_replicas, request.keep_s, request.keep_bytes)
            here = (view.min_replicas, view.keep_s, view.keep_bytes)
            copies, keep_s, keep_bytes = (old if new is None else new for new, old in zip(asked, here, strict=True))
            entry = evolve(view.entry, min_replicas=int(copies), keep_s=float(keep_s), keep_bytes=int(keep_bytes))
            self._write_if_other(turn, view, entry)

    def drop(self, turn: ServiceTurn, name: str) -> None:
        """The owner drops a topic: nobody is to keep a copy."""
        view = self._own(name)
        if view is not None:
            self._put(turn, name, TopicEntry(dropped=tuple(sorted({*view.entry.ids, *view.entry.dropped}))))

    def forget_dropped(self, turn: ServiceTurn, name: str) -> None:
        """Nobody has a copy of what was dropped any more."""
        view = self._known.fresh(name)
        if view is None and self._known.dropped(name):
            turn.delete(topic_key(name), EntryWrite(name), closes=self._known.seen(name))
        elif view is not None and view.owner == self.me:
            self._write_if_other(turn, view, evolve(view.entry, dropped=()))

    def replace_follower(self, name: str, node: NodeName) -> None:
        """A follower of a topic of this node cannot keep it: another one is to take its place."""
        self._unfit.refused(name, node, self._now_ms)
        self.want(name)
        self._taking_over.look_at(name)

    def want(self, name: str) -> None:
        """A request waits for a topic: whoever is silent is to be replaced at once."""
        self._taking_over.want(name, self._now_ms)

    # -- what happens

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Whatever the machine is told; whether it was for this alone."""
        self._now_ms = turn.boot_ms
        is_refused = isinstance(what, Replied) and isinstance(what.purpose, EntryWrite)
        if isinstance(what, EntryChanged):
            if self._servers.changed(turn, what.key):
                self._known.lives_changed()
                self._taking_over.look_at_all()
            name = self._known.changed(turn, what.key)
            if name is not None:
                self._entry_changed(turn, name)
        elif isinstance(what, NodesChanged):
            self._servers.mend(turn)
            self._known.lives_changed()
            self._taking_over.look_at_all()
        elif isinstance(what, Announced):
            if self._servers.announced(what.node):
                self._taking_over.look_at_all()
        elif isinstance(what, NodesSilent):
            self._servers.silent(what.nodes, turn.boot_ms)
        elif isinstance(what, Replied) and isinstance(what.purpose, EntryWrite):
            self._refused(turn, what.purpose.topic, what.reply)
        for name in self._unfit.take_over(turn.boot_ms):
            self._taking_over.look_at(name)
        self._taking_over.step(turn)
        return is_refused

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return self._taking_over.wake_ms()

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for part in (self._known, self._servers, self._taking_over, self._unfit, self._begun):
            part.check()

    # -- for `TakingOver`

    def own_names(self) -> Iterator[str]:
        """The topics whose entries name this node."""
        return iter(self._known.of_me)

    def silent_nodes(self) -> tuple[frozenset[NodeName], ...]:
        """All that matter to these topics, and say nothing: followers for a long lease, owners, and servers for a
        while. One that is silent as a server may be so as a follower later, and something else follows from that."""
        followers = frozenset(node for node in self._known.following() if self._leases.is_silent(node, self._now_ms))
        return followers, self.silent_owners(), self._servers.silent_nodes(self._now_ms)

    def silent_owners(self) -> frozenset[NodeName]:
        """Those that this node follows, of them."""
        return frozenset(node for node in self._known.followed() if not self.is_up(node))

    def may_revive(self, name: str) -> bool:
        """Whether all copies count as lost, and this node has an old one."""
        view = self._known.view(name)
        return view is not None and not view.holders and self._copies.has(name, view.ids)

    # -- inside

    def _entry_changed(self, turn: ServiceTurn, name: str) -> None:
        self._chosen.pop(name, None)
        self._begun.forget(name)
        if name in self._known.of_me:
            if self.is_mine(name) or self.follows(name):
                self._servers.register(turn)
            self._taking_over.look_at(name)
            view = self._known.view(name)
            if view is not None and view.owner == self.me and not view.is_settled:
                self.want(name)  # until others have given what they took, no get is answered

    def _refused(self, turn: ServiceTurn, name: str, error: object) -> None:
        turn.note("topic_entry_refused", topic=name, reason=str(error))
        if name:
            self._known.refused(name)
            self._taking_over.look_at(name)
        else:
            self._servers.refused()

    def _begun_by(self, name: str) -> NodeName | None:
        """The node that has begun a topic of which there is no entry here; None: nobody, or it is not up."""
        node = self._begun.node_of(name, self._now_ms)
        return node if node is not None and self.is_up(node) else None

    def _first_entry(self, name: str, dropped: tuple[str, ...]) -> TopicEntry:
        """What a topic begins with: a new id, or what another node sent, who may have more."""
        node, ids = self._begun.copied_from(name) or (None, frozenset())
        holder = None if node is None else self._known.holder(node)
        lacks = () if holder is None else ((as_owner(holder),),)
        return TopicEntry(tuple(sorted(ids)) or (self._new_id(),), self._known.me, lacks=lacks, dropped=dropped)

    def _server_without_entry(self, name: str) -> NodeName | DistkvError:
        if name in self._known.unreadable:
            return _unreadable(name)
        chosen = self._begun_by(name) or self._chosen.get(name)
        if chosen is not None and self.is_up(chosen):
            return chosen
        found = self._least_loaded(name)
        if not isinstance(found, DistkvError):
            while len(self._chosen) >= CHOSEN_MAX:
                del self._chosen[next(iter(self._chosen))]
            self._chosen[name] = found
        return found

    def _least_loaded(self, name: str) -> NodeName | DistkvError:
        found = self._servers.least_loaded(self._known.count, self._now_ms)
        if found is None:
            return NotReadyError(f"no node that keeps topics is reached for {name!r}: start one, or set topics.serve")
        return found

    def _own(self, name: str) -> TopicView | None:
        """A topic of this node, as the store has it now; None: it owns no such."""
        view = self._known.fresh(name)
        return view if view is not None and view.owner == self.me else None

    def _stays(self, node: NodeName, entry: TopicEntry) -> bool:
        """Whether it follows the taker. Who was only silent once may be awake, and take over itself: it is left out a
        long lease later, if it is still silent then."""
        may_be_awake = self.is_alive(node) and not self._leases.may_take_over(node, self._now_ms)
        return may_be_awake and any(one.node == node for one in entry.followers)

    def _filled(self, name: str, entry: TopicEntry, kept: Collection[Holder]) -> TopicEntry:
        """With these of its followers, and as many more as there should be and are there."""
        named = zip(entry.followers, entry.namings, strict=True)
        followers = {one: number for one, number in named if one in kept}
        wanted = max(self._settings.replicas, entry.min_replicas) - 1
        if len(followers) < wanted:
            without = self._unfit.of(name) | {self.me, *(one.node for one in followers)}
            for node in islice(self._servers.behind(self.me, self._now_ms, without), wanted - len(followers)):
                holder = self._known.holder(node)
                if holder is not None:
                    followers[holder] = self._new_naming()
        return evolve(entry, followers=tuple(followers), namings=tuple(followers.values()))

    def _write_if_other(self, turn: ServiceTurn, view: TopicView, entry: TopicEntry) -> None:
        if entry != view.entry or not view.is_settled:
            self._write(turn, view.name, entry)

    def _write(self, turn: ServiceTurn, name: str, entry: TopicEntry) -> TopicView:
        self._servers.register(turn)
        view = self._put(turn, name, entry)
        if view is None:
            raise TypeError(f"{entry} is no topic")
        return view

    def _put(self, turn: ServiceTurn, name: str, entry: TopicEntry) -> TopicView | None:
        turn.write(topic_key(name), entry.packed(), EntryWrite(name), closes=self._known.seen(name))
        return self._known.wrote(name, entry)

    def _new_naming(self) -> int:
        return AS_OWNER + 1 + int(self._rng.random() * NAMINGS)

    def _new_id(self) -> str:
        return "".join(f"{int(self._rng.random() * (1 << 32)):08x}" for _ in range(2))


def _unreadable(name: str) -> NotReadyError:
    return NotReadyError(
        f"the entry of the topic {name!r} cannot be read here: perhaps this node is of an earlier release; look at"
        f" :n.service.topics.topic, and bring all nodes to one release"
    )
