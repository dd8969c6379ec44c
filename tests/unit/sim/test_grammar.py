"""The language of scenario files: what can be said, and what is said about a mistake."""

from __future__ import annotations

import pytest

from distkv.errors import SettingsError
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.actions import (
    Action,
    Agents,
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
    Gather,
    Later,
    Lie,
    Move,
    PassTime,
    Recover,
    Retire,
    Rot,
    RotSome,
    SetClock,
    Settings,
    Settle,
    Show,
    ShowState,
    Split,
    StartNode,
    Swap,
    ToNode,
    Untruth,
    WaitState,
    Write,
)  # fmt: skip
from distkv.sim.agent import STREAM_EVENTS
from distkv.sim.grammar import parse_script
from distkv.sim.network import NetworkFaults
from distkv.sim.tokens.actions import ResetTokens, SetData, SetServers, ShowServers
from distkv.sim.verbs import ALL, command_of, verbs
from distkv.sim.words import SETTLE_CLOCKS
from distkv.transport.diversion import Diversion


def _read(*lines: str) -> list[Action]:
    script = parse_script("\n".join([*lines, "----"]), "t.txt")
    return [command.action for block in script.blocks for command in block.commands]


KNOWN = "cluster a b c"


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("cluster a b", Cluster(("a", "b"))),
        ("start a", StartNode("a", None, {})),
        ("start x as a init", StartNode("x", "root", {}, "a")),
        ("start a init", StartNode("a", "root", {})),
        ("start a init 7 clock=1s alone=yes", StartNode("a", 7, {"clock_ms": 1000, "alone": True})),
        ("start a init chain-length=2", StartNode("a", "root", {"chain_length_max": 2})),
        ("crash a", ToNode("a", Deed.CRASH)),
        ("roll-back a", ToNode("a", Deed.ROLL_BACK)),
        ("set a x.y 1", Write("a", Path(["x", "y"]), 1)),
        ("set a k 'two words' new", Write("a", Path(["k"]), "two words", condition=Condition.NEW)),
        ("set a k 1 ttl 500ms", Write("a", Path(["k"]), 1, ttl_s=0.5)),
        ("set a k 1 new ttl 2clocks", Write("a", Path(["k"]), 1, condition=Condition.NEW, ttl_s=10.0)),
        ("disk-full a", ToNode("a", Deed.DISK_FULL)),
        ("delete a k", Write("a", Path(["k"]), None)),
        ("fill a x 500", Fill("a", Path(["x"]), 500)),
        ("restore a k of b", Decide("a", Path(["k"]), "b", is_restored=True)),
        ("dismiss a k of b", Decide("a", Path(["k"]), "b", is_restored=False)),
        ("retire a b", Retire("a", "b", is_forced=False)),
        ("retire a b force", Retire("a", "b", is_forced=True)),
        ("split a b | c | d", Split((("a", "b"), ("c",), ("d",)))),
        ("cut a > b", CutWay("a", "b")),
        ("heal", Split(())),
        ("drop gossip", Divert(Diversion("gossip"))),
        ("drop 2 ping of a b to c", Divert(Diversion("ping", frozenset("ab"), frozenset("c"), 2))),
        ("delay info to c by 3s", Divert(Diversion("info", frozenset(), frozenset("c"), None, 3000))),
        ("deliver", Divert(None)),
        ("run 1.5clocks", PassTime(7500)),
        ("wait a cut-off within 2m", WaitState("a", State.CUT_OFF, 120_000)),
        ("settle", Settle(SETTLE_CLOCKS * 5000)),
        ("settle within 1clock", Settle(5000)),
        ("show all", Show(ALL, frozenset())),
        ("show nothing", Show(frozenset(), frozenset())),
        ("show sent ping note at a b", Show(frozenset({"sent ping", "note"}), frozenset("ab"))),
        ("show heard info update", Show(frozenset({"heard info", "sent update", "heard update"}), frozenset())),
        ("state", ShowState()),
        ("servers", ShowServers()),
        ("data u job '{\"by\": \"me\"}'", SetData("u", "job", {"by": "me"})),
        ("reset a", ResetTokens("a")),
        ("change a b c d", SetServers("a", ("b", "c", "d"))),
        ("gather a b", Gather(("a", "b"))),
        ("burn a", ToNode("a", Deed.BURN)),
        ("isolate a", ToNode("a", Deed.ISOLATE)),
        ("clock a rate 0.98", SetClock("a", 0.98, 0.0)),
        ("clock a rate 1.05 jump -3600.5", SetClock("a", 1.05, -3600.5)),
        ("move a to b", Move("a", "b")),
        ("rot a x.y", Rot("a", Path(["x", "y"]))),
        ("rot-some a 2", RotSome(("a",), 2)),
        ("rot-some a b 1", RotSome(("a", "b"), 1)),
        ("set a k 1 if-chain", Write("a", Path(["k"]), 1, Condition.CHAIN)),
        ("set a k 1 if-value", Write("a", Path(["k"]), 1, Condition.VALUE)),
        ("set a k 1 same ttl 1s", Write("a", Path(["k"]), 1, Condition.SAME, 1.0)),
        ("fill a x 20 from 7 over 10", Fill("a", Path(["x"]), 20, 7, 10)),
        ("fill a x 20 at-once", Fill("a", Path(["x"]), 20, is_batch=True)),
        ("swap a 3", Swap("a", 3)),
        ("restore-any a 7", DecideAny("a", 7, is_restored=True, is_checked=False)),
        ("dismiss-any a 7 if-won", DecideAny("a", 7, is_restored=False, is_checked=True)),
        ("retire-any b", Retire("", "b", is_forced=True)),
        ("foreign", Foreign(is_there=True)),
        ("foreign-gone", Foreign(is_there=False)),
        ("lie a tick-ahead", Lie("a", Untruth.TICK_AHEAD)),
        ("agents a b", Agents(("a", "b"), STREAM_EVENTS, 0, None)),
        ("agents a stream=8 doubts=5s packets=2.5", Agents(("a",), 8, 5000, 2.5)),
        ("disturb", Disturb(NetworkFaults())),
        ("disturb loss=0.1 gossip=1ms..2s", Disturb(NetworkFaults(0.1, delay_ms=(1, 2000)))),
        ("disturb answers=1ms silence=10s", Disturb(NetworkFaults(answer_ms=(1, 1), silence_ms=10_000))),
        ("disks 1ms..30ms", Disks((1, 30), 0.0)),
        ("disks 5ms stalls 0.01", Disks((5, 5), 0.01)),
        ("later 1500ms crash a", Later(1500, ToNode("a", Deed.CRASH))),
        ("later 2s start b", Later(2000, StartNode("b"))),
        ("recover within 60s", Recover(60_000)),
        ("settings clock=1s members=no", Settings({"clock_ms": 1000, "members": False})),
    ],
)
def test_command_is_read_and_written(line: str, action: Action) -> None:
    assert _read(KNOWN, line)[1:] == [action]
    assert _read(KNOWN, command_of(action))[1:] == [action]


