"""A service's machine without a node around it: one step, and what it wants done.

Knows: the form of a service's machine.  Does not know any service.
"""

from __future__ import annotations

from distkv.core.ground.machine import ServiceGround, ServiceInput, ServiceMachine
from distkv.core.ground.turn import Effect, ServiceTurn

WALL = 1.7e9


def began(machine: ServiceMachine, service: str, ground: ServiceGround, boot_ms: int = 0) -> list[Effect]:
    turn = ServiceTurn(service, boot_ms, WALL)
    machine.begin(turn, ground)
    return turn.effects


def stepped(machine: ServiceMachine, service: str, boot_ms: int, what: ServiceInput) -> list[Effect]:
    turn = ServiceTurn(service, boot_ms, WALL)
    machine.step(turn, what)
    return turn.effects
