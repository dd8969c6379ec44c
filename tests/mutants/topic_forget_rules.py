"""Mutants of what topics forget: rounds, what is kept for who is away, limits, drops, copies without an entry."""

from __future__ import annotations

from tests.mutants.broken import broken

FORGETTING = "tests/unit/core/test_topic_forgetting.py"
DROPPING = "tests/unit/core/test_topic_dropping.py"
LIMITS = "tests/unit/core/test_topic_limits.py"

DOUBTS = "tests/unit/core/test_topic_doubts.py"
UNKNOWN = "tests/scenarios/test_scenarios.py::test_scenario_gives_the_expected_trace[topic_unknown]"

TOPIC_FORGET_RULES = (
    broken(
        "not-subscribed-by-an-older-answer",
        "that nobody knows a subscriber is said by a question that was asked after its get came",
        "core/topics/subscriber_doubts.py",
        "        return found if asked_ms > since_ms else None\n",
        "        return found\n",
        DOUBTS,
    ),
    broken(
        "not-subscribed-by-a-void-round",
        "that nobody knows a subscriber is said only when all answers count",
        "core/topics/forgetting.py",
        "            self._doubts.doubt()\n",
        "            self._doubts.answered(round.unclean)\n",
        DOUBTS,
    ),
    broken(
        "end-of-what-others-may-know",
        "that there is no subscription to end is said only when nobody else may know one",
        "core/topics/serving.py",
        "                if not topic.is_subscribed(request.subscriber):\n",
        "                if False:\n",
        UNKNOWN,
    ),
    broken(
        "who-may-begin-is-not-asked",
        "a node that may have begun to keep topics is asked before its entry is here",
        "core/topics/rounds.py",
        "self._host.may_keep()",
        "self._host.keepers()",
        DOUBTS,
    ),
    broken(
        "clean-towards-somebody",
        "a node says that the owner who asks has all that it holds, not somebody who was asked before",
        "core/topics/forgetting.py",
        "        return not self._topics.of(name) or self._copies.is_clean(name, owner, owner_start)\n",
        "        others, is_clean = [owner, *self.keepers()], self._copies.is_clean\n"
        "        return not self._topics.of(name) or any(is_clean(name, one, owner_start) for one in others)\n",
        FORGETTING,
    ),
    broken(
        "asked-before-it-came",
        "a message goes only by an answer to a question that was asked after it came",
        "core/topics/free_messages.py",
        "islice(reach.topic.free(reach.arrival), left)",
        "islice(reach.topic.free(reach.topic.arrived()), left)",
        FORGETTING,
    ),
    broken(
        "other-keepers-believed",
        "an answer counts only if both know the same nodes",
        "core/topics/rounds.py",
        "        if said is None or said.servers != round.servers:\n",
        "        if said is None:\n",
        FORGETTING,
    ),
    broken(
        "keeper-found-meanwhile",
        "a round is void when another node keeps topics at its end",
        "core/topics/rounds.py",
        "        round.is_void |= self.servers() != round.servers",
        "        round.is_void |= False",
        FORGETTING,
    ),
    broken(
        "asked-while-away",
        "nothing is asked while a node is away that must answer",
        "core/topics/forgetting.py",
        "        if self._rounds.is_open or self._rounds.away():\n",
        "        if self._rounds.is_open:\n",
        FORGETTING,
    ),
    broken(
        "all-is-kept-for-who-is-away",
        "what is kept for nodes that are away has a limit",
        "core/topics/free_messages.py",
        "        while self._kept.bytes > self._bytes_max:\n",
        "        while False:\n",
        FORGETTING,
    ),
    broken(
        "drop-without-a-follower",
        "a topic is not dropped while somebody is away who has it",
        "core/topics/dropping.py",
        "        if away and not force:\n",
        "        if False:\n",
        DROPPING,
    ),
    broken(
        "drop-forgotten-too-early",
        "the entry of a dropped topic stays until all have thrown it away",
        "core/topics/dropping.py",
        "            if name in unthrown or not",
        "            if not",
        DROPPING,
    ),
    broken(
        "thrown-without-knowing",
        "a node that does not know of the drop has not thrown the topic away",
        "core/topics/dropping.py",
        "    return ids <= entries.dropped(name) and not any(",
        "    return not any(",
        DROPPING,
    ),
    broken(
        "orphan-that-one-knows",
        "a copy without an entry stays when one node knows an entry of it",
        "core/topics/orphans.py",
        "            if name in known or self._found",
        "            if self._found",
        DROPPING,
    ),
    broken(
        "backlog-of-what-nobody-is-owed",
        "only what subscribers are owed is a backlog",
        "core/topics/backlog.py",
        "self._bytes_max - topic.size_owed()",
        "self._bytes_max - topic.held_bytes",
        LIMITS,
    ),
)
