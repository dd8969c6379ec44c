"""The judgements of `distkv doctor`: what is well, what is not, and what it says to do.

Knows: facts and findings.  No socket, no file, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest

from distkv.config import Limits
from distkv.doctor import checks
from distkv.doctor.facts import (
    AgentFacts,
    Clock,
    DamageFacts,
    Descriptors,
    DirectoryFacts,
    Finding,
    Level,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    Trouble,
)

OK, WARN, FAIL = Level.OK, Level.WARN, Level.FAIL

MIB = 1 << 20
AGENT = AgentFacts(
    "h:7373",
    protocol=5,
    event_bytes=472,
    queues={"event": 0, "intent": 0, "query": 0},
    carriers={"a": ("one",), "b": ("two",)},
)
A = NodeFacts(
    "h:1",
    name="a",
    version="0.1.0",
    state="ready",
    network="00",
    clock=Clock(0.0, 0.001),
    settings={"ping.clock": 5.0},
    peers=(PeerFacts("b", "i:1", True),),
)
B = attrs.evolve(A, where="i:1", name="b", peers=(PeerFacts("a", "h:1", True),))
GONE = NodeFacts("h:1", failure="no server answers at h:1")
DIRECTORY = DirectoryFacts("/d", exists=True, owner="me", free_bytes=1000 * MIB, archive_bytes=MIB, format=1, holder=7)


def judged(found: Finding | Iterable[Finding]) -> list[tuple[str, Level]]:
    return [(one.check, one.level) for one in ([found] if isinstance(found, Finding) else found)]


def said(found: Finding | Iterable[Finding]) -> str:
    """The complaints; each says what to do."""
    complaints = [one for one in ([found] if isinstance(found, Finding) else found) if one.level is not OK]
    return "\n".join(f"{one.says}; {one.do}" for one in complaints)


# -- the configuration --------------------------------------------------------------------------------------------


def test_configuration_that_cannot_be_read_is_mended_first() -> None:
    found = checks.check_configuration(None, "serf.port: no port")
    assert (judged(found), said(found)) == (
        [("configuration", FAIL)],
        "serf.port: no port; mend that first: nothing else was checked",
    )


@pytest.mark.parametrize("file", [None, Path("/etc/distkv.yaml")])
def test_configuration_is_well_with_and_without_a_file(file: Path | None) -> None:
    assert judged(checks.check_configuration(file)) == [("configuration", OK)]


# -- the agent ----------------------------------------------------------------------------------------------------


def test_agent_that_is_well_gets_no_complaint() -> None:
    assert judged(checks.check_agent(AGENT)) == [("agent", OK), ("events", OK), ("queues", OK)]


@pytest.mark.parametrize(
    ("trouble", "advice"),
    [(Trouble.GONE, "start it with 'serf agent'"), (Trouble.SILENT, "it hangs"), (Trouble.KEY, "set serf.auth")],
)
def test_agent_that_says_nothing_fails(trouble: Trouble, advice: str) -> None:
    found = list(checks.check_agent(AgentFacts("h:1", trouble, "it wants a key: set serf.auth")))
    assert judged(found) == [("agent", FAIL)]
    assert advice in said(found)


def test_agent_with_small_events_is_warned_of() -> None:
    assert ("events", WARN) in judged(checks.check_agent(attrs.evolve(AGENT, event_bytes=471)))


def test_agent_with_large_events_needs_no_hint() -> None:
    found = {one.check: one.says for one in checks.check_agent(attrs.evolve(AGENT, event_bytes=1300))}
    assert "1390" not in found["events"]


@pytest.mark.parametrize(("queue", "level"), [(63, OK), (64, WARN)])
def test_agent_that_is_behind_is_warned_of(queue: int, level: Level) -> None:
    assert ("queues", level) in judged(checks.check_agent(attrs.evolve(AGENT, queues={"event": 0, "intent": queue})))


def test_agent_that_hears_late_is_warned_of() -> None:
    assert "health score 2" in said(checks.check_agent(attrs.evolve(AGENT, health=2)))


# -- members ------------------------------------------------------------------------------------------------------


def test_members_that_both_know_get_no_complaint() -> None:
    assert judged(checks.check_members(AGENT, A)) == [("members", OK)]


@pytest.mark.parametrize(
    ("agent", "node", "complaint"),
    [
        (attrs.evolve(AGENT, failed=("x", "y")), A, "the agent hears none of the others: x and y failed; look at"),
        (attrs.evolve(AGENT, alive=2, failed=("x",)), A, "the agent x has failed; start it again, or forget it"),
        (attrs.evolve(AGENT, carriers={"a": ("one",), "b": ("two", "three")}), A, "the agents two and three both say"),
        (attrs.evolve(AGENT, carriers={"b": ("two",)}), A, "no agent says that a is beside it"),
        (AGENT, attrs.evolve(A, peers=()), "b is beside an agent, and a does not know it"),
        (attrs.evolve(AGENT, carriers={"a": ("one",)}), A, "b is alive, but no agent says so"),
    ],
)
def test_members_that_differ_are_warned_of(agent: AgentFacts, node: NodeFacts, complaint: str) -> None:
    found = list(checks.check_members(agent, node))
    assert judged(found) == [("members", WARN)]
    assert said(found).startswith(complaint)


def test_node_that_is_away_needs_no_agent() -> None:
    away = attrs.evolve(A, peers=(PeerFacts("c", "j:1", False), *A.peers))
    assert judged(checks.check_members(AGENT, away)) == [("members", OK)]


# -- the node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "level", "complaint"),
    [
        (A, OK, ""),
        (attrs.evolve(A, failed=("tokens",)), FAIL, "a at h:1 is ready, release 0.1.0, and its tokens failed"),
        (attrs.evolve(A, aside=("b:5",)), FAIL, "a at h:1 is ready, release 0.1.0, and has set aside b:5, which"),
        (attrs.evolve(A, aside=("b:5",) * 9), FAIL, "a at h:1 is ready, release 0.1.0, and has set aside 9 inputs"),
        (attrs.evolve(A, state="cut-off"), WARN, "a at h:1 is cut-off, release 0.1.0; see to the Serf agent"),
        (attrs.evolve(A, state="passive", waits_for="x"), WARN, "a at h:1 is passive, release 0.1.0: it waits for x"),
        (attrs.evolve(A, missing=("b", "c")), WARN, "a at h:1 is ready, release 0.1.0, and misses changes of b and c"),
        (attrs.evolve(A, name="z"), FAIL, "the node at h:1 is called z, not a"),
        (GONE, FAIL, "process 7 uses /d, but no server answers at h:1; compare 'listen'"),
    ],
)
def test_node_is_judged_by_its_state(node: NodeFacts, level: Level, complaint: str) -> None:
    found = checks.check_node(node, "a", DIRECTORY)
    assert judged(found) == [("node", level)]
    assert said(found).startswith(complaint)


def test_node_that_nobody_started_fails() -> None:
    found = checks.check_node(GONE, "a", attrs.evolve(DIRECTORY, holder=0))
    assert (found.level, found.says) == (FAIL, GONE.failure)


# -- other nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "others", "level", "complaint"),
    [
        (
            attrs.evolve(A, peers=(PeerFacts("c", "j:1", False), *A.peers)), {"b": B}, WARN, "c at j:1 is away"
        ),
        (
            attrs.evolve(A, peers=(PeerFacts("c", "i:1", False), *A.peers)), {"b": B}, WARN,
            "c at i:1 is away, and b is at this address now; if b is its new name, 'distkv client node retire c'",
        ),
        (A, {"b": NodeFacts("i:1", failure="no way")}, FAIL, "b is alive, but no way; if it runs, let i:1 through"),
        (A, {"b": attrs.evolve(B, name="a")}, FAIL, "the node at i:1 is called a, not b"),
        (A, {"b": attrs.evolve(B, network="11")}, FAIL, "b belongs to another network (11, not 00)"),
        (A, {"b": attrs.evolve(B, state="recovering")}, WARN, "b at i:1 is recovering"),
    ],
)
def test_other_node_that_is_not_well_is_named(
    node: NodeFacts, others: dict[str, NodeFacts], level: Level, complaint: str
) -> None:
    found = list(checks.check_peers(node, others))
    assert judged(found) == [("peers", level)]
    assert said(found).startswith(complaint)


@pytest.mark.parametrize("names", ["b", "bc", "bcd"])
def test_node_that_hears_nobody_fails_and_looks_at_its_own_network(names: str) -> None:
    alone = attrs.evolve(
        A,
        peers=tuple(PeerFacts(name, "i:1", False) for name in names),
        links=tuple(LinkFacts(name, "i:1", False, "silent") for name in names),
    )
    found = list(checks.check_peers(alone, {}))
    assert judged(found) == [("peers", FAIL)] + [("peers", WARN)] * len(names)
    assert found[0].do.startswith("look at this host's own network")
    assert "no other nodes" not in said(checks.check_links([alone]))


def test_other_nodes_that_are_well_get_one_line() -> None:
    found = list(checks.check_peers(A, {"b": B}))
    assert [(one.level, one.says) for one in found] == [(OK, "1 other node, all ready")]


REFUSED = LinkFacts("a", "h:1", False, "h:1: cannot connect: no answer within 3 s")


def test_node_that_cannot_be_reached_is_named_with_who_tried() -> None:
    assert said(checks.check_links([A, attrs.evolve(B, links=(REFUSED,))])) == (
        "b cannot reach a at h:1: cannot connect: no answer within 3 s; "
        "let b through the firewall to it, or give a another --advertise"
    )
    assert judged(checks.check_links([A, attrs.evolve(B, links=(REFUSED,))])) == [("links", WARN)]


def test_node_that_lends_a_connection_because_it_cannot_be_reached_is_named() -> None:
    lent = attrs.evolve(B, links=(attrs.evolve(REFUSED, is_up=True),))
    assert said(checks.check_links([A, lent])).startswith("b cannot reach a at h:1: cannot connect")


def test_node_that_only_others_hear_is_alive() -> None:
    deaf = attrs.evolve(B, peers=(PeerFacts("c", "j:1", False),), links=(LinkFacts("c", "j:1", False, "no way"),))
    hears = attrs.evolve(A, peers=(PeerFacts("b", "i:1", True), PeerFacts("c", "j:1", True)))
    assert said(checks.check_links([hears, deaf])).startswith("b cannot reach c at j:1: no way;")


@pytest.mark.parametrize(
    ("link", "says"),
    [
        (LinkFacts("a", "h:1", True), "1 link on 2 nodes"),
        (LinkFacts("a", "h:1", False), "0 links on 2 nodes"),  # nobody tried: a follows through others, or not at all
        (LinkFacts("z", "j:1", False, "it is silent"), "0 links on 2 nodes"),  # away, as `peers` says
    ],
)
def test_link_that_is_up_or_cannot_be_is_no_complaint(link: LinkFacts, says: str) -> None:
    found = list(checks.check_links([A, attrs.evolve(B, links=(link,))]))
    assert [(one.level, one.says) for one in found] == [(OK, says)]


def test_node_alone_needs_no_link() -> None:
    assert [one.says for one in checks.check_links([attrs.evolve(A, peers=())])] == ["there are no other nodes"]


def test_releases_that_differ_are_named() -> None:
    assert said(checks.check_releases([A, attrs.evolve(B, version="0.2.0")])).startswith("0.1.0 on a; 0.2.0 on b;")
    assert judged(checks.check_releases([A, B])) == [("releases", OK)]


@pytest.mark.parametrize(
    ("clock", "level"),
    [
        (Clock(0.9, 0.0), OK),
        (Clock(1.5, 0.6), OK),  # it may be 0.9
        (Clock(1.5, 0.4), WARN),
        (Clock(-1.5, 0.4), WARN),
        (Clock(86_402.0, 0.5), FAIL),  # a node with such a clock is not let in
    ],
)
def test_clock_is_judged_by_what_is_certain(clock: Clock, level: Level) -> None:
    assert judged(checks.check_clocks([A, attrs.evolve(B, clock=clock)])) == [("clocks", level)]


def test_clock_that_is_wrong_is_told_with_its_error() -> None:
    found = said(checks.check_clocks([attrs.evolve(A, clock=Clock(-3.25, 0.004))]))
    assert found.startswith("the clock of a is 3.25 s (± 0.004) behind this host's")


def test_node_without_a_clock_is_of_an_older_release() -> None:
    assert said(checks.check_clocks([A, attrs.evolve(B, clock=None)])).startswith("b does not tell its time")


def test_settings_that_differ_are_named_with_their_nodes() -> None:
    other = attrs.evolve(B, settings={"ping.clock": 2.0})
    found = list(checks.check_settings([A, other, attrs.evolve(A, name="c")]))
    assert judged(found) == [("settings", WARN)]
    assert said(found).startswith("ping.clock is 2 on b, 5 on a and c; set it alike")


def test_setting_that_one_node_does_not_tell_is_no_difference() -> None:
    assert judged(checks.check_settings([A, attrs.evolve(B, settings={})])) == [("settings", OK)]


def test_setting_that_the_running_node_does_not_have_is_told() -> None:
    assert said(checks.check_restart(A, {"ping.clock": 3.0})).startswith("a runs with ping.clock 5, and its conf")
    assert judged(checks.check_restart(A, {"ping.clock": 5.0, "serf.root": "x"})) == []


PINGING = attrs.evolve(A, settings={"ping.clock": 5.0, "ping.length": 4})


def test_pings_that_were_not_followed_are_no_complaint() -> None:
    (found,) = checks.check_pings([A, PINGING])
    assert (found.level, found.says) == (OK, "no ping was followed yet, no split was seen")


@pytest.mark.parametrize(
    ("delivery_s", "level"),
    [((0.0, 0.4), OK), ((2.5, 2.9), OK), ((2.3, 2.7), OK), ((2.501, 2.9), WARN), ((9.0, 9.4), WARN)],
)
def test_clock_shorter_than_two_deliveries_is_told(delivery_s: tuple[float, float], level: Level) -> None:
    assert judged(checks.check_pings([A, attrs.evolve(PINGING, delivery_s=delivery_s)])) == [("pings", level)]


def test_short_clock_is_told_with_one_that_is_long_enough() -> None:
    assert said(checks.check_pings([attrs.evolve(PINGING, delivery_s=(3.05, 3.4))])) == (
        "gossip takes 3 s or more from a to another node, ping.clock is 5 s; look at the agents' load and network, or"
        " set ping.clock to 7 on all nodes"
    )


@pytest.mark.parametrize(("partitions", "level"), [(1, OK), (3, OK), (4, WARN), (5, WARN)])
def test_chain_no_longer_than_there_were_partitions_is_told(partitions: int, level: Level) -> None:
    assert judged(checks.check_pings([attrs.evolve(PINGING, partitions=partitions)])) == [("pings", level)]


def test_short_chain_is_told_with_one_that_is_long_enough() -> None:
    assert said(checks.check_pings([A, attrs.evolve(PINGING, name="b", partitions=4)])) == (
        "4 sides of a split met at b, ping.length is 4; set ping.length to 5 or more on all nodes"
    )


# -- this host ----------------------------------------------------------------------------------------------------


def test_directory_that_is_well_gets_no_complaint() -> None:
    assert judged(checks.check_directory(DIRECTORY, A)) == [("directory", OK), ("format", OK), ("space", OK)]


@pytest.mark.parametrize(
    ("directory", "node", "expected"),
    [
        (DirectoryFacts("/d"), GONE, ("directory", OK)),
        (DirectoryFacts("/d"), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, failure="no"), GONE, ("directory", FAIL)),
        (attrs.evolve(DIRECTORY, failure="no"), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, mode=0o750), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, is_ours=False), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, strangers=("root",)), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, holder=0), A, ("directory", WARN)),
        (attrs.evolve(DIRECTORY, holder=0), GONE, ("directory", OK)),
        (attrs.evolve(DIRECTORY, holder=None), A, ("directory", OK)),
        (attrs.evolve(DIRECTORY, format=None), A, ("format", OK)),
        (attrs.evolve(DIRECTORY, format=99), A, ("format", FAIL)),
        (attrs.evolve(DIRECTORY, damage="it is none"), A, ("format", FAIL)),
        (attrs.evolve(DIRECTORY, free_bytes=31 * MIB), A, ("space", FAIL)),
        (attrs.evolve(DIRECTORY, free_bytes=64 * MIB), A, ("space", WARN)),
        (attrs.evolve(DIRECTORY, free_bytes=65 * MIB), A, ("space", OK)),
        (attrs.evolve(DIRECTORY, free_bytes=None), A, ("space", WARN)),
    ],
)
def test_directory_is_judged(directory: DirectoryFacts, node: NodeFacts, expected: tuple[str, Level]) -> None:
    assert expected in judged(checks.check_directory(directory, node))


def test_descriptors_that_are_nearly_used_up_are_warned_of() -> None:
    found = checks.check_descriptors(Descriptors(7, 1000, 937), Limits(connections=100))
    assert judged(found) == [("descriptors", WARN)]


@pytest.mark.parametrize(("limit", "level"), [(163, WARN), (164, OK)])
def test_descriptors_suffice_for_connections_and_some_more(limit: int, level: Level) -> None:
    found = checks.check_descriptors(Descriptors(7, limit, 20), Limits(connections=100))
    assert judged(found) == [("descriptors", level)]
    assert found.says.startswith(f"process 7 may open {limit} files, and has 20")


# -- damage -------------------------------------------------------------------------------------------------------

NOW = 1_700_000_000.0


def damage_on(**nodes: DamageFacts | None) -> list[Finding]:
    return list(checks.check_damage([NodeFacts("h:1", name=name, damage=found) for name, found in nodes.items()], NOW))


def test_disks_without_damage_are_well_and_the_oldest_look_is_told() -> None:
    found = damage_on(a=DamageFacts(NOW - 3600), b=DamageFacts(NOW - 3 * 86_400), c=DamageFacts(None), d=None)
    assert judged(found) == [("damage", OK)]
    assert "on 3 nodes, the oldest look 3 days ago; not looked at yet: 1" in found[0].says


def test_damage_that_did_not_come_back_is_complained_of_with_its_paths() -> None:
    found = damage_on(a=DamageFacts(NOW, 7, ("x", "y")), b=DamageFacts(NOW))
    assert judged(found) == [("damage", WARN)]
    assert "7 places on the disk of a" in found[0].says
    assert "x, y, ..." in found[0].do


def test_nodes_without_an_archive_say_nothing_of_damage() -> None:
    assert damage_on(a=None) == []
