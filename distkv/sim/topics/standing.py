"""What nodes have of topics, in words, as a scenario shows it.

Knows: what of a copy people want to compare.  Does not know how it came to that.

Invariant: copies that are the same have the same words, and stand together.
"""

from __future__ import annotations

from collections.abc import Iterator

from distkv.core.topics.node import TopicNode
from distkv.core.topics.topic import Topic
from distkv.model.event import NodeName
from distkv.sim.topics.nodes import TopicNodes


def topic_lines(nodes: TopicNodes) -> list[str]:
    """Of each topic its owner and followers, and which nodes have the same copy."""
    running = dict(running_nodes(nodes))
    names = {name for node in running.values() for name in node.owners.names()}
    names |= {topic.name for node in running.values() for topic in node.copies.topics.all()}
    return [f"{name}: {'; '.join(_parts(name, running))}" for name in sorted(names)]


def running_nodes(nodes: TopicNodes) -> Iterator[tuple[NodeName, TopicNode]]:
    """What topics are on each host that runs."""
    for name, host in nodes.hosts.items():
        machine = nodes.machines.get(name)
        if host.process is not None and host.is_ours and machine is not None and machine.node is not None:
            yield host.node, machine.node


def copies_of(name: str, running: dict[NodeName, TopicNode]) -> Iterator[tuple[NodeName, Topic]]:
    """All copies of a topic."""
    for node, of_node in running.items():
        for topic in of_node.copies.topics.all():
            if topic.name == name:
                yield node, topic


# -- inside -------------------------------------------------------------------------------------------------------


def _parts(name: str, running: dict[NodeName, TopicNode]) -> Iterator[str]:
    owners: dict[str, list[str]] = {}
    for node, of_node in running.items():
        view = of_node.owners.view(name)
        words = "nobody owns it"
        if view is not None:
            followers = " and ".join(sorted(view.followers)) or "nobody"
            words = f"{view.owner} owns it, followed by {followers}"
        owners.setdefault(words, []).append(node)
    if len(owners) == 1:
        yield from owners
    else:
        yield from (f"for {' '.join(some)} {words}" for words, some in owners.items())
    groups: dict[bytes, tuple[Topic, list[str]]] = {}
    for node, topic in copies_of(name, running):
        groups.setdefault(topic.digest, (topic, []))[1].append(node)
    for topic, some in groups.values():
        yield f"{' '.join(some)}: {len(topic)} messages"
