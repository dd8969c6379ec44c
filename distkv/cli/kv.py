"""`distkv client get`, `set`, `delete`: values.

Knows: their options and what they print.  Does not know the client protocol, nor whole trees (`tree`).

Invariant: a command prints a result or fails with one line; `set` and `delete` print nothing when they did it.
"""

from __future__ import annotations

from functools import partial

import asyncclick as click
import attrs

from distkv.cli import exits, tree
from distkv.cli.entry import shown
from distkv.cli.history import read_moment
from distkv.cli.output import Form, complain, print_result
from distkv.cli.session import Decorated, Job, Session, output_option
from distkv.cli.suggestions import suggest_paths
from distkv.cli.values import read_argument, read_link, read_value
from distkv.client.blocking import Client
from distkv.client.questions import Written
from distkv.errors import NotFoundError, SettingsError
from distkv.model.event import Link
from distkv.model.path import Path
from distkv.wire.events import TTL_S_MAX
from distkv.wire.request import REPLICAS_MAX, REPLICAS_S, WAIT_S_MAX
from distkv.wire.values import pack_value

_SHIELD = "\0"
"""Put before a negative number on the command line, so that it is not taken for an option; no argument can hold it."""


class NumbersCommand(click.Command):
    """A command whose arguments may be negative numbers: `set PATH -5` means what it says."""

    async def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        shielded = [_SHIELD + arg if _is_negative(arg) else arg for arg in args]
        rest = await super().parse_args(ctx, shielded)
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(_SHIELD)
        return rest


def _is_negative(argument: str) -> bool:
    """Whether it begins like a negative number; no option does."""
    return argument[:1] == "-" and (argument[1:2].isdecimal() or argument[1:2] == ".")


# -- get ----------------------------------------------------------------------------------------------------------


@click.command("get", cls=NumbersCommand)
@click.argument("path", shell_complete=suggest_paths)
@click.option("-r", "--recursive", is_flag=True, help="Print all values at and below PATH.")
@click.option("--depth", metavar="N", help="With -r, at most so many names below PATH.")
@click.option("--at", metavar="TIME", help="What the node held then; ISO 8601 (UTC), or seconds since 1970.")
@click.option("-m", "--meta", is_flag=True, help="Show also which change made it, what that knew, and when.")
@click.option("--default", metavar="VALUE", help="Print this when there is no value, instead of failing with 3.")
@output_option
@click.pass_obj
def get_command(
    session: Session,
    path: str,
    recursive: bool,
    depth: str | None,
    meta: bool,
    at: str | None,
    default: str | None,
    form: str | None,
) -> Job:
    """Print the value of PATH.

    As text, scalars are printed bare and the rest as YAML; raw prints text and bytes as they are. With -r, each
    value is a line 'path: value', or as JSON a document in a line.
    """
    wanted = Form(form) if form else session.form
    where = Path.parse(path)
    moment = None if at is None else read_moment(at)
    if recursive:
        if at is not None:
            raise SettingsError("--at is for one value: leave out -r, or --at")
        if default is not None:
            raise SettingsError("--default is for one value: leave out -r, or --default")
        return partial(tree.print_tree, session, where, tree.read_depth(depth), meta, wanted)
    if depth is not None:
        raise SettingsError("--depth is for whole trees: add -r, or leave it out")
    fallback = None if default is None else {"value": read_argument(default)}
    return partial(_get, session, where, moment, meta, fallback, wanted)


def _get(
    session: Session, path: Path, at: float | None, meta: bool, fallback: dict[str, object] | None, form: Form
) -> None:
    with Client(session.addresses) as client:
        entry = client.get(path, at=at)
    found = fallback if entry is None else shown(entry, form)
    if found is None:
        raise NotFoundError(f"{path} has no value: set one with 'distkv client set', or ask with --default")
    print_result({"path": str(path), **found} if meta else found["value"], form)


# -- how many nodes hold a write ----------------------------------------------------------------------------------


@attrs.frozen
class _Wish:
    """On how many nodes a write shall be before the command ends well."""

    replicas: int
    timeout_s: float


def _wish_options(command: Decorated) -> Decorated:
    """--replicas and --timeout, read by `_read_wish`."""
    timeout = click.option(
        "--timeout",
        metavar="SECONDS",
        help=f"With --replicas, wait no longer: the write stands, and the exit code is 1. [default: {REPLICAS_S:g}]",
    )
    replicas = click.option("--replicas", metavar="N", help="Wait until N nodes hold it, the one asked included.")
    return replicas(timeout(command))


