"""Break one rule of topics at a time and see that a seed or a scenario notices it: the traps of their design.

Knows: for each rule the words that carry it, and what was seen to notice.  Does not know how it is judged
(`simulated`).  Rules that unit tests judge are in `topic_rules` and its neighbours.
"""

from __future__ import annotations

from distkv.sim.topics.draft import FIRST_SEED
from tests.mutants.run import Mutant
from tests.mutants.simulated_mutant import Simulated


def _shown(name: str, scenario: str, rule: str, file: str, old: str, new: str) -> Simulated:
    """A scenario shows it."""
    return Simulated(Mutant(name, rule, f"core/topics/{file}", old, new), FIRST_SEED, f"topic_{scenario}")


def _met(name: str, number: int, rule: str, file: str, old: str, new: str) -> Simulated:
    """The seed with topics of this number meets it."""
    return Simulated(Mutant(name, rule, f"core/topics/{file}", old, new), FIRST_SEED + number)


SIMULATED_TOPICS = (
    _shown(
        "topic-bases-united",
        "op_on_both_sides",
        "a subscription that was repeated elsewhere is owed what one of both sides owes it (STATE-5)",
        "join.py",
        "    base = {producer: both for producer, some in mine.base.items() if (both := some &"
        " theirs.base.get(producer, _NONE))}\n",
        "    names = mine.base | theirs.base\n"
        "    base = {name: mine.base.get(name, _NONE) | theirs.base.get(name, _NONE) for name in names}\n",
    ),
    _shown(
        "topic-younger-before-the-join",
        "older_first",
        "who subscribed while something was lacking gets nothing before that has come (ANSWER-5)",
        "serving.py",
        "        return topic.held_until(subscriber) if is_coming else None\n",
        "        return None\n",
    ),
    _shown(
        "topic-join-forgets",
        "two_owners",
        "a join keeps what nobody known is owed",
        "join.py",
        "    if mine is None:\n        copy.add(producer, counter, row, now_ms)\n        return True\n",
        "    if mine is None and not copy.subscribers:\n        return False\n"
        "    if mine is None:\n        copy.add(producer, counter, row, now_ms)\n        return True\n",
    ),
    _met(
        "topic-identity-by-arrival",
        0,
        "what a subscriber has is known by producer and counter, not by the order of arrival",
        "subscribers.py",
        "                if found is None or self.had(*found[1:]):\n",
        "                if found is None:\n",
    ),
    _shown(
        "topic-lower-op-accepted",
        "ops",
        "an operation below the known one is refused",
        "topic.py",
        "        if known is None or op is None or op > known.op or"
        " (op == known.op and is_subscribed == known.is_subscribed):\n",
        "        if known is None or op is None or op > 0:\n",
    ),
    _shown(
        "topic-tags-ignored",
        "tags",
        "a counter with another tag belongs to another message (STATE-2)",
        "topic.py",
        "        is_same = tag is None or known.tags.get(counter) == tag\n",
        "        is_same = tag is None or known.tags.get(counter, tag) == tag or counter > 0\n",
    ),
    _shown(
        "topic-gone-untold",
        "gone",
        "who is owed a message that is kept no more is told",
        "copy_state.py",
        "                subscriber.lost.setdefault(producer, Ranges()).add(counter)\n",
        "                producer, counter = gone[arrival]\n",
    ),
    _shown(
        "topic-owner-as-it-comes",
        "two_owners",
        "of several owners the lowest name counts (TOPIC-4)",
        "entries.py",
        "        return min(owned, key=lambda one: one.group[0].node)  # of equal ones the first\n",
        "        return owned[0]\n",
    ),
    _met(
        "topic-losers-stay",
        9,
        "an owner's next write closes the versions that it saw (TOPIC-4)",
        "owning.py",
        "EntryWrite(name), closes=self._known.seen(name))\n        return",
        "EntryWrite(name))\n        return",
    ),
    _shown(
        "topic-taken-at-once",
        "nobody_waits",
        "a topic for which nobody waits is taken over later (TOPIC-16)",
        "taking_over.py",
        "turn.boot_ms - since_ms >= AWAY_MS",
        "turn.boot_ms >= since_ms",
    ),
    _shown(
        "topic-given-without-leases",
        "replaced",
        "an owner gives no message away while it does not hear its followers",
        "serving.py",
        "            self._check_leases(get.topic, now_ms)\n",
        "",
    ),
    _shown(
        "topic-known-by-who-lacks",
        "had_all",
        "an owner that lacks what others hold does not say what a subscriber is owed",
        "serving.py",
        "        if lacking and not topic.is_taken_here(subscriber):\n",
        "        if False:\n",
    ),
    _shown(
        "topic-answered-before-it-is-copied",
        "all_lost",
        "what is promised is on the followers' disks before it is answered (COPY-1)",
        "serving.py",
        "copying.wait(turn, copying.last_op(name), name,",
        "copying.wait(turn, 0, name,",
    ),
    _shown(
        "topic-done-on-one-disk",
        "forgotten",
        "what a subscriber said it has is on all copies",
        "local_copies.py",
        "for key, value in rows.items() if is_joined(key)}",
        'for key, value in rows.items() if is_joined(key) and key[0] != "d"}',
    ),
    _shown(
        "topic-whole-without-exchange",
        "had_all",
        "a follower is whole when all that differed was exchanged",
        "comparing.py",
        "(is_named and isinstance(said, CompareEqual))",
        "is_named",
    ),
    _shown(
        "topic-follower-without-a-copy",
        "replaced",
        "a node that is named makes a copy",
        "comparing.py",
        "and is_wanted and self._host.begin_copy(turn, name)\n",
        "and is_wanted and name not in self._standings and name in self._ended\n",
    ),
)
