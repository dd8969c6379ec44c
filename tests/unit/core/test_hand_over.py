"""Old disks and broken downloads: others take what a node alone holds, then it downloads (docs/protocol, LIFE-8).

Knows: how a disk comes to be older than the others remember: it is set back, restored, or its life was retired.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.attempts import RETRY_MS
from distkv.core.client_writes import RetireNode
from distkv.core.ready import (
    Ask,
    AskEvents,
    AskMaps,
    AskSnapshot,
    HeardMessage,
    JoinerAsked,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    Rng,
    TransportGap,
)
from distkv.core.recovery import Recovery
from distkv.core.registry import retired_path
from distkv.core.update import Store
from distkv.errors import BusyError, NotReadyError, PeerError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.sim.network import NetworkFaults
from distkv.wire.message import (
    EventBatch,
    Header,
    KnownRecord,
    PullEnd,
    ResetRecord,
    SnapshotHead,
    Start,
    TickMaps,
    Update,
)
from distkv.wire.room import EVENT_BYTES
from tests.fleet import Fleet, downloading, grown

CLOCK_MS = 5000
RETENTION_MS = 1000
ME, OTHER = NodeName("me"), NodeName("other")


def downloads(fleet: Fleet, name: str, since_ms: int = 0) -> int:
    return sum(
        at >= since_ms and sender == name and isinstance(ask.what, AskSnapshot) for at, sender, ask in fleet.asked
    )


def downloaded(fleet: Fleet, name: str) -> int:
    """How many downloads began on this disk, the first one included."""
    return sum(isinstance(record, ResetRecord) for record in fleet.records(name))


def has(fleet: Fleet, name: str, path: str) -> bool:
    return fleet[name].tree.get(Path(path.split("."))) is not None


def set_back(*, alone: bool = False) -> Fleet:
    """b's disk is older than it was; before that, b wrote something that is on no other disk. a and c run."""
    fleet = grown("a", "b", "c")
    fleet.run(2 * CLOCK_MS)
    fleet.partition(["b"], ["a", "c"])
    fleet.set("b", "only.b", 1)
    old = fleet.records("b")
    if not alone:
        fleet.heal()
        fleet.set("b", "later", 1)  # which the others know as superseded soon
        fleet.set("b", "later", 2)
        fleet.run(20)
    fleet.crash("b")
    fleet.set_back("b", old)
    return fleet


def keeping(*names: str) -> Fleet:
    """A fleet that forgets deletions after a second; the path `gone` has a value."""
    fleet = Fleet()
    fleet.start(names[0], init="root", delete_retention_ms=RETENTION_MS)
    fleet.run(5100)
    for name in names[1:]:
        start(fleet, name)
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    fleet.set("a", "gone", 1)
    fleet.run(1000)
    return fleet


def start(fleet: Fleet, name: str, *, up: bool = True, restored: bool = False) -> None:
    fleet.start(name, delete_retention_ms=RETENTION_MS, up=up, restored=restored)


def forget(fleet: Fleet) -> None:
    """Whoever runs deletes `gone`, and forgets it."""
    fleet.set("a", "gone", None)
    fleet.set("a", "later", 1)
    running = list(fleet.running())
    assert fleet.run_until(lambda: not any(has(fleet, host.name, "gone") for host in running), 10 * CLOCK_MS)


def outdated() -> Fleet:
    """b's disk is from before a deletion that all have forgotten since, b too. a and c run."""
    fleet = keeping("a", "b", "c")
    old = fleet.records("b")
    fleet.set("b", "by.b", 1)
    forget(fleet)
    fleet.crash("b")
    fleet.set_back("b", old)
    return fleet


# -- a disk that was set back -------------------------------------------------------------------------------------


