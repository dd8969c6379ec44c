"""Actions in words: as the line of a scenario file, and as people are told what befalls a node.

Knows: how each action is written.  Does not know how it is read (`grammar`).

Invariant: the grammar reads what `command_of` writes as the same action.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from distkv.sim.actions import (
    AcquireToken,
    Action,
    Agents,
    BreakToken,
    CloseSession,
    Cluster,
    CutWay,
    Decide,
    DecideAny,
    Deed,
    Disks,
    Disturb,
    Divert,
    Fill,
    Foreign,
    FreezeClient,
    Gather,
    Happening,
    Later,
    Lie,
    Move,
    PassTime,
    Recover,
    ReleaseToken,
    ResetTokens,
    Retire,
    Rot,
    RotSome,
    SetClock,
    SetData,
    SetServers,
    SettingMap,
    Settings,
    Settle,
    Show,
    ShowServers,
    ShowState,
    Split,
    StartClient,
    StartNode,
    Swap,
    TellAll,
    TokenAction,
    ToNode,
    WaitState,
    Write,
)
from distkv.sim.network import NetworkFaults
from distkv.transport.diversion import Diversion

DEEDS: Final = {
    Deed.STOP: "is stopped",
    Deed.CRASH: "loses power",
    Deed.WIPE: "loses its disk",
    Deed.BURN: "loses its disk, and the only copy of something",
    Deed.BACKUP: "is backed up",
    Deed.ROLL_BACK: "is set back to its backup",
    Deed.PAUSE: "pauses",
    Deed.RESUME: "goes on",
    Deed.AGENT_DOWN: "agent stops",
    Deed.AGENT_UP: "agent starts",
    Deed.DISK_FULL: "has no space on its disk",
    Deed.DISK_SHORT: "has no space for another segment",
    Deed.DISK_FREE: "has space again",
    Deed.ISOLATE: "is cut off from all",
    Deed.REJOIN: "is back among all",
    Deed.NAMESAKE: "gets a namesake",
    Deed.NAMESAKE_GONE: "loses its namesake",
    Deed.OWN_ADDRESS: "starts again with its own address",
    Deed.HALF_OPEN: "forgets its connections, and nobody is told",
    Deed.STALL: "takes nothing from its edges",
    Deed.FLOW: "takes what comes on its edges again",
}


def words_for(action: Happening) -> tuple[str, str]:
    """Whom it befell, nobody where it is about the ways between all, and what; there a scenario file's words."""
    if isinstance(action, TokenAction):
        return "", command_of(action)
    match action:
        case ToNode(node=node, deed=deed):
            return node, DEEDS[deed]
        case Rot(node=node, path=path):
            return node, f"ends, and its disk rots at {path}"
        case RotSome(nodes=nodes):
            return nodes[0], " ".join(["ends, and its disk rots", *(f"as that of {other}" for other in nodes[1:])])
        case SetClock(node=node, rate=rate, jump_s=jump_s):
            return node, f"wall clock jumps {jump_s:g} s" if rate is None else f"clock runs at {rate:g}"
        case Move(node=node, other=other):
            return node, f"starts again with the address of {other}"
        case Lie(node=node, what=what):
            return node, f"is lied about: {what}"
        case Retire(other=other):
            return other, "is said to be gone for good"
        case TellAll(node=node, text=text):
            return node, f"says to all: {text}"
        case Split() | CutWay() | Divert() | Foreign() | StartNode():
            return "", command_of(action)
        case Write() | Fill() | Swap() | Decide() | DecideAny():
            return "", command_of(action)
    assert_never(action)


def command_of(action: Action) -> str:
    """The line of a scenario file, with no comment and no line break."""
    return " ".join(_words(action))


def _words(action: Action) -> Iterator[str]:
    if isinstance(action, TokenAction):
        yield from _of_tokens(action)
        return
    match action:
        case ToNode(node=node, deed=deed):
            yield from (deed, node)
        case StartNode() | SetClock() | Move() | Rot() | RotSome():
            yield from _to_machine(action)
        case Split() | CutWay() | Divert() | Foreign() | Lie():
            yield from _between(action)
        case Write() | Fill() | Swap() | Decide() | DecideAny() | Retire() | TellAll():
            yield from _request(action)
        case Settings() | Agents() | Disturb() | Disks() | Cluster() | Gather():
            yield from _network(action)
        case PassTime() | Settle() | WaitState() | Recover() | Later():
            yield from _time(action)
        case Show(tags=tags, nodes=nodes):
            yield from ("show", *(sorted(tags) or ["nothing"]), *_listed("at", nodes))
        case ShowState():
            yield "state"
        case ShowServers():
            yield "servers"
        case _:
            assert_never(action)


