"""What `distkv swim run` and `distkv swim members` do while they take part in a group.

Knows: what is printed, what is read from standard input, and what ends it.  Does not know the protocol
(`transport.membership`).

Invariant: however it ends, it leaves the group before. Nobody waits for whoever reads its output or writes its input.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias, assert_never

import trio

from distkv.cli.group_members import HEADS
from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.swim_call import GroupCall
from distkv.errors import DistkvError, SettingsError, TooLargeError, UnreachableError
from distkv.naming import address_of, parse_address
from distkv.text.display import table, word
from distkv.text.moment import utc
from distkv.transport.base import GroupMember
from distkv.transport.membership import GroupNews, MemberNews, Membership, MessageNews, MissedNews, open_group
from distkv.wire.swim_records import BODY_BYTES_MAX

PATIENCE_S: Final = 5.0
"""How long nobody may answer before that is said."""
QUIET_S: Final = 1.0
"""When nothing is heard of other members for so long, all were heard of."""
QUIET_S_MAX: Final = 10.0
ASKING: Final = "asking"
ASKING_MAX: Final = 100
"""So few names are left behind, however often somebody asks."""
READ_BYTES: Final = 1 << 16
_STDIN: Final = 0

Task: TypeAlias = Callable[[], Awaitable[object]]


def be_member(call: GroupCall, name: str, form: Form) -> None:
    """Until a signal ends it."""
    if form is Form.RAW:
        print_items((), form)
    trio.run(_be_member, call, name, form)


def print_members(call: GroupCall, form: Form) -> None:
    """Ask, and print what was heard."""
    found = trio.run(_ask, call)
    if form is Form.TEXT:
        print_items(table([HEADS, *map(_row, found)]), form)
    else:
        print_result(list(map(_map, found)), form)


# -- inside -------------------------------------------------------------------------------------------------------


async def _be_member(call: GroupCall, name: str, form: Form) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_group(name, call.bind, call.join, call.secrets, group=call.group) as group:
            await _first_of(partial(anext, signals), partial(_print_news, group, form), also=[
                partial(_complain_of_silence, group), partial(_say_lines, group),
            ])  # fmt: skip


async def _first_of(*ending: Task, also: list[Task]) -> None:
    """Run all until one of those that end it does; a failure of any is raised as it is."""
    failures: list[DistkvError | OSError] = []
    async with trio.open_nursery() as nursery:

        async def attempt(task: Task, *, is_ending: bool) -> None:
            try:
                await task()
            except (DistkvError, OSError) as error:
                failures.append(error)
            else:
                if not is_ending:
                    return
            nursery.cancel_scope.cancel()

        for task in ending:
            nursery.start_soon(partial(attempt, task, is_ending=True))
        for task in also:
            nursery.start_soon(partial(attempt, task, is_ending=False))
    if failures:
        raise failures[0]


async def _print_news(group: Membership, form: Form) -> None:
    async for news in group:
        shown = _line(news) if form is Form.TEXT else _news_map(news)
        await trio.to_thread.run_sync(print_items, [shown], form, abandon_on_cancel=True)


async def _complain_of_silence(group: Membership) -> None:
    with trio.move_on_after(PATIENCE_S):
        await group.joined()
    if reason := group.reason:
        complain(f"{reason}; trying again")


async def _say_lines(group: Membership) -> None:
    """Not through the buffer of Python, whose lock whoever waits for a line would hold at the end."""
    if sys.stdin is None:
        return
    rest = b""
    while data := await trio.to_thread.run_sync(os.read, _STDIN, READ_BYTES, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            await _say(group, line)
        rest = rest[: BODY_BYTES_MAX + 1]
    if rest:
        await _say(group, rest)


async def _say(group: Membership, line: bytes) -> None:
    try:
        await group.broadcast(line)
    except TooLargeError as error:
        complain(f"{error}; it is not said")


async def _ask(call: GroupCall) -> tuple[GroupMember, ...]:
    (address,) = call.join
    name, bind = f"{ASKING}-{random.randrange(ASKING_MAX)}", await trio.to_thread.run_sync(_way_to, address)
    async with open_group(name, bind, call.join, call.secrets, group=call.group) as group:
        with trio.move_on_after(PATIENCE_S) as patience:
            await group.joined()
        if patience.cancelled_caught:
            raise UnreachableError(group.reason)
        with trio.move_on_after(QUIET_S_MAX):
            await _quiet(group)
        return tuple([member for member in group.members if member.node != name])


async def _quiet(group: Membership) -> None:
    """Until nothing is heard for a while."""
    is_news = True
    while is_news:
        with trio.move_on_after(QUIET_S) as pause:
            await anext(group)
        is_news = not pause.cancelled_caught


def _way_to(address: str) -> str:
    """HOST:0, where HOST is that of this machine on the way there.

    Raises:
        SettingsError: the address is none.
        UnreachableError: there is no way.
    """
    host, port = parse_address(address, "HOST:PORT")
    if port == 0:
        raise SettingsError(f"HOST:PORT is {address!r}: it needs a port")
    try:
        family, kind, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(there)
            return address_of(probe.getsockname()[0], 0)
    except (OSError, UnicodeError) as error:
        raise UnreachableError(f"{address} cannot be reached: {getattr(error, 'strerror', None) or error}") from None


def _row(member: GroupMember) -> tuple[str, ...]:
    return word(member.node), word(member.state), word(member.addr), utc(member.since_s)


def _map(member: GroupMember) -> dict[str, object]:
    """As `get_members` has it."""
    return {
        "node": member.node,
        "addr": member.addr,
        "state": member.state,
        "generation": member.generation,
        "since": member.since_s,
    }


def _text(body: bytes) -> str:
    return body.decode(errors="backslashreplace")


def _line(news: GroupNews) -> str:
    match news:
        case MemberNews(member=member):
            return f"member {member.node} {member.state} {member.addr}"
        case MessageNews():
            return f"message {news.node} {_text(news.body)}"
        case MissedNews(number=number):
            return "missed" if number is None else f"missed {number}"
        case _:
            assert_never(news)


def _news_map(news: GroupNews) -> dict[str, object]:
    match news:
        case MemberNews(member=member):
            return {"member": _map(member)}
        case MessageNews():
            return {"message": {"node": news.node, "text": _text(news.body)}}
        case MissedNews(number=number):
            return {"missed": number}
        case _:
            assert_never(news)
