"""`distkv server`: run a node in the foreground.

Knows: its options.  Does not know what a node is: `daemon` does.

Invariant: what can be known to be wrong is refused before anything is started, bound or written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import asyncclick as click
import attrs

from distkv.cli.exits import DONE, exit_code
from distkv.cli.logs import TEXT, log_to_stderr
from distkv.cli.session import TRACEBACKS, CliSession, Job
from distkv.cli.settings import read_settings
from distkv.cli.values import pack_argument
from distkv.config import TRANSPORTS, Config
from distkv.errors import DistkvError, SettingsError
from distkv.mount import parts
from distkv.naming import parse_address

log = logging.getLogger("distkv.daemon")


@attrs.frozen
class ServerOption:
    """An option of `distkv server` that a service adds."""

    flag: str
    key: str
    """The setting that it is."""
    metavar: str
    help: str


def service_options() -> tuple[ServerOption, ...]:
    """Those that services add."""
    return tuple([ServerOption(*option) for part in parts("cli") for option in getattr(part, "SERVER_OPTIONS", ())])


def _parameter(key: str) -> str:
    return key.replace(".", "_")


def _with_service_options(function: Callable[..., Job]) -> Callable[..., Job]:
    for option in reversed(service_options()):
        function = click.option(option.flag, _parameter(option.key), metavar=option.metavar, help=option.help)(function)
    return function


@click.command()
@click.argument("name", required=False)
@click.option("--init", metavar="VALUE", help="Start a new network; VALUE becomes the value of the root.")
@click.option(
    "--restored",
    is_flag=True,
    help="The data directory is an old one, such as a restored disk image, or its log is damaged: continue with"
    " the intact part, and ask other nodes for the rest.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The directory of the data. [default: $XDG_STATE_HOME/distkv/NAME]",
)
@click.option("--transport", type=click.Choice(TRANSPORTS), help="How to reach other nodes. [default: serf]")
@click.option("--serf", metavar="HOST:PORT", help="The Serf agent. [default: 127.0.0.1:7373]")
@click.option(
    "--join", metavar="HOST:PORT", multiple=True,
    help="With --transport swim: a node that is there already; may be repeated.",
)  # fmt: skip
@click.option(
    "--bind", metavar="ADDRESS", multiple=True,
    help="Where to listen, HOST:PORT or unix:/PATH; may be repeated. [default: 127.0.0.1:27586]",
)  # fmt: skip
@click.option(
    "--advertise", metavar="HOST:PORT", help="Where other nodes find this one. [default: the first TCP --bind]"
)
@_with_service_options
@click.pass_obj
def server(
    session: CliSession,
    /,
    name: str | None,
    init: str | None,
    restored: bool,
    data_dir: str | None,
    transport: str | None,
    serf: str | None,
    join: tuple[str, ...],
    bind: tuple[str, ...],
    advertise: str | None,
    **of_services: str | None,
) -> Job:
    """Run the node NAME in the foreground, until SIGTERM or Ctrl-C.

    A node without data joins the network that its transport reaches; start the first node with --init.
    When it serves clients it prints one line on stdout; logs go to stderr. NAME may also be in the configuration.
    """
    if restored and init is not None:
        raise click.UsageError("--restored is for a directory that holds data, --init for one that holds none")
    given = given_options(name, data_dir, transport, serf, bind, advertise, join)
    given |= {
        option.key: (option.flag, value)
        for option in service_options()
        if (value := of_services[_parameter(option.key)]) is not None
    }
    config = read_settings(session.config_file, session.assignments, given)
    _check_group(config, join)
    init_value = None if init is None else pack_argument(init)
    return partial(_serve, session, config, init_value, restored=restored)


def given_options(
    name: str | None,
    data_dir: str | None,
    transport: str | None,
    serf: str | None,
    bind: tuple[str, ...],
    advertise: str | None = None,
    join: tuple[str, ...] = (),
) -> dict[str, tuple[str, object]]:
    """Of the options that were given: the key that each sets, its name, and the value."""
    given: dict[str, tuple[str, object]] = {}
    for key, option, value in (
        ("node.name", "NAME", name),
        ("data.dir", "--data-dir", data_dir),
        ("transport", "--transport", transport),
        ("listen", "--bind", list(bind) or None),
        ("advertise", "--advertise", advertise),
        ("swim.join", "--join", list(join) or None),
    ):
        if value is not None:
            given[key] = (option, value)
    if serf is not None:
        host, port = parse_address(serf, "--serf")
        given |= {"serf.host": ("--serf", host), "serf.port": ("--serf", port)}
    return given


def _check_group(config: Config, join: tuple[str, ...]) -> None:
    """Refuse what only nodes of the transport swim would heed.

    Raises:
        SettingsError: it was given, and the transport is another one.
    """
    if config.transport == "swim":
        return
    if join:
        raise SettingsError(
            f"--join {join[0]} is for the transport swim, and this is {config.transport}: add --transport swim, or"
            " leave --join out"
        )
    if config.cluster.secret is not None:
        raise SettingsError(
            f"cluster.secret seals what nodes of the transport swim send, and this is {config.transport}, where nothing"
            " is sealed: set transport to swim, or take the secret out"
        )


def _serve(session: CliSession, config: Config, init_value: bytes | None, *, restored: bool) -> int:
    import trio  # only here: everything else starts faster without

    from distkv.core.ready import Beginning
    from distkv.daemon.main import serve

    log_to_stderr(config.log.format, session.verbosity, session.log_levels)
    try:
        trio.run(serve, config, Beginning(init_value, restored))
    except DistkvError as error:
        if config.log.format == TEXT:
            raise
        log.critical("ended reason=%s", error, exc_info=error if session.verbosity >= TRACEBACKS else None)
        return exit_code(error)
    return DONE