def test_node_set_back_downloads_as_if_it_were_empty() -> None:
    fleet = outdated()
    before = downloaded(fleet, "b")
    start(fleet, "b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert downloaded(fleet, "b") == before + 1
    assert fleet.notes["rolled_back"] == 1
    assert not any(has(fleet, name, "gone") for name in "abc")


def test_node_set_back_of_which_nothing_was_forgotten_downloads_nothing() -> None:
    fleet = set_back()
    began_ms, before = fleet.now_ms, fleet["a"].registry.nodes[NodeName("b")].life
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert downloads(fleet, "b", began_ms) == 0
    assert (fleet["b"].life or 0) > before
    assert not fleet["b"].maps().is_stale


def test_others_take_over_what_only_a_node_set_back_holds() -> None:
    fleet = set_back()
    fleet.faults = NetworkFaults(answer_ms=(20, 20))
    fleet.start("b")
    assert fleet.run_until(lambda: has(fleet, "a", "only.b") or not has(fleet, "b", "only.b"), 3 * CLOCK_MS)
    assert has(fleet, "a", "only.b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert all(has(fleet, name, "only.b") for name in "abc")


def test_node_set_back_whose_download_breaks_off_goes_on_to_another_one() -> None:
    fleet = outdated()
    start(fleet, "b")
    assert fleet.run_until(lambda: fleet["b"].state is State.DOWNLOADING, CLOCK_MS)
    ask = next(ask for _, name, ask in reversed(fleet.asked) if name == "b" and isinstance(ask.what, AskSnapshot))
    fleet.step("b", PeerDone(ask.id, PeerError("broken")))
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)


def test_node_set_back_that_reaches_nobody_serves_what_it_has_in_a_new_life() -> None:
    fleet = set_back()
    before = fleet["a"].registry.nodes[NodeName("b")].life
    for name in "ac":
        fleet.crash(name)
    fleet.start("b", restored=True)
    assert fleet.run_until(lambda: fleet["b"].is_serving, 2 * CLOCK_MS)
    assert has(fleet, "b", "only.b")
    assert (fleet["b"].life or 0) > before


def test_node_set_back_from_whom_nobody_takes_over_serves_what_it_has_in_a_new_life() -> None:
    fleet = set_back()
    for disk in (fleet.members[name].disk for name in "ac"):
        disk.fill()
        while disk.has_room(EVENT_BYTES):
            disk.append([KnownRecord({})] * 50)
            disk.take_off()
            disk.land()
    before = fleet["a"].registry.nodes[NodeName("b")].life
    fleet.start("b")
    assert fleet.run_until(lambda: fleet["b"].is_serving, 5 * CLOCK_MS)
    assert has(fleet, "b", "only.b")
    assert (fleet["b"].life or 0) > before


def test_node_set_back_that_is_taken_for_another_one_does_not_end() -> None:  # seed 39, at another address than before
    fleet = set_back()
    fleet.start("b", restored=True, addr="elsewhere:1")
    assert fleet.run_until(lambda: fleet["b"].is_serving, 5 * CLOCK_MS)
    assert fleet.members["b"].fatal is None
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)


def test_two_that_were_restored_together_lose_nothing() -> None:
    # Neither is ready, so neither may be downloaded from: else both would forget before they have the other's.
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    for name in "ab":
        fleet.set(name, f"by.{name}", 1)
        fleet.crash(name)
    fleet.heal()
    for name in "ab":
        fleet.start(name, restored=True)
    assert fleet.run_until(fleet.is_converged, 5 * CLOCK_MS)
    assert has(fleet, "a", "by.b")
    assert has(fleet, "b", "by.a")


def test_node_that_hands_over_sponsors_nobody() -> None:
    fleet = set_back(alone=True)
    fleet.start("b", restored=True, up=False)
    reply = fleet.step("b", JoinerAsked(NodeName("new"), 0.0, "new:1")).reply
    assert isinstance(reply, NotReadyError)


def test_restored_node_that_is_alone_sponsors_those_who_lost_everything() -> None:  # found by docs/howto/backup.rst
    fleet = grown("a", "b")
    fleet.run(2 * CLOCK_MS)
    fleet.crash("a")
    fleet.crash("b")
    fleet.start("b", restored=True)
    assert fleet.run_until(fleet.all_ready, 3 * CLOCK_MS)
    fleet.wipe("a")
    fleet.start("a")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)


def test_node_told_to_be_restored_hands_over_and_downloads() -> None:
    fleet = keeping("a", "b", "c")
    fleet.partition(["b"], ["a", "c"])
    fleet.set("b", "only.b", 1)
    fleet.crash("b")
    fleet.heal()
    fleet.step("a", RetireNode(NodeName("b"), force=True))
    forget(fleet)
    began_ms = fleet.now_ms
    start(fleet, "b", restored=True)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert downloads(fleet, "b", began_ms) == 1
    assert has(fleet, "a", "only.b")
    assert not has(fleet, "b", "gone")


# -- what a peer remembers ----------------------------------------------------------------------------------------


