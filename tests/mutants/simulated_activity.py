"""Break one rule of the activity network at a time and see that a seed or a scenario notices it: the traps of its
design.

Knows: for each rule the words that carry it, and what was seen to notice.  Does not know how it is judged
(`simulated`).  Rules that unit tests judge are in `activity_rules` and its neighbours; the rules of the simulator
itself are broken in `activity_sim_rules`.
"""

from __future__ import annotations

from distkv.sim.activity.draft import FIRST_SEED
from tests.mutants.run import Mutant
from tests.mutants.simulated_mutant import Simulated


def _met(name: str, number: int, rule: str, file: str, old: str, new: str) -> Simulated:
    """The seed with activity of this number meets it."""
    return Simulated(Mutant(name, rule, f"core/activity/{file}", old, new), FIRST_SEED + number)


def _shown(name: str, scenario: str, rule: str, file: str, old: str, new: str) -> Simulated:
    """A scenario shows it."""
    return Simulated(Mutant(name, rule, f"core/activity/{file}", old, new), FIRST_SEED, f"activity_{scenario}")


SIMULATED_ACTIVITY = (
    _shown(
        "activity-gap-unsaid",
        "passed_over",
        "what is passed over is told to who resumes (ACTIVITY-6)",
        "delivery.py",
        "                self._out.give_gap(turn, hole.origin, hole.first, hole.last)\n",
        "",
    ),
    _shown(
        "activity-last-words-lost",
        "passed_over",
        "what a neighbour knows shows a hole that no later number shows (ACTIVITY-4)",
        "knowledge.py",
        "        for origin, number in numbers.items():\n            self._origins.know(origin, number, now_ms)\n\n"
        "    def answered",
        "\n    def answered",
    ),
    _shown(
        "activity-window-not-taken",
        "begins",
        "a node that begins takes what another one keeps (ACTIVITY-10)",
        "catching_up.py",
        "        if is_alone or past_ms >= PATIENCE_MS:\n",
        "        if True:\n",
    ),
    _shown(
        "activity-nobody-sent-on-at-the-end",
        "ends",
        "a node that ends sends on all its clients (ACTIVITY-12)",
        "balance.py",
        "for client in may_go[: self._each_tick]:",
        "for client in may_go[:0]:",
    ),
    _shown(
        "activity-alone-at-once",
        "out_of_the_tree",
        "a node that seems alive and of which nothing is heard has to have an activity, too (ACTIVITY-14)",
        "copy_nodes.py",
        "if self._counts(node, now_ms)] if",
        "if False] if",
    ),
    _met(
        "activity-echo-of-one-copy",
        42,
        "an activity is echoed when as many other nodes as there must be have it (ACTIVITY-2)",
        "own_activities.py",
        "< min(self._copies, len(others)):",
        "< min(1, len(others)):",
    ),
    _met(
        "activity-kept-too-short",
        2,
        "each node keeps what it gave out for a minute",
        "kept.py",
        "self._all[0].at_ms + self._keep_ms < now_ms",
        "self._all[0].at_ms + self._keep_ms // 20 < now_ms",
    ),
    _met(
        "activity-earlier-epoch-given",
        2,
        "what comes late of an earlier epoch of its sender is dropped (ACTIVITY-7)",
        "senders.py",
        "and found.highest > sender.epoch",
        "and False",
    ),
    _met(
        "activity-never-moved",
        2,
        "clients go to nodes that have less (ACTIVITY-12)",
        "loads.py",
        "        if own <= mean:\n            return None\n",
        "        return None\n",
    ),
    _met(
        "activity-moved-at-once-again",
        2,
        "a client that came from another node stays for a minute (ACTIVITY-12)",
        "balance.py",
        "may_go = client.mark is not None and client.stays_until_ms <= turn.boot_ms",
        "may_go = client.mark is not None",
    ),
)
