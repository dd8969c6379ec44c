"""The Serf transport against a fake agent, in virtual time: connecting, losing, budget, hearing.

Knows: what tests/process shows of a real agent.  Does not know the engine.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.config import SerfConfig
from distkv.errors import TransportError
from distkv.model.event import NodeName
from distkv.transport.base import Announce, Down, Gap, GossipHeard, Members, Up
from distkv.transport.budget import BURST, QUEUE_STOP
from distkv.transport.serf import EVENT_BYTES_MAX, REASONS_MAX, TAG, SerfTransport
from distkv.transport.serf_stream import RECORDS_MAX
from distkv.wire.gossip import decode_message, encode_message
from distkv.wire.message import Update
from tests.node.fake_agent import FakeAgent
from tests.node.gossip_samples import A, B, Reports, info, ping, update


@attrs.define
class Bench:
    """One agent, one transport, what it reported."""

    agent: FakeAgent
    transport: SerfTransport
    reports: Reports

    def sent(self, kind: str) -> list[bytes]:
        return [payload for _, name, payload in self.agent.sent if name == f"distkv.{kind}"]


@asynccontextmanager
async def bench(
    settings: SerfConfig | None = None, *, appears: bool = True, **agent_options: object
) -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery)
        for name, value in agent_options.items():
            setattr(agent, name, value)
        transport = SerfTransport(settings or SerfConfig(), A, "10.0.0.1:27586", random.Random(1), dial=agent.dial)
        if appears:
            transport.appear()
        reports = Reports()
        async with trio.open_nursery() as server:
            await server.start(transport.run, reports.append)
            await wait_all_tasks_blocked()
            yield Bench(agent, transport, reports)
            server.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


# -- up and down


@pytest.mark.trio
@pytest.mark.parametrize(("limit", "event_bytes"), [(512, 472), (1390, EVENT_BYTES_MAX), (9216, EVENT_BYTES_MAX)])
async def test_event_bytes_are_found_without_sending_anything(
    autojump_clock: MockClock, limit: int, event_bytes: int
) -> None:
    async with bench(limit=limit) as b:
        assert b.reports[0] == Up(event_bytes)
        assert b.agent.sent == []
        assert b.transport.statistics()["event_bytes"] == event_bytes


@pytest.mark.trio
async def test_refusal_without_a_figure_means_a_stock_agent(autojump_clock: MockClock) -> None:
    async with bench(refuse={"event": "too large"}) as b:
        assert b.reports[0] == Up(472)


@pytest.mark.trio
async def test_event_bytes_from_the_settings_need_no_probe(autojump_clock: MockClock) -> None:
    async with bench(SerfConfig(event_bytes=300)) as b:
        assert b.reports[0] == Up(300)
        assert "event" not in b.agent.commands


@pytest.mark.trio
async def test_agent_that_is_away_at_the_start_is_reported_and_found_later(autojump_clock: MockClock) -> None:
    async with bench(is_stopped=True) as b:
        (down,) = b.reports
        assert isinstance(down, Down)
        assert "127.0.0.1:7373" in down.reason
        await trio.sleep(60)
        assert len(b.reports) == 1
        b.agent.start()
        await trio.sleep(5.1)
        assert b.reports.kinds()[1] == "Up"


@pytest.mark.trio
async def test_retries_back_off_to_five_seconds(autojump_clock: MockClock) -> None:
    async with bench(is_stopped=True) as b:
        await trio.sleep(120)
        pauses = [later - earlier for earlier, later in zip(b.agent.dials, b.agent.dials[1:], strict=False)]
        assert 0.1 <= pauses[0] <= 0.2
        assert all(2.5 <= pause <= 5.0 for pause in pauses[6:])
        assert 24 <= len(pauses) <= 60


@pytest.mark.trio
async def test_restarted_agent_gives_down_up_and_gap_and_the_tag_again(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.stop()
        await wait_all_tasks_blocked()
        assert b.reports.kinds()[-1] == "Down"
        assert b.transport.statistics()["connected"] is False
        b.agent.members[0][1].clear()
        b.agent.start()
        await trio.sleep(1)
        assert [kind for kind in b.reports.kinds() if kind != "Members"] == ["Up", "Down", "Up", "Gap"]
        assert b.agent.members[0][1] == {TAG: "a@10.0.0.1:27586"}


@pytest.mark.trio
async def test_reason_of_a_loss_is_told_until_the_agent_is_back(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.stop()
        await wait_all_tasks_blocked()
        assert b.transport.statistics()["reason"]
        b.agent.start()
        await trio.sleep(1)
        assert (b.transport.statistics()["connected"], b.transport.statistics()["reason"]) == (True, "")


@pytest.mark.trio
@pytest.mark.parametrize("number", [0, 1], ids=["commands", "events"])
async def test_loss_of_either_connection_is_a_loss_at_once(autojump_clock: MockClock, number: int) -> None:
    async with bench() as b:
        await trio.sleep(0.5)
        began = trio.current_time()
        await b.agent.connections[number].stream.aclose()
        await wait_all_tasks_blocked()
        assert b.reports.kinds()[-1] == "Down"
        assert trio.current_time() == began


@pytest.mark.trio
async def test_agent_lost_after_a_long_time_is_tried_again_soon(autojump_clock: MockClock) -> None:
    async with bench(is_stopped=True) as b:
        await trio.sleep(60)  # the pauses are long by now
        b.agent.start()
        await trio.sleep(60)
        await b.agent.stop()
        b.agent.start()
        await trio.sleep(0.3)
        assert len(b.reports.of(Up)) == 2


@pytest.mark.trio
async def test_frozen_agent_is_noticed_within_eight_seconds_when_nothing_is_sent(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await trio.sleep(30.5)
        b.agent.is_frozen = True
        frozen_at = trio.current_time()
        while not b.reports.of(Down):
            await trio.sleep(0.1)
            assert trio.current_time() < frozen_at + 8
        b.agent.is_frozen = False
        await trio.sleep(8)
        assert len(b.reports.of(Up)) == 2


@pytest.mark.trio
async def test_one_slow_answer_is_no_loss(autojump_clock: MockClock) -> None:
    async with bench() as b:
        b.agent.mute = {"stats"}
        await trio.sleep(3.5)  # one probe has timed out by now
        b.agent.mute = set()
        await trio.sleep(30)
        assert not b.reports.of(Down)


@pytest.mark.trio
async def test_broadcast_to_a_frozen_agent_does_not_wait_and_is_bounded(autojump_clock: MockClock) -> None:
    async with bench() as b:
        b.agent.is_frozen = True
        began = trio.current_time()
        for tick in range(5000):
            b.transport.broadcast(ping(A, tick))
            b.transport.broadcast(update(A, tick))
        assert trio.current_time() == began
        await trio.sleep(20)
        statistics = b.transport.statistics()
        assert statistics["connected"] is False
        dropped = [value for name, value in statistics.items() if name.startswith("dropped_ping")]
        assert sum(map(int, dropped)) == 5000


@pytest.mark.trio
async def test_wrong_key_ends_the_transport_and_says_what_to_do(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, auth="secret")
        transport = SerfTransport(SerfConfig(auth="wrong"), A, "h:1", random.Random(1), dial=agent.dial)
        with pytest.raises(TransportError, match=r"set serf\.auth"):
            await transport.run(Reports().append)


@pytest.mark.trio
async def test_key_that_becomes_wrong_later_is_a_loss_that_may_heal(autojump_clock: MockClock) -> None:
    async with bench(SerfConfig(auth="secret"), auth="secret") as b:
        await b.agent.stop()
        b.agent.auth = "other"
        b.agent.start()
        await trio.sleep(20)
        assert "refused the key" in str(b.transport.statistics()["reason"])
        b.agent.auth = "secret"
        await trio.sleep(6)
        assert b.reports.kinds()[-3:-1] == ["Up", "Gap"]


@pytest.mark.trio
async def test_garbage_from_the_agent_is_a_loss(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.send_raw(b"\xc1\xc1\xc1")
        await trio.sleep(1)
        assert [kind for kind in b.reports.kinds() if kind != "Members"] == ["Up", "Down", "Up", "Gap"]


@pytest.mark.trio
async def test_refused_tag_does_not_keep_messages_from_flowing(autojump_clock: MockClock) -> None:
    async with bench(refuse={"tags": "Encoded length of tags exceeds limit of 512 bytes"}) as b:
        assert b.reports.kinds()[0] == "Up"
        assert "512 bytes" in str(b.transport.statistics()["tag_refused"])


@pytest.mark.trio
async def test_node_that_may_yet_be_refused_has_no_tag(autojump_clock: MockClock) -> None:
    async with bench(appears=False) as b:
        await trio.sleep(10)
        assert b.agent.members[0][1] == {}
        b.transport.appear()
        await trio.sleep(1)
        assert b.agent.members[0][1] == {TAG: "a@10.0.0.1:27586"}


@pytest.mark.trio
@pytest.mark.parametrize("before", [{}, {"role": "x"}, {TAG: "b@10.0.0.2:27586"}, {TAG: "a@10.0.0.9:1"}])
@pytest.mark.parametrize("appears", [True, False])
async def test_server_that_ends_leaves_the_tags_as_it_found_them(
    autojump_clock: MockClock, before: dict[str, str], appears: bool
) -> None:
    async with bench(members=[("agent-a", dict(before), "alive")], appears=appears) as b:
        await trio.sleep(1)
        assert (b.agent.members[0][1].get(TAG) == "a@10.0.0.1:27586") is appears
    own = before.get(TAG, "").startswith("a@") and appears
    assert b.agent.members[0][1] == ({} if own else before)


@pytest.mark.trio
async def test_tag_of_a_server_that_came_after_us_stays(autojump_clock: MockClock) -> None:
    async with bench() as b:
        b.agent.members[0][1][TAG] = "c@10.0.0.3:27586"
    assert b.agent.members[0][1] == {TAG: "c@10.0.0.3:27586"}


@pytest.mark.trio
async def test_server_ends_beside_an_agent_that_is_frozen(autojump_clock: MockClock) -> None:
    async with bench() as b:
        b.agent.is_frozen = True
        ended_s = trio.current_time()
    assert trio.current_time() - ended_s <= 1.0


# -- members


@pytest.mark.trio
async def test_members_are_reported_when_they_change(autojump_clock: MockClock) -> None:
    async with bench() as b:
        assert b.reports.of(Members) == [Members({"a": "10.0.0.1:27586"})]
        b.agent.members += [
            ("agent-b", {TAG: "b@[::1]:5"}, "alive"),
            ("agent-c", {TAG: "c@h:5"}, "failed"),
            ("agent-d", {TAG: "nonsense"}, "alive"),
            ("agent-e", {}, "alive"),
        ]
        await trio.sleep(30)
        assert b.reports.of(Members)[1:] == [Members({"a": "10.0.0.1:27586", "b": "[::1]:5"})]
        assert b.transport.statistics()["agents"] == 4


# -- hearing


@pytest.mark.trio
async def test_messages_are_heard_our_own_too(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.inject("distkv.ping", encode_message(ping(B, 3)))
        b.transport.broadcast(info(A, 1))
        await trio.sleep(1)
        assert b.reports.of(GossipHeard) == [GossipHeard(ping(B, 3)), GossipHeard(info(A, 1))]


@pytest.mark.trio
async def test_hostile_events_are_counted_by_reason_and_dropped(autojump_clock: MockClock) -> None:
    """What does not decode is dropped as a whole (docs/protocol, MSG-3)."""
    async with bench() as b:
        for kind in ("update", "info", "ping"):
            for payload in (b"", b"\xc1", b"\x90", b"\x80", b"\xff" * 400, b"\x81\xa4node\x01"):
                await b.agent.inject(f"distkv.{kind}", payload)
        await b.agent.inject("other.ping", b"")
        await trio.sleep(1)
        bad = {name: value for name, value in b.transport.statistics().items() if name.startswith("bad_")}
        assert sum(map(int, bad.values())) == 18
        assert 3 <= len(bad) <= REASONS_MAX
        assert b.reports.of(GossipHeard) == []
        assert not b.reports.of(Down)


@pytest.mark.trio
async def test_overflowing_stream_is_a_gap(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.inject("distkv.ping", encode_message(ping(B, 3)), RECORDS_MAX + 5000)
        await trio.sleep(1)
        heard = len(b.reports.of(GossipHeard))
        assert RECORDS_MAX <= heard < RECORDS_MAX + 5000
        assert 1 <= len(b.reports.of(Gap)) <= 3
        assert b.transport.statistics()["overflows"] == len(b.reports.of(Gap))


# -- sending


@pytest.mark.trio
async def test_updates_share_packets_that_fit(autojump_clock: MockClock) -> None:
    async with bench() as b:
        for tick in range(1, 8):
            b.transport.broadcast(update(A, tick))
        await trio.sleep(0.029)
        assert b.sent("update") == []
        await trio.sleep(0.01)
        packets = [decode_message("update", payload) for payload in b.sent("update")]
        assert [e.tick for packet in packets if isinstance(packet, Update) for e in packet.events] == list(range(1, 8))
        assert 1 < len(packets) < 4
        assert all(len("distkv.update") + len(payload) <= 472 for payload in b.sent("update"))


@pytest.mark.trio
async def test_large_update_is_announced_at_once(autojump_clock: MockClock) -> None:
    """The transport cannot carry it (docs/protocol, UPD-1)."""
    async with bench() as b:
        b.transport.broadcast(update(A, 1, 5000))
        await trio.sleep(0.001)
        assert b.reports.of(Announce) == [Announce()]
        assert b.agent.sent == []


@pytest.mark.trio
@pytest.mark.parametrize(("agents", "writers", "rate"), [(3, 1, 2.5), (3, 3, 2.5 / 3), (9, 1, 4.0), (20, 2, 1.0)])
async def test_flood_stays_within_the_budget_and_is_announced(
    autojump_clock: MockClock, agents: int, writers: int, rate: float
) -> None:
    members: list[tuple[str, dict[str, str], str]] = [(f"agent-{n}", {}, "alive") for n in range(agents)]
    async with bench(members=members) as b:
        for tick in range(1, 1201):  # a minute, 20 per second
            b.transport.broadcast(update(A, tick))
            if tick % 20 == 1:
                for number in range(1, writers):
                    other = NodeName(f"writer-{number}")
                    await b.agent.inject("distkv.update", encode_message(update(other, tick)))
            await trio.sleep(0.05)
        used = len(b.sent("update")) + len(b.reports.of(Announce))
        assert 60 * rate * 0.9 <= used <= BURST + 60 * rate + 1
        assert len(b.reports.of(Announce)) > 20


@pytest.mark.trio
async def test_long_queue_of_the_agent_stops_updates_but_not_pings(autojump_clock: MockClock) -> None:
    async with bench(queue=QUEUE_STOP) as b:
        b.transport.broadcast(update(A, 1))
        b.transport.broadcast(ping(A, 1))
        await trio.sleep(30)
        assert b.sent("update") == []
        assert len(b.sent("ping")) == 1
        assert b.reports.of(Announce) == []
        assert b.transport.statistics()["unannounced"] == 1
        b.agent.queue = 0
        await trio.sleep(3)
        assert b.reports.of(Announce) == [Announce()]


@pytest.mark.trio
async def test_update_that_the_agent_refuses_is_announced(autojump_clock: MockClock) -> None:
    async with bench(SerfConfig(event_bytes=1300)) as b:  # the agent takes 512
        b.transport.broadcast(update(A, 1, 900))
        await trio.sleep(1)
        assert b.transport.statistics()["dropped_update_refused"] == 1
        assert b.reports.of(Announce) == [Announce()]


@pytest.mark.trio
async def test_updates_during_a_cut_are_announced_after_it(autojump_clock: MockClock) -> None:
    async with bench() as b:
        await b.agent.stop()
        await wait_all_tasks_blocked()
        b.transport.broadcast(update(A, 1))
        b.agent.start()
        await trio.sleep(2)
        assert b.reports.kinds().index("Announce") > b.reports.kinds().index("Gap")
        assert b.agent.sent == []


@pytest.mark.trio
async def test_events_are_named_after_the_root(autojump_clock: MockClock) -> None:
    """And none takes the place of another one (docs/protocol, MSG-1)."""
    async with bench(SerfConfig(root="zoo")) as b:
        b.transport.broadcast(ping(A, 1))
        await b.agent.inject("distkv.ping", encode_message(ping(B, 1)))
        await trio.sleep(1)
        assert [name for _, name, _ in b.agent.sent] == ["zoo.ping"]
        assert not b.agent.may_coalesce
        assert b.reports.of(GossipHeard) == [GossipHeard(ping(A, 1))]
