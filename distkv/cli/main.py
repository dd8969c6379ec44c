"""The command `distkv` as a whole: global options, the groups, and what every ending looks like.

Knows: how a command line becomes a job, how jobs fail, and the exit codes.  Does not know what the commands do.

The command line is read by coroutines, because the library is written so; they never wait for anything, so no event
loop runs until `distkv server` starts its own.  Hence `distkv --help` and the client commands load none, and Ctrl-C
meets plain code.  What a command needs is loaded when it is called: most calls ask a node for one value.

Invariant: a failure is one line on stderr, never a traceback but with -vvv.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import TypeVar

import asyncclick as click

from distkv import __version__
from distkv.cli import exits
from distkv.cli.commands import Commands
from distkv.cli.output import Form, complain, give_up
from distkv.cli.session import COMPLETION_VARIABLE, TRACEBACKS, CliSession, output_option
from distkv.cli.suggestions import suggest_log_levels, suggest_settings
from distkv.errors import DistkvError

Result = TypeVar("Result")

COMMANDS = Commands(
    {
        "server": "server:server",
        "client": "client:client",
        "restore": "backup:restore_command",
        "config": "config:config",
        "completion": "completion:completion_command",
        "doctor": "doctor:doctor_command",
        "swim": "swim:swim_group",
        "pipeline": "pipeline:pipeline",
        "sim": "sim:sim_command",
        "graph": "graph:graph_command",
    }
)


def main() -> None:
    """What the installed script calls."""
    session = CliSession()

    def report(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
        """Tell of a mistake of ours; Python exits with 1 after it."""
        if issubclass(kind, KeyboardInterrupt):
            return
        if session.verbosity >= TRACEBACKS:
            traceback.print_exception(kind, error, place)
        complain(f"internal error: {kind.__name__}: {error}; -vvv shows where: please report it")

    sys.excepthook = report
    sys.exit(run(sys.argv[1:], session))


def run(arguments: Sequence[str], session: CliSession | None = None) -> int:
    """Carry out one command line; the exit code."""
    session = session or CliSession()
    try:
        if COMPLETION_VARIABLE in os.environ:
            from distkv.cli.completion import answer, asking_shell

            shell = asking_shell()
            if shell is not None:
                click.echo(_read_to_end(answer(everything, shell, arguments)), nl=False)
                return exits.DONE
        job = _read_to_end(everything.main(list(arguments), "distkv", standalone_mode=False, obj=session))
        code = job() if callable(job) else job
        return exits.DONE if code is None else code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return exits.USAGE
    except click.UsageError as error:
        complain(_usage_line(error))
        return exits.USAGE
    except DistkvError as error:
        if session.verbosity >= TRACEBACKS:
            traceback.print_exception(error)
        complain(f"{error}{exits.advice(error)}")
        return exits.exit_code(error)
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        give_up(sys.stdout)  # who reads our output has seen enough
        return exits.FAILED
    except OSError as error:
        if session.verbosity >= TRACEBACKS:
            traceback.print_exception(error)
        complain(f"{error.filename or 'output'}: {error.strerror or error}")
        if error.filename is None:
            give_up(sys.stdout)
        return exits.FAILED


@click.group("distkv", commands=COMMANDS, context_settings={"max_content_width": 100})
@click.option("-v", "--verbose", count=True, help="Show more; may be repeated. -vvv shows tracebacks.")
@click.option("-q", "--quiet", count=True, help="Show less; may be repeated.")
@click.option(
    "--log",
    "log_options",
    metavar="SRC=LEVEL",
    multiple=True,
    shell_complete=suggest_log_levels,
    help="The log level of one part of a server, such as engine=debug; may be repeated.",
)
@click.option(
    "-c", "--config", "config_file", metavar="FILE", type=click.Path(), help="The configuration. [env: DISTKV_CONFIG]"
)
@click.option(
    "-C",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=suggest_settings,
    help="Set one key of the configuration; may be repeated.",
)
@output_option
@click.version_option(__version__, prog_name="distkv", message="%(prog)s %(version)s")
@click.pass_obj
def everything(
    session: CliSession,
    verbose: int,
    quiet: int,
    log_options: tuple[str, ...],
    config_file: str | None,
    assignments: tuple[str, ...],
    form: str | None,
) -> None:
    """A replicated path-keyed store that takes writes on every side of a broken network."""
    session.verbosity = verbose - quiet
    if log_options:
        from distkv.cli.logs import read_log_option

        session.log_levels = dict(map(read_log_option, log_options))
    session.config_file = config_file
    session.assignments = assignments
    session.form = Form(form) if form else Form.TEXT


# -- inside -------------------------------------------------------------------------------------------------------


def _read_to_end(reading: Coroutine[object, None, Result]) -> Result:
    """Run a coroutine that waits for nothing."""
    try:
        reading.send(None)
    except StopIteration as end:
        found: Result = end.value
        return found
    reading.close()
    raise RuntimeError("reading the command line waited for something")


def _usage_line(error: click.UsageError) -> str:
    """What is wrong, in one line, and where help is."""
    what = " ".join(error.format_message().split())
    what = what[:1].lower() + what[1:].rstrip(".")
    if isinstance(error, click.exceptions.NoSuchCommand) and error.ctx and not error.ctx.parent:
        from distkv.cli.client import client_commands

        if error.command_name in client_commands():
            what = f"no such command {error.command_name!r}, but 'distkv client {error.command_name}'"
    command = error.ctx.command_path if error.ctx else "distkv"
    return f"{what} (see '{command} --help')"
