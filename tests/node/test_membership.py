"""A group without a store: members at real sockets on loopback, in this process.

Knows: `distkv.open_group` as a program uses it.  Does not know datagrams.
"""

from __future__ import annotations

import base64
import sys

import pytest
import trio

import distkv

SECRET = base64.b64encode(b"s" * 32).decode()
DEADLINE_S = 60

pytestmark = pytest.mark.trio


async def message(group: distkv.Membership) -> distkv.MessageNews:
    """The next one."""
    with trio.fail_after(DEADLINE_S):
        async for news in group:
            if isinstance(news, distkv.MessageNews):
                return news
    raise AssertionError("the group ended")


async def state(group: distkv.Membership, node: str, wanted: str) -> None:
    """Until the member is told to be that."""
    with trio.fail_after(DEADLINE_S):
        async for news in group:
            if isinstance(news, distkv.MemberNews) and (news.member.node, news.member.state) == (node, wanted):
                return


@pytest.mark.parametrize("secrets", [[], [SECRET]], ids=["plain", "sealed"])
async def test_members_find_and_hear_each_other(secrets: list[str]) -> None:
    async with (
        distkv.open_group("desk", secrets=secrets) as desk,
        distkv.open_group("lamp", join=[desk.address], secrets=secrets) as lamp,
    ):
        await state(desk, "lamp", "alive")
        await desk.broadcast(b"on")
        assert await message(lamp) == distkv.MessageNews("desk", b"on")
        assert [(one.node, one.state) for one in lamp.members] == [("desk", "alive"), ("lamp", "alive")]


async def test_who_leaves_the_block_has_left_the_group() -> None:
    async with distkv.open_group("desk") as desk:
        async with distkv.open_group("lamp", join=[desk.address]):
            await state(desk, "lamp", "alive")
        await state(desk, "lamp", "left")


async def test_what_the_block_raises_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with distkv.open_group("desk"):
            raise ZeroDivisionError


async def test_program_that_only_reads_loads_no_core_and_no_storage() -> None:
    program = "import distkv, sys; distkv.open_group; print(*sys.modules)"
    ran = await trio.run_process([sys.executable, "-c", program], capture_stdout=True)
    loaded = ran.stdout.decode().split()
    assert "distkv.swim.machine" in loaded
    wrong = ("distkv.core", "distkv.storage", "distkv.engine", "distkv.services", "distkv.client", "cryptography")
    assert [name for name in loaded if name.startswith(wrong)] == []


async def test_second_member_of_a_name_is_told_that_it_is_taken() -> None:
    async with (
        distkv.open_group("desk") as desk,
        distkv.open_group("lamp", join=[desk.address]),
    ):
        await state(desk, "lamp", "alive")
        async with distkv.open_group("lamp", join=[desk.address]) as second:
            with trio.fail_after(DEADLINE_S), pytest.raises(distkv.DuplicateName, match="lamp"):
                await second.joined()


async def test_message_that_is_too_long_is_refused() -> None:
    async with distkv.open_group("desk") as desk:
        with pytest.raises(distkv.TooLarge, match="961 bytes"):
            await desk.broadcast(bytes(961))


@pytest.mark.parametrize(
    ("name", "bind", "join", "secrets", "words"),
    [
        ("a b", "127.0.0.1:0", [], [], "name is 'a b'"),
        ("a", "127.0.0.1", [], [], "write HOST:PORT"),
        ("a", "127.0.0.1:0", ["lamp"], [], "write HOST:PORT"),
        ("a", "127.0.0.1:0", ["lamp:0"], [], "needs a port"),
        ("a", "127.0.0.1:0", [], ["short"], "is not a key"),
        ("a", "127.0.0.1:0", [], [SECRET, SECRET], "one key twice"),
        ("a", "0.0.0.0:0", [], [SECRET], "one address of this host"),
        ("a", "192.0.2.1:0", [], [], "there is no secret"),
        ("a", "192.0.2.1:0", [], [SECRET], "cannot listen"),
    ],
)
async def test_what_cannot_be_is_refused_in_one_line(
    name: str, bind: str, join: list[str], secrets: list[str], words: str
) -> None:
    with pytest.raises(distkv.SettingsError, match=words) as caught:
        async with distkv.open_group(name, bind, join, secrets):
            pass
    assert "\n" not in str(caught.value)
