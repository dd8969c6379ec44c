"""The judgements of `distkv doctor`: facts in, findings out.

Knows: what is well, what is not, and what to do then.  Does not know where facts come from: nothing here reads a file,
a socket or a clock.

Invariant: a check that finds nothing to complain of says one line; else it says one line for each complaint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Final

from distkv.config import Limits
from distkv.core.sponsor import CLOCK_AHEAD_S
from distkv.doctor.facts import (
    AgentFacts,
    Descriptors,
    DirectoryFacts,
    Finding,
    Level,
    NodeFacts,
    PeerFacts,
    Trouble,
)
from distkv.doctor.wording import counted, listed
from distkv.storage.archive_schema import STEPS
from distkv.storage.log import SEGMENT_BYTES
from distkv.transport.budget import QUEUE_SLOW
from distkv.transport.serf import ENVELOPE_BYTES, EVENT_BYTES_MAX, STOCK_LIMIT

SKEW_S: Final = 1.0
"""Clocks that differ by more make times in the history hard to compare."""
HEALTH_MAX: Final = 1
"""An agent's health score rises by one with each answer that is late, and falls with each that is not."""
SPARE_DESCRIPTORS: Final = 64
"""What a server opens besides connections: log, archive, agent, peers."""
MIB: Final = 1 << 20
SHOWN: Final = 3
NOBODY: Final = "there are no other nodes"


# -- the configuration --------------------------------------------------------------------------------------------


def check_configuration(file: Path | None, failure: str = "") -> Finding:
    """Whether it can be read. `file`: where it was found; None: nowhere."""
    if failure:
        return Finding("configuration", Level.FAIL, failure, "mend that first: nothing else was checked")
    says = f"{file} is valid" if file else "there is no file: options and defaults are used"
    return Finding("configuration", Level.OK, says)


# -- the agent ----------------------------------------------------------------------------------------------------


def check_agent(agent: AgentFacts) -> Iterator[Finding]:
    """Whether it answers, how large an event may be, how far behind it is."""
    if agent.trouble is not None:
        yield Finding("agent", Level.FAIL, agent.failure, _TROUBLE[agent.trouble])
        return
    yield Finding("agent", Level.OK, f"answers at {agent.where}, Serf protocol {agent.protocol}")
    size, stock = agent.event_bytes, STOCK_LIMIT - ENVELOPE_BYTES
    if size < stock:
        says = f"events have at most {size} bytes, which is little: most updates go over TCP, later"
        yield Finding("events", Level.WARN, says, "raise user_event_size_limit of the agent to 1390")
    else:
        hint = "" if size >= EVENT_BYTES_MAX else "; user_event_size_limit 1390 in the agent's file allows more"
        yield Finding("events", Level.OK, f"events have at most {size} bytes{hint}")
    yield from _check_queues(agent)


_TROUBLE: Final = {
    Trouble.GONE: "start it with 'serf agent', or set serf.host and serf.port",
    Trouble.SILENT: "it hangs: end it and start it again",
    Trouble.KEY: "",  # the failure says what to set
}


def _check_queues(agent: AgentFacts) -> Iterator[Finding]:
    longest = max(agent.queues.values(), default=0)
    shown = ", ".join(f"{name} {length}" for name, length in agent.queues.items())
    if longest >= QUEUE_SLOW:
        do = "look for whoever sends many events, and at the load of this host; updates slow down until it is over"
        yield Finding("queues", Level.WARN, f"the agent is behind: {shown} messages wait", do)
    elif agent.health > HEALTH_MAX:
        do = "look at the load of this host, and for loss on its network"
        yield Finding("queues", Level.WARN, f"the agent hears the others late (health score {agent.health})", do)
    else:
        yield Finding("queues", Level.OK, f"the agent keeps up ({shown})")


def check_members(agent: AgentFacts, node: NodeFacts) -> Iterator[Finding]:
    """Whether the agents and our node know the same nodes."""
    complaints = list(_member_complaints(agent, node))
    yield from complaints
    if not complaints:
        alone = f"; agents that are beside none: {agent.others}" if agent.others else ""
        says = f"{counted(len(agent.carriers), 'node')} beside agents that are alive, known to {node.name}{alone}"
        yield Finding("members", Level.OK, says)


