"""An acknowledged write is winner, open loser, or contained by what replaced it: the ways in which it could vanish.

Knows: one replica, and events of others.  What a fleet does to writes is the simulator's (`sim.rules.writes`), what
peers may say is in `test_peers_hostile.py`.
"""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.client_writes import LocalBatch, LocalDecision, LocalSet, WriteDone
from distkv.core.ready import JoinerAsked, Ready
from distkv.core.replica import Replica
from distkv.model.entry import LOSERS_MAX
from distkv.model.event import COUNT_BITS, LIFE_MAX, Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.sim.told import core_settings
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.message import EventRecord, KnownRecord, LostRecord, SnapshotHead, Start
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

ME = NodeName("me")
HERE, ELSEWHERE = Path(["p"]), Path(["q"])


def ready_replica(*, losers: int = 0) -> Replica:
    """A node that serves; with `losers` at `HERE`, which others wrote."""
    settings = core_settings(ME, "me:1", Start(1.7e9, 1), alone=True, init_value=b"\x01", network_id=bytes(8))
    replica = Replica(settings, Random(0))
    replica.begin(0, 1.7e9)
    for number in range(losers):
        hear(replica, event(f"n{number:02}", 1, tock=40 + number))
    return replica


def event(
    node: str, tick: int, kind: Kind = Kind.SET, path: Path = HERE, tock: int = 50, older: tuple[Link, ...] = ()
) -> Event:
    value = pack_value(node) if kind is Kind.SET else b""
    return Event(path, kind, value, ((NodeName(node), Tick(tick)), *older), Tock(tock), 0.0)


def hear(replica: Replica, *events: Event) -> None:
    for one in events:
        replica.store.replay(EventRecord(one, 1.7e9))


def put(replica: Replica, value: bytes | None = b"\x03", path: Path = HERE, wall: float = 1.7e9) -> Ready:
    return replica.step(1, wall, LocalSet(SetValue(1, path, value)))


def done(ready: Ready) -> Event:
    assert isinstance(ready.reply, WriteDone), ready.reply
    assert ready.reply.event is not None
    return ready.reply.event


def kept(replica: Replica, path: Path = HERE) -> list[Link]:
    """Winner and open losers."""
    entry = replica.tree.get(path)
    assert entry is not None
    return [entry.head.link, *(loser.link for loser in entry.losers)]


# -- what a client does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"\x03", None])
def test_write_closes_the_winner_that_it_replaces_and_no_loser(value: bytes | None) -> None:
    replica = ready_replica(losers=3)
    winner, *losers = kept(replica)
    made = done(put(replica, value))
    assert kept(replica) == [made.link, *losers]
    assert winner in made.chain


def test_deletion_of_a_whole_tree_leaves_its_losers_open() -> None:
    """`delete_tree` is a batch of deletions."""
    replica = ready_replica(losers=3)
    _, *losers = kept(replica)
    put(replica, path=ELSEWHERE)
    replica.step(1, 1.7e9, LocalBatch((SetValue(0, HERE, None), SetValue(0, ELSEWHERE, None))))
    assert kept(replica)[1:] == losers
    entry = replica.tree.get(HERE)
    assert entry is not None
    assert len(entry.conflicts()) == len(losers)


def test_write_under_a_chain_that_is_cut_names_all_that_it_closes() -> None:
    """Five links are room for the winner alone; of nine deletions beside it none is forgotten."""
    replica = ready_replica()
    hear(replica, *(event(f"n{number}", 1, Kind.DELETE, tock=40 + number) for number in range(9)))
    before = kept(replica)
    made = done(put(replica))
    assert list(made.chain[1:]) == before
    assert kept(replica) == [made.link]


def test_refused_batch_leaves_no_part_of_it() -> None:
    replica = ready_replica(losers=2)
    before, tick = kept(replica), replica.tick
    ready = replica.step(1, 1.7e9, LocalBatch((SetValue(0, HERE, b"\x03"), SetValue(0, HERE, b"\x04"))))
    assert (kept(replica), replica.tick, ready.messages) == (before, tick, [])


# -- more losers than a path keeps --------------------------------------------------------------------------------


