"""`distkv client watch`: every change below a path, as it happens.

Knows: its options and what it prints.  Does not know the client protocol, nor how a watch outlives its connection.

Invariant: each line is out before the next change is waited for; changes that were missed are never passed over
without a line that says so.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import assert_never

import asyncclick as click

from distkv.cli.entry import fence_map, fence_words
from distkv.cli.output import Form, complain, print_items
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.suggestions import suggest_trees
from distkv.client.blocking import Client
from distkv.client.watch import Change, Contested, Lost, Missed, Resync, UpToDate, WatchEvent
from distkv.errors import SettingsError
from distkv.model.event import tick_text
from distkv.model.path import Path
from distkv.text.display import visible, word
from distkv.text.moment import utc


@click.command("watch")
@click.argument("path", shell_complete=suggest_trees)
@click.option("--state", is_flag=True, help="Print first the present values.")
@click.option("--since", metavar="TOKEN", help="Continue after the line with this token; see -m.")
@click.option("--count", metavar="N", type=click.IntRange(1), help="End after N changes.")
@click.option(
    "-m", "--meta", is_flag=True, help="Print also the name, time and fence of the change, and a token for --since."
)
@output_option
@click.pass_obj
def watch_command(
    session: CliSession, path: str, state: bool, since: str | None, count: int | None, meta: bool, form: str | None
) -> Job:
    """Print each change at and below PATH until interrupted.

    If the connection breaks, it connects again, and goes on where it was; stderr shows both. If that is not possible,
    it prints a line 'resync', and then all present values. What it cannot show, it counts: a line 'missed' says how
    many changes of which node were overwritten before they came, at whatever path. A line 'conflict' names the changes
    that lost against a value that did not know them. A line 'lost' names a path whose value the disk of the node
    damaged, and that nothing has replaced.
    """
    token = None if since is None else _read_token(since)
    wanted = Form(form) if form else session.form
    return partial(_watch, session, Path.parse(path), state, token, count, meta, wanted)


def _watch(
    session: CliSession, path: Path, state: bool, since: bytes | None, count: int | None, meta: bool, form: Form
) -> None:
    with Client(session.addresses, reconnect=True) as client:
        left = count
        events = client.watch_events(path, fetch=state, since=since, on_disconnect=tell_lost, on_connect=tell_back)
        with closing(events):
            for event in events:
                if isinstance(event, UpToDate) and not meta:
                    continue
                print_items([_line(event, meta) if form is Form.TEXT else _map(event, meta)], form)
                if left is not None and isinstance(event, Change):
                    left -= 1
                if left == 0:
                    return


def tell_lost(why: str) -> None:
    complain(f"{why}; trying again")


def tell_back() -> None:
    complain("connected again, and watching")


def _line(event: WatchEvent, meta: bool) -> str:
    match event:
        case Change():
            end = "expired" if event.is_expired else "deleted"
            path = visible(event.path)
            text = f"{path} {end}" if event.is_deleted else f"{path}: {word(event.value)}"
            if not meta:
                return text
            fence = fence_words(event.fence)
            return f"{text}  {tick_text(*event.link)} {utc(event.time)}{fence}{_shown_token(event.token)}"
        case Missed(counts=counts):
            shown = ", ".join(f"{count} of {node}" for node, count in sorted(counts.items()))
            return f"missed {shown}" + (_shown_token(event.token) if meta else "")
        case Resync():
            return "resync"
        case UpToDate():
            return f"uptodate{_shown_token(event.token)}"
        case Contested():
            losers = ", ".join(tick_text(*loser) for loser in event.losers)
            return f"{visible(event.path)} conflict {losers or 'over'}"
        case Lost(path=path):
            return "a value whose path cannot be read is lost here" if path is None else f"{visible(path)} lost here"
    assert_never(event)


def _map(event: WatchEvent, meta: bool) -> dict[str, object]:
    match event:
        case Change():
            found: dict[str, object] = {"path": str(event.path)}
            found |= {"deleted": True} if event.is_deleted else {"value": event.value}
            found |= {"expired": True} if event.is_expired else {}
            if meta:
                found |= {"change": tick_text(*event.link), "tock": event.tock, "time": event.time}
                found |= fence_map(event.fence) | _token_map(event.token)
            return found
        case Missed(counts=counts):
            return {"missed": dict(sorted(counts.items())), **(_token_map(event.token) if meta else {})}
        case Resync():
            return {"resync": True}
        case UpToDate():
            return {"uptodate": True, **_token_map(event.token)}
        case Contested():
            return {"path": str(event.path), "conflict": [tick_text(*loser) for loser in event.losers]}
        case Lost(path=path):
            return {"path": None if path is None else str(path), "lost": True}
    assert_never(event)


def _shown_token(token: bytes | None) -> str:
    return "" if token is None else f" {token.hex()}"


def _token_map(token: bytes | None) -> dict[str, object]:
    return {} if token is None else {"token": token.hex()}


def _read_token(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise SettingsError(f"--since {text}: write a token that 'watch -m' printed") from None
