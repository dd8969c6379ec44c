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

from distkv.cli.output import Form, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import DistkvError, NotReadyError
from distkv.naming import parse_address

POLL_S: Final = 0.1
"""How long --wait pauses between two looks."""


class WaitFor(StrEnum):
    """What --wait takes."""

    READY = "ready"
    CONVERGED = "converged"


@click.command("state")
@click.option(
    "--wait",
    type=click.Choice([wait.value for wait in WaitFor]),
    help="Wait until the node is ready; or until it lacks nothing and every member that it hears says the same of "
    "itself and holds the same data, asked one after another.",
)
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0), default=60, help="How long. [default: 60]")
@output_option
@click.pass_obj
def state_command(session: CliSession, wait: str | None, timeout: float, form: str | None) -> Job:
    """Print the state of the node, and what it knows of the network."""
    wanted = Form(form) if form else session.form
    return partial(_state, session, WaitFor(wait) if wait else None, timeout, wanted)


def _state(session: CliSession, wait: WaitFor | None, timeout: float, form: Form) -> None:
    if wait is None:
        with Client(session.addresses) as client:
            print_result(client.state(), form)
        return
    deadline = time.monotonic() + timeout
    while True:
        found, lack = _look(session, wait)
        if found is not None and not lack:
            print_result(found, form)
            return
        if time.monotonic() + POLL_S > deadline:
            raise NotReadyError(f"after {timeout:g} s still not {wait}: {lack}")
        time.sleep(POLL_S)


def _look(session: CliSession, wait: WaitFor) -> tuple[Mapping[str, object] | None, str]:
    """The state, and what it lacks to be what is waited for; empty when it lacks nothing."""
    try:
        with Client(session.addresses) as client:
            state = client.state()
        lack = _lack_of_ready(state) or (_lack_of_agreement(state) if wait is WaitFor.CONVERGED else "")
    except DistkvError as error:  # it may be starting
        return None, str(error)
    return state, lack


def _lack_of_ready(state: Mapping[str, object]) -> str:
    if state.get("state") == "ready":
        return ""
    waits_for = state.get("waits_for")
    return f"{state.get('node')} is {state.get('state')}" + (f", it waits for {waits_for}" if waits_for else "")


def _lack_of_agreement(state: Mapping[str, object]) -> str:
    """Equal digests say that the same values are held; empty `missing`, that nothing is known to be on its way."""
    if state.get("missing"):
        return f"{state.get('node')} misses changes of {', '.join(_names(state.get('missing')))}"
    members = state.get("members")
    for member in members if isinstance(members, list) else ():
        if not isinstance(member, dict) or member.get("state") != "alive" or member.get("node") == state.get("node"):
            continue
        with Client([parse_address(str(member.get("addr")), f"the address of {member.get('node')}")]) as client:
            other = client.state()
        lack = _lack_of_ready(other)
        if lack:
            return lack
        if other.get("missing"):
            return f"{other.get('node')} misses changes of {', '.join(_names(other.get('missing')))}"
        if other.get("digest") != state.get("digest"):
            return f"{other.get('node')} and {state.get('node')} hold different data"
    return ""


def _names(ranges: object) -> list[str]:
    return [str(name) for name in ranges] if isinstance(ranges, dict) else ["somebody"]