def forgetful() -> Fleet:
    """b's disk lacks something of a's of which b told a that it has it."""
    fleet = grown("a", "b")
    fleet.run(2 * CLOCK_MS)
    old = fleet.records("b")
    fleet.set("a", "x", 1)
    fleet.run(1000)
    fleet.step("b", TransportGap())
    fleet.run(1000)
    fleet.crash("b")
    fleet.set_back("b", old)
    return fleet


def test_peer_that_remembers_more_says_so() -> None:
    fleet = forgetful()
    before = downloaded(fleet, "b")
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert fleet.notes["rolled_back"] == 1
    assert downloaded(fleet, "b") == before + 1


def test_peer_that_asks_first_says_so_in_an_exchange_of_its_own() -> None:
    fleet = forgetful()
    fleet.start("b", up=False)
    fleet.step("a", TransportGap())
    assert fleet.run_until(lambda: fleet.notes["rolled_back"] > 0, 1000)


def test_node_that_serves_and_hears_that_it_was_set_back_goes_on_in_a_new_life() -> None:
    fleet = grown("a", "b")
    before = fleet["b"].life or 0
    lives = []
    for _ in range(2):  # who else says so means the same life
        fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), behind=before)))
        lives.append(fleet["b"].life or 0)
    assert fleet["b"].is_serving
    assert before < lives[0] == lives[1]


def test_restart_is_no_sign_of_an_old_disk() -> None:
    fleet = grown("a", "b", "c")
    for number in range(10):
        for name in "abc":
            fleet.set(name, f"x.{number}", name)
        fleet.run(1000)
        fleet.crash("abc"[number % 3])
        fleet.start("abc"[number % 3])
        fleet.run(CLOCK_MS)
    assert fleet.notes["rolled_back"] == 0


class _Half(Rng):
    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("now", "is_back"),
    [
        (Header(OTHER, Tick(1), Tock(90), 7, b"12345678", Start(200.0, 2)), True),
        (Header(OTHER, Tick(1), Tock(10), 7, b"12345678", Start(200.0, 2)), True),
        (Header(OTHER, Tick(1), Tock(90), 7, b"12345678", Start(50.0, 2)), True),
        (Header(OTHER, Tick(1), Tock(10), 7, b"12345678", Start(50.0, 2)), False),  # an earlier start's, come late
        (Header(OTHER, Tick(1), Tock(90), 7, b"12345678", Start(100.0, 1)), False),  # of the same start
        (Header(OTHER, Tick(1), Tock(90), 8, b"12345678", Start(200.0, 2)), False),  # it began anew
    ],
)
def test_peer_that_lacks_what_it_held_before_its_start_was_set_back(now: Header, is_back: bool) -> None:
    recovery = Recovery(ME, CLOCK_MS, _Half())
    before = Header(OTHER, Tick(1), Tock(50), 7, b"12345678", Start(100.0, 1))
    recovery.maps_came(OTHER, {OTHER: Ranges([(1, 9)])}, before)
    assert recovery.went_back(now, {OTHER: Ranges([(1, 8)])}) is is_back
    assert not recovery.went_back(now, {OTHER: Ranges([(1, 9)])})


# -- a life that was retired --------------------------------------------------------------------------------------


def retired(fleet: Fleet, name: str, by: str) -> Event:
    """A node that is down has retired the life of another one."""
    life = fleet["a"].registry.nodes[NodeName(name)].life
    book = fleet["a"].tree.ledger.last(NodeName(by))
    path = retired_path(name, life)
    return Event(path, Kind.SET, b"\xc3", ((NodeName(by), Tick(book + 1)),), Tock(fleet["a"].tock + 1), 0.0)


def told(fleet: Fleet, event: Event) -> None:
    header = Header(event.node, event.tick, event.tock, 0, fleet["a"].maps().header.network, None)
    for host in list(fleet.running()):
        fleet.step(host.name, HeardMessage(Update(header, (event,))))


def test_store_knows_a_retired_life() -> None:
    store = Store(ME, 5)
    store.remote(Event(retired_path("x", 4), Kind.SET, b"\xc3", ((OTHER, Tick(1)),), Tock(1), 0.0))
    assert [store.registry.is_retired(NodeName("x"), life) for life in (3, 4, 5)] == [False, True, False]


