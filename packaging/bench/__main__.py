"""`packaging/bench/run`: all measurements, one after another; prints the tables and keeps them.

Knows: the order, how long each part may take, and where the results go.  Does not measure.

Invariant: a part that fails is told, and the others go on; then the exit code is 1. A missed aim is no failure.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

import attrs

from bench import (
    activity,
    continuous,
    durability,
    keeping,
    links,
    links_tables,
    machine,
    network,
    past,
    pipeline,
    restart,
    swim,
    swim_tables,
    tokens,
    topics,
)
from bench.fanout import DIFFERENCE, FAN_OUTS, run_fan_outs
from bench.figures import OURS, Figure, rounds_table, summarize
from bench.load import Generator, LoadError, build
from bench.rounds import CELLS, DEEP_CELLS, HELD_CELLS, SET_CELLS, WRITTEN, Sample, fill, run_rounds
from bench.servers import (
    ROOT,
    ServerError,
    distkv,
    etcd,
    etcd_leader,
    etcds,
    nats,
    open_servers,
    redis,
    with_fences,
    with_numbers,
)
from distkv.errors import DistkvError

RESULTS: Final = Path(__file__).with_name("results")
PARTS: Final = ("rounds", "names", "fanout", "restart", "links", "tokens", "topics", "activity")
ASKED: Final = ("pipeline", "past", "continuous", "clients", "swim")
"""What is measured only when it is asked for: it needs Spark, another client, or what seals datagrams."""


@attrs.frozen
class Plan:
    """How much is measured."""

    rounds: int
    seconds: float
    """For each server in each cell of a round."""
    proof_s: float
    entries: int
    link_rounds: int
    told_s: float
    """For each way of a message in each round."""
    steady_s: float
    burst: int
    missed: int
    """Events of a node that was away."""
    paced_s: float
    events: int
    """In the data pipeline."""
    past: int
    """Writes in the past of a fleet."""
    continuous_s: float
    """So long is written beside a running archive."""
    kept_sessions: int
    kept_s: float
    """So long a node is looked at while sessions are kept, and before."""
    messages: int
    """That wait in a topic, and are got."""
    client_rounds: int
    client_s: float
    """For each Python client in each cell of a round."""
    heard_s: float
    """So long one of twelve nodes takes sets."""
    rest_s: float
    """So long they are looked at before, at rest."""


FULL: Final = Plan(
    rounds=5,
    seconds=2.0,
    proof_s=1.0,
    entries=restart.AIM_ENTRIES,
    link_rounds=3,
    told_s=20.0,
    steady_s=10.0,
    burst=50_000,
    missed=50_000,
    paced_s=20.0,
    events=500_000,
    past=1_000_000,
    continuous_s=120.0,
    kept_sessions=keeping.AIM_SESSIONS,
    kept_s=15.0,
    messages=20_000,
    client_rounds=11,
    client_s=1.0,
    heard_s=60.0,
    rest_s=20.0,
)
QUICK: Final = Plan(
    rounds=2,
    seconds=0.4,
    proof_s=0.3,
    entries=20_000,
    link_rounds=1,
    told_s=4.0,
    steady_s=2.0,
    burst=4_000,
    missed=4_000,
    paced_s=3.0,
    events=20_000,
    past=30_000,
    continuous_s=15.0,
    kept_sessions=200,
    kept_s=3.0,
    messages=3_000,
    client_rounds=2,
    client_s=0.3,
    heard_s=10.0,
    rest_s=5.0,
)


class NamedCell(Protocol):
    """One way to ask, whatever it is."""

    @property
    def name(self) -> str: ...


@attrs.define
class Report:
    """What is printed, what is kept for machines, and what went wrong."""

    plan: Plan
    data: dict[str, object] = attrs.field(factory=dict)
    text: list[str] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def add(self, title: str, body: str) -> None:
        """A table, printed at once."""
        part = f"{title}\n{'=' * len(title)}\n\n{body}\n"
        self.text.append(part)
        print(f"\n{part}", flush=True)

    def add_rounds(
        self,
        key: str,
        title: str,
        samples: Sequence[Sample],
        cells: Sequence[NamedCell],
        show: Callable[[Sequence[Figure]], str] = rounds_table,
    ) -> None:
        """Medians of rounds, under `key` and `key`_figures; a cell that failed fails the run."""
        figures = summarize(samples, [cell.name for cell in cells])
        self.data[key] = [attrs.asdict(sample) for sample in samples]
        self.data[f"{key}_figures"] = [attrs.asdict(figure) for figure in figures]
        rounds = 1 + max(sample.round for sample in samples)
        self.add(f"{title}: medians of {rounds} rounds", show(figures))
        self.failures += [f"{figure.server}, {figure.cell}: {figure.failure}" for figure in figures if figure.failure]

    def fail(self, what: str) -> None:
        self.failures.append(what)
        self.add("FAILED", what)


def main(words: Sequence[str]) -> int:
    """Run what the command line asks for; 0 when all of it was measured."""
    options = _options(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started is ended
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a thousand watchers; all that is started inherits it
    report = Report(QUICK if options.quick else FULL)
    options.directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as name:
        directory = Path(name)
        if machine.file_system(directory) in machine.MEMORY_FILE_SYSTEMS:
            print(f"{directory} is not on a disk: name another place with --directory", file=sys.stderr)
            return 1
        about = machine.describe(directory)
        report.data |= {"machine": about, "plan": attrs.asdict(report.plan)}
        report.add("Machine", "\n".join(f"{key + ':':<13}{value}" for key, value in about.items()))
        generator = build(directory)
        for part in options.only or PARTS:
            _attempt(report, part, partial(_MEASURES[part], report, generator, directory / part))
    report.data |= {"failures": report.failures, "seconds": round(time.monotonic() - began, 1)}
    parts = "".join(f"-{part}" for part in options.only or ())
    _keep(report, options.results, f"{parts}-quick" if options.quick else parts)
    return 1 if report.failures else 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    about = "Measure distkv beside Redis, etcd and NATS."
    parser = argparse.ArgumentParser(prog="packaging/bench/run", description=about)
    parser.add_argument("--quick", action="store_true", help="less of everything: to see that it works")
    parser.add_argument("--only", choices=(*PARTS, *ASKED), action="append", help="only this part; may be repeated")
    parser.add_argument("--directory", type=Path, default=ROOT / ".run", help="where the data lies meanwhile [.run]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results go [packaging/bench/results]")
    return parser.parse_args(words)


def _attempt(report: Report, part: str, measure: Callable[[], None]) -> None:
    try:
        measure()
    except (LoadError, ServerError, DistkvError, OSError) as error:
        report.fail(f"{part}: {type(error).__name__}: {error}")


def _keep(report: Report, results: Path, suffix: str) -> None:
    results.mkdir(parents=True, exist_ok=True)
    stem = time.strftime("%Y-%m-%d-%H%M%S") + suffix
    (results / f"{stem}.json").write_text(json.dumps(report.data, indent=1) + "\n", encoding="utf-8")
    (results / f"{stem}.txt").write_text("\n".join(report.text), encoding="utf-8")
    print(f"kept as {results}/{stem}.txt and .json")


# -- the parts ----------------------------------------------------------------------------------------------------


def _say(line: str) -> None:
    print(line, flush=True)


def _rounds(report: Report, generator: Generator, directory: Path) -> None:
    made = [distkv(directory), redis(directory, is_durable=False), redis(directory, is_durable=True), etcd(directory)]
    plan = report.plan
    with open_servers({server.name: server for server in made}) as servers:
        samples = run_rounds(servers, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say)
        figures = summarize(samples, [cell.name for cell in CELLS])
        report.data["rounds"] = [attrs.asdict(sample) for sample in samples]
        report.data["figures"] = [attrs.asdict(figure) for figure in figures]
        report.add(f"Side by side: medians of {plan.rounds} rounds", rounds_table(figures))
        report.failures += [f"{figure.server}, {figure.cell}: {figure.failure}" for figure in figures if figure.failure]
        durable = {name: server for name, server in servers.items() if name != "redis"}
        proofs, reason = durability.prove(durable, generator, directory, seconds=plan.proof_s)
    report.data["durability"] = [attrs.asdict(proof) | {"verdict": proof.verdict} for proof in proofs]
    report.add("Durability: the same servers, traced", "\n".join([durability.proofs_table(proofs), reason]).strip())
    report.failures += [f"{proof.server}: {proof.verdict}" for proof in proofs if proof.verdict.startswith("NOT")]
    if reason:
        report.failures.append(reason)


def _names(report: Report, generator: Generator, directory: Path) -> None:
    made, plan = distkv(directory), report.plan
    with open_servers({made.name: made}):
        servers = {server.name: server for server in (made, with_numbers(made))}
        samples = run_rounds(servers, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say, cells=DEEP_CELLS)
    report.add_rounds("names", "Names that are text, and numbers", samples, DEEP_CELLS)


def _fanout(report: Report, generator: Generator, directory: Path) -> None:
    made = [distkv(directory), redis(directory, is_durable=False)]
    plan = report.plan
    with open_servers({server.name: server for server in made}) as servers:
        samples = run_fan_outs(servers, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say)
    title = "Fan-out, watchers x messages under way"
    report.add_rounds("fanout", title, samples, FAN_OUTS, lambda figures: f"{rounds_table(figures)}\n{DIFFERENCE}")


def _restart(report: Report, generator: Generator, directory: Path) -> None:
    made = [distkv(directory), redis(directory, is_durable=True), etcd(directory)]
    found = [restart.measure(server, generator, report.plan.entries) for server in made]
    report.data["restart"] = [attrs.asdict(each) for each in found]
    report.add(f"Memory and restart: {report.plan.entries:,} x 100 bytes", restart.restarts_table(found))


def _links(report: Report, generator: Generator, directory: Path) -> None:
    for measure in (_told, _bursts, _missed, _paced, _held):
        _attempt(report, f"links, {measure.__name__[1:]}", partial(measure, report, generator, directory))


def _told(report: Report, generator: Generator, directory: Path) -> None:
    rounds = report.plan.link_rounds
    told = links.run_told(generator, directory, rounds=rounds, seconds=report.plan.told_s, say=_say)
    report.data["told"] = [attrs.asdict(sample) for sample in told]
    report.add(f"From node to node, one at a time: medians of {rounds} rounds", links_tables.told_table(told))


def _bursts(report: Report, generator: Generator, directory: Path) -> None:
    plan, rounds = report.plan, report.plan.link_rounds
    bursts = links.run_bursts(generator, directory, rounds=rounds, steady_s=plan.steady_s, count=plan.burst, say=_say)
    report.data["bursts"] = [attrs.asdict(burst) for burst in bursts]
    title = f"From node to node, {plan.burst:,} sets at full speed: medians of {rounds} rounds"
    report.add(title, links_tables.bursts_table(bursts))


def _missed(report: Report, generator: Generator, directory: Path) -> None:
    rounds = report.plan.link_rounds
    missed = links.run_catch_ups(generator, directory, rounds=rounds, count=report.plan.missed, say=_say)
    report.data["missed"] = [attrs.asdict(each) for each in missed]
    report.add(f"A node that was away: medians of {rounds} rounds", links_tables.catch_ups_table(missed))


def _paced(report: Report, generator: Generator, directory: Path) -> None:
    paced = links.measure_paced(generator, directory, seconds=report.plan.paced_s)
    report.data["paced"] = attrs.asdict(paced)
    report.add("One path, watched on two other nodes", links_tables.paced_lines(paced))


def _held(report: Report, generator: Generator, directory: Path) -> None:
    """Sets that are answered when three nodes hold them."""
    plan, names, place = report.plan, [f"etcd-{name}" for name in network.NAMES], directory / "held"
    with network.open_network(place) as ours, open_servers(etcds(place, names), is_cluster=True) as theirs:
        servers = {
            OURS: attrs.evolve(ours.nodes["a"], name=OURS, protocol="held"),
            "etcd-three": attrs.evolve(etcd_leader(theirs), name="etcd-three"),
        }
        samples = run_rounds(
            servers, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say, cells=HELD_CELLS,
            beside=[*ours.nodes.values(), *theirs.values()],
        )  # fmt: skip
    report.add_rounds("held", "replicas: 3, and etcd on three nodes", samples, HELD_CELLS)


def _tokens(report: Report, generator: Generator, directory: Path) -> None:
    for measure in (_locks, _locks_of_three, _kept, _fences):
        _attempt(report, f"tokens, {measure.__name__[1:]}", partial(measure, report, generator, directory))


def _locks(report: Report, generator: Generator, directory: Path) -> None:
    """One server each."""
    made = [distkv(directory / "one", config=tokens.settings([OURS])), etcd(directory / "one")]
    with open_servers({server.name: server for server in made}) as servers:
        network.wait_token_servers(servers[OURS])
        groups = {name: tokens.Group(server) for name, server in servers.items()}
        _add_locks(report, generator, "locks", "Tokens, and etcd's locks", groups)


def _locks_of_three(report: Report, generator: Generator, directory: Path) -> None:
    """Three of each; one distkv, and the leader of the etcds, are asked."""
    place, names = directory / "three", [f"etcd-{name}" for name in network.NAMES]
    config = tokens.settings(network.NAMES)
    with (
        network.open_network(place, config=config) as ours,
        open_servers(etcds(place, names), is_cluster=True) as theirs,
    ):
        node, leader = ours.nodes["a"], etcd_leader(theirs)
        network.wait_token_servers(node)
        groups = {
            OURS: tokens.Group(node, [other for other in ours.nodes.values() if other is not node]),
            "etcd-three": tokens.Group(leader, [other for other in theirs.values() if other is not leader]),
        }
        _add_locks(report, generator, "locks_three", "Tokens of three nodes, and locks of three etcds", groups)


def _add_locks(report: Report, generator: Generator, key: str, title: str, groups: Mapping[str, tokens.Group]) -> None:
    plan = report.plan
    samples = tokens.run_tokens(groups, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say)
    report.add_rounds(key, title, samples, tokens.TOKEN_CELLS)


def _kept(report: Report, _: Generator, directory: Path) -> None:
    """What held tokens cost a node."""
    made, plan = distkv(directory / "kept", config=tokens.settings([OURS])), report.plan
    found = keeping.measure(made, plan.kept_sessions, plan.kept_s)
    report.data["kept"] = attrs.asdict(found)
    title = f"{found.tokens:,} tokens that {found.sessions:,} sessions keep on one node"
    report.add(title, keeping.keeping_table(found))


def _fences(report: Report, generator: Generator, directory: Path) -> None:
    """Sets with and without a fence, of the same process."""
    made, plan = distkv(directory / "fences"), report.plan
    with open_servers({made.name: made}):
        servers = {server.name: server for server in (made, with_fences(made))}
        for server in servers.values():  # no set makes an entry, or gives it its fence
            fill(server, generator, WRITTEN)
        samples = run_rounds(servers, generator, rounds=plan.rounds, seconds=plan.seconds, say=_say, cells=SET_CELLS)
    report.add_rounds("fences", "Sets without a fence, and under one", samples, SET_CELLS)


def _topics(report: Report, generator: Generator, directory: Path) -> None:
    for measure in (_topics_alone, _topics_of_three):
        _attempt(report, f"topics, {measure.__name__[1:]}", partial(measure, report, generator, directory))


def _topics_alone(report: Report, generator: Generator, directory: Path) -> None:
    """One node, its own sets, and Redis."""
    node, stream = distkv(directory / "one"), redis(directory / "one", is_durable=True)
    with open_servers({node.name: node, stream.name: stream}):
        groups = topics.groups_of(node, stream)
        _add_topics(report, generator, "topics", "Topics with one copy", groups, topics.ALONE_CELLS)


def _topics_of_three(report: Report, generator: Generator, directory: Path) -> None:
    """Three nodes; then three servers with JetStream beside them."""
    place, plan = directory / "three", report.plan
    with network.open_network(place) as ours, open_servers(topics.jetstreams(place), is_cluster=True) as theirs:
        nodes, leader = list(ours.nodes.values()), topics.stream_leader(theirs)
        groups = {
            name: tokens.Group(nodes[0], nodes[1:]) for name in (OURS, topics.SETS)
        } | {
            topics.JETSTREAM: tokens.Group(leader, [one for one in theirs.values() if one is not leader]),
        }  # fmt: skip
        title = f"Topics with {topics.COPIES} copies on three nodes"
        _add_topics(report, generator, "topics_three", title, groups, topics.COPIED_CELLS)
        report.add("JetStream", topics.SYNC)
        told = topics.run_told(generator, nodes, rounds=plan.rounds, seconds=plan.seconds)
    report.data["topics_told"] = [attrs.asdict(one) for one in told]
    report.add("From a put on one node to a get that waits on another", topics.told_table(told))
    report.failures += [f"topics, told: {one.failure}" for one in told if one.failure]


def _add_topics(
    report: Report, generator: Generator, key: str, title: str, groups: Mapping[str, tokens.Group],
    cells: Sequence[topics.TopicCell],
) -> None:  # fmt: skip
    plan = report.plan
    samples = topics.run_topics(
        groups, generator, cells, rounds=plan.rounds, seconds=plan.seconds, messages=plan.messages, say=_say
    )
    report.add_rounds(key, title, samples, cells)


def _activity(report: Report, generator: Generator, directory: Path) -> None:
    for measure in (_activity_alone, _activity_of_three):
        _attempt(report, f"activity, {measure.__name__[1:]}", partial(measure, report, generator, directory))


def _activity_alone(report: Report, generator: Generator, directory: Path) -> None:
    """One node, its own watchers, and Redis."""
    place = directory / "one"
    node, peer = distkv(place, config=activity.SETTINGS), redis(place, is_durable=False)
    with open_servers({node.name: node, peer.name: peer}):
        groups = {
            OURS: tokens.Group(activity.listener_of(node)),
            activity.WATCHERS: tokens.Group(activity.watched(node)),
            peer.name: tokens.Group(peer),
        }
        _add_activity(report, generator, "activity", "Activity on one node", groups, activity.ALONE_CELLS)


def _activity_of_three(report: Report, generator: Generator, directory: Path) -> None:
    """Three nodes, and three NATS servers with routes beside them."""
    place = directory / "three"
    with (
        network.open_network(place, config=activity.SETTINGS) as ours,
        open_servers(nats(place, [f"nats-{name}" for name in network.NAMES]), is_cluster=True) as theirs,
    ):
        nodes, peers = list(ours.nodes.values()), list(theirs.values())
        first, *others = map(activity.listener_of, nodes)
        groups = {
            OURS: tokens.Group(first, others),
            activity.HELD: tokens.Group(nodes[0], nodes[1:]),
            "nats": tokens.Group(peers[0], peers[1:]),
        }
        _add_activity(report, generator, "activity_three", "Activity on three nodes", groups, activity.THREE_CELLS)


def _add_activity(
    report: Report, generator: Generator, key: str, title: str, groups: Mapping[str, tokens.Group],
    cells: Sequence[activity.ActivityCell],
) -> None:  # fmt: skip
    plan = report.plan
    samples = activity.run_activity(groups, generator, cells, rounds=plan.rounds, seconds=plan.seconds, say=_say)
    report.add_rounds(key, title, samples, cells, lambda figures: f"{rounds_table(figures)}\n{activity.DIFFERENCE}")


def _clients(report: Report, _: Generator, directory: Path) -> None:
    from bench import clients  # redis-py is there only when this part is asked for

    made = [distkv(directory), redis(directory, is_durable=False), redis(directory, is_durable=True)]
    plan = report.plan
    with open_servers({server.name: server for server in made}) as servers:
        samples = clients.run_clients(servers, rounds=plan.client_rounds, seconds=plan.client_s, say=_say)
    title = f"Python clients, redis-py {version('redis')}"
    report.add_rounds("clients", title, samples, clients.CLIENT_CELLS, clients.clients_table)


def _swim(report: Report, generator: Generator, directory: Path) -> None:
    for measure in (_swim_linked, _swim_idle, _swim_twelve):
        _attempt(report, f"swim, {measure.__name__[6:]}", partial(measure, report, generator, directory))


def _swim_linked(report: Report, generator: Generator, directory: Path) -> None:
    plan = report.plan
    found = swim.run_linked(
        generator, directory, rounds=plan.link_rounds, told_s=plan.told_s, held_s=plan.seconds, say=_say
    )
    report.data["swim_linked"] = [attrs.asdict(each) for each in found]
    title = f"Without agents, and beside Serf agents, with links: medians of {plan.link_rounds} rounds"
    report.add(title, swim_tables.linked_table(found))


def _swim_idle(report: Report, _: Generator, directory: Path) -> None:
    plan = report.plan
    found = swim.run_idle(directory, rounds=plan.link_rounds, seconds=plan.told_s, say=_say)
    report.data["swim_idle"] = [attrs.asdict(each) for each in found]
    title = f"From the answer to a watcher on another node, without links: medians of {plan.link_rounds} rounds"
    report.add(title, swim_tables.idle_table(found))


def _swim_twelve(report: Report, _: Generator, directory: Path) -> None:
    plan = report.plan
    found = swim.measure_twelve(directory, rest_s=plan.rest_s, seconds=plan.heard_s)
    report.data["swim_twelve"] = attrs.asdict(found)
    report.add(f"Twelve nodes without links, {swim.PER_SECOND} sets/s on one", swim_tables.twelve_lines(found))


def _pipeline(report: Report, _: Generator, directory: Path) -> None:
    made = distkv(directory)
    with open_servers({made.name: made}):
        found = pipeline.measure(made, directory, report.plan.events, max(2, report.plan.rounds - 2))
    report.data["pipeline"] = attrs.asdict(found)
    report.add(f"The data pipeline: {found.events:,} events, local[2]", pipeline.pipeline_table(found))


def _past(report: Report, _: Generator, directory: Path) -> None:
    with network.open_network(directory) as fleet:
        found = past.measure(fleet, directory, report.plan.past)
    report.data["past"] = attrs.asdict(found, filter=lambda field, _: field.name != "held")
    report.add(f"The past of a fleet: {report.plan.past:,} writes on three nodes, local[2]", past.past_table(found))


def _continuous(report: Report, _: Generator, directory: Path) -> None:
    with network.open_network(directory) as fleet:
        found = continuous.measure(fleet, directory, report.plan.continuous_s)
    report.data["continuous"] = attrs.asdict(found)
    report.add("A running archive of three nodes, local[2]", continuous.delays_table(found))


_MEASURES: Final[dict[str, Callable[[Report, Generator, Path], None]]] = {
    "rounds": _rounds,
    "names": _names,
    "fanout": _fanout,
    "restart": _restart,
    "links": _links,
    "tokens": _tokens,
    "topics": _topics,
    "activity": _activity,
    "pipeline": _pipeline,
    "past": _past,
    "continuous": _continuous,
    "clients": _clients,
    "swim": _swim,
}


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\ninterrupted: all that was started has been ended", file=sys.stderr)
        sys.exit(130)