def test_times_in_clocks_follow_the_setting() -> None:
    assert _read("settings clock=1s", "run 2clocks")[1] == PassTime(2000)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("dance a", "dance is no verb; there are cluster, gather, start"),
        ("set a k", "the value is missing; expected: set NODE PATH VALUE [new|"),
        ("set a k 1 ttl", "the time is missing; "),
        ("set a k 1 ttl 0s", "a ttl is more than 0; "),
        ("set a k null", "a value is not null: use delete; expected: "),
        ("set a k 1 2", "2 is one word too many; expected: "),
        ("set a :z 1", "expected: set NODE PATH"),
        ("set a k 'x", "the line cannot be split into words: No closing quotation"),
        ("crash", "the node is missing; expected: crash NODE"),
        ("crash a/b", "a/b is no name of a node; "),
        ("restore a k b", "of is missing; expected: restore NODE PATH of NODE"),
        ("split a b", "there is one side only; "),
        ("split a |", "the node is missing; "),
        ("split a b | a", "a node is on one side only; "),
        ("cut a b", "> is missing; expected: cut NODE > NODE"),
        ("run fast", "fast is no time, as 300ms, 5s or 2clocks are; "),
        ("fill a k many", "the count is a number, not many; "),
        ("drop 3 maps", "maps is no kind of gossip; "),
        ("delay ping", "by is missing; "),
        ("wait a asleep", "asleep is no state; there are passive, "),
        ("show tea", "tea is no kind; there are update, "),
        ("show", "a kind is missing; "),
        ("settings colour=red", "colour is no setting; there are clock, "),
        ("settings ping-length=0", "ping-length is more than 0; "),
        ("drop ping of zoe", "nothing else is said of zoe; there are "),
        ("cut a > b", "nothing else is said of a; there are "),
        ("show ping at zoe", "nothing else is said of zoe; "),
        ("retire a zoe", "nothing else is said of zoe; there are a"),
        ("settings members=maybe", "members is yes or no; "),
        ("settings", "expected: settings SETTING=…"),
        ("clock a rate 0", "a rate is more than 0; "),
        ("clock a jump far", "the jump is a number, not far; "),
        ("move a b", "to is missing; expected: move NODE to NODE"),
        ("move a to zoe", "nothing else is said of zoe; "),
        ("rot-some a", "the node is missing; "),
        ("fill a x 3 over 0", "the numbers begin again after 1 or more; "),
        ("lie a politely", "politely is no untruth; there are unknown-writer, "),
        ("agents", "the node is missing; "),
        ("agents a colour=red", "colour is not known here; there are doubts, "),
        ("agents a packets=0", "packets are more than 0; "),
        ("disturb loss=2", "loss is from 0 to 1, not 2; "),
        ("disturb gossip=2s..1s", "a span of times does not run from 2s to 1s; "),
        ("disks", "the span of times is missing; "),
        ("later 1s run 5s", "run takes time, or is about the whole file; "),
        ("later 1s dance a", "dance is no verb; "),
        ("later 1s cut a > zoe", "nothing else is said of a; "),
    ],
)
def test_mistake_is_named_with_its_line(line: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _read("# a comment", line)
    assert str(caught.value).startswith("t.txt, line 2: ")
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "run 5s\n", "run 5s\n----\n\nrun 3s\n"])
def test_file_that_expects_nothing_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"line [1-9]: the file ends without ----"):
        parse_script(text, "t.txt")


def test_text_of_a_script_is_its_file() -> None:
    text = "# why\nrun 5s  # long\n\nrun 1s\n----\n  1.0 a x\n\nstate\n----\na: ready\n\n# the end\n"
    script = parse_script(text, "t.txt")
    assert script.text([block.expected for block in script.blocks]) == text


def test_traces_are_put_in_place_of_the_expected_ones() -> None:
    script = parse_script("run 5s\n----\nold\n\nrun 1s\n----\n", "t.txt")
    assert script.text([["new"], []]) == "run 5s\n----\nnew\n\nrun 1s\n----\n"


def test_nodes_are_all_that_are_named() -> None:
    assert parse_script("cluster a b\nstart x\nsplit a | y\n----\n", "t.txt").nodes == ("a", "b", "x", "y")


def test_usage_begins_with_its_verb() -> None:
    assert [verb for verb, row in verbs().items() if row.usage.split()[0] != verb] == []
