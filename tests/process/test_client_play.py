"""Clients of each kind against three nodes that are killed, frozen and started again, some of them at a time.

Knows: what is done to the nodes, and what the workers report.  Does not know how a client goes on.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.process.client_workers import KINDS, WORKERS
from tests.process.cluster import Cluster
from tests.process.tokens import open_token_servers, pause
from tests.profiles import seeds, size

pytestmark = pytest.mark.slow

ATTEMPTS_MAX = 20
"""One or two are usual: the last question before all is well, and the answer of a node that is only starting. On a busy
machine some more are not answered in time. A client that does not recover never is."""
END_S = 300.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the workers of each kind report."""
    [seed, *_] = seeds(1)
    with open_token_servers(tmp_path_factory.mktemp("play")) as cluster, ExitStack() as stack:
        hosts = [f"127.0.0.1:{server.port}" for server in cluster]
        programs = {kind: stack.enter_context(working(kind, seed, hosts)) for kind in KINDS}
        for program in programs.values():
            assert program.stdout is not None
            assert program.stdout.readline() == "open\n"
        harm(cluster, random.Random(seed), size(15, 300))
        return {kind: report(program) for kind, program in programs.items()}


@contextmanager
def working(kind: str, seed: int, hosts: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A program with workers of this kind; it is killed if it has not ended."""
    words = [sys.executable, "-m", "tests.process.client_workers", kind, str(seed), *hosts]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def harm(cluster: Cluster, chance: random.Random, seconds: float) -> None:
    """One fault after the other, each upon one or two nodes; afterwards all serve."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        names = chance.sample([server.name for server in cluster], chance.choice([1, 1, 2]))
        if chance.random() < 0.5:
            for name in names:
                cluster[name].kill()
            pause(chance.uniform(0, 1))
            cluster.start(*names)
        else:
            for name in names:
                cluster[name].send_signal(signal.SIGSTOP)
            pause(chance.uniform(0.2, 3))
            for name in names:
                cluster[name].send_signal(signal.SIGCONT)
        pause(chance.uniform(0, 0.5))
    for server in cluster:
        cluster.wait_state(server.name, "ready", END_S)


def report(program: subprocess.Popen[str]) -> Any:
    """Tell it that all is well, and that it is over; what it reports once each worker was served."""
    assert program.stdin is not None
    program.stdin.write("well\n")
    program.stdin.flush()
    out, _ = program.communicate(timeout=END_S)
    assert program.returncode == 0
    return json.loads(out.splitlines()[-1])


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_no_worker_gets_a_wrong_answer(reports: Mapping[str, Any], kind: str) -> None:
    assert [wrong for worker in reports[kind]["workers"] for wrong in worker["wrong"]] == []


@each_kind
def test_each_worker_is_served_again_at_once_and_its_program_ends(reports: Mapping[str, Any], kind: str) -> None:
    workers = reports[kind]["workers"]
    assert all(worker["answers"] for worker in workers), workers
    assert [worker["attempts"] for worker in workers if worker["attempts"] > ATTEMPTS_MAX] == []
    assert len(workers) == WORKERS


@each_kind
def test_no_connection_is_left(reports: Mapping[str, Any], kind: str) -> None:
    assert reports[kind]["left"] <= 0
