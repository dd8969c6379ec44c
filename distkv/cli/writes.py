"""`distkv client set`, `delete`: values into a node, and what every write prints when it was done.

Knows: their options, how many nodes a write waits for, and what stays in a tree.  Does not know the client protocol,
nor how values are written (`values`).

Invariant: a write that was done prints which change it was, unless -q was said; one that could not be told of is not
begun.
"""

from __future__ import annotations

from functools import partial

import asyncclick as click
import attrs

from distkv.cli import exits
from distkv.cli.dashes import ValueCommand
from distkv.cli.output import Form, check_stdout, complain, print_result
from distkv.cli.session import CliSession, Decorated, Job, output_option
from distkv.cli.suggestions import suggest_paths
from distkv.cli.values import DELETING, read_aside, read_fence, read_link, read_value, slashed
from distkv.client.blocking import Client
from distkv.client.questions import DeletedCount, Written
from distkv.errors import FencedError, NotFoundError, SettingsError
from distkv.model.event import Link, tick_text
from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.wire.events import TTL_S_MAX
from distkv.wire.replicated import REPLICAS_MAX, REPLICAS_S
from distkv.wire.row import WAIT_S_MAX
from distkv.wire.values import pack_value

# -- what is printed ----------------------------------------------------------------------------------------------


@attrs.frozen
class WriteReport:
    """How a write tells what it did."""

    form: Form
    is_quiet: bool

    @classmethod
    def of(cls, session: CliSession, form: str | None) -> WriteReport:
        """As the options say.

        Raises:
            OSError: stdout is closed, and something is to be printed.
        """
        found = cls(Form(form) if form else session.form, session.verbosity < 0)
        if not found.is_quiet:
            check_stdout()
        return found

    def tell_write(self, written: Written, **more: object) -> None:
        """The change that the path shows now: as text alone, else with whether that is news."""
        change = None if written.link is None else tick_text(*written.link)
        if self.form in (Form.TEXT, Form.RAW):
            self._tell(change)
        else:
            self._tell({"changed": written.changed, **({} if change is None else {"change": change}), **more})

    def tell_count(self, count: DeletedCount) -> None:
        """How many values were deleted, and in a map also how many stayed."""
        fenced = {"fenced": count.fenced} if count.fenced else {}
        what = int(count) if self.form is Form.TEXT else {"count": int(count), **fenced}
        self._tell(str(count) if self.form is Form.RAW else what)

    def _tell(self, what: object) -> None:
        if what is not None and not self.is_quiet:
            print_result(what, self.form)


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
        help=f"With --replicas, wait no longer: the write stays, and the exit code is 1. [default: {REPLICAS_S:g}]",
    )
    replicas = click.option("--replicas", metavar="N", help="Wait until N nodes hold it, including the asked one.")
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


def _judge(done: str, written: Written, wish: _Wish, report: WriteReport) -> int:
    """Tell what was done; the exit code. Where too few nodes hold it, it is said."""
    report.tell_write(written, **({"replicas": written.replicas} if wish.replicas > 1 else {}))
    if written.replicas >= wish.replicas:
        return exits.DONE
    count = f"{written.replicas} of {wish.replicas}"
    complain(f"{done}, but after {wish.timeout_s:g} s only {count} nodes are known to hold it")
    return exits.FAILED


# -- conditions ---------------------------------------------------------------------------------------------------


def _head_options(command: Decorated) -> Decorated:
    """--if-chain and --if-value, read by `_read_head` and `_read_previous`."""
    chain = click.option(
        "--if-chain", metavar="NODE:TICK", help="Only if this is the last change of PATH; see 'get -m'."
    )
    value = click.option("--if-value", metavar="VALUE", help="Only if this is the present value.")
    return chain(value(command))


def _read_head(if_chain: str | None) -> Link | None:
    return None if if_chain is None else read_link(if_chain)


def _read_previous(if_value: str | None) -> bytes | None:
    return None if if_value is None else pack_value(read_aside("--if-value", if_value))


# -- fences -------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Fencing:
    """What --fence and --refence say."""

    fence: Fence | None
    refence: bool


def _fence_options(command: Decorated) -> Decorated:
    """--fence and --refence, read by `_read_fencing`."""
    fence = click.option(
        "--fence",
        metavar="FENCE",
        help="Write under this fence of a token, NAME:EPOCH.COUNTER. Fails with 4 if a later holder wrote.",
    )
    refence = click.option("--refence", is_flag=True, help="Lift the fence of PATH, whoever holds its token.")
    return fence(refence(command))


def _read_fencing(fence: str | None, refence: bool) -> _Fencing:
    """What the options say.

    Raises:
        SettingsError: a fence that is none, or both options.
    """
    if fence is not None and refence:
        raise SettingsError("--fence and --refence exclude each other: one sets a fence, the other lifts it")
    return _Fencing(None if fence is None else read_fence(fence), refence)


# -- set ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Conditions:
    new: bool
    idem: bool
    head: Link | None
    previous: bytes | None
    ttl: float | None
    fencing: _Fencing


