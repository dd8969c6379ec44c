"""`distkv client token list`, `show`, `watch`, `break`, `servers` and `reset`: what there is, for people and operators.

Knows: their options and what they print.  Does not know sessions.

Invariant: all names of a list are printed, page by page; each line of a watch is out before the next is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from time import monotonic
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.token import read_span, read_token_name
from distkv.cli.watch import tell_back, tell_lost
from distkv.client.blocking import Client
from distkv.client.blocking_connection import SharedConnection
from distkv.client.outages import SILENCE_S
from distkv.client.token_watch import TokenWatching
from distkv.errors import DecodeError, SettingsError
from distkv.text.display import table, word
from distkv.text.moment import utc
from distkv.wire.fields import read_flag, read_int, read_list, read_map, read_time
from distkv.wire.row import WAIT_S_MAX
from distkv.wire.token_errors import NoQuorumError, TimedOutError
from distkv.wire.token_fields import read_grant_number, read_list_of_servers

CHANGE_S: Final = 60.0
STEP_S: Final = 5.0
"""So long one request for a change waits."""
REPLY_S: Final = 30.0
HEADS: Final = ("TOKEN", "FENCE", "MODE", "SESSION", "SINCE", "WAITING", "SERVER", "DATA")

RESET_NEEDS_FORCE: Final = (
    "a reset founds the token servers anew without those that are gone for good: all sessions end, all tokens are free "
    "and lose their data, and until their holders hear of it, or while a lost server still runs somewhere, two "
    "sessions may hold one token (their fences differ, so the store still tells them apart); stop the lost servers, "
    "and what works under tokens, then add --force"
)


@click.command("list")
@click.argument("prefix", default="")
@output_option
@click.pass_obj
def list_command(session: CliSession, prefix: str, form: str | None) -> Job:
    """Print the tokens that are held, waited for, or have data; with PREFIX those whose names begin with it.

    For each holder: the fence, whether it holds it alone, its session, since when, and how many wait.
    """
    return partial(_list, session, _read_prefix(prefix), Form(form) if form else session.form)


def _list(session: CliSession, prefix: str, form: Form) -> None:
    with Client(session.addresses) as client:
        items = list(_pages(client, prefix))
    if form is Form.TEXT:
        print_items(_table(items), form)
    else:
        print_result(items, form)


@click.command("show")
@click.argument("name")
@output_option
@click.pass_obj
def show_command(session: CliSession, name: str, form: str | None) -> Job:
    """Print who holds the token NAME, how many wait for it, its data, and which node serves it."""
    return partial(_show, session, read_token_name(name), Form(form) if form else session.form)


def _show(session: CliSession, name: str, form: Form) -> None:
    with Client(session.addresses) as client:
        item = client.request("token_show", {"token": name}, is_read=True)
    if form is Form.TEXT:
        print_items(_table([item]), form)
    else:
        print_result(item, form)


@click.command("watch")
@click.argument("prefix", default="")
@click.option("--count", metavar="N", type=click.IntRange(1), help="End after N lines.")
@output_option
@click.pass_obj
def watch_command(session: CliSession, prefix: str, count: int | None, form: str | None) -> Job:
    """Print the tokens as they are, and then each one that changes, until interrupted.

    If the connection breaks, it connects again and prints them as they are then, also those that became free; stderr
    shows both.
    """
    return partial(_watch, session, _read_prefix(prefix), count, Form(form) if form else session.form)


def _watch(session: CliSession, prefix: str, count: int | None, form: Form) -> None:
    line = SharedConnection(session.addresses, connect_s=5.0, reply_s=SILENCE_S, reconnect=True)
    left = count
    try:
        with closing(line.watch(TokenWatching(prefix, on_disconnect=tell_lost, on_connect=tell_back))) as told:
            for item in (item for items in told for item in items):
                print_items([_watched_line(item) if form is Form.TEXT else item], form)
                left = None if left is None else left - 1
                if left == 0:
                    return
    finally:
        line.close()


@click.command("break")
@click.argument("name")
@click.pass_obj
def break_command(session: CliSession, name: str) -> Job:
    """Take the token NAME from its holders, who are told; the next one gets it when they have stopped.

    The node writes into its log who asked.
    """
    return partial(_ask, session, "token_break", {"token": read_token_name(name)})


@click.command("servers")
@click.option("--set", "names", metavar="NAMES", help="The nodes that are to serve from now on, as 'a,b,d'.")
@click.option("--wait", metavar="SECONDS", help=f"How long to wait until they do. [{CHANGE_S:g}]")
@output_option
@click.pass_obj
def servers_command(session: CliSession, names: str | None, wait: str | None, form: str | None) -> Job:
    """Print the token servers in force, their states, and which one leads; or change them.

    The change goes on under load: what is held stays held. A majority of the servers of before and of those that are
    named must be there meanwhile. Afterwards write the list into tokens.servers of all nodes.

    Fails with 4 if the change is not done after --wait, and says what it waits for. It goes on then: give the same
    command again, or the list of before to go back.
    """
    chosen = Form(form) if form else session.form
    if names is None:
        if wait is not None:
            raise click.UsageError("--wait is for a change: give --set, too")
        return partial(_servers, session, chosen)
    return partial(_set_servers, session, _read_servers("--set", names), read_span("--wait", wait, WAIT_S_MAX), chosen)


def _read_servers(option: str, text: str) -> tuple[str, ...]:
    names = tuple([name.strip() for name in text.split(",")])
    try:
        return tuple(read_list_of_servers([*names]))
    except DecodeError:
        raise SettingsError(f"{option} is {text!r}: give 1, 3, 5 or 7 nodes, each once, as 'a,b,d'") from None


def _set_servers(session: CliSession, names: tuple[str, ...], wait_s: float | None, form: Form) -> None:
    left_s = CHANGE_S if wait_s is None else wait_s
    end_s = monotonic() + left_s
    with Client(session.addresses, reply_s=STEP_S + REPLY_S) as client:
        while True:
            try:  # step by step: while the leader changes nobody answers, and the next one has to be asked
                step_s = max(0.0, min(STEP_S, end_s - monotonic()))
                client.request("token_set_servers", {"servers": names, "wait": step_s}, is_read=True)
                break
            except (TimedOutError, NoQuorumError):
                if monotonic() >= end_s:
                    raise
    _servers(session, form)


def _servers(session: CliSession, form: Form) -> None:
    with Client(session.addresses) as client:
        found = client.request("token_servers", is_read=True)
    if form is not Form.TEXT:
        print_result(found, form)
        return
    rows = [read_map(one, "servers") for one in read_list(found.get("servers"), "servers")]
    leader = found.get("leader")
    lines: list[tuple[object, ...]] = [("SERVER", "STATE", "LEADS")]
    lines += [(row.get("node"), row.get("state"), "yes" if row.get("node") == leader else "") for row in rows]
    if leader is None:
        complain("no majority of the token servers answers: this is what was known last")
    print_items(table(lines), form)
    listed, following = (",".join(map(str, read_list(found.get(name, []), name))) for name in ("list", "next"))
    if following:
        complain(f"the servers change from {listed} to {following}: '--set {following}' says what that waits for")
    term, version, sessions = (read_int(found, name) for name in ("term", "version", "sessions"))
    print_items([f"term {term}, version {version}, {sessions} sessions"], form)


@click.command("reset")
@click.option("--force", is_flag=True, help="Do it. What it may break is said without this.")
@click.option("--servers", "names", metavar="NAMES", help="Those of tokens.servers, as 'a,b,d', not those in force.")
@click.pass_obj
def reset_command(session: CliSession, force: bool, names: str | None) -> Job:
    """Found the token servers anew, where a majority of them is gone for good.

    Only for this case: while a majority may come back, wait for it. All sessions end, and all tokens are free and lose
    their data. Two sessions may hold one token until the earlier holder hears of it, or while a lost server still runs
    somewhere; their fences differ.

    It needs a majority of the servers that are in force. If too many of these are gone, write others into
    tokens.servers of all nodes, start them again, and give them as --servers.
    """
    servers = {} if names is None else {"servers": _read_servers("--servers", names)}
    if not force:
        raise SettingsError(RESET_NEEDS_FORCE)
    return partial(_ask, session, "token_reset", {"force": True, **servers})


def _ask(session: CliSession, action: str, fields: Mapping[str, object]) -> None:
    with Client(session.addresses) as client:
        client.request(action, fields)


# -- inside -------------------------------------------------------------------------------------------------------


def _read_prefix(text: str) -> str:
    return read_token_name(text) if text else ""


def _pages(client: Client, prefix: str) -> Iterator[Mapping[str, object]]:
    after, more, is_partial = "", True, False
    while more:
        page = client.request("token_list", {"prefix": prefix, "after": after}, is_read=True)
        items = [read_map(item, "items") for item in read_list(page.get("items"), "items")]
        yield from items
        is_partial = is_partial or read_flag(page, "partial")
        more = read_flag(page, "more") and bool(items)
        after = str(items[-1]["token"]) if items else ""
    if is_partial:
        complain("the token servers still find out who holds what: tokens may be missing from this list")


def _rows(item: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """A row for each holder; one without for a token that nobody holds."""
    name, data = word(item.get("token")), item.get("data")
    end = (str(item.get("waiting")), str(item.get("server")), "" if data is None else word(data))
    holders = [read_map(one, "holders") for one in read_list(item.get("holders"), "holders")]
    for one in holders:
        fence = str(read_grant_number(one))
        mode = "shared" if read_flag(one, "shared") else "alone"
        since = read_time(one.get("since"), "since")
        yield (name, fence, mode, str(one.get("session")), utc(since) if since else "unknown", *end)
    if not holders:
        yield (name, "", "free", "", "", *end)


def _table(items: list[Mapping[str, object]]) -> list[str]:
    return table([HEADS, *(row for item in items for row in _rows(item))])


def _watched_line(item: Mapping[str, object]) -> str:
    holders = [read_map(one, "holders") for one in read_list(item.get("holders"), "holders")]
    held = " ".join(f"{read_grant_number(one)}@{one.get('session')}" for one in holders)
    data = "" if item.get("data") is None else f" data={word(item.get('data'))}"
    return f"{word(item.get('token'))}: {held or 'free'} waiting={item.get('waiting')}{data}"
