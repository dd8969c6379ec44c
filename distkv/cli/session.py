"""What one run of the command was told before its command group: the global options.

Knows: how commands get at them.  Does not know any command.

Invariant: filled once, by the group `distkv`; the commands below only read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import asyncclick as click
import attrs

from distkv.cli.output import Form
from distkv.client.addresses import Address

Job: TypeAlias = Callable[[], int | None]
"""What a command returns: its work. It runs when the command line has been read to its end; it may say how to exit."""

Decorated = TypeVar("Decorated", bound=Callable[..., object])


@attrs.define
class Session:
    """The global options, and those of the group `client`."""

    verbosity: int = 0
    """How many -v, less how many -q."""
    config_file: str | None = None
    assignments: tuple[str, ...] = ()
    form: Form = Form.TEXT
    addresses: tuple[Address, ...] = ()


def output_option(command: Decorated) -> Decorated:
    """-o, for every command that prints; it wins over the global one."""
    choice = click.Choice([form.value for form in Form])
    option = click.option("-o", "--output", "form", type=choice, help="How results are printed (text).")
    return option(command)
