"""`distkv client state`: how a node is.

Knows: its options, what it prints, and what --wait waits for.  Does not know the client protocol.

Invariant: what is printed after --wait is the state in which the wait ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.aside import read_asides
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import DistkvError, NotReadyError
from distkv.naming import parse_address

POLL_S: Final = 0.1
"""How long --wait pauses between two looks."""
ASIDE_SHOWN: Final = 3
UNHEARD_S: Final = 3.0
"""A node that has just started hears one after the other: so long it may take until those that it does not hear count
as away."""


class WaitFor(StrEnum):
    """What --wait takes."""

    READY = "ready"
    CONVERGED = "converged"


@click.command("state")
@click.option(
    "--wait",
    type=click.Choice([wait.value for wait in WaitFor]),
    help="Wait until the node is ready; or until it lacks nothing, hears at least one of the other nodes, and all that "
    "it hears say the same of themselves and hold the same data, asked one after another.",
)
@click.option("--alone", is_flag=True, help="With --wait: it is enough when the node hears none of the others.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0), default=60, help="How long. [default: 60]")
@output_option
@click.pass_obj
def state_command(session: CliSession, wait: str | None, alone: bool, timeout: float, form: str | None) -> Job:
    """Print the state of the node, and what it knows of the network."""
    if alone and wait is None:
        raise click.UsageError("--alone says what --wait waits for: give --wait, too")
    wanted = Form(form) if form else session.form
    return partial(_state, session, WaitFor(wait) if wait else None, alone, timeout, wanted)


def _state(session: CliSession, wait: WaitFor | None, may_be_alone: bool, timeout: float, form: Form) -> None:
    if wait is None:
        with Client(session.addresses) as client:
            print_result(client.state(), form)
        return
    deadline = time.monotonic() + timeout
    since: float | None = None
    while True:
        found, lack = _look(session, wait, may_be_alone)
        now = time.monotonic()
        is_last = now + POLL_S > deadline
        if found is not None and not lack:
            unheard = _others(found)[1] if wait is WaitFor.CONVERGED else []
            since = now if since is None else since
            if not unheard or may_be_alone or is_last or now >= since + UNHEARD_S:
                if unheard:
                    _say_unheard(found)
                print_result(found, form)
                return
        else:
            since = None
        if is_last:
            raise NotReadyError(f"after {timeout:g} s still not {wait}: {lack}")
        time.sleep(POLL_S)


def _look(session: CliSession, wait: WaitFor, may_be_alone: bool) -> tuple[Mapping[str, object] | None, str]:
    """The state, and what it lacks to be what is waited for; empty when it lacks nothing."""
    try:
        with Client(session.addresses) as client:
            state = client.state()
        lack = _lack_of_ready(state, may_be_alone=may_be_alone or wait is WaitFor.READY)
        if not lack and wait is WaitFor.CONVERGED:
            lack = ("" if may_be_alone else _lack_of_others(state)) or _lack_of_agreement(state)
    except DistkvError as error:  # it may be starting
        return None, str(error)
    return state, lack


def _lack_of_ready(state: Mapping[str, object], *, may_be_alone: bool = False) -> str:
    """A node that is cut off serves; whether that is enough is up to who asks, unless its messenger is gone."""
    transport = state.get("transport")
    has_agent = isinstance(transport, dict) and transport.get("connected") is True
    if state.get("state") == "ready" or (state.get("state") == "cut-off" and may_be_alone and has_agent):
        return ""
    waits_for = state.get("waits_for")
    return f"{state.get('node')} is {state.get('state')}" + (f", it waits for {waits_for}" if waits_for else "")


def _others(state: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """The other registered nodes that it hears, and those that it does not; none of a node without a transport."""
    members, transport = state.get("members"), state.get("transport")
    heard, unheard = list[str](), list[str]()
    if isinstance(members, list) and not (isinstance(transport, dict) and transport.get("kind") == "solo"):
        for member in members:
            if isinstance(member, dict) and member.get("node") != state.get("node"):
                names = {"alive": heard, "away": unheard}.get(str(member.get("state")))
                if names is not None:
                    names.append(str(member.get("node")))
    return heard, unheard


def _lack_of_others(state: Mapping[str, object]) -> str:
    heard, unheard = _others(state)
    if heard or not unheard:
        return ""
    return f"0 of {len(unheard)} others heard ({', '.join(unheard)}); if alone is enough, say --alone"


def _say_unheard(state: Mapping[str, object]) -> None:
    """What agrees is what can be asked: whoever is away may hold anything."""
    heard, unheard = _others(state)
    count = len(heard) + len(unheard)
    complain(f"{len(heard)} of {count} others heard, not {', '.join(unheard)}")


def _lack_of_agreement(state: Mapping[str, object]) -> str:
    """Equal digests say that the same values are held; empty `missing`, that nothing is known to be on its way."""
    lack = _lack_of_aside(state)
    if lack:
        return lack
    if state.get("missing"):
        return f"{state.get('node')} misses changes of {', '.join(_names(state.get('missing')))}"
    members = state.get("members")
    for member in members if isinstance(members, list) else ():
        if not isinstance(member, dict) or member.get("state") != "alive" or member.get("node") == state.get("node"):
            continue
        with Client([parse_address(str(member.get("addr")), f"the address of {member.get('node')}")]) as client:
            other = client.state()
        lack = _lack_of_ready(other) or _lack_of_aside(other)
        if lack:
            return lack
        if other.get("missing"):
            return f"{other.get('node')} misses changes of {', '.join(_names(other.get('missing')))}"
        if other.get("digest") != state.get("digest"):
            return f"{other.get('node')} and {state.get('node')} hold different data"
    return ""


def _lack_of_aside(state: Mapping[str, object]) -> str:
    """What was set aside stays named until somebody decides."""
    ids = [str(one["id"]) for one in read_asides(state) if one["missing"]]
    if not ids:
        return ""
    shown = ", ".join(ids[:ASIDE_SHOWN]) + (f" and {len(ids) - ASIDE_SHOWN} more" if len(ids) > ASIDE_SHOWN else "")
    return f"{state.get('node')} has set aside {shown}: 'distkv client aside list' there says why"


def _names(ranges: object) -> list[str]:
    return [str(name) for name in ranges] if isinstance(ranges, dict) else ["somebody"]
