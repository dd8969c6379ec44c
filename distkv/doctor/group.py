"""What `distkv doctor` sees of the transport swim, and what it makes of that.

Knows: what a node shows of its transport, and what is well.  Does not know how nodes are asked.

Invariant: as in `checks`: one line when nothing is to be complained of, else one for each complaint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distkv.doctor.facts import Finding, GroupFacts, Level, NodeFacts
from distkv.doctor.wording import counted, listed
from distkv.wire.fields import read_int, read_list

GROUP = "group"


def read_group(shown: Mapping[str, object]) -> GroupFacts | None:
    """What the transport of a node says; None: it is another one.

    Raises:
        DecodeError: it cannot be meant.
    """
    if shown.get("kind") != "swim":
        return None
    return GroupFacts(
        tuple(map(str, read_list(shown.get("udp_blocked", []), "udp_blocked"))),
        read_int(shown, "dropped_seal") if "dropped_seal" in shown else 0,
        read_int(shown, "told_dead") if "told_dead" in shown else 0,
        str(shown.get("reason", "")),
        tuple(map(str, read_list(shown.get("mapped", []), "mapped"))),
    )


def check_group(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether datagrams pass, and open."""
    complaints = [one for node in nodes if node.group is not None for one in _complaints(node, node.group)]
    yield from complaints
    if not complaints:
        yield Finding(GROUP, Level.OK, f"datagrams pass, as {counted(len(nodes), 'node')} say")


def _complaints(node: NodeFacts, group: GroupFacts) -> Iterator[Finding]:
    if group.udp_blocked:
        says = f"{node.name} hears {listed(group.udp_blocked)} by TCP only: UDP does not pass"
        do = "let UDP through the firewall, at the ports of 'listen', in both directions"
        yield Finding(GROUP, Level.WARN, says, do)
    if group.mapped:
        says = f"{node.name} hears {listed(group.mapped)} from an address that is not advertised: something maps it"
        do = "it works as long as 'advertise' is where all others reach a node; else set it, or take the mapping away"
        yield Finding(GROUP, Level.WARN, says, do)
    if group.dropped_seal:
        says = f"{node.name} could not open {counted(group.dropped_seal, 'datagram')}"
        do = "give all nodes the same cluster.secret; if they have it, somebody else sends to this port"
        yield Finding(GROUP, Level.WARN, says, do)
    if group.told_dead:
        times = counted(group.told_dead, "time")
        says = f"{node.name} was told {times} that it was dead, while it lived"
        yield Finding(GROUP, Level.WARN, says, "look at the load of its host, and for loss on its network")
    if group.reason:
        yield Finding(GROUP, Level.WARN, f"{node.name}: {group.reason}", "start what it waits for")
