"""What a copy of a topic is, as plain sets of facts: the model that the real one is compared with.

Knows: the rules in their shortest form.  Does not know rows, arrivals, digests, nor bounds.
"""

from __future__ import annotations

from hashlib import blake2b

import attrs

Identity = tuple[str, int]


@attrs.define
class FactMessage:
    value: bytes
    time: float
    floor: int
    tag: bytes | None

    def joined(self, other: FactMessage) -> FactMessage:
        """The lower hash stays, the earlier time, the higher floor."""
        least = min(self, other, key=lambda one: (blake2b(one.value, digest_size=16).digest(), one.tag or b""))
        return FactMessage(least.value, min(self.time, other.time), max(self.floor, other.floor), least.tag)


@attrs.define
class FactSubscriber:
    op: int
    is_subscribed: bool
    base: frozenset[Identity] = frozenset()
    done: frozenset[Identity] = frozenset()

    def joined(self, other: FactSubscriber) -> FactSubscriber:
        """The higher operation replaces everything; of equal ones, bases are intersected and dones united."""
        if (self.op, not self.is_subscribed) != (other.op, not other.is_subscribed):
            return attrs.evolve(max(self, other, key=lambda one: (one.op, not one.is_subscribed)))
        return FactSubscriber(self.op, self.is_subscribed, self.base & other.base, self.done | other.done)


@attrs.define
class Facts:
    """One copy."""

    here: dict[Identity, FactMessage] = attrs.field(factory=dict)
    seen: frozenset[Identity] = frozenset()
    floors: dict[str, int] = attrs.field(factory=dict)
    tags: dict[Identity, bytes] = attrs.field(factory=dict)
    subscribers: dict[str, FactSubscriber] = attrs.field(factory=dict)

    def put(self, identity: Identity, message: FactMessage) -> None:
        if identity not in self.seen:
            self.here[identity] = message
            self._came(identity, message)

    def _came(self, identity: Identity, message: FactMessage) -> None:
        self.seen |= {identity}
        self.floors[identity[0]] = max(self.floors.get(identity[0], 0), message.floor)
        if message.tag is not None:
            self.tags[identity] = min(self.tags.get(identity, message.tag), message.tag)

    def subscribe(self, name: str, op: int) -> None:
        known = self.subscribers.get(name)
        if known is None or op > known.op:
            self.subscribers[name] = FactSubscriber(op, True, self.seen)

    def unsubscribe(self, name: str, op: int) -> None:
        known = self.subscribers.get(name)
        if known is None or op > known.op:
            self.subscribers[name] = FactSubscriber(op, False)

    def done(self, name: str, some: frozenset[Identity]) -> None:
        known = self.subscribers[name]
        known.done |= some & self.seen

    def forget(self, identity: Identity) -> None:
        self.here.pop(identity, None)

    def owed(self, name: str) -> frozenset[Identity]:
        known = self.subscribers[name]
        return frozenset(self.here) - known.base - known.done

    def join(self, other: Facts) -> None:
        for identity, message in other.here.items():
            mine = self.here.get(identity)
            self.here[identity] = message if mine is None else mine.joined(message)
        self.seen |= other.seen
        for producer, floor in other.floors.items():
            self.floors[producer] = max(floor, self.floors.get(producer, 0))
        for identity, tag in other.tags.items():
            self.tags[identity] = min(tag, self.tags.get(identity, tag))
        for name, subscriber in other.subscribers.items():
            mine_too = self.subscribers.get(name)
            self.subscribers[name] = attrs.evolve(subscriber) if mine_too is None else mine_too.joined(subscriber)