def without_b(*, alone: bool) -> Fleet:
    """b was retired, and a deletion forgotten without it. It is down, or (`alone`) serves where nobody hears it."""
    fleet = keeping("a", "b", "c")
    fleet.partition(["b"], ["a", "c"])
    fleet.set("b", "only.b", 1)
    if not alone:
        fleet.crash("b")
        fleet.heal()
    fleet.run(4 * CLOCK_MS)
    assert fleet.step("a", RetireNode(NodeName("b"), force=False)).reply is not None
    assert fleet.run_until(lambda: NodeName("b") not in fleet["c"].registry.nodes, CLOCK_MS)
    fleet.set("a", "gone", None)
    assert fleet.run_until(lambda: not has(fleet, "a", "gone") and not has(fleet, "c", "gone"), 10 * CLOCK_MS)
    return fleet


def test_retired_node_that_returns_hands_over_and_downloads_in_a_new_life() -> None:
    fleet = without_b(alone=False)
    before = fleet["a"].registry.retired[NodeName("b")][0]
    began_ms = fleet.now_ms
    start(fleet, "b")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert (downloads(fleet, "b", began_ms), fleet.notes["retired"]) == (1, 1)
    assert has(fleet, "a", "only.b")
    assert (fleet["b"].life or 0) > before


def downloading_while_d_is_away() -> Fleet:
    """b's life is retired, and what replaces its disk takes two seconds to come. It never heard of d, which is down."""
    fleet = without_b(alone=False)
    for number in range(2000):
        fleet.set("a", f"x.{number}", number)
    start(fleet, "d")
    assert fleet.run_until(lambda: fleet["d"].is_serving, 3 * CLOCK_MS)
    fleet.run(1000)
    fleet.crash("d")
    fleet.faults = NetworkFaults(answer_ms=(100, 100))
    start(fleet, "b")
    assert fleet.run_until(lambda: fleet["b"].state is State.DOWNLOADING, 2 * CLOCK_MS)
    return fleet


def test_node_that_downloads_asks_nobody_what_he_heard_of_its_former_life() -> None:
    fleet = downloading_while_d_is_away()
    fleet.asked.clear()
    assert fleet.run_until(lambda: fleet["b"].state is not State.DOWNLOADING, CLOCK_MS)
    assert NodeName("d") in fleet["b"].registry.nodes
    assert not [ask for _, name, ask in fleet.asked if name == "b" and isinstance(ask.what, AskMaps)]


def test_node_that_is_away_leaves_a_download_as_it_is() -> None:
    fleet = downloading_while_d_is_away()
    began_ms = fleet.now_ms
    assert fleet.run_until(lambda: fleet["b"].state is not State.DOWNLOADING, CLOCK_MS)
    assert fleet["b"].is_serving
    assert downloads(fleet, "b", began_ms + 1) == 0


def test_broken_download_is_followed_by_an_exchange_while_a_witness_of_the_former_life_is_silent() -> None:
    fleet = without_b(alone=False)
    fleet.partition(["a", "b"], ["c"])
    fleet.faults = NetworkFaults(silence_ms=3_600_000)
    start(fleet, "b")
    assert fleet.run_until(lambda: fleet["b"].state is State.DOWNLOADING, 2 * CLOCK_MS)
    assert fleet.run_until(lambda: fleet["b"].network_id is not None, CLOCK_MS)
    ask = next(ask for _, name, ask in reversed(fleet.asked) if name == "b" and isinstance(ask.what, AskSnapshot))
    fleet.asked.clear()
    fleet.step("b", PeerDone(ask.id, PeerError("broken")))
    fleet.run(RETRY_MS)
    assert [ask.addr for _, name, ask in fleet.asked if name == "b"] == ["a:1"]


def test_node_whose_life_is_retired_while_it_serves_goes_on_in_a_new_one() -> None:
    fleet = grown("a", "b", "c")
    before = fleet["b"].life or 0
    fleet.crash("c")
    told(fleet, retired(fleet, "b", "c"))
    assert fleet["b"].is_serving
    assert (fleet["b"].life or 0) > before


def test_retired_node_that_serves_starts_anew_and_downloads() -> None:
    fleet = without_b(alone=True)
    count, before = downloaded(fleet, "b"), fleet["b"].started
    fleet.heal()
    assert fleet.run_until(lambda: fleet["b"].started > before, 6 * CLOCK_MS)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert (downloaded(fleet, "b") - count, fleet.notes["stale"]) == (1, 1)
    assert has(fleet, "a", "only.b")
    assert not any(has(fleet, name, "gone") for name in "abc")


