"""The end of a run for the server tree: all are to be one tree, and everybody says a last word.

Knows: how long that may take.  Does not know whether all hear it (`rules.trees`).

Invariant: without a server tree nothing happens, and no time passes.
"""

from __future__ import annotations

from typing import Final

from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.trees import LAST, is_one_tree
from distkv.sim.sayings import say
from distkv.sim.trees import tree_lines

TREE_MS: Final = 60_000
HEARD_MS: Final = 2000


def speak_last(fleet: Fleet) -> bool:
    """Say them, as soon as there is one tree; whether any time passed.

    Raises:
        BrokenRuleError: there is none within a minute.
    """
    if fleet.tree_nodes is None:
        return False
    if not fleet.run_until(lambda: is_one_tree(fleet), TREE_MS):
        raise BrokenRuleError("one tree", "; ".join(tree_lines(fleet.hosts.values())))
    for host in fleet.ours():
        if host.process is not None:
            say(host.process, LAST)
    fleet.run(HEARD_MS)
    return True
