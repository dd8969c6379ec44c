"""The membership machine: what comes, and what is due, goes to the part that knows what to do.

Knows: all parts.  Does not know sockets, clocks, nor what the members are for.

Invariant: whatever bytes come, it does not raise; each datagram that came is either taken or counted as dropped. No
answer goes to an address that a message names. Source: Das, Gupta, Motivala, 'SWIM: Scalable Weakly-consistent
Infection-style Process Group Membership Protocol' (2002), and as `suspicion`.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Final, assert_never

from distkv.model.invariant import must
from distkv.swim.challenge import Challenge
from distkv.swim.doorkeeper import Doorkeeper
from distkv.swim.hearsay import Hearsay
from distkv.swim.inputs import (
    ChangeKeys,
    Datagrams,
    Dropped,
    KeysKept,
    KnownNodes,
    LeaveGroup,
    Member,
    MessagesMissed,
    Noticed,
    SayMessage,
    Seeds,
    SwimInput,
    SwimRng,
    SwimSettings,
    SwimStep,
    Woke,
)
from distkv.swim.join import Joiner
from distkv.swim.key_changes import KeyChanges
from distkv.swim.key_keeper import KeyKeeper
from distkv.swim.keyring import Keyring
from distkv.swim.mailroom import Mailroom, SwimParts
from distkv.swim.members import MemberEntry
from distkv.swim.namesakes import Namesakes
from distkv.swim.node import SwimCounts, SwimNode
from distkv.swim.probe import OpenProbe, Prober, Purpose
from distkv.swim.relays import Relays
from distkv.swim.repair import Repair
from distkv.swim.seal import Seal
from distkv.swim.turn import SwimTurn
from distkv.wire.swim_frames import GossipFrame, Leave
from distkv.wire.swim_records import MemberState, NodeId, NodeRecord, Rumour

TICK_PERCENT: Final = 40
"""Of an interval: how often rumours are told besides on pings."""
TICK_PEERS: Final = 3
LEAVE_PEERS: Final = 3
LEAVE_PERCENT: Final = 80
"""Of an interval: between the two times that a node says that it leaves, and after the second one."""
EARLY_PINGS: Final = 6
"""About so many nodes ping a suspect as soon as they hear of it: three must confirm it, and some may be dead, too."""
FORGET_MS: Final = 60_000
"""How often those are looked for who are gone for too long."""


class SwimMachine:
    """One node of a group."""

    def __init__(
        self, own: NodeRecord, settings: SwimSettings, seal: Seal, rng: SwimRng, process_key: bytes,
        keyring: Keyring | None = None, *, is_fixed: bool = True,
    ) -> None:  # fmt: skip
        """`process_key`: random, for the tokens of those who would join; `keyring`: that of the seal; `is_fixed`: it is
        not in a file that can be written."""
        node = SwimNode(own, settings, seal, rng)
        namesakes = Namesakes(node)
        keeper = KeyKeeper(node, None if keyring is None else KeyChanges(keyring, is_fixed=is_fixed))
        self._node = node
        self._parts = SwimParts(
            node, Prober(node), Relays(node), Repair(node), Joiner(node, keeper),
            Doorkeeper(node, Challenge(process_key), keeper), namesakes, Hearsay(node, namesakes), keeper,
        )  # fmt: skip
        self._mailroom = Mailroom(self._parts)
        self._wake_ms: int | None = None
        """When it wanted to be woken; None: it did nothing yet."""
        self._tick_ms = 0
        self._forget_ms = 0
        self._leave_ms: int | None = None
        self._leaves_left = 0

    @property
    def counts(self) -> SwimCounts:
        return self._node.counts

    @property
    def name(self) -> str:
        return self._node.own.node

    @property
    def own(self) -> NodeRecord:
        return self._node.own

    @property
    def settings(self) -> SwimSettings:
        return self._node.settings

    @property
    def is_joined(self) -> bool:
        return self._parts.joiner.is_joined

    @property
    def is_over(self) -> bool:
        """Whether it left, and has said so."""
        return self._node.is_leaving and self._leave_ms is None

    def members(self) -> tuple[Member, ...]:
        """All that are known, this node included, by name."""
        table = self._node.table
        return tuple([table.entries[name].as_member() for name in table.names])

    def message_places(self, now_ms: int) -> int:
        """How many user messages of the largest size may be said now."""
        return self._node.messages.places(now_ms, len(self._node.table.live))

    def message_wait_ms(self, now_ms: int) -> int:
        """How long until one may be said."""
        return self._node.messages.wait_ms(now_ms, len(self._node.table.live))

    def statistics(self) -> dict[str, int | list[str]]:
        """What a node shows of it; numbers from 0, `health` to 8. `udp_blocked`: who is heard on links only; `mapped`:
        who pings from elsewhere than its record says."""
        counts = self.counts
        found: dict[str, int | list[str]] = {
            "generation": self.own.generation,
            "health": self._node.health.score,
            "told_suspect": counts.told_suspect,
            "told_dead": counts.told_dead,
            "sent_datagrams": counts.sent_datagrams,
            "sent_bytes": counts.sent_bytes,
            "heard_datagrams": counts.heard_datagrams,
            "udp_blocked": sorted(self._node.blocked),
            "mapped": self._node.table.mapped(),
        }
        found.update((f"dropped_{reason}", number) for reason, number in counts.dropped.items())
        return found

    def step(self, now_ms: int, item: SwimInput) -> SwimStep:
        turn = SwimTurn(now_ms)
        self._notice_pause(now_ms)
        match item:
            case Datagrams(items):
                for address, data in items:
                    self._mailroom.take(address, data, turn)
                    self._ask_about_names(turn)
            case Woke():
                self._woke(turn)
            case Noticed(name, is_well):
                self._noticed(name, is_well, now_ms)
            case KnownNodes(addresses):
                self._parts.joiner.registered(addresses)
            case Seeds(seeds):
                self._parts.joiner.seeds(seeds)
            case Dropped():
                self._make_up_for(self._node.settings.interval_ms, now_ms)
            case LeaveGroup():
                self._leave(turn)
            case SayMessage(kind, body):
                self._node.messages.say(kind, body)
            case ChangeKeys(action, key):
                self._parts.keeper.change(action, key, self._parts.joiner.registered_names, turn)
            case KeysKept(keyring, is_by_hand):
                self._parts.keeper.kept(keyring, turn, is_by_hand=is_by_hand)
            case _:
                assert_never(item)
        self._follow_up(turn)
        self._node.send_messages(turn)
        self._parts.keeper.run(turn)
        self._wake_ms = self._next_wake_ms(now_ms)
        return SwimStep(turn.datagrams, turn.reports, self._wake_ms)

    def check(self) -> None:
        self._parts.check()
        must(self._leave_ms is None or self._node.is_leaving, "only who leaves says so")

    # -- time

    def _notice_pause(self, now_ms: int) -> None:
        if self._wake_ms is None:
            self._parts.prober.begin(now_ms)
            self._node.table.own.since_ms = now_ms
            self._forget_ms = now_ms + FORGET_MS
        elif now_ms - self._wake_ms > self._node.settings.interval_ms:
            self._make_up_for(now_ms - self._wake_ms, now_ms)

    def _make_up_for(self, late_ms: int, now_ms: int) -> None:
        """What was asked or suspected meanwhile says something about this node only."""
        self._parts.prober.forget_open(now_ms)
        self._parts.doorkeeper.forget_open()
        self._node.suspicions.lengthen(late_ms)
        self._node.health.worsen()

    def _next_wake_ms(self, now_ms: int) -> int:
        parts = self._parts
        if self._node.is_leaving:
            return now_ms + FORGET_MS if self._leave_ms is None else max(now_ms, self._leave_ms)
        found = min(parts.prober.wake_ms(), self._forget_ms)
        missed_ms = self._node.messages.missed_at_ms
        for due_ms in (self._node.suspicions.due_ms(), parts.relays.wake_ms(), parts.joiner.wake_ms(), missed_ms):
            if due_ms is not None and due_ms < found:
                found = due_ms
        if self._node.has_news and self._node.table.live and self._tick_ms < found:
            found = self._tick_ms
        return max(found, now_ms)

    def _woke(self, turn: SwimTurn) -> None:
        parts, now_ms = self._parts, turn.now_ms
        if self._node.is_leaving:
            self._leave_again(turn)
            return
        for probe in parts.prober.overdue(turn):
            self._unanswered(probe, turn)
        parts.hearsay.ripen(turn)
        parts.relays.run(turn)
        parts.joiner.run(turn)
        target = parts.prober.next_target(now_ms)
        if target is not None:
            page = parts.repair.page(now_ms)
            if page is not None:
                parts.repair.begin(target.record.node, now_ms)
            parts.prober.ping(Purpose.ROUND, target, turn, page=page)
        if now_ms >= self._tick_ms:
            self._tick(turn)
        if self._node.messages.take_missed(now_ms):
            turn.reports.append(MessagesMissed())
        if now_ms >= self._forget_ms:
            self._forget(now_ms)

    def _tick(self, turn: SwimTurn) -> None:
        node = self._node
        if not node.has_news:
            return
        self._tick_ms = turn.now_ms + node.settings.interval_ms * TICK_PERCENT // 100
        carrier = partial(GossipFrame, node.own.id)
        for peer in node.table.some_live(TICK_PEERS, node.rng):
            node.send(peer.address, peer.record.start, node.compose(carrier, turn.now_ms), turn)

    def _forget(self, now_ms: int) -> None:
        self._forget_ms = now_ms + FORGET_MS
        for name in self._node.table.old_ones(now_ms):
            if not self._parts.joiner.is_registered(name):
                self._node.forget(name)

    # -- what follows

    def _unanswered(self, probe: OpenProbe, turn: SwimTurn) -> None:
        node, parts, name = self._node, self._parts, probe.target.node
        match probe.purpose:
            case Purpose.ROUND | Purpose.SUSPECT:
                entry = node.table.entries.get(name)
                if entry is not None and entry.is_live and entry.generation == probe.target.generation:
                    self._doubt(entry, turn)
            case Purpose.HOLDER:
                applicant, holder = parts.doorkeeper.silent(name), node.table.entries.get(name)
                if applicant is not None and holder is not None:
                    node.retire(holder.record.start)
                    self._mailroom.admit(applicant.teller, applicant.record, turn)
                    self._mailroom.flush(applicant.teller, turn)
            case Purpose.NAMESAKE:
                parts.namesakes.silent(turn)
                turn.answers.clear()
            case Purpose.PULL:
                pass

    def _doubt(self, entry: MemberEntry, turn: SwimTurn) -> None:
        """It did not answer."""
        if entry.has_fresh_link(turn.now_ms):
            self._node.blocked.add(entry.record.node)
        else:
            self._node.suspect(entry, self._node.own.node, turn)

    def _follow_up(self, turn: SwimTurn) -> None:
        parts = self._parts
        for name in turn.found:
            parts.prober.found(name)
        for name in turn.suspected:
            entry = self._node.table.entries[name]
            if entry.state is MemberState.SUSPECT and self._is_chosen(entry):
                parts.prober.ping(Purpose.SUSPECT, entry, turn)

    def _is_chosen(self, suspect: MemberEntry) -> bool:
        """Whether this node is one of those few that ask a suspect at once: by chance, but the same for a suspicion."""
        said = f"{self._node.own.node} {suspect.record.node} {suspect.generation}".encode()
        drawn = int.from_bytes(blake2b(said, digest_size=8).digest(), "big")
        return drawn % self._node.table.size < EARLY_PINGS

    def _ask_about_names(self, turn: SwimTurn) -> None:
        parts = self._parts
        if (holder := parts.doorkeeper.to_ask) is not None:
            parts.doorkeeper.to_ask = None
            parts.prober.ping(Purpose.HOLDER, holder, turn)
        if (namesake := parts.namesakes.to_ask) is not None:
            parts.namesakes.to_ask, parts.namesakes.asked = None, namesake
            target = NodeId(self._node.own.node, namesake.generation)
            parts.prober.ask(Purpose.NAMESAKE, target, namesake.address, namesake.start, turn)

    def _noticed(self, name: str, is_well: bool, now_ms: int) -> None:
        entry = self._node.table.entries.get(name)
        if entry is None or name == self.name:
            return
        entry.link_ms = now_ms if is_well else None
        if not is_well:
            self._parts.prober.hurry(name)

    # -- the end

    def _leave(self, turn: SwimTurn) -> None:
        node = self._node
        if node.is_leaving:
            return
        node.is_leaving = True
        node.queue.add(Rumour(MemberState.LEFT, node.own.id))
        self._leaves_left = 2
        self._leave_again(turn)

    def _leave_again(self, turn: SwimTurn) -> None:
        """Twice it says so; after the second time it is there a while for those who ask."""
        node = self._node
        if self._leave_ms is not None and turn.now_ms < self._leave_ms:
            return
        self._leave_ms = None
        if self._leaves_left:
            self._leaves_left -= 1
            self._leave_ms = turn.now_ms + node.settings.interval_ms * LEAVE_PERCENT // 100
            for peer in node.table.some_live(LEAVE_PEERS, node.rng):
                node.send(peer.address, peer.record.start, Leave(node.own), turn)
