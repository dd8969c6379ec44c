"""What differs between a tree as it is wanted and a live one, and how the live one is made the same.

Knows: how two trees are compared, and how what differs is written without touching what somebody changed meanwhile.
Does not know where the wanted tree comes from.

Each write has the condition that its path is as the comparison saw it. A node carries out a batch whole or not at all,
so a write that it refuses is taken out, and the others are sent again, in smaller batches for a while: where much has
changed, few writes then wait for one that is refused.

Invariant: a path that changed since it was compared, or that a token holds, is left alone, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from distkv.client.blocking import Client
from distkv.client.questions import Delete, Entry, Set
from distkv.errors import ConflictError, FencedError, NotFoundError, RequestError, TooLargeError
from distkv.model.index import place_of
from distkv.model.path import Path
from distkv.wire.values import canonical, pack_value, unpack_value

BATCH_OPS: Final = 500
BATCH_BYTES: Final = 256 << 10
"""A batch is sent when it has so much; a node takes four times that, if it was not told otherwise."""
PATHS_KEPT: Final = 1000
"""So many of the paths that had changed are told by name."""

_Write: TypeAlias = Set | Delete


@attrs.frozen
class Restored:
    """What a restore did; without `apply`, what it would do."""

    set: int
    """Values that were written: they were others, or missing."""
    deleted: int
    """Values that were not there then."""
    same: int
    """Values that are as they were."""
    changed: int
    """Paths that changed between the comparison and the write, and were left alone."""
    changed_paths: tuple[Path, ...] = ()
    """The first `PATHS_KEPT` of them."""
    fenced: int = 0
    """Paths that are not as they were, and that a token holds: only its holder may write them."""
    fenced_paths: tuple[Path, ...] = ()
    """The first `PATHS_KEPT` of them."""
    unknown: tuple[str, ...] = ()
    """What of the moment could not be known, in lines."""


@attrs.frozen
class Difference:
    """One path, then and now; at least one of the two is there."""

    path: Path
    then: bytes | None
    """Its value, packed."""
    now: Entry | None

    @property
    def is_same(self) -> bool:
        """Whether the values are equal; whether one of them goes by itself does not count."""
        if self.then is None or self.now is None:
            return False
        packed = pack_value(self.now.value)
        # A node stores what others sent it as it came, and what a client writes in the one canonical form.
        return packed == self.then or packed == canonical(self.then)

    @property
    def is_fenced(self) -> bool:
        """Whether a token holds the path, so that a write without its fence would be refused."""
        return self.now is not None and self.now.fence is not None and self.now.fence.holds


def carry_out(client: Client | None, found: Iterable[Difference]) -> Restored:
    """Write what differs, while it comes; without a client only count it.

    Raises:
        UnreachableError: the node is gone.
        ConnectionLostError: the same, and whether the last writes took place is unknown.
        RequestError: the node refuses a value, such as one that is too large for it; the message names the path.
    """
    writing, same = _Writing(client), 0
    for difference in found:
        if difference.is_same:
            same += 1
        else:
            writing.add(difference)
    writing.finish()
    return Restored(
        writing.set, writing.deleted, same,
        writing.changed.count, tuple(writing.changed.paths), writing.fenced.count, tuple(writing.fenced.paths),
    )  # fmt: skip


def differences(then: Iterable[tuple[Path, bytes]], now: Iterable[tuple[Path, Entry]]) -> Iterator[Difference]:
    """Both trees path by path; both come in the order of `get_tree`, and one entry of each is held at a time."""
    olds, news = iter(then), iter(now)
    old, new = next(olds, None), next(news, None)
    while old is not None or new is not None:
        if new is None or (old is not None and place_of(old[0].key) < place_of(new[0].key)):
            assert old is not None
            yield Difference(*old, None)
            old = next(olds, None)
        elif old is None or old[0] != new[0]:
            yield Difference(new[0], None, new[1])
            new = next(news, None)
        else:
            yield Difference(*old, new[1])
            old, new = next(olds, None), next(news, None)


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.define
class _LeftAlone:
    """Paths that were not written."""

    count: int = 0
    paths: list[Path] = attrs.field(factory=list)
    """The first `PATHS_KEPT` of them."""

    def add(self, path: Path) -> None:
        self.count += 1
        if len(self.paths) < PATHS_KEPT:
            self.paths.append(path)


class _Writing:
    """Writes in batches; without a client it only counts them."""

    def __init__(self, client: Client | None) -> None:
        self.set = self.deleted = 0
        self.changed, self.fenced = _LeftAlone(), _LeftAlone()
        self._client = client
        self._waiting: list[_Write] = []
        self._size = 0
        self._ops_max = BATCH_OPS

    def add(self, difference: Difference) -> None:
        """Make a path again what it was, now or with others later."""
        if difference.is_fenced:
            self.fenced.add(difference.path)
            return
        if self._client is None:
            self._count_done([_write_of(difference)])
            return
        self._waiting.append(_write_of(difference))
        self._size += len(difference.then or b"")
        if len(self._waiting) >= BATCH_OPS or self._size >= BATCH_BYTES:
            self.finish()

    def finish(self) -> None:
        """Send what waits."""
        left, self._waiting, self._size = self._waiting, [], 0
        while left:
            some, rest = left[: self._ops_max], left[self._ops_max :]
            left = [*self._send(some), *rest]

    def _send(self, batch: list[_Write]) -> list[_Write]:
        """Carry out a batch; what is to be sent again of it."""
        assert self._client is not None
        try:
            operations: list[Set | Delete] = batch
            self._client.batch(operations)
        except (ConflictError, NotFoundError) as error:
            at = 0 if len(batch) == 1 else error.op
            self._ops_max = max(1, len(batch) // 2)
            if at is None or not 0 <= at < len(batch):
                return batch  # the node does not say which; smaller batches find it
            left = self.fenced if isinstance(error, FencedError) else self.changed
            left.add(_path_of(batch[at]))
            return batch[:at] + batch[at + 1 :]
        except TooLargeError as error:
            if len(batch) == 1:
                raise _refused(error, batch) from None
            self._ops_max = len(batch) // 2
            return batch
        except RequestError as error:
            raise _refused(error, batch) from None
        self._ops_max = min(BATCH_OPS, 2 * self._ops_max)
        self._count_done(batch)
        return []

    def _count_done(self, batch: list[_Write]) -> None:
        sets = sum(isinstance(write, Set) for write in batch)
        self.set += sets
        self.deleted += len(batch) - sets


def _write_of(difference: Difference) -> _Write:
    """Only while the path is as it was seen. `Set` packs its value into the same bytes again, for every value that can
    be stored (tests/property/test_wire_values.py)."""
    seen = None if difference.now is None else difference.now.chain[0]
    if difference.then is None:
        return Delete(difference.path, head=seen)
    return Set(difference.path, unpack_value(difference.then), head=seen, new=seen is None)


def _path_of(write: _Write) -> Path:
    return write.path if isinstance(write.path, Path) else Path.parse(write.path)


def _refused(error: RequestError, batch: list[_Write]) -> RequestError:
    path = _path_of(batch[error.op or 0])
    return type(error)(f"{path}: {error}; what was written before stays, and a second run goes on behind it")
