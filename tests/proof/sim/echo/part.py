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
from tests.proof.sim.echo.actions import (
    VERBS,
    AskEcho,
    HoldEcho,
    KeepEcho,
    ListEcho,
    NameEcho,
    NoteEcho,
    SealEcho,
    ShoutEcho,
)
from tests.proof.sim.echo.crowd import EchoCrowd, EchoNodes
from tests.proof.sim.echo.holds import FencesAreHeld
from tests.proof.sim.echo.names import NamesAreKnown
from tests.proof.sim.echo.notes import NotesAreKept
from tests.proof.sim.echo.rule import EchoIsTrue, FieldsAreSeen, RowsStay, ShoutsAreTold
from tests.proof.wire.echo import SECRET

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
    more = _draw_more(Random(f"more of the echo {seed}"), names, length_ms)
    return Drawn({"echo": True}, sorted([*planned, *notes, *more], key=lambda one: one[0]))


def _draw_notes(rng: Random, names: Sequence[str], length_ms: int) -> Iterator[tuple[int, ServiceAction]]:
    """Who keeps which notes, and who asks for them."""
    at_ms = 0
    while (at_ms := at_ms + rng.randint(1, PAUSE_MS)) < length_ms:
        node, desk, text = rng.choice(names), f"desk{at_ms % 3}", f"note {at_ms}"
        is_once, leaves = rng.random() < 0.3, rng.random() < 0.1
        has_effects = not is_once and rng.random() < 0.4
        note = NoteEcho(node, desk, text, is_once=is_once, leaves=leaves, has_effects=has_effects)
        yield at_ms, rng.choice((note, note, NameEcho(node, desk, rng.choice(names)), ListEcho(node)))


def _draw_more(rng: Random, names: Sequence[str], length_ms: int) -> Iterator[tuple[int, ServiceAction]]:
    """Names that no client may read, texts to seal, entries under fences, and questions that do not wait for a disk."""
    at_ms = 0
    while (at_ms := at_ms + rng.randint(1, 3 * PAUSE_MS)) < length_ms:
        node, text = rng.choice(names), rng.choice((f"text {at_ms}", "refused", "fault"))
        secret, token = f"{SECRET}{at_ms % 3}", f"lock{at_ms % 2}"
        name = NameEcho(node, secret, text if rng.random() < 0.7 else None)
        early = AskEcho(node, rng.choice(names), text, is_early=True)
        yield at_ms, rng.choice((name, SealEcho(node, text), HoldEcho(node, token), early))


def _rules() -> list[Observer]:
    rows, frames = (EchoIsTrue(), RowsStay()), (ShoutsAreTold(), FieldsAreSeen())
    return [*rows, *frames, NotesAreKept(), NamesAreKnown(), FencesAreHeld()]


PART: Final = SimPart(ECHO, {"echo": False}, _nodes, EchoCrowd, VERBS, _draw, _rules)
