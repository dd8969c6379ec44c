"""Rules of follows that show only in certain histories: a commit that is under way, a follower that is silent or gone.

Knows: whole nodes as `nodes` builds them, in virtual time.  Does not know which part keeps a rule.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.node.claims import check_order
from tests.node.nodes import solo_node
from tests.node.test_follow import Following
from tests.node.test_links_state import linked, two
from tests.node.test_replicas import three

COMMIT_S = 5.0


@pytest.mark.parametrize("late_s", [0.5, 2.0, 4.0])
@pytest.mark.trio
async def test_follow_that_begins_during_a_commit_tells_nothing_that_is_not_on_the_disk(
    autojump_clock: MockClock, late_s: float
) -> None:
    async with solo_node(commit_s=COMMIT_S) as node, node.client() as client, node.client() as writer:
        await client.ask("ping")
        await writer.ask("ping")
        began_s = trio.current_time()
        await writer.stream.send_all(writer.frame("set_value", path=["x"], value=1))
        await trio.sleep(late_s)
        tick = node.replica.tick
        following = Following(client)
        await following.begin(nodes={"a": tick - 1})
        while not following.events:
            await following.take()
        assert trio.current_time() >= began_s + COMMIT_S
        assert node.committer.durable == node.committer.appended
    check_order("a", node.sent)


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.trio
async def test_follower_that_is_silent_or_gone_is_not_counted_as_one_who_has_all(
    autojump_clock: MockClock, is_gone: bool
) -> None:
    """docs/protocol, LINK-7: a follower of which nothing is heard may be gone, so others are told by gossip again."""
    async with three() as world:
        node, life = world.nodes["a"], world.nodes["b"].replica.life or 0
        for name in "bc":
            await world.nodes[name].kill()
        await trio.sleep(60)
        assert node.driver.follower_count == 0
        async with node.client() as client:
            fields = {"as": {"node": "b", "life": life}, "silent": 1.0}
            await client.ask("follow", nodes={"a": node.replica.tick}, **fields)
            for _ in range(20):
                await client.stream.send_all(client.frame("ping"))
                await trio.sleep(1)
            assert node.driver.follower_count == 1
            assert node.replica.following.followers == {"b"}
            if not is_gone:
                await trio.sleep(20)
                assert node.driver.follower_count == 0
        await trio.sleep(1)
        assert node.driver.follower_count == 0
        assert node.replica.following.followers == frozenset()
        assert not node.replica.following.reaches_all


@pytest.mark.trio
async def test_event_that_came_by_a_link_is_committed_though_nothing_comes_after_it(autojump_clock: MockClock) -> None:
    async with two() as world:
        await linked(world)
        a, b = world.nodes["a"], world.nodes["b"]
        async with a.client() as client:
            written = await client.set("x", 1)
        with trio.fail_after(60):
            while b.replica.tree.ledger.last(a.replica.name) < written["tick"]:  # noqa: ASYNC110
                await trio.sleep(0.001)
            while b.committer.durable < b.committer.appended:  # noqa: ASYNC110
                await trio.sleep(0.01)
