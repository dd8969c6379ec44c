"""What the log says: what the core notes; and, a line each, that a node went away or came back, or a conflict opened.

Knows: how loud a note is, who was alive when it was looked at last, and which losers were open.  Does not know what
makes a node alive (`core.recovery`), nor what is done about a conflict.

Invariant: what was so at the start is not told, and nothing is told twice; after a split with many conflicts, some are
told, and then how many more there are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from distkv.core.ready import Note, PathChange
from distkv.core.replica import Replica
from distkv.engine.feeds import open_losers
from distkv.model.event import Link, NodeName, tick_text
from distkv.model.path import Path

log = logging.getLogger("distkv.engine")

LEVELS: Final = {
    **dict.fromkeys(("two_contents", "digest_differs", "damaged", "service_failed", "tree_failed"), logging.ERROR),
    "entry_guarded": logging.ERROR,
    **dict.fromkeys(("rolled_back", "own_missing", "later_life", "stood_in", "retired", "stale"), logging.WARNING),
    **dict.fromkeys(("late_join", "foreign_network", "name_twice", "same_address", "answer_unasked"), logging.WARNING),
    "token_setting_differs": logging.WARNING,
    **dict.fromkeys(("ready", "new_life", "unwitnessed", "split_healed"), logging.INFO),
}
"""How loud a note is; the others are counted, and shown with -vv."""
REPEATS_SHOWN: Final = 10
"""So many notes of one id are logged; of more, every hundredth."""
LOOK_MS: Final = 1000
CONFLICTS_SHOWN: Final = 100
"""So many lines about conflicts there are in `CONFLICTS_MS`."""
CONFLICTS_MS: Final = 60_000


class Journal:
    """That of one node."""

    def __init__(self, replica: Replica) -> None:
        self._replica: Final = replica
        self._alive = dict[NodeName, bool]()
        """Those that were alive once, and whether they were at the last look."""
        self._looked_ms = 0
        self._open = dict[Path, frozenset[Link]]()
        self._shown = self._hidden = 0
        self._since_ms = 0

    def begin(self, now_ms: int) -> None:
        """The log was replayed: which conflicts are open already."""
        self._looked_ms = self._since_ms = now_ms
        for entry in self._replica.tree.conflicted():
            self._open[entry.head.path] = frozenset(loser.link for loser in entry.conflicts())

    def look(self, now_ms: int) -> None:
        """Say who went away and who came back since the last look, if that was some time ago."""
        if now_ms < self._looked_ms + LOOK_MS:
            return
        self._looked_ms = now_ms
        replica = self._replica
        peers, registered = replica.peers(now_ms), replica.registry.nodes
        for name in registered:
            is_alive = name in peers and peers[name][1]
            if name == replica.name or is_alive == self._alive.get(name, False):
                continue
            if is_alive and name in self._alive:
                log.warning("node_back node=%s", name)
            elif not is_alive:
                log.warning("node_away node=%s", name)
            self._alive[name] = is_alive
        for name in self._alive.keys() - registered.keys():
            del self._alive[name]  # it was retired, or it is another network
        if now_ms >= self._since_ms + CONFLICTS_MS:
            if self._hidden:
                log.warning("conflicts_opened more=%d", self._hidden)
            self._shown, self._hidden, self._since_ms = 0, 0, now_ms

    def note(self, note: Note, count: int) -> None:
        """Say what the core noted, for the `count`-th time, as loud as it is worth."""
        level = LEVELS.get(note.id, logging.DEBUG)
        if note.id == "peer_failed" and not self._replica.is_serving:
            level = logging.WARNING  # a node that cannot become ready should say why
        if log.isEnabledFor(level) and (count <= REPEATS_SHOWN or count % 100 == 0):
            event = note.id + "".join(f" {key}=%s" for key in note.fields)
            log.log(level, event, *note.fields.values())

    def changed(self, changes: Iterable[PathChange]) -> None:
        """Say which losers are open now that were not before."""
        tree, is_told = self._replica.tree, self._replica.is_serving
        if not tree.conflict_count and not self._open:
            return  # so it is nearly always
        for change in changes:
            path = change.event.path
            entry = tree.get(path)
            losers = None if path.is_reserved else open_losers(change, entry)
            if losers is None:
                continue
            before = self._open.pop(path, frozenset())
            if losers:
                self._open[path] = frozenset(loser.link for loser in losers)
            for loser in losers:
                if entry is not None and is_told and loser.link not in before:
                    self._tell(path, loser.link, entry.head.link)

    def _tell(self, path: Path, loser: Link, winner: Link) -> None:
        if self._shown >= CONFLICTS_SHOWN:
            self._hidden += 1
            return
        self._shown += 1
        log.warning("conflict_opened path=%s change=%s winner=%s", path, tick_text(*loser), tick_text(*winner))
