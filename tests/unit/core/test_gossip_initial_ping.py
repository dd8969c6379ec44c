"""Who answers a node that has no data and asks who is there.

Knows: 'Startup': the nodes of the chain answer by turn, and one answer is enough.
"""

from __future__ import annotations

import attrs

from distkv.core.gossip import ANSWERS_MAX
from distkv.core.ready import HeardMessage
from distkv.model.event import NodeName
from distkv.sim.network import NetworkFaults
from distkv.wire.message import Info, Ping
from tests.fleet import Fleet, grown

CLOCK_MS = 5000


def _with_a_full_chain(seed: int = 1) -> tuple[Fleet, list[str]]:
    """Four nodes that do not see each other through the transport, and the order of their chain."""
    faults = NetworkFaults(delay_ms=(5, 5))  # an answer does not overtake its ping
    fleet = grown("a", "b", "c", "d", seed=seed, faults=faults)
    assert fleet.run_until(lambda: len(_order(fleet)) == 4, 3_600_000)
    fleet.run(100)
    return fleet, _order(fleet)


def _order(fleet: Fleet) -> list[str]:
    pings = fleet.pings()
    return list(dict.fromkeys(str(link.node) for link in pings[-1][2].chain)) if pings else []


def _ask(fleet: Fleet) -> None:
    """A new node asks; nobody can be reached over TCP, so that it goes on asking."""
    fleet.faults.breaks = 1.0
    fleet.start("new", up=False)
    fleet.run(CLOCK_MS)
    fleet.sent.clear()
    fleet.transport("new", up=True)


def _answers(fleet: Fleet) -> list[tuple[int, str]]:
    return [(at, name) for at, name, message in fleet.sent if isinstance(message, Info) and message.ping]


def _is_answered(fleet: Fleet) -> bool:
    return bool(_answers(fleet))


def test_sender_of_the_latest_ping_answers_at_once() -> None:
    fleet, order = _with_a_full_chain()
    _ask(fleet)
    asked_ms = fleet.now_ms
    order = _order(fleet) or order
    assert fleet.run_until(lambda: _is_answered(fleet), CLOCK_MS)
    assert _answers(fleet)[0][0] - asked_ms <= 20


def test_answer_of_one_suppresses_the_others() -> None:
    fleet, _ = _with_a_full_chain()
    _ask(fleet)
    fleet.run(CLOCK_MS - 500)
    assert len(_answers(fleet)) == 1


def test_next_of_the_chain_answers_a_quarter_clock_later_when_the_first_is_gone() -> None:
    fleet, _ = _with_a_full_chain()
    fleet.faults.breaks = 1.0
    fleet.start("new", up=False)
    fleet.run(CLOCK_MS)
    count = len(fleet.pings())
    fleet.run_until(lambda: len(fleet.pings()) > count, 10 * CLOCK_MS)
    fleet.run(30)
    order = _order(fleet)
    fleet.crash(order[0])
    fleet.transport("new", up=True)
    asked_ms = fleet.now_ms
    assert fleet.run_until(lambda: _is_answered(fleet), CLOCK_MS)
    at_ms, name = _answers(fleet)[0]
    assert name == order[1]
    assert CLOCK_MS // 4 <= at_ms - asked_ms <= CLOCK_MS // 4 + 40


def test_node_off_the_chain_does_not_answer() -> None:
    fleet = grown("a", "b", seed=2)
    fleet.run_until(lambda: len(_order(fleet)) == 1, 60_000)
    fleet.faults.breaks = 1.0
    fleet.start("new", up=False)
    fleet.run(4000)
    off = "b" if _order(fleet) == ["a"] else "a"
    fleet.transport("new", up=True)
    fleet.run(2000)
    assert off not in [name for _, name in _answers(fleet)]


def test_initial_ping_does_not_disturb_the_regular_ones() -> None:
    fleet, quiet = grown("a", "b", seed=5), grown("a", "b", seed=5)
    link_only = [m for _, _, m in _initial(Fleet(9)).sent if isinstance(m, Ping)]
    for run in (fleet, quiet):
        run.run(20_000)
    before = fleet["a"].wake_ms()
    _hear(fleet, "a", link_only[0])
    fleet.run(50)
    assert fleet["a"].wake_ms() == before


def _initial(fleet: Fleet) -> Fleet:
    fleet.start("new")
    fleet.run(CLOCK_MS)
    return fleet


def _hear(fleet: Fleet, name: str, ping: Ping) -> None:
    fleet.step(name, HeardMessage(ping))


def test_initial_pings_that_wait_for_an_answer_are_bounded() -> None:
    fleet, _ = _with_a_full_chain()
    last = _order(fleet)[-1]
    ping = next(m for _, _, m in _initial(Fleet(9)).sent if isinstance(m, Ping))
    fleet.partition([last])
    for number in range(ANSWERS_MAX + 10):
        name = NodeName(f"new{number}")
        header = attrs.evolve(ping.header, node=name)
        _hear(fleet, last, attrs.evolve(ping, header=header, chain=(attrs.evolve(ping.chain[0], node=name),)))
    fleet.sent.clear()
    fleet.run(CLOCK_MS)
    assert len(_answers(fleet)) == ANSWERS_MAX


def test_node_without_data_does_not_answer() -> None:
    fleet = Fleet()
    fleet.start("one")
    fleet.start("two")
    fleet.run(20_000)
    assert _answers(fleet) == []


def test_whoever_sends_an_initial_ping_is_no_member_by_it() -> None:
    """Neither a stranger, who may be refused, nor one that is registered and away."""
    fleet, _ = _with_a_full_chain()
    ping = next(m for _, _, m in _initial(Fleet(9)).sent if isinstance(m, Ping))
    fleet.partition(["d"])
    fleet.run(10 * CLOCK_MS)
    for name in (NodeName("new"), NodeName("d")):
        header = attrs.evolve(ping.header, node=name)
        _hear(fleet, "a", attrs.evolve(ping, header=header, chain=(attrs.evolve(ping.chain[0], node=name),)))
    peers = fleet["a"].peers(fleet.now_ms)
    assert "new" not in peers
    assert not peers[NodeName("d")][1]
