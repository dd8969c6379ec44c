"""Fixtures of the tests with real processes.

Knows: where each test keeps its files, which tests share servers, that signals are to reach what they start, and prints
at the end what tests had to tell (`record_property("told", ...)`).  Does not know what the processes do.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.process.servers import ROOT, Servers, open_servers

# A shell starts what it runs in the background without Ctrl-C, and `nohup` all without SIGHUP. Each process hands that
# on to those that it starts.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of this test; all are killed at its end."""
    with open_servers(tmp_path / "servers") as found:
        yield found


class SharingTogether(LoadScopeScheduling):
    """Tests of a file that share what their module started go to one process of tests, all others to any."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares(file) else nodeid


@functools.cache
def _shares(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingTogether | None:
    return SharingTogether(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
