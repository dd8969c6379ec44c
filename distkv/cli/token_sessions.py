"""`distkv client token acquire`, `release`, `renew` and `data`: sessions that outlive the command.

Knows: their options and what they print.  Does not know the machine that asks (`client.holding`).

Invariant: what was printed is held. A session that this command opened ends with its last token, and when its ttl is
over.

A session is told apart only by its id: who has it may use it. What it holds is asked of the servers each time, because
no command remembers it. When a token server was lost the others do not know what the session held there, and go by what
it says: so nothing is said of it that may be too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import asyncclick as click

from distkv.cli.output import Form, complain, print_items, print_result
from distkv.cli.session import CliSession, Job, output_option
from distkv.cli.token import read_session_id, read_span, read_token_name
from distkv.cli.values import read_aside, read_fence
from distkv.client.addresses import Reach
from distkv.client.arguments import PATIENCE_S_MAX
from distkv.client.blocking import Client
from distkv.client.boot_clock import boot_ms
from distkv.client.holding import Holding
from distkv.client.session_thread import SessionThread
from distkv.client.token_wish import TokenWish, as_wish, data_value
from distkv.errors import NotFoundError
from distkv.model.fence import Fence
from distkv.wire.fields import read_flag, read_list, read_map, read_seconds
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_errors import HeldError, NoQuorumError, NotHeldError, TokenLostError
from distkv.wire.token_fields import read_grant_number
from distkv.wire.token_requests import TTL_S_MAX
from distkv.wire.values import pack_value

CONNECT_S: Final = 5.0
REPLY_S: Final = 30.0

_UNKNOWN: Final = "the token servers do not know yet what the session holds"

_NAME = click.argument("name")
_SESSION = click.option("--session", "id", metavar="ID", required=True, help="The session, as 'acquire' printed it.")


@click.command("acquire")
@_NAME
@click.option("--shared", is_flag=True, help="Others may hold it at the same time if they ask for the same.")
@click.option("--wait", metavar="SECONDS", help="Wait so long for it, in turn; else it is tried once.")
@click.option("--data", metavar="VALUE", help="A small value that everybody sees, stored with the grant.")
@click.option("--keep-data", is_flag=True, help="The data stays when nobody holds the token; else it ends then.")
@click.option(
    "--ttl", metavar="SECONDS", help="How long the session lives unless renewed: at least three leases (15 s)."
)
@click.option("--session", "id", metavar="ID", help="Take it for a session that is open already.")
@output_option
@click.pass_obj
def acquire_command(
    session: CliSession,
    name: str,
    shared: bool,
    wait: str | None,
    data: str | None,
    keep_data: bool,
    ttl: str | None,
    id: str | None,
    form: str | None,
) -> Job:
    """Take the token NAME, and print its fence and its session.

    Without --session it opens one, which ends after --ttl unless 'renew' is called before, and with its last token.
    Fails with 4 if another session holds the token. To hold one while a command runs, use 'run'.
    """
    wish = read_wish(name, shared, wait, data, ttl, keep_data)
    own = None if id is None else read_session_id(id)
    if own is not None and wish.ttl_s is not None:
        raise click.UsageError("--ttl is for a session that is opened: leave it out with --session")
    chosen = Form(form) if form else session.form
    if chosen is Form.RAW:
        raise click.UsageError("what was acquired has no raw form: use -o text, json or yaml")
    return partial(_acquire, session, wish, own, chosen)


def read_wish(
    name: str, shared: bool, wait: str | None, data: str | None, ttl: str | None, keep_data: bool
) -> TokenWish:
    """What the options of `acquire` and `run` say.

    Raises:
        SettingsError, BadValueError, TooLargeError: one of them is none.
        UsageError: there is no data to keep.
    """
    if keep_data and data is None:
        raise click.UsageError("--keep-data is for data: give --data, too")
    value = None if data is None else read_aside("--data", data)
    wait_s, ttl_s = read_span("--wait", wait, PATIENCE_S_MAX), read_span("--ttl", ttl, TTL_S_MAX)
    return as_wish(read_token_name(name), shared, value, wait_s, ttl_s, keep_data)


def reach_of(session: CliSession) -> Reach:
    """Where the nodes are that keep a session alive."""
    return Reach(session.addresses, CONNECT_S, REPLY_S)


def _acquire(session: CliSession, wish: TokenWish, id: str | None, form: Form) -> None:
    holding, patience_ms, now_ms = Holding(ttl_s=wish.ttl_s), int(REPLY_S * 1000), boot_ms()
    if id is None:
        holding.open(wish.wait_ms or 0, patience_ms, now_ms)
    else:
        with Client(session.addresses) as client:
            held, is_all = held_by(client, id)
        same = next((one for one in held if one.token == wish.name), None)
        if same is not None:
            if wish.data is not None:
                raise HeldError(f"the session holds {wish.name!r} already: change its data with 'token data'")
            _print_held(same.fence, id, same.is_shared, None, wish, form, same.data)
            return
        if not is_all:
            raise NoQuorumError(f"{_UNKNOWN}: name all of its tokens with 'token renew --session {id} --fence FENCE'")
        holding.adopt(id, held, patience_ms, now_ms)
    holding.acquire(
        wish.name, is_shared=wish.is_shared, data=wish.data, wait_ms=wish.wait_ms, patience_ms=patience_ms,
        now_ms=now_ms, keeps_data=wish.keeps_data,
    )  # fmt: skip
    thread = SessionThread(reach_of(session), holding)
    thread.start()
    try:
        thread.wait(lambda news: news.is_decided)
        fence, data = thread.read(lambda holding, now: (holding.fence(wish.name, now), holding.data(wish.name, now)))
        if fence is None:
            raise thread.news.refusal or thread.news.lost(wish.name)
        ttl_s = holding.ttl_ms / 1000
        _print_held(fence, holding.session, wish.is_shared, ttl_s, wish, form, data)
    except BaseException:  # what cannot be printed, nobody would know of
        if id is None:
            thread.do(Holding.close)
            thread.join()
        else:
            thread.do(lambda holding, now_ms: holding.release(wish.name, now_ms))
            thread.wait(lambda _: holding.is_settled)
            thread.leave()
        raise
    thread.leave()
    if id is None and ttl_s > (wish.ttl_s or ttl_s):
        complain(f"the session lives {ttl_s:g} s: a ttl is at least three leases (tokens.lease) of the token servers")


def _print_held(
    fence: Fence, id: str, is_shared: bool, ttl_s: float | None, wish: TokenWish, form: Form, data: bytes | None = None
) -> None:
    if is_shared != wish.is_shared:
        raise HeldError(f"the session holds {wish.name!r} {'shared' if is_shared else 'alone'}: release it first")
    if form is Form.TEXT:
        print_items([f"{fence} {id}"], form)
        return
    found = {"token": wish.name, "fence": str(fence), "session": id, "shared": is_shared}
    print_result({**found, "ttl": ttl_s, "data": data_value(data)}, form)


@click.command("release")
@_NAME
@_SESSION
@click.pass_obj
def release_command(session: CliSession, name: str, id: str) -> Job:
    """Give up the token NAME. The session ends if that was the last one that it held.

    Fails with 4 if the session does not hold it.
    """
    return partial(_release, session, read_token_name(name), read_session_id(id))


def _release(session: CliSession, name: str, id: str) -> None:
    with Client(session.addresses) as client:
        client.request("token_release", {"session": id, "token": name})
        if held_by(client, id) == ([], True):
            client.request("token_close", {"session": id})


@click.command("renew")
@_SESSION
@click.option("--fence", "alone", metavar="FENCE", multiple=True, help="What it holds alone, as 'acquire' printed it.")
@click.option("--shared", metavar="FENCE", multiple=True, help="The same of a token that it shares.")
@output_option
@click.pass_obj
def renew_command(
    session: CliSession, id: str, alone: tuple[str, ...], shared: tuple[str, ...], form: str | None
) -> Job:
    """Keep a session alive for its ttl from now on, and print that.

    Name each token that it holds: when a token server was lost, the others know of its tokens only what the sessions
    say. Without that it fails with 5 then, and the session ends after its ttl.

    Fails with 4 if the session is over, or has lost a token since; the rest of it is renewed then.
    """
    named = [_read_held(text, is_shared=False) for text in alone]
    named += [_read_held(text, is_shared=True) for text in shared]
    return partial(_renew, session, read_session_id(id), named, Form(form) if form else session.form)


def _read_held(text: str, *, is_shared: bool) -> HeldToken:
    fence = read_fence(text)
    return HeldToken(fence.token, fence.epoch, fence.counter, is_shared)


def _renew(session: CliSession, id: str, named: list[HeldToken], form: Form) -> None:
    with Client(session.addresses) as client:
        listed, is_all = held_by(client, id)
        names = {one.token for one in listed}
        unlisted = [one for one in named if one.token not in names]
        for one in named if is_all else ():
            other = next((held for held in listed if held.token == one.token), one)
            if (other.fence, other.is_shared) != (one.fence, one.is_shared):
                mode = "shared" if other.is_shared else "alone"
                raise NotHeldError(f"the session does not hold {one.fence} like that, but {other.fence} ({mode})")
        if not is_all and not named:
            raise NoQuorumError(f"{_UNKNOWN}: name all of it with --fence or --shared, or it ends after its ttl")
        held = [_held_map(one) for one in (listed if is_all else [*listed, *unlisted])]
        turn, fields = boot_ms(), {"session": id, "held": held}
        kept = client.request("token_keep", {**fields, "version": 0, "turn": turn, "heard": 0}, is_read=True)
        # The second one says to all servers what the session holds, as far as the newest version knows.
        again = {**fields, "version": kept["version"], "turn": turn + 1, "heard": turn}
        client.request("token_keep", again, is_read=True)
    lost = [str(name) for name in read_list(kept.get("lost"), "lost")]
    if is_all:
        lost += [one.token for one in unlisted if one.token not in lost]
    ttl_s = read_seconds(kept, "ttl", TTL_S_MAX)
    print_result(ttl_s if form is Form.TEXT else {"session": id, "ttl": ttl_s, "lost": lost}, form)
    if lost:
        raise TokenLostError(f"the session {id} has lost {', '.join(map(repr, lost))}")


@click.command("data")
@_NAME
@click.argument("value", required=False)
@click.option("--session", "id", metavar="ID", help="The session that holds it; needed to set VALUE.")
@click.option("--keep-data", is_flag=True, help="VALUE stays when nobody holds the token; else it ends then.")
@output_option
@click.pass_obj
def data_command(
    session: CliSession, name: str, value: str | None, id: str | None, keep_data: bool, form: str | None
) -> Job:
    """Print the data of the token NAME, or set it to VALUE, which only a holder may. The VALUE null removes it.

    Fails with 3 if there is none to print, and with 4 if the session does not hold the token.
    """
    token = read_token_name(name)
    if value is None:
        if keep_data:
            raise click.UsageError("--keep-data is for data that is set: give a VALUE, too")
        return partial(_show_data, session, token, Form(form) if form else session.form)
    if id is None:
        raise click.UsageError("only a holder sets the data: give --session as 'token acquire' printed it")
    data = None if value == "null" else read_aside("VALUE", value)
    fields = {"session": read_session_id(id), "token": token, "data": data, "keep_data": keep_data}
    return partial(_set_data, session, fields)


def _show_data(session: CliSession, name: str, form: Form) -> None:
    with Client(session.addresses) as client:
        data = client.request("token_show", {"token": name}, is_read=True).get("data")
    if data is None:
        how = f"token data {name} VALUE --session ID"
        raise NotFoundError(f"the token {name!r} has no data: its holder sets some with '{how}'")
    print_result(data, form)


def _set_data(session: CliSession, fields: Mapping[str, object]) -> None:
    with Client(session.addresses) as client:
        client.request("token_data", fields)


# -- inside -------------------------------------------------------------------------------------------------------


def held_by(client: Client, id: str) -> tuple[list[HeldToken], bool]:
    """What a session holds, as the servers say; and whether that is all."""
    found, after, more, is_all = list[HeldToken](), "", True, True
    while more:
        page = client.request("token_list", {"after": after}, is_read=True)
        is_all = is_all and not read_flag(page, "partial")
        items = [read_map(item, "items") for item in read_list(page.get("items"), "items")]
        for item in items:
            for holder in (read_map(one, "holders") for one in read_list(item.get("holders"), "holders")):
                if holder.get("session") == id:
                    data = None if item.get("data") is None else pack_value(item["data"])
                    flags = {"is_shared": read_flag(holder, "shared"), "keeps_data": read_flag(item, "keep_data")}
                    found.append(HeldToken(str(item.get("token")), *read_grant_number(holder), data=data, **flags))
        more = read_flag(page, "more") and bool(items)
        after = str(items[-1].get("token")) if items else ""
    return found, is_all


def _held_map(held: HeldToken) -> dict[str, object]:
    found = {"token": held.token, "epoch": held.epoch, "counter": held.counter, "shared": held.is_shared}
    if held.data is None:
        return found
    return {**found, "data": data_value(held.data), "keep_data": held.keeps_data}
