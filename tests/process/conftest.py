"""Fixtures of the tests with real processes.

Knows: where each test keeps its files, and prints at the end what tests had to tell (`record_property("told", ...)`).
Does not know what the processes do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.servers import Servers, open_servers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of this test; all are killed at its end."""
    with open_servers(tmp_path / "servers") as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
