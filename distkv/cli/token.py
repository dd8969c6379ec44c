"""`distkv client token`: locks.

Knows: where its commands are, and how a token, a session and a time are written.  Does not know what they do.

Invariant: what is none of these is refused before anything connects.
"""

from __future__ import annotations

import asyncclick as click

from distkv.cli.commands import Commands
from distkv.client import arguments, token_arguments
from distkv.errors import RequestError, SettingsError

COMMANDS = Commands(
    {
        "acquire": "token_sessions:acquire_command",
        "release": "token_sessions:release_command",
        "renew": "token_sessions:renew_command",
        "data": "token_sessions:data_command",
        "run": "token_run:run_command",
        "list": "token_views:list_command",
        "show": "token_views:show_command",
        "watch": "token_views:watch_command",
        "break": "token_views:break_command",
        "servers": "token_views:servers_command",
        "reset": "token_views:reset_command",
    }
)


@click.group("token", commands=COMMANDS)
def token_group() -> None:
    """Locks: hold a token, alone or shared, while something is done.

    They need the setting tokens.servers on the nodes.
    """


def read_token_name(text: str) -> str:
    """The name of a token.

    Raises:
        SettingsError: no token can have it.
    """
    try:
        return token_arguments.as_token(text)
    except RequestError as error:
        raise SettingsError(str(error)) from None


def read_session_id(text: str) -> str:
    """A session, as `acquire` printed it.

    Raises:
        SettingsError: it is none.
    """
    try:
        return token_arguments.as_session(text)
    except RequestError:
        raise SettingsError(f"--session is {text!r}: give it as 'token acquire' printed it, behind the fence") from None


def read_span(option: str, text: str | None, high: float) -> float | None:
    """Seconds; None where nothing was given.

    Raises:
        SettingsError: they are none, or too many.
    """
    if text is None:
        return None
    try:
        return arguments.as_seconds(option, float(text), 0, high)
    except (ValueError, RequestError):
        raise SettingsError(f"{option} is {text!r}: give seconds, from 0 to {high:g}") from None
