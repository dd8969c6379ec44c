"""What a user may write: a type checker accepts every line. It is checked, and never run."""

from __future__ import annotations

from typing import assert_type

import distkv
from distkv import Delete, Get, Path, Set


def blocking() -> None:
    with distkv.connect(["a", "b:27587"], connect_s=1, reply_s=2.5) as client:
        assert_type(client, distkv.Client)
        assert_type(client.get("a.b"), distkv.Entry | None)
        entry = client.get(Path(("a", 1, None)))
        if entry is not None:
            assert_type(entry.value, object)
            node, tick = entry.chain[0]
            print(node.upper(), tick + 1, entry.tock, entry.time.is_integer())
            client.set("a", {"x": [1, 2.5, b"y", True]}, head=entry.chain[0])
        written = client.set("a", 1, new=True, idem=True, previous="old")
        assert_type(written, distkv.Written)
        assert_type(written.changed, bool)
        assert_type(client.delete("a"), bool)
        assert_type(client.delete("a", head=written.link, previous={"x": 1}), bool)
        assert_type(client.delete_tree("a"), distkv.DeletedCount)
        assert_type(client.delete_tree("a").fenced, int)
        count: int = client.delete_tree("a")
        print(count)
        entry = client.get("a")
        fence = None if entry is None else entry.fence
        assert_type(fence, distkv.Fence | None)
        client.set("a", 1, fence=fence)
        client.delete("a", fence="job:1.2")
        client.batch([distkv.Set("a", 1, fence=fence), distkv.Set("b", 1, refence=True)])
        with client.token("job", shared=True, data=[1], wait_s=2.5, ttl_s=20) as token:
            assert_type(token, distkv.TokenHold)
            assert_type(token.fence, distkv.Fence)
            assert_type(token.is_lost, bool)
            client.set("a", token.data, fence=token.fence)
            token.set_data({"left": token.left_s + 1, "by": token.session.upper()})
            token.check()
        for path, found in client.get_tree("a", max_depth=1, limit=10):
            assert_type(path, Path)
            assert_type(found, distkv.Entry)
        for past in client.history("a", limit=2):
            assert_type(past, distkv.Past)
            print(past.won, past.position + 1, past.arrived.is_integer(), past.value)
        for loser in client.conflicts("a", limit=3):
            assert_type(loser, distkv.Loser)
            assert_type(client.restore(loser.id, head=loser.winner), distkv.Written)
            assert_type(client.dismiss(loser.link).changed, bool)
        assert_type(b"".join(client.backup()), bytes)
        for listed in client.list("a"):
            print(listed.name, listed.has_value, listed.children + 1)
        results = client.batch([Set("a", 1, new=True), Delete("b"), Get("c")])
        assert_type(results, tuple[distkv.Written | distkv.Entry | None, ...])
        done, shown = client.batch((Set("a", 1), Get("c")))
        assert_type(done, distkv.Written)
        assert_type(shown, distkv.Entry | None)
        one, two, three = client.batch((Get("a"), Delete("b", head=done.link), Set("c", 1)))
        assert one is not None
        print(one.value, two.changed, three.link)
        assert_type(client.batch((Get("a"), Get("b"), Delete("c"), Set("d", 1)))[2].changed, bool)
        assert_type(client.batch([Set("a", 1), Delete("b")]), tuple[distkv.Written, ...])
        assert_type(client.batch(Get(path) for path in ("a", "b")), tuple[distkv.Entry | None, ...])
        operations: list[distkv.Operation[object]] = [Get("a")]
        operations.append(Set("b", 1))
        client.batch(operations)
        for change in client.watch("a", on_disconnect=print, on_connect=lambda: None):
            assert_type(change, distkv.Change | distkv.Resync | distkv.Lost)
        print(client.state()["node"], client.hello.node, client.address, client.request("ping"))


async def waiting() -> None:
    async with distkv.open_client("127.0.0.1", 27586, open_max=10) as client:
        assert_type(client, distkv.AsyncClient)
        assert_type(await client.get("a"), distkv.Entry | None)
        assert_type(await client.set("a", 1), distkv.Written)
        assert_type(await client.delete("a"), bool)
        async with client.get_tree("a") as tree:
            async for path, entry in tree:
                assert_type(path, Path)
                assert_type(entry, distkv.Entry)
        async with client.token("job", wait_s=3) as token:
            assert_type(token, distkv.AsyncTokenHold)
            await client.set("a", 1, fence=token.fence)
            await token.set_data(None)
        assert_type(await client.conflicts(closed=True), tuple[distkv.Loser, ...])
        assert_type(await client.restore("a:12", closed=True), distkv.Written)
        async for past in client.history("a", before=7):
            assert_type(past, distkv.Past)
        async for part in client.backup():
            assert_type(part, bytes)
        await client.ping()
        shown, done = await client.batch((Get("a"), Set("b", 1)))
        assert_type(shown, distkv.Entry | None)
        print(done.changed)
    kept = await distkv.open_client()
    assert_type(kept, distkv.AsyncClient)
    await kept.aclose()


def errors() -> str:
    try:
        distkv.connect()
    except distkv.Conflict as error:
        return error.code
    except distkv.NotReady as error:
        return str(error)
    except (distkv.ConnectionLost, distkv.Unreachable, distkv.PeerError) as error:
        return str(error)
    except distkv.RequestError as error:
        return str(error.op)
    except distkv.DistkvError as error:
        return error.code
    return distkv.__version__


async def group() -> None:
    async with distkv.open_group("desk", "127.0.0.1:0", join=["lamp:27701"], secrets=["x"]) as member:
        assert_type(member, distkv.Membership)
        assert_type(member.members[0].state, str)
        await member.broadcast(b"on")
        async for news in member:
            assert_type(news, distkv.MemberNews | distkv.MessageNews | distkv.MissedNews)
