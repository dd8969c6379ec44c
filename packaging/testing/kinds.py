"""All that repeats: what each kind of it is, and the command of one slice.

Knows: which seeds a kind draws, how a slice of it is begun, what it needs.  Does not know when its turn is (`turns`),
nor how its output is read (`outcome`).

Invariant: the same slice is the same command; two slices that follow each other draw no seed twice.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from testing.parts import SPREAD
from testing.steps import ROOT, Step, step

JOBS: Final = str(os.cpu_count() or 1)
SPAN: Final = 10_000
"""No test draws more seeds from one number (tests/profiles.py)."""
DAY: Final = 1_000_000
"""The numbers of a day begin at so many times the days since 1970."""


class Draws(enum.Enum):
    """What a slice takes of the seeds."""

    EACH = "one seed for each unit of its size"
    ONE = "one seed, whatever its size"
    DATED = "a number of the day, from which tests draw"


@attrs.frozen
class Slice:
    """Some of a kind, to be run by one command."""

    kind: str
    first: int
    size: int
    items: tuple[str, ...] = ()


@attrs.frozen
class Kind:
    """What repeats, and how."""

    name: str
    counts: str
    """What is counted of it, in the plural."""
    command: Callable[[Slice], Step]
    each_s: float
    """A guess of what a unit of its size takes; the record knows better."""
    least: int = 1
    most: int = 1
    """Of the size of a slice."""
    draws: Draws = Draws.DATED
    begin: int = 0
    """The first seed of all. Those before it were run before there was a record."""
    list_items: Callable[[], Sequence[str]] | None = None
    """The list that it goes round, some in each slice: its size is how many."""
    needs: tuple[str, ...] = ()
    """Commands and their packages: `COMMAND=PACKAGE`."""
    why_not: Callable[[], str] = str
    """Why it cannot be run here, though the commands are there; empty if it can."""

    def lacks(self) -> str:
        """Why it cannot be run here; empty if it can."""
        missing = [need.partition("=")[0] for need in self.needs if shutil.which(need.partition("=")[0]) is None]
        return f"there is no {', no '.join(missing)}" if missing else self.why_not()

    def after(self, one: Slice) -> int:
        """Where the seeds go on after a slice."""
        match self.draws:
            case Draws.EACH:
                return one.first + one.size
            case Draws.ONE:
                return one.first + 1
            case Draws.DATED:
                return one.first + SPAN


# -- commands -----------------------------------------------------------------------------------------------------


def _tests(one: Slice, *words: str) -> Step:
    """Tests that draw from the number of a slice."""
    return step("pytest", "-q", *words, "--soak", str(one.first), *one.items)


def _sim(one: Slice) -> Step:
    return _module("distkv", "sim", "--first-seed", one.first, "--seeds", one.size, "--jobs", JOBS)


def _of_service(one: Slice) -> Step:
    """Seeds in which a service of this name is drawn."""
    return _module("distkv", "sim", f"--{one.kind}", *_sim(one).words[4:])


def _tokens(one: Slice) -> Step:
    return _module("tests.property.token_plays", "--first", one.first, "--count", one.size, "--jobs", JOBS)


def _servers(one: Slice) -> Step:
    return _tests(one, *SPREAD, "tests/scenarios/test_seeds_on_engine.py")


def _spread(one: Slice) -> Step:
    return _tests(one, *SPREAD)


def _mutants(one: Slice) -> Step:
    return _module("tests.mutants", "--jobs", JOBS, *one.items)


def _damage(one: Slice) -> Step:
    return _module("tests.property.damage", "--first", one.first, "--count", one.size)


def _trees(one: Slice) -> Step:
    return _module("tests.property.server_trees", "--seed", one.first, "--fleets", one.size)


def _fleets(one: Slice) -> Step:
    """Each number is a fleet of another size, until all sizes had their turn."""
    low, high = FLEETS
    sizes = [low + number * STRIDE % (high + 1 - low) for number in range(one.first, one.first + one.size)]
    return _module("distkv", "sim", *(word for size in sizes for word in ("--fleet", size)))


def _kills(one: Slice) -> Step:
    return _module("tests.process.hunt", "--seconds", one.size, "--seed", one.first)


def _netns(one: Slice) -> Step:
    """Each has a network of its own and waits most of its time."""
    return _tests(one, "--numprocesses", "8", "-m", "netns and not alone", "tests/netns")


def _spark(one: Slice) -> Step:
    return _module("tests.spark.kills", "--count", one.size, "--seed", one.first)


def _loaded(one: Slice) -> Step:
    return step("packaging/test.sh", "loaded", *_tests(one, "-m", "not alone").words)


def _module(name: str, *words: object) -> Step:
    return step("python", "-m", name, *map(str, words))


# -- lists --------------------------------------------------------------------------------------------------------

HOSTILE: Final = (
    *("tests/node/test_hostile_links.py", "tests/node/test_session_requests.py"),
    *(f"tests/property/test_{name}.py" for name in ("hostile_links", "client_protocol")),
    *(f"tests/property/test_wire_{name}.py" for name in ("messages", "requests", "states", "token_states", "tokens")),
)
"""Tests that draw what a stranger could send."""
_CROWDS: Final = ("tests/process/test_activity_program.py", "tests/process/test_activity_fleet.py")
_TEST: Final = re.compile(r"^def (test_\w+)", re.MULTILINE)
_DRAWS: Final = re.compile(r"^ *@given\(|^from tests\.profiles import ", re.MULTILINE)
_ELSEWHERE: Final = (
    *HOSTILE,
    *("tests/scenarios/test_seeds_on_engine.py", "tests/property/test_simulated_seeds.py"),
    *("tests/process/", "tests/netns/", "tests/spark/", "tests/browser/", "tests/mutants/"),
)
"""Each is a kind of its own, or draws nothing."""


def properties() -> list[str]:
    """All other tests that draw something."""
    found = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py")) if _is_drawn(path)]
    return [name for name in found if not name.startswith(_ELSEWHERE)]


def _is_drawn(path: Path) -> bool:
    return _DRAWS.search(path.read_text("utf-8")) is not None


def processes() -> list[str]:
    """The tests with real servers."""
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests" / "process").glob("test_*.py"))]


def crowds() -> list[str]:
    """The tests that have many clients of the activity network, and real servers to which something happens."""
    return [f"{name}::{test}" for name in _CROWDS for test in _TEST.findall((ROOT / name).read_text("utf-8"))]


def mutants() -> list[str]:
    """The mutants of all lists."""
    words = [sys.executable, "-m", "tests.mutants", "--names"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


# -- the table ----------------------------------------------------------------------------------------------------

FLEETS: Final = (2, 150)
STRIDE: Final = 61
"""Has no divisor in common with the number of sizes."""
SERF: Final = "serf=serf"
CC: Final = "cc=gcc"


def _no_namespaces() -> str:
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "this user may make no network namespace" if done.returncode else ""


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("sim", "seeds", _sim, each_s=1.2, least=10, most=2000, draws=Draws.EACH, begin=60_000_000),
        *(
            Kind(name, "seeds", _of_service, 4.0, least=10, most=1000, draws=Draws.EACH, begin=at * 10**12 + 10_000)
            for at, name in enumerate(("topics", "accounts", "activity"), 1)
        ),
        Kind("tokens", "seeds of each play", _tokens, each_s=1.0, least=10, most=5000, draws=Draws.EACH, begin=10**6),
        Kind("servers", "tests of four seeds", _servers, each_s=120.0),
        Kind("properties", "tests", _spread, each_s=30.0, most=20, list_items=properties),
        Kind("hostile", "tests", _spread, each_s=30.0, most=len(HOSTILE), list_items=lambda: HOSTILE),
        Kind("damage", "directories", _damage, each_s=0.1, least=100, most=5000, draws=Draws.EACH, begin=100_000),
        Kind("mutants", "mutants", _mutants, each_s=6.0, most=60, draws=Draws.ONE, list_items=mutants),
        Kind("kills", "s of faults", _kills, 1.3, least=60, most=180, draws=Draws.ONE, begin=1000, needs=(SERF,)),
        Kind("crowds", "tests with 200 clients", _tests, 90.0, most=6, list_items=crowds, needs=(SERF, CC)),
        Kind("trees", "fleets", _trees, each_s=40.0, most=8, draws=Draws.EACH, begin=1000),
        Kind("fleets", "fleets", _fleets, each_s=25.0, most=12, draws=Draws.EACH),
        Kind(
            "netns", "tests", _netns, each_s=150.0, why_not=_no_namespaces,
            needs=(SERF, "ip=iproute2", "iptables=iptables", "nsenter=util-linux"),
        ),
        Kind(
            "spark", "kills", _spark, each_s=60.0, least=2, most=8, draws=Draws.ONE, begin=1000,
            needs=(SERF, "java=openjdk-17-jre-headless"),
        ),
        Kind("loaded", "tests beside a load", _loaded, each_s=90.0, most=10, list_items=processes, needs=(SERF,)),
    )
}  # fmt: skip
"""In the order of their first turns."""
