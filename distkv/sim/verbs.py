"""The verbs of scenario files (docs/scenarios): which action each is, and which words follow it.

Knows: the forms of every command of the store; with those of services `verbs` is the whole grammar.  Does not know
files, blocks and traces (`grammar`), nor what an action does (`stage`).

Invariant: whatever follows a verb is an action or a ValueError that says what is expected there; what `command_of`
writes of an action is read as the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import attrs

from distkv.model.fence import read_fence_text
from distkv.model.state import State
from distkv.sim import actions, forms
from distkv.sim.actions import Action, Condition, Deed, Happening, Untruth
from distkv.sim.forms import Fields, Verb, WordForm, after, count, flag, mention, node, nodes, option, pairs, path, time
from distkv.sim.network import NetworkFaults
from distkv.sim.service import SimPart, sim_parts
from distkv.sim.settings import CORE, setting_words, world_known
from distkv.sim.words import Words, quoted, time_of, value_words
from distkv.transport.diversion import ANY, Diversion
from distkv.wire.gossip import GossipKind

GOSSIP: Final = tuple(GossipKind)
_DIVERTED: Final = f"[COUNT] {'|'.join((*GOSSIP, ANY))} [of NODE…] [to NODE…]"

TCP: Final = ("ask", "maps", "events", "known", "snapshot", "pages", "linked", "done")
OTHER: Final = ("write", "note", "state", "missing", "members", "tree")
"""What else a moment may be shown for: an own write, a note, another state, other ticks missing, other members, and
another place in the server tree, which happens beside the steps of a node."""
WAYS: Final = ("sent", "heard")
ALL: Final = frozenset([f"{way} {kind}" for way in WAYS for kind in (*GOSSIP, *TCP)] + [*OTHER])
"""Every tag that a moment may have, besides `outside`."""


def verbs() -> Mapping[str, Verb]:
    """Each verb, in the order of the docs; last those of services."""
    return _by_name(tuple(sim_parts()))


@cache
def _by_name(parts: tuple[SimPart, ...]) -> Mapping[str, Verb]:
    return {verb.name: verb for verb in (*_TABLE, *(verb for part in parts for verb in part.verbs))}


@cache
def _by_kind(parts: tuple[SimPart, ...]) -> Mapping[object, list[Verb]]:
    """Those of each kind of action; first those that say most of it."""
    found: dict[object, list[Verb]] = {}
    for verb in sorted(_by_name(parts).values(), key=lambda verb: -len(verb.fixed)):
        found.setdefault(verb.makes, []).append(verb)
    return found


def command_of(action: Action) -> str:
    """The line of a scenario file, with no comment and no line break."""
    verb = _verb_of(action)
    return " ".join([verb.name, *(word for form in verb.forms for word in form.write(action))])


def named_nodes(action: Action) -> list[str]:
    """The nodes that are there because an action names them."""
    return [name for form in _verb_of(action).forms for name in form.named(action)]


def mentioned_nodes(action: Action) -> list[str]:
    """Nodes that must be named elsewhere, too: here a name written wrong would do nothing."""
    return [name for form in _verb_of(action).forms for name in form.mentioned(action)]


def _verb_of(action: Action) -> Verb:
    return next(verb for verb in _by_kind(tuple(sim_parts()))[type(action)] if verb.is_for(action))


# -- forms of one verb only -----------------------------------------------------------------------------------------


@attrs.frozen
class _UnderFence(WordForm):
    """Under a fence, or lifting it: two fields, of which one is said."""

    def read(self, words: Words) -> Fields:
        if not words.takes("fence"):
            return {"refence": words.takes("refence")}
        said = words.take("the fence")
        fence = read_fence_text(said)
        if fence is None:
            raise ValueError(f"{said} is no fence, as TOKEN:1.2 is")
        return {"fence": fence}

    def write(self, action: Any) -> Iterator[str]:
        if action.fence is not None:
            yield from ("fence", *quoted(str(action.fence)))
        if action.refence:
            yield "refence"


@attrs.frozen
class _Diverted(WordForm):
    """Which gossip, and from whom to whom."""

    def mentioned(self, action: Any) -> Iterable[str]:
        return sorted(action.diversion.senders | action.diversion.receivers)


@attrs.frozen
class _Nested(WordForm):
    """Another command."""

    def named(self, action: Any) -> Iterable[str]:
        return named_nodes(action.action)

    def mentioned(self, action: Any) -> Iterable[str]:
        return mentioned_nodes(action.action)


def _one_of(field: str, known: Iterable[str], what: str, make: Callable[[str], object], usage: str) -> WordForm:
    def take(words: Words) -> object:
        found = words.take(f"the {what}")
        if found not in list(known):
            raise ValueError(f"{found} is no {what}; there are {', '.join(known)}")
        return make(found)

    return WordForm(field, usage, take, lambda found: (found,))


def _init(words: Words) -> object:
    return words.value() if words.next_is(lambda word: "=" not in word) else "root"


def _nodes_of_rot(words: Words) -> tuple[str, ...]:
    first = words.node()
    return (first,) if words.next_is(str.isdecimal) else (first, words.node())


def _set_value(words: Words) -> object:
    found = words.value()
    if found is None:
        raise ValueError("a value is not null: use delete")
    return found


def _condition(words: Words) -> Condition | None:
    return Condition(words.take("")) if words.next_is(lambda word: word in list(Condition)) else None


def _over(words: Words) -> int:
    return int(forms.above_0(words.integer("the count"), "the numbers begin again after 1 or more"))


def _sides(words: Words) -> tuple[tuple[str, ...], ...]:
    sides = [words.nodes("|")]
    while words.takes("|"):
        sides.append(words.nodes("|"))
    if len(sides) < 2:
        raise ValueError("there is one side only")
    if len(names := [name for side in sides for name in side]) > len(set(names)):
        raise ValueError("a node is on one side only")
    return tuple(sides)


@attrs.frozen
class _Sides(WordForm):
    def named(self, action: Any) -> Iterable[str]:
        return [name for side in action.sides for name in side]


def _diversion(words: Words) -> Diversion:
    at_most = words.integer("the count") if words.next_is(str.isdecimal) else None
    kind = words.take("the kind of message")
    if kind not in (*GOSSIP, ANY):
        raise ValueError(f"{kind} is no kind of gossip")
    senders = words.nodes("to", "by") if words.takes("of") else ()
    receivers = words.nodes("by") if words.takes("to") else ()
    return Diversion(kind, frozenset(senders), frozenset(receivers), at_most)


def _delayed(words: Words) -> Diversion:
    diversion = _diversion(words)
    if not words.takes("by"):
        raise ValueError("by is missing")
    return attrs.evolve(diversion, delay_ms=words.time_ms())


def _diverted(diversion: Diversion) -> Iterable[str]:
    if diversion.count is not None:
        yield str(diversion.count)
    yield diversion.kind
    yield from (*forms.listed("of", diversion.senders), *forms.listed("to", diversion.receivers))
    if diversion.delay_ms is not None:
        yield from ("by", time_of(diversion.delay_ms))


def _command(words: Words) -> Action:
    verb = words.take("the command")
    found = verbs().get(verb)
    if found is None:
        raise ValueError(f"{verb} is no verb")
    action = found.read(words)
    if not isinstance(action, Happening):
        raise ValueError(f"{verb} takes time, or is about the whole file")
    return action


def _tags(words: Words) -> frozenset[str]:
    shown = words.until("at")
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
    return frozenset(tags)


def _settings(words: Words) -> Mapping[str, int | bool]:
    if not words:
        raise ValueError("the setting is missing")
    return words.settings({**CORE, **world_known()})


_NODES: Final = nodes()
_STATE: Final = _one_of("state", State, "state", State, "STATE")
_UNTRUTH: Final = _one_of("what", Untruth, "untruth", Untruth, "|".join(Untruth))
_RATE: Final = forms.positive("rate", "the rate", "a rate is more than 0")
_JUMP: Final = forms.number("jump_s", "the jump")
_SHOWN_AT: Final = WordForm(
    "nodes", "[at NODE…]", lambda words: frozenset(words.nodes()), sorted, "at", is_optional=True, is_mention=True
)
_FENCE: Final = _UnderFence("fence", "[fence FENCE|refence]", Words.node, quoted)
_TTL: Final = WordForm(
    "ttl_s", "TIME", lambda words: forms.above_0(words.time_ms(), "a ttl is more than 0") / 1000,
    lambda ttl_s: [time_of(round(ttl_s * 1000))],
)  # fmt: skip
_CONDITION: Final = WordForm(
    "condition", f"[{'|'.join(Condition)}]", _condition, lambda found: [found] if found else []
)
_VALUE: Final = WordForm("value", "VALUE", _set_value, value_words)
_PACKETS: Final = forms.positive("packets_per_s", "the packets", "packets are more than 0")

_TABLE: Final = (
    Verb("cluster", actions.Cluster, (_NODES,)),
    Verb("gather", actions.Gather, (_NODES,)),
    Verb("start", actions.StartNode, (
        node(),
        option("as", node("named", is_naming=False)),
        WordForm("init", "[init [VALUE]]", _init, value_words, "init", is_optional=True),
        WordForm("settings", "[SETTING=…]…", lambda words: words.settings(CORE), setting_words),
    )),
    *(Verb(deed.value, actions.ToNode, (node(),), {"deed": deed}) for deed in Deed),
    Verb("clock", actions.SetClock, (node(), option("rate", _RATE), option("jump", _JUMP))),
    Verb("move", actions.Move, (node(), after("to", mention("other")))),
    Verb("rot", actions.Rot, (node(), path())),
    Verb("rot-some", actions.RotSome, (
        WordForm("nodes", "NODE [NODE]", _nodes_of_rot, lambda names: names, is_naming=True), count("count"),
    )),
    Verb(
        "set", actions.Write, (node(), path(), _VALUE, _CONDITION, option("ttl", _TTL), _FENCE),
        wrong=lambda write: "a fence is a condition by itself" if write.condition and write.fence else "",
    ),
    Verb("delete", actions.Write, (node(), path(), _FENCE), {"value": None}),
    Verb("fill", actions.Fill, (
        node(), path(), count("count"), option("from", count("first", "the first number", "NUMBER")),
        option("over", attrs.evolve(count("over"), take=_over)), flag("at-once", "is_batch"),
    )),
    Verb("swap", actions.Swap, (node(), count("number", "the number", "NUMBER"))),
    *(Verb(verb, actions.Decide, (node(), path(), after("of", mention("loser_of"))), {"is_restored": verb == "restore"})
      for verb in ("restore", "dismiss")),
    *(Verb(f"{verb}-any", actions.DecideAny, (
        node(), count("number", "the number", "NUMBER"), flag("if-won", "is_checked"),
    ), {"is_restored": verb == "restore"}) for verb in ("restore", "dismiss")),
    Verb("say", actions.TellAll, (
        node(), attrs.evolve(forms.text("text", "the text"), tell=value_words), option("times", count("times")),
    )),
    Verb("retire", actions.Retire, (node(), mention("other"), flag("force", "is_forced"))),
    Verb("retire-any", actions.Retire, (mention("other"),), {"node": "", "is_forced": True}),
    Verb("split", actions.Split, (
        _Sides("sides", "NODE… | NODE… [| NODE…]…", _sides, lambda sides: [" | ".join(map(" ".join, sides))]),
    )),
    Verb("cut", actions.CutWay, (mention("sender"), after(">", mention("receiver")))),
    Verb("heal", actions.Split, fixed={"sides": ()}),
    Verb("drop", actions.Divert, (_Diverted("diversion", _DIVERTED, _diversion, _diverted),),
         suits=lambda divert: divert.diversion.delay_ms is None),
    Verb("delay", actions.Divert, (_Diverted("diversion", f"{_DIVERTED} by TIME", _delayed, _diverted),)),
    Verb("deliver", actions.Divert, fixed={"diversion": None}),
    Verb("foreign", actions.Foreign, fixed={"is_there": True}),
    Verb("foreign-gone", actions.Foreign, fixed={"is_there": False}),
    Verb("lie", actions.Lie, (node(), _UNTRUTH)),
    Verb("agents", actions.Agents, (
        attrs.evolve(_NODES, take=lambda words: words.nodes_before(lambda word: "=" in word)),
        pairs(
            ("stream", count("stream_events", "the stream")), ("doubts", time("doubts_ms")), ("packets", _PACKETS),
        ),
    )),
    Verb("disturb", actions.Disturb, (
        pairs(
            ("loss", forms.chance("loss", "loss")), ("update-loss", forms.chance("update_loss", "update-loss")),
            ("copies", forms.chance("duplication", "copies")), ("gossip", forms.span("delay_ms")),
            ("answers", forms.span("answer_ms")), ("late", forms.chance("late", "late")),
            ("breaks", forms.chance("breaks", "breaks")), ("silence", time("silence_ms")),
            field="faults", makes=NetworkFaults,
        ),
    )),
    Verb("disks", actions.Disks, (forms.span("commit_ms"), option("stalls", forms.chance("stalls", "stalls")))),
    Verb("later", actions.Later, (
        time("after_ms"), _Nested("action", "COMMAND", _command, lambda action: [command_of(action)]),
    )),
    Verb("run", actions.PassTime, (time("for_ms"),)),
    Verb("wait", actions.WaitState, (node(), _STATE, forms.within())),
    Verb("settle", actions.Settle, (forms.within(),)),
    Verb("recover", actions.Recover, (forms.within(),)),
    Verb("show", actions.Show, (
        WordForm("tags", "all|nothing|[sent|heard] KIND…", _tags, lambda tags: sorted(tags) or ["nothing"]),
        _SHOWN_AT,
    )),
    Verb("state", actions.ShowState),
    Verb("settings", actions.Settings, (WordForm("values", "SETTING=…", _settings, setting_words),)),
)  # fmt: skip
