"""A service of the tests in the simulator: it is mounted on a fleet, seeds draw it, scenario files speak of it, and its
rule sees what it does.

Knows: the echo.  Does not know other services.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from itertools import islice

import pytest

from distkv import mount
from distkv.core.client_writes import LocalSet
from distkv.core.ready import Answer, Input, Ready, ServiceAsked
from distkv.errors import (
    BadValueError,
    InternalError,
    NotReadyError,
    RequestError,
    SettingsError,
    UnknownOutcomeError,
)
from distkv.model.path import Path
from distkv.sim.actions import ServiceAction
from distkv.sim.draft import draw, seeds_with
from distkv.sim.fleet import Fleet
from distkv.sim.grammar import parse_script
from distkv.sim.network import NetworkFaults
from distkv.sim.player import ScriptFailedError, play
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.run import Verdict, run
from distkv.sim.verbs import command_of
from distkv.storage.memory import MemoryDisk
from distkv.wire.declared import pack
from distkv.wire.message import SlotRecord
from distkv.wire.value_requests import SetValue
from tests.profiles import seeds
from tests.proof.core.echo.machine import ECHO, Echo, sealed
from tests.proof.core.echo.noting import NoteBody
from tests.proof.sim.echo.crowd import EchoNodes
from tests.proof.sim.echo.holds import FencesAreHeld
from tests.proof.sim.echo.names import NamesAreKnown
from tests.proof.sim.echo.notes import NotesAreKept
from tests.proof.sim.echo.rule import EchoIsTrue, FieldsAreSeen, RowsStay, ShoutsAreTold
from tests.proof.wire.echo import (
    EchoAsk,
    EchoChanged,
    EchoHeard,
    EchoHold,
    EchoKeep,
    EchoNamed,
    EchoNote,
    EchoSeal,
    EchoWatch,
)

NAMES = ("a", "b", "c")


def fleet_of(*rules: Observer, seed: int = 0, nodes: EchoNodes | None = None) -> Fleet:
    fleet = Fleet(seed, observers=[*rules])
    fleet.services[ECHO] = nodes or EchoNodes()
    for name in NAMES:
        fleet.start(name, init="root" if name == "a" else None)
    assert fleet.run_until(lambda: all(host.live.is_serving for host in fleet.running()), 60_000)
    fleet.run(30_000)
    return fleet


def ask(fleet: Fleet, name: str, id: int, to: str, text: str) -> None:
    fleet.step(name, ServiceAsked(ECHO, id, EchoAsk(1, to, text)))


@pytest.mark.parametrize("seed", seeds(3))
def test_echoes_come_back_whatever_the_network_does(seed: int) -> None:
    rule, rng = EchoIsTrue(), random.Random(seed)
    fleet = fleet_of(rule, seed=seed)
    fleet.network.faults = NetworkFaults(delay_ms=(5, 900), answer_ms=(5, 50), loss=0.2)
    for id in range(1, 40):
        ask(fleet, rng.choice(NAMES), id, rng.choice(NAMES), f"text {id}")
        fleet.run(rng.randrange(700))
    fleet.run(30_000)
    rule.settled(fleet)
    assert rule.heard_count > 20


def test_work_takes_its_time_here_too() -> None:
    fleet = fleet_of(EchoIsTrue())
    answers: list[object] = []
    process = fleet.hosts["a"].process
    assert process is not None
    for id, text in enumerate(("abc", "refused", "fault"), 1):
        process.asked[id] = lambda answer: answers.append(answer.result)
        fleet.step("a", ServiceAsked(ECHO, id, EchoSeal(1, text)))
    assert answers == []
    assert fleet.run_until(lambda: len(answers) == 3, 10_000)
    assert answers[0] == EchoHeard(sealed("abc").decode())
    assert [type(answer) for answer in answers[1:]] == [BadValueError, InternalError]


def test_answer_that_is_not_true_breaks_the_rule() -> None:
    rule = EchoIsTrue()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    what: Input = ServiceAsked(ECHO, 1, EchoAsk(1, "b", "abc"))
    rule.stepped(process, what, Ready())
    with pytest.raises(BrokenRuleError, match="heard abc of abc"):
        rule.stepped(process, None, Ready(answers=[Answer(1, EchoHeard("abc"))]))


def test_question_that_stays_open_breaks_the_rule() -> None:
    rule = EchoIsTrue()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    rule.stepped(process, ServiceAsked(ECHO, 1, EchoAsk(1, "b", "abc")), Ready())
    with pytest.raises(BrokenRuleError, match="nobody answered"):
        rule.settled(fleet)


def keep(fleet: Fleet, name: str, id: int, key: str, text: str | None) -> None:
    host = fleet.hosts[name]
    if host.process is not None:
        fleet.step(name, ServiceAsked(ECHO, id, EchoKeep(1, key, text)))


@pytest.mark.parametrize("seed", seeds(4))
def test_rows_stay_whatever_befalls_the_hosts(seed: int) -> None:
    rule, rng = RowsStay(), random.Random(seed)
    fleet = fleet_of(rule, seed=seed)
    copies: dict[str, MemoryDisk] = {}
    for id in range(1, 150):
        name = rng.choice(NAMES)
        host = fleet.hosts[name]
        match rng.randrange(10):
            case 0 if host.process is not None:
                rng.choice([fleet.end, fleet.lose_power])(host)
            case 1 if host.process is None:
                copies[name] = host.disk.copy()
            case 2 if host.process is None and name in copies and rng.random() < 0.3:
                fleet.set_back(name, copies[name])
            case 3 if host.process is None and rng.random() < 0.5:
                fleet.rot(name, lambda paths: rng.sample(paths, min(len(paths), 2)))
            case 4 | 5 if host.process is None:
                fleet.start(name)
            case _:
                keep(fleet, name, id, rng.choice("xyz"), rng.choice(["one", "two", None]))
        fleet.run(rng.randrange(3000))
    assert rule.start_count > 3


def test_rows_stay_on_an_old_disk_and_over_its_download_and_the_service_is_told() -> None:
    """SLOT-5."""
    nodes = EchoNodes()
    fleet = fleet_of(RowsStay(), nodes=nodes)
    keep(fleet, "b", 1, "x", "one")
    fleet.run(5000)
    host = fleet.hosts["b"]
    fleet.end(host)
    copy = host.disk.copy()
    fleet.start("b")
    fleet.run(30_000)
    keep(fleet, "b", 2, "x", "newer")
    fleet.step("b", LocalSet(SetValue(1, Path(["p"]), b"\x01")))
    fleet.run(30_000)
    fleet.end(host)
    fleet.set_back("b", copy)
    fleet.start("b")
    assert fleet.run_until(lambda: any(is_old for _, _, is_old in nodes.machines["b"].doubts), 120_000)
    fleet.run(60_000)
    assert host.live.is_serving
    assert host.live.store.slots == {}
    ground = nodes.machines["b"].ground
    assert ground is not None
    assert [*ground.data.items()] == [("x", b"one")]
    assert ground.data.is_old


def test_row_that_is_gone_breaks_the_rule() -> None:
    rule = RowsStay()
    fleet = fleet_of(rule)
    keep(fleet, "a", 1, "x", "one")
    fleet.run(5000)
    host = fleet.hosts["a"]
    fleet.end(host)
    host.disk.wipe()  # behind the back of the rule
    with pytest.raises(BrokenRuleError, match=r"starts with \{\}"):
        fleet.start("a")


@pytest.fixture
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(mount, "SERVICES", (*mount.SERVICES, ("tests.proof", "echo")))


@pytest.mark.usefixtures("_mounted")
def test_seeds_draw_it_and_its_rule_is_kept() -> None:
    rule, counted = EchoIsTrue(), 0
    for seed in islice(seeds_with(ECHO, 0), 2):
        outcome = run(draw(seed), observers=[rule])
        assert (outcome.verdict is not Verdict.FAILED, outcome.what) == (True, outcome.what)
        counted += rule.heard_count
    assert counted > 20


@pytest.mark.usefixtures("_mounted")
def test_seeds_have_notes_that_are_kept_and_watches_that_know_them() -> None:
    (seed,) = islice(seeds_with(ECHO, 16), 1)  # in which a note comes late from who had it before
    rule = NotesAreKept()
    outcome = run(draw(seed), observers=[rule])
    assert (outcome.verdict is not Verdict.FAILED, outcome.what) == (True, outcome.what)
    assert len(rule.noted) > 10
    assert rule.listed
    assert rule.known_count


@pytest.mark.usefixtures("_mounted")
def test_seeds_have_hidden_names_and_seals_and_their_rules_are_kept() -> None:
    true, names = EchoIsTrue(), NamesAreKnown()
    (seed,) = islice(seeds_with(ECHO, 2010), 1)
    outcome = run(draw(seed, {"tokens", "topics"}), observers=[true, names])
    assert (outcome.verdict is not Verdict.FAILED, outcome.what) == (True, outcome.what)
    assert true.sealed_count > 3
    assert names.secret_count


@pytest.mark.usefixtures("_mounted")
def test_seeds_with_tokens_have_entries_under_fences_and_their_rule_is_kept() -> None:
    fences = FencesAreHeld()
    (seed,) = islice(seeds_with(ECHO, 16), 1)
    outcome = run(draw(seed, {"topics"}), observers=[fences])
    assert (outcome.verdict is not Verdict.FAILED, outcome.what) == (True, outcome.what)
    assert fences.held_count > 3


def test_fence_that_two_are_answered_breaks_the_rule() -> None:
    rule = FencesAreHeld()
    process = fleet_of(rule).hosts["a"].process
    assert process is not None
    for id in (1, 2):
        rule.stepped(process, ServiceAsked(ECHO, id, EchoHold(1, "t")), Ready())
    rule.stepped(process, None, Ready(answers=[Answer(1, EchoHeard("t:1.1"))]))
    with pytest.raises(BrokenRuleError, match="which another one had"):
        rule.stepped(process, None, Ready(answers=[Answer(2, EchoHeard("t:1.1"))]))


def test_entry_below_the_fence_that_was_answered_breaks_the_rule() -> None:
    rule = FencesAreHeld()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    rule.stepped(process, ServiceAsked(ECHO, 1, EchoHold(1, "t")), Ready())
    rule.stepped(process, None, Ready(answers=[Answer(1, EchoHeard("t:1.1"))]))
    with pytest.raises(BrokenRuleError, match="has None of t, and t"):
        rule.settled(fleet)


def test_name_that_a_watch_does_not_know_breaks_the_rule() -> None:
    rule = NamesAreKnown()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    rule.stepped(process, ServiceAsked(ECHO, 1, EchoWatch(1)), Ready())
    rule.stepped(process, None, Ready(answers=[Answer(1, EchoChanged((EchoNamed("secret-x", "y"),)), is_last=False)]))
    with pytest.raises(BrokenRuleError, match="its client knows"):
        rule.settled(fleet)


@pytest.mark.parametrize(("error", "is_broken"), [(NotReadyError, True), (UnknownOutcomeError, False)])
def test_note_that_was_refused_and_is_written_down_breaks_the_rule_unless_that_says_so(
    error: type[RequestError], is_broken: bool
) -> None:
    rule = NotesAreKept()
    process = fleet_of(rule).hosts["a"].process
    assert process is not None
    rule.stepped(process, ServiceAsked(ECHO, 1, EchoNote(1, "x", "text", has_effects=True)), Ready())
    rule.stepped(process, None, Ready(answers=[Answer(1, error("no"))]))
    written = Ready(records=[SlotRecord(ECHO, "note x", pack(NoteBody("x", "text")))])
    with pytest.raises(BrokenRuleError, match="was refused") if is_broken else nullcontext():
        rule.stepped(process, None, written)


@pytest.mark.usefixtures("_mounted")
def test_seeds_with_trees_have_frames_and_announced_fields_and_their_rules_are_kept() -> None:
    shouts, fields = ShoutsAreTold(), FieldsAreSeen()
    found = (seed for seed in seeds_with(ECHO, 0) if draw(seed).world.get("trees"))
    for seed in islice(found, 2):
        outcome = run(draw(seed), observers=[shouts, fields])
        assert (outcome.verdict is not Verdict.FAILED, outcome.what) == (True, outcome.what)
    assert shouts.heard_count > 100
    assert shouts.lacked_count > 100
    assert fields.seen_count > 3


@pytest.mark.usefixtures("_mounted")
def test_seed_that_leaves_it_out_has_nothing_of_it() -> None:
    seed = next(seeds_with(ECHO, 0))
    planned = [one.action for one in draw(seed, {ECHO}).planned]
    assert not any(isinstance(action, ServiceAction) and action.service == ECHO for action in planned)
    assert planned == [one.action for one in draw(seed).planned if getattr(one.action, "service", "") != ECHO]


@pytest.mark.usefixtures("_mounted")
def test_wrong_echo_fails_the_seed_and_is_a_scenario_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "answer_of", staticmethod(lambda body: body))
    seed = next(seeds_with(ECHO, 0))
    outcome = run(draw(seed))
    assert outcome.rule == EchoIsTrue.rule
    with pytest.raises(ScriptFailedError, match=EchoIsTrue.rule):
        play(parse_script(draw(seed).text(), "seed.txt"))


SCENARIO = """
settings echo=yes
show nothing
cluster a b
name-echo a x is one
name-echo b y is two
run 2s
ask-echo a b abc
run 2s
name-echo b x
run 2s
names
----
"""


@pytest.mark.usefixtures("_mounted")
def test_scenario_file_speaks_of_it() -> None:
    played = play(parse_script(SCENARIO, "echo.txt"))
    assert played.outputs == (("a: its client knows y is two", "b: its client knows y is two"),)
    script = parse_script(SCENARIO, "echo.txt")
    commands = [command for block in script.blocks for command in block.commands]
    assert [command_of(command.action) for command in commands if command.text.startswith("name-echo")] == [
        command.text for command in commands if command.text.startswith("name-echo")
    ]


def test_without_the_line_no_verb_of_it_is_known() -> None:
    with pytest.raises(SettingsError, match="echo is no setting"):
        parse_script(SCENARIO, "echo.txt")


def test_row_that_rots_is_lost_alone_and_told_until_it_is_kept_again() -> None:
    """SLOT-3."""
    nodes = EchoNodes()
    fleet = fleet_of(RowsStay(), nodes=nodes)
    for id, key in enumerate("xyz", 1):
        keep(fleet, "b", id, key, key)
    fleet.run(5000)
    assert fleet.rot("b", lambda _: [], lambda rows: [row for row in rows if row[1] == "y"])
    for _ in range(2):
        fleet.start("b")
        fleet.run(30_000)
        machine = nodes.machines["b"]
        assert machine.doubts == [({"y"}, False, False)]
        assert machine.ground is not None
        assert [*machine.ground.data.keys()] == ["x", "z"]
        fleet.end(fleet.hosts["b"])
    fleet.start("b")
    fleet.run(30_000)
    keep(fleet, "b", 9, "y", "again")
    fleet.run(5000)
    fleet.end(fleet.hosts["b"])
    fleet.start("b")
    fleet.run(30_000)
    assert nodes.machines["b"].doubts == [(set(), False, False)]