def _member_complaints(agent: AgentFacts, node: NodeFacts) -> Iterator[Finding]:
    if agent.failed and agent.alive == 1:
        says = f"the agent hears none of the others: {listed(agent.failed)} failed"
        yield Finding("members", Level.WARN, says, "look at this host's own network first, then at theirs")
    for name in agent.failed if agent.alive != 1 else ():
        do = f"start it again, or forget it with 'serf force-leave {name}'"
        yield Finding("members", Level.WARN, f"the agent {name} has failed", do)
    for name, carriers in agent.carriers.items():
        if len(carriers) > 1:
            says = f"the agents {listed(carriers)} both say that {name} is beside them"
            yield Finding("members", Level.WARN, says, "give each node a name of its own, and each an agent of its own")
    if node.name not in agent.carriers and node.network is not None:
        says = f"no agent says that {node.name} is beside it"
        do = (
            f"check that the server was started with --serf {agent.where}, that no other server was given that agent,"
            " and that its tags are not full; then start the server again"
        )
        yield Finding("members", Level.WARN, says, do)
    known = {peer.name: peer for peer in node.peers}
    for name in agent.carriers:
        if name not in known and name != node.name:
            do = "wait for some clocks; if it stays so, see whether both are of one network and have one serf.root"
            yield Finding("members", Level.WARN, f"{name} is beside an agent, and {node.name} does not know it", do)
    for peer in node.peers:
        if peer.is_alive and peer.name not in agent.carriers:
            do = "see to the agent beside it, or to the tags of that agent, which may be full"
            yield Finding("members", Level.WARN, f"{peer.name} is alive, but no agent says so", do)


# -- nodes --------------------------------------------------------------------------------------------------------


def check_node(node: NodeFacts, name: str, directory: DirectoryFacts) -> Finding:
    """Whether the node of this host serves, under its name."""
    if node.failure and directory.holder:
        says = f"process {directory.holder} uses {directory.path}, but {node.failure}"
        return Finding("node", Level.FAIL, says, "compare 'listen' with what it was started with, and read its log")
    if node.failure:
        return Finding("node", Level.FAIL, node.failure)
    if node.name != name:
        says = f"the node at {node.where} is called {node.name}, not {name}"
        return Finding("node", Level.FAIL, says, f"stop that one, or give {name} another address with 'listen'")
    return _check_state(node, "node")


def _check_state(node: NodeFacts, check: str) -> Finding:
    says = f"{node.name} at {node.where} is {node.state}, release {node.version}"
    if node.failed:
        says = f"{says}, and its {listed(node.failed)} failed and are off"
        return Finding(check, Level.FAIL, says, "read its log, report it, and start it again")
    if node.aside:
        shown = listed(node.aside[:SHOWN]) if len(node.aside) <= SHOWN else f"{len(node.aside)} inputs"
        do = f"see 'distkv client -h {node.where} aside list', report it, and upgrade, which tries it once more"
        return Finding(check, Level.FAIL, f"{says}, and has set aside {shown}, which ended it twice", do)
    if node.missing:
        do = "wait for some clocks, or start the nodes that have them"
        return Finding(check, Level.WARN, f"{says}, and misses changes of {listed(node.missing)}", do)
    match node.state:
        case "ready":
            return Finding(check, Level.OK, says)
        case "cut-off":
            do = "see to the Serf agent beside it, and to its network: until then it serves, and hears nobody"
            return Finding(check, Level.WARN, says, do)
        case _:
            waits = f": it waits for {node.waits_for}" if node.waits_for else ""
            return Finding(check, Level.WARN, f"{says}{waits}", "wait, or start what it waits for")


