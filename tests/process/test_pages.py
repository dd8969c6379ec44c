"""The commands of every page are run.

Knows: how to run one page.  Does not know which there are (`readers`).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.process.pages import ROOT, Reader, check_page
from tests.process.readers import READERS
from tests.process.servers import Servers

FIRST_LOOK = 2
"""So many blocks of the README try it. The next one wants Spark: `tests/spark/test_pages.py` types all."""


def test_first_look_of_readme_does_not_meet_the_node_of_make_run(servers: Servers, tmp_path: Path) -> None:
    running = servers.start("running", "--transport", "solo", "--init", "hello")
    running.wait_ready()
    reader = Reader(environment={"DISTKV_PORT": str(running.port)}, pastes=True)
    check_page(ROOT / "README.rst", (reader,), tmp_path / "reader", until=FIRST_LOOK)
    assert running.run("get", "sensors.kitchen.temp").code == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_commands_print_what_the_page_says(name: str, tmp_path: Path) -> None:
    for reader in READERS[name]:
        if reader.wrap and subprocess.run([*reader.wrap, "true"], check=False, capture_output=True).returncode:
            pytest.skip(f"this user may not run {reader.wrap}")
    check_page(ROOT / name, READERS[name], tmp_path)
