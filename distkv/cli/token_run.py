"""`distkv client token run`: a command that runs while a token is held.

Knows: its options, and how session and supervisor are brought together.  Does not know how a session is kept alive
(`client.session_thread`), nor how processes are ended (`supervisor`).

Invariant: the command starts after the grant, and nothing of it is left when the token is given back, or when another
one may have it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Final

import asyncclick as click

from distkv.cli import exits
from distkv.cli.descendants import become_subreaper
from distkv.cli.output import complain
from distkv.cli.session import CliSession, Job
from distkv.cli.supervisor import SupervisorLine
from distkv.cli.token import read_span
from distkv.cli.token_sessions import REPLY_S, reach_of, read_wish
from distkv.client.addresses import address_text
from distkv.client.boot_clock import boot_ms
from distkv.client.holding import Holding
from distkv.client.session_thread import SessionThread
from distkv.client.token_wish import TokenWish, new_holding
from distkv.model.fence import Fence

GRACE_S: Final = 1.0
GRACE_S_MAX: Final = 3600.0
KILL_MS: Final = 1000
"""So much longer than the grace the servers are kept waiting, when they have taken the token: the command is gone then.
"""
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@click.command("run")
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--shared", is_flag=True, help="Others may hold it at the same time if they ask for the same.")
@click.option("--wait", metavar="SECONDS", help="Wait so long for it, in turn; else it is tried once.")
@click.option("--data", metavar="VALUE", help="A small value that everybody sees, stored with the grant.")
@click.option("--keep-data", is_flag=True, help="The data stays when nobody holds the token; else it ends then.")
@click.option(
    "--ttl", metavar="SECONDS", help="How long the session lives without an answer: at least three leases (15 s)."
)
@click.option(
    "--grace", metavar="SECONDS",
    help=f"How long COMMAND has between SIGTERM and SIGKILL when the token cannot be kept. [{GRACE_S:g}]",
)  # fmt: skip
@click.pass_obj
def run_command(
    session: CliSession,
    name: str,
    command: tuple[str, ...],
    shared: bool,
    wait: str | None,
    data: str | None,
    keep_data: bool,
    ttl: str | None,
    grace: str | None,
) -> Job:
    """Run COMMAND while the token NAME is held, and exit with its status; write '--' before COMMAND.

    Its environment has DISTKV_FENCE, for 'set --fence', DISTKV_SESSION, and in DISTKV_HOST the nodes of -h and -p.
    Fails with 4 if the token is not obtained, or cannot be kept: COMMAND and all that it started get SIGTERM --grace
    before another one may have the token, and SIGKILL then. The session lives --grace longer than its ttl for that.
    They are also ended when COMMAND itself has ended, and at once when this command is killed.
    """
    span = read_span("--grace", grace, GRACE_S_MAX)
    wish = read_wish(name, shared, wait, data, ttl, keep_data)
    return partial(_run, session, wish, GRACE_S if span is None else span, command)


def _run(session: CliSession, wish: TokenWish, grace_s: float, command: Sequence[str]) -> int:
    become_subreaper()  # should the supervisor be killed, what is below it comes to us
    grace_ms = int(grace_s * 1000)
    supervisor = SupervisorLine(command, grace_ms)  # before there are threads
    hosts = ",".join(map(address_text, session.addresses))
    run = _TokenRun(supervisor, wish, grace_ms, hosts)
    thread = SessionThread(reach_of(session), run.holding, run.look)
    old = {number: signal.signal(number, run.signalled) for number in _heeded()}
    thread.start()
    try:
        thread.wait(lambda news: news.is_decided)
        fence = thread.read(lambda holding, now_ms: holding.fence(wish.name, now_ms))
        if fence is None:
            supervisor.end()
            raise thread.news.refusal or thread.news.lost(wish.name)
        run.begin(fence)
        status, is_lost = supervisor.wait()
    except _Stopped as stopped:
        supervisor.end()
        return 128 + stopped.number
    finally:
        thread.do(Holding.close)
        thread.join()
        for number, handler in old.items():
            signal.signal(number, handler)
    if is_lost:
        why = thread.news.loss or "the session could not be kept alive in time"
        complain(f"{command[0]} was ended, because the token {wish.name!r} cannot be kept: {why}")
        return exits.CONFLICT
    return status


class _Stopped(BaseException):
    """A signal came before the command ran."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number: Final = number


class _TokenRun:
    """What the supervisor is told, and when."""

    def __init__(self, supervisor: SupervisorLine, wish: TokenWish, grace_ms: int, hosts: str) -> None:
        self._supervisor: Final = supervisor
        self._token: Final = wish.name
        self._hosts: Final = hosts
        self._grace_ms: Final = grace_ms
        grace_s, let_go_ms = grace_ms / 1000, grace_ms + KILL_MS
        self.holding: Final = new_holding(wish, REPLY_S, boot_ms(), grace_s=grace_s, let_go_ms=let_go_ms)
        self._until_ms = 0
        self._has_begun = self._is_taken = False

    def begin(self, fence: Fence) -> None:
        """The token is held: start the command."""
        own = {"DISTKV_FENCE": str(fence), "DISTKV_SESSION": self.holding.session, "DISTKV_HOST": self._hosts}
        environment = {**os.environ, **own}
        self._until_ms = self.holding.lost_at_ms(self._token) or boot_ms()
        self._supervisor.begin(environment, self._until_ms)
        self._has_begun = True

    def look(self) -> None:
        """Something happened to the session: perhaps the command may run longer, or has to end."""
        if not self._has_begun or self._is_taken:
            return
        now_ms = boot_ms()
        until_ms = self.holding.lost_at_ms(self._token)
        if until_ms is None or not self.holding.left_ms(self._token, now_ms):
            self._is_taken = True
            self._supervisor.taken(min(now_ms + self._grace_ms, self._until_ms))
        elif until_ms > self._until_ms:
            self._until_ms = until_ms
            self._supervisor.kept(until_ms)

    def signalled(self, number: int, _: FrameType | None) -> None:
        """A signal came."""
        if not self._has_begun:
            raise _Stopped(number)
        self._supervisor.forward(number)


def _heeded() -> list[signal.Signals]:
    """Those that are forwarded; what this command was started to ignore, its command ignores, too."""
    return [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