def _read_wish(replicas: str | None, timeout: str | None) -> _Wish:
    """What the options say.

    Raises:
        SettingsError: a number that is none, or a timeout of nothing.
    """
    if replicas is None:
        if timeout is not None:
            raise SettingsError("--timeout is for --replicas: add that, or leave it out")
        return _Wish(1, 0.0)
    if not (replicas.isascii() and replicas.isdecimal() and 1 <= int(replicas[:9]) <= REPLICAS_MAX):
        raise SettingsError(f"--replicas is {replicas!r}: it must be a number from 1 to {REPLICAS_MAX}")
    return _Wish(int(replicas[:9]), REPLICAS_S if timeout is None else _read_timeout(timeout))


def _read_timeout(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= WAIT_S_MAX:
        raise SettingsError(f"--timeout is {text!r}: it must be seconds, from 0 to {WAIT_S_MAX:g}")
    return found


def _judge(done: str, written: Written, wish: _Wish) -> int:
    """The exit code; where too few nodes hold it, it is said."""
    if written.replicas >= wish.replicas:
        return exits.DONE
    count = f"{written.replicas} of {wish.replicas}"
    complain(f"{done}, but after {wish.timeout_s:g} s only {count} nodes are known to hold it")
    return exits.FAILED


# -- set ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Conditions:
    new: bool
    idem: bool
    head: Link | None
    previous: bytes | None
    ttl: float | None


@click.command("set", cls=NumbersCommand)
@click.argument("path", shell_complete=suggest_paths)
@click.argument("value", required=False)
@click.option("-s", "--string", "as_text", is_flag=True, help="VALUE is text as it stands.")
@click.option("-j", "--json", "as_json", is_flag=True, help='VALUE is JSON; bytes are {"$bytes": "base64"}.')
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    type=click.Path(),
    help="Read the value from FILE: YAML, or as -s or -j says. '-' is stdin.",
)
@click.option("--new", is_flag=True, help="Only when there is no value.")
@click.option("--if-chain", metavar="NODE:TICK", help="Only when this is the last change of PATH; see 'get -m'.")
@click.option("--if-value", metavar="VALUE", help="Only when the value is this one.")
@click.option("--idem", is_flag=True, help="Do nothing when the value is the same already.")
@click.option("--ttl", metavar="SECONDS", help="Let it go by itself after so long, unless it is stored again before.")
@_wish_options
@click.pass_obj
def set_command(
    session: Session,
    path: str,
    value: str | None,
    as_text: bool,
    as_json: bool,
    file: str | None,
    new: bool,
    if_chain: str | None,
    if_value: str | None,
    idem: bool,
    ttl: str | None,
    replicas: str | None,
    timeout: str | None,
) -> Job:
    """Store VALUE at PATH.

    VALUE is a YAML scalar or flow collection: 21, -5, true, [1, 2], {a: 1}, or text. Dates, '#c' and '' are text.
    '-' is standard input; -s or quotes make text of anything. Conditions are judged on the node that is asked.
    """
    wish = _read_wish(replicas, timeout)
    where = Path.parse(path)
    packed = pack_value(read_value(value, file, as_text=as_text, as_json=as_json))
    head = None if if_chain is None else read_link(if_chain)
    previous = None if if_value is None else pack_value(read_argument(if_value))
    if ttl is not None and idem:
        raise SettingsError("--ttl is not for --idem, which would not renew it: leave one out")
    seconds = None if ttl is None else _read_ttl(ttl)
    return partial(_set, session, where, packed, _Conditions(new, idem, head, previous, seconds), wish)


def _read_ttl(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= TTL_S_MAX:
        raise SettingsError(f"--ttl is {text!r}: it must be seconds, above 0 and at most {TTL_S_MAX:g}")
    return found


def _set(session: Session, path: Path, value: bytes, conditions: _Conditions, wish: _Wish) -> int:
    with Client(session.addresses) as client:
        written = client.set_packed(path, value, **attrs.asdict(conditions, recurse=False), **attrs.asdict(wish))
    return _judge("stored", written, wish)


# -- delete -------------------------------------------------------------------------------------------------------


@click.command("delete")
@click.argument("path", shell_complete=suggest_paths)
@click.option("-r", "--recursive", is_flag=True, help="Delete all values at and below PATH.")
@_wish_options
@click.pass_obj
def delete_command(session: Session, path: str, recursive: bool, replicas: str | None, timeout: str | None) -> Job:
    """Delete the value of PATH; fails with 3 when there is none."""
    where = Path.parse(path)
    if recursive:
        if replicas is not None or timeout is not None:
            raise SettingsError("--replicas and --timeout are for one value: leave out -r, or them")
        return partial(tree.delete_tree, session, where)
    return partial(_delete, session, where, _read_wish(replicas, timeout))


def _delete(session: Session, path: Path, wish: _Wish) -> int:
    with Client(session.addresses) as client:
        written = client.set_packed(path, None, **attrs.asdict(wish))
    if not written.changed:
        raise NotFoundError(f"{path} has no value: nothing was deleted")
    return _judge("deleted", written, wish)
