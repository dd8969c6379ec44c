"""The keyring of one node while it runs: what members say about keys is heard, what they have not done is told to them.

Knows: whose record says which keys.  Does not know how a change is made (`key_changes`), nor the file.

Invariant: what is said about keys is believed only of a member, sealed for the present start of this node. A keyring
seals when it was written; then the record of this node says so, at a higher generation (docs/protocol, SWIM-48).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from distkv.model.invariant import must
from distkv.swim.inputs import KeysChanged, KeysRefused
from distkv.swim.key_changes import KeyChanges
from distkv.swim.keyring import Keyring
from distkv.swim.members import MemberEntry
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import GossipFrame
from distkv.wire.swim_records import GENERATION_MAX, KeyAction, KeyChange, Payload


class KeyKeeper:
    """The keys of one node; without a secret there are none, and nothing is done."""

    def __init__(self, node: SwimNode, changes: KeyChanges | None) -> None:
        self._node = node
        self._changes = changes

    @property
    def keyring(self) -> Keyring | None:
        """What this node keeps."""
        return None if self._changes is None else self._changes.keyring

    def hear(self, teller: Teller, said: Iterable[KeyChange]) -> None:
        """A member tells it."""
        if self._changes is not None and teller.is_fresh:
            for change in said:
                self._changes.hear(change)

    def tell(self, who: MemberEntry, turn: SwimTurn) -> None:
        """A member was heard: it is told what its keys lack."""
        node, told = self._node, () if self._changes is None else self._changes.told_to(who.record.keys)
        if told:
            frame = GossipFrame(node.own.id, Payload(table=node.table.hash, keys=told))
            node.send(who.address, who.record.start, frame, turn)

    def change(self, action: KeyAction, key: bytes, registered: Iterable[str], turn: SwimTurn) -> None:
        """The operator says it."""
        entries, own = self._node.table.entries, self._node.own
        if self._changes is None:
            turn.reports.append(
                KeysRefused("there is no secret: set cluster.secret on all nodes, and start them again")
            )
            return
        names = {*registered, *self._node.table.live} - {own.node}
        rings = {name: entries[name].record.keys if name in entries else () for name in names}
        found = self._changes.begin(action, key, own.generation, rings)
        if isinstance(found, str):
            turn.reports.append(KeysRefused(found))

    def run(self, turn: SwimTurn) -> None:
        """What is to be written is reported."""
        wanted = None if self._changes is None else self._changes.take_wanted(turn.now_ms)
        if wanted is not None:
            turn.reports.append(KeysChanged(wanted.keys))

    def kept(self, keyring: Keyring, turn: SwimTurn, *, is_by_hand: bool) -> None:
        """The file has this keyring now. `is_by_hand`: somebody else wrote it."""
        node, changes = self._node, self._changes
        if changes is None or keyring == changes.keyring:
            return
        if is_by_hand:
            changes.reread(keyring)
        else:
            changes.kept(keyring)
        node.seal.renew(keyring)
        generation = min(node.own.generation + 1, GENERATION_MAX)
        if not node.is_leaving:
            node.become(attrs.evolve(node.own, generation=generation, keys=keyring.ids), turn)

    def check(self) -> None:
        if self._changes is not None:
            self._changes.check()
            ids = self._changes.keyring.ids
            must(self._node.is_leaving or self._node.own.keys == ids, "the record of a node says which keys it has")
