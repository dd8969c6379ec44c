"""A group without a store: who is there, and small messages to all (docs: python, 'Groups').

Knows: how a program takes part in a group, and what waits for its reader.  Does not know how members are found
(`distkv.swim`), sockets (`group`), nor what messages mean.

Invariant: what waits for the reader is bounded, in the order in which it came, and where something was left out stands
how much. Whoever leaves the block has left the group, if the socket was good until then.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Final, Self, TypeAlias, assert_never

import attrs
import trio

from distkv.errors import DistkvError, DuplicateNameError, SettingsError, TooLargeError, UnreachableError
from distkv.naming import address_of, is_node_name, parse_address
from distkv.swim.inputs import (
    Joined,
    KeysChanged,
    KeysRefused,
    Member,
    MemberChanged,
    MessageHeard,
    MessagesMissed,
    Noted,
    Refused,
    SayMessage,
    Seeds,
    SwimReport,
    SwimSettings,
)
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.swim.seal import KeyedSeal, PlainSeal
from distkv.transport.base import GroupMember
from distkv.transport.datagrams import DatagramSocket, open_datagrams, reachable_host
from distkv.transport.group import Group, boot_ms, new_generation
from distkv.transport.key_file import read_keyring
from distkv.transport.seeds import SeedNames, look_up
from distkv.wire.swim_records import BODY_BYTES_MAX, KEYS_MAX, START_BYTES, Address, NodeRecord

GROUP: Final = "group"
"""What a group is called that nobody called otherwise. Servers are in another one."""
NEWS_MAX: Final = 1024
"""So much waits for the reader."""
INTERVAL_S: Final = 0.5
SHOWN: Final = 3
KIND: Final = 16
"""Of messages: the store has lower ones."""


@attrs.frozen
class MemberNews:
    """A member is new, or has another state, address or generation."""

    member: GroupMember


@attrs.frozen
class MessageNews:
    """A message of another member."""

    node: str
    body: bytes


@attrs.frozen
class MissedNews:
    """Something is missing here. `members` has those who are there; messages are lost."""

    number: int | None
    """So much came while nobody read what was there; None: messages were lost on their way, nobody knows how many."""


GroupNews: TypeAlias = MemberNews | MessageNews | MissedNews


class NewsQueue:
    """What waits for the reader."""

    def __init__(self) -> None:
        self._news: Final = deque[GroupNews]()

    def __bool__(self) -> bool:
        return bool(self._news)

    def put(self, news: GroupNews) -> None:
        """Behind the others; what has no room is counted there."""
        if len(self._news) < NEWS_MAX:
            self._news.append(news)
        elif isinstance(last := self._news[-1], MissedNews) and last.number is not None:
            self._news[-1] = MissedNews(last.number + 1)
        else:
            self._news.append(MissedNews(1))

    def take(self) -> GroupNews:
        """The oldest; there is one."""
        return self._news.popleft()


class Membership:
    """`open_group` makes it; many tasks may use it at once. Each piece of news goes to one of those who iterate."""

    def __init__(self, machine: SwimMachine, socket: DatagramSocket, join: Sequence[str]) -> None:
        self.name: Final = machine.name
        self._machine: Final = machine
        self._join: Final = join
        self._refusal = ""
        self._address: Final = address_of(*socket.address)
        self._group: Final = Group(machine, socket, self._take)
        self._news: Final = NewsQueue()
        self._changed = trio.Event()
        self._scope: Final = trio.CancelScope()
        self._failure: DistkvError | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {self.name} at {self._address}>"

    @property
    def address(self) -> str:
        """HOST:PORT where it is bound: what others give as `join`."""
        return self._address

    @property
    def is_joined(self) -> bool:
        """Whether somebody of the group knows this node."""
        return self._machine.is_joined

    @property
    def reason(self) -> str:
        """Why nobody of the group knows this node, as far as is known; empty: somebody does, or nobody is asked."""
        if self.is_joined or not self._join or self._refusal:
            return self._refusal
        shown = ", ".join(self._join[:SHOWN]) + (" and others" if len(self._join) > SHOWN else "")
        return f"nobody of the group answers at {shown}: nobody is there, or it is another group or secret"

    @property
    def members(self) -> tuple[GroupMember, ...]:
        """All that are known, this node included, by name; also those who are dead or left, for a day."""
        return tuple(map(_seen, sorted(self._machine.members(), key=lambda member: member.node)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GroupNews:
        """What happened next.

        Raises:
            DistkvError: as `broadcast`.
        """
        while not self._news:
            if self._is_closed:
                raise StopAsyncIteration
            await self._wait()
        return self._news.take()

    async def joined(self) -> None:
        """Wait until somebody of the group knows this node.

        Raises:
            DistkvError: as `broadcast`.
        """
        while not self.is_joined:
            await self._wait()

    async def broadcast(self, body: bytes) -> None:
        """Say something to all who are there now; nothing tells whether they heard it. Waits while much is said.

        Raises:
            TooLargeError: it is longer than 960 bytes.
            DuplicateNameError: another member has this name; this one is out.
            UnreachableError: the socket failed, or the block was left.
        """
        if len(body) > BODY_BYTES_MAX:
            raise TooLargeError(f"a message of {len(body)} bytes is too long: it can have {BODY_BYTES_MAX}")
        self._check()
        while not self._machine.message_places(boot_ms()):
            await trio.sleep(max(1, self._machine.message_wait_ms(boot_ms())) / 1000)
            self._check()
        self._group.step(SayMessage(KIND, bytes(body)))
        await trio.lowlevel.checkpoint()

    async def serve(self, *, is_v6: bool) -> None:
        """Take part until cancelled, or until it fails: then whoever asks is told."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                seeds = SeedNames(self._join)
                nursery.start_soon(partial(seeds.run, is_v6=is_v6, changed=self._seek))
                try:
                    await self._group.run()
                except OSError as error:
                    self._fail(UnreachableError(f"{self._address}: the socket failed: {error.strerror or error}"))

    async def leave(self) -> None:
        """Say that this node leaves; `serve` has ended."""
        self._is_closed = True
        if self._failure is None:
            await self._group.leave()
        self._wake()

    # -- inside

    def _seek(self, found: tuple[Address, ...]) -> None:
        self._group.step(Seeds(found))

    def _take(self, report: SwimReport) -> None:
        match report:
            case MemberChanged(member=member):
                self._put(MemberNews(_seen(member)))
            case MessageHeard(origin=origin, kind=kind, body=body):
                if kind == KIND:
                    self._put(MessageNews(origin, body))
            case MessagesMissed():
                self._put(MissedNews(None))
            case Refused(code="name_taken", text=text):
                self._fail(DuplicateNameError(text))
            case Refused(text=text):
                self._refusal = text
            case Joined():
                self._refusal = ""
                self._wake()
            case KeysChanged() | KeysRefused() | Noted():
                pass
            case _:
                assert_never(report)

    def _put(self, news: GroupNews) -> None:
        self._news.put(news)
        self._wake()

    def _fail(self, error: DistkvError) -> None:
        self._failure = error
        self._scope.cancel()
        self._wake()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise UnreachableError(f"{self.name} has left this group")

    async def _wait(self) -> None:
        self._check()
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_group(
    name: str,
    bind: str = "127.0.0.1:0",
    join: Iterable[str] = (),
    secrets: Iterable[str] = (),
    *,
    group: str = GROUP,
    interval_s: float = INTERVAL_S,
) -> AsyncIterator[Membership]:
    """Be a member of a group until the block is left: `async with open_group("desk", "127.0.0.1:27700") as group`. For
    trio only.

    Args:
        name: of this member; another live one must not have it.
        bind: HOST:PORT where it listens for datagrams (UDP), numeric, and not everybody's (0.0.0.0); port 0 is any.
        join: HOST:PORT of members that may be there already. They are asked again and again until one answers.
        secrets: what `distkv swim keygen` prints, up to three of them, the first one seals; or file:/PATH of a file
            that has them. Without one it listens on loopback only.
        group: only members of one group hear each other.
        interval_s: between two probes; the same on all members.

    Raises:
        SettingsError: one of these cannot be; the address is taken; or `cryptography` is not there.
    """
    joined = tuple(join)
    for what, text in (("name", name), ("group", group)):
        if not is_node_name(text):
            raise SettingsError(f"{what} is {text!r}: it must be 1-63 of letters, digits, '.', '-', '_'")
    for text in joined:
        if parse_address(text, "join")[1] == 0:
            raise SettingsError(f"join is {text!r}: it needs a port")
    if not 0.1 <= interval_s <= 60:
        raise SettingsError(f"interval_s is {interval_s}: it must be seconds, from 0.1 to 60")
    keyring = _keyring(tuple(secrets))
    socket = await _bound(bind, is_alone=keyring is None)
    try:
        membership = Membership(_machine(name, socket, keyring, group, round(interval_s * 1000)), socket, joined)
        async with _taking_part(membership, is_v6=socket.is_v6):
            yield membership
    finally:
        socket.close()


