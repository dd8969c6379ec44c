"""`distkv client scrub`: a look for damage on a node's disk, now.

Knows: its options, and how progress and result are printed.  Does not know what is looked at.

Invariant: the result is one line, or with -o one object, on stdout; progress is on stderr, and only on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import asyncclick as click

from distkv.cli.output import Form, is_terminal, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import PeerError
from distkv.text.display import visible
from distkv.wire.fields import read_int, read_list, read_map, read_time


@click.command("scrub")
@click.option("--fast", is_flag=True, help="Without pauses; the node then has less time for others.")
@click.option("--drop", is_flag=True, help="Before, give up lost values whose paths cannot be read.")
@output_option
@click.pass_obj
def scrub_command(session: CliSession, fast: bool, drop: bool, form: str | None) -> Job:
    """Let the node check all data on its disk, and repair damage.

    The node also does this once a day (scrub.every). Damaged data that has not come back is listed. While a value is
    lost and nobody can say at which path, the node refuses to say of any path that it has no value (exit code 7). Look
    for the value on other nodes first; then end that with --drop.
    """
    return partial(_scrub, session, fast, drop, Form(form) if form else session.form)


def _scrub(session: CliSession, fast: bool, drop: bool, form: Form) -> None:
    found: Any = None
    is_shown = is_terminal(sys.stderr)
    with Client(session.addresses) as client:
        for told in client.scrub(fast=fast, drop=drop):
            found = told.get("found", found)
            if is_shown:
                click.echo(f"\r{visible(told['rows'])} of about {visible(told['of'])} rows", nl=False, err=True)
    if is_shown:
        click.echo(err=True)
    if not isinstance(found, Mapping):
        raise PeerError("the node ended the look without a result: see its log")
    if form is Form.TEXT:
        print_items([_in_words(found)], form)
    else:
        told = {"places": found["places"], "lost": found["lost"], "dropped": _dropped(found)}
        print_result({**found["last"], **told}, form)


def _in_words(found: Mapping[str, Any]) -> str:
    last, lost = read_map(found.get("last"), "last"), read_list(found.get("lost"), "lost")
    seconds = read_time(last.get("ended"), "ended") - read_time(last.get("begun"), "begun")
    damaged, lost_count = read_int(last, "damaged"), read_int(found, "lost_count")
    words = f"{read_int(last, 'rows')} rows in {seconds:.1f} s, {damaged or 'nothing'} damaged"
    if damaged:
        words += f": {'; '.join(map(str, read_list(found.get('places'), 'places')))}"
    if lost_count:
        shown = (read_map(one, "lost") for one in lost)
        words += f"; {lost_count} lost: {', '.join(str(one.get('path') or one.get('place')) for one in shown)}"
    return words + (f"; {_dropped(found)} given up" if _dropped(found) else "")


def _dropped(found: Mapping[str, Any]) -> int:
    """How many lost values the node does without from now on."""
    return read_int(found, "dropped")
