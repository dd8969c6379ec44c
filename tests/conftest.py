"""What all tests share: markers by folder, options, the rule that CI skips nothing, and what is told of a run.

Knows: which folder needs what from the machine.  Does not know any part of the product.

Invariant: with CI=true, a test or module that is skipped is a failure; elsewhere `-rs` prints the reason. With
`--quick` the end says what was left out. What failed, and what each file cost, goes into the file that TOLD names.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import profiles

FOLDERS = ("process", "netns", "spark", "browser")
"""Folders below tests/ whose tests get the marker of the same name."""

IN_CI = os.environ.get("CI") == "true"

TOLD = os.environ.get("TOLD")
"""A file in which packaging/testing reads how the run was: rows as JSON."""

TOLD_LINES = 40
"""How much of one failure goes there: its end, which has the error."""

LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""How many tests of each file `--quick` left out."""

LATE = pytest.StashKey[Counter[str]]()
"""How many tests of each file were not begun, because the time of `--budget` was over."""

BEGAN_S = time.monotonic()
"""With pytest itself; its processes start together."""

READ_S = pytest.StashKey[float]()
"""When all tests were read."""

USED = pytest.StashKey[float]()
"""Of the processor, by this process and those that it waited for, up to the last phase of a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios", action="store_true", help="write into tests/scenarios/*.txt what they give now"
    )
    parser.addoption("--quick", action="store_true", help="leave out the tests that are marked as slow")
    parser.addoption(
        "--budget", type=float, metavar="SECONDS",
        help="begin no test later than that; but half of it is for tests, however long it took to read them",
    )  # fmt: skip
    parser.addoption("--soak", type=int, metavar="NUMBER", help="many seeds and examples, drawn from this number")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its option
def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = {}
    config.stash[LATE] = Counter()
    soak = config.getoption("--soak")
    profiles.choose(soak)
    if soak is not None:
        config.option.hypothesis_seed = str(soak)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder, skip those whose programs are not here, begin with the slow files."""
    here = Path(__file__).parent
    no_browser = pytest.mark.skip(reason="no chromium and chromedriver: apt-get install chromium chromium-driver")
    no_java = pytest.mark.skip(reason="no java on PATH: apt-get install openjdk-17-jre-headless")
    no_serf = pytest.mark.skip(reason="no serf on PATH: apt-get install serf")
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)
        if folder == "browser" and (shutil.which("chromedriver") is None or shutil.which("chromium") is None):
            item.add_marker(no_browser)
        if folder == "spark" and shutil.which("java") is None:
            item.add_marker(no_java)
        if folder in ("process", "spark") and shutil.which("serf") is None:
            item.add_marker(no_serf)
    if config.getoption("--soak") is None:
        _leave_out(config, items, "soak")
    if config.getoption("--quick"):
        config.stash[LEFT_OUT] = Counter(item.location[0] for item in _leave_out(config, items, "slow"))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def _leave_out(config: pytest.Config, items: list[pytest.Item], marker: str) -> list[pytest.Item]:
    """Those with this marker, which are run no more."""
    left_out = [item for item in items if item.get_closest_marker(marker)]
    items[:] = [item for item in items if not item.get_closest_marker(marker)]
    config.hook.pytest_deselected(items=left_out)
    return left_out


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    budget_s = item.config.getoption("--budget")
    if budget_s is None or time.monotonic() < max(BEGAN_S + budget_s, item.config.stash[READ_S] + budget_s / 2):
        return None
    item.config.stash[LATE][item.location[0]] += 1
    return True  # nothing is left to be done for it


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[USED] = _processor_s()
    session.config.stash[READ_S] = time.monotonic()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist: what it found is told by the first one
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])
        session.config.workeroutput["late"] = dict(session.config.stash[LATE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """All processes of pytest-xdist collect the same; each comes too late for others."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT_OUT] = output.get("left_out", {})
    node.config.stash[LATE].update(output.get("late", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if TOLD and not hasattr(config, "workerinput"):  # a process of pytest-xdist tells all to the first one
        with Path(TOLD).open("a", encoding="utf-8") as told:
            told.writelines(f"{json.dumps(row)}\n" for row in _rows(terminalreporter))
    if config.getoption("--quick"):
        _tell_left_out(terminalreporter, config)


def _rows(reporter: pytest.TerminalReporter) -> Iterator[dict[str, Any]]:
    """What failed, and what each file cost."""
    for report in reporter.stats.get("failed", []) + reporter.stats.get("error", []):
        yield {"failed": report.nodeid, "last": report.longreprtext.splitlines()[-TOLD_LINES:]}
    costs: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for report in (report for some in reporter.stats.values() for report in some):
        if isinstance(report, pytest.TestReport):
            cost = costs[report.nodeid.partition("::")[0]]
            cost[0] += report.when == "call"
            cost[1] += report.duration
            cost[2] += getattr(report, "cpu_s", 0.0)
    for file, (tests, wall_s, cpu_s) in costs.items():
        yield {"file": file, "tests": int(tests), "wall_s": wall_s, "cpu_s": cpu_s}


def _tell_left_out(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    here = Path(__file__).parent
    folders = {path for path in here.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}
    asked = {(config.invocation_params.dir / name.partition("::")[0]).resolve() for name in config.args}
    others = [path for path in folders if not any(one in (path, here) or path in one.parents for one in asked)]
    terminalreporter.section("left out")
    terminalreporter.line(f"tests/{{{','.join(sorted(path.name for path in others))}}}")
    for file, count in sorted(config.stash[LEFT_OUT].items()):
        terminalreporter.line(f"{count} slow ones of {file}")
    for file, count in sorted(config.stash[LATE].items()):
        terminalreporter.line(f"{count} of {file}: no time was left")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    now = _processor_s()
    report.cpu_s = now - item.config.stash[USED]  # type: ignore[attr-defined]  # reports take what they are given
    item.config.stash[USED] = now
    # An expected failure is reported as skipped, too; it is none.
    if not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _processor_s() -> float:
    user, system, childrens_user, childrens_system, _ = os.times()
    return user + system + childrens_user + childrens_system


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if IN_CI and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} may not be skipped in CI: {reason}"