@asynccontextmanager
async def _taking_part(membership: Membership, *, is_v6: bool) -> AsyncIterator[None]:
    """What the block raises does not pass through the nursery, which would put it into a group."""
    manager = trio.open_nursery()
    nursery = await manager.__aenter__()
    nursery.start_soon(partial(membership.serve, is_v6=is_v6))
    try:
        yield
    finally:
        nursery.cancel_scope.cancel()
        try:
            await manager.__aexit__(None, None, None)
        finally:
            await membership.leave()


def _machine(name: str, socket: DatagramSocket, keyring: Keyring | None, group: str, interval_ms: int) -> SwimMachine:
    start = os.urandom(START_BYTES)
    seal = PlainSeal() if keyring is None else KeyedSeal(keyring, group, start, os.urandom)
    own = NodeRecord(
        name,
        new_generation(),
        start,
        (address_of(*socket.address),),
        interval_ms=interval_ms,
        keys=() if keyring is None else keyring.ids,
    )
    settings = SwimSettings(group, interval_ms)
    return SwimMachine(own, settings, seal, random.SystemRandom(), os.urandom(32), keyring)


def _keyring(secrets: Sequence[str]) -> Keyring | None:
    keys = [key for secret in secrets for key in read_keyring(secret, "secrets").keys]
    if not keys:
        return None
    if len(keys) > KEYS_MAX or len({*keys}) < len(keys):
        raise SettingsError(f"secrets has {len(keys)} keys, or one key twice: give 1 to {KEYS_MAX} different ones")
    return Keyring(tuple(keys))


async def _bound(bind: str, *, is_alone: bool) -> DatagramSocket:
    host, port = parse_address(bind, "bind")
    is_v6 = ":" in host
    try:
        found = await look_up(address_of(host, port), is_v6=is_v6)
        if not found or ip_address(found[0][0]).is_unspecified:
            raise SettingsError(f"bind is {bind!r}: name one address of this host, at which others find it")
        if is_alone and (outside := reachable_host([found[0][0]])) is not None:
            raise SettingsError(f"{outside} can be reached from other hosts, and there is no secret: give one")
        return open_datagrams(found[0])
    except OSError as error:
        raise SettingsError(f"cannot listen on {bind} for datagrams (UDP): {error.strerror or error}") from None


def _seen(member: Member) -> GroupMember:
    since_s = time.time() - (boot_ms() - member.since_ms) / 1000
    address, state = address_of(*member.address), member.state.name.lower()
    return GroupMember(member.node, address, state, member.generation, since_s)
