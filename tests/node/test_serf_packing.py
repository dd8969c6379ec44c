"""What leaves when: packing, budget and announcements, without an agent and without a clock.

Knows: `outgoing` and `budget`.  Does not know trio.
"""

from __future__ import annotations

import math
from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import NodeName, Tick, Tock
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.transport.budget import BURST, NAMES_MAX, QUEUE_SLOW, QUEUE_STOP, WRITING_S, Budget
from distkv.transport.outgoing import GATHERED_MAX, LEAVING_MAX, Outgoing, Packet, pack
from distkv.wire.gossip import GossipKind, decode_message, encode_event, encode_message, encode_to_fit
from distkv.wire.message import Info, Ping, PingLink, Update
from tests.node.gossip_samples import A, B, event, header, info, ping, update

ROOMS = dict.fromkeys(GossipKind, 400)


def outgoing(packets_per_s: float | None = None, rooms: dict[GossipKind, int] | None = None) -> Outgoing:
    made = Outgoing(Budget(packets_per_s), 0.03)
    made.open(ROOMS if rooms is None else rooms)
    return made


def flush(out: Outgoing, now: float) -> tuple[list[Packet], bool]:
    """What leaves now, and whether an announcement does."""
    announces = out.flush(now)
    return list(iter(out.next_packet, None)), announces


def ticks_in(packets: list[Packet]) -> list[int]:
    found: list[int] = []
    for packet in packets:
        message = decode_message(packet.kind.value, packet.payload)
        assert isinstance(message, Update)
        assert len(message.events) == packet.events
        found += [event.tick for event in message.events]
    return found


# -- packing


@given(
    sizes=st.lists(st.integers(0, 700), max_size=60),
    room=st.integers(60, 1300),
    packets_max=st.integers(0, 10),
)
def test_packing_any_events_keeps_size_order_and_count(sizes: list[int], room: int, packets_max: int) -> None:
    events = [encode_event(event(A, tick, size)) for tick, size in enumerate(sizes, 1)]
    packets, left = pack(header(A, len(sizes), full=False), events, room, packets_max)
    ticks = ticks_in(packets)
    assert all(len(packet.payload) <= room for packet in packets)
    assert len(packets) <= packets_max
    assert ticks == sorted(set(ticks))
    assert len(ticks) + left == len(events)


@given(sizes=st.lists(st.integers(0, 120), min_size=2, max_size=60))
def test_packing_leaves_no_packet_half_empty(sizes: list[int]) -> None:
    events = [encode_event(event(A, tick, size)) for tick, size in enumerate(sizes, 1)]
    packets, left = pack(header(A, 1, full=False), events, 400, 100)
    assert left == 0
    slack = 2  # the list's head may have grown
    assert all(len(a.payload) + len(b.payload) > 400 - slack for a, b in pairwise(packets))


@st.composite
def _messages(draw: st.DrawFn) -> list[tuple[float, int, int]]:
    """(pause before it in s, events, size of each)."""
    one = st.tuples(st.floats(0, 2), st.integers(1, 30), st.integers(0, 900))
    return draw(st.lists(one, max_size=30))


@given(script=_messages(), is_closed_midway=st.booleans())
def test_every_event_put_in_leaves_once_in_order_or_is_counted(
    script: list[tuple[float, int, int]], is_closed_midway: bool
) -> None:
    out = outgoing(2.5)
    now, total = 0.0, 0
    sent: list[Packet] = []
    for number, (pause_s, count, size) in enumerate([*script, (1.0, 0, 0)]):
        now += pause_s
        if is_closed_midway and number == len(script) // 2:
            out.close()
            out.open(ROOMS)
        for _ in range(count):
            total += 1
            out.put(update(A, total, size), now)
        sent += flush(out, now)[0]
        assert sum(p.events for p in sent) + out.gathered + out.counts.unannounced + out.counts.announced == total
    assert out.gathered == 0
    assert ticks_in(sent) == sorted(set(ticks_in(sent)))
    assert all(len(packet.payload) <= ROOMS[GossipKind.UPDATE] for packet in sent)


# -- updates


def test_small_updates_within_the_gathering_time_share_a_packet() -> None:
    out = outgoing()
    for tick in (1, 2, 3):
        out.put(update(A, tick), 10.0 + tick / 1000)
    assert out.next_flush_at(10.0) == pytest.approx(10.031)
    assert flush(out, 10.03) == ([], False)
    packets, announces = flush(out, 10.032)
    assert ticks_in(packets) == [1, 2, 3]
    assert not announces
    assert out.next_flush_at(10.1) == math.inf


