"""What `distkv doctor` sees of the echo.

Knows: what a node shows of it.  Does not know how nodes are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from distkv.doctor.facts import Finding, Level, NodeFacts
from distkv.doctor.services import Checkup
from distkv.doctor.wording import counted
from distkv.wire.fields import read_int


def _read(shown: Mapping[str, object]) -> int | None:
    return read_int(shown, "count") if "count" in shown else None


def _check(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    there = [node.name for node in nodes if node.services.get("echo") is not None]
    if lacking := len(nodes) - len(there):
        yield Finding("echo", Level.WARN, f"{counted(lacking, 'node')} without an echo", "set echo.length")
    else:
        yield Finding("echo", Level.OK, f"all of {counted(len(nodes), 'node')}")


CHECKUP: Final = Checkup("echo", _read, _check)
