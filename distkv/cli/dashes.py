"""Arguments that begin with a dash, and are no options.

Knows: what looks like a number, and what was probably meant as text.  Does not know what the arguments are for.

Invariant: what is taken for an option, and cannot be one, is refused with the way to write it as text.
"""

from __future__ import annotations

import os

import asyncclick as click

from distkv.cli.input import STDIN

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


class ValueCommand(NumbersCommand):
    """The same, where an argument is text that may begin with a dash: who forgets the `--` before it is told."""

    async def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = await super().parse_args(ctx, list(args))
        except click.UsageError as error:
            if not isinstance(error, click.NoSuchOption) and not any(map(_has_letters, args)):
                raise
            what = error.format_message()
            raise click.UsageError(f"{what}{'' if what.endswith(('?', '.')) else '.'} {self._hint}", ctx) from None
        _check_file(ctx, args, self._hint)
        return rest

    @property
    def _hint(self) -> str:
        *_, last = [str(param.name) for param in self.params if isinstance(param, click.Argument)]
        return f"A {last.upper()} that begins with '-' goes after '--'"


def _check_file(ctx: click.Context, args: list[str], hint: str) -> None:
    """`-foo` is the option -f with the file `oo`; where there is none, the text was meant."""
    file = ctx.params.get("file")
    if isinstance(file, str) and file != STDIN and not os.path.exists(file):
        text = next((arg for arg in args if _has_letters(arg) and arg.endswith(file)), None)
        if text is not None:
            raise click.UsageError(f"{text!r} is -f {file}, and there is no such file. {hint}", ctx)


def _has_letters(arg: str) -> bool:
    """Whether it begins with one dash, and more than the letter of an option follows."""
    return arg[:1] == "-" and arg[1:2] != "-" and len(arg) > 2
