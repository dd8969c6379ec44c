"""`distkv config show` and `check`: what a server would be told, and what is wrong with it.

Knows: what is printed.  Does not know keys, files, nor what is a mistake (`settings`).

Invariant: nothing is changed, and no secret is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import asyncclick as click

from distkv.cli.exits import DONE, USAGE
from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.settings import Given, effective_settings, find_file, find_mistakes
from distkv.text.display import text_of
from distkv.wire.json_form import to_json


@click.group("config")
def config() -> None:
    """Show and check the configuration of 'distkv server'."""


# -- show ---------------------------------------------------------------------------------------------------------


@config.command("show")
@click.argument("file", required=False, type=click.Path())
@click.option("--origin", is_flag=True, help="Print also where each value comes from: FILE:LINE, -C, or 'default'.")
@output_option
@click.pass_obj
def show_command(session: CliSession, file: str | None, origin: bool, form: str | None) -> Job:
    """Print every setting in use: from the defaults, from FILE, and from -C before 'config'.

    Without FILE it reads the file of -c, or the file that 'distkv server' would read. As YAML, the output is again a
    configuration, but without secrets. Keys without a value are left out.
    """
    return partial(_show, session, file, origin, Form(form) if form else session.form)


def _show(session: CliSession, file: str | None, origin: bool, form: Form) -> None:
    found = effective_settings(file or session.config_file, session.assignments)
    if not origin:
        print_result(_nested(found), form)
    elif form is Form.TEXT:
        print_items(_lines(found), form)
    else:
        print_result({key: {"value": _plain(one.value), "from": one.where} for key, one in found.items()}, form)


def _nested(found: dict[str, Given]) -> dict[str, object]:
    """As the file has it."""
    root: dict[str, object] = {}
    for key, one in found.items():
        section, _, name = key.rpartition(".")
        inner = root.setdefault(section, {}) if section else root
        assert isinstance(inner, dict)
        inner[name] = _plain(one.value)
    return root


def _lines(found: dict[str, Given]) -> Iterator[str]:
    for key, one in found.items():
        value = _plain(one.value)
        yield f"{key}: {to_json(value) if isinstance(value, list) else text_of(value)}  ({one.where})"


def _plain(value: object) -> object:
    match value:
        case tuple():
            return list(value)
        case Path():
            return str(value)
    return value


# -- check --------------------------------------------------------------------------------------------------------


@config.command("check")
@click.argument("file", required=False, type=click.Path())
@output_option
@click.pass_obj
def check_command(session: CliSession, file: str | None, form: str | None) -> Job:
    """Print every mistake in FILE, and in -C before 'config', with file, line and key; fails with 2 if there is one.

    Without FILE it reads the file of -c, or the file that 'distkv server' would read. It also reads the files of
    secrets. Mistakes go to standard error; with another form than text they are also the result.
    """
    return partial(_check, session, file, Form(form) if form else session.form)


def _check(session: CliSession, file: str | None, form: Form) -> int:
    path = find_file(file or session.config_file)
    mistakes = find_mistakes(file or session.config_file, session.assignments)
    for where, what in mistakes:
        complain(f"{where}: {what}")
    if form is not Form.TEXT:
        shown = [{"where": where, "problem": what} for where, what in mistakes]
        print_result({"file": None if path is None else str(path), "mistakes": shown}, form)
    elif not mistakes:
        print_result(f"{path or 'no file is there, all is default'}: no mistakes", form)
    return USAGE if mistakes else DONE
