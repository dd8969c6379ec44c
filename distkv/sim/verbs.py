"""The verbs of scenario files (docs/scenarios): what follows each, and which action it is.

Knows: the words of one command; `VERBS` is the whole grammar.  Does not know files, blocks and traces (`grammar`), nor
what an action does (`stage`).

Invariant: whatever follows a verb is an action or a ValueError that says what is expected there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from distkv.core.ready import CoreSettings
from distkv.model.fence import Fence, read_fence_text
from distkv.model.state import State
from distkv.sim.actions import (
    AcquireToken,
    Action,
    Agents,
    BreakToken,
    CloseSession,
    Cluster,
    Condition,
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
    ToNode,
    Untruth,
    WaitState,
    Write,
)
from distkv.sim.agent import STREAM_EVENTS
from distkv.sim.network import NetworkFaults
from distkv.sim.words import Known, Words
from distkv.sim.world import DEFAULTS
from distkv.transport.diversion import ANY, Diversion
from distkv.wire.gossip import GossipKind

GOSSIP: Final = tuple(GossipKind)
_DIVERTED: Final = "|".join((*GOSSIP, ANY))

TCP: Final = ("ask", "maps", "events", "known", "snapshot", "pages", "linked", "done")
OTHER: Final = ("write", "note", "state", "missing", "members", "tree")
"""What else a moment may be shown for: an own write, a note, another state, other ticks missing, other members, and
another place in the server tree, which happens beside the steps of a node."""
WAYS: Final = ("sent", "heard")
ALL: Final = frozenset([f"{way} {kind}" for way in WAYS for kind in (*GOSSIP, *TCP)] + [*OTHER])
"""Every tag that a moment may have, besides `outside`."""

WORLD: Final[Known] = {
    field.removesuffix("_ms").removesuffix("_every"): (field, default) for field, default in DEFAULTS.items()
}
"""What can be said of the whole run."""
CORE: Final[Known] = {
    field.name.removesuffix("_ms").removesuffix("_max").replace("_", "-"): (field.name, field.default)
    for field in attrs.fields(CoreSettings)
    if isinstance(field.default, int)
}
"""What a node can be told."""


@attrs.frozen
class VerbRow:
    """One verb."""

    usage: str
    """It, and what follows it."""
    read: Callable[[Words], Action]
    """Takes all that follows."""


def read_action(verb: str, words: Words) -> Action:
    """The action that a verb and all the words behind it say.

    Raises:
        ValueError: they say none.
    """
    action = VERBS[verb].read(words)
    if words:
        raise ValueError(f"{words.take('')} is one word too many")
    return action


# -- what follows a verb, where it is more than a few words ---------------------------------------------------------


def _deed(deed: Deed, words: Words) -> Action:
    return ToNode(words.node(), deed)


def _say(words: Words) -> Action:
    node, text = words.node(), words.take("the text")
    return TellAll(node, text, words.integer("the count") if words.takes("times") else 1)


def _start(words: Words) -> Action:
    node, init = words.node(), None
    named = words.node() if words.takes("as") else ""
    if words.takes("init"):
        init = words.value() if words.next_is(lambda word: "=" not in word) else "root"
    return StartNode(node, init, words.settings(CORE), named)


def _clock(words: Words) -> Action:
    node = words.node()
    rate = words.number("the rate") if words.takes("rate") else None
    if rate is not None and rate <= 0:
        raise ValueError("a rate is more than 0")
    return SetClock(node, rate, words.number("the jump") if words.takes("jump") else 0.0)


def _move(words: Words) -> Action:
    node = words.node()
    if not words.takes("to"):
        raise ValueError("to is missing")
    return Move(node, words.node())


def _rot_some(words: Words) -> Action:
    nodes = [words.node()]
    if not words.next_is(str.isdecimal):
        nodes.append(words.node())
    return RotSome(tuple(nodes), words.integer("the count"))


def _set(words: Words) -> Action:
    node, path, value = words.node(), words.path(), words.value()
    if value is None:
        raise ValueError("a value is not null: use delete")
    condition = Condition(words.take("")) if words.next_is(lambda word: word in list(Condition)) else None
    ttl_ms = words.time_ms() if words.takes("ttl") else None
    if ttl_ms == 0:
        raise ValueError("a ttl is more than 0")
    if condition is not None:
        return Write(node, path, value, condition, None if ttl_ms is None else ttl_ms / 1000)
    return Write(node, path, value, None, None if ttl_ms is None else ttl_ms / 1000, *_fence(words))


def _delete(words: Words) -> Action:
    return Write(words.node(), words.path(), None, None, None, *_fence(words))


def _fence(words: Words) -> tuple[Fence | None, bool]:
    if not words.takes("fence"):
        return None, words.takes("refence")
    text = words.take("the fence")
    fence = read_fence_text(text)
    if fence is None:
        raise ValueError(f"{text} is no fence, as TOKEN:1.2 is")
    return fence, False


def _fill(words: Words) -> Action:
    node, path, count = words.node(), words.path(), words.integer("the count")
    first = words.integer("the first number") if words.takes("from") else 0
    over = words.integer("the count") if words.takes("over") else None
    if over == 0:
        raise ValueError("the numbers begin again after 1 or more")
    return Fill(node, path, count, first, over, words.takes("at-once"))


def _decide_any(words: Words, *, is_restored: bool) -> Action:
    node, number = words.node(), words.integer("the number")
    return DecideAny(node, number, is_restored, words.takes("if-won"))


def _decide(words: Words, *, is_restored: bool) -> Action:
    node, path = words.node(), words.path()
    if not words.takes("of"):
        raise ValueError("of is missing")
    return Decide(node, path, words.node(), is_restored)


def _open(words: Words) -> Action:
    node, client = words.node(), words.node()
    ttl_ms = words.time_ms() if words.takes("ttl") else None
    rate = words.number("the rate") if words.takes("rate") else 1.0
    if rate <= 0:
        raise ValueError("a rate is more than 0")
    return StartClient(node, client, ttl_ms, rate)


def _acquire(words: Words) -> Action:
    client, token, is_shared = words.node(), words.take("the token"), words.takes("shared")
    wait_ms = words.time_ms() if words.takes("wait") else None
    hold_ms = words.time_ms() if words.takes("for") else None
    return AcquireToken(client, token, is_shared, wait_ms, hold_ms, words.takes("writing"))


def _data(words: Words) -> Action:
    return SetData(words.node(), words.take("the token"), words.value(), words.takes("keep"))


def _split(words: Words) -> Action:
    sides = [words.nodes("|")]
    while words.takes("|"):
        sides.append(words.nodes("|"))
    if len(sides) < 2:
        raise ValueError("there is one side only")
    names = [name for side in sides for name in side]
    if len(set(names)) < len(names):
        raise ValueError("a node is on one side only")
    return Split(tuple(sides))


def _cut(words: Words) -> Action:
    sender = words.node()
    if not words.takes(">"):
        raise ValueError("> is missing")
    return CutWay(sender, words.node())


def _diversion(words: Words) -> Diversion:
    count = words.integer("the count") if words.next_is(str.isdecimal) else None
    kind = words.take("the kind of message")
    if kind not in (*GOSSIP, ANY):
        raise ValueError(f"{kind} is no kind of gossip")
    senders = words.nodes("to", "by") if words.takes("of") else ()
    receivers = words.nodes("by") if words.takes("to") else ()
    return Diversion(kind, frozenset(senders), frozenset(receivers), count)


def _delay(words: Words) -> Action:
    diversion = _diversion(words)
    if not words.takes("by"):
        raise ValueError("by is missing")
    return Divert(attrs.evolve(diversion, delay_ms=words.time_ms()))


def _lie(words: Words) -> Action:
    node, what = words.node(), words.take("the untruth")
    if what not in list(Untruth):
        raise ValueError(f"{what} is no untruth; there are {', '.join(Untruth)}")
    return Lie(node, Untruth(what))


def _agents(words: Words) -> Action:
    nodes = words.nodes_before(lambda word: "=" in word)
    given = words.pairs({"stream", "doubts", "packets"})
    stream = given["stream"].integer("the stream") if "stream" in given else STREAM_EVENTS
    doubts_ms = given["doubts"].time_ms() if "doubts" in given else 0
    packets = given["packets"].number("the packets") if "packets" in given else None
    if packets is not None and packets <= 0:
        raise ValueError("packets are more than 0")
    return Agents(nodes, stream, doubts_ms, packets)


def _disturb(words: Words) -> Action:
    given, faults = words.pairs({*_CHANCES, *_SPANS, "silence"}), NetworkFaults()
    for name, field in _CHANCES.items():
        if name in given:
            setattr(faults, field, given[name].chance(name))
    for name, field in _SPANS.items():
        if name in given:
            setattr(faults, field, given[name].span_ms())
    faults.silence_ms = given["silence"].time_ms() if "silence" in given else 0
    return Disturb(faults)


def _disks(words: Words) -> Action:
    return Disks(words.span_ms(), words.chance("stalls") if words.takes("stalls") else 0.0)


def _later(words: Words) -> Action:
    after_ms, verb = words.time_ms(), words.take("the command")
    if verb not in VERBS:
        raise ValueError(f"{verb} is no verb")
    action = read_action(verb, words)
    if not isinstance(action, Happening):
        raise ValueError(f"{verb} takes time, or is about the whole file")
    return Later(after_ms, action)


def _wait(words: Words) -> Action:
    node, state = words.node(), words.take("the state")
    if state not in list(State):
        raise ValueError(f"{state} is no state; there are {', '.join(State)}")
    return WaitState(node, State(state), words.within_ms())


def _show(words: Words) -> Action:
    shown = words.until("at")
    nodes = words.nodes() if words.takes("at") else ()
    if not shown:
        raise ValueError("a kind is missing")
    tags: set[str] = set()
    ways: tuple[str, ...] = WAYS
    for word in shown:
        if word in WAYS:
            ways = (word,)
            continue
        kinds = {"gossip": GOSSIP, "tcp": TCP}.get(word, (word,))
        if word == "all":
            tags |= ALL
        elif word in OTHER:
            tags.add(word)
        elif not {*kinds} <= {*GOSSIP, *TCP, "nothing"}:
            raise ValueError(f"{word} is no kind; there are {', '.join((*GOSSIP, 'gossip', *TCP, 'tcp', *OTHER))}")
        elif word != "nothing":
            tags |= {f"{way} {kind}" for way in ways for kind in kinds}
        ways = WAYS
    return Show(frozenset(tags), frozenset(nodes))


def _settings(words: Words) -> Action:
    if not words:
        raise ValueError("the setting is missing")
    return Settings(words.settings({**CORE, **WORLD}))



_CHANCES: Final = {
    "loss": "loss", "update-loss": "update_loss", "copies": "duplication", "late": "late", "breaks": "breaks"
}  # fmt: skip
_SPANS: Final = {"gossip": "delay_ms", "answers": "answer_ms"}

VERBS: Final[dict[str, VerbRow]] = {
    "cluster": VerbRow("cluster NODE…", lambda words: Cluster(words.nodes())),
    "gather": VerbRow("gather NODE…", lambda words: Gather(words.nodes())),
    "start": VerbRow("start NODE [as NODE] [init [VALUE]] [SETTING=…]…", _start),
    **{deed.value: VerbRow(f"{deed.value} NODE", partial(_deed, deed)) for deed in Deed},
    "clock": VerbRow("clock NODE [rate NUMBER] [jump NUMBER]", _clock),
    "move": VerbRow("move NODE to NODE", _move),
    "rot": VerbRow("rot NODE PATH", lambda words: Rot(words.node(), words.path())),
    "rot-some": VerbRow("rot-some NODE [NODE] COUNT", _rot_some),
    "set": VerbRow(f"set NODE PATH VALUE [{'|'.join(Condition)}] [ttl TIME] [fence FENCE|refence]", _set),
    "delete": VerbRow("delete NODE PATH [fence FENCE|refence]", _delete),
    "fill": VerbRow("fill NODE PATH COUNT [from NUMBER] [over COUNT] [at-once]", _fill),
    "swap": VerbRow("swap NODE NUMBER", lambda words: Swap(words.node(), words.integer("the number"))),
    "restore": VerbRow("restore NODE PATH of NODE", lambda words: _decide(words, is_restored=True)),
    "dismiss": VerbRow("dismiss NODE PATH of NODE", lambda words: _decide(words, is_restored=False)),
    "restore-any": VerbRow("restore-any NODE NUMBER [if-won]", lambda words: _decide_any(words, is_restored=True)),
    "dismiss-any": VerbRow("dismiss-any NODE NUMBER [if-won]", lambda words: _decide_any(words, is_restored=False)),
    "say": VerbRow("say NODE TEXT [times COUNT]", _say),
    "retire": VerbRow(
        "retire NODE NODE [force]",
        lambda words: Retire(words.node(), words.node(), words.takes("force")),
    ),
    "retire-any": VerbRow("retire-any NODE", lambda words: Retire("", words.node(), is_forced=True)),
    "open": VerbRow("open NODE CLIENT [ttl TIME] [rate NUMBER]", _open),
    "acquire": VerbRow("acquire CLIENT TOKEN [shared] [wait TIME] [for TIME] [writing]", _acquire),
    "release": VerbRow("release CLIENT TOKEN", lambda words: ReleaseToken(words.node(), words.take("the token"))),
    "data": VerbRow("data CLIENT TOKEN VALUE [keep]", _data),
    "break": VerbRow("break NODE TOKEN", lambda words: BreakToken(words.node(), words.take("the token"))),
    "reset": VerbRow("reset NODE", lambda words: ResetTokens(words.node())),
    "change": VerbRow("change NODE SERVER…", lambda words: SetServers(words.node(), words.nodes())),
    "close": VerbRow("close CLIENT", lambda words: CloseSession(words.node())),
    "freeze": VerbRow("freeze CLIENT TIME", lambda words: FreezeClient(words.node(), words.time_ms())),
    "split": VerbRow("split NODE… | NODE… [| NODE…]…", _split),
    "cut": VerbRow("cut NODE > NODE", _cut),
    "heal": VerbRow("heal", lambda _: Split(())),
    "drop": VerbRow(f"drop [COUNT] {_DIVERTED} [of NODE…] [to NODE…]", lambda words: Divert(_diversion(words))),
    "delay": VerbRow(f"delay [COUNT] {_DIVERTED} [of NODE…] [to NODE…] by TIME", _delay),
    "deliver": VerbRow("deliver", lambda _: Divert(None)),
    "foreign": VerbRow("foreign", lambda _: Foreign(is_there=True)),
    "foreign-gone": VerbRow("foreign-gone", lambda _: Foreign(is_there=False)),
    "lie": VerbRow(f"lie NODE {'|'.join(Untruth)}", _lie),
    "agents": VerbRow("agents NODE… [stream=COUNT] [doubts=TIME] [packets=NUMBER]", _agents),
    "disturb": VerbRow(
        "disturb [loss=…] [update-loss=…] [copies=…] [gossip=…] [answers=…] [late=…] [breaks=…] [silence=…]",
        _disturb,
    ),
    "disks": VerbRow("disks TIME..TIME [stalls NUMBER]", _disks),
    "later": VerbRow("later TIME COMMAND", _later),
    "run": VerbRow("run TIME", lambda words: PassTime(words.time_ms())),
    "wait": VerbRow("wait NODE STATE [within TIME]", _wait),
    "settle": VerbRow("settle [within TIME]", lambda words: Settle(words.within_ms())),
    "recover": VerbRow("recover [within TIME]", lambda words: Recover(words.within_ms())),
    "show": VerbRow("show all|nothing|[sent|heard] KIND… [at NODE…]", _show),
    "state": VerbRow("state", lambda _: ShowState()),
    "servers": VerbRow("servers", lambda _: ShowServers()),
    "settings": VerbRow("settings SETTING=…", _settings),
}
"""Each verb, in the order of the docs."""
