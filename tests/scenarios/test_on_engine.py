"""The same scenarios on whole servers, in virtual time: they end in the state in which the simulator ends.

Knows: how to compare ends.  Traces differ: chance draws other moments for whoever does other things besides.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio

from distkv.transport.memory import MessageFaults
from tests.node.nodes import run
from tests.scenarios.files import FILES, read
from tests.scenarios.on_engine import IMPOSSIBLE, Servers, impossible

TOO_QUICK = {"life_registered", "pull_whole", "snap_hands_over"}
"""In these something happens in the midst of an answer. Within one process it comes in one piece."""
ON_ENGINE = [path for path in FILES if path.stem not in TOO_QUICK and not impossible(read(path))]


@pytest.mark.parametrize("path", ON_ENGINE, ids=lambda path: path.stem)
def test_servers_end_as_the_simulator_does(path: Path) -> None:
    script = read(path)
    shown: list[list[str]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            delay_s = int(script.world["delay_ms"]) / 1000
            faults = MessageFaults(delay_s=(delay_s, delay_s))
            servers = Servers(nursery, script.nodes, seed=int(script.world["seed"]), faults=faults)
            for block in script.blocks:
                for command in block.commands:
                    await servers.do(command.action)
            shown.append(servers.standing())
            nursery.cancel_scope.cancel()

    run(main)
    assert shown == [_state(script.blocks[-1].expected)]


def _state(lines: tuple[str, ...]) -> list[str]:
    """The lines of the last `state`: they begin with names, the trace's lines with a time."""
    return [line for line in lines if not re.match(r" *[0-9]+\.[0-9]{3} ", line)]


def test_few_scenarios_need_what_servers_cannot_do() -> None:
    besides = [path for path in FILES if read(path).world["trees"] or read(path).world["tokens"]]
    # The store does not depend on them.
    elsewhere = [path.stem for path in FILES if path not in ON_ENGINE and path not in besides]
    assert len(elsewhere) <= 6, f"{elsewhere} need one of {IMPOSSIBLE} or {TOO_QUICK}"
