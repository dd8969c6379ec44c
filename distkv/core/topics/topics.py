"""All copies of topics of this node: what the disk has of them, and which there are.

Knows: which rows belong to which copy, and what becomes of rows that are bad, lost or nobody's.  Does not know who owns
a topic.

A row that cannot be read is set aside: it stays on the disk, and is counted. Rows of a copy whose name is lost wait
until somebody says the name.

Invariant: no two copies have one id.  Whatever the disk has, there is an answer, and no error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.copy_rows import KINDS, Changes, CopyRows, KeptRows
from distkv.core.topics.digests import BUCKETS
from distkv.core.topics.loading import load_lost, load_row
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.topic import Topic
from distkv.errors import DecodeError, ExistsError, NoSpaceError, TooLargeError
from distkv.model.invariant import must
from distkv.wire.topic_rows import (
    SEPARATOR,
    TOPIC,
    read_counter,
    read_key,
    read_message,
    read_topic,
    split_counter,
    split_key,
)

SPARE_BYTES: Final = 256 << 10
"""What puts and new subscriptions leave free for what is kept about messages that go: only so can room be made."""
DISK_SPARE_BYTES: Final = 32 << 10
"""So much of it is looked for on the disk. From twice as much on, the node looks for memory at each request, which
costs as much as half a put."""


class Topics:
    """Those of one node, since its machine began."""

    def __init__(self, data: ServiceRows, settings: TopicSettings, now_ms: int) -> None:
        self.bad = 0
        """How many rows could not be read."""
        self.in_doubt: Final = set[str]()
        """Names of topics of which rows were bad or lost: what another copy has is to be joined."""
        self._settings: Final = settings
        self._kept: Final = KeptRows(data)
        self._by_id: Final = dict[str, Topic]()
        """By every id."""
        self._by_name: Final = dict[str, list[Topic]]()
        self._thrown: Final = list[CopyRows]()
        self._strays: Final = set[str]()
        """Ids of copies whose names are lost."""
        self._load(now_ms)

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def of(self, name: str) -> list[Topic]:
        """The copies of a topic; several: they are not one yet, or one of them was dropped."""
        return [*self._by_name.get(name, ())]

    def find(self, name: str, ids: Iterable[str], now_ms: int = 0) -> Topic | None:
        """The copy of this name that has one of these ids."""
        ids = [*ids]
        found = next((topic for topic in self._by_name.get(name, ()) if not topic.ids.isdisjoint(ids)), None)
        if found is None and not self._strays.isdisjoint(ids):
            return self.create(name, ids, now_ms)
        return found

    def all(self) -> list[Topic]:
        """In order of names."""
        return [topic for _, topics in sorted(self._by_name.items()) for topic in topics]

    def check_count(self) -> None:
        """
        Raises:
            TooLargeError: there are as many topics as there may be.
        """
        if len(self) >= self._settings.topics_max:
            raise TooLargeError(
                f"this node has {self._settings.topics_max} topics, as many as limits.topics allows: drop one with"
                " 'distkv client topic drop TOPIC', or allow more"
            )

    def check_ids(self, name: str, ids: Iterable[str]) -> None:
        """An id is that of one topic only, whatever an entry or another node says.

        Raises:
            ExistsError: a topic of another name has one of these ids here.
        """
        for id in ids:
            if (other := self._by_id.get(id)) is not None and other.name != name:
                raise ExistsError(f"the id {id} of the topic {name} is that of {other.name}: drop one of both")

    def create(self, name: str, ids: Iterable[str], now_ms: int = 0) -> Topic:
        """A copy of a topic of which there is none; it has what the disk has of these ids.

        Raises:
            ExistsError: as for `check_ids`.
        """
        ids = [*ids]
        self.check_ids(name, ids)
        topic = self._add(name, ids)
        topic.keep_name()
        for id in sorted(self._strays & topic.ids):
            self._strays.discard(id)
            self._adopt(topic, id, now_ms)
        return topic

    def throw(self, topic: Topic) -> None:
        """It goes, with all its rows."""
        self._remove(topic)
        topic.copy.rows.remove_all()
        self._thrown.append(topic.copy.rows)

    def join_into(self, topic: Topic, other: Topic, now_ms: int = 0) -> None:
        """Two copies of this node are one: the other goes."""
        for bucket in range(BUCKETS):
            topic.join_rows([*other.rows_of(bucket)], now_ms)
        for subscriber, taken_ms in other.copy.taken_here.items():
            topic.take_here(subscriber, taken_ms)
        self.throw(other)
        self.add_ids(topic, other.ids)

    def add_ids(self, topic: Topic, ids: Iterable[str], now_ms: int = 0) -> None:
        """A topic is the same as that with these ids; if this node has other copies with them, all become one.

        Raises:
            ExistsError: as for `check_ids`.
        """
        together = topic.ids.union(ids)
        self.check_ids(topic.name, together)
        for other in self.of(topic.name):
            if other is not topic and not other.ids.isdisjoint(together):
                self.join_into(topic, other, now_ms)
        topic.add_ids(together)
        for id in topic.ids:
            self._by_id[id] = topic

    def check_room(self, turn: ServiceTurn, size: int, *, makes_room: bool = False) -> None:
        """Whether so many bytes more can be kept with this step; to be asked before anything changes.

        Args:
            makes_room: what is kept lets messages go, so it may take half of what others leave free. The rest is for
                what is kept when they go.

        Raises:
            NoSpaceError: the services of this node keep as much as they may, or the disk is full.
            BusyError: the node has not enough memory now.
        """
        data = turn.data
        changed = self._kept.changed_bytes()
        spare = min(SPARE_BYTES, data.bytes_max // 16) // (2 if makes_room else 1)
        if turn.data_bytes + changed + size + spare > data.bytes_max - data.size:
            raise NoSpaceError(
                "the topics of this node cannot keep more: its services keep as much as limits.data_bytes allows; let"
                " subscribers take what waits, drop something, or allow more"
            )
        data.check_room(turn.written_bytes + changed + size + min(spare, DISK_SPARE_BYTES))

    @property
    def has_changed(self) -> bool:
        """Whether `keep` has something to do."""
        return bool(self._kept.changed or self._thrown)

    def keep(self, turn: ServiceTurn) -> list[tuple[Topic, Changes]]:
        """Keep all that changed with this step; what that is, for each copy (a name may have several)."""
        for note in self._kept.notes:
            self._note(turn, *note)
        self._kept.notes.clear()
        for rows in self._thrown:
            rows.keep(turn)
        self._thrown.clear()
        found = [(self._by_id[id], rows.keep(turn)) for id, rows in self._kept.changed.items()]
        self._kept.changed.clear()
        return found

    def check(self, names: Collection[str] | None = None) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold. `names`: look closely only
        at these."""
        for topic in self.all():
            must(all(self._by_id.get(id) is topic for id in topic.ids), "no two copies have one id")
            if names is None or topic.name in names:
                topic.check()
        must({*map(id, self._by_id.values())} == {*map(id, self.all())}, "each copy is found by its ids")

    # -- inside

    def _note(self, turn: ServiceTurn, id: str, note: str, fields: dict[str, object]) -> None:
        topic = self._by_id.get(id)
        turn.note(note, topic="" if topic is None else topic.name, **fields)

    def _add(self, name: str, ids: Iterable[str], id: str | None = None) -> Topic:
        ids = frozenset(ids)
        topic = Topic(name, ids, CopyRows(self._kept, min(ids) if id is None else id), self._settings)
        self._by_name.setdefault(name, []).append(topic)
        for one in ids:
            self._by_id[one] = topic
        return topic

    def _remove(self, topic: Topic) -> None:
        self._by_name[topic.name].remove(topic)
        if not self._by_name[topic.name]:
            del self._by_name[topic.name]
        for id in topic.ids:
            if self._by_id.get(id) is topic:
                del self._by_id[id]

    # -- the disk

    def _load(self, now_ms: int) -> None:
        data = self._kept.data
        for kept, value in data.items(f"{TOPIC}{SEPARATOR}"):
            try:
                id, _ = split_key(kept)
                row = read_topic(value)
            except DecodeError:
                self.bad += 1
                continue
            if id not in self._by_id and self._by_id.keys().isdisjoint(row.ids):
                self._add(row.name, {id, *row.ids}, id)
        for kind in KINDS[1:-1]:
            for kept, value in data.items(f"{kind}{SEPARATOR}"):
                self._load_row(kept, value, now_ms)
        self._load_messages(data.items(f"{KINDS[-1]}{SEPARATOR}"), now_ms)
        self._load_lost("", now_ms)
        if data.is_old or data.is_unknown:
            self.in_doubt.update(self._by_name)

    def _load_messages(self, rows: Iterable[tuple[str, bytes]], now_ms: int) -> None:
        """There may be a great many: what all of one producer have alike is looked at once."""
        known, producer, topic = "", "", None
        for kept, value in rows:
            alike, text = split_counter(kept)
            if alike != known or topic is None:
                self._load_row(kept, value, now_ms)
                known, producer, topic = alike, *self._sender(kept)
                continue
            try:
                topic.copy.load(producer, read_counter(kept, text), read_message(value), now_ms)
            except DecodeError:
                self.bad += 1
                self.in_doubt.add(topic.name)

    def _sender(self, kept: str) -> tuple[str, Topic | None]:
        """Whose message the row is of, and the copy that has it; None: it is not to be loaded."""
        try:
            id, key = split_key(kept)
            topic, what = self._by_id.get(id), read_key(key)
        except DecodeError:
            return "", None
        return what.name, topic if topic is not None and topic.id == id else None

    def _load_row(self, kept: str, value: bytes | None, now_ms: int) -> None:
        """A row of the disk; None: it was there, and is lost."""
        topic = None
        try:
            id, key = split_key(kept)
            what = read_key(key)
            topic = self._by_id.get(id)
            if topic is None:
                self._strays.add(id)
            elif topic.id == id and value is not None:
                load_row(topic.copy, what, value, now_ms)
            elif topic.id == id:
                self.in_doubt.add(topic.name)
                load_lost(topic.copy, what, now_ms)
        except DecodeError:
            self.bad += 1
            if topic is not None:
                self.in_doubt.add(topic.name)

    def _load_lost(self, id: str, now_ms: int) -> None:
        """The rows that are lost, of one id or of all."""
        for kept in sorted(self._kept.data.lost):
            if kept[2:].startswith(id):
                self._load_row(kept, None, now_ms)

    def _adopt(self, topic: Topic, id: str, now_ms: int) -> None:
        """Take over what the disk has under an id, as if another copy had given it."""
        self.in_doubt.add(topic.name)
        if id == topic.id:
            rows = self._rows_below(id)
            for kept, value in rows:
                self._load_row(kept, value, now_ms)
            self._load_lost(id, now_ms)
            return
        stray = self._add(topic.name, {id})
        self._adopt(stray, id, now_ms)
        self.join_into(topic, stray, now_ms)
        self._by_id[id] = topic

    def _rows_below(self, id: str) -> Iterator[tuple[str, bytes]]:
        for kind in KINDS[1:]:
            yield from self._kept.data.items(f"{kind}{SEPARATOR}{id}{SEPARATOR}")
