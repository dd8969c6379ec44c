"""What one run of the command was told before its command group: the global options.

Knows: how commands get at them.  Does not know any command.

Invariant: filled once, by the group `distkv`; the commands below only read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import asyncclick as click
import attrs

from distkv.cli.output import Form
from distkv.client.addresses import DEFAULT_ADDRESS, Address, read_address
from distkv.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job: TypeAlias = Callable[[], int | None]
"""What a command returns: its work, which may give the exit code. It runs when the command line was read to its end."""

TRACEBACKS: Final = 3
"""From this many -v on, errors come with the place in the program where they arose."""

COMPLETION_VARIABLE: Final = "_DISTKV_COMPLETE"
"""The environment variable that names the shell whose script wants to know how a command line may go on."""

Decorated = TypeVar("Decorated", bound=Callable[..., object])
Value = TypeVar("Value")


@attrs.frozen
class SparkPlace:
    """Where Spark works, and its settings."""

    master: str = "local[*]"
    conf: Mapping[str, str] = attrs.field(factory=dict)


class BeginSpark(Protocol):
    """How a job comes by Spark, and leaves it: `spark.session.session`, or somebody else's session that stays."""

    def __call__(
        self, master: str, conf: Mapping[str, str], *, shows_logs: bool
    ) -> AbstractContextManager[SparkSession]: ...


@attrs.define
class CliSession:
    """The global options, and those of the groups `client` and `pipeline`."""

    verbosity: int = 0
    """How many -v, less how many -q."""
    log_levels: Mapping[str, int] = attrs.field(factory=dict)
    """What --log says: the level of each source that it names."""
    config_file: str | None = None
    assignments: tuple[str, ...] = ()
    form: Form = Form.TEXT
    addresses: tuple[Address, ...] = ()
    spark: SparkPlace = attrs.field(factory=lambda: SparkPlace())
    """Of the group `pipeline`."""
    begin_spark: BeginSpark | None = None
    """For a program that carries out jobs on a session of its own; None: Spark starts and ends with the job."""


def read_addresses(
    hosts: tuple[str, ...], port: str | None, hosts_default: str | None, port_default: str | None
) -> tuple[Address, ...]:
    """The addresses to try, in this order; the defaults are those of the environment.

    Raises:
        SettingsError: a port that is none.
    """
    where = "--port" if port else "DISTKV_PORT"
    text = port or port_default or str(DEFAULT_ADDRESS[1])
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 65536):
        raise SettingsError(f"{where} is {text!r}: it must be a number from 1 to 65535")
    names = [name for host in hosts for name in _names(host) or [""]] or _names(hosts_default or "")
    return tuple(read_address(name, int(text)) for name in names or (DEFAULT_ADDRESS[0],))


def _names(hosts: str) -> list[str]:
    """What stands between the commas."""
    return [name for name in map(str.strip, hosts.split(",")) if name]


def output_option(command: Decorated) -> Decorated:
    """-o, for every command that prints; it wins over the global one."""
    choice = click.Choice([form.value for form in Form])
    option = click.option("-o", "--output", "form", type=choice, help="How results are printed (text).")
    return option(command)


def once(_: click.Context, param: click.Parameter, values: Sequence[Value]) -> Value | None:
    """For options of which a second one would silently take the place of the first, and say something else."""
    if len(values) > 1:
        raise click.UsageError(f"{param.opts[0]} stands here {len(values)} times: give it once")
    return values[0] if values else None
