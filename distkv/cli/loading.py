"""What `distkv client load` stores: values in batches, and the counts of what became of them.

Knows: how a tree is cut into batches, when a value's time is over, and what is said of it.  Does not know the forms
that are read (`transfer`), nor the client protocol.

Invariant: each value is counted once: stored, the same, or left out. When one cannot be read or is refused, those
before it are stored, and the error says how many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from distkv.client.blocking import Client
from distkv.client.questions import Entry, Set
from distkv.errors import RequestError, TooLargeError
from distkv.model.fence import Fence
from distkv.model.path import NAMES_MAX, Path
from distkv.model.sameness import same_value
from distkv.wire.events import TTL_S_MAX
from distkv.wire.values import pack_value

BATCH_OPS: Final = 500
BATCH_BYTES: Final = 256 << 10
"""A batch is sent when it has so much; the server takes four times that, if it was not told otherwise."""


@attrs.frozen
class Item:
    """One value that was read."""

    path: Path
    value: object
    where: str
    """Line or number, for people."""
    ttl_s: float | None = None
    """So long it stays when it is stored now."""
    end_s: float | None = None
    """When it ends, in seconds since 1970, whatever the ttl says."""
    fence: Fence | None = None
    may_be_tree: bool = False
    """Whether somebody who wrote a map may have meant a value for each of its names."""

    def left_s(self, now_s: float) -> float | None:
        """How long it stays; None: until it is deleted."""
        return self.ttl_s if self.end_s is None else min(self.end_s - now_s, TTL_S_MAX)


@attrs.define
class Loading:
    """Values on their way into a node."""

    connect: Callable[[], Client]
    top: Path
    with_fences: bool = True
    _client: Client | None = None
    stored: int = 0
    same: int = 0
    """So many were there already."""
    over: int = 0
    """So many were left out, because their time is over."""
    maps: int = 0
    """So many were maps where somebody may have meant paths."""
    first_map: Path | None = None
    """A name in the first of these, as a path."""

    def store(self, items: Iterable[Item]) -> None:
        """In batches, each of which is stored whole or not at all; a path that comes twice begins a new one.

        Raises:
            RequestError: one cannot be read, or is refused; those before it are stored.
        """
        reading = _measured(items)
        batch: dict[Path, Item] = {}
        size = 0
        while True:
            try:
                found = next(reading, None)
            except RequestError as error:
                self._send(list(batch.items()))
                raise self._told(error) from None
            if found is None:
                break
            item, more = found
            where = Path(self.top.names + item.path.names)
            if where in batch or len(batch) >= BATCH_OPS or size >= BATCH_BYTES:
                self._send(list(batch.items()))
                batch, size = {}, 0
            batch[where] = item
            size += more
            if item.may_be_tree and isinstance(item.value, dict) and item.value:
                self.maps += 1
                self.first_map = self.first_map or _first_below(where, item.value)
        self._send(list(batch.items()))

    @property
    def words(self) -> str:
        """What became of them, for people."""
        more = f", {self.same} the same" if self.same else ""
        return f"{values(self.stored)} stored{more}{f', {self.over} left out' if self.over else ''}"

    @property
    def remarks(self) -> Iterator[str]:
        """What somebody may not expect."""
        if self.over:
            yield f"{values(self.over)} left out: the time that was left is over"
        if self.first_map is not None:
            which = "one of them is a map" if self.maps == 1 else f"{self.maps} of them are maps"
            path = f"write a path, such as '{self.first_map}: ...'"
            yield f"{which}, and a map is one value: for a value of its own, {path}"

    @property
    def counts(self) -> dict[str, object]:
        """The same for programs."""
        return {"stored": self.stored, "same": self.same, **({"left_out": self.over} if self.over else {})}

    def close(self) -> None:
        """May be called again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- inside

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self.connect()
        return self._client

    def _send(self, batch: list[tuple[Path, Item]]) -> None:
        """Store a batch, in parts when the server takes less at once than we thought."""
        now_s = time.time()
        writes, kept = [], []
        for path, item in batch:
            ttl = item.left_s(now_s)
            if ttl is not None and ttl <= 0:
                self.over += 1
                continue
            fence = item.fence if self.with_fences else None
            writes.append(Set(path, item.value, idem=True, ttl=ttl, fence=fence))
            kept.append((path, item))
        if not writes:
            return
        try:
            changed = sum(written.changed for written in self.client.batch(writes))
        except TooLargeError as error:
            self.close()  # the server does so, too: what is left of such a request is no request
            self._send_less(kept, writes[0], error)
        except RequestError as error:
            self._send(kept[: error.op or 0])
            raise self._told(error, kept[error.op or 0][1]) from None
        else:
            self.stored += changed
            self.same += len(writes) - changed

    def _send_less(self, batch: list[tuple[Path, Item]], first: Set, error: TooLargeError) -> None:
        """A part after the other; a value for which a batch has no room alone, as `set` stores it."""
        if len(batch) > 1:
            half = len(batch) // 2
            self._send(batch[:half])
            self._send(batch[half:])
            return
        try:
            if _is_there(first, self.client.get(first.path)):
                self.same += 1
                return
            self.client.set(first.path, first.value, ttl=first.ttl, fence=first.fence)
        except RequestError as refused:
            raise self._told(error if isinstance(refused, TooLargeError) else refused, batch[0][1]) from None
        self.stored += 1

    def _told(self, error: RequestError, item: Item | None = None) -> RequestError:
        """The error with what it is about, and what was done before."""
        done = self.stored + self.same
        where = "" if item is None else f"{item.where}: "
        what = str(error).removeprefix(f"op {error.op}: ")  # a number that only we know
        return type(error)(f"{where}{what} ({values(done)} before it {'was' if done == 1 else 'were'} stored)")


def values(count: int) -> str:
    """So many, in words."""
    return "one value" if count == 1 else f"{count} values"


def _measured(items: Iterable[Item]) -> Iterator[tuple[Item, int]]:
    """Each with its size as it is stored.

    Raises:
        RequestError: one cannot be read, or not be stored.
    """
    for item in items:
        try:
            size = len(pack_value(item.value))
        except RequestError as error:
            raise type(error)(f"{item.where}: {error}") from None
        yield item, size


def _first_below(path: Path, value: dict[object, object]) -> Path:
    """The first name of a map, as a path."""
    names = [name for name in value if isinstance(name, str)]
    return Path((*path.names, *names[:1])) if len(path) < NAMES_MAX else path


def _is_there(write: Set, there: Entry | None) -> bool:
    """Whether `idem` would do nothing."""
    if there is None or (write.ttl, write.fence, there.ttl) != (None, None, None):
        return False
    return same_value(pack_value(there.value), pack_value(write.value))