def check_peers(node: NodeFacts, others: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    """Whether the other nodes answer us, and serve. `others`: those that are alive, by name."""
    complaints = list(_peer_complaints(node, others))
    if node.peers and not any(peer.is_alive for peer in node.peers):
        says = f"{node.name} hears none of the {counted(len(node.peers), 'other node')}"
        complaints.insert(0, Finding("peers", Level.FAIL, says, "look at this host's own network, then at the nodes"))
    yield from complaints
    if not complaints:
        says = f"{counted(len(others), 'other node')}, all ready" if others else NOBODY
        yield Finding("peers", Level.OK, says)


def _away(peer: PeerFacts, peers: Iterable[PeerFacts]) -> Finding:
    """A host that came back under another name has an old one that nobody answers to."""
    says, retire = f"{peer.name} at {peer.addr} is away", f"distkv client node retire {peer.name}"
    heir = next((other.name for other in peers if other.is_alive and peer.addr and other.addr == peer.addr), None)
    if heir is not None:
        says = f"{says}, and {heir} is at this address now"
        return Finding("peers", Level.WARN, says, f"if {heir} is its new name, {retire!r}; else start it elsewhere")
    do = f"start it, or see to the network between the two; if it is gone for good, {retire!r}"
    return Finding("peers", Level.WARN, says, do)


def _peer_complaints(node: NodeFacts, others: Mapping[str, NodeFacts]) -> Iterator[Finding]:
    for peer in node.peers:
        other = others.get(peer.name)
        if not peer.is_alive:
            yield _away(peer, node.peers)
        elif other is None:
            continue
        elif other.failure:
            do = f"if it runs, let {peer.addr} through the firewall, or give {peer.name} another --advertise"
            yield Finding("peers", Level.FAIL, f"{peer.name} is alive, but {other.failure}", do)
        elif other.name != peer.name:
            says = f"the node at {peer.addr} is called {other.name}, not {peer.name}"
            yield Finding("peers", Level.FAIL, says, "give each node an --advertise of its own")
        elif other.network is not None and node.network is not None and other.network != node.network:
            says = f"{other.name} belongs to another network ({other.network}, not {node.network})"
            do = "move its data aside and start it without --init: it joins this one"
            yield Finding("peers", Level.FAIL, says, do)
        elif (found := _check_state(other, "peers")).level is not Level.OK:
            yield found


def check_links(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether each node reaches those that it tries to follow. Whoever one of them takes for alive is alive."""
    alive = {node.name for node in nodes} | {peer.name for node in nodes for peer in node.peers if peer.is_alive}
    is_well = True
    for node in nodes:
        for link in node.links:
            if link.name in alive and link.reason:  # also when that node lends it a connection
                is_well = False
                why = link.reason.removeprefix(f"{link.addr}: ")
                says = f"{node.name} cannot reach {link.name} at {link.addr}: {why}"
                do = f"let {node.name} through the firewall to it, or give {link.name} another --advertise"
                yield Finding("links", Level.WARN, says, do)
    if is_well:
        count = sum(link.is_up for node in nodes for link in node.links)
        is_alone = alive == {nodes[0].name} and not nodes[0].peers
        says = NOBODY if is_alone else f"{counted(count, 'link')} on {counted(len(nodes), 'node')}"
        yield Finding("links", Level.OK, says)


def check_damage(nodes: Sequence[NodeFacts], now: float) -> Iterator[Finding]:
    """Whether something rotted on a disk and did not come back. `now` is seconds since 1970."""
    told = {node.name: node.damage for node in nodes if node.damage is not None}
    is_well = True
    for name, damage in told.items():
        if damage.lost_count:
            is_well = False
            says = f"{counted(damage.lost_count, 'place')} on the disk of {name} rotted and did not come back"
            more = ", ..." if damage.lost_count > len(damage.lost) else ""
            do = f"see to that disk; what is lost: {', '.join(damage.lost)}{more}"
            yield Finding("damage", Level.WARN, says, do)
    if is_well and told:
        looked = [now - damage.scrubbed for damage in told.values() if damage.scrubbed is not None]
        oldest = f", the oldest look {_age(max(looked))} ago" if looked else ""
        later = f"; not looked at yet: {len(told) - len(looked)}" if len(looked) < len(told) else ""
        yield Finding("damage", Level.OK, f"none is known on {counted(len(told), 'node')}{oldest}{later}")


def check_releases(nodes: Sequence[NodeFacts]) -> Finding:
    """Whether all run the same release."""
    by_release: dict[str, list[str]] = {}
    for node in nodes:
        by_release.setdefault(node.version, []).append(node.name)
    if len(by_release) > 1:
        shown = "; ".join(f"{release} on {listed(names)}" for release, names in sorted(by_release.items()))
        do = "bring all to the newest: only neighbouring releases work together"
        return Finding("releases", Level.WARN, shown, do)
    return Finding("releases", Level.OK, f"{listed(list(by_release))} on {counted(len(nodes), 'node')}")


def check_clocks(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether the nodes' clocks agree with this host's, as far as that can be measured from here."""
    clocks = {node.name: node.clock for node in nodes if node.clock is not None}
    is_well = True
    for name, clock in clocks.items():
        skew_s = max(0.0, abs(clock.ahead_s) - clock.error_s)
        if skew_s > SKEW_S:
            is_well = False
            level = Level.FAIL if skew_s > CLOCK_AHEAD_S else Level.WARN
            way = "ahead of" if clock.ahead_s > 0 else "behind"
            says = f"the clock of {name} is {abs(clock.ahead_s):.3g} s (± {clock.error_s:.2g}) {way} this host's"
            yield Finding("clocks", level, says, "keep both right, by NTP say")
    for node in nodes:
        if node.clock is None:
            is_well = False
            yield Finding("clocks", Level.WARN, f"{node.name} does not tell its time", "bring it to this release")
    if is_well:
        worst = max((abs(clock.ahead_s) + clock.error_s for clock in clocks.values()), default=0.0)
        says = f"{counted(len(clocks), 'node')}, within {worst:.2g} s of this host's"
        yield Finding("clocks", Level.OK, says)


def check_settings(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether the settings that all nodes should have alike are alike."""
    is_well = True
    for key in sorted({key for node in nodes for key in node.settings}):
        by_value: dict[str, list[str]] = {}
        for node in nodes:
            if key in node.settings:
                by_value.setdefault(_shown(node.settings[key]), []).append(node.name)
        if len(by_value) > 1:
            is_well = False
            shown = ", ".join(f"{value} on {listed(names)}" for value, names in sorted(by_value.items()))
            do = "set it alike on all nodes, and start them again"
            yield Finding("settings", Level.WARN, f"{key} is {shown}", do)
    if is_well:
        keys = sorted({key for node in nodes for key in node.settings})
        yield Finding("settings", Level.OK, f"alike on {counted(len(nodes), 'node')}: {', '.join(keys)}")


def check_pings(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether the ping settings suit the network, as far as the nodes saw it: a clock is to be at least twice as long
    as gossip takes to reach everybody, and a chain longer than there are partitions ('Ping sequence')."""
    complaints = [found for node in nodes for found in _ping_complaints(node)]
    yield from complaints
    if not complaints:
        slowest = max((node.delivery_s[1] for node in nodes if node.delivery_s is not None), default=None)
        took = "no ping was followed yet" if slowest is None else f"gossip takes {slowest:.2g} s or less"
        sides = max(node.partitions for node in nodes)
        met = f"up to {sides} sides of a split met" if sides > 1 else "no split was seen"
        yield Finding("pings", Level.OK, f"{took}, {met}")


def _ping_complaints(node: NodeFacts) -> Iterator[Finding]:
    clock_s, length = node.settings.get("ping.clock"), node.settings.get("ping.length")
    if isinstance(clock_s, float) and node.delivery_s is not None and 2 * node.delivery_s[0] > clock_s:
        least, most = node.delivery_s
        says = f"gossip takes {least:.2g} s or more from {node.name} to another node, ping.clock is {clock_s:g} s"
        do = f"look at the agents' load and network, or set ping.clock to {ceil(2 * most)} on all nodes"
        yield Finding("pings", Level.WARN, says, do)
    if isinstance(length, int) and node.partitions >= length:
        says = f"{node.partitions} sides of a split met at {node.name}, ping.length is {length}"
        yield Finding("pings", Level.WARN, says, f"set ping.length to {node.partitions + 1} or more on all nodes")


def check_restart(node: NodeFacts, configured: Mapping[str, object]) -> Iterator[Finding]:
    """Whether the node runs with what its configuration says today."""
    for key, value in configured.items():
        running = node.settings.get(key, value)
        if running != value:
            says = f"{node.name} runs with {key} {_shown(running)}, and its configuration says {_shown(value)}"
            yield Finding("settings", Level.WARN, says, "start it again, or give doctor the options of the server")


# -- this host ----------------------------------------------------------------------------------------------------


def check_directory(directory: DirectoryFacts, node: NodeFacts) -> Iterator[Finding]:
    """Whether the data directory can be used, and by whom it is."""
    path = directory.path
    if not directory.exists and node.failure:
        yield Finding("directory", Level.OK, f"{path} is not there yet: the first start makes it")
    elif not directory.exists:
        says = f"{path} is not there, and {node.name} runs: it has its data elsewhere"
        yield Finding("directory", Level.WARN, says, "name its directory with --data-dir, or set data.dir")
    elif directory.failure:
        level = Level.FAIL if node.failure else Level.WARN  # the server may run as another user
        do = f"name a directory that this user may read, or run doctor as {directory.owner or 'its owner'}"
        yield Finding("directory", level, f"{path} cannot be looked into: {directory.failure}", do)
    else:
        complaints = list(_directory_complaints(directory, node))
        yield from complaints
        if not complaints:
            use = f"in use by process {directory.holder}" if directory.holder else "not in use"
            known = "" if directory.holder is None else f", and is {use}"
            yield Finding("directory", Level.OK, f"{path} belongs to {directory.owner}, to nobody else{known}")
        yield _check_format(directory)
        yield _check_space(directory)


def _directory_complaints(directory: DirectoryFacts, node: NodeFacts) -> Iterator[Finding]:
    path = directory.path
    if directory.mode & 0o077:
        says = f"{path} can be read by other users (mode {directory.mode:o})"
        yield Finding("directory", Level.WARN, says, f"chmod 700 {path}")
    if not directory.is_ours:
        says = f"{path} belongs to {directory.owner}, not to you"
        yield Finding("directory", Level.WARN, says, f"start the server as {directory.owner}, or change the owner")
    if directory.strangers:
        says = f"files in {path} belong to {listed(directory.strangers)}, and the directory to {directory.owner}"
        yield Finding("directory", Level.WARN, says, f"stop the server, then: chown -R {directory.owner} {path}")
    if not node.failure and directory.holder == 0:
        says = f"{node.name} runs, but no process uses {path}: it has its data elsewhere"
        yield Finding("directory", Level.WARN, says, "name its directory with --data-dir, or set data.dir")


def _check_format(directory: DirectoryFacts) -> Finding:
    if directory.damage:
        return Finding("format", Level.FAIL, directory.damage)
    if directory.format is None:
        return Finding("format", Level.OK, "the archive is new and still empty; nothing has to be done")
    if directory.format > len(STEPS):
        says = f"the archive has format {directory.format}, this release reads up to {len(STEPS)}"
        return Finding("format", Level.FAIL, says, "start the release that wrote it")
    later = f", which the next start brings to {len(STEPS)}" if directory.format < len(STEPS) else ""
    return Finding("format", Level.OK, f"the archive has format {directory.format}{later}")


def _check_space(directory: DirectoryFacts) -> Finding:
    if directory.free_bytes is None:
        return Finding("space", Level.WARN, f"the disk of {directory.path} does not tell how much is free")
    free = f"{directory.free_bytes // MIB} MiB are free"
    if directory.free_bytes < 2 * SEGMENT_BYTES:
        says = f"{free}: with less than {SEGMENT_BYTES // MIB} MiB writes are refused"
        return Finding("space", Level.FAIL, says, f"make space on the disk of {directory.path}")
    if directory.free_bytes < 4 * SEGMENT_BYTES + directory.archive_bytes:
        says = f"{free}: a backup needs as much as the archive ({directory.archive_bytes // MIB} MiB), and the log some"
        return Finding("space", Level.WARN, says, f"make space on the disk of {directory.path}")
    return Finding("space", Level.OK, f"{free}; the archive has {directory.archive_bytes // MIB} MiB")


def check_descriptors(descriptors: Descriptors, limits: Limits) -> Finding:
    """Whether a server may open as many files as it may take connections."""
    who = f"process {descriptors.pid}" if descriptors.pid else "a server that is started from here"
    used = "" if descriptors.used is None else f", and has {descriptors.used}"
    says = f"{who} may open {descriptors.limit} files{used}"
    needed = limits.connections + SPARE_DESCRIPTORS
    if descriptors.limit < needed:
        do = f"allow {needed} (LimitNOFILE= in its unit, 'ulimit -n'), or lower limits.connections"
        return Finding("descriptors", Level.WARN, f"{says}: too few for {limits.connections} connections", do)
    if descriptors.used is not None and descriptors.used + SPARE_DESCRIPTORS > descriptors.limit:
        return Finding("descriptors", Level.WARN, says, "look for clients that connect and do not close")
    return Finding("descriptors", Level.OK, says)


# -- words --------------------------------------------------------------------------------------------------------


def _age(seconds: float) -> str:
    hours = max(0.0, seconds) / 3600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.0f} days"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) or "empty"
