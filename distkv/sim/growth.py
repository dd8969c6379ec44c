"""How a network of a scenario grows, and what is waited for meanwhile.

Knows: in which order nodes start, and when a network counts as grown.  Does not know what happens to it then (`stage`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from distkv.errors import DistkvError
from distkv.sim.actions import StartNode
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.alike import is_at_rest
from distkv.wire.message import PingChain

JOIN_MS: Final = 700
GROW_CLOCKS: Final = 20
GATHER_CLOCKS: Final = 12
QUIET_CLOCKS: Final = 8
"""A cluster that has grown goes on for so long, so that nothing of its growth is left to do when the trace begins."""

DoStart: TypeAlias = Callable[[StartNode], None]
"""Starts a node."""


class NotPossibleError(DistkvError):
    """An action cannot be done, or what is waited for does not come."""


def until(fleet: Fleet, condition: Callable[[], bool], within_ms: int, what: str) -> None:
    """Let time pass until the condition holds; that it does not is `what`.

    Raises:
        NotPossibleError: it does not.
    """
    if not fleet.run_until(condition, within_ms):
        raise NotPossibleError(f"{what} within {within_ms / 1000:g} s")


def check_somebody_runs(fleet: Fleet) -> None:
    """Raises NotPossibleError when no process does."""
    if not any(True for _ in fleet.running()):
        raise NotPossibleError("nobody runs")


def grow(fleet: Fleet, start: DoStart, names: tuple[str, ...], clock_ms: int) -> None:
    """Until all are ready, at rest, and have just heard a ping."""
    start(StartNode(names[0], "root"))
    founder = fleet.hosts[names[0]]
    is_founded = lambda: founder.process is not None and founder.live.is_serving  # noqa: E731
    until(fleet, is_founded, 2 * clock_ms, f"{names[0]} founds no network")
    _join(fleet, start, names)
    fleet.run(JOIN_MS * len(names))
    check_somebody_runs(fleet)
    until(fleet, lambda: is_at_rest(fleet), GROW_CLOCKS * clock_ms, "the cluster does not come up")
    fleet.run(QUIET_CLOCKS * clock_ms)
    before = _chains(fleet, names)
    fleet.run_until(lambda: len(now := _chains(fleet, names)) == 1 and not now & before, 3 * clock_ms)
    fleet.run(1)  # who does not run yet shall not hear that ping either


def gather(fleet: Fleet, start: DoStart, names: tuple[str, ...], clock_ms: int) -> None:
    """Until all serve, and no longer."""
    start(StartNode(names[0], "root"))
    _join(fleet, start, names)

    def serving() -> int:
        return sum(host.live.is_serving for host in fleet.ours())

    if not fleet.run_until(lambda: serving() >= len(names), GATHER_CLOCKS * clock_ms):
        raise BrokenRuleError("the fleet grows", f"only {serving()} of {len(names)} are ready")


def _join(fleet: Fleet, start: DoStart, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names[1:], 1):
        fleet.later(JOIN_MS * number, partial(start, StartNode(name)))


def _chains(fleet: Fleet, names: tuple[str, ...]) -> set[PingChain]:
    """The chains that they follow; one, when all are in the same round."""
    processes = {name: fleet.hosts[name].process for name in names}
    if lacking := [name for name, process in processes.items() if process is None]:
        raise NotPossibleError(f"{lacking[0]} does not run")
    return {process.replica.ping_chain for process in processes.values() if process is not None}
