"""Each scenario file gives the trace that stands in it; `pytest --rewrite-scenarios` writes down what it gives now.

Knows: the files.  Does not know what is right: whoever rewrites a file reads what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from distkv.sim.player import play
from tests.offenders import assert_none
from tests.scenarios.files import FILES, FOUND, cited, read

LINES_MAX = 60


@pytest.mark.parametrize("path", [*FILES, *FOUND], ids=lambda path: path.stem)
def test_scenario_gives_the_expected_trace(path: Path, request: pytest.FixtureRequest) -> None:
    script = read(path)
    outputs = play(script).outputs
    if request.config.getoption("--rewrite-scenarios"):
        path.write_text(script.text(outputs), encoding="utf-8")
        return
    assert script.text(outputs) == path.read_text(encoding="utf-8"), "right as it is now? pytest --rewrite-scenarios"


def test_scenarios_say_which_rule_they_show() -> None:
    assert FILES
    assert_none([path.name for path in FILES if not cited(path)])


def test_scenarios_end_with_the_state() -> None:
    assert_none([path.name for path in FILES if read(path).blocks[-1].commands[-1].text != "state"])


def test_scenarios_are_short() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert_none({name: length for name, length in lengths.items() if length > LINES_MAX})
