"""Nodes that end, hang, move, are cut off, doubled, renamed or retired, and what others say of them in three clocks.

Knows: the table of docs/operations.rst; each of its rows is done here.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.netns.lab import PORT, START_S, Lab, open_lab
from tests.netns.presence import Row, table
from tests.process.forks import CHECKOUT
from tests.process.servers import Ran, run_command

WITHIN_S = 60.0
"""Three clocks are 3 s; agents that were apart, and a busy machine, take longer."""
SPARE = "d"
STRANGER = "e"
NEW_NAME = "f"
REFUSED = "``--init`` refused it"
ORDER = ("ok", "warn", "fail")


def run(lab: Lab, name: str, *words: str) -> Ran:
    """A command on the host of a node."""
    server = lab[name]
    return run_command(*words, environment=server.environment, program=server.program)


def ask(lab: Lab, name: str, *words: str) -> Ran:
    return run(lab, name, "client", "-h", lab[name].address, *words)


def examined(lab: Lab, name: str) -> Ran:
    server = lab[name]
    return run(lab, name, "doctor", "-o", "json", name, "--data-dir", str(server.data_dir), "--bind", server.address)


def listed(lab: Lab, at: str = "a") -> dict[str, str]:
    """The state of each node, as one of them says."""
    return {one["node"]: one["state"] for one in json.loads(ask(lab, at, "node", "list", "-o", "json").text)}


def seen(lab: Lab, of: str = "b") -> Row:
    """What `a` says."""
    converged = ask(lab, "a", "state", "--wait", "converged", "--timeout", "0").code
    levels = [one["level"] for one in json.loads(examined(lab, "a").text)]
    return Row(listed(lab).get(of), converged, max(levels, key=ORDER.index))


@contextmanager
def stopped(lab: Lab, number: signal.Signals) -> Iterator[None]:
    b = lab["b"]
    b.send_signal(number)
    if number is not signal.SIGSTOP:
        b.wait_end() if number is signal.SIGTERM else b.kill()
    yield
    if number is signal.SIGSTOP:
        b.send_signal(signal.SIGCONT)
    else:
        b.start().wait_ready(START_S)


@contextmanager
def without_agent(lab: Lab) -> Iterator[None]:
    lab.agent("b").kill()
    yield
    assert (lab["b"].state()["state"], examined(lab, "b").code) == ("cut-off", 1)
    lab.agent("b").launch()


@contextmanager
def cut(lab: Lab) -> Iterator[None]:
    lab.network.cut("b", "ac" + SPARE)  # gossip goes through agents without a node, too
    yield
    lab.wait_state("b", "cut-off", WITHIN_S)
    ran = ask(lab, "b", "state", "--wait", "converged", "--timeout", "0")
    assert (ran.code, examined(lab, "b").code) == (5, 1)
    assert ask(lab, "b", "state", "--wait", "converged", "--timeout", "0", "--alone").code == 0
    lab.network.heal()


@contextmanager
def moved(lab: Lab) -> Iterator[None]:
    b = lab["b"]
    b.terminate()
    b.port += 1
    b.start().wait_ready(START_S)
    yield


def on_spare(lab: Lab, directory: Path) -> Ran:
    """One more b, on a host with an agent of its own, until it ends by itself."""
    options = ("--data-dir", str(directory), "--bind", f"{lab.network.addresses[SPARE]}:{PORT}")
    program = (*lab.network.hosts[SPARE].program, *CHECKOUT)
    return run_command("server", "b", *options, environment=lab["b"].environment, program=program)


@contextmanager
def second(lab: Lab) -> Iterator[None]:
    ran = on_spare(lab, lab["b"].directory / "second")
    assert ran.code == 1
    assert f"a live node at {lab['b'].address} is called b: give the new one a name of its own" in ran.err
    yield


@contextmanager
def copied(lab: Lab) -> Iterator[None]:
    b, copy = lab["b"], lab["b"].directory / "copy"
    b.terminate()
    shutil.copytree(b.data_dir, copy)
    b.start().wait_ready(START_S)
    ran = on_spare(lab, copy)
    assert ran.code == 1
    assert "another live node is called b and started earlier: give this one a name and a directory" in ran.err
    yield
    assert lab["b"].state()["state"] == "ready"


@contextmanager
def misnamed(lab: Lab) -> Iterator[None]:
    b = lab["b"]
    b.terminate()
    ran = run(lab, "b", "server", NEW_NAME, "--data-dir", str(b.data_dir), "--bind", b.address)
    assert ran.code == 1
    assert f"the data directory belongs to the node b, not to {NEW_NAME}: start the server under that name" in ran.err
    yield
    b.start().wait_ready(START_S)


@contextmanager
def renamed(lab: Lab) -> Iterator[None]:
    b, heir = lab["b"], lab.servers.add(NEW_NAME)
    b.terminate()
    heir.environment, heir.program, heir.host, heir.port = b.environment, b.program, b.host, b.port
    heir.start().wait_ready(START_S)
    yield
    assert seen(lab, NEW_NAME).state == "alive"
    (says,) = [one for one in json.loads(examined(lab, "a").text) if one["level"] != "ok"]
    assert says["says"] == f"b at {b.address} is away, and {NEW_NAME} is at this address now"
    assert says["do"].startswith(f"if {NEW_NAME} is its new name, 'distkv client node retire b'")
    assert ask(lab, "a", "node", "retire", "b").code == 0
    lab.wait(lambda: seen(lab) == Row("retired", 0, "ok"), "b is retired", WITHIN_S)
    heir.terminate()
    lab.wait(lambda: ask(lab, "a", "node", "retire", NEW_NAME).code == 0, "so is its heir", WITHIN_S)
    b.start().wait_ready(START_S)


def other_server(lab: Lab, *options: str) -> Ran:
    """Another server beside the agent of b, which is refused."""
    directory = lab["b"].directory / STRANGER
    return run(
        lab, "b", "server", STRANGER, "--data-dir", str(directory), "--bind", f"{lab['b'].host}:{PORT + 2}", *options
    )


@contextmanager
def refused(lab: Lab) -> Iterator[None]:
    ran = other_server(lab, "--init", "x")
    assert (ran.code, "a network answers already" in ran.err) == (1, True), ran
    assert not [at for at in "ac" if STRANGER in listed(lab, at)]  # at once: it was never a member
    yield
    lab.wait(lambda: seen(lab) == Row("alive", 0, "ok"), "the tag of b is as it was", WITHIN_S)


@contextmanager
def retired(lab: Lab) -> Iterator[None]:
    lab["b"].terminate()
    lab.wait(lambda: ask(lab, "a", "node", "retire", "b").code == 0, "b can be retired", WITHIN_S)
    lab.agent("b").kill()
    yield


def test_others_say_what_the_table_says(tmp_path: Path) -> None:
    rows = table()
    ways: dict[str, Callable[[Lab], AbstractContextManager[None]]] = {
        "its server was stopped": lambda lab: stopped(lab, signal.SIGTERM),
        "its server was killed": lambda lab: stopped(lab, signal.SIGKILL),
        "its server hangs": lambda lab: stopped(lab, signal.SIGSTOP),
        "its agent ended": without_agent,
        "its network is cut": cut,
        "it was started at another address": moved,
        "a second, empty *b* was started": second,
        "a copy of *b* was started": copied,
        "its directory got another name": misnamed,
        "its host came back as *f*": renamed,
        REFUSED: refused,
        "it was retired": retired,
    }
    assert list(rows) == list(ways)
    with open_lab(tmp_path, "abc", clock_s=1.0, spare=SPARE) as lab:
        for what, way in ways.items():
            lab.wait(lambda: seen(lab) == Row("alive", 0, "ok"), f"all is well before {what}", WITHIN_S)
            of = STRANGER if what == REFUSED else "b"
            with way(lab):
                lab.wait(lambda: seen(lab, of) == rows[what], f"{what}: a says {rows[what]}", WITHIN_S)  # noqa: B023


def test_address_of_another_node_is_refused_and_nobody_hears_of_it(tmp_path: Path) -> None:
    with open_lab(tmp_path, "ab", clock_s=1.0) as lab:
        ran = other_server(lab, "--advertise", lab["a"].address)
        says = f"distkv: advertise is {lab['a'].address}, and the node a answers there: give e an address that leads to"
        assert ran.code == 2
        assert says in ran.err
        assert seen(lab, STRANGER).state is None
