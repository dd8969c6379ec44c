"""Small messages of users to all nodes: numbered, sent to few or to all, passed on, heard once.

Knows: which ones were heard, which ones leave now or ride on what leaves anyway, and how many bytes may.  Does not know
who is alive, frames, nor what is in a message.

Invariant: a message is new once on each node. Up to `DIRECT_MAX` peers its origin sends it to each; above, whoever
hears it first passes it to `FAN_OUT` others at once and lets it ride. What a node says itself leaves at once; what it
passes on leaves while the allowance lasts. Every queue here has a bound, and what is dropped is counted (docs/protocol,
SWIM-42, SWIM-43).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.allowance import Allowance
from distkv.swim.heard_messages import HOLE_MS, HeardMessages
from distkv.swim.inputs import SwimRng
from distkv.swim.riding_messages import RIDES, RidingMessages
from distkv.wire.swim_records import MESSAGE_BYTES_MAX, UserMessage, message_bytes

DIRECT_MAX: Final = 16
FAN_OUT: Final = 4
LEAVING_MAX: Final = 1024
ORIGINS_MAX: Final = 4096
PLACES_MAX: Final = 64


@attrs.define
class MessageCounts:
    """What became of user messages."""

    said: int = 0
    heard: int = 0
    known: int = 0
    """Copies of what was heard before."""
    copies: int = 0
    """Sent."""
    dropped: int = 0
    """Messages that were not passed on at once."""


@attrs.frozen(slots=True)
class _Leaving:
    message: UserMessage
    size: int
    heard_from: str | None
    """None: it is our own."""


class UserMessages:
    """What one start of a node says and hears."""

    def __init__(self, own: str, start: bytes, bytes_per_s: int) -> None:
        self.counts = MessageCounts()
        self._own = own
        self._start = start
        self._allowance = Allowance(bytes_per_s)
        self._leaving: deque[_Leaving] = deque()
        self._riding = RidingMessages()
        self._heard: dict[tuple[str, bytes], HeardMessages] = {}
        """Whoever was heard last stands at the end."""
        self._missing: dict[tuple[str, bytes], int] = {}
        """Of whom something is missing, and since when; in that order."""

    def places(self, now_ms: int, peers: int) -> int:
        """How many messages of the largest size may be said now."""
        if peers == 0:
            return PLACES_MAX
        size = min(_copies(peers) * MESSAGE_BYTES_MAX, self._allowance.bytes_per_s)
        return min(PLACES_MAX, max(0, self._allowance.left_bytes(now_ms)) // size)

    def wait_ms(self, now_ms: int, peers: int) -> int:
        """How long until one may be said."""
        return self._allowance.wait_ms(now_ms, _copies(peers) * MESSAGE_BYTES_MAX)

    def say(self, kind: int, body: bytes) -> None:
        """It leaves with the next `take_leaving`, even if nothing is left of the allowance: ask `places` before, for
        what can wait."""
        self.counts.said += 1
        self._leave(UserMessage(self._own, self._start, self.counts.said, kind, body), None)

    def hear(self, now_ms: int, message: UserMessage, heard_from: str) -> bool:
        """Whether this one is new, and somebody else's; then it is passed on."""
        if message.origin == self._own or not self._remember(now_ms, message):
            self.counts.known += 1
            return False
        self.counts.heard += 1
        self._leave(message, heard_from)
        return True

    @property
    def is_riding(self) -> bool:
        """Whether something may ride on what is sent now."""
        return bool(self._riding)

    @property
    def missed_at_ms(self) -> int | None:
        """When `take_missed` has something to say, if nothing is heard before."""
        return next(iter(self._missing.values())) + HOLE_MS if self._missing else None

    def take_missed(self, now_ms: int) -> bool:
        """Whether messages were lost on their way here; each is told once."""
        due = [key for key, since_ms in self._missing.items() if now_ms - since_ms >= HOLE_MS]
        for key in due:
            self._heard[key].tell()
            del self._missing[key]
        return bool(due)

    def take_leaving(self, now_ms: int, peers: Sequence[str], rng: SwimRng) -> dict[str, list[UserMessage]]:
        """What is to be sent to whom now; `peers` are all others that are there."""
        found: dict[str, list[UserMessage]] = {}
        while self._leaving:
            one = self._leaving.popleft()
            for peer in self._receivers(now_ms, one, peers, rng):
                found.setdefault(peer, []).append(one.message)
                self._spend(now_ms, one.size)
            if len(peers) > DIRECT_MAX:
                self._riding.add(one.message, one.size)
        return found

    def take_riding(self, now_ms: int, room: int) -> tuple[UserMessage, ...]:
        """Those that ride on what is sent now, which has room for so many bytes."""
        if not self._riding:
            return ()
        taken = self._riding.take(min(room, self._allowance.left_bytes(now_ms)))
        for _, size in taken:
            self._spend(now_ms, size)
        return tuple([message for message, _ in taken])

    def check(self) -> None:
        must(len(self._leaving) <= LEAVING_MAX, "few messages wait")
        must(len(self._heard) <= ORIGINS_MAX, "few nodes are remembered")
        since = [*self._missing.values()]
        must(since == sorted(since), "what is missing longest stands first")
        for key, heard in self._heard.items():
            heard.check()
            must(heard.since_ms == self._missing.get(key), "it is noted what is missing")
        must(self._missing.keys() <= self._heard.keys(), "what is missing is missing of somebody")
        self._riding.check()
        self._allowance.check()

    def _remember(self, now_ms: int, message: UserMessage) -> bool:
        """Whether it was not heard before."""
        key = message.origin, message.start
        heard = self._heard.pop(key) if key in self._heard else HeardMessages()
        self._heard[key] = heard
        if len(self._heard) > ORIGINS_MAX:
            oldest = next(iter(self._heard))
            del self._heard[oldest]
            self._missing.pop(oldest, None)
        if not heard.take(now_ms, message.sequence):
            return False
        if heard.since_ms is None:
            self._missing.pop(key, None)
        else:
            self._missing.setdefault(key, heard.since_ms)
        return True

    def _leave(self, message: UserMessage, heard_from: str | None) -> None:
        if len(self._leaving) >= LEAVING_MAX:
            self._leaving.popleft()
            self.counts.dropped += 1
        self._leaving.append(_Leaving(message, message_bytes(message), heard_from))

    def _receivers(self, now_ms: int, one: _Leaving, peers: Sequence[str], rng: SwimRng) -> Sequence[str]:
        is_few = len(peers) <= DIRECT_MAX
        if one.heard_from is None:
            return peers if is_few else _some(peers, rng)
        if is_few:
            return ()  # its origin sends it to all
        if self._allowance.left_bytes(now_ms) < FAN_OUT * one.size:
            self.counts.dropped += 1
            return ()
        return [peer for peer in _some(peers, rng) if peer not in (one.heard_from, one.message.origin)]

    def _spend(self, now_ms: int, size: int) -> None:
        self.counts.copies += 1
        self._allowance.spend(now_ms, size)


def _copies(peers: int) -> int:
    """How many of each message this node sends."""
    return peers if peers <= DIRECT_MAX else FAN_OUT + RIDES


def _some(peers: Sequence[str], rng: SwimRng) -> list[str]:
    """A few of many."""
    chosen = set[int]()
    while len(chosen) < FAN_OUT:
        chosen.add(int(rng.random() * len(peers)))
    return [peers[index] for index in sorted(chosen)]


def pack_messages(messages: Iterable[UserMessage], room: int) -> list[tuple[UserMessage, ...]]:
    """For as few datagrams as their order allows; each has room for so many bytes, and for one message at least."""
    groups: list[list[UserMessage]] = []
    left = 0
    for message in messages:
        size = message_bytes(message)
        if not groups or size > left:
            groups.append([])
            left = room
        groups[-1].append(message)
        left -= size
    return [*map(tuple, groups)]