def test_retired_node_that_meets_the_others_in_its_next_life_starts_anew_still() -> None:  # seed 738
    fleet = without_b(alone=True)
    fleet.crash("b")
    start(fleet, "b")  # alone; the retired life is not the one in which it writes now
    assert fleet.run_until(lambda: fleet["b"].is_serving, 3 * CLOCK_MS)
    fleet.set("b", "more", 1)
    assert fleet["b"].life != fleet["a"].registry.retired[NodeName("b")][0]
    fleet.heal()
    assert fleet.run_until(lambda: not has(fleet, "b", "gone"), 6 * CLOCK_MS)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)
    assert has(fleet, "a", "more")
    assert not any(has(fleet, name, "gone") for name in "abc")


def test_mark_of_an_old_disk_outlives_a_restart() -> None:
    fleet = without_b(alone=True)
    fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), behind=fleet["b"].life)))
    fleet.crash("b")
    start(fleet, "b", up=False)
    assert fleet["b"].maps().is_stale
    assert fleet["b"].store.meta().stale


def test_node_that_downloaded_from_an_old_disk_has_one() -> None:  # seed 81
    fleet = without_b(alone=True)
    fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), behind=fleet["b"].life)))
    fleet.network.cut = {way for name in ("b", "d") for other in "ac" for way in ((name, other), (other, name))}
    start(fleet, "d")
    assert fleet.run_until(lambda: fleet["d"].is_serving, 4 * CLOCK_MS)
    assert fleet["d"].maps().is_stale
    assert has(fleet, "d", "gone")
    fleet.heal()
    assert fleet.run_until(lambda: not any(has(fleet, name, "gone") for name in "abcd"), 8 * CLOCK_MS)
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)


def test_disk_of_an_earlier_life_brings_nothing_back() -> None:
    fleet = keeping("a", "b")
    old = fleet.records("b")
    fleet.wipe("b")
    start(fleet, "b")
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    forget(fleet)
    fleet.crash("b")
    fleet.set_back("b", old)
    start(fleet, "b")
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    assert not any(has(fleet, name, "gone") for name in "ab")


def test_old_disks_that_agree_are_good_ones() -> None:
    fleet = grown("a", "b")
    for name in "ab":
        fleet.crash(name)
    for name in "ab":
        fleet.start(name, restored=True)
    assert fleet.run_until(fleet.is_converged, 5 * CLOCK_MS)
    fleet.run(3 * CLOCK_MS)
    assert [fleet[name].maps().is_stale for name in "ab"] == [False, False]


def test_node_that_is_not_ready_sponsors_nobody() -> None:
    fleet = grown("a", "b")
    fleet.crash("b")
    fleet.start("b", up=False)
    assert isinstance(fleet.step("b", JoinerAsked(NodeName("new"), 0.0, "new:1")).reply, BusyError)


def test_retired_node_need_not_be_asked() -> None:
    fleet = grown("a", "b", "c")
    fleet.crash("c")
    event = retired(fleet, "c", "c")
    told(fleet, event)
    fleet.crash("b")
    fleet.start("b")
    assert fleet.run_until(lambda: fleet["b"].is_serving, CLOCK_MS)
    fleet.set("b", "x", 1)
    assert fleet.notes["unwitnessed"] == 0


# -- a download that broke off ------------------------------------------------------------------------------------


def test_what_came_during_a_download_that_broke_off_is_taken_over_first() -> None:
    """A node that downloads applies the updates that it hears (docs/protocol, UPD-2)."""
    fleet = downloading("a", "b")
    fleet.run(400)
    sponsor = next(ask.addr for _, name, ask in reversed(fleet.asked) if isinstance(ask.what, AskSnapshot))
    left, gone = ("a", "b") if sponsor == "b:1" else ("b", "a")
    fleet.partition(["new", gone], [left])
    fleet.set(gone, "y", 1)
    fleet.run(50)
    fleet.crash(gone)
    fleet.heal()
    assert not has(fleet, left, "y")
    assert fleet.run_until(lambda: fleet["new"].is_serving, 6 * CLOCK_MS)
    assert has(fleet, "new", "y")
    assert has(fleet, left, "y")


