"""`distkv doctor`: the command.

Knows: its options and how a finding is printed.  Does not know the checks.

Invariant: it ends with 0 exactly when nothing failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import asyncclick as click

from distkv.cli.output import Form, print_items, print_result
from distkv.cli.server import given_options
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.settings import find_file, read_settings
from distkv.config import TRANSPORTS
from distkv.doctor.facts import Finding, Level
from distkv.errors import DistkvError, SettingsError


@click.command("doctor")
@click.argument("name", required=False)
@click.option("--data-dir", metavar="DIR", help="Where the data lies. [default: $XDG_STATE_HOME/distkv/NAME]")
@click.option("--transport", type=click.Choice(TRANSPORTS), help="How it reaches other nodes. [default: serf]")
@click.option("--serf", metavar="HOST:PORT", help="The Serf agent. [default: 127.0.0.1:7373]")
@click.option("--bind", metavar="ADDRESS", help="Where it listens, HOST:PORT or unix:/PATH. [default: 127.0.0.1:27586]")
@output_option
@click.pass_obj
def doctor_command(
    session: CliSession,
    name: str | None,
    data_dir: str | None,
    transport: str | None,
    serf: str | None,
    bind: str | None,
    form: str | None,
) -> Job:
    """Look at what commonly goes wrong with the node NAME of this host, and say what to do.

    Reads the configuration as 'distkv server' does, and takes its options. Each check prints a line that begins with
    ok, warn or fail; when one fails the exit code is 1. Nothing is changed.
    """
    given = given_options(name, data_dir, transport, serf, () if bind is None else (bind,))
    return partial(_doctor, session, given, Form(form) if form else session.form)


def _doctor(session: CliSession, given: Mapping[str, tuple[str, object]], form: Form) -> None:
    found: list[Finding] = []
    for finding in _findings(session, given):
        found.append(finding)
        if form is Form.TEXT:
            print_items([_line(finding)], form)
    if form is not Form.TEXT:
        print_result([_map(finding) for finding in found], form)
    failed = sorted({finding.check for finding in found if finding.level is Level.FAIL})
    if failed:
        raise DistkvError(f"failed: {', '.join(failed)}; the report says what to do")


def _findings(session: CliSession, given: Mapping[str, tuple[str, object]]) -> Iterator[Finding]:
    # Only here: they load an event loop and the storage.
    from distkv.doctor.checks import check_configuration
    from distkv.doctor.examination import examine

    try:
        file = find_file(session.config_file)
        config = read_settings(session.config_file, session.assignments, given)
    except SettingsError as error:
        yield check_configuration(None, str(error))
        return
    yield check_configuration(file)
    yield from examine(config)


def _line(finding: Finding) -> str:
    words = f"{finding.says}; {finding.do}" if finding.do else finding.says
    # Other nodes and agents have a say in it, and shall not steer a terminal.
    shown = "".join(c if c.isprintable() else "?" for c in words)
    return f"{finding.level:<5} {finding.check:<14} {shown}"


def _map(finding: Finding) -> dict[str, object]:
    return {"check": finding.check, "level": finding.level.value, "says": finding.says, "do": finding.do}
