"""`distkv client conflicts`: what lost without the winner having known it, and what is decided about it.

Knows: its options and what it prints.  Does not know the client protocol, nor what a decision does.

Invariant: a decision prints the change that it made, as `set` does; a list that is empty is no failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import asyncclick as click
import attrs

from distkv.cli.entry import fence_map, fence_words
from distkv.cli.output import Form, print_items, print_result
from distkv.cli.session import CliSession, Job, once, output_option
from distkv.cli.suggestions import suggest_trees
from distkv.cli.values import read_link
from distkv.cli.writes import WriteReport
from distkv.client.blocking import Client
from distkv.client.conflicts import Loser
from distkv.errors import DamagedError, SettingsError
from distkv.model.event import Link, tick_text
from distkv.model.path import ROOT, Path
from distkv.text.display import visible, word
from distkv.text.moment import utc


@attrs.frozen
class _Decision:
    """What --restore, --dismiss and --if-chain say."""

    id: Link
    is_restored: bool
    head: Link | None


@click.command("conflicts")
@click.argument("path", required=False, shell_complete=suggest_trees)
@click.option(
    "--restore", metavar="ID", multiple=True, callback=once, is_flag=False, flag_value="",
    help="Write this loser again: it wins, and its conflict is over. This lifts the fence of the path.",
)
@click.option(
    "--dismiss", metavar="ID", multiple=True, callback=once, is_flag=False, flag_value="",
    help="Keep the winner: the conflict of this loser is over.",
)  # fmt: skip
@click.option("--if-chain", metavar="NODE:TICK", help="Decide only if this change is still the winner.")
@click.option("--closed", is_flag=True, help="Print closed losers of PATH; with --restore, ID may be closed.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Print at most N losers.")
@output_option
@click.pass_obj
def conflicts_command(
    session: CliSession,
    path: str | None,
    restore: str | None,
    dismiss: str | None,
    if_chain: str | None,
    closed: bool,
    limit: int | None,
    form: str | None,
) -> Job:
    """Print the open conflicts at and below PATH (the root), or decide about one.

    A conflict is a change that lost against another change which did not know it. As text, each is a line: its ID, the
    path, its value, when it was written; then the same of the winner, and the fence if the loser was written under one.
    A decision closes only this conflict, on all nodes. It prints its change, and fails with 3 if ID is not open. For
    --closed, PATH is one path, and the node searches its history. If the disk of the node damaged what a path held, the
    list lacks the losers there, and ends with 7.
    """
    where = ROOT if path is None else Path.parse(path)
    decision = _read_decision(restore, dismiss, if_chain)
    if decision is None:
        if closed and path is None:
            raise SettingsError("--closed is about one path: name it")
        return partial(_list, session, where, closed, limit, Form(form) if form else session.form)
    if limit is not None:
        raise SettingsError("--limit is for a list: leave it out")
    if closed and not decision.is_restored:
        raise SettingsError("--closed is for --restore: what is closed cannot be dismissed")
    return partial(_decide, session, where, decision, closed, WriteReport.of(session, form))


def _read_decision(restore: str | None, dismiss: str | None, if_chain: str | None) -> _Decision | None:
    """What is to be decided; None: nothing, the conflicts are to be listed.

    Raises:
        SettingsError: options that do not go together.
        BadPathError: an ID that is none.
    """
    if restore is not None and dismiss is not None:
        raise SettingsError("--restore and --dismiss exclude each other: decide about one loser at a time")
    id = restore if restore is not None else dismiss
    if id == "":
        option = "--dismiss" if restore is None else "--restore"
        raise SettingsError(f"{option} needs the ID of a loser: write it as 'distkv client conflicts' prints it: a:12")
    if id is None:
        if if_chain is not None:
            raise SettingsError("--if-chain is for --restore and --dismiss: add one of them, or leave it out")
        return None
    return _Decision(read_link(id), restore is not None, None if if_chain is None else read_link(if_chain))


def _list(session: CliSession, path: Path, closed: bool, limit: int | None, form: Form) -> None:
    with Client(session.addresses) as client:
        try:
            losers = client.conflicts(path, closed=closed, limit=limit)
        except DamagedError as error:
            _print_losers(error.found, form)
            raise
    _print_losers(losers, form)


def _print_losers(losers: Sequence[Loser], form: Form) -> None:
    if form is Form.TEXT:
        print_items(map(_line, losers), form)
    else:
        print_result([_map(loser) for loser in losers], form)


def _decide(session: CliSession, path: Path, decision: _Decision, closed: bool, report: WriteReport) -> None:
    with Client(session.addresses) as client:
        if decision.is_restored:
            written = client.restore(decision.id, path=path, head=decision.head, closed=closed)
        else:
            written = client.dismiss(decision.id, path=path, head=decision.head)
    report.tell_write(written)


def _line(loser: Loser) -> str:
    path = visible(loser.path)
    what = f"{path} deleted" if loser.is_deleted else f"{path}: {word(loser.value)}"
    if loser.winner is not None:
        won = "" if loser.winner_time is None else f" {_won(loser)}  {utc(loser.winner_time)}"
        how = f"lost to {tick_text(*loser.winner)}{won}"
    else:
        how = "closed" if loser.closed_by is None else f"closed by {tick_text(*loser.closed_by)}"
    return f"{loser.id} {what}  {utc(loser.time)} {how}{fence_words(loser.fence)}"


def _won(loser: Loser) -> str:
    return "deleted" if loser.winner_value is None else word(loser.winner_value)


def _map(loser: Loser) -> dict[str, object]:
    found: dict[str, object] = {"change": loser.id, "path": str(loser.path)}
    found |= {"deleted": True} if loser.is_deleted else {"value": loser.value}
    found |= {"tock": loser.tock, "time": loser.time}
    if loser.winner is not None:
        winner: dict[str, object] = {"change": tick_text(*loser.winner)}
        if loser.winner_time is not None:
            winner |= {"deleted": True} if loser.winner_value is None else {"value": loser.winner_value}
            winner["time"] = loser.winner_time
        found["winner"] = winner
    if loser.closed_by is not None:
        found["closed_by"] = tick_text(*loser.closed_by)
    return found | fence_map(loser.fence)