def test_update_that_is_too_large_is_announced_and_not_sent() -> None:
    out = outgoing()
    out.put(update(A, 1, 600), 0.0)
    assert flush(out, 0.0) == ([], True)
    assert out.counts.unannounced == 0


def test_burst_beyond_the_budget_keeps_a_token_for_the_announcement() -> None:
    out = outgoing()
    for tick in range(1, 101):
        out.put(update(A, tick), 0.0)
    packets, announces = flush(out, 0.03)
    assert len(packets) == BURST - 1
    assert announces
    assert out.counts.unannounced == 0


def test_flood_is_announced_at_the_pace_of_the_budget() -> None:
    out = outgoing()
    now, announces, packets = 0.0, 0, 0
    for tick in range(1, 3001):  # 30 s at 100/s
        now += 0.01
        out.put(update(A, tick), now)
        sent, is_announced = flush(out, now)
        packets += len(sent)
        announces += is_announced
    assert packets + announces <= BURST + 30 * 2.5
    assert announces >= 30


def test_more_events_than_may_wait_are_announced() -> None:
    out = outgoing(rooms=dict.fromkeys(GossipKind, 1300))
    for tick in range(1, GATHERED_MAX + 3):
        out.put(update(A, tick), 0.0)
    assert out.gathered == GATHERED_MAX
    assert out.counts.unannounced == 2


def test_updates_while_down_are_announced_after_opening() -> None:
    out = Outgoing(Budget(), 0.03)
    out.put(update(A, 1), 0.0)
    assert flush(out, 1.0) == ([], False)
    out.open(ROOMS)
    assert flush(out, 1.0) == ([], True)


def test_packet_that_the_agent_did_not_take_is_announced() -> None:
    out = outgoing()
    out.put(update(A, 1), 0.0)
    ((packet,), _) = flush(out, 0.03)
    out.unsent(packet, "refused")
    assert flush(out, 0.03) == ([], True)
    assert out.counts.dropped == {(GossipKind.UPDATE, "refused"): 1}


def test_packet_that_did_not_leave_before_the_end_is_announced() -> None:
    out = outgoing()
    out.put(update(A, 1), 0.0)
    assert not out.flush(0.03)
    out.close()
    assert out.counts.unannounced == 1
    assert out.counts.dropped == {(GossipKind.UPDATE, "down"): 1}


# -- pings and infos


def test_ping_and_info_leave_at_once_in_order_whatever_the_budget() -> None:
    out = outgoing()
    out.budget.queue = QUEUE_STOP
    out.put(info(A, 1), 0.0)
    out.put(ping(A, 1), 0.0)
    assert [packet.kind for packet in flush(out, 0.0)[0]] == [GossipKind.INFO, GossipKind.PING]


def test_full_queue_drops_the_oldest() -> None:
    out = outgoing()
    for tick in range(LEAVING_MAX + 1):
        out.put(ping(A, tick), 0.0)
    first = out.next_packet()
    assert first is not None
    assert decode_message("ping", first.payload).header.tick == 1
    assert out.counts.dropped == {(GossipKind.PING, "queue"): 1}


def test_ping_and_info_while_down_are_dropped() -> None:
    out = outgoing()
    out.put(ping(A, 1), 0.0)
    out.close()
    out.put(info(A, 1), 0.0)
    assert out.next_packet() is None
    assert out.counts.dropped == {(GossipKind.PING, "down"): 1, (GossipKind.INFO, "down"): 1}


def _with_ranges(message: Info, count: int) -> Info:
    ranges: TickRanges = {B: Ranges([(n * 10, n * 10 + 5) for n in range(1, count)])}
    return attrs.evolve(message, known=ranges, missing=ranges, lost=ranges)


def _packed(message: Info, room: int) -> Info | None:
    payload = encode_to_fit(message, room)
    if payload is None:
        return None
    assert len(payload) <= room
    decoded = decode_message("info", payload)
    assert isinstance(decoded, Info)
    return decoded


def test_info_that_fits_is_sent_whole() -> None:
    message = _with_ranges(info(A, 5, ["b"]), 3)
    assert _packed(message, len(encode_message(message))) == message


def test_large_info_leaves_out_its_ranges_first() -> None:
    message = info(A, 5, ["b", "c"])
    assert _packed(_with_ranges(message, 200), 400) == message


