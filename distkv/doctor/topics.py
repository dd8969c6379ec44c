"""What `distkv doctor` sees of the topic service, and what it makes of that.

Knows: what a node shows of topics, and what is well.  Does not know how nodes are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.doctor.facts import Finding, Level, NodeFacts
from distkv.doctor.services import Checkup
from distkv.doctor.wording import counted, listed
from distkv.wire.fields import read_int, read_list

TOPICS: Final = "topics"


@attrs.frozen
class TopicFacts:
    """What a node shows of topics."""

    topics: int = 0
    """Of which it has a copy."""
    owned: int = 0
    """Which it answers for."""
    messages: int = 0
    """In all its copies."""
    few_copies: tuple[str, ...] = ()
    """Some of those that it owns and that are on fewer nodes than they should be."""
    waits_for: tuple[str, ...] = ()
    """Nodes without whose answer it forgets nothing."""
    backlogged: tuple[str, ...] = ()
    """Some of those that it owns and whose subscribers have left almost as much waiting as they may."""
    crowded: tuple[str, ...] = ()
    """Some of those that it owns and that have almost as many producers or subscribers as they may."""


def read(shown: Mapping[str, object]) -> TopicFacts:
    """What the state of a node says.

    Raises:
        DecodeError: it cannot be meant.
    """
    counts = {name: read_int(shown, name) for name in ("topics", "owned", "messages") if name in shown}
    lists = ("few_copies", "waits_for", "backlogged", "crowded")
    few, waits, backlogged, crowded = (tuple(map(str, read_list(shown.get(name, []), name))) for name in lists)
    return TopicFacts(**counts, few_copies=few, waits_for=waits, backlogged=backlogged, crowded=crowded)


def check(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Whether each topic is on as many nodes as it should be, and what is done with can be forgotten."""
    found = {node.name: facts for node in nodes if isinstance(facts := node.services.get(TOPICS), TopicFacts)}
    complaints = [*_few_copies(found), *_waits(found), *_limits(found)]
    yield from complaints
    owned = sum(facts.owned for facts in found.values())
    if owned and not complaints:
        messages = sum(facts.messages for facts in found.values())
        says = f"{counted(owned, 'topic')}, each with all its copies; {counted(messages, 'message')} in them"
        yield Finding(TOPICS, Level.OK, says)


def _few_copies(found: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    for name, facts in found.items():
        if facts.few_copies:
            says = f"too few nodes have a copy of topics that {name} owns: {', '.join(facts.few_copies)}"
            yield Finding(TOPICS, Level.WARN, says, "start nodes that keep topics, or lower topics.replicas")


def _waits(found: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    waiting = sorted({node for facts in found.values() for node in facts.waits_for})
    if waiting:
        says = f"messages are kept until these nodes are heard again: {listed(waiting)}"
        do = "start them again; one that is gone for good: 'distkv client node retire NODE'"
        yield Finding(TOPICS, Level.WARN, says, do)


def _limits(found: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    for name, facts in found.items():
        if facts.backlogged:
            says = f"subscribers of topics that {name} owns have left almost as much waiting as they may"
            do = "'distkv client topic show TOPIC' says who: start that, or 'topic drop TOPIC --subscriber NAME'"
            yield Finding(TOPICS, Level.WARN, f"{says}: {', '.join(facts.backlogged)}", do)
        if facts.crowded:
            says = f"topics that {name} owns have almost as many producers or subscribers as limits allow"
            do = "drop those that never come back: 'topic show TOPIC --producers' has their names; or raise the limit"
            yield Finding(TOPICS, Level.WARN, f"{says}: {', '.join(facts.crowded)}", do)


CHECKUP: Final = Checkup(TOPICS, read, check)
