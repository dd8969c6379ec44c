"""What the tests in network namespaces share: why they cannot run here, and the figures that they print.

Knows: what the machine lacks.  Does not know what is tested.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.netns.network import why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all of this folder where there is no Serf or no network namespace."""
    here = Path(__file__).parent
    reason = why_not() if shutil.which("serf") else "no serf on PATH: apt-get install serf"
    for item in items:
        if reason and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures that tests recorded, also of those that ran in another process."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {name} {figure}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, figure in report.user_properties
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