def test_info_with_many_nodes_tells_its_own_ticks_and_the_hash() -> None:
    message = info(A, 5, [f"node-{n}" for n in range(60)])
    assert _packed(message, 400) == info(A, 5)


def test_info_that_fits_in_no_form_is_dropped() -> None:
    out = outgoing(rooms=dict.fromkeys(GossipKind, 20))
    out.put(info(A, 1), 0.0)
    assert out.next_packet() is None
    assert out.counts.dropped == {(GossipKind.INFO, "size"): 1}


# -- the budget


@pytest.mark.parametrize(("agents", "rate"), [(1, 2.5), (3, 2.5), (4, 4.0), (9, 4.0), (10, 2.0), (500, 2.0)])
def test_rate_follows_the_number_of_agents(agents: int, rate: float) -> None:
    assert Budget(agents=agents).rate(0.0) == rate


def test_writers_share_the_rate_while_they_write() -> None:
    budget = Budget(12.0)
    for node in ("a", "b", "c"):
        budget.note(0.0, node, 1, is_update=True)
    budget.note(0.0, "d", 7, is_update=False)  # a ping: it need not write
    assert budget.rate(1.0) == 4.0
    budget.note(8.0, "d", 8, is_update=False)  # it does
    assert budget.rate(8.0) == 3.0
    assert budget.rate(WRITING_S + 0.1) == 12.0
    assert budget.rate(8.0 + WRITING_S + 0.1) == 12.0


def test_repeated_or_older_tick_makes_no_writer() -> None:
    budget = Budget(8.0)
    budget.note(0.0, "a", 5, is_update=True)
    budget.note(WRITING_S + 1, "a", 5, is_update=True)
    budget.note(WRITING_S + 1, "a", 4, is_update=True)
    budget.note(WRITING_S + 1, "b", 1, is_update=True)
    assert budget.writers(WRITING_S + 1) == 1


def test_invented_names_take_no_memory_without_bound() -> None:
    budget = Budget()
    for number in range(NAMES_MAX + 500):
        budget.note(0.0, f"n{number}", 1, is_update=True)
    assert budget.writers(0.0) == NAMES_MAX


def test_long_queue_slows_and_stops() -> None:
    budget = Budget(4.0)
    rates = []
    for queue in (QUEUE_SLOW, (QUEUE_SLOW + QUEUE_STOP) // 2, QUEUE_STOP, 4096):
        budget.queue = queue
        rates.append(budget.rate(0.0))
    assert rates == [4.0, 2.0, 0.0, 0.0]
    assert budget.available(0.0) == 0
    assert budget.wait_s(0.0) == math.inf


@given(
    rate=st.floats(0.1, 50),
    pauses=st.lists(st.floats(0, 5), max_size=50),
)
def test_budget_never_gives_more_than_burst_and_rate(rate: float, pauses: list[float]) -> None:
    budget, now, taken = Budget(rate), 0.0, 0
    budget.available(now)
    for pause in pauses:
        now += pause
        count = budget.available(now)
        budget.take(now, [0] * count)
        taken += count
        assert taken <= BURST + rate * now + 2e-6


@given(rate=st.floats(0.1, 50))
def test_waiting_as_told_brings_a_token(rate: float) -> None:
    budget = Budget(rate)
    budget.take(1e6, [0] * int(BURST))
    wait_s = budget.wait_s(1e6)
    assert 0 < wait_s <= 1 / rate + 0.001
    assert budget.available(1e6 + wait_s) == 1


def test_ping_of_long_names_that_does_not_fit_leaves_with_a_shorter_chain() -> None:
    names = [NodeName(letter * 63) for letter in "abcd"]
    chain = tuple(PingLink(name, Tick(1 << 40), Tock(1 << 40)) for name in names)
    whole = attrs.evolve(ping(names[0], 7), chain=chain)
    payload = encode_to_fit(whole, 472 - len("distkv.ping"))
    assert payload is not None
    heard = decode_message("ping", payload)
    assert isinstance(heard, Ping)
    assert heard.chain == chain[: len(heard.chain)]
    assert 2 <= len(heard.chain) < 4


def test_ping_that_fits_keeps_its_whole_chain() -> None:
    whole = ping(A, 7)
    assert encode_to_fit(whole, 472) == encode_message(whole)


def test_ping_that_never_fits_is_not_packed() -> None:
    assert encode_to_fit(ping(A, 7), 50) is None
