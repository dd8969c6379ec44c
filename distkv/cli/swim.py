"""`distkv swim`: groups without a store, and secrets for them and for nodes without an agent.

Knows: the options of its commands.  Does not know how one takes part (`swim_member`), nor what a secret seals.

Invariant: what `keygen` prints is random, and was nowhere before. What takes part loads only what that needs.
"""

from __future__ import annotations

import os
from functools import partial

import asyncclick as click

from distkv.cli.output import Form, check_stdout
from distkv.cli.session import CliSession, Decorated, Job, output_option
from distkv.cli.swim_call import GROUP, GroupCall
from distkv.config import FILE, SECRET_BYTES
from distkv.swim.keyring import Keyring, keyring_text


def group_options(command: Decorated) -> Decorated:
    """What both commands that take part ask for."""
    secret = click.option(
        "--secret-file", metavar="FILE", type=click.Path(),
        help="Holds what 'distkv swim keygen' prints. Needed beyond this host.",
    )  # fmt: skip
    group = click.option(
        "--group", metavar="NAME", default=GROUP, help=f"Only members of one group hear each other. [{GROUP}]"
    )
    return secret(group(command))


@click.group("swim")
def swim_group() -> None:
    """Take part in a group without a store; make secrets."""


@swim_group.command("run")
@click.argument("name")
@click.option("--bind", metavar="HOST:PORT", required=True, help="Where to listen (UDP), and where others answer.")
@click.option("--join", metavar="HOST:PORT", multiple=True, help="A member that may be there; may be repeated.")
@group_options
@output_option
@click.pass_obj
def run_command(
    session: CliSession, name: str, bind: str, join: tuple[str, ...], secret_file: str | None, group: str,
    form: str | None,
) -> Job:  # fmt: skip
    """Be the member NAME of a group until Ctrl-C or SIGTERM; then leave it.

    Prints a line for each change of a member, and for each message of another one. Each line of standard input is said
    to all, up to 960 bytes. When nobody reads the output, later lines are counted in a line 'missed'.
    """
    check_stdout()
    return partial(_run, _place(bind, join, secret_file, group), name, Form(form) if form else session.form)


@swim_group.command("members")
@click.argument("address", metavar="HOST:PORT")
@group_options
@output_option
@click.pass_obj
def members_command(
    session: CliSession, address: str, secret_file: str | None, group: str, form: str | None
) -> Job:
    """Print the members of a group, as the member at HOST:PORT knows them.

    Only members are told who is there. So it joins, under the name 'asking-' with a number, asks, and leaves at once.
    Members remember that one as left, for a day. Servers are in the group 'distkv', unless swim.group says otherwise.
    Fails with 5 if nobody of the group answers.
    """
    check_stdout()
    return partial(_members, _place("", (address,), secret_file, group), Form(form) if form else session.form)


@swim_group.command("keygen")
def keygen_command() -> Job:
    """Print a new secret for cluster.secret, or for the file that it names."""
    return _keygen


def _place(bind: str, join: tuple[str, ...], secret_file: str | None, group: str) -> GroupCall:
    secrets = () if secret_file is None else (f"{FILE}{os.path.abspath(secret_file)}",)
    return GroupCall(bind, join, secrets, group)


def _run(call: GroupCall, name: str, form: Form) -> None:
    from distkv.cli.swim_member import be_member

    be_member(call, name, form)


def _members(call: GroupCall, form: Form) -> None:
    from distkv.cli.swim_member import print_members

    print_members(call, form)


def _keygen() -> None:
    print(keyring_text(Keyring((os.urandom(SECRET_BYTES),))), end="")
