"""The parts of `make test`, and the commands of each.

Knows: which tests belong to which part, what must be installed for them, and how many processes share them.  Does not
run a test.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

from testing.steps import ROOT, Step, step, waiting

SPREAD: Final = ("--numprocesses", "auto", "--dist", "worksteal")
ELSEWHERE: Final = "not process and not netns and not spark and not browser"

MEASURED: Final = ("model", "wire", "core")
"""The packages whose branches have a floor."""
FLOOR_PERCENT: Final = 95
MEASURED_PROPERTIES: Final = ("model_", "wire_", "token_", "topic_", "account_", "activity", "hostile_", "server_tree")
MEASURED_TESTS: Final = (
    *("tests/unit/model", "tests/unit/wire", "tests/unit/core", "tests/node", "tests/scenarios/test_scenarios.py"),
    *(f"tests/property/test_{name}*.py" for name in MEASURED_PROPERTIES),
    *(f"tests/property/test_{name}.py" for name in ("following*", "streaming", "client_protocol", "resync")),
    *("tests/property/test_gathering.py", "tests/property/test_routes.py"),
    *("tests/property/test_simulated_seeds.py", "tests/unit/cli/test_values.py", "tests/unit/sim/test_topic_*.py"),
)
"""Only what has a floor is measured, and only in the tests that are about it: measured code takes longer. What stands
in this run stays out of the other one."""

MEASURING: Final = (
    *(sys.executable, "-m", "slipcover", "--branch", "--json", "--out", "coverage.json"),
    *("--source", ",".join(f"distkv/{name}" for name in MEASURED)),
)
"""It puts what it counts into the code: less than half as much longer, where a tracer takes three times as long."""
MEASURED_ON: Final = "x86_64"
"""As in pyproject.toml."""
# It looks into the tests, too, where pytest lets it. That is not wanted, and each release of pytest is new to it.
NOT_OF_TESTS: Final = (
    *("-W", "ignore:Unable to activate pytest:RuntimeWarning"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

FROM_ELSEWHERE: Final = r"""! grep -rnE --include='*.html' '<(script|link|img|iframe)[^>]* (src|href)="(https?:)?//' """
"""Pages can be read where there is no network."""


def lint() -> Iterator[Step]:
    """Style, types, import rules, changelog fragments."""
    yield step("ruff", "check", ".")
    yield step("mypy")
    yield step("lint-imports", "--no-logo")
    yield step("towncrier", "build", "--draft", "--version", "next")


def docs() -> Iterator[Step]:
    """The documentation as HTML; a warning is an error."""
    yield step("sphinx-build", "--quiet", "--fail-on-warning", "--keep-going", "--fresh-env", "docs", "build/docs")
    yield step("sh", "-c", FROM_ELSEWHERE + "build/docs")


def fast() -> Iterator[Step]:
    """Tests without real processes, and the floor of covered branches."""
    measured = [str(path.relative_to(ROOT)) for name in MEASURED_TESTS for path in sorted(ROOT.glob(name))]
    if platform.machine() == MEASURED_ON:
        yield step(*MEASURING, "-m", "pytest", *NOT_OF_TESTS, *SPREAD, *measured)
        yield step(sys.executable, "packaging/branch_floor.py", str(FLOOR_PERCENT), *MEASURED)
    else:
        print(f"\nBranches are not measured: slipcover is made for {MEASURED_ON}, and this is {platform.machine()}.")
        yield step("pytest", *SPREAD, *measured)
    yield step("pytest", *SPREAD, *(f"--ignore={name}" for name in measured), "-m", ELSEWHERE)


def process() -> Iterator[Step]:
    """Real servers and Serf agents, the commands of all pages."""
    packages("serf=serf", "cc=gcc,libc6-dev", "zsh=zsh", "fish=fish", "systemd-analyze=systemd")
    # They wait more than they work, hence three for each processor.
    workers = str(min(12, 3 * (os.cpu_count() or 1)))
    spread = ("--numprocesses", workers, "--dist", "loadscope", "--no-loadscope-reorder")
    yield waiting("pytest", *spread, "-m", "process and not alone", "tests/process")
    # What is promised of time is looked at with nothing beside it.
    yield step("pytest", "-m", "process and alone", "tests/process")


def browser() -> Iterator[Step]:
    """The pages of `distkv graph` and of the report, in a headless chromium."""
    packages("chromium=chromium", "chromedriver=chromium-driver")
    yield waiting("pytest", "-m", "browser", "tests/browser")


def netns() -> Iterator[Step]:
    """Whole hosts in network namespaces, whose network is cut."""
    packages("serf=serf", "ip=iproute2", "iptables=iptables", "nsenter=util-linux")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        yield step("pytest", "-m", "netns", "tests/netns", CI="")  # each says why it is skipped
        return
    # Each test has a network of its own and waits for 30 s, so all run at once, but for what is promised of time.
    yield waiting("pytest", "--numprocesses", "8", "-m", "netns and not alone", "tests/netns")
    yield step("pytest", "-m", "netns and alone", "tests/netns")


def spark() -> Iterator[Step]:
    """The data pipeline on Spark, which takes both processors of a small machine: nothing runs beside it."""
    packages("serf=serf", "java=openjdk-17-jre-headless")
    yield step(sys.executable, "-m", "tests.spark.home")  # once, a minute
    # Two processes with a session, and two for tests that start machines of their own (tests/spark/conftest.py).
    yield step("pytest", "--numprocesses", "4", "--dist", "loadscope", "-m", "spark", "tests/spark")


PARTS: Final[dict[str, Callable[[], Iterator[Step]]]] = {
    part.__name__: part for part in (lint, docs, fast, process, browser, netns, spark)
}
"""In the order in which `make test` runs them."""


def packages(*commands: str) -> None:
    """Install Debian's packages for commands that are missing, if this user may: `COMMAND=PACKAGE[,PACKAGE]`."""
    subprocess.run(["packaging/packages.sh", *commands], cwd=ROOT, check=True)