def test_late_answer_about_what_a_download_has_voided_changes_nothing() -> None:
    fleet = grown("a", "b")
    fleet.run(2 * CLOCK_MS)
    old = fleet.records("b")
    fleet.set("b", "x", 1)
    fleet.run(1000)
    fleet.crash("b")
    fleet.set_back("b", old)
    fleet.faults = NetworkFaults(answer_ms=(3_600_000, 3_600_000))  # the test answers
    began_ms = fleet.now_ms
    fleet.start("b")
    assert fleet.run_until(lambda: any(at >= began_ms and name == "b" for at, name, _ in fleet.asked), CLOCK_MS)
    told = fleet.step("b", PeerAnswered(fleet.asked[-1][2].id, fleet["a"].maps()))
    pull, download = [message for message in told.messages if isinstance(message, Ask)]
    asked = JoinerAsked(NodeName("b"), fleet["b"].started, "b:1")
    (presence,) = [message for message in fleet.step("a", asked).messages if isinstance(message, Ask)]
    fleet.step("a", PeerDone(presence.id, PeerError("nobody")))
    head = fleet.step("a", asked).reply
    assert isinstance(head, SnapshotHead)
    fleet.step("b", PeerAnswered(download.id, head))
    entry = fleet["a"].tree.get(Path(["x"]))
    assert entry is not None
    assert isinstance(pull.what, AskEvents)
    for answer in (EventBatch((entry.head,)), PullEnd(pull.what.ranges, {})):
        assert fleet.step("b", PeerAnswered(pull.id, answer)).records == []
    assert not has(fleet, "b", "x")


def test_restart_in_mid_download_hands_over_what_came() -> None:
    fleet = downloading("a")
    fleet.run(300)
    fleet.crash("new")
    fleet.start("new")
    assert (fleet["new"].state, len(fleet["new"].tree)) == (State.PASSIVE, 300)
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)


def test_answer_of_a_peer_that_is_not_ready_is_not_the_last_word() -> None:  # seed 10 of burn
    fleet = downloading("a")
    fleet.run(300)
    fleet.crash("new")
    began_ms = fleet.now_ms
    fleet.start("new")
    asked = fleet.run_until(lambda: any(at > began_ms and name == "new" for at, name, _ in fleet.asked), CLOCK_MS)
    assert asked
    ask = fleet.asked[-1][2].id
    fleet.step("new", PeerAnswered(ask, attrs.evolve(fleet["a"].maps(), state=State.RECOVERING)))
    fleet.step("new", PeerDone(ask))
    assert fleet.run_until(fleet.is_converged, 5 * CLOCK_MS)


def test_part_of_another_networks_download_does_not_keep_a_node_from_joining() -> None:
    fleet, other = grown("a"), grown("z", seed=2)
    fleet.start("new", up=False)
    ask_maps = TickMaps(other["z"].maps().header, "", State.READY, {}, {}, {}, 0)
    fleet.step("new", PeerOffered(ask_maps))
    fleet.transport("new", up=True)
    assert fleet.run_until(fleet.is_converged, 6 * CLOCK_MS)


# -- who says so --------------------------------------------------------------------------------------------------


def test_maps_that_nobody_asked_for_do_not_make_a_node_start_anew() -> None:
    fleet = grown("a", "b")
    before = fleet["b"].started
    fleet.partition(["a"], ["b"])
    fleet.step("b", PeerOffered(attrs.evolve(fleet["a"].maps(), behind=fleet["b"].life)))
    for _ in range(4):
        lie = attrs.evolve(fleet["a"].maps(), held=fleet["b"].tree.ledger.held(), digest=1)
        fleet.step("b", PeerOffered(lie))
        fleet.run(CLOCK_MS)
    assert fleet["b"].maps().is_stale
    assert fleet["b"].started == before


def test_change_of_ours_that_our_disk_does_not_know_ends_its_life() -> None:
    fleet = grown("a", "b")
    fleet.set("b", "x", 1)
    fleet.run(1000)
    b, a = fleet["b"], fleet["a"]
    life = b.life
    unknown = Event(Path(["y"]), Kind.SET, b"\x01", ((b.name, Tick(b.tick + 1)),), Tock(b.tock + 1), 0.0)
    header = Header(a.name, a.tick, Tock(a.tock + 1), a.life or 0, a.network_id, None)
    ready = fleet.step("b", HeardMessage(Update(header, (unknown,))))
    assert "rolled_back" in [note.id for note in ready.notes]
    assert b.life != life
