"""Gossip without an agent: the membership layer of our own (docs: swim).

Knows: which report of the group is which report of a transport, what is kept in the peers file and when it is written.
Does not know how members are found (`distkv.swim`), sockets (`group`), nor what messages mean.

Invariant: between `Up` and `Down` the socket is good. What the group has no room for is announced. A node says that it
leaves only when it was told to end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import trio

from distkv.errors import DecodeError, DistkvError, DuplicateNameError
from distkv.naming import address_of
from distkv.swim.inputs import (
    Joined,
    KeysChanged,
    KeysRefused,
    MemberChanged,
    MessageHeard,
    MessagesMissed,
    Noted,
    Noticed,
    Refused,
    SayMessage,
    Seeds,
    SwimReport,
)
from distkv.swim.machine import SwimMachine
from distkv.transport.base import Announce, Down, Gap, GossipHeard, GroupMember, Members, Report, Up
from distkv.transport.datagrams import DatagramSocket, open_datagrams
from distkv.transport.group import Contain, Group, boot_ms, raise_it, tell_known
from distkv.transport.group_keys import GroupKeys
from distkv.transport.outgoing import Outgoing
from distkv.transport.peers_file import KnownPeers, PeersFile
from distkv.transport.seeds import SeedNames
from distkv.wire.gossip import GossipKind, decode_message
from distkv.wire.message import Message
from distkv.wire.swim_records import BODY_BYTES_MAX, Address, MemberState, numeric_address

GATHER_S: Final = 0.005
"""How long updates are gathered, so that several share a datagram."""
WRITE_S: Final = 2.0
"""The peers file is not written more often."""
SILENT_S: Final = (3.0, 60.0)
"""How long nobody answers before that is said, and before it is said again."""
REASONS_MAX: Final = 64
SHOWN: Final = 3
_BACK_OFF_S: Final = (0.2, 5.0)
_ALIVE: Final = (MemberState.ALIVE, MemberState.SUSPECT)
_KINDS: Final = {GossipKind.UPDATE: 1, GossipKind.INFO: 2, GossipKind.PING: 3}
_KIND_OF: Final = {number: kind for kind, number in _KINDS.items()}
_LEVELS: Final[Mapping[str, int]] = {"namesake": logging.WARNING}
"""How loud what the machine notes is said, if not as `INFO`."""

log = logging.getLogger("distkv.engine")

Reporter: TypeAlias = Callable[[Report], None]


class SwimTransport:
    """The `Transport` over the membership layer, at a socket that is bound already."""

    def __init__(
        self,
        machine: SwimMachine,
        socket: DatagramSocket,
        file: PeersFile,
        known: KnownPeers,
        join: tuple[str, ...],
        *,
        secret: str | None = None,
        registered: Callable[[], Mapping[str, str]],
        is_leaving: Callable[[], bool],
    ) -> None:
        """`known`: what the file held. `registered` gives HOST:PORT by names; `is_leaving` whether the node was told to
        end."""
        self._machine: Final = machine
        self._socket = socket
        self._file: Final = file
        self._known = known
        self._join: Final = join
        self._registered: Final = registered
        self._is_leaving: Final = is_leaving
        self._outgoing: Final = Outgoing(_MachineBudget(machine), GATHER_S)
        self._keys: Final = GroupKeys(machine, secret)
        self._ear: Final = _Ear(lambda *what: self.contain(*what))
        self._news = trio.Event()
        self._group: Group | None = None
        self._changed = trio.Event()
        self._has_joined = False
        self._reason = ""
        self._fatal: DistkvError | None = None
        self._ended = trio.CancelScope()
        self.contain: Contain = raise_it
        """Takes a failure that nobody foresaw, and says so in words, or raises it: then what came is left out."""

    async def run(self, report: Reporter, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Transport.run`.

        Raises:
            DuplicateNameError: another live node of the group has our name.
        """
        report(Up(BODY_BYTES_MAX))
        task_status.started()
        while True:
            error = await self._session(report)
            self._reason = error.strerror or str(error)
            report(Down(self._reason))
            await self._open_again()
            self._reason = ""
            report(Up(BODY_BYTES_MAX))
            report(Gap())

    def appear(self) -> None:
        """See `Transport.appear`: who asks to join is known."""

    def noticed(self, name: str, *, is_well: bool) -> None:
        """See `Transport.noticed`."""
        if self._group is not None:
            self._group.step(Noticed(name, is_well))

    def broadcast(self, message: Message) -> None:
        """See `Transport.broadcast`."""
        if self._outgoing.put(message, trio.current_time()):
            self._news.set()

    def members(self) -> list[GroupMember]:
        """All that are known, this node included, by name."""
        now_ms, now_s = boot_ms(), time.time()
        return [
            GroupMember(
                member.node,
                address_of(*member.address),
                member.state.name.lower(),
                member.generation,
                now_s - (now_ms - member.since_ms) / 1000,
            )
            for member in sorted(self._machine.members(), key=lambda member: member.node)
        ]

    def key_desk(self) -> GroupKeys:
        """See `Transport.key_desk`."""
        return self._keys

    def statistics(self) -> dict[str, int | float | str | bool | list[str]]:
        """See `Transport.statistics`. `reason`: why nobody is heard, as far as that is known."""
        counts, found = self._outgoing.counts, dict[str, int | float | str | bool | list[str]]()
        found |= {"kind": "swim", "connected": self._group is not None, "reason": self._silence()}
        settings = self._machine.settings
        found |= {"group": settings.group, "interval": settings.interval_ms / 1000}
        found |= self._machine.statistics()
        found |= {
            "lost_by_kernel": self._socket.lost,
            "unannounced": counts.unannounced,
            "announced": counts.announced,
            "announces": counts.announces,
            "sent_events": counts.sent_events,
        }
        found |= {f"sent_{kind}": number for kind, number in counts.sent.items()}
        found |= {f"dropped_{kind}_{reason}": number for (kind, reason), number in sorted(counts.dropped.items())}
        return found | self._ear.statistics()

    def _silence(self) -> str:
        """Why nobody is heard."""
        asked = (*self._join, *self._known.addresses.values())
        if self._reason or self._has_joined or not asked:
            return self._reason
        shown = ", ".join(asked[:SHOWN]) + (" and others" if len(asked) > SHOWN else "")
        return f"nobody of the group answers at {shown}: no node is there, or the secret is another one"

    # -- one session: while the socket is good

    async def _session(self, report: Reporter) -> OSError:
        """Take part; says what ended it."""
        failures: list[OSError] = []
        socket = self._socket
        group = self._group = Group(self._machine, socket, partial(self._take, report))
        group.contain = lambda *what: self.contain(*what)
        self._outgoing.open(dict.fromkeys(GossipKind, BODY_BYTES_MAX))
        try:
            async with trio.open_nursery() as nursery:
                self._ended = nursery.cancel_scope
                nursery.start_soon(self._talk, group, report)
                nursery.start_soon(self._keep_members, report)
                nursery.start_soon(self._keep_seeds, group)
                nursery.start_soon(warn_while, self._silence)
                nursery.start_soon(self._keep_file)
                nursery.start_soon(self._keys.run, group)
                nursery.start_soon(partial(tell_known, group, self._registered, is_v6=socket.is_v6))
                try:
                    await group.run()
                except OSError as error:
                    failures.append(error)
                    nursery.cancel_scope.cancel()
        finally:
            if self._is_leaving() and not failures:
                await group.leave()
            self._group = None
            self._outgoing.close()
            socket.close()
        if self._fatal is not None:
            raise self._fatal
        return failures[0]

    async def _open_again(self) -> None:
        address, delay_s = self._socket.address, _BACK_OFF_S[0]
        while True:
            try:
                self._socket = open_datagrams(address)
                return
            except OSError as error:
                self._reason = error.strerror or str(error)
            await trio.sleep(delay_s)
            delay_s = min(2 * delay_s, _BACK_OFF_S[1])

    async def _talk(self, group: Group, report: Reporter) -> None:
        outgoing = self._outgoing
        while True:
            if outgoing.flush(trio.current_time()):
                report(Announce())
            while (packet := outgoing.next_packet()) is not None:
                group.step(SayMessage(_KINDS[packet.kind], packet.payload))
                outgoing.sent(packet)
            with trio.move_on_at(outgoing.next_flush_at(trio.current_time())):
                await self._news.wait()
            self._news = trio.Event()

    async def _keep_seeds(self, group: Group) -> None:
        """Who was there before, and who is named."""
        names = SeedNames(self._join)
        before = tuple(found for text in self._known.addresses.values() if (found := numeric_address(text)) is not None)

        def changed(found: tuple[Address, ...]) -> None:
            group.step(Seeds(tuple(dict.fromkeys((*found, *before)))))

        changed(())
        await names.run(is_v6=self._socket.is_v6, changed=changed)

    async def _keep_members(self, report: Reporter) -> None:
        """Tell who is there, at most once a turn; and write it down, now and then."""
        told: dict[str, str] | None = None
        while True:
            self._changed = trio.Event()
            alive = {one.node: address_of(*one.address) for one in self._machine.members() if one.state in _ALIVE}
            if alive != told:
                told = alive
                report(Members(alive))
            await self._changed.wait()

    def _take(self, report: Reporter, item: SwimReport) -> None:
        match item:
            case MemberChanged(member=member):
                self._changed.set()
                level = logging.WARNING if member.state is MemberState.DEAD else logging.INFO
                log.log(level, "member_changed node=%s state=%s", member.node, member.state.name.lower())
            case MessageHeard(kind=kind, body=body):
                self._ear.hear(kind, body, report)
            case MessagesMissed():
                report(Gap())
            case Refused(code="name_taken", text=text):
                self._end(DuplicateNameError(text))
            case Refused(code=code, text=text):
                log.warning("not_admitted code=%s: %s", code, text)
            case Joined():
                self._has_joined = True
                log.info("joined")
            case KeysChanged() | KeysRefused():
                self._keys.take(item)
            case Noted(name=name, fields=fields):
                event = name + "".join(f" {key}=%s" for key in fields)
                log.log(_LEVELS.get(name, logging.INFO), event, *fields.values())
            case _:
                assert_never(item)

    def _end(self, error: DistkvError) -> None:
        self._fatal = error
        self._ended.cancel()

    # -- the peers file

    async def _keep_file(self) -> None:
        """Write down who was there, and our generation, whenever that changes."""
        is_told = False
        while True:
            known = self._to_write()
            if known != self._known:
                try:
                    await trio.to_thread.run_sync(self._file.write, known)
                    self._known, is_told = known, False
                except (OSError, RuntimeError) as error:  # also a lack of threads
                    if not is_told:
                        log.warning("peers_file_not_written path=%s reason=%s", self._file.path, error)
                    is_told = True
            await trio.sleep(WRITE_S)

    def _to_write(self) -> KnownPeers:
        members = {member.node: member for member in self._machine.members()}
        own = members.pop(self._machine.name)
        found = {name: address_of(*member.address) for name, member in members.items()}
        return KnownPeers(own.generation, found or self._known.addresses)


