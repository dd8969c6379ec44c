"""Mutants of the simulator's rules about the activity network: each excuses what was promised, or blames what
was not.
"""

from __future__ import annotations

from tests.mutants.broken import Broken, broken

TESTS = "tests/unit/sim/test_activity_rules.py"


def _of(name: str, rule: str, file: str, old: str, new: str) -> Broken:
    return broken(name, rule, f"sim/activity/{file}", old, new, TESTS)


ACTIVITY_SIM_RULES = (
    _of(
        "judged-by-all-copies",
        "a gap is excused only when nobody who has it could be asked",
        "copies.py",
        "        return any(self._reach.could_ask(",
        "        return all(self._reach.could_ask(",
    ),
    _of(
        "judged-as-kept-for-ever",
        "what is older than it is kept is not owed",
        "copies.py",
        "at_ms - ms < KEPT_MS\n",
        "at_ms >= ms\n",
    ),
    _of(
        "judged-by-the-dead",
        "who has ended has nothing",
        "copies.py",
        "                and self._reach.is_running(one)]  # fmt: skip\n",
        "                ]  # fmt: skip\n",
    ),
    _of(
        "judged-by-one-that-waits",
        "what waits for an earlier one that cannot be known is not owed where its sender speaks next",
        "copies.py",
        "        before = [(origin, one) for one in range(reached + 1, number)]\n",
        "        before = list[Place]()\n",
    ),
    _of(
        "judged-as-if-it-waited-for-ever",
        "what was passed over is not waited for",
        "copies.py",
        "for one in range(reached + 1, number)]\n",
        "for one in range(1, number)]\n",
    ),
    _of(
        "judged-by-what-was-before",
        "a node that begins anew has nothing of before",
        "copies.py",
        "                had.pop(start, None)\n",
        "                had.get(start, None)\n",
    ),
    _of(
        "judged-without-asking",
        "what a client is told at a node counts as it was when the node passed it over",
        "rules.py",
        "            could = self._passed.get((start, gap.origin, number))\n",
        "            could = None\n",
    ),
    _of(
        "judged-gaps-blindly",
        "a gap excuses nothing that its node could have had",
        "rules.py",
        'that it does not come" if could else ""',
        'that it does not come" if False else ""',
    ),
    _of(
        "judged-silence-blindly",
        "what has spread is heard, or told of",
        "rules.py",
        'return "nobody said so" if self._copies.has_spread(self._places[text]) else ""',
        'return ""',
    ),
    _of(
        "judged-silence-always",
        "nobody can tell of what no node knows",
        "rules.py",
        'return "nobody said so" if self._copies.has_spread(self._places[text]) else ""',
        'return "nobody said so"',
    ),
    _of(
        "judged-unechoed-too",
        "what was not echoed is not promised",
        "rules.py",
        "            for text in sorted(self._echoed - self._heard[client]):\n",
        "            for text in sorted(self._places.keys() - self._heard[client]):\n",
    ),
    _of(
        "judged-any-later-one",
        "a later one of a sender excuses only what could not be known where it sent that",
        "rules.py",
        "        if any(text in self._unknown[sender, origin] for origin in later):\n",
        "        if later:\n",
    ),
    _of(
        "judged-no-later-one",
        "what a sender had sent on its former side is dropped behind a later one",
        "rules.py",
        "        if any(text in self._unknown[sender, origin] for origin in later):\n",
        "        if False:\n",
    ),
    _of(
        "judged-where-first-sent-only",
        "what a sender had sent on the other side is dropped where it is back, too",
        "rules.py",
        "for one in sent if last < one < number]\n",
        "for one in sent if 0 == last < one < number]\n",
    ),
    _of(
        "judged-anew-where-known",
        "what could be known where a sender came is owed when it is back there",
        "rules.py",
        "for one in sent if last < one < number]\n",
        "for one in sent if one < number]\n",
    ),
    _of(
        "judged-numbers-of-an-origin",
        "numbers of one origin are in order wherever a client goes",
        "rules.py",
        "elif what.origin == last.origin or self._copies",
        "elif self._copies",
    ),
    _of(
        "judged-order-by-split",
        "a later one that the node could have known forbids an earlier one",
        "rules.py",
        "self._copies.could_have(what.node, (last.origin, last.number), at_ms):\n",
        "False:\n",
    ),
    _of(
        "judged-order-always",
        "who goes to the other side may hear an earlier one there",
        "rules.py",
        "self._copies.could_have(what.node, (last.origin, last.number), at_ms):\n",
        "True:\n",
    ),
    _of(
        "judged-twice-unseen",
        "an activity is heard once",
        "rules.py",
        "        if what.text in self._heard[what.client]:\n",
        "        if False:\n",
    ),
    _of(
        "judged-own-copy",
        "the origin of an activity is none of its copies",
        "rules.py",
        "        having = {*what.holders, *lost} - {what.node}\n",
        "        having = {*what.holders, *lost}\n",
    ),
    _of(
        "judged-lost-copies",
        "a node that ended a moment ago may have been a copy",
        "rules.py",
        "        having = {*what.holders, *lost} - {what.node}\n",
        "        having = {*what.holders} - {what.node}\n",
    ),
    _of(
        "judged-copies-of-the-cut-off",
        "a node that is cut off needs no copies",
        "rules.py",
        "                  and self._reach.could_ask(what.node, name, since_ms)]  # fmt: skip\n        lost",
        "                  ]\n        lost",
    ),
    _of(
        "judged-left-clients",
        "a node that ends leaves no client to itself",
        "rules.py",
        "            if others and (what.left or not what.is_done):\n",
        "            if others and not what.is_done:\n",
    ),
    _of(
        "judged-nowhere-to-go",
        "clients of the last node have nowhere to go",
        "rules.py",
        "            if others and (what.left or not what.is_done):\n",
        "            if what.left or not what.is_done:\n",
    ),
    _of(
        "judged-endless-end",
        "a node that ends has done so within 10 seconds",
        "rules.py",
        "            if at_ms - began_ms > END_MS:\n",
        "            if False:\n",
    ),
    _of(
        "judged-moved-by-the-ending",
        "only a node that ends sends on who came a moment ago",
        "rules.py",
        "            if self._places[what.client][0] in self._ending:\n",
        "            if self._ending:\n",
    ),
    _of(
        "judged-pause-of-one",
        "who is paused troubles no other two nodes",
        "reach.py",
        "            self._troubled_ms[name] = at_ms\n",
        "            self._all_ms = at_ms\n",
    ),
    _of(
        "judged-cut-forgotten",
        "a way that is cut troubles its two nodes until it is open",
        "reach.py",
        "                self._apart_ms[one, other] = self._apart_ms[other, one] = now_ms\n",
        "                pass\n",
    ),
    broken(
        "judged-by-a-connection-that-stays",
        "a node is told of the end of each connection, of one that it ends as it answers a login, too",
        "sim/activity/listening.py",
        "        self._asked.add(number)\n",
        "",
        "tests/unit/sim/test_activity_listener.py",
    ),
)
