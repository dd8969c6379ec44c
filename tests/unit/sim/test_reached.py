"""The signs that a run came by a rule stand for that rule, and for no other.

Knows: fleets in which little happens.  Does not know how the table is printed.
"""

from __future__ import annotations

from distkv.core.client_writes import LocalSet
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.reached import Reached
from distkv.sim.rules.alike import is_at_rest
from distkv.wire.value_requests import SetValue

OWN, OTHERS = "an expiry", "an expiry by another node than the writer"
CLOSED = "an open loser is closed"


def _fleet(seen: Reached) -> Fleet:
    """Two nodes at rest."""
    fleet = Fleet(observers=[seen])
    fleet.start("n0", init="root")
    fleet.start("n1")
    _rest(fleet)
    return fleet


def _rest(fleet: Fleet) -> None:
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)


def _set(fleet: Fleet, name: str, ttl: float | None = None) -> None:
    fleet.step(name, LocalSet(SetValue(1, Path(["x"]), b"\x01", ttl=ttl)))


def _expired(writer_goes: bool) -> Reached:
    """n1 replaces a value of n0 by one that goes by itself, and is gone then or not."""
    seen = Reached()
    fleet = _fleet(seen)
    _set(fleet, "n0")
    fleet.run(1000)
    _set(fleet, "n1", ttl=5)
    fleet.run(1000)
    if writer_goes:
        fleet.end(fleet.hosts["n1"])
    fleet.run(60_000)
    return seen


def test_expiry_by_the_writer_is_told_from_others_though_it_replaced_what_they_wrote() -> None:
    signs = _expired(writer_goes=False).signs
    assert (signs[OWN], signs[OTHERS]) == (1, 0)


def test_expiry_by_another_node_is_told_from_the_writer_s() -> None:
    signs = _expired(writer_goes=True).signs
    assert (signs[OWN], signs[OTHERS]) == (0, 1)


def test_winner_that_is_replaced_is_no_open_loser_that_is_closed() -> None:
    seen = Reached()
    fleet = _fleet(seen)
    for name in ("n0", "n1", "n0"):
        _set(fleet, name)
        fleet.run(1000)
    assert seen.signs[CLOSED] == 0


def test_write_that_names_an_open_loser_closes_it() -> None:
    seen = Reached()
    fleet = _fleet(seen)
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n0")
    _set(fleet, "n1")
    fleet.heal()
    _rest(fleet)
    assert seen.signs[CLOSED] == 0
    _set(fleet, "n0")
    assert seen.signs[CLOSED] == 1
