"""What the echo brings to the simulator, as it mounts it.

Knows: where each piece is, and what a seed draws.  Does not know what they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from distkv.sim.actions import ServiceAction, SettingMap
from distkv.sim.host import Host
from distkv.sim.rule import Observer
from distkv.sim.service import Drawn, SimPart
from tests.proof.core.echo.machine import ECHO
from tests.proof.sim.echo.actions import VERBS, AskEcho, KeepEcho, ListEcho, NameEcho, NoteEcho, ShoutEcho
from tests.proof.sim.echo.crowd import EchoCrowd, EchoNodes
from tests.proof.sim.echo.notes import NotesAreKept
from tests.proof.sim.echo.rule import EchoIsTrue, FieldsAreSeen, RowsStay, ShoutsAreTold

SHARE: Final = 0.5
PAUSE_MS: Final = 3000
SHOUTS: Final = (1, 1, 3, 300, 5000)
"""So often something is said to all at once; the last is more than a node keeps for its neighbours."""


def _nodes(hosts: Mapping[str, Host], seed: int, world: SettingMap) -> EchoNodes | None:  # noqa: ARG001
    return EchoNodes() if world["echo"] else None


def _draw(seed: int, names: Sequence[str], length_ms: int) -> Drawn | None:
    rng, planned, at_ms = Random(f"echo {seed}"), list[tuple[int, ServiceAction]](), 0
    if rng.random() >= SHARE:
        return None
    while (at_ms := at_ms + rng.randint(1, PAUSE_MS)) < length_ms:
        node, other, text = rng.choice(names), rng.choice(names), f"text {at_ms}"
        name, given = f"name {at_ms % 3}", text if rng.random() < 0.7 else None
        shout = ShoutEcho(node, text, rng.choice(SHOUTS))
        actions = AskEcho(node, other, text), NameEcho(node, name, given), KeepEcho(node, name, given), shout
        planned.append((at_ms, rng.choice(actions)))
    notes = _draw_notes(Random(f"notes of the echo {seed}"), names, length_ms)
    return Drawn({"echo": True}, sorted([*planned, *notes], key=lambda one: one[0]))


def _draw_notes(rng: Random, names: Sequence[str], length_ms: int) -> Iterator[tuple[int, ServiceAction]]:
    """Who keeps which notes, and who asks for them."""
    at_ms = 0
    while (at_ms := at_ms + rng.randint(1, PAUSE_MS)) < length_ms:
        node, desk, text = rng.choice(names), f"desk{at_ms % 3}", f"note {at_ms}"
        is_once, leaves = rng.random() < 0.3, rng.random() < 0.1
        note = NoteEcho(node, desk, text, is_once=is_once, leaves=leaves)
        yield at_ms, rng.choice((note, note, NameEcho(node, desk, rng.choice(names)), ListEcho(node)))


def _rules() -> list[Observer]:
    return [EchoIsTrue(), RowsStay(), ShoutsAreTold(), FieldsAreSeen(), NotesAreKept()]


PART: Final = SimPart(ECHO, {"echo": False}, _nodes, EchoCrowd, VERBS, _draw, _rules)