async def warn_while(silence: Callable[[], str]) -> None:
    """Log why nobody is heard, now and then, until there is nothing to say."""
    await trio.sleep(SILENT_S[0])
    while why := silence():
        log.warning("not_joined: %s", why)
        await trio.sleep(SILENT_S[1])


class _MachineBudget:
    """The `SendBudget` of messages that the machine sends: it counts the bytes of all copies itself."""

    def __init__(self, machine: SwimMachine) -> None:
        self._machine: Final = machine

    def note(self, now: float, node: str, tick: int, *, is_update: bool) -> None:
        """It does not matter who else writes."""

    def available(self, now: float) -> int:  # noqa: ARG002  # the machine has a clock of its own
        return self._machine.message_places(boot_ms())

    def take(self, now: float, sizes: Sequence[int]) -> None:
        """What leaves is counted when it does."""

    def wait_s(self, now: float) -> float:  # noqa: ARG002
        return self._machine.message_wait_ms(boot_ms()) / 1000


class _Ear:
    """What was heard: decodes, and counts what cannot be decoded."""

    def __init__(self, contain: Contain) -> None:
        self._contain: Final = contain
        self._heard: Final = dict.fromkeys(GossipKind, 0)
        self._bad: Final = dict[str, int]()

    def hear(self, kind: int, body: bytes, report: Reporter) -> None:
        name = _KIND_OF.get(kind)
        if name is None:  # a later release says it
            self._count("kind")
            return
        try:
            message = decode_message(name.value, body)
        except DecodeError as error:
            self._count(f"{name}_{error.reason}")
        except Exception as error:
            self._contain(error, f"a message of the kind {name}")
        else:
            self._heard[name] += 1
            report(GossipHeard(message))

    def statistics(self) -> dict[str, int | float | str | bool]:
        found: dict[str, int | float | str | bool] = {f"heard_{kind}": number for kind, number in self._heard.items()}
        return found | {f"bad_{reason}": number for reason, number in sorted(self._bad.items())}

    def _count(self, reason: str) -> None:
        key = reason if reason in self._bad or len(self._bad) < REASONS_MAX else "other"
        self._bad[key] = self._bad.get(key, 0) + 1