@click.command("set", cls=ValueCommand)
@click.argument("path", shell_complete=suggest_paths)
@click.argument("value", required=False)
@click.option("-s", "--string", "as_text", is_flag=True, help="VALUE is plain text.")
@click.option("-j", "--json", "as_json", is_flag=True, help='VALUE is JSON; bytes are {"$bytes": "base64"}.')
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    type=click.Path(),
    help="Read the value from FILE: YAML, or as -s or -j says. '-' is stdin.",
)
@click.option("--new", is_flag=True, help="Only if there is no value.")
@_head_options
@click.option("--idem", is_flag=True, help="Do nothing if the value is already the same, without a ttl.")
@click.option("--ttl", metavar="SECONDS", help="The value expires after this time, unless it is stored again before.")
@_fence_options
@_wish_options
@output_option
@click.pass_obj
def set_command(
    session: CliSession,
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
    fence: str | None,
    refence: bool,
    replicas: str | None,
    timeout: str | None,
    form: str | None,
) -> Job:
    """Store VALUE at PATH, and print the name of the change.

    VALUE is true, false, a number as in JSON, a list or map as [1, 2] or {a: 1}, or text. A single '-' is standard
    input, read as -s or -j says; -s or quotes make anything else text. Only the asked node checks conditions. With
    'distkv -q client', nothing is printed.
    """
    wish = _read_wish(replicas, timeout)
    where = Path.parse(path)
    packed = pack_value(read_value(value, file, as_text=as_text, as_json=as_json, instead=DELETING))
    head, previous = _read_head(if_chain), _read_previous(if_value)
    seconds = None if ttl is None else read_ttl(ttl)
    conditions = _Conditions(new, idem, head, previous, seconds, _read_fencing(fence, refence))
    return partial(_set, session, where, packed, conditions, wish, WriteReport.of(session, form))


def read_ttl(text: str) -> float:
    """The value of --ttl, in seconds.

    Raises:
        SettingsError: it is none, or longer than anything can stay.
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= TTL_S_MAX:
        raise SettingsError(f"--ttl is {text!r}: it must be seconds, above 0 and at most {TTL_S_MAX:g}")
    return found


def _set(
    session: CliSession, path: Path, value: bytes, conditions: _Conditions, wish: _Wish, report: WriteReport
) -> int:
    code = _judge("stored", _write(session, path, value, conditions, wish), wish, report)
    meant = None if report.is_quiet else slashed(path)
    if meant is not None:
        complain(f"{path} is one name, as '.' stands between names, not '/': for {meant} set that, and delete this one")
    return code


def _write(session: CliSession, path: Path, value: bytes | None, conditions: _Conditions, wish: _Wish) -> Written:
    asked = conditions
    with Client(session.addresses) as client:
        return client.set_packed(
            path, value, new=asked.new, idem=asked.idem, head=asked.head, previous=asked.previous, ttl=asked.ttl,
            fence=asked.fencing.fence, refence=asked.fencing.refence, replicas=wish.replicas, timeout_s=wish.timeout_s,
        )  # fmt: skip


# -- delete -------------------------------------------------------------------------------------------------------


@click.command("delete")
@click.argument("path", shell_complete=suggest_paths)
@click.option("-r", "--recursive", is_flag=True, help="Delete all values at and below PATH.")
@_head_options
@_fence_options
@_wish_options
@output_option
@click.pass_obj
def delete_command(
    session: CliSession,
    path: str,
    recursive: bool,
    if_chain: str | None,
    if_value: str | None,
    fence: str | None,
    refence: bool,
    replicas: str | None,
    timeout: str | None,
    form: str | None,
) -> Job:
    """Delete the value of PATH, and print the name of the change; fails with 3 if there is no value.

    With -r, print the number of deleted values. Values stay whose paths are held by tokens; then it fails with 4. With
    'distkv -q client', nothing is printed. Only the asked node checks conditions.
    """
    where = Path.parse(path)
    if recursive:
        if (replicas, timeout) != (None, None):
            raise SettingsError("--replicas and --timeout are for one value: leave out -r, or them")
        if (if_chain, if_value) != (None, None):
            raise SettingsError("--if-chain and --if-value are for one value: leave out -r, or them")
        if fence is not None or refence:
            raise SettingsError("--fence and --refence are for one value: leave out -r, or them")
        return partial(_delete_tree, session, where, WriteReport.of(session, form))
    wish = _read_wish(replicas, timeout)
    head, previous = _read_head(if_chain), _read_previous(if_value)
    conditions = _Conditions(False, False, head, previous, None, _read_fencing(fence, refence))
    return partial(_delete, session, where, conditions, wish, WriteReport.of(session, form))


def _delete(session: CliSession, path: Path, conditions: _Conditions, wish: _Wish, report: WriteReport) -> int:
    written = _write(session, path, None, conditions, wish)
    if not written.changed:
        raise NotFoundError(f"{path} has no value: nothing was deleted")
    return _judge("deleted", written, wish, report)


def _delete_tree(session: CliSession, path: Path, report: WriteReport) -> int:
    """What could be deleted is gone in any case; where something stayed, PATH is not as the user wanted it."""
    with Client(session.addresses) as client:
        count = client.delete_tree(path)
    if not count and not count.fenced:
        raise NotFoundError(f"{path} has no value, and nothing is below it: nothing was deleted")
    if not count:
        raise FencedError(f"nothing was deleted: {_held(count.fenced, path)}")
    report.tell_count(count)
    if count.fenced:
        complain(_held(count.fenced, path))
        return exits.CONFLICT
    return exits.DONE


def _held(count: int, path: Path) -> str:
    """What stayed of a tree, and what to do."""
    values = "one value" if count == 1 else f"{count} values"
    return (
        f"{values} at and below {path} stayed, because tokens hold the paths ('get -r -m' shows the fences): delete "
        "each with --fence or --refence"
    )