def test_lowest_of_too_many_losers_goes_to_history_and_no_other() -> None:
    replica = ready_replica(losers=LOSERS_MAX + 1)
    before = kept(replica)
    hear(replica, event("low", 1, tock=1))
    assert kept(replica) == before
    assert replica.tree.ledger.has((NodeName("low"), Tick(1)))


def test_reserved_path_keeps_all_its_losers() -> None:
    path = Path([None, "node", "x"])
    replica = ready_replica()
    hear(replica, *(event(f"n{number:02}", 2, path=path, tock=40 + number) for number in range(3 * LOSERS_MAX)))
    assert len(kept(replica, path)) == 3 * LOSERS_MAX


def test_own_write_is_never_the_one_that_is_cut() -> None:
    replica = ready_replica(losers=LOSERS_MAX + 1)
    made = done(put(replica))
    assert kept(replica)[0] == made.link


# -- what others say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [{"me": 100}, {"n00": 100}])
def test_word_that_all_is_superseded_takes_no_winner(known: dict[str, int]) -> None:
    replica = ready_replica(losers=1)
    mine = done(put(replica, path=ELSEWHERE))
    ranges = {NodeName(name): Ranges([(1, last)]) for name, last in known.items()}
    replica.store.replay(KnownRecord(ranges))
    assert kept(replica) == [(NodeName("n00"), Tick(1))]
    assert kept(replica, ELSEWHERE) == [mine.link]


@pytest.mark.parametrize("said", ["known", "lost", "named by a chain", "said to be the last"])
def test_write_stands_also_when_others_have_heard_of_its_tick_before(said: str) -> None:
    """They heard of it from a disk of ours that is newer than this one. What is used is not used again."""
    replica = ready_replica()
    following = Tick(replica.tick + 1)
    ranges = {ME: Ranges.from_ticks([following])}
    match said:
        case "known":
            replica.store.replay(KnownRecord(ranges))
        case "lost":
            replica.store.replay(LostRecord(ranges))
        case "named by a chain":
            hear(replica, event("a", 1, path=ELSEWHERE, older=((ME, following),)))
        case _:
            replica.tree.ledger.hear((ME, following))
    made = done(put(replica))
    assert made.link != (ME, following)
    assert kept(replica) == [made.link]


@pytest.mark.parametrize("what", [Restore, Dismiss])
def test_decision_stands_also_when_others_have_heard_of_its_tick_before(what: type[Restore | Dismiss]) -> None:
    replica = ready_replica(losers=2)
    _, loser = kept(replica)
    replica.store.replay(KnownRecord({ME: Ranges.from_ticks([replica.tick + 1])}))
    made = done(replica.step(1, 1.7e9, LocalDecision(what(1, loser))))
    assert kept(replica) == [made.link]


# -- lives --------------------------------------------------------------------------------------------------------


def test_clock_that_shows_nonsense_does_not_make_a_tick_stand_for_two_writes() -> None:
    """Each write below needs a new life, and the clock is beyond the last one."""
    replica = ready_replica()
    links = []
    for _ in range(3):
        replica.tree.ledger.hear((ME, Tick(replica.tick + 1)))
        made = done(put(replica, wall=1.7e9 + 2.0**31))
        assert kept(replica) == [made.link]
        links.append(made.link)
    assert len(set(links)) == 3


def test_word_that_the_last_life_is_taken_ends_no_node() -> None:
    replica = ready_replica()
    for _ in range(3):
        replica.tree.ledger.hear((ME, Tick((LIFE_MAX << COUNT_BITS) + 7)))
        replica.tree.ledger.hear((ME, Tick(replica.tick + 1)))
        made = done(put(replica))
        assert kept(replica) == [made.link]
    assert 0 < (replica.life or 0) < 10


def test_word_that_the_last_life_is_taken_keeps_no_joiner_out() -> None:
    replica = ready_replica()
    replica.tree.ledger.hear((NodeName("new"), Tick(LIFE_MAX << COUNT_BITS)))
    reply = replica.step(1, 1.7e9, JoinerAsked(NodeName("new"), 1.7e9 + 100, "new:1")).reply
    assert isinstance(reply, SnapshotHead)
    assert (reply.life, replica.registry.nodes[NodeName("new")].life) == (100, 100)