def _network(action: Settings | Agents | Disturb | Disks | Cluster | Gather) -> Iterator[str]:
    match action:
        case Settings(values=values):
            yield from ("settings", *_settings(values))
        case Agents(nodes=nodes, stream_events=stream, doubts_ms=doubts_ms, packets_per_s=packets):
            yield from ("agents", *nodes, f"stream={stream}", f"doubts={_time_of(doubts_ms)}")
            if packets is not None:
                yield f"packets={packets!r}"
        case Disturb(faults=faults):
            yield from ("disturb", *_faults(faults))
        case Disks(commit_ms=commit_ms, stalls=stalls):
            yield from ("disks", _span(commit_ms), "stalls", repr(stalls))
        case Cluster(nodes=nodes):
            yield from ("cluster", *nodes)
        case Gather(nodes=nodes):
            yield from ("gather", *nodes)
        case _:
            assert_never(action)


def _faults(faults: NetworkFaults) -> Iterator[str]:
    """What is not as it is when nothing is said."""
    calm = NetworkFaults()
    chances = {
        "loss": (faults.loss, calm.loss),
        "update-loss": (faults.update_loss, calm.update_loss),
        "copies": (faults.duplication, calm.duplication),
        "late": (faults.late, calm.late),
        "breaks": (faults.breaks, calm.breaks),
    }
    yield from (f"{name}={chance!r}" for name, (chance, usual) in chances.items() if chance != usual)
    if faults.delay_ms != calm.delay_ms:
        yield f"gossip={_span(faults.delay_ms)}"
    if faults.answer_ms != calm.answer_ms:
        yield f"answers={_span(faults.answer_ms)}"
    if faults.silence_ms != calm.silence_ms:
        yield f"silence={_time_of(faults.silence_ms)}"


def _to_machine(action: StartNode | SetClock | Move | Rot | RotSome) -> Iterator[str]:
    match action:
        case StartNode(node=node, init=init, settings=settings, named=named):
            yield from ("start", node)
            if named:
                yield from ("as", named)
            if init is not None:
                yield from ("init", _value(init))
            yield from _settings(settings)
        case SetClock(node=node, rate=rate, jump_s=jump_s):
            yield from ("clock", node)
            if rate is not None:
                yield from ("rate", repr(rate))
            if jump_s:
                yield from ("jump", repr(jump_s))
        case Move(node=node, other=other):
            yield from ("move", node, "to", other)
        case Rot(node=node, path=path):
            yield from ("rot", node, shlex.quote(str(path)))
        case RotSome(nodes=nodes, count=count):
            yield from ("rot-some", *nodes, str(count))
        case _:
            assert_never(action)


def _between(action: Split | CutWay | Divert | Foreign | Lie) -> Iterator[str]:
    match action:
        case Split(sides=()):
            yield "heal"
        case Split(sides=sides):
            yield from ("split", " | ".join(map(" ".join, sides)))
        case CutWay(sender=sender, receiver=receiver):
            yield from ("cut", sender, ">", receiver)
        case Divert(diversion=diversion):
            yield from ["deliver"] if diversion is None else _diverted(diversion)
        case Foreign(is_there=is_there):
            yield "foreign" if is_there else "foreign-gone"
        case Lie(node=node, what=what):
            yield from ("lie", node, what)
        case _:
            assert_never(action)


def _diverted(diversion: Diversion) -> Iterator[str]:
    yield "drop" if diversion.delay_ms is None else "delay"
    if diversion.count is not None:
        yield str(diversion.count)
    yield from (diversion.kind, *_listed("of", diversion.senders), *_listed("to", diversion.receivers))
    if diversion.delay_ms is not None:
        yield from ("by", _time_of(diversion.delay_ms))


