"""`distkv client backup` and `distkv restore`: a whole node, out and in.

Knows: their options, and that a file appears whole or not at all.  Does not know what is in it.

Invariant: nothing that exists is overwritten.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import asyncclick as click

from distkv.cli.input import STDIN, standard_input
from distkv.cli.output import Form, binary_stdout, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.client.blocking import Client
from distkv.errors import ExistsError, SettingsError


@click.command("backup")
@click.option("-f", "--file", metavar="FILE", type=click.Path(), required=True, help="The new file, or '-' for stdout.")
@click.pass_obj
def backup_command(session: CliSession, file: str) -> Job:
    """Write a copy of the whole node to FILE, its history and ledger included.

    The node keeps running, and for a moment needs the same space again. Output on stdout is complete only if the
    command ended with 0. See 'distkv restore'.
    """
    if file == STDIN:
        return partial(_backup_to_stdout, session)
    return partial(_backup, session, Path(file))


def _backup_to_stdout(session: CliSession) -> None:
    out = binary_stdout()
    if out.isatty():
        raise SettingsError("a backup is no text for a terminal: send it to a file or a program, or name a FILE")
    with Client(session.addresses) as client:
        out.writelines(client.backup())
        out.flush()


def _backup(session: CliSession, path: Path) -> None:
    if path.exists():
        raise ExistsError(f"{path} is there already: name a new file")
    with Client(session.addresses) as client:
        try:
            descriptor, part = tempfile.mkstemp(prefix=f"{path.name}-", dir=path.parent)
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror}") from None
        try:
            with open(descriptor, "wb") as out:
                out.writelines(client.backup())
                out.flush()
                os.fsync(out.fileno())
            os.rename(part, path)
        finally:
            Path(part).unlink(missing_ok=True)


@click.command("restore")
@click.option(
    "-f", "--file", metavar="FILE", type=click.Path(), required=True,
    help="The output of 'distkv client backup'; '-' is stdin.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    required=True,
    help="A new directory, for 'distkv server --data-dir'.",
)
@click.option("--unsealed", is_flag=True, help="FILE is of a release that put no checksum at its end.")
@output_option
@click.pass_obj
def restore_command(session: CliSession, file: str, data_dir: str, unsealed: bool, form: str | None) -> Job:
    """Make a data directory from a backup.

    The node that starts from it begins a new life: it does not use ticks again that it used after the backup. Its later
    writes come back from the other nodes, as far as they have them. Never run the old node at the same time.
    """
    return partial(_restore, file, Path(data_dir), not unsealed, Form(form) if form else session.form)


def _restore(file: str, data_dir: Path, is_sealed: bool, form: Form) -> None:
    from distkv.daemon.restore import restore

    stream = standard_input("backup") if file == STDIN else None
    name = restore("standard input" if stream else file, data_dir, stream, is_sealed=is_sealed)
    if form is Form.TEXT:
        line = f"{data_dir}: {name} as of the backup; it begins a new life when it starts, never run the old one again"
        print_items([line], form)
    else:
        print_result({"node": name, "data_dir": str(data_dir)}, form)
