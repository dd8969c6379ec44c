"""Topics when all is well: copies are equal, one owns each, and what all had is forgotten.

Knows: what the machines of topics on all hosts have then.  Does not know how they came to that.
"""

from __future__ import annotations

from distkv.core.topics.node import TopicNode
from distkv.model.event import NodeName
from distkv.sim.rule import Observed
from distkv.sim.topics.nodes import topic_nodes
from distkv.sim.topics.observer import TopicObserver
from distkv.sim.topics.standing import copies_of, running_nodes


class AtRest(TopicObserver):
    """Looks at each topic when all is well."""

    def settled(self, fleet: Observed) -> None:
        nodes = topic_nodes(fleet.services)
        running = {} if nodes is None else dict(running_nodes(nodes))
        for name in sorted({name for node in running.values() for name in node.owners.names()}):
            self.look(name, running)

    def look(self, name: str, running: dict[NodeName, TopicNode]) -> None:
        """At one of them, on all nodes that run."""


class OneOwner(AtRest):
    """All nodes name the same owner, who lacks nothing of any other one."""

    rule = "one node owns a topic"

    def look(self, name: str, running: dict[NodeName, TopicNode]) -> None:
        views = [view for node in running.values() if (view := node.owners.view(name)) is not None]
        owners = sorted({str(view.owner) for view in views})
        if len(owners) != 1:
            raise self.broken(f"{name} is owned by {' and '.join(owners)}")
        if lacking := sorted({one for view in views for one in view.lacking}):
            raise self.broken(f"{owners[0]}, who owns {name}, lacks what {' and '.join(lacking)} had")


class OneVersion(AtRest):
    """The entry of a topic has one version, and nobody would write another one."""

    rule = "the entry of a topic is one"

    def look(self, name: str, running: dict[NodeName, TopicNode]) -> None:
        views = [(node, view) for node, of_node in running.items() if (view := of_node.owners.view(name)) is not None]
        if open_at := sorted(node for node, view in views if not view.is_settled):
            raise self.broken(f"{name} has an entry that is not settled on {' '.join(open_at)}")


class CopiesAreEqual(AtRest):
    """The copies of the owner and its followers have the same digests."""

    rule = "copies of a topic are equal"

    def look(self, name: str, running: dict[NodeName, TopicNode]) -> None:
        digests = {node: topic.digest for node, topic in copies_of(name, running)}
        for view in [view for node in running.values() if (view := node.owners.view(name)) is not None][:1]:
            for node in (view.owner, *view.followers):
                if node is None or view.owner is None or node not in running:
                    continue
                if node not in digests:
                    raise self.broken(f"{node} has no copy of {name}, and should")
                if digests[node] != digests.get(view.owner):
                    raise self.broken(f"{node} has another copy of {name} than its owner {view.owner}")


class AllIsForgotten(AtRest):
    """A message that all known subscribers had is kept no more."""

    rule = "what all subscribers had is forgotten"

    def look(self, name: str, running: dict[NodeName, TopicNode]) -> None:
        for node, topic in copies_of(name, running):
            if running[node].owners.is_mine(name) and len(topic):
                owed = {one: count for one in topic.subscribers() if (count := topic.owed(one)[0])}
                waits_for = " ".join(sorted(running[node].forgetting.waits_for(name))) or "nobody"
                if not owed:
                    text = f"{len(topic)} messages of {name}, which all had; it waits for {waits_for}"
                    raise self.broken(f"{node} keeps {text}")