def _request(action: Write | Fill | Swap | Decide | DecideAny | Retire | TellAll) -> Iterator[str]:
    match action:
        case Write(node=node, path=path, value=None):
            yield from ("delete", node, shlex.quote(str(path)), *_fence(action))
        case Write(node=node, path=path, value=value, condition=condition, ttl_s=ttl_s):
            yield from ("set", node, shlex.quote(str(path)), _value(value))
            if condition is not None:
                yield condition
            if ttl_s is not None:
                yield from ("ttl", _time_of(round(ttl_s * 1000)))
            yield from _fence(action)
        case Fill(node=node, path=path, count=count, first=first, over=over, is_batch=is_batch):
            yield from ("fill", node, shlex.quote(str(path)), str(count))
            if first:
                yield from ("from", str(first))
            if over is not None:
                yield from ("over", str(over))
            if is_batch:
                yield "at-once"
        case Swap(node=node, number=number):
            yield from ("swap", node, str(number))
        case Decide(node=node, path=path, loser_of=loser_of, is_restored=is_restored):
            yield from ("restore" if is_restored else "dismiss", node, shlex.quote(str(path)), "of", loser_of)
        case DecideAny(node=node, number=number, is_restored=is_restored, is_checked=is_checked):
            yield from ("restore-any" if is_restored else "dismiss-any", node, str(number))
            if is_checked:
                yield "if-won"
        case Retire(node="", other=other):
            yield from ("retire-any", other)
        case Retire(node=node, other=other, is_forced=is_forced):
            yield from ("retire", node, other)
            if is_forced:
                yield "force"
        case TellAll(node=node, text=text):
            yield from ("say", node, _value(text), *(["times", str(action.times)] if action.times > 1 else []))
        case _:
            assert_never(action)


def _of_tokens(action: TokenAction) -> Iterator[str]:
    match action:
        case StartClient(node=node, client=client, ttl_ms=ttl_ms, rate=rate):
            yield from ("open", node, client)
            if ttl_ms is not None:
                yield from ("ttl", _time_of(ttl_ms))
            if rate != 1.0:
                yield from ("rate", repr(rate))
        case AcquireToken(client=client, token=token, wait_ms=wait_ms, hold_ms=hold_ms):
            yield from ("acquire", client, shlex.quote(token))
            yield from ["shared"] if action.is_shared else []
            if wait_ms is not None:
                yield from ("wait", _time_of(wait_ms))
            if hold_ms is not None:
                yield from ("for", _time_of(hold_ms))
            yield from ["writing"] if action.writes else []
        case ReleaseToken(client=client, token=token):
            yield from ("release", client, shlex.quote(token))
        case SetData(client=client, token=token, value=value):
            yield from ("data", client, shlex.quote(token), _value(value))
            yield from ["keep"] if action.keeps else []
        case BreakToken(node=node, token=token):
            yield from ("break", node, shlex.quote(token))
        case ResetTokens(node=node):
            yield from ("reset", node)
        case SetServers(node=node, servers=servers):
            yield from ("change", node, *servers)
        case CloseSession(client=client):
            yield from ("close", client)
        case FreezeClient(client=client, for_ms=for_ms):
            yield from ("freeze", client, _time_of(for_ms))
        case _:
            assert_never(action)


def _fence(action: Write) -> Iterator[str]:
    if action.fence is not None:
        yield from ("fence", shlex.quote(str(action.fence)))
    if action.refence:
        yield "refence"


def _time(action: PassTime | Settle | WaitState | Recover | Later) -> Iterator[str]:
    match action:
        case PassTime(for_ms=for_ms):
            yield from ("run", _time_of(for_ms))
        case Settle(within_ms=within_ms):
            yield from ("settle", "within", _time_of(within_ms))
        case WaitState(node=node, state=state, within_ms=within_ms):
            yield from ("wait", node, state, "within", _time_of(within_ms))
        case Recover(within_ms=within_ms):
            yield from ("recover", "within", _time_of(within_ms))
        case Later(after_ms=after_ms, action=happening):
            yield from ("later", _time_of(after_ms), command_of(happening))
        case _:
            assert_never(action)


# -- single words -------------------------------------------------------------------------------------------------


def _listed(word: str, nodes: Iterable[str]) -> tuple[str, ...]:
    named = sorted(nodes)
    return (word, *named) if named else ()


def _settings(values: SettingMap) -> Iterator[str]:
    for field, value in values.items():
        name = field.removesuffix("_ms").removesuffix("_max").removesuffix("_every").replace("_", "-")
        if isinstance(value, bool):
            yield f"{name}={'yes' if value else 'no'}"
        else:
            yield f"{name}={_time_of(value) if field.endswith('_ms') else value}"


def _span(times_ms: tuple[int, int]) -> str:
    low_ms, high_ms = times_ms
    return f"{_time_of(low_ms)}..{_time_of(high_ms)}"


def _time_of(ms: int) -> str:
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _value(value: object) -> str:
    """As text where that reads as the same value, else as JSON."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except json.JSONDecodeError:
            return shlex.quote(value)
    return shlex.quote(json.dumps(value))
