"""Mutants of the server tree: who may be a parent, what is told below, and what goes over the edges."""

from __future__ import annotations

from tests.mutants.broken import broken

MACHINE, UPWARD, FLOOD, EDGES = (
    f"core/server_tree/{name}.py" for name in ("machine", "upward", "flood", "backlog")
)
TREE = "tests/unit/core/test_server_tree.py"
FRAMES = "tests/unit/core/test_flood.py"
NODES = "tests/node/test_server_tree.py"

TREE_RULES = (
    # -- places
    broken(
        "told-before-the-children",
        "a node answers its parent's question only after its own children did (TREE-3)",
        UPWARD,
        "        if self.unaware():\n            return\n        if place.phase is TreePhase.PENDING",
        "        if place.phase is TreePhase.PENDING",
        TREE,
    ),
    broken(
        "join-before-all-know",
        "a node joins a parent only when all below it know that it has none (TREE-3)",
        UPWARD,
        "inquiry.said_height is None and not self.unaware():",
        "inquiry.said_height is None:",
        TREE,
    ),
    broken(
        "slow-child-kept",
        "a child that does not say that all below were told is a child no longer (TREE-3)",
        UPWARD,
        "            for edge in self.unaware():\n                self.close(turn, edge)\n",
        "",
        TREE,
    ),
    broken(
        "circle-offered",
        "a node takes no parent in whose path it is (TREE-2)",
        UPWARD,
        "        if is_deep or place.leads_here(offer.path) or offer.path",
        "        if is_deep or offer.path",
        TREE,
    ),
    broken(
        "circle-followed",
        "a parent whose path leads to this node is left (TREE-2)",
        UPWARD,
        "        elif place.leads_here(info.path) or info.path[0]",
        "        elif info.path[0]",
        TREE,
    ),
    broken(
        "other-parent",
        "a node that answers at the address of another one is no parent (TREE-17)",
        UPWARD,
        " or offer.path[:1] != (inquiry.name,):\n            self._end_inquiry(turn)\n        elif place",
        ":\n            self._end_inquiry(turn)\n        elif place",
        TREE,
    ),
    broken(
        "stranger-as-child",
        "who asks is another registered node, in its present life (TREE-17)",
        MACHINE,
        "is_known = name != self._settings.me and self._ground.is_registered(name, what.life)",
        "is_known = bool(name)",
        TREE,
        NODES,
    ),
    broken(
        "too-many-children",
        "a node with its number of children takes no more (TREE-2)",
        MACHINE,
        "self._up.children.count_beside(name) >= self._settings.fanout",
        "self._up.children.count_beside(name) > self._settings.fanout",
        TREE,
    ),
    broken(
        "too-deep",
        "a child that makes the tree too deep is refused (TREE-1)",
        MACHINE,
        "if why is None and len(self.path) + join.height > DEPTH_MAX:",
        "if why is None and join.height > 2 * DEPTH_MAX:",
        TREE,
    ),
    broken(
        "silent-parent",
        "a parent that announces nothing any more is left (TREE-4)",
        UPWARD,
        " and voices.is_missed(parent, turn.now_ms):\n",
        " and voices.is_missed(parent, 0):\n",
        TREE,
    ),
    broken(
        "height-untold",
        "the parent is told how many levels there are below (TREE-2)",
        UPWARD,
        "            turn.say(place.parent.edge, SubtreeHeight(height))\n",
        "",
        TREE,
    ),
    # -- frames
    broken(
        "frame-twice",
        "each frame of an origin is taken once (TREE-10)",
        FLOOD,
        "        if frame.origin == self._me or number <= last:\n",
        "        if frame.origin == self._me:\n",
        FRAMES,
    ),
    broken(
        "frames-of-the-retired",
        "what a node said before it was retired is not taken again when it is back (TREE-18)",
        FLOOD,
        "        for way in self._ways.values():\n            for origin in",
        "        self._last.clear()\n        for way in self._ways.values():\n            for origin in",
        FRAMES,
    ),
    broken(
        "later-start-untold",
        "a neighbour that tells of an earlier start of an origin is told a frame of the last one (TREE-18)",
        FLOOD,
        "            self._tell_later(way, frame.origin, last)\n",
        "            pass\n",
        FRAMES,
    ),
    broken(
        "frame-back",
        "a frame does not go back on the edge on which it came (TREE-10)",
        FLOOD,
        "        way.have[frame.origin] = max(number, way.have.get(frame.origin, NOTHING))\n",
        "",
        FRAMES,
    ),
    broken(
        "window-open",
        "at most 256 frames are under way on an edge (TREE-11)",
        FLOOD,
        "while way is not None and way.unacked < WINDOW_FRAMES:",
        "while way is not None:",
        FRAMES,
    ),
    broken(
        "edge-overruns",
        "an edge whose other end takes nothing of what is said ends (TREE-11)",
        EDGES,
        "if self._waiting[edge] > ITEMS_MAX:",
        "if self._waiting[edge] > 9 * ITEMS_MAX:",
        TREE,
    ),
    broken(
        "taken-unheard",
        "an edge whose other end takes what is said goes on (TREE-11)",
        EDGES,
        "            self._waiting[edge] = max(0, self._waiting[edge] - count)\n",
        "            self._waiting[edge] = max(0, self._waiting[edge])\n",
        TREE,
    ),
    broken(
        "past-untold",
        "what was said without an edge waits for the next one (TREE-12)",
        FLOOD,
        "        self._ways[edge] = _Way(dict(have), since_ms, self._first)\n",
        "        self._ways[edge] = _Way(dict(have), since_ms, self._first + len(self._kept))\n",
        FRAMES,
    ),
    broken(
        "tree-fault-ends-the-node",
        "a tree that fails costs the tree, and not the node (docs/architecture)",
        "core/ground/contained.py",
        "    except Exception as error:\n",
        "    except RuntimeError as error:\n",
        "tests/unit/core/test_tree_part.py",
    ),
)
